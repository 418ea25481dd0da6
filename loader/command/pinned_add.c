// SPDX-License-Identifier: GPL-2.0-or-later
#include "command/pinned_add.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/io.h"
#include "base/log.h"
#include "probe/pin.h"
#include "target/hazard.h"
#include "target/process.h"
#include "target/returns.h"
#include "target/symbol.h"

#define KEPT_LINK "kept-" /* its name begins with no process id */
#define CALLS_NS  200000000ull

struct adding {
	const struct pinned *pinned;
	pid_t pid;
	struct symbol_table symbols;
	struct hazard hazard;
	const struct function **functions; /* by id; NULL: not in this process */
	struct pin_links links;
	unsigned first; /* number in the names of the links that are made */
	unsigned made;
};

/* ---- what the process has of the functions ------------------------------------------------------------ */

/* As probe_session keeps it: the end, if it is too long. */
static bool is_module(const struct function_setting *setting, const struct module *module)
{
	size_t length = strlen(module->path), room = sizeof(setting->module) - 1;

	return strcmp(setting->module, length > room ? module->path + length - room : module->path) == 0;
}

static const struct function *find_function(const struct symbol_table *symbols,
					    const struct function_setting *setting)
{
	for (size_t i = 0; i < symbols->count; i++) {
		const struct function *function = &symbols->functions[i];

		if (function->address == setting->address && is_module(setting, function->module))
			return function;
	}
	return NULL;
}

static int refuse_fork(const struct adding *a, const char *name)
{
	log_error(
		"not hooking process %d: it, or a program that it goes on with, may fork (%s), and %s is hooked where "
		"a forked child would crash; attach to it first, or in a directory of its own",
		a->pid, a->symbols.fork_evidence, name);
	return -EPERM;
}

static int find_functions(struct adding *a)
{
	struct function_setting setting;
	size_t found = 0;
	int err = 0;

	a->functions = calloc(a->pinned->capture.functions, sizeof(*a->functions));
	if (!a->functions)
		return -ENOMEM;
	for (uint32_t i = 0; i < a->pinned->capture.functions && !err; i++) {
		err = pinned_function(a->pinned, i, &setting);
		if (err || !setting.returns)
			continue;
		a->functions[i] = find_function(&a->symbols, &setting);
		found += a->functions[i] != NULL;
		if (a->functions[i] && (a->symbols.may_fork || a->symbols.may_exec) &&
		    a->functions[i]->probe_offset != setting.offset)
			err = refuse_fork(a, setting.name);
	}
	if (err || found)
		return err;
	log_error("process %d runs none of the files whose functions are hooked", a->pid);
	return -ENOENT;
}

/* ---- whether the hooks as they are do it no harm ------------------------------------------------------- */

/* How its returns would be seen if it were attached to by itself. */
static int plan(const struct adding *a, const struct function *function, struct return_plan *made)
{
	return return_plan_make(made, &a->symbols, &a->hazard, &function, 1, RETURN_AUTO);
}

static int check_function(const struct adding *a, uint32_t id)
{
	struct function_setting setting;
	struct return_plan made = {0};
	int err = pinned_function(a->pinned, id, &setting);

	if (err || setting.returns != RETURNS_URETPROBE)
		return err;
	err = plan(a, a->functions[id], &made);
	if (!err && (made.choices[0].refused || made.choices[0].way != RETURN_URETPROBE)) {
		log_error(
			"not hooking process %d: %s is hooked with a uretprobe, which could kill this one: %s; attach "
			"to it in a directory of its own",
			a->pid, setting.name, a->hazard.evidence);
		err = -EPERM;
	}
	return_plan_clear(&made);
	return err;
}

static int check_hazard(struct adding *a)
{
	int err = hazard_check(&a->symbols.modules, &a->hazard);

	for (uint32_t i = 0; i < a->pinned->capture.functions && !err && a->hazard.found; i++)
		if (a->functions[i])
			err = check_function(a, i);
	return err;
}

/* ---- its links ---------------------------------------------------------------------------------------- */

static pid_t owner_of(const struct pin_link *link)
{
	return link->is_hook ? (pid_t)strtol(link->name, NULL, 10) : 0;
}

/* The same places of the same file, hit for the same program. */
static bool is_alike(const struct pin_link *a, const struct pin_link *b)
{
	if (!a->is_hook || !b->is_hook || a->program != b->program || a->is_return != b->is_return ||
	    a->count != b->count || strcmp(a->path, b->path) != 0)
		return false;
	return memcmp(a->offsets, b->offsets, a->count * sizeof(*a->offsets)) == 0;
}

/* One of several processes' links to one place stands for all of them. */
static bool is_first(const struct pin_links *links, size_t index)
{
	for (size_t i = 0; i < index; i++)
		if (is_alike(&links->items[i], &links->items[index]))
			return false;
	return links->items[index].is_hook;
}

/* The path by which this process has the file; NULL: it does not run it. */
static const char *find_file(const struct adding *a, const char *path)
{
	struct stat wanted, have;

	if (stat(path, &wanted))
		return NULL;
	for (size_t i = 0; i < a->symbols.modules.count; i++) {
		const struct module *module = &a->symbols.modules.items[i];

		if (!stat(module->probe_path, &have) && have.st_ino == wanted.st_ino &&
		    have.st_dev == wanted.st_dev)
			return module->probe_path;
	}
	return NULL;
}

static int add_link(struct adding *a, const struct pin_link *link)
{
	const char *path = find_file(a, link->path);
	char name[64];
	int fd, err;

	if (!path)
		return 0;
	fd = pin_link_again(link, a->pid, path);
	if (fd < 0) {
		log_error("cannot hook the functions of %s in process %d: %s", link->path, a->pid,
			  strerror(-fd));
		return fd;
	}
	snprintf(name, sizeof(name), "%d-%u", a->pid, a->first + a->made);
	err = pin_link(a->pinned->dir, name, fd);
	a->made += !err;
	close(fd);
	return err;
}

static int by_id(const void *left, const void *right)
{
	const struct pin_link *a = left, *b = right;

	return (a->id > b->id) - (a->id < b->id);
}

/* In the order in which they were made: ends before entries. */
static int add_links(struct adding *a)
{
	int err = pin_links_read(a->pinned->dir, &a->links);

	if (!err && a->links.count)
		qsort(a->links.items, a->links.count, sizeof(*a->links.items), by_id);
	for (size_t i = 0; i < a->links.count && !err; i++)
		if (is_first(&a->links, i))
			err = add_link(a, &a->links.items[i]);
	if (err || a->made)
		return err;
	log_error("process %d runs none of the files that are hooked, or they were replaced since", a->pid);
	return -ENOENT;
}

static bool is_of_pid(void *context, const struct pin_link *link)
{
	return owner_of(link) == *(pid_t *)context;
}

static int refuse_known(const struct pinned *pinned, pid_t pid)
{
	struct pinned_target *targets;
	size_t count;
	int err = pinned_targets(pinned, &targets, &count);

	for (size_t i = 0; i < count && !err; i++)
		if (targets[i].pid == pid)
			err = -EEXIST;
	free(targets);
	if (err == -EEXIST)
		log_error("process %d is in the capture already", pid);
	return err;
}

static int look_at(struct adding *a)
{
	const struct symbol_options options = {0};
	int err = symbol_table_of_process(a->pid, &options, &a->symbols);

	if (!err)
		err = find_functions(a);
	if (!err)
		err = symbol_table_hold(&a->symbols, a->functions, a->pinned->capture.functions);
	return err ? err : check_hazard(a);
}

static int add(struct adding *a)
{
	int err = look_at(a);

	if (!err)
		err = pinned_put_target(a->pinned, a->pid, true);
	if (!err) {
		err = add_links(a);
		if (err) {
			pin_remove_links(a->pinned->dir, is_of_pid, &a->pid);
			pinned_remove_target(a->pinned, a->pid);
		}
	}
	symbol_table_close(&a->symbols);
	return err;
}

int pinned_add(const struct pinned *pinned, pid_t pid)
{
	struct adding a = {.pinned = pinned};
	struct process process = {.pidfd = -1};
	int err = process_open(pid, &process);

	if (err)
		return err;
	a.pid = process.pid;
	err = refuse_known(pinned, a.pid);
	if (!err)
		err = add(&a);
	if (!err)
		log_info("process %d (%s) is hooked as well, by %u links", a.pid, process.comm, a.made);
	free(a.functions);
	pin_links_clear(&a.links);
	process_close(&process);
	return err;
}

/* To a thread that has ended, under the id of this process. */
static bool is_lost(void *context, const struct pin_link *link)
{
	return is_of_pid(context, link) && !link->pid;
}

static unsigned first_free_number(const struct pinned *pinned, pid_t pid)
{
	struct pin_links links;
	unsigned number = 0;

	pin_links_read(pinned->dir, &links);
	for (size_t i = 0; i < links.count; i++) {
		const char *dash = strchr(links.items[i].name, '-');

		if (owner_of(&links.items[i]) == pid && dash && strtoul(dash + 1, NULL, 10) >= number)
			number = (unsigned)strtoul(dash + 1, NULL, 10) + 1;
	}
	pin_links_clear(&links);
	return number;
}

/* The old ones last: they are the model of the new ones. */
int pinned_add_again(const struct pinned *pinned, pid_t pid)
{
	struct adding a = {.pinned = pinned, .pid = pid, .first = first_free_number(pinned, pid)};
	int err = look_at(&a), gone;

	if (!err)
		err = add_links(&a);
	gone = pin_remove_links(pinned->dir, is_lost, &pid);
	symbol_table_close(&a.symbols);
	free(a.functions);
	pin_links_clear(&a.links);
	return err ? err : gone;
}

/* ---- out again ---------------------------------------------------------------------------------------- */

/* True if no link that stays tells which places of the file are hooked. */
static bool is_last(const struct pin_links *links, const struct pin_link *link, pid_t pid)
{
	for (size_t i = 0; i < links->count; i++)
		if (owner_of(&links->items[i]) != pid && is_alike(&links->items[i], link))
			return false;
	return true;
}

/*
 * Which places are hooked, and with which cookies, is known by links alone: the exits of functions stand in
 * no map. So the last link to a file is kept for processes that are added later, as one to ourselves, who end
 * at once: then it is in force nowhere.
 */
static void keep_link(const struct pinned *pinned, const struct pin_link *link)
{
	char name[64];
	int fd = pin_link_again(link, getpid(), link->path);

	snprintf(name, sizeof(name), KEPT_LINK "%u", link->id);
	if (fd < 0 || pin_link(pinned->dir, name, fd))
		log_warning("no other process can be added for %s, which is no longer where it was",
			    link->path);
	if (fd >= 0)
		close(fd);
}

static int keep_last_links(const struct pinned *pinned, pid_t pid)
{
	struct pin_links links;
	int err = pin_links_read(pinned->dir, &links);

	if (!err && links.count)
		qsort(links.items, links.count, sizeof(*links.items), by_id);
	for (size_t i = 0; i < links.count && !err; i++)
		if (owner_of(&links.items[i]) == pid && is_last(&links, &links.items[i], pid))
			keep_link(pinned, &links.items[i]);
	pin_links_clear(&links);
	return err;
}

/* Calls that are open complete: most are short. What lasts longer stays unfinished. */
static void wait_for_calls(const struct pinned *pinned, pid_t pid)
{
	uint64_t deadline = io_now_ns() + CALLS_NS;
	struct pinned_call *calls;
	size_t count;
	bool open = true;

	while (open && io_now_ns() < deadline && !pinned_open_calls(pinned, &calls, &count)) {
		open = false;
		for (size_t i = 0; i < count; i++)
			open |= calls[i].tgid == (uint32_t)pid;
		free(calls);
		if (open)
			nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
	}
}

int pinned_take_out(const struct pinned *pinned, pid_t pid)
{
	int err = pinned_remove_target(pinned, pid);

	if (err == -ENOENT)
		log_error("process %d is not in the capture", pid);
	if (err)
		return err;
	err = keep_last_links(pinned, pid);
	if (!err)
		wait_for_calls(pinned, pid);
	return err ? err : pin_remove_links(pinned->dir, is_of_pid, &pid);
}
