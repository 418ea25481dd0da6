// SPDX-License-Identifier: GPL-2.0-or-later
#include "target/hazard.h"

#include <errno.h>
#include <fnmatch.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "target/image.h"
#include "target/name.h"

struct danger {
	const char *name; /* of a library (a glob) or of a symbol */
	const char *what;
};

#define ABORTS "a C++ exception or Rust panic through a hooked function aborts the program"
#define SKIPS  "a thread that ends inside a hooked function skips the clean-up of its callers"
#define MOVES  "a stack switch inside a hooked function returns to the wrong place and crashes the program"
#define SIGNAL "a signal handler on a stack of its own may crash the program when it calls a hooked function"

static const struct danger libraries[] = {
	{"libstdc++.so*", ABORTS},   {"libc++.so*", ABORTS},	 {"libc++abi.so*", ABORTS},
	{"libgcc_s.so*", ABORTS},    {"libgcc_s-*.so*", ABORTS}, {"libunwind.so*", ABORTS},
	{"libunwind-*.so*", ABORTS}, {"libstd-*.so", ABORTS},	 {"libboost_context.so*", MOVES},
};

static const struct danger raisers[] = {
	{"__cxa_throw", ABORTS},
	{"__cxa_rethrow", ABORTS},
	{"_Unwind_RaiseException", ABORTS},
	{"_Unwind_Resume", ABORTS},
	{"_Unwind_Resume_or_Rethrow", ABORTS},
	{"_Unwind_ForcedUnwind", ABORTS},
	{"rust_panic", ABORTS},
	{"pthread_exit", SKIPS},
	{"thrd_exit", SKIPS},
	{"pthread_cancel", SKIPS},
	{"setcontext", MOVES},
	{"swapcontext", MOVES},
	{"makecontext", MOVES},
	{"jump_fcontext", MOVES},
	{"make_fcontext", MOVES},
	{"ontop_fcontext", MOVES},
	{"sigaltstack", SIGNAL},
};

struct check {
	const struct module *module;
	struct hazard *hazard;
};

static void find_hazard(struct check *check, const char *found, const char *what)
{
	check->hazard->found = true;
	snprintf(check->hazard->evidence, sizeof(check->hazard->evidence), "%s %s: %s", check->module->path,
		 found, what);
}

static bool check_name(struct check *check)
{
	for (size_t i = 0; i < sizeof(libraries) / sizeof(libraries[0]); i++) {
		if (fnmatch(libraries[i].name, check->module->base, 0))
			continue;
		find_hazard(check, "is mapped", libraries[i].what);
		return true;
	}
	return false;
}

/* libc and ld.so define every raiser; libm has unwind tables and raises nothing. */
static bool is_exempt(const struct module *module)
{
	return module->is_libc || (!module->is_main && (fnmatch("libm.so*", module->base, 0) == 0 ||
							fnmatch("libm-2.*", module->base, 0) == 0));
}

static int check_symbol(const struct image_symbol *symbol, void *context)
{
	struct check *check = context;
	size_t length = name_without_version(symbol->name);
	char found[96];

	for (size_t i = 0; i < sizeof(raisers) / sizeof(raisers[0]); i++) {
		if (strlen(raisers[i].name) != length || strncmp(symbol->name, raisers[i].name, length))
			continue;
		snprintf(found, sizeof(found), "%s %s", symbol->undefined ? "imports" : "contains",
			 raisers[i].name);
		find_hazard(check, found, raisers[i].what);
		return 1;
	}
	return 0;
}

static void check_image(struct check *check, struct image *image)
{
	if (image_has_section(image, ".note.go.buildid") || image_has_section(image, ".gopclntab"))
		find_hazard(check, "is a Go program",
			    "its stacks move, and then a hooked function returns to nowhere");
	else if (image_has_section(image, ".gcc_except_table"))
		find_hazard(check, "has tables for exceptions (.gcc_except_table)", ABORTS);
	else
		image_each_symbol(image, check_symbol, check);
}

static int check_module(struct check *check)
{
	struct image image;
	int err;

	if (check_name(check) || is_exempt(check->module))
		return 0;
	err = image_open(check->module, &image);
	if (err == -ENOEXEC) /* a data file, mapped executable */
		return 0;
	if (err) {
		log_error("cannot look for exceptions in %s (through %s): %s", check->module->path,
			  check->module->probe_path, strerror(-err));
		return err;
	}
	check_image(check, &image);
	image_close(&image);
	return 0;
}

int hazard_check(const struct module_list *modules, struct hazard *hazard)
{
	struct check check = {.hazard = hazard};

	*hazard = (struct hazard){0};
	for (size_t i = 0; i < modules->count && !hazard->found; i++) {
		int err;

		check.module = &modules->items[i];
		err = check_module(&check);
		if (err)
			return err;
	}
	if (!hazard->found && modules->is_incomplete) {
		hazard->found = true;
		snprintf(hazard->evidence, sizeof(hazard->evidence),
			 "not all of its files could be looked through, and one may raise exceptions");
	}
	return 0;
}
