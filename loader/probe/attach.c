// SPDX-License-Identifier: GPL-2.0-or-later
#include "probe/attach.h"

#include <bpf/bpf.h>
#include <errno.h>
#include <linux/bpf.h>
#include <linux/membarrier.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/log.h"
#include "probe/exit.h"
#include "probe/link.h"
#include "probe/object.h"
#include "probe/site.h"
#include "probe/inherited.h"

#define DEFAULT_RING_BYTES (8u << 20)
#define MOST_NAMED	   5

struct probe_session {
	struct probe_object *object;
	size_t function_count;
	size_t exit_count; /* that there is room for */
	uint32_t generation;
	struct exit_places places;
	struct link_set links;
	struct sites sites;
	struct strip *strip; /* NULL: detached */
	size_t armed;	     /* functions */
	bool adopted;	     /* silent until probe_session_leave */
	bool *refused;	     /* by function: the kernel took no probe on it */
	bool detached;	     /* frames that are left open must not meet the returns of new links */
};

/*
 * The functions of one binary and return mode in one process, by offset: what one pair of links
 * holds.
 */
struct group {
	pid_t pid;
	const char *binary;
	enum return_mode returns;
	const struct probe_function *functions;
	const uint32_t *ids; /* into functions, one for each offset */
	const unsigned long *offsets;
	const unsigned long long *cookies;
	int *refused; /* by offset: why the kernel takes no probe there, -errno; 0: it does */
	size_t count;
};

/* ---- opening ---- */

static int check_options(size_t ring_bytes, size_t exit_count, size_t function_count)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);

	if (function_count == 0 || function_count > MAX_FUNCTIONS) {
		log_error(
			"cannot hook %zu functions at once: between 1 and %d are possible; narrow the "
			"selection",
			function_count, MAX_FUNCTIONS);
		return function_count ? -E2BIG : -EINVAL;
	}
	if (exit_count > MAX_EXIT_SITES) {
		log_error(
			"the functions are left by %zu instructions: at most %d can be hooked; narrow the selection",
			exit_count, MAX_EXIT_SITES);
		return -E2BIG;
	}
	if (ring_bytes < page || ring_bytes & (ring_bytes - 1) || ring_bytes > 1u << 30) {
		log_error(
			"a ring of %zu bytes is not possible: choose a power of two from %zu to 1 GiB",
			ring_bytes, page);
		return -EINVAL;
	}
	return 0;
}

/* The object is the session's, whatever comes; NULL: its loading failed, with errno. */
static struct probe_session *open_with(struct probe_object *object, size_t function_count,
				       size_t exit_count)
{
	struct probe_session *session = object ? calloc(1, sizeof(*session)) : NULL;
	int err = errno;

	if (session)
		session->refused = calloc(function_count, sizeof(*session->refused));
	if (session && session->refused) {
		session->function_count = function_count;
		session->exit_count = exit_count;
		session->generation = 1;
		sites_init(&session->sites);
		session->links.sites = &session->sites;
		session->object = object;
		session->strip = strip_create(&session->sites, probe_object_map(object, "heirs"));
		if (session->strip)
			return session;
		err = errno;
	} else if (session) {
		err = ENOMEM;
	}
	probe_object_unload(object);
	if (session)
		free(session->refused);
	free(session);
	errno = err;
	return NULL;
}

struct probe_session *probe_session_open(const struct probe_options *options, size_t function_count)
{
	size_t ring_bytes = options->ring_bytes ? options->ring_bytes : DEFAULT_RING_BYTES;
	const struct probe_object_options object = {
		.ring_bytes = ring_bytes,
		.function_count = function_count,
		.exit_count = options->exit_count,
		.minimum_ns = options->minimum_ns,
		.flags = options->flags,
	};
	int err = check_options(ring_bytes, options->exit_count, function_count);

	if (err) {
		errno = -err;
		return NULL;
	}
	return open_with(probe_object_load(&object), function_count, options->exit_count);
}

struct probe_session *probe_session_adopt(struct probe_object *object, size_t function_count,
					  size_t exit_count)
{
	int err = check_options(DEFAULT_RING_BYTES, exit_count, function_count);
	struct probe_session *session;

	if (err) {
		probe_object_unload(object);
		errno = -err;
		return NULL;
	}
	session = open_with(object, function_count, exit_count);
	if (session)
		session->adopted = true;
	return session;
}

/* The path that people know. */
static const char *module_of(const struct probe_function *function)
{
	return function->module ? function->module : function->binary;
}

/* ---- one group ---- */

static const enum probe_program entry_programs[] = {
	[RETURNS_URETPROBE] = PROBE_ENTRY,
	[RETURNS_INSTRUCTION] = PROBE_ENTRY_BY_EXIT,
	[RETURNS_NONE] = PROBE_INSTANT,
};

static int link_group(struct probe_session *session, const struct group *group,
		      enum probe_program program)
{
	const struct link_sites sites = {group->pid,	 group->binary,	 group->offsets,
					 group->cookies, group->refused, group->count};

	return link_make(&session->links, &sites, probe_object_program(session->object, program),
			 program == PROBE_RETURN);
}

static size_t count_refused(const struct group *group)
{
	size_t refused = 0;

	for (size_t i = 0; i < group->count; i++)
		refused += group->refused[i] != 0;
	return refused;
}

/* The exit sites of what is not refused; a function of which one is refused is refused itself. */
static int link_exits(struct probe_session *session, const struct group *group)
{
	int map = probe_object_map(session->object, "exit_sites");
	struct exit_table table;
	int err = exit_table_make(&table, &session->places, group->functions, group->ids,
				  group->refused, group->count, session->generation, map);

	if (!err) {
		const struct link_sites sites = {group->pid,	group->binary, table.offsets,
						 table.cookies, table.refused, table.count};

		err = link_make(&session->links, &sites,
				probe_object_program(session->object, PROBE_EXIT), false);
		exit_table_refuse_owners(&table, group->refused);
	}
	exit_table_clear(&table);
	return err;
}

static int link_ends(struct probe_session *session, const struct group *group)
{
	if (group->returns == RETURNS_INSTRUCTION)
		return link_exits(session, group);
	return group->returns == RETURNS_URETPROBE ? link_group(session, group, PROBE_RETURN) : 0;
}

/*
 * Ends, then entries. True in *again if a function was refused by one of its sites while others of
 * it are linked: all is then to be made anew without it.
 */
static int link_both(struct probe_session *session, const struct group *group, bool *again)
{
	size_t before = count_refused(group), between;
	int err = link_ends(session, group);

	between = count_refused(group);
	*again = group->returns == RETURNS_INSTRUCTION && between != before;
	if (err || *again)
		return err;
	err = link_group(session, group, entry_programs[group->returns]);
	*again = count_refused(group) != between;
	return err;
}

static const char *refusal(int err)
{
	return err == -LINK_REFUSED_SITE ? "it cannot trace the instruction there" : strerror(-err);
}

/* While it was being armed: then any of its files may be gone first. */
static bool has_ended(pid_t pid)
{
	struct pollfd ended = {.fd = (int)syscall(SYS_pidfd_open, pid, 0), .events = POLLIN};
	bool gone = ended.fd < 0 ? errno == ESRCH : poll(&ended, 1, 0) == 1;

	if (ended.fd >= 0)
		close(ended.fd);
	return gone;
}

static void say_failure(const struct group *group, int err)
{
	if (has_ended(group->pid))
		log_error("cannot hook process %d: the process has ended", group->pid);
	else if (err == -ESRCH)
		log_error("cannot hook process %d: it has ended, or is a thread of another process",
			  group->pid);
	else if (err == -EPERM || err == -EACCES)
		log_error(
			"cannot hook process %d: %s; run it with sudo, or give it CAP_BPF, CAP_PERFMON and, for another user's process, CAP_SYS_PTRACE",
			group->pid, strerror(-err));
	else
		log_error("cannot hook the functions of %s in process %d: %s",
			  module_of(&group->functions[group->ids[0]]), group->pid, strerror(-err));
}

/* What was refused is left out, and said. */
static void settle_refused(struct probe_session *session, const struct group *group)
{
	size_t refused = 0;

	for (size_t i = 0; i < group->count; i++) {
		const struct probe_function *function = &group->functions[group->ids[i]];

		session->refused[group->ids[i]] = group->refused[i];
		if (!group->refused[i])
			continue;
		if (refused++ < MOST_NAMED)
			log_warning(
				"the kernel refuses a probe on %s (%s+%#llx): %s; it is left out",
				function->display, module_of(function),
				(unsigned long long)function->offset, refusal(group->refused[i]));
	}
	if (refused > MOST_NAMED)
		log_warning("and %zu more of %s are left out", refused - MOST_NAMED,
			    module_of(&group->functions[group->ids[0]]));
	session->armed += group->count - refused;
}

static int attach_group(struct probe_session *session, struct group *group)
{
	size_t first = session->links.count;
	bool again = true;
	int err = 0;

	group->refused = calloc(group->count, sizeof(*group->refused));
	if (!group->refused)
		return -ENOMEM;
	while (again && !err) {
		link_close(&session->links, first);
		err = link_both(session, group, &again);
	}
	if (err)
		say_failure(group, err);
	else
		settle_refused(session, group);
	free(group->refused);
	return err;
}

/* ---- grouping ---- */

static enum return_mode returns_of(const struct probe_function *function)
{
	return function->returns ? function->returns : RETURNS_URETPROBE;
}

/* The functions of one binary lie together, and in it those of one return mode. */
static int by_group_and_offset(const void *left, const void *right, void *context)
{
	const struct probe_function *functions = context;
	const struct probe_function *a = &functions[*(const uint32_t *)left];
	const struct probe_function *b = &functions[*(const uint32_t *)right];
	int order = strcmp(a->binary, b->binary);

	if (!order)
		order = (int)returns_of(a) - (int)returns_of(b);
	return order ? order : (a->offset > b->offset) - (a->offset < b->offset);
}

static bool is_same_group(const struct probe_function *a, const struct probe_function *b)
{
	return strcmp(a->binary, b->binary) == 0 && returns_of(a) == returns_of(b);
}

static int refuse_two_at_one_address(const struct probe_function *functions, const uint32_t *ids,
				     size_t count)
{
	for (size_t i = 1; i < count; i++) {
		const struct probe_function *a = &functions[ids[i - 1]], *b = &functions[ids[i]];

		if (a->offset != b->offset || strcmp(a->binary, b->binary) != 0)
			continue;
		log_error(
			"%s and %s are one function of %s (both at %#llx): choose one of the names",
			a->display, b->display, module_of(a), (unsigned long long)a->offset);
		return -EINVAL;
	}
	return 0;
}

/* `ids` in the order of their groups: attaches each. */
static int attach_groups(struct probe_session *session, pid_t pid,
			 const struct probe_function *functions, const uint32_t *ids, size_t count)
{
	unsigned long *offsets = calloc(count, sizeof(*offsets));
	unsigned long long *cookies = calloc(count, sizeof(*cookies));
	size_t first = 0, i;
	int err = offsets && cookies ? 0 : -ENOMEM;

	for (i = 0; !err && i < count; i++) {
		offsets[i] = functions[ids[i]].offset;
		cookies[i] = (unsigned long long)session->generation << 32 | ids[i];
	}
	for (i = 1; !err && i <= count; i++) {
		const struct probe_function *begin = &functions[ids[first]];
		struct group group = {.pid = pid,
				      .binary = begin->binary,
				      .returns = returns_of(begin),
				      .functions = functions,
				      .ids = ids + first,
				      .offsets = offsets + first,
				      .cookies = cookies + first,
				      .count = i - first};

		if (i < count && is_same_group(begin, &functions[ids[i]]))
			continue;
		err = attach_group(session, &group);
		first = i;
	}
	free(offsets);
	free(cookies);
	return err;
}

/* The end of a text that is too long tells more than its beginning: it is a path. */
static void copy_end(char *to, size_t size, const char *text)
{
	size_t length = strlen(text);

	snprintf(to, size, "%s", length < size ? text : text + length - (size - 1));
}

/* Names and flags of the functions, for the programs and for whoever reads the map. */
static int describe_functions(const struct probe_session *session,
			      const struct probe_function *functions)
{
	int map = probe_object_map(session->object, "functions"), err = 0;

	for (uint32_t i = 0; i < session->function_count && !err; i++) {
		const struct probe_function *function = &functions[i];
		struct function_setting setting = {
			.flags = function->flags,
			.returns = returns_of(function),
			.offset = function->offset,
			.address = function->address,
			.exit_site = exit_places_entry(&session->places, function, i),
			.distance = function->distance,
			.overlap = function->overlap,
		};

		if (!function->binary)
			continue;
		copy_end(setting.module, sizeof(setting.module), module_of(function));
		snprintf(setting.name, sizeof(setting.name), "%s",
			 function->name ? function->name : function->display);
		err = bpf_map_update_elem(map, &i, &setting, BPF_ANY);
	}
	if (err)
		log_error("cannot describe the functions to the BPF programs: %s", strerror(-err));
	return err;
}

/* Attaches what is in this process, in the session's generation. 0 or -errno, logged. */
static int attach_process(struct probe_session *session, pid_t pid,
			  const struct probe_function *functions)
{
	uint32_t *ids = calloc(session->function_count, sizeof(*ids));
	size_t hooked = 0, armed = session->armed;
	int err;

	if (!ids)
		return -ENOMEM;
	for (size_t i = 0; i < session->function_count; i++)
		if (functions[i].binary)
			ids[hooked++] = (uint32_t)i;
	qsort_r(ids, hooked, sizeof(*ids), by_group_and_offset, (void *)functions);
	err = refuse_two_at_one_address(functions, ids, hooked);
	if (!err)
		err = exit_places_make(&session->places, functions, session->function_count,
				       session->exit_count);
	if (!err)
		err = describe_functions(session, functions);
	if (!err)
		err = probe_object_follow_threads(session->object);
	if (!err)
		err = probe_object_add_target(session->object, pid);
	if (!err && hooked)
		err = attach_groups(session, pid, functions, ids, hooked);
	if (!err && hooked && session->armed == armed) {
		log_error("none of the functions in process %d can be hooked", pid);
		err = -EINVAL;
	}
	free(ids);
	return err;
}

static int check_attach(const struct probe_session *session, pid_t pid, size_t count)
{
	if (count == session->function_count && pid > 0 && !session->detached)
		return 0;
	log_error("cannot hook %zu functions in process %d: the session was opened for %zu%s",
		  count, pid, session->function_count,
		  session->detached ? " and is detached: open another" : "");
	return -EINVAL;
}

int probe_session_attach(struct probe_session *session, pid_t pid,
			 const struct probe_function *functions, size_t count)
{
	int err = check_attach(session, pid, count);

	if (!err)
		err = attach_process(session, pid, functions);
	/*
	 * The return links come first: what returns between them and the last would have no entry.
	 */
	if (!err && !session->adopted)
		err = probe_object_set_generation(session->object, session->generation);
	if (err)
		probe_session_detach(session);
	return err;
}

/*
 * The old links stay until the new ones stand, whose hits do not count before the generation is
 * theirs.
 */
int probe_session_switch(struct probe_session *session, pid_t pid,
			 const struct probe_function *functions, size_t count)
{
	struct link_set old = session->links;
	size_t armed = session->armed;
	int err = check_attach(session, pid, count);

	if (err)
		return err;
	session->links = (struct link_set){.sites = &session->sites};
	session->armed = 0;
	session->generation++;
	err = attach_process(session, pid, functions);
	if (!err && !session->armed) {
		log_error("no function of process %d would stay hooked", pid);
		err = -EINVAL;
	}
	if (!err)
		err = probe_object_set_generation(session->object, session->generation);
	if (err) {
		link_clear(&session->links);
		session->links = old;
		session->armed = armed;
		session->generation--;
		return err;
	}
	link_clear(&old);
	return 0;
}

/* ---- closing ---- */

bool probe_session_refused(const struct probe_session *session, uint32_t function)
{
	return session->refused[function];
}

size_t probe_session_armed(const struct probe_session *session)
{
	return session->armed;
}

/*
 * Silence first: a link takes tens of ms to close, and a return that came without its entry could
 * be given to a frame that was abandoned at the same stack pointer.
 */
void probe_session_detach(struct probe_session *session)
{
	if (session->detached)
		return;
	session->detached = true;
	probe_object_set_generation(session->object, 0);
	probe_object_unfollow_threads(session->object);
	/*
	 * For a thread that is just ending: its program runs in an RCU section, which this waits
	 * for.
	 */
	syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL, 0, 0);
	strip_destroy(session->strip);
	session->strip = NULL;
	link_close(&session->links, 0);
}

int probe_session_visit_links(const struct probe_session *session, probe_link_visitor visit,
			      void *context)
{
	int err = 0, fd;

	for (size_t i = 0; i < session->links.count && !err; i++)
		err = visit(context, NULL, session->links.fds[i]);
	for (size_t i = 0; i < PROBE_FOLLOWERS && !err; i++) {
		const char *name = probe_object_follower(session->object, i, &fd);

		if (fd >= 0)
			err = visit(context, name, fd);
	}
	return err;
}

int probe_session_leave(struct probe_session *session)
{
	int err = probe_object_set_generation(session->object, session->generation);

	if (err)
		return err;
	session->detached = true;
	strip_destroy(session->strip);
	session->strip = NULL;
	return 0;
}

void probe_session_close(struct probe_session *session)
{
	if (!session)
		return;
	probe_session_detach(session);
	probe_object_unload(session->object);
	exit_places_clear(&session->places);
	link_clear(&session->links);
	sites_clear(&session->sites);
	free(session->refused);
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

/* ---- what becomes of the processes ---- */

void probe_session_forked(struct probe_session *session)
{
	if (session->strip)
		strip_wanted(session->strip);
}

void probe_session_look_for_children(struct probe_session *session)
{
	if (session->strip)
		strip_look(session->strip);
}

size_t probe_session_stripped(const struct probe_session *session)
{
	return session->strip ? strip_count(session->strip) : 0;
}

/*
 * The old links belong to a task that has ended, so that the kernel sees no place for breakpoints;
 * but once others have put some there, it runs the programs of the old ones as well: hence another
 * generation.
 */
int probe_session_reattach(struct probe_session *session, pid_t pid)
{
	size_t count;
	int *old, err;

	if (session->detached)
		return 0;
	err = sites_renew(&session->sites, session->generation + 1, &old, &count);
	if (count && !err) {
		err = probe_object_set_generation(session->object, session->generation + 1);
		session->generation += !err;
	}
	strip_close_links(session->strip, old, count);
	if (err)
		log_error(
			"process %d runs another program by an exec from a thread that was not its first, and "
			"cannot be hooked again: %s",
			pid, strerror(-err));
	return err;
}

bool probe_session_has_program_of(struct probe_session *session, pid_t pid)
{
	return sites_have_program_of(&session->sites, pid);
}
