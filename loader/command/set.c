// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/demangle.h"
#include "base/log.h"
#include "base/vec.h"
#include "command/command.h"
#include "command/options.h"
#include "pinned/processes.h"
#include "command/quantity.h"
#include "pinned/directory.h"

static const char help[] =
	"usage: scopetrace set --pin DIR CHANGE...\n"
	"Changes the pinned capture in DIR while it runs; each is in force at the next hit. The changes are made\n"
	"in the order given. `bpftool map update` does the same: scopetrace-pinned(7) tells the bytes.\n\n"
	"      --pin DIR            where\n"
	"      --off NAME           no more calls of this function ('GLOB*' for several); --on NAME: again\n"
	"      --min TIME           drop calls that are shorter (they are counted); 0: none\n"
	"      --min NAME=TIME      of this function only\n"
	"      --pause              no more calls at all; --resume: again\n"
	"      --add-pid PID        hook this process too, which runs the same files\n"
	"      --remove-pid PID     no more of this process\n"
	"  -h, --help\n\n"
	"Exit status: 0 done, 1 failed (the changes before the one that failed are made), 2 usage.\n";

enum change_kind {
	CHANGE_OFF,
	CHANGE_ON,
	CHANGE_MIN,
	CHANGE_PAUSE,
	CHANGE_RESUME,
	CHANGE_ADD,
	CHANGE_REMOVE
};

struct change {
	enum change_kind kind;
	const char *name; /* of functions, a glob */
	uint64_t minimum_ns;
	pid_t pid;
};

struct changes {
	struct change *items;
	size_t count, capacity;
};

struct parsed {
	const char *dir;
	struct changes changes;
};

/* ---- options ---- */

static int add_change(struct changes *changes, struct change change)
{
	if (vec_grow(&changes->items, &changes->capacity, changes->count))
		return -ENOMEM;
	changes->items[changes->count++] = change;
	return 0;
}

static int read_off(char *name, void *changes)
{
	return add_change(changes, (struct change){.kind = CHANGE_OFF, .name = name});
}

static int read_on(char *name, void *changes)
{
	return add_change(changes, (struct change){.kind = CHANGE_ON, .name = name});
}

static int read_pause(char *value, void *changes)
{
	(void)value;
	return add_change(changes, (struct change){.kind = CHANGE_PAUSE});
}

static int read_resume(char *value, void *changes)
{
	(void)value;
	return add_change(changes, (struct change){.kind = CHANGE_RESUME});
}

static int read_process(enum change_kind kind, const char *text, struct changes *changes)
{
	struct change change = {.kind = kind};

	return parse_pid(text, &change.pid)
		       ? option_refuse("--add-pid, --remove-pid", text, "wants a process id")
		       : add_change(changes, change);
}

static int read_add(char *text, void *changes)
{
	return read_process(CHANGE_ADD, text, changes);
}

static int read_remove(char *text, void *changes)
{
	return read_process(CHANGE_REMOVE, text, changes);
}

/* TIME, 0, or NAME=TIME; the name is cut off its own text. */
static int read_minimum(char *text, void *changes)
{
	struct change change = {.kind = CHANGE_MIN};
	char *equals = strrchr(text, '=');
	const char *time = equals ? equals + 1 : text;

	if (strcmp(time, "0") != 0 && parse_duration(time, &change.minimum_ns))
		return option_refuse("--min", text,
				     "wants a time such as 50us, 0, or FUNCTION=TIME");
	if (equals) {
		*equals = '\0';
		change.name = text;
	}
	return add_change(changes, change);
}

static const struct option_row rows[] = {
	{"pin", 0, required_argument, option_text, offsetof(struct parsed, dir)},
	{"off", 0, required_argument, read_off, offsetof(struct parsed, changes)},
	{"on", 0, required_argument, read_on, offsetof(struct parsed, changes)},
	{"min", 0, required_argument, read_minimum, offsetof(struct parsed, changes)},
	{"pause", 0, no_argument, read_pause, offsetof(struct parsed, changes)},
	{"resume", 0, no_argument, read_resume, offsetof(struct parsed, changes)},
	{"add-pid", 0, required_argument, read_add, offsetof(struct parsed, changes)},
	{"remove-pid", 0, required_argument, read_remove, offsetof(struct parsed, changes)},
	OPTION_HELP,
};

static const struct option_table table = {"set", rows, sizeof(rows) / sizeof(*rows),
					  false, NULL, NULL};

/* 0, OPTIONS_HELP or -errno, logged. */
static int parse(struct parsed *parsed, int argc, char **argv)
{
	int err = options_read(&table, parsed, argc, argv);

	if (err || (parsed->dir && parsed->changes.count && optind == argc))
		return err;
	log_error("set wants --pin DIR and what to change; `scopetrace set --help` tells more");
	return -EINVAL;
}

/* ---- functions ---- */

/* Matching as strcmp does, so that a name with brackets is found as it stands, or as a glob. */
typedef int matcher(const char *wanted, const char *name);

static int match_glob(const char *wanted, const char *name)
{
	return fnmatch(wanted, name, 0);
}

/* By the symbol, or as people call it, with or without its parameters. */
static bool is_named(const char *symbol, const char *wanted, matcher *match)
{
	char *demangled = demangle(symbol), *end;
	bool found = match(wanted, symbol) == 0;

	if (!found && demangled) {
		found = match(wanted, demangled) == 0;
		end = strchr(demangled, '(');
		if (end)
			*end = '\0';
		found = found || match(wanted, demangled) == 0;
	}
	free(demangled);
	return found;
}

static void change_function(const struct change *change, struct function_setting *setting)
{
	if (change->kind == CHANGE_MIN)
		setting->minimum_ns = change->minimum_ns;
	else if (change->kind == CHANGE_OFF)
		setting->flags |= FUNCTION_OFF;
	else
		setting->flags &= ~(uint32_t)FUNCTION_OFF;
}

static int change_matching(const struct pinned *pinned, const struct change *change, matcher *match,
			   size_t *found)
{
	struct function_setting setting;
	int err = 0;

	for (uint32_t i = 0; i < pinned->capture.functions && !err; i++) {
		err = pinned_function(pinned, i, &setting);
		if (err || !is_named(setting.name, change->name, match))
			continue;
		++*found;
		change_function(change, &setting);
		err = pinned_put_function(pinned, i, &setting);
	}
	return err;
}

static int change_functions(const struct pinned *pinned, const struct change *change)
{
	size_t found = 0;
	int err = change_matching(pinned, change, strcmp, &found);

	if (!err && !found)
		err = change_matching(pinned, change, match_glob, &found);
	if (err || found)
		return err;
	log_error(
		"no function of the capture is named '%s'; `scopetrace status --pin %s` lists them",
		change->name, pinned->dir);
	return -ENOENT;
}

/* ---- all ---- */

static int change_settings(const struct pinned *pinned, const struct change *change)
{
	struct pairing_settings settings;
	int err = pinned_settings(pinned, &settings);

	if (err)
		return err;
	if (change->kind == CHANGE_MIN)
		settings.minimum_ns = change->minimum_ns;
	else if (change->kind == CHANGE_PAUSE)
		settings.flags |= SETTING_PAUSED;
	else
		settings.flags &= ~(uint32_t)SETTING_PAUSED;
	return pinned_put_settings(pinned, &settings);
}

static int apply(const struct pinned *pinned, const struct change *change)
{
	if (change->kind == CHANGE_ADD)
		return pinned_add(pinned, change->pid);
	if (change->kind == CHANGE_REMOVE)
		return pinned_take_out(pinned, change->pid);
	return change->name ? change_functions(pinned, change) : change_settings(pinned, change);
}

/* The lock first: what was opened before may be gone when we have waited for it. */
static int open_to_change(struct pinned *pinned, const char *dir, int *lock)
{
	int err;

	*lock = pin_wait_changes(dir);
	if (*lock < 0 && *lock != -ENOENT)
		return *lock;
	err = pinned_open(pinned, dir);
	if (!err && *lock == -ENOENT) {
		log_error(
			"the links of %s were removed by hand: nothing is traced any more; `scopetrace detach` "
			"removes the rest",
			dir);
		err = -ENOENT;
	}
	return err;
}

static int apply_all(const struct parsed *parsed)
{
	struct pinned pinned = {0};
	int lock, err = open_to_change(&pinned, parsed->dir, &lock);

	for (size_t i = 0; i < parsed->changes.count && !err; i++)
		err = apply(&pinned, &parsed->changes.items[i]);
	if (lock >= 0)
		close(lock);
	pinned_close(&pinned);
	return err;
}

int command_set(int argc, char **argv)
{
	struct parsed parsed = {0};
	int err = parse(&parsed, argc, argv), code = EXIT_DONE;

	if (err == OPTIONS_HELP)
		fputs(help, stdout);
	else if (err)
		code = EXIT_USAGE;
	else if (apply_all(&parsed))
		code = EXIT_FAILED;
	free(parsed.changes.items);
	return code;
}
