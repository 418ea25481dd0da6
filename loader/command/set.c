// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <fnmatch.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/demangle.h"
#include "base/log.h"
#include "base/vec.h"
#include "command/command.h"
#include "command/pinned_add.h"
#include "command/quantity.h"
#include "probe/pin.h"

static const char help[] =
	"usage: scopetrace set --pin DIR CHANGE...\n"
	"Changes the pinned capture in DIR while it runs; in force within milliseconds. The changes are made in the\n"
	"order given. `bpftool map update` does the same: scopetrace-pinned(7) tells the bytes.\n\n"
	"      --pin DIR            where\n"
	"      --off NAME           no more calls of this function ('GLOB*' for several); --on NAME: again\n"
	"      --min TIME           drop calls that are shorter (they are counted); 0: none\n"
	"      --min NAME=TIME      of this function only\n"
	"      --pause              no more calls at all; --resume: again\n"
	"      --add-pid PID        hook this process too, which runs the same files\n"
	"      --remove-pid PID     no more of this process\n"
	"  -h, --help\n\n"
	"Exit status: 0 done, 1 failed (the changes before the one that failed are made), 2 usage.\n";

enum {
	OPTION_PIN = 256,
	OPTION_OFF,
	OPTION_ON,
	OPTION_MIN,
	OPTION_PAUSE,
	OPTION_RESUME,
	OPTION_ADD,
	OPTION_REMOVE,
};

static const struct option long_options[] = {
	{"pin", required_argument, NULL, OPTION_PIN},
	{"off", required_argument, NULL, OPTION_OFF},
	{"on", required_argument, NULL, OPTION_ON},
	{"min", required_argument, NULL, OPTION_MIN},
	{"pause", no_argument, NULL, OPTION_PAUSE},
	{"resume", no_argument, NULL, OPTION_RESUME},
	{"add-pid", required_argument, NULL, OPTION_ADD},
	{"remove-pid", required_argument, NULL, OPTION_REMOVE},
	{"help", no_argument, NULL, 'h'},
	{NULL, 0, NULL, 0},
};

struct change {
	int option;
	const char *name; /* of functions, a glob */
	uint64_t minimum_ns;
	pid_t pid;
};

struct changes {
	const char *dir;
	struct change *items;
	size_t count, capacity;
	bool help;
};

/* ---- options ------------------------------------------------------------------------------------------ */

static int bad_value(const char *option, const char *value, const char *wanted)
{
	log_error("%s '%s': %s", option, value, wanted);
	return -EINVAL;
}

/* TIME, 0, or NAME=TIME; the name is cut off its own text. */
static int parse_minimum(char *text, struct change *change)
{
	char *equals = strrchr(text, '=');
	const char *time = equals ? equals + 1 : text;

	change->minimum_ns = 0;
	if (strcmp(time, "0") != 0 && parse_duration(time, &change->minimum_ns))
		return bad_value("--min", text, "wants a time such as 50us, 0, or FUNCTION=TIME");
	if (equals) {
		*equals = '\0';
		change->name = text;
	}
	return 0;
}

static int parse_change(int option, char *value, struct change *change)
{
	change->option = option;
	switch (option) {
	case OPTION_MIN:
		return parse_minimum(value, change);
	case OPTION_ADD:
	case OPTION_REMOVE:
		return parse_pid(value, &change->pid)
			       ? bad_value("--add-pid, --remove-pid", value, "wants a process id")
			       : 0;
	default:
		change->name = value;
		return 0;
	}
}

static int parse_one(struct changes *changes, int option, char *value, char *const *argv)
{
	struct change change = {0};

	switch (option) {
	case OPTION_PIN:
		changes->dir = value;
		return 0;
	case 'h':
		changes->help = true;
		return 0;
	case ':':
	case '?':
		log_error("%s %s; `scopetrace set --help` tells more", argv[optind - 1],
			  option == ':' ? "wants a value" : "is no option");
		return -EINVAL;
	}
	if (parse_change(option, value, &change))
		return -EINVAL;
	if (vec_grow(&changes->items, &changes->capacity, changes->count))
		return -ENOMEM;
	changes->items[changes->count++] = change;
	return 0;
}

static int parse(struct changes *changes, int argc, char **argv)
{
	int option, err;

	optind = 0;
	opterr = 0;
	while ((option = getopt_long(argc, argv, ":h", long_options, NULL)) != -1) {
		err = parse_one(changes, option, optarg, argv);
		if (err || changes->help)
			return err;
	}
	if (changes->dir && changes->count && optind == argc)
		return 0;
	log_error("set wants --pin DIR and what to change; `scopetrace set --help` tells more");
	return -EINVAL;
}

/* ---- functions ---------------------------------------------------------------------------------------- */

/* By the symbol, or as people call it, with or without its parameters. */
static bool is_named(const char *symbol, const char *wanted)
{
	char *demangled = demangle(symbol), *end;
	bool found = fnmatch(wanted, symbol, 0) == 0;

	if (!found && demangled) {
		found = fnmatch(wanted, demangled, 0) == 0;
		end = strchr(demangled, '(');
		if (end)
			*end = '\0';
		found = found || fnmatch(wanted, demangled, 0) == 0;
	}
	free(demangled);
	return found;
}

static void change_function(const struct change *change, struct function_setting *setting)
{
	if (change->option == OPTION_MIN)
		setting->minimum_ns = change->minimum_ns;
	else if (change->option == OPTION_OFF)
		setting->flags |= FUNCTION_OFF;
	else
		setting->flags &= ~(uint32_t)FUNCTION_OFF;
}

static int change_functions(const struct pinned *pinned, const struct change *change)
{
	struct function_setting setting;
	size_t found = 0;
	int err = 0;

	for (uint32_t i = 0; i < pinned->capture.functions && !err; i++) {
		err = pinned_function(pinned, i, &setting);
		if (err || !is_named(setting.name, change->name))
			continue;
		found++;
		change_function(change, &setting);
		err = pinned_put_function(pinned, i, &setting);
	}
	if (err || found)
		return err;
	log_error("no function of the capture is named '%s'; `scopetrace status --pin %s` lists them",
		  change->name, pinned->dir);
	return -ENOENT;
}

/* ---- all --------------------------------------------------------------------------------------------- */

static int change_settings(const struct pinned *pinned, const struct change *change)
{
	struct pairing_settings settings;
	int err = pinned_settings(pinned, &settings);

	if (err)
		return err;
	if (change->option == OPTION_MIN)
		settings.minimum_ns = change->minimum_ns;
	else if (change->option == OPTION_PAUSE)
		settings.flags |= SETTING_PAUSED;
	else
		settings.flags &= ~(uint32_t)SETTING_PAUSED;
	return pinned_put_settings(pinned, &settings);
}

static int apply(const struct pinned *pinned, const struct change *change)
{
	if (change->option == OPTION_ADD)
		return pinned_add(pinned, change->pid);
	if (change->option == OPTION_REMOVE)
		return pinned_take_out(pinned, change->pid);
	return change->name ? change_functions(pinned, change) : change_settings(pinned, change);
}

static int apply_all(const struct changes *changes)
{
	struct pinned pinned;
	int err = pinned_open(&pinned, changes->dir), lock = -1;

	if (!err) {
		lock = pin_lock_changes(changes->dir);
		err = lock < 0 ? lock : 0;
		if (err == -EBUSY)
			log_error("another command is just changing %s: try again", changes->dir);
		else if (err == -ENOENT)
			log_error(
				"the links of %s were removed by hand: nothing is traced any more; `scopetrace detach` "
				"removes the rest",
				changes->dir);
	}
	for (size_t i = 0; i < changes->count && !err; i++)
		err = apply(&pinned, &changes->items[i]);
	if (lock >= 0)
		close(lock);
	pinned_close(&pinned);
	return err;
}

int command_set(int argc, char **argv)
{
	struct changes changes = {0};
	int code = EXIT_DONE;

	if (parse(&changes, argc, argv))
		code = EXIT_USAGE;
	else if (changes.help)
		fputs(help, stdout);
	else if (apply_all(&changes))
		code = EXIT_FAILED;
	free(changes.items);
	return code;
}
