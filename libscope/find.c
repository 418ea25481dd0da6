// SPDX-License-Identifier: BSD-2-Clause
#include "find.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "validate.h"

#define LINK_NAME "/memfd:" SCOPE_MEMFD_NAME " (deleted)"

enum { PATH_SIZE = 128 };

/* Who the process is, for its segment to name. */
struct identity {
	uint32_t pid;	/* in the innermost of its pid namespaces */
	uint64_t start; /* 0: not comparable */
};

struct candidate {
	pid_t tid; /* a live thread */
	uint64_t start;
	uint64_t end;
	uint64_t inode;
};

/* ---- small files of /proc ---- */

static FILE *open_proc(pid_t pid, const char *file)
{
	char path[PATH_SIZE];

	snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, file);
	return fopen(path, "re");
}

static uint32_t innermost_pid(pid_t pid)
{
	FILE *file = open_proc(pid, "status");
	char line[512];
	uint32_t innermost = (uint32_t)pid;

	if (!file)
		return innermost;
	while (fgets(line, sizeof(line), file)) {
		char *last;

		if (strncmp(line, "NSpid:", 6) != 0)
			continue;
		last = strrchr(line, '\t');
		if (last)
			innermost = (uint32_t)strtoul(last, NULL, 10);
		break;
	}
	fclose(file);
	return innermost;
}

static uint64_t start_time(pid_t pid)
{
	FILE *file = open_proc(pid, "stat");
	char text[1024];
	uint64_t start = 0;
	size_t got;
	char *at;

	if (!file)
		return 0;
	got = fread(text, 1, sizeof(text) - 1, file);
	fclose(file);
	text[got] = '\0';
	at = strrchr(text, ')'); /* the end of field 2; the start is field 22 */
	for (int field = 2; at && field < 22; field++)
		at = strchr(at + 1, ' ');
	if (at)
		start = strtoull(at, NULL, 10);
	return start;
}

static bool same_namespace(pid_t pid, const char *name)
{
	char path[PATH_SIZE];
	struct stat mine, theirs;

	snprintf(path, sizeof(path), "/proc/self/ns/%s", name);
	if (stat(path, &mine) != 0)
		return true;
	snprintf(path, sizeof(path), "/proc/%d/ns/%s", (int)pid, name);
	return stat(path, &theirs) != 0 || mine.st_ino == theirs.st_ino;
}

/* Start times are counted from boot, and boot lies elsewhere in another time namespace. */
static struct identity identify(pid_t pid)
{
	return (struct identity){.pid = innermost_pid(pid),
				 .start = same_namespace(pid, "time") ? start_time(pid) : 0};
}

static int64_t monotonic_offset(const char *process)
{
	char path[PATH_SIZE], line[128];
	int64_t offset = 0;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%s/timens_offsets", process);
	file = fopen(path, "re");
	if (!file)
		return 0;
	while (fgets(line, sizeof(line), file)) {
		int64_t seconds, ns;

		if (sscanf(line, "monotonic %" SCNd64 " %" SCNd64, &seconds, &ns) == 2)
			offset = (int64_t)((uint64_t)seconds * 1000000000u + (uint64_t)ns);
	}
	fclose(file);
	return offset;
}

int64_t scope_find_clock_offset(pid_t pid)
{
	char process[16];

	/* The file tells the offsets for children, which are the process's own unless it has just called
	 * unshare. */
	if (same_namespace(pid, "time"))
		return 0;
	snprintf(process, sizeof(process), "%d", (int)pid);
	return monotonic_offset(process) - monotonic_offset("self");
}

/* ---- mappings ---- */

/* 0 to go on; anything else ends the walk and is its result. */
typedef int (*candidate_visitor)(void *context, const struct candidate *candidate);

static bool parse_mapping(const char *line, struct candidate *candidate)
{
	uint64_t offset;
	int path = 0;

	return sscanf(line, "%" SCNx64 "-%" SCNx64 " %*4s %" SCNx64 " %*s %" SCNu64 " %n", &candidate->start,
		      &candidate->end, &offset, &candidate->inode, &path) == 4 &&
	       offset == 0 && path && strncmp(line + path, LINK_NAME, strlen(LINK_NAME)) == 0;
}

/* The segments that thread `tid` has mapped. `*lines` counts what there was to read: none, of a dead thread.
 */
static int visit_maps(pid_t pid, pid_t tid, candidate_visitor visit, void *context, size_t *lines)
{
	struct candidate candidate = {.tid = tid};
	char path[PATH_SIZE], *line = NULL;
	size_t size = 0;
	int result = 0;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/maps", (int)pid, (int)tid);
	file = fopen(path, "re");
	if (!file)
		return errno == ENOENT || errno == ESRCH ? 0 : -errno;
	while (!result && getline(&line, &size, file) > 0) {
		++*lines;
		if (parse_mapping(line, &candidate))
			result = visit(context, &candidate);
	}
	free(line);
	fclose(file);
	return result;
}

/*
 * The segments in the memory of a process, read from its first thread that lives: a first thread that has
 * ended, or a zombie, has no memory any more though others may. -ESRCH if there is no process.
 */
static int visit_process(pid_t pid, candidate_visitor visit, void *context)
{
	char path[PATH_SIZE];
	struct dirent *entry;
	size_t lines = 0;
	int result = 0;
	DIR *tasks;

	snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
	tasks = opendir(path);
	if (!tasks)
		return errno == ENOENT ? -ESRCH : -errno;
	while (!result && !lines && (entry = readdir(tasks)))
		if (entry->d_name[0] != '.')
			result = visit_maps(pid, (pid_t)strtol(entry->d_name, NULL, 10), visit, context,
					    &lines);
	closedir(tasks);
	return result;
}

static int visit_for_inode(void *context, const struct candidate *candidate)
{
	return candidate->inode == *(const uint64_t *)context;
}

bool scope_find_mapped(pid_t pid, uint64_t inode)
{
	int result = visit_process(pid, visit_for_inode, &inode);

	return result != 0 && result != -ESRCH;
}

/* ---- opening ---- */

/* Opened by path first, so that a swapped link cannot make us open a device or wait for a pipe. */
static int open_inode(const char *path, uint64_t inode)
{
	int looked_at = open(path, O_PATH | O_CLOEXEC);
	int descriptor = -ENOENT;
	struct stat status;

	if (looked_at < 0)
		return -errno;
	if (fstat(looked_at, &status) == 0 && S_ISREG(status.st_mode) && status.st_ino == inode) {
		char own[PATH_SIZE];

		snprintf(own, sizeof(own), "/proc/self/fd/%d", looked_at);
		descriptor = open(own, O_RDWR | O_CLOEXEC | O_NONBLOCK);
		if (descriptor < 0)
			descriptor = -errno;
	}
	close(looked_at);
	return descriptor;
}

static int open_by_descriptor(const struct candidate *candidate)
{
	char path[PATH_SIZE], link[sizeof(LINK_NAME)];
	int descriptor = -ENOENT;
	struct dirent *entry;
	DIR *descriptors;

	snprintf(path, sizeof(path), "/proc/%d/fd", (int)candidate->tid);
	descriptors = opendir(path);
	if (!descriptors)
		return -errno;
	while (descriptor < 0 && (entry = readdir(descriptors))) {
		ssize_t length = readlinkat(dirfd(descriptors), entry->d_name, link, sizeof(link));

		if (length != (ssize_t)strlen(LINK_NAME) || memcmp(link, LINK_NAME, (size_t)length) != 0)
			continue;
		snprintf(path, sizeof(path), "/proc/%d/fd/%.16s", (int)candidate->tid, entry->d_name);
		descriptor = open_inode(path, candidate->inode);
	}
	closedir(descriptors);
	return descriptor;
}

/* For programs that close every descriptor. Needs CAP_SYS_ADMIN or CAP_CHECKPOINT_RESTORE. */
static int open_by_mapping(const struct candidate *candidate)
{
	char path[PATH_SIZE];

	snprintf(path, sizeof(path), "/proc/%d/map_files/%" PRIx64 "-%" PRIx64, (int)candidate->tid,
		 candidate->start, candidate->end);
	return open_inode(path, candidate->inode);
}

/*
 * Magic first, then all of it: what stands before the magic in time is there when the magic is. The second
 * look cannot come before the first, as each is a system call. Pairs with the release in scope_attach_create.
 */
static int read_header(int descriptor, struct scope_header *header)
{
	struct stat status;
	int seals = fcntl(descriptor, F_GET_SEALS);

	/* One that can shrink could kill us with SIGBUS. */
	if (seals < 0 || !(seals & F_SEAL_SHRINK) || fstat(descriptor, &status) != 0)
		return -EBADMSG;
	memset(header, 0, sizeof(*header));
	if (pread(descriptor, &header->magic, sizeof(header->magic), 0) != sizeof(header->magic))
		return -EBADMSG;
	if (header->magic == 0)
		return -EAGAIN;
	if (pread(descriptor, header, sizeof(*header), 0) != sizeof(*header))
		return -EBADMSG;
	return scope_validate_header(header, (uint64_t)status.st_size);
}

struct search {
	struct identity identity;
	struct scope_found *found;
	int err; /* the best reason so far why there is none */
};

/* A forked child has its parent's segments mapped too: they name another process. */
static bool belongs(const struct scope_header *header, const struct identity *identity)
{
	return header->pid == identity->pid &&
	       (!header->process_start || !identity->start || header->process_start == identity->start);
}

static int open_candidate(const struct candidate *candidate)
{
	int descriptor = open_by_descriptor(candidate);

	return descriptor < 0 ? open_by_mapping(candidate) : descriptor;
}

static int visit_for_open(void *context, const struct candidate *candidate)
{
	struct search *search = context;
	struct scope_found *found = search->found;
	int descriptor = open_candidate(candidate);
	int err;

	err = descriptor < 0 ? descriptor : read_header(descriptor, &found->header);
	if (err == 0 && belongs(&found->header, &search->identity)) {
		found->descriptor = descriptor;
		found->inode = candidate->inode;
		return 1;
	}
	if (descriptor >= 0)
		close(descriptor);
	if (err && err != -ENOENT && search->err != -EAGAIN)
		search->err = err == -EPERM ? -EACCES : err;
	return 0;
}

/* Only of a version that we refuse is there something to tell. */
static int visit_for_version(void *context, const struct candidate *candidate)
{
	int descriptor = open_candidate(candidate);
	int result;

	if (descriptor < 0)
		return 0;
	result = read_header(descriptor, context) == -EPROTO;
	close(descriptor);
	return result;
}

int scope_find_version(pid_t pid, uint16_t *major, uint16_t *minor)
{
	struct scope_header header;
	int result = visit_process(pid, visit_for_version, &header);

	if (result <= 0)
		return result ? result : -ENOENT;
	*major = header.abi_major;
	*minor = header.abi_minor;
	return 0;
}

int scope_find(pid_t pid, struct scope_found *found)
{
	struct search search = {.identity = identify(pid), .found = found, .err = -ENOENT};
	int result = visit_process(pid, visit_for_open, &search);

	return result > 0 ? 0 : result < 0 ? result : search.err;
}
