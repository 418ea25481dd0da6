// SPDX-License-Identifier: GPL-2.0-or-later
#include "record/recording.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/io.h"
#include "base/log.h"
#include "base/vec.h"
#include "source/bpf_source.h"

/* ---- told by the thread that drains ---- */

static void forked(void *context, uint32_t child, uint32_t parent, uint64_t time_ns)
{
	struct capture *c = context;

	(void)child, (void)parent, (void)time_ns;
	pthread_mutex_lock(&c->lifecycle.lock);
	c->lifecycle.forks++;
	if (!c->lifecycle.over)
		probe_session_forked(c->session);
	pthread_mutex_unlock(&c->lifecycle.lock);
}

void capture_end_lifecycle(struct capture *c)
{
	if (!c->hooked)
		return;
	pthread_mutex_lock(&c->lifecycle.lock);
	c->lifecycle.over = true;
	pthread_mutex_unlock(&c->lifecycle.lock);
}

/*
 * If there is no memory for it then a name is missing, or a program that is not hooked again: said.
 */
static void execed(void *context, uint32_t pid, uint32_t former, const char *comm, uint64_t time_ns)
{
	struct capture *c = context;
	struct capture_lifecycle *life = &c->lifecycle;
	struct capture_exec exec = {.pid = (pid_t)pid, .former = (pid_t)former, .time_ns = time_ns};

	snprintf(exec.comm, sizeof(exec.comm), "%s", comm);
	pthread_mutex_lock(&life->lock);
	if (vec_grow(&life->execs, &life->capacity, life->count))
		log_warning("process %u runs %s now: no memory to follow it", pid, comm);
	else
		life->execs[life->count++] = exec;
	pthread_mutex_unlock(&life->lock);
}

void capture_tell_lifecycle(struct capture *c)
{
	pthread_mutex_init(&c->lifecycle.lock, NULL);
	pthread_mutex_init(&c->lifecycle.hooking, NULL);
	bpf_source_tell_lifecycle(c->hooked, &(struct bpf_source_lifecycle){forked, execed, c});
}

/* ---- followed by the thread of the events ---- */

/* `command`: malloc'ed, now the capture's; NULL: none is known. */
static int name_process(struct capture *c, const char *comm, char *command, uint64_t time_ns)
{
	if (!command)
		command = strdup(comm);
	if (!command)
		return -ENOMEM;
	snprintf(c->process.comm, sizeof(c->process.comm), "%s", comm);
	free(c->process.command);
	c->process.command = command;
	c->lifecycle.named_ns = time_ns;
	return c->writer ? capture_declare_process(c) : 0;
}

int capture_read_name(struct capture *c, uint64_t time_ns)
{
	char comm[sizeof(c->process.comm)], *command;

	if (process_read_name(c->process.pid, comm, &command))
		return 0;
	if (strcmp(comm, c->process.comm) != 0 || strcmp(command, c->process.command) != 0)
		return name_process(c, comm, command, time_ns);
	free(command);
	return 0;
}

/* True if the arguments may be those of the program that was started as `wanted`: it may bear another name
 * now. */
static bool fits(const char *wanted, const char *comm, const char *command)
{
	size_t length = strcspn(command, " "), base = length;

	while (base && command[base - 1] != '/')
		base--;
	return strcmp(wanted, comm) == 0 || strncmp(wanted, command + base, strlen(wanted)) == 0;
}

/*
 * The arguments that can be read are those of the program that runs now. After one more exec that
 * is another, and then nobody knows those of this one.
 */
static int name_after_exec(struct capture *c, const struct capture_exec *exec, bool last)
{
	char comm[sizeof(c->process.comm)], *command = NULL;

	if (last && !process_ended(&c->process) && !process_read_name(exec->pid, comm, &command) &&
	    !fits(exec->comm, comm, command)) {
		free(command);
		command = NULL;
	}
	return name_process(c, exec->comm, command, exec->time_ns);
}

/* Says what of the new program will be seen. */
static void say_exec(struct capture *c, const struct capture_exec *exec, bool is_late)
{
	bool own = probe_session_has_program_of(c->session, exec->pid);
	double late_ms = (double)(io_now_ns() - exec->time_ns) / 1e6;

	if (process_ended(&c->process))
		return;
	log_info(
		"process %d runs %s now: %s", exec->pid, exec->comm,
		own ? "its functions are hooked as before"
		    : "its own functions are not hooked; hooked ones of libraries are seen in it as well");
	if (is_late)
		log_warning(
			"a thread that was not its first asked for it, which ends the kernel's tracing: what "
			"process %d called in the %.1f ms until it was hooked again is not seen",
			exec->pid, late_ms);
}

static bool hooks_program(const struct capture *c)
{
	size_t i = 0;

	while (i < c->plan.count && !c->plan.functions[i]->module->is_main)
		i++;
	return i < c->plan.count;
}

/*
 * True if it is not the program whose functions are hooked, nor one that it ran after that
 * meanwhile.
 */
static bool is_replaced(const struct capture *c, const struct capture_exec *exec)
{
	char comm[sizeof(c->process.comm)], *command;
	bool is_this;

	if (!hooks_program(c) || probe_session_has_program_of(c->session, exec->pid) ||
	    process_read_name(exec->pid, comm, &command))
		return false;
	is_this = strcmp(comm, exec->comm) == 0;
	free(command);
	return is_this;
}

/* Of several that are told at once only the program of the last one runs. */
static int follow_execs(struct capture *c, const struct capture_exec *execs, size_t count)
{
	const struct capture_exec *last = &execs[count - 1];
	/*
	 * A launched command begins with one, which is no news unless its file was replaced
	 * meanwhile.
	 */
	bool is_news =
		c->lifecycle.seen || count > 1 || !c->options->command || is_replaced(c, last);
	bool is_late = false;
	int lost, err = 0;

	c->lifecycle.seen = true;
	for (size_t i = 0; i < count; i++)
		is_late |= execs[i].former != execs[i].pid;
	lost = is_late ? probe_session_reattach(c->session, last->pid) : 0;
	for (size_t i = 0; i < count && !err; i++)
		err = name_after_exec(c, &execs[i], i + 1 == count);
	if (!err && !lost && is_news)
		say_exec(c, last, is_late);
	c->lifecycle.stack = process_stack_start(last->pid);
	c->lifecycle.changed = false;
	return err;
}

/* With `hooking` held. */
static int take_execs(struct capture *c)
{
	struct capture_lifecycle *life = &c->lifecycle;
	struct capture_exec *execs;
	size_t count;
	int err = 0;

	pthread_mutex_lock(&life->lock);
	execs = life->execs;
	count = life->count;
	life->execs = NULL;
	life->count = life->capacity = 0;
	pthread_mutex_unlock(&life->lock);
	if (count)
		err = follow_execs(c, execs, count);
	free(execs);
	return err;
}

/*
 * What cannot be done now, as the links are just being made anew, is done next time: this thread
 * drains.
 */
int capture_follow_lifecycle(struct capture *c)
{
	int err;

	if (!c->hooked || pthread_mutex_trylock(&c->lifecycle.hooking))
		return 0;
	err = take_execs(c);
	pthread_mutex_unlock(&c->lifecycle.hooking);
	return err;
}

/*
 * Which thread asked for it is not known, so it is taken for one that ended the kernel's tracing.
 */
static int follow_lost_exec(struct capture *c)
{
	char comm[sizeof(c->process.comm)], *command;
	pid_t pid = c->process.pid;

	if (process_read_name(pid, comm, &command))
		return 0;
	if (!probe_session_reattach(c->session, pid)) /* or it is logged why not */
		log_warning(
			"process %d runs %s now, and the kernel's ring had no room to tell it, or it came before the "
			"hooks: it is hooked again%s. What it has called meanwhile may be missing",
			pid, comm,
			probe_session_has_program_of(c->session, pid)
				? ""
				: ", but for its own functions");
	return name_process(c, comm, command, io_now_ns());
}

/* One that is told just now is followed before the next look: only what stays strange is lost. */
static int look_for_exec(struct capture *c)
{
	struct capture_lifecycle *life = &c->lifecycle;
	uint64_t stack = process_stack_start(c->process.pid);
	bool was_known = life->stack;

	if (!stack || stack == life->stack || process_ended(&c->process)) {
		life->changed = false;
		return 0;
	}
	if (was_known && !life->changed) {
		life->changed = true;
		return 0;
	}
	life->stack = stack;
	life->changed = false;
	return was_known ? follow_lost_exec(c) : 0;
}

static void look_for_children(struct capture *c)
{
	pthread_mutex_lock(&c->lifecycle.lock);
	if (!c->lifecycle.over)
		probe_session_look_for_children(c->session);
	pthread_mutex_unlock(&c->lifecycle.lock);
}

int capture_watch_program(struct capture *c)
{
	int err;

	if (!c->hooked)
		return 0;
	look_for_children(c);
	if (pthread_mutex_trylock(&c->lifecycle.hooking))
		return 0;
	err = look_for_exec(c);
	pthread_mutex_unlock(&c->lifecycle.hooking);
	return err;
}

void capture_close_lifecycle(struct capture *c)
{
	free(c->lifecycle.execs);
}
