// SPDX-License-Identifier: BSD-2-Clause
#include "platform.h"

#ifdef SCOPE_PLATFORM_LINUX
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "segment.h"
#include "system_call.h"

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008u
#endif
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

/* Programs expect their own first descriptors to be small, and some close the small ones. */
enum { DESCRIPTOR_FROM = 200 };

static int open_for_reading(const char *path)
{
	return (int)system_call(SYS_openat, AT_FDCWD, (long)path, O_RDONLY | O_CLOEXEC, 0);
}

static ssize_t read_some(int descriptor, char *buffer, size_t size)
{
	ssize_t got;

	do
		got = system_call(SYS_read, descriptor, (long)buffer, (long)size, 0);
	while (got == -EINTR);
	return got;
}

static void close_descriptor(int descriptor)
{
	system_call(SYS_close, descriptor, 0, 0, 0);
}

/* The start of a small file, as a string. Bytes read, or -1. */
static ssize_t read_file(const char *path, char *buffer, size_t size)
{
	int descriptor = open_for_reading(path);
	ssize_t got;

	if (descriptor < 0)
		return -1;
	got = read_some(descriptor, buffer, size - 1);
	close_descriptor(descriptor);
	buffer[got < 0 ? 0 : got] = '\0';
	return got;
}

static int make_memfd(void)
{
	unsigned flags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
	int descriptor = memfd_create(SCOPE_MEMFD_NAME, flags | MFD_NOEXEC_SEAL);

	if (descriptor < 0 && errno == EINVAL)
		descriptor = memfd_create(SCOPE_MEMFD_NAME, flags);
	if (descriptor >= 0) {
		int higher = fcntl(descriptor, F_DUPFD_CLOEXEC, DESCRIPTOR_FROM);

		if (higher >= 0) {
			close_descriptor(descriptor);
			descriptor = higher;
		}
	}
	return descriptor < 0 ? -errno : descriptor;
}

/* A file larger than RLIMIT_FSIZE would not fail but kill: SIGXFSZ. */
static bool size_allowed(uint64_t size)
{
	struct rlimit limit;

	return getrlimit(RLIMIT_FSIZE, &limit) == 0 &&
	       (limit.rlim_cur == RLIM_INFINITY || size <= limit.rlim_cur);
}

int scope_platform_create(uint64_t size)
{
	int descriptor, err;

	if (!size_allowed(size))
		return -EFBIG;
	descriptor = make_memfd();
	if (descriptor < 0)
		return descriptor;
	if (ftruncate(descriptor, (off_t)size) == 0 &&
	    fcntl(descriptor, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0)
		return descriptor;
	err = -errno;
	close_descriptor(descriptor);
	return err;
}

void *scope_platform_map(int descriptor, uint64_t size)
{
	void *address = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);

	return address == MAP_FAILED ? NULL : address;
}

void scope_platform_unmap(void *address, uint64_t size)
{
	munmap(address, size);
}

struct mapping {
	uintptr_t start;
	uintptr_t end;
	uint64_t inode;
};

static uint64_t parse_number(const char **at, unsigned base)
{
	uint64_t value = 0;

	for (;; (*at)++) {
		unsigned digit = (unsigned char)**at;

		digit = digit >= '0' && digit <= '9'   ? digit - '0'
			: digit >= 'a' && digit <= 'f' ? digit - 'a' + 10
						       : 99;
		if (digit >= base)
			return value;
		value = value * base + digit;
	}
}

static const char *skip_words(const char *at, unsigned count)
{
	while (count--) {
		while (*at && *at != ' ')
			at++;
		while (*at == ' ')
			at++;
	}
	return at;
}

/* "start-end perms offset device inode   path": true for a segment mapped from its beginning, shared and
 * writable. */
static bool parse_mapping(const char *line, struct mapping *mapping)
{
	static const char path[] = "/memfd:" SCOPE_MEMFD_NAME " (deleted)";
	const char *at = line;

	mapping->start = (uintptr_t)parse_number(&at, 16);
	if (*at++ != '-')
		return false;
	mapping->end = (uintptr_t)parse_number(&at, 16);
	if (strncmp(at, " rw-s 0", 7) != 0)
		return false;
	at = skip_words(at, 2);
	if (parse_number(&at, 16) != 0)
		return false;
	at = skip_words(at, 2);
	mapping->inode = parse_number(&at, 10);
	return strcmp(skip_words(at, 1), path) == 0;
}

typedef bool (*mapping_visitor)(void *context, const struct mapping *mapping);

/*
 * Shows the mapped segments of a mappings file until `visit` is true, which is the answer. `*empty`: it had
 * nothing. Small buffers: this may run on a signal stack. A line longer than ours is cut, and is none of
 * them.
 */
static bool visit_file(const char *path, mapping_visitor visit, void *context, bool *empty)
{
	char buffer[256], line[160];
	size_t length = 0;
	bool found = false;
	ssize_t got;
	int descriptor = open_for_reading(path);

	if (descriptor < 0)
		return false;
	while (!found && (got = read_some(descriptor, buffer, sizeof(buffer))) > 0) {
		*empty = false;
		for (ssize_t i = 0; i < got && !found; i++) {
			struct mapping mapping;

			if (buffer[i] != '\n') {
				if (length < sizeof(line) - 1)
					line[length++] = buffer[i];
				continue;
			}
			line[length] = '\0';
			length = 0;
			found = parse_mapping(line, &mapping) && visit(context, &mapping);
		}
	}
	close_descriptor(descriptor);
	return found;
}

/* The process's file is empty when its first thread has ended; then this thread's own. */
static bool visit_mappings(mapping_visitor visit, void *context)
{
	bool empty = true;
	bool found = visit_file("/proc/self/maps", visit, context, &empty);

	return empty ? visit_file("/proc/thread-self/maps", visit, context, &empty) : found;
}

struct search {
	scope_platform_accept accept;
	void *found;
};

static bool visit_for_accept(void *context, const struct mapping *mapping)
{
	struct search *search = context;
	void *address = (void *)mapping->start;

	if (!search->accept(address, mapping->end - mapping->start))
		return false;
	search->found = address;
	return true;
}

void *scope_platform_find(scope_platform_accept accept)
{
	struct search search = {.accept = accept};

	visit_mappings(visit_for_accept, &search);
	return search.found;
}

static bool visit_for_address(void *context, const struct mapping *mapping)
{
	struct mapping *wanted = context;

	if (mapping->start != wanted->start)
		return false;
	*wanted = *mapping;
	return true;
}

void scope_platform_close(int descriptor, const void *address)
{
	struct mapping mapping = {.start = (uintptr_t)address};
	struct stat status;

	if (!address) {
		close_descriptor(descriptor);
		return;
	}
	if (fstat(descriptor, &status) == 0 && visit_mappings(visit_for_address, &mapping) &&
	    mapping.inode == status.st_ino)
		close_descriptor(descriptor);
}

void scope_platform_pause(uint64_t ns)
{
	struct timespec time = {.tv_sec = (time_t)(ns / 1000000000u), .tv_nsec = (long)(ns % 1000000000u)};

	system_call(SYS_clock_nanosleep, CLOCK_MONOTONIC, 0, (long)&time, 0);
}

void scope_platform_populate(void *address, uint64_t size)
{
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
	uintptr_t start = (uintptr_t)address / page * page;

	madvise((void *)start, (uintptr_t)address + size - start, MADV_POPULATE_WRITE);
}

int scope_platform_wipe_on_fork(void *page, uint64_t size)
{
	return madvise(page, size, MADV_WIPEONFORK) == 0 ? 0 : -errno;
}

void scope_platform_at_fork(void (*child)(void))
{
	pthread_atfork(NULL, NULL, child);
}

const char *scope_platform_environment(const char *name)
{
	return secure_getenv(name);
}

uint32_t scope_platform_pid(void)
{
	return (uint32_t)system_call(SYS_getpid, 0, 0, 0, 0);
}

uint32_t scope_platform_tid(void)
{
	return (uint32_t)system_call(SYS_gettid, 0, 0, 0, 0);
}

/* Field 22 of a stat file; the second, the name, may hold blanks and brackets, so count from the last
 * bracket. */
static uint64_t start_time(const char *path)
{
	char text[512];
	const char *at;

	if (read_file(path, text, sizeof(text)) <= 0 || !(at = strrchr(text, ')')))
		return 0;
	at = skip_words(at, 20);
	return parse_number(&at, 10);
}

uint64_t scope_platform_process_start(void)
{
	return start_time("/proc/self/stat");
}

uint64_t scope_platform_thread_start(void)
{
	return start_time("/proc/thread-self/stat");
}

/* rdtsc can be forbidden to a process, and then kills it. */
bool scope_platform_counter_allowed(void)
{
	int mode = PR_TSC_ENABLE;

	return prctl(PR_GET_TSC, &mode) != 0 || mode == PR_TSC_ENABLE;
}

bool scope_platform_clocksource_is(const char *const *names)
{
	char text[64];

	if (read_file("/sys/devices/system/clocksource/clocksource0/current_clocksource", text,
		      sizeof(text)) <= 0)
		return false;
	text[strcspn(text, "\n")] = '\0';
	for (; *names; names++)
		if (strcmp(text, *names) == 0)
			return true;
	return false;
}

#endif
