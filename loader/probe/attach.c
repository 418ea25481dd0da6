// SPDX-License-Identifier: GPL-2.0-or-later
#include "probe/attach.h"

#include <bpf/bpf.h>
#include <errno.h>
#include <linux/bpf.h>
#include <linux/membarrier.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/log.h"
#include "base/vec.h"
#include "bpf/scope_event.h"
#include "probe/object.h"

#define DEFAULT_RING_BYTES (8u << 20)
#define MOST_NAMED	   5
#define MAX_CLOSERS	   32
#define REFUSED_SITE	   524 /* ENOTSUPP, which the kernel keeps out of its headers */

struct probe_session {
	struct probe_object *object;
	size_t function_count;
	int *links; /* fds */
	size_t link_count;
	size_t link_capacity;
	size_t armed;  /* functions */
	bool detached; /* frames that are left open must not meet the returns of new links */
};

/* The functions of one binary in one process, by offset: what one link holds. */
struct group {
	pid_t pid;
	const char *binary;
	const struct probe_function *functions;
	const uint32_t *ids; /* into functions, one for each offset */
	const unsigned long *offsets;
	const __u64 *cookies;
	int *refused; /* by offset: why the kernel takes no probe there, -errno; 0: it does */
	size_t count;
};

/* ---- opening ------------------------------------------------------------------------------------------ */

static int check_options(size_t ring_bytes, size_t function_count)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);

	if (function_count == 0 || function_count > MAX_FUNCTIONS) {
		log_error("cannot hook %zu functions at once: between 1 and %d are possible; narrow the "
			  "selection",
			  function_count, MAX_FUNCTIONS);
		return function_count ? -E2BIG : -EINVAL;
	}
	if (ring_bytes < page || ring_bytes & (ring_bytes - 1) || ring_bytes > 1u << 30) {
		log_error("a ring of %zu bytes is not possible: choose a power of two from %zu to 1 GiB",
			  ring_bytes, page);
		return -EINVAL;
	}
	return 0;
}

struct probe_session *probe_session_open(const struct probe_options *options, size_t function_count)
{
	size_t ring_bytes = options->ring_bytes ? options->ring_bytes : DEFAULT_RING_BYTES;
	struct probe_session *session;
	int err = check_options(ring_bytes, function_count);

	if (err) {
		errno = -err;
		return NULL;
	}
	session = calloc(1, sizeof(*session));
	if (!session)
		return NULL;
	session->function_count = function_count;
	session->object = probe_object_load(ring_bytes, options->minimum_ns, function_count);
	if (session->object)
		return session;
	err = errno;
	free(session);
	errno = err;
	return NULL;
}

/* ---- one group ---------------------------------------------------------------------------------------- */

/* fd of a link to `count` of the group's functions from `first` on, or -errno. */
static int make_link(struct probe_session *session, const struct group *group, enum probe_program program,
		     size_t first, size_t count)
{
	LIBBPF_OPTS(bpf_link_create_opts, options);
	int fd;

	options.uprobe_multi.path = group->binary;
	options.uprobe_multi.offsets = group->offsets + first;
	options.uprobe_multi.cookies = group->cookies + first;
	options.uprobe_multi.cnt = (uint32_t)count;
	options.uprobe_multi.pid = (uint32_t)group->pid;
	options.uprobe_multi.flags = program == PROBE_RETURN ? BPF_F_UPROBE_MULTI_RETURN : 0;
	fd = bpf_link_create(probe_object_program(session->object, program), 0, BPF_TRACE_UPROBE_MULTI,
			     &options);
	return fd < 0 ? -errno : fd;
}

/* True if the fault may lie in one of the sites rather than in the process, the file or our rights. */
static bool may_be_a_site(int err)
{
	return err != -ESRCH && err != -EPERM && err != -EACCES && err != -ENOMEM && err != -EBADF &&
	       err != -ENOENT;
}

static int add_link(struct probe_session *session, int fd)
{
	if (vec_grow(&session->links, &session->link_capacity, session->link_count)) {
		close(fd);
		return -ENOMEM;
	}
	session->links[session->link_count++] = fd;
	return 0;
}

/*
 * Arms `count` of the group's functions from `first` on: by one link, or where the kernel refuses a site (and
 * with it the whole link) by as few as go around it. Those that it refuses are marked. 0, or -errno of
 * another kind.
 */
static int attach_range(struct probe_session *session, const struct group *group, enum probe_program program,
			size_t first, size_t count)
{
	int fd = make_link(session, group, program, first, count);
	int err;

	if (fd >= 0)
		return add_link(session, fd);
	if (!may_be_a_site(fd))
		return fd;
	if (count == 1) {
		group->refused[first] = fd;
		return 0;
	}
	err = attach_range(session, group, program, first, count / 2);
	return err ? err : attach_range(session, group, program, first + count / 2, count - count / 2);
}

/* Arms what was not refused before, in runs. */
static int attach_program(struct probe_session *session, const struct group *group,
			  enum probe_program program)
{
	size_t first = 0;
	int err = 0;

	for (size_t i = 0; i <= group->count && !err; i++) {
		if (i < group->count && !group->refused[i])
			continue;
		if (i > first)
			err = attach_range(session, group, program, first, i - first);
		first = i + 1;
	}
	return err;
}

static const char *refusal(int err)
{
	return err == -REFUSED_SITE ? "it cannot trace the instruction there" : strerror(-err);
}

static void say_failure(const struct group *group, int err)
{
	if (err == -ESRCH)
		log_error("cannot hook process %d: it has ended, or is a thread of another process",
			  group->pid);
	else if (err == -EPERM || err == -EACCES)
		log_error(
			"cannot hook process %d: %s; run it with sudo, or give it CAP_BPF, CAP_PERFMON and, for another user's process, CAP_SYS_PTRACE",
			group->pid, strerror(-err));
	else
		log_error("cannot hook the functions of %s in process %d: %s", group->binary, group->pid,
			  strerror(-err));
}

/* What was refused is left out, and said. */
static void settle_refused(struct probe_session *session, const struct group *group)
{
	size_t refused = 0;

	for (size_t i = 0; i < group->count; i++) {
		const struct probe_function *function = &group->functions[group->ids[i]];

		if (!group->refused[i])
			continue;
		if (refused++ < MOST_NAMED)
			log_warning("the kernel refuses a probe on %s (%s+%#llx): %s; it is left out",
				    function->display, group->binary, (unsigned long long)function->offset,
				    refusal(group->refused[i]));
	}
	if (refused > MOST_NAMED)
		log_warning("and %zu more of %s are left out", refused - MOST_NAMED, group->binary);
	session->armed += group->count - refused;
}

static size_t count_refused(const struct group *group)
{
	size_t refused = 0;

	for (size_t i = 0; i < group->count; i++)
		refused += group->refused[i] != 0;
	return refused;
}

/*
 * The kernel refused an entry whose return it had taken: the links of the returns, `count` from `first` on,
 * are made anew without it. Those of the entries stay meanwhile, so that no return comes without its entry;
 * what is called in between is found abandoned at the next entry there.
 */
static int remake_returns(struct probe_session *session, const struct group *group, size_t first,
			  size_t count)
{
	size_t refused = count_refused(group);
	int err;

	for (size_t i = first; i < first + count; i++)
		close(session->links[i]);
	session->link_count -= count;
	memmove(session->links + first, session->links + first + count,
		(session->link_count - first) * sizeof(*session->links));
	err = attach_program(session, group, PROBE_RETURN);
	if (err)
		return err;
	return count_refused(group) == refused ? 0 : -EAGAIN; /* else an entry would lack its return */
}

/* Both passes; a function is in both or in none. */
static int attach_both(struct probe_session *session, const struct group *group)
{
	size_t first = session->link_count, returns, refused;
	int err = attach_program(session, group, PROBE_RETURN);

	if (err)
		return err;
	returns = session->link_count - first;
	refused = count_refused(group);
	err = attach_program(session, group, PROBE_ENTRY);
	if (!err && count_refused(group) != refused)
		err = remake_returns(session, group, first, returns);
	return err;
}

static int attach_group(struct probe_session *session, struct group *group)
{
	int err;

	group->refused = calloc(group->count, sizeof(*group->refused));
	if (!group->refused)
		return -ENOMEM;
	err = attach_both(session, group);
	if (err)
		say_failure(group, err);
	else
		settle_refused(session, group);
	free(group->refused);
	return err;
}

/* ---- grouping ----------------------------------------------------------------------------------------- */

static int by_binary_and_offset(const void *left, const void *right, void *context)
{
	const struct probe_function *functions = context;
	const struct probe_function *a = &functions[*(const uint32_t *)left];
	const struct probe_function *b = &functions[*(const uint32_t *)right];
	int order = strcmp(a->binary, b->binary);

	return order ? order : (a->offset > b->offset) - (a->offset < b->offset);
}

static int refuse_two_at_one_address(const struct probe_function *functions, const uint32_t *ids,
				     size_t count)
{
	for (size_t i = 1; i < count; i++) {
		const struct probe_function *a = &functions[ids[i - 1]], *b = &functions[ids[i]];

		if (a->offset != b->offset || strcmp(a->binary, b->binary) != 0)
			continue;
		log_error("%s and %s are one function of %s (both at %#llx): choose one of the names",
			  a->display, b->display, a->binary, (unsigned long long)a->offset);
		return -EINVAL;
	}
	return 0;
}

/* `ids` in the order of their binaries: attaches each run of one binary. */
static int attach_groups(struct probe_session *session, pid_t pid, const struct probe_function *functions,
			 const uint32_t *ids, size_t count)
{
	unsigned long *offsets = calloc(count, sizeof(*offsets));
	__u64 *cookies = calloc(count, sizeof(*cookies));
	size_t first = 0, i;
	int err = offsets && cookies ? 0 : -ENOMEM;

	for (i = 0; !err && i < count; i++) {
		offsets[i] = functions[ids[i]].offset;
		cookies[i] = (uint64_t)PROBE_GENERATION << 32 | ids[i];
	}
	for (i = 1; !err && i <= count; i++) {
		struct group group = {pid,
				      functions[ids[first]].binary,
				      functions,
				      ids + first,
				      offsets + first,
				      cookies + first,
				      NULL,
				      i - first};

		if (i < count && strcmp(functions[ids[i]].binary, group.binary) == 0)
			continue;
		err = attach_group(session, &group);
		first = i;
	}
	free(offsets);
	free(cookies);
	return err;
}

int probe_session_attach(struct probe_session *session, pid_t pid, const struct probe_function *functions,
			 size_t count)
{
	uint32_t *ids = calloc(session->function_count, sizeof(*ids));
	size_t hooked = 0, armed;
	int err = -ENOMEM;

	if (!ids)
		goto out;
	err = -EINVAL;
	if (count != session->function_count || pid <= 0 || session->detached) {
		log_error("cannot hook %zu functions in process %d: the session was opened for %zu%s", count,
			  pid, session->function_count,
			  session->detached ? " and is detached: open another" : "");
		goto out;
	}
	for (size_t i = 0; i < count; i++)
		if (functions[i].binary)
			ids[hooked++] = (uint32_t)i;
	qsort_r(ids, hooked, sizeof(*ids), by_binary_and_offset, (void *)functions);
	err = refuse_two_at_one_address(functions, ids, hooked);
	if (!err)
		err = probe_object_follow_threads(session->object);
	armed = session->armed;
	if (!err && hooked)
		err = attach_groups(session, pid, functions, ids, hooked);
	if (!err && hooked && session->armed == armed) {
		log_error("none of the functions in process %d can be hooked", pid);
		err = -EINVAL;
	}
out:
	free(ids);
	if (err)
		probe_session_detach(session);
	return err;
}

/* ---- closing ------------------------------------------------------------------------------------------ */

/* Every `stride`-th link from `first` on. */
struct closer {
	const struct probe_session *session;
	size_t first;
	size_t stride;
};

static void *close_links(void *context)
{
	const struct closer *closer = context;

	for (size_t i = closer->first; i < closer->session->link_count; i += closer->stride)
		close(closer->session->links[i]);
	return NULL;
}

/* Each close waits for a grace period of the kernel, and they can wait together. */
static void close_all(struct probe_session *session)
{
	size_t stride = session->link_count < MAX_CLOSERS ? session->link_count : MAX_CLOSERS;
	struct closer closers[MAX_CLOSERS];
	pthread_t threads[MAX_CLOSERS];
	bool started[MAX_CLOSERS] = {false};

	for (size_t i = 0; i < stride; i++) {
		closers[i] = (struct closer){session, i, stride};
		started[i] = !pthread_create(&threads[i], NULL, close_links, &closers[i]);
		if (!started[i])
			close_links(&closers[i]);
	}
	for (size_t i = 0; i < stride; i++)
		if (started[i])
			pthread_join(threads[i], NULL);
	session->link_count = 0;
}

size_t probe_session_armed(const struct probe_session *session)
{
	return session->armed;
}

/*
 * Silence first: a link takes tens of ms to close, and a return that came without its entry could be given to
 * a frame that was abandoned at the same stack pointer.
 */
void probe_session_detach(struct probe_session *session)
{
	if (session->detached)
		return;
	session->detached = true;
	probe_object_silence(session->object);
	probe_object_unfollow_threads(session->object);
	/* For a thread that is just ending: its program runs in an RCU section, which this waits for. */
	syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL, 0, 0);
	close_all(session);
}

void probe_session_close(struct probe_session *session)
{
	if (!session)
		return;
	probe_session_detach(session);
	probe_object_unload(session->object);
	free(session->links);
	free(session);
}

int probe_session_map(const struct probe_session *session, const char *name)
{
	return probe_object_map(session->object, name);
}

uint64_t probe_session_recursion_misses(const struct probe_session *session)
{
	return probe_object_recursion_misses(session->object);
}
