// SPDX-License-Identifier: GPL-2.0-or-later
#include "follow/process.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/io.h"
#include "base/log.h"
#include "source/shm_source.h"

#define LOOK_NS 200000000ull
/* looking for a segment reads all mappings: one part in so many of the time */
#define LOOK_SHARE	200
#define LIST_SHARE	20
#define WATCHER_NS	5000000000ull /* in which a watcher that lives has let go */
#define LOOK_WATCHED_NS 20000000ull

/* ---- what the file is told ---- */

/* `since`: 0 from its start on. */
static int declare(struct pinned_process *p, uint64_t since_ns, struct scope_file_writer *writer)
{
	struct event_output *output = scope_file_writer_output(writer);
	const char *command = p->process.command ? p->process.command : "";
	const char *comm = p->process.comm;
	struct process_info info = {.start_ns = p->opened ? p->process.start_ns : 0,
				    .time_ns = since_ns,
				    .pid = (uint32_t)p->pid,
				    .clock = p->segment ? shm_source_clock(p->segment) : 0,
				    .segment = p->segment ? shm_source_segment(p->segment) : 0};
	int err = output->string(output, comm, strlen(comm), &info.name);

	if (!err)
		err = output->string(output, command, strlen(command), &info.command);
	return err ? err : scope_file_writer_process(writer, &info);
}

/* Names can be read by anybody; for its manual scopes the process must be ours to look at. */
int pinned_process_open(struct pinned_process *p, pid_t pid, uint64_t capture,
			struct scope_file_writer *writer)
{
	char path[64];

	*p = (struct pinned_process){.pid = pid, .capture = capture, .process = {.pidfd = -1}};
	p->pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
	snprintf(path, sizeof(path), "/proc/%d/map_files", pid);
	if (access(path, R_OK | X_OK) == 0)
		p->opened = !process_open(pid, &p->process);
	else if (errno == EACCES || errno == EPERM)
		log_info("process %d is not yours to look at: going on without its manual scopes",
			 pid);
	if (!p->opened)
		process_read_name(pid, p->process.comm, &p->process.command);
	return declare(p, 0, writer);
}

bool pinned_process_ended(const struct pinned_process *p)
{
	return p->pidfd < 0 || pidfd_ended(p->pidfd);
}

/*
 * The arguments that can be read are of the program that runs now, which may be another one by
 * then.
 */
int pinned_process_execed(struct pinned_process *p, const char *comm, uint64_t time_ns,
			  struct scope_file_writer *writer)
{
	char now[sizeof(p->process.comm)], *command = NULL;

	if (process_read_name(p->pid, now, &command) || strcmp(now, comm) != 0) {
		free(command);
		command = strdup(comm);
	}
	if (!command)
		return -ENOMEM;
	free(p->process.command);
	p->process.command = command;
	snprintf(p->process.comm, sizeof(p->process.comm), "%s", comm);
	return declare(p, time_ns, writer);
}

/* ---- its manual scopes ---- */

static void list_tids(struct pinned_process *p)
{
	struct process_thread *threads;
	uint64_t begin = io_now_ns();
	size_t count;

	if (!process_threads(&p->process, &threads, &count)) {
		for (size_t i = 0; i < count; i++)
			hash_map_put(&p->tids, (uint32_t)threads[i].namespace_tid,
				     (uint32_t)threads[i].tid);
		free(threads);
	}
	p->list_ns = io_now_ns() + (io_now_ns() - begin) * LIST_SHARE;
}

static uint32_t translate(void *context, uint32_t namespace_tid, bool fresh)
{
	struct pinned_process *p = context;
	uint32_t tid = 0;

	if (!fresh && hash_map_get(&p->tids, namespace_tid, &tid))
		return tid;
	if (io_now_ns() >= p->list_ns)
		list_tids(p);
	return hash_map_get(&p->tids, namespace_tid, &tid) ? tid : 0;
}

/* The watcher lets go of the segment when it sees a drainer. */
static bool waits_for_watcher(struct pinned_process *p, uint64_t now)
{
	if (!p->watched_until_ns)
		p->watched_until_ns = now + WATCHER_NS;
	p->look_ns = now + LOOK_WATCHED_NS;
	return now < p->watched_until_ns;
}

/* Once; the other reader may be a short one, so it is asked for again and again. */
static void say_refused(struct pinned_process *p, int error)
{
	if (p->said == error)
		return;
	p->said = error;
	shm_source_say(p->pid, error);
	log_warning("going on without the manual scopes of process %d%s", p->pid,
		    error == EBUSY ? " until then" : "");
}

static struct segment_accounting sum_of(const struct segment_accounting *a,
					const struct segment_accounting *b)
{
	struct segment_accounting sum = *a;

	sum.cursor += b->cursor;
	sum.delivered += b->delivered;
	sum.events += b->events;
	sum.continuations += b->continuations;
	sum.lost += b->lost;
	sum.written_off += b->written_off;
	sum.holes += b->holes;
	return sum;
}

static struct segment_accounting account_of(const struct pinned_process *p)
{
	struct segment_accounting terms = shm_source_accounting(p->segment);

	return p->adds_done ? sum_of(&terms, &p->done) : terms;
}

int pinned_process_account(const struct pinned_process *p, struct scope_file_writer *writer)
{
	struct segment_accounting terms = p->done;

	if (p->segment)
		terms = account_of(p);
	return terms.pid ? scope_file_writer_segment_accounting(writer, &terms) : 0;
}

/*
 * A file has one account of a segment: if this is the one that was let go of then what is to be
 * logged of that is logged with it. Another capture may have had it meanwhile: then its account began
 * anew.
 */
static int go_on(struct pinned_process *p, struct scope_file_writer *writer)
{
	struct segment_accounting terms = shm_source_accounting(p->segment);
	int err = 0;

	p->adds_done = terms.segment == p->done.segment && terms.cursor < p->done.cursor;
	if (terms.segment != p->done.segment && p->done.pid)
		err = scope_file_writer_segment_accounting(writer, &p->done);
	if (!p->adds_done)
		p->done = (struct segment_accounting){0};
	return err ? err : declare(p, 0, writer);
}

static int look(struct pinned_process *p, bool watched, struct scope_file_writer *writer)
{
	struct tid_translator translator = {.translate = translate, .context = p};
	bool namespaced = p->process.namespace_pid != p->process.pid;
	uint64_t begin = io_now_ns(), pause;
	int error;

	p->segment = shm_source_try_again(p->pid, namespaced ? &translator : NULL, p->capture);
	error = errno;
	p->waits = !p->segment && error == EBUSY && watched && waits_for_watcher(p, begin);
	if (p->waits)
		return 0;
	if (p->segment) {
		if (p->said)
			log_info("the manual scopes of process %d are captured from here on",
				 p->pid);
		p->said = 0;
		p->watched_until_ns = 0;
		return go_on(p, writer);
	}
	if (error != ENOENT && error != EAGAIN && error != ESRCH)
		say_refused(p, error);
	pause = (io_now_ns() - begin) * LOOK_SHARE;
	p->look_ns = io_now_ns() + (pause > LOOK_NS ? pause : LOOK_NS);
	return 0;
}

static void drop_segment(struct pinned_process *p)
{
	p->segment->ops->destroy(p->segment);
	p->segment = NULL;
	p->look_ns = 0;
	hash_map_clear(&p->tids);
}

/* Nobody writes to it any more, and nobody can open it after us. */
static int close_segment(struct pinned_process *p, struct event_output *output,
			 struct scope_file_writer *writer)
{
	int err = p->segment->ops->finish(p->segment, output);

	if (!err)
		err = pinned_process_account(p, writer);
	if (!err)
		err = scope_file_writer_flush(writer);
	if (err)
		return err;
	drop_segment(p);
	p->done = (struct segment_accounting){0};
	return 0;
}

int pinned_process_let_go(struct pinned_process *p, struct event_output *output,
			  struct scope_file_writer *writer)
{
	int err = p->segment ? p->segment->ops->finish(p->segment, output) : 0;

	p->waits = false;
	if (!err && p->segment)
		err = scope_file_writer_flush(writer);
	if (err || !p->segment)
		return err;
	shm_source_commit(p->segment);
	p->done = account_of(p);
	drop_segment(p);
	return 0;
}

int pinned_process_follow(struct pinned_process *p, bool watched, struct event_output *output,
			  struct scope_file_writer *writer)
{
	int err = 0;

	if (p->segment && p->segment->ops->gone(p->segment))
		err = close_segment(p, output, writer);
	if (err || !p->opened || p->segment || io_now_ns() < p->look_ns ||
	    process_ended(&p->process))
		return err;
	return look(p, watched, writer);
}

int pinned_process_end(struct pinned_process *p, struct event_output *output, bool leave)
{
	int err = 0;

	if (p->segment && !leave) {
		err = p->segment->ops->finish(p->segment, output);
		p->over = !err;
	} else if (p->segment && p->segment->ops->drain(p->segment, output) < 0)
		err = -EIO;
	return err;
}

void pinned_process_close(struct pinned_process *p)
{
	if (p->segment && p->over)
		p->segment->ops->destroy(p->segment);
	else if (p->segment)
		shm_source_leave(p->segment);
	if (p->opened)
		process_close(&p->process);
	else
		free(p->process.command);
	if (p->pidfd >= 0)
		close(p->pidfd);
	hash_map_clear(&p->tids);
}
