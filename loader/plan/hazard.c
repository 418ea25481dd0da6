// SPDX-License-Identifier: GPL-2.0-or-later
#include "plan/hazard.h"

#include <errno.h>
#include <fnmatch.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "program/image.h"
#include "program/name.h"
#include "code/stack_switch.h"
#include "code/unwind.h"

struct danger {
	const char *name; /* of a library (a glob) or of a symbol */
	enum hazard_kind kind;
	bool interrupts; /* at any instruction, leaves too */
};

static const struct danger libraries[] = {
	{"libstdc++.so*", HAZARD_ABORTS, false},       {"libc++.so*", HAZARD_ABORTS, false},
	{"libc++abi.so*", HAZARD_ABORTS, false},       {"libgcc_s.so*", HAZARD_ABORTS, false},
	{"libgcc_s-*.so*", HAZARD_ABORTS, false},      {"libunwind.so*", HAZARD_ABORTS, false},
	{"libunwind-*.so*", HAZARD_ABORTS, false},     {"libstd-*.so", HAZARD_ABORTS, false},
	{"libboost_context.so*", HAZARD_MOVES, false}, {"libgo.so*", HAZARD_MOVES, true},
};

static const struct danger raisers[] = {
	{"__cxa_throw", HAZARD_ABORTS, false},
	{"__cxa_rethrow", HAZARD_ABORTS, false},
	{"_Unwind_RaiseException", HAZARD_ABORTS, false},
	{"_Unwind_Resume", HAZARD_ABORTS, false},
	{"_Unwind_Resume_or_Rethrow", HAZARD_ABORTS, false},
	{"_Unwind_ForcedUnwind", HAZARD_ABORTS, false},
	{"rust_panic", HAZARD_ABORTS, false},
	{"pthread_exit", HAZARD_SKIPS, false},
	{"thrd_exit", HAZARD_SKIPS, false},
	/*
	 * A deferred cancellation comes in a system call, which older C libraries make asynchronous
	 * for its time: a handler that runs a leaf then may be cancelled too.
	 */
	{"pthread_cancel", HAZARD_SKIPS, true},
	{"pthread_setcanceltype", HAZARD_SKIPS, true},
	{"setcontext", HAZARD_MOVES, false},
	{"swapcontext", HAZARD_MOVES, false},
	{"makecontext", HAZARD_MOVES, false},
	{"jump_fcontext", HAZARD_MOVES, false},
	{"make_fcontext", HAZARD_MOVES, false},
	{"ontop_fcontext", HAZARD_MOVES, false},
	/*
	 * A leaf called by a handler on such a stack ends the one that it interrupted, for the
	 * kernel.
	 */
	{"sigaltstack", HAZARD_SIGNAL, true},
	{"dlopen", HAZARD_LOADS, false},
	{"dlmopen", HAZARD_LOADS, false},
	{"__libc_dlopen_mode", HAZARD_LOADS, false},
};

/* Their names are no dangers, but a handler may be where a danger happens. */
static const char *const handlers[] = {
	"sigaction", "signal", "bsd_signal", "sysv_signal", "__sysv_signal",
	"ssignal",   "sigset", "sigvec",     NULL,
};

static const char *const jumps[] = {"longjmp", "_longjmp", "siglongjmp", "__longjmp_chk", NULL};

struct check {
	const struct module *module;
	struct hazard *hazard;
	unsigned int kinds; /* found in this object, a bit for each */
};

#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))

/* ---- what was found ---- */

const char *hazard_danger(enum hazard_kind kind)
{
	switch (kind) {
	case HAZARD_ABORTS:
		return "a C++ exception or Rust panic through a hooked function aborts the program";
	case HAZARD_MOVES:
		return "a stack switch inside a hooked function returns to the wrong place and crashes the "
		       "program";
	case HAZARD_SKIPS:
		return "a thread that ends inside a hooked function skips the clean-up of its callers";
	case HAZARD_SIGNAL:
		return "a signal handler on a stack of its own may crash the program when it calls a hooked "
		       "function";
	case HAZARD_UNSEEN:
		return "code that cannot be looked through may raise exceptions or switch stacks";
	default:
		return "code that is loaded later may raise exceptions or switch stacks";
	}
}

/* Also after what is no evidence, as a handler is none. */
static void conclude_hazard(struct hazard *hazard)
{
	const struct hazard_evidence *first = NULL;
	const bool *kinds = hazard->kinds;
	size_t others;
	char more[48] = "";

	hazard->asynchronous =
		hazard->interrupts || kinds[HAZARD_UNSEEN] ||
		(hazard->handles_signals &&
		 (kinds[HAZARD_ABORTS] || kinds[HAZARD_MOVES] || kinds[HAZARD_SKIPS]));
	for (size_t i = 0; i < hazard->count; i++) {
		if (!first || hazard->items[i].kind < first->kind)
			first = &hazard->items[i];
	}
	if (!first)
		return;
	others = hazard->count + hazard->left_out - 1;
	if (others)
		snprintf(more, sizeof(more), " (and %zu more)", others);
	snprintf(hazard->evidence, sizeof(hazard->evidence), "%s%s%s: %s%s", first->object,
		 first->object[0] ? " " : "", first->found, hazard_danger(first->kind), more);
}

static const char *path_end(const char *path)
{
	size_t length = strlen(path), room = sizeof(((struct hazard_evidence *)0)->object);

	return length < room ? path : path + length - room + 1;
}

static bool is_kept(const struct hazard *hazard, const char *object, enum hazard_kind kind)
{
	for (size_t i = 0; i < hazard->count; i++) {
		if (hazard->items[i].kind == kind &&
		    strcmp(hazard->items[i].object, path_end(object)) == 0)
			return true;
	}
	return false;
}

/* An object of "" is the process itself, for which there may be more than one kind of evidence. */
static void find_hazard(struct hazard *hazard, const char *object, enum hazard_kind kind,
			const char *found)
{
	struct hazard_evidence *item;

	hazard->found = hazard->kinds[kind] = true;
	if (object[0] && is_kept(hazard, object, kind))
		return;
	if (hazard->count == HAZARD_EVIDENCE_MOST) {
		hazard->left_out++;
		return;
	}
	item = &hazard->items[hazard->count];
	item->kind = kind;
	snprintf(item->object, sizeof(item->object), "%s", path_end(object));
	snprintf(item->found, sizeof(item->found), "%s", found);
	hazard->count++;
}

static void find_in_module(struct check *check, enum hazard_kind kind, const char *found)
{
	if (check->kinds & 1u << kind)
		return;
	check->kinds |= 1u << kind;
	find_hazard(check->hazard, check->module->path, kind, found);
}

/* ---- one object ---- */

static void check_name(struct check *check)
{
	for (size_t i = 0; i < LENGTH(libraries); i++) {
		if (fnmatch(libraries[i].name, check->module->base, 0))
			continue;
		find_in_module(check, libraries[i].kind, "is mapped");
		check->hazard->interrupts |= libraries[i].interrupts;
	}
}

/* What is imported, and what is defined: a static program imports nothing. */
static int check_symbol(const struct image_symbol *symbol, void *context)
{
	struct check *check = context;
	size_t length;
	char found[96];

	/* Most names of large programs are these, and none of ours. */
	if ((symbol->name[0] == '_' && symbol->name[1] == 'Z') ||
	    (!symbol->undefined && !symbol->in_code))
		return 0;
	length = name_without_version(symbol->name);
	check->hazard->handles_signals |= name_is_among(handlers, symbol->name, length);
	check->hazard->jumps |= name_is_among(jumps, symbol->name, length);
	check->hazard->execs |= name_is_exec(symbol->name, length);
	for (size_t i = 0; i < LENGTH(raisers); i++) {
		if (raisers[i].name[0] != symbol->name[0] ||
		    strncmp(raisers[i].name, symbol->name, length) || raisers[i].name[length])
			continue;
		snprintf(found, sizeof(found), "%s %s", symbol->undefined ? "imports" : "contains",
			 raisers[i].name);
		find_in_module(check, raisers[i].kind, found);
		check->hazard->interrupts |= raisers[i].interrupts;
	}
	return 0;
}

static int check_stack(struct check *check, struct image *image)
{
	struct stack_switch found;
	char text[96];
	int err = stack_switch_find(image, &found);

	if (err || !found.found)
		return err;
	snprintf(text, sizeof(text), "loads the stack pointer at %#" PRIx64, found.address);
	find_in_module(check, HAZARD_MOVES, text);
	return 0;
}

static int check_image(struct check *check, struct image *image)
{
	/*
	 * Its handlers and its scheduler come at any instruction, and all that it does is done by
	 * hand.
	 */
	if (image_has_section(image, ".note.go.buildid") ||
	    image_has_section(image, ".gopclntab")) {
		find_in_module(check, HAZARD_MOVES, "is a Go program, whose stacks move");
		check->hazard->interrupts = true;
		check->hazard->moves_stacks = true;
		return 0;
	}
	if (image_has_section(image, ".gcc_except_table"))
		find_in_module(check, HAZARD_ABORTS,
			       "has tables for exceptions (.gcc_except_table)");
	else if (unwind_has_personality(image))
		find_in_module(check, HAZARD_ABORTS,
			       "has clean-ups for exceptions (a personality routine)");
	image_each_symbol(image, check_symbol, check);
	/* The verdict would be the same, and this is the slowest look at the largest objects. */
	if (check->kinds & (1u << HAZARD_ABORTS | 1u << HAZARD_MOVES))
		return 0;
	return check_stack(check, image);
}

static int check_module(struct check *check)
{
	struct image image;
	int err;

	if (check->module->is_libc)
		return 0;
	check_name(check);
	err = image_open(check->module, &image);
	/* what a compiler at run time wrote to a file, or it would not be executable */
	if (err == -ENOEXEC) {
		find_in_module(check, HAZARD_UNSEEN,
			       "is mapped as code, but is not a program or library");
		return 0;
	}
	if (!err) {
		err = check_image(check, &image);
		image_close(&image);
	}
	if (err)
		log_error("cannot look for exceptions and stack switches in %s (through %s): %s",
			  check->module->path, check->module->probe_path, strerror(-err));
	return err;
}

/* ---- all of them ---- */

int hazard_add(struct hazard *hazard, const struct module *module)
{
	struct check check = {.module = module, .hazard = hazard};
	int err = check_module(&check);

	conclude_hazard(hazard);
	return err;
}

void hazard_add_unseen(struct hazard *hazard, const struct module_list *modules)
{
	if (modules->makes_code)
		find_hazard(hazard, "", HAZARD_UNSEEN, "the program runs code of its own making");
	if (modules->is_incomplete)
		find_hazard(hazard, "", HAZARD_UNSEEN,
			    "not all of its files could be looked through");
	conclude_hazard(hazard);
}

int hazard_check(const struct module_list *modules, struct hazard *hazard)
{
	int err = 0;

	*hazard = (struct hazard){0};
	for (size_t i = 0; i < modules->count && !err; i++)
		err = hazard_add(hazard, &modules->items[i]);
	hazard_add_unseen(hazard, modules);
	return err;
}
