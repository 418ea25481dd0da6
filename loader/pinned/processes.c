// SPDX-License-Identifier: GPL-2.0-or-later
#include "pinned/processes.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/io.h"
#include "base/log.h"
#include "program/module.h"
#include "program/process.h"
#include "plan/plan.h"

#define KEPT_LINK "kept-" /* its name begins with no process id */
#define CALLS_NS  200000000ull

struct adding {
	const struct pinned *pinned;
	pid_t pid;
	struct plan plan; /* how it would be hooked if it were attached to by itself */
	struct pin_links links;
	bool *chosen; /* by link: it was lost, and is to be made again */
	size_t chosen_count;
	unsigned first; /* number in the names of the links that are made */
	unsigned made;
};

/* ---- what the process has of the functions ---- */

/* As probe_session keeps it: the end, if it is too long. */
static bool is_module(const struct function_setting *setting, const struct module *module)
{
	size_t length = strlen(module->path), room = sizeof(setting->module) - 1;

	return strcmp(setting->module,
		      length > room ? module->path + length - room : module->path) == 0;
}

static const struct function *find_function(const struct symbol_table *symbols,
					    const struct function_setting *setting)
{
	const struct function *found = NULL;

	for (size_t i = 0; i < symbols->modules.count && !found; i++)
		if (is_module(setting, &symbols->modules.items[i]))
			found = symbol_table_find(symbols, &symbols->modules.items[i],
						  setting->address);
	return found;
}

static int refuse_fork(const struct adding *a, const char *name)
{
	log_error(
		"not hooking process %d: it, or a program that it goes on with, may fork (%s), and %s is hooked where "
		"a forked child would crash; attach to it first, or in a directory of its own",
		a->pid, a->plan.symbols.fork_evidence, name);
	return -EPERM;
}

static int find_functions(struct adding *a)
{
	struct function_setting setting;
	size_t found = 0;
	int err = 0;

	a->plan.functions = calloc(a->pinned->capture.functions, sizeof(*a->plan.functions));
	if (!a->plan.functions)
		return -ENOMEM;
	a->plan.count = a->pinned->capture.functions;
	for (uint32_t i = 0; i < a->pinned->capture.functions && !err; i++) {
		err = pinned_function(a->pinned, i, &setting);
		if (err || !setting.returns)
			continue;
		a->plan.functions[i] = find_function(&a->plan.symbols, &setting);
		found += a->plan.functions[i] != NULL;
		if (a->plan.functions[i] &&
		    (a->plan.symbols.may_fork || a->plan.symbols.may_exec) &&
		    a->plan.functions[i]->probe_offset != setting.offset)
			err = refuse_fork(a, setting.name);
	}
	if (err || found)
		return err;
	log_error("process %d runs none of the files whose functions are hooked", a->pid);
	return -ENOENT;
}

/* ---- whether the hooks as they are do it no harm ---- */

static int check_function(const struct adding *a, uint32_t id)
{
	const struct return_choice *choice = &a->plan.returns.choices[id];
	struct function_setting setting;
	int err = pinned_function(a->pinned, id, &setting);

	if (err || setting.returns != RETURNS_URETPROBE ||
	    (!choice->refused && choice->mode == RETURNS_URETPROBE))
		return err;
	log_error(
		"not hooking process %d: %s is hooked with a uretprobe, which could kill this one: %s; attach "
		"to it in a directory of its own",
		a->pid, setting.name, a->plan.hazard.evidence);
	return -EPERM;
}

static int check_hazard(struct adding *a)
{
	int err = plan_decide(&a->plan);

	for (uint32_t i = 0; i < a->plan.count && !err && a->plan.hazard.found; i++)
		if (a->plan.functions[i])
			err = check_function(a, i);
	return err;
}

/* ---- its files ---- */

static bool read_equal(int a, int b)
{
	static char left[1 << 16], right[1 << 16];
	ssize_t length;

	while ((length = read(a, left, sizeof(left))) > 0)
		if (read(b, right, (size_t)length) != length ||
		    memcmp(left, right, (size_t)length) != 0)
			return false;
	return length == 0;
}

/* As the copies that containers of one image have. */
static bool is_copy(const char *path, const char *of)
{
	int a = open(path, O_RDONLY | O_CLOEXEC), b = open(of, O_RDONLY | O_CLOEXEC);
	struct stat left, right;
	bool equal = a >= 0 && b >= 0 && !fstat(a, &left) && !fstat(b, &right) &&
		     left.st_size == right.st_size && read_equal(a, b);

	if (a >= 0)
		close(a);
	if (b >= 0)
		close(b);
	return equal;
}

/* The link's file, or a copy of it, among these; NULL: it is not. */
static const struct module *find_file(const struct module_list *modules,
				      const struct pin_link *link)
{
	struct pin_file file = link->file;
	char path[PATH_MAX];
	bool there = pin_link_file(link, NULL, 0, path, &file);
	const struct module *same =
		there || file.inode ? module_list_find(modules, file.device, file.inode) : NULL;

	if (same)
		return same;
	for (size_t i = 0; i < modules->count && there; i++) {
		const struct module *module = &modules->items[i];

		if (strcmp(module->path, link->path) == 0 && is_copy(module->probe_path, path))
			return module;
	}
	return NULL;
}

/* ---- its links ---- */

/* The same places of the same file, hit for the same program. */
static bool is_alike(const struct pin_link *a, const struct pin_link *b)
{
	if (!a->is_hook || !b->is_hook || a->program != b->program ||
	    a->is_return != b->is_return || a->count != b->count || strcmp(a->path, b->path) != 0)
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

static void name_next(struct adding *a, char name[64])
{
	snprintf(name, 64, "%d-%u", a->pid, a->first + a->made++);
}

static int add_link(struct adding *a, const struct pin_link *link)
{
	const struct module *module = find_file(&a->plan.symbols.modules, link);
	char name[64];
	int fd, err;

	if (!module)
		return 0;
	fd = pin_link_again(link, a->pid, module->probe_path);
	if (fd < 0) {
		log_error("cannot hook the functions of %s in process %d: %s", link->path, a->pid,
			  strerror(-fd));
		return fd;
	}
	name_next(a, name);
	err = pin_link(a->pinned->dir, name, fd);
	close(fd);
	return err;
}

static int by_id(const void *left, const void *right)
{
	const struct pin_link *a = left, *b = right;

	return (a->id > b->id) - (a->id < b->id);
}

/* In the order in which they were made: ends before entries. */
static int read_links(const struct pinned *pinned, struct pin_links *links)
{
	int err = pin_links_read(pinned->dir, links);

	if (!err && links->count)
		qsort(links->items, links->count, sizeof(*links->items), by_id);
	return err;
}

int pinned_refuse_untold(const struct pin_links *links, const char *what)
{
	if (pin_links_tell(links))
		return 0;
	log_error("%s needs Linux 6.8 or newer: this kernel does not tell what is hooked", what);
	return -EOPNOTSUPP;
}

static int add_links(struct adding *a)
{
	int err = read_links(a->pinned, &a->links);

	if (!err)
		err = pinned_refuse_untold(&a->links, "adding a process to a pinned capture");
	for (size_t i = 0; i < a->links.count && !err; i++)
		if (is_first(&a->links, i))
			err = add_link(a, &a->links.items[i]);
	if (err || a->made)
		return err;
	log_error("process %d runs none of the files that are hooked, or they were replaced since",
		  a->pid);
	return -ENOENT;
}

static bool is_of_pid(void *context, const struct pin_link *link)
{
	return pin_link_owner(link) == *(pid_t *)context;
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
	static const struct plan_options options = {.is_look = true};
	int err = plan_read_symbols(&a->plan, &options, a->pid, NULL);

	if (!err)
		err = find_functions(a);
	if (!err)
		err = symbol_table_keep_open(&a->plan.symbols, a->plan.functions, a->plan.count);
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
	plan_release(&a->plan);
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
		log_info("process %d (%s) is hooked as well, by %u links", a.pid, process.comm,
			 a.made);
	pin_links_clear(&a.links);
	process_close(&process);
	return err;
}

/* ---- again, after an exec by a thread that was not the first ---- */

/* Of this process, and the kernel takes it to be of a thread that has ended. */
static bool is_lost(const struct pin_link *link, pid_t pid)
{
	return pin_link_owner(link) == pid && link->is_told && !link->pid;
}

/* Among the first `count` links. */
static bool is_alike_to_chosen(const struct adding *a, const struct pin_link *link, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (a->chosen[i] && is_alike(&a->links.items[i], link))
			return true;
	return false;
}

static bool is_in_force(void *context, const struct pin_link *link)
{
	const struct adding *a = context;

	return pin_link_owner(link) == a->pid && link->pid &&
	       is_alike_to_chosen(a, link, a->links.count);
}

static bool is_over(void *context, const struct pin_link *link)
{
	const struct adding *a = context;

	return is_lost(link, a->pid) && is_alike_to_chosen(a, link, a->links.count);
}

/* Lost, and not idle yet: its name does not tell its file. */
static bool is_raw(void *context, const struct pin_link *link)
{
	unsigned long long device;

	return is_over(context, link) && sscanf(link->name, "%*d-%*u-%llx", &device) != 1;
}

static unsigned first_free_number(const struct pin_links *links, pid_t pid)
{
	unsigned number = 0;

	for (size_t i = 0; i < links->count; i++) {
		const char *dash = strchr(links->items[i].name, '-');

		if (pin_link_owner(&links->items[i]) == pid && dash &&
		    strtoul(dash + 1, NULL, 10) >= number)
			number = (unsigned)strtoul(dash + 1, NULL, 10) + 1;
	}
	return number;
}

static bool has_lost(const struct pin_links *links, pid_t pid)
{
	size_t i = 0;

	while (i < links->count && !is_lost(&links->items[i], pid))
		i++;
	return i < links->count;
}

static void recall(struct pin_link *link, const struct pin_known *known, size_t count)
{
	for (size_t i = 0; i < count && !link->file.inode; i++)
		if (known[i].link == link->id)
			link->file = known[i].file;
}

/* Those whose file the process runs by now. */
static int choose_lost(struct adding *a, const struct pin_known *known, size_t known_count)
{
	struct module_list modules = {0};
	int err = module_list_read(a->pid, &modules);

	a->chosen = calloc(a->links.count + 1, sizeof(*a->chosen));
	if (!err && !a->chosen)
		err = -ENOMEM;
	for (size_t i = 0; i < a->links.count && !err; i++) {
		recall(&a->links.items[i], known, known_count);
		a->chosen[i] = is_lost(&a->links.items[i], a->pid) &&
			       find_file(&modules, &a->links.items[i]);
		a->chosen_count += a->chosen[i];
	}
	module_list_close(&modules);
	return err;
}

bool pinned_add_is_due(const struct pin_links *links, pid_t pid, const struct pin_known *known,
		       size_t count)
{
	struct adding a = {.pid = pid, .links = *links};

	if (has_lost(links, pid) && choose_lost(&a, known, count))
		a.chosen_count = 0;
	free(a.chosen);
	return a.chosen_count;
}

/*
 * The dead leader that the links are to still counts as one of the process's threads: once others
 * have put breakpoints in the same places, the kernel runs their programs as well, and each call
 * would be seen twice. So they are gone before that; what they tell of the places is kept meanwhile
 * by links that are in force nowhere.
 */
static int make_idle(struct adding *a)
{
	int err = 0;

	for (size_t i = 0; i < a->links.count && !err; i++) {
		const struct pin_link *link = &a->links.items[i];
		const struct module *module;
		struct pin_file file;
		char name[64];
		int fd;

		if (!a->chosen[i] || !is_raw(a, link))
			continue;
		module = find_file(&a->plan.symbols.modules, link);
		if (!module)
			return -ENOENT; /* it has just gone */
		file = (struct pin_file){module->device, module->inode};
		fd = pin_link_idle(link, module->probe_path);
		if (fd < 0)
			return fd;
		name_next(a, name);
		err = pin_link_of_file(a->pinned->dir, name, &file, fd);
		close(fd);
	}
	return err ? err : pin_remove_links(a->pinned->dir, is_raw, a);
}

/* All or none, so that the next go finds what it needs; as if none had been killed half way. */
static int add_chosen(struct adding *a)
{
	int err = pin_remove_links(a->pinned->dir, is_in_force, a);

	for (size_t i = 0; i < a->links.count && !err; i++)
		if (a->chosen[i] && !is_alike_to_chosen(a, &a->links.items[i], i))
			err = add_link(a, &a->links.items[i]);
	pin_remove_links(a->pinned->dir, err ? is_in_force : is_over, a);
	return err;
}

int pinned_add_again(const struct pinned *pinned, pid_t pid, const struct pin_known *known,
		     size_t count)
{
	struct adding a = {.pinned = pinned, .pid = pid};
	int err = read_links(pinned, &a.links);

	if (!err)
		err = choose_lost(&a, known, count);
	if (!err && a.chosen_count) {
		a.first = first_free_number(&a.links, pid);
		err = look_at(&a);
		if (!err)
			err = make_idle(&a);
		if (!err)
			err = add_chosen(&a);
		plan_release(&a.plan);
	}
	free(a.chosen);
	pin_links_clear(&a.links);
	return err;
}

/* ---- out again ---- */

/* True if no link that stays tells which places of the file are hooked. */
static bool is_last(const struct pin_links *links, const struct pin_link *link, pid_t pid)
{
	for (size_t i = 0; i < links->count; i++)
		if (pin_link_owner(&links->items[i]) != pid && is_alike(&links->items[i], link))
			return false;
	return true;
}

/*
 * Which places are hooked, and with which cookies, is known by links alone: the exits of functions
 * stand in no map. So the last link to a file is kept for processes that are added later, in force
 * nowhere.
 */
static void keep_link(const struct pinned *pinned, const struct pin_link *link)
{
	struct pin_file file;
	char name[64], path[PATH_MAX];
	int fd = pin_link_file(link, NULL, 0, path, &file) ? pin_link_idle(link, path) : -ENOENT;

	snprintf(name, sizeof(name), KEPT_LINK "%u", link->id);
	if (fd < 0 || pin_link_of_file(pinned->dir, name, &file, fd))
		log_warning("no other process can be added for %s, which is no longer where it was",
			    link->path);
	if (fd >= 0)
		close(fd);
}

static int keep_last_links(const struct pinned *pinned, pid_t pid)
{
	struct pin_links links;
	int err = read_links(pinned, &links);

	for (size_t i = 0; i < links.count && !err; i++)
		if (pin_link_owner(&links.items[i]) == pid && links.items[i].is_told &&
		    is_last(&links, &links.items[i], pid))
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
