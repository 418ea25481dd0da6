// SPDX-License-Identifier: GPL-2.0-or-later
#include "command/pinned_process.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/io.h"
#include "base/log.h"
#include "source/shm_source.h"

#define LOOK_NS		200000000ull
#define LOOK_SHARE	200 /* looking for a segment reads all mappings: one part in so many of the time */
#define LIST_SHARE	20
#define WATCHER_NS	5000000000ull /* in which a watcher that lives has let go */
#define LOOK_WATCHED_NS 20000000ull

/* ---- what the file is told ---------------------------------------------------------------------------- */

static int declare(struct pinned_process *p, struct capture_writer *writer)
{
	struct event_output *output = capture_writer_output(writer);
	const char *command = p->process.command ? p->process.command : "";
	const char *comm = p->process.comm;
	struct process_info info = {.start_ns = p->opened ? p->process.start_ns : 0,
				    .pid = (uint32_t)p->pid,
				    .clock = p->segment ? shm_source_clock(p->segment) : 0,
				    .segment = p->segment ? shm_source_segment(p->segment) : 0};
	int err = output->string(output, comm, strlen(comm), &info.name);

	if (!err)
		err = output->string(output, command, strlen(command), &info.command);
	return err ? err : capture_writer_process(writer, &info);
}

/* Names can be read by anybody; for its manual scopes the process must be ours to look at. */
int pinned_process_open(struct pinned_process *p, pid_t pid, bool watched, struct capture_writer *writer)
{
	char path[64];

	*p = (struct pinned_process){.pid = pid, .watched = watched, .process = {.pidfd = -1}};
	snprintf(path, sizeof(path), "/proc/%d/map_files", pid);
	if (access(path, R_OK | X_OK) == 0)
		p->opened = !process_open(pid, &p->process);
	else if (errno == EACCES || errno == EPERM)
		log_info("process %d is not yours to look at: going on without its manual scopes", pid);
	if (!p->opened)
		process_read_name(pid, p->process.comm, &p->process.command);
	return declare(p, writer);
}

/* ---- its manual scopes -------------------------------------------------------------------------------- */

static void list_tids(struct pinned_process *p)
{
	struct process_thread *threads;
	uint64_t begin = io_now_ns();
	size_t count;

	if (!process_threads(&p->process, &threads, &count)) {
		for (size_t i = 0; i < count; i++)
			hash_map_put(&p->tids, (uint32_t)threads[i].namespace_tid, (uint32_t)threads[i].tid);
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
static bool waits_for_watcher(struct pinned_process *p)
{
	uint64_t now = io_now_ns();

	if (!p->watched)
		return false;
	if (!p->watched_until_ns)
		p->watched_until_ns = now + WATCHER_NS;
	p->look_ns = now + LOOK_WATCHED_NS;
	p->waits = now < p->watched_until_ns && shm_source_is_busy(p->pid);
	return p->waits;
}

static int look(struct pinned_process *p, struct capture_writer *writer)
{
	struct tid_translator translator = {.translate = translate, .context = p};
	bool namespaced = p->process.namespace_pid != p->process.pid;
	uint64_t begin = io_now_ns(), pause;

	if (waits_for_watcher(p))
		return 0;
	p->segment = shm_source_open(p->pid, namespaced ? &translator : NULL);
	if (p->segment) {
		shm_source_hold(p->segment);
		return declare(p, writer);
	}
	if (errno != ENOENT && errno != EAGAIN && errno != ESRCH) {
		log_warning("going on without the manual scopes of process %d", p->pid);
		p->refused = true;
	}
	pause = (io_now_ns() - begin) * LOOK_SHARE;
	p->look_ns = io_now_ns() + (pause > LOOK_NS ? pause : LOOK_NS);
	return 0;
}

int pinned_process_follow(struct pinned_process *p, struct capture_writer *writer)
{
	if (!p->opened || p->segment || p->refused || io_now_ns() < p->look_ns || process_ended(&p->process))
		return 0;
	return look(p, writer);
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
	hash_map_clear(&p->tids);
}
