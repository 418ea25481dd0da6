// SPDX-License-Identifier: BSD-2-Clause
/*
 * Any POSIX system: shared memory by name, which the process takes back when it exits. One that is killed
 * leaves its name behind, until another process gets its id or the system starts again. Copies of the library
 * in one process meet by that name; they share thread ids only where the system has them.
 */
#include "platform.h"

#ifdef SCOPE_PLATFORM_POSIX
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#if defined(__FreeBSD__) || defined(__DragonFly__)
#include <pthread_np.h>
#elif defined(__NetBSD__)
#include <lwp.h>
#endif

extern char **environ;

enum { NAME_SIZE = 32 };

/* "/libscope-PID", by hand: snprintf may not run in a signal handler. */
static void make_name(char name[NAME_SIZE], uint32_t pid)
{
	static const char prefix[] = "/libscope-";
	char digits[10];
	size_t count = 0, at = sizeof(prefix) - 1;

	memcpy(name, prefix, at);
	do
		digits[count++] = (char)('0' + pid % 10);
	while (pid /= 10);
	while (count)
		name[at++] = digits[--count];
	name[at] = '\0';
}

/* A name that is there already was left by a dead process with our id: nobody else gives it. */
int scope_platform_create(uint64_t size)
{
	char name[NAME_SIZE];
	int descriptor, err;

	make_name(name, scope_platform_pid());
	shm_unlink(name);
	descriptor = shm_open(name, O_RDWR | O_CREAT | O_EXCL, 0600);
	if (descriptor < 0)
		return -errno;
	if (ftruncate(descriptor, (off_t)size) == 0)
		return descriptor;
	err = -errno;
	close(descriptor);
	shm_unlink(name);
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

/* Whose memory a descriptor stands for cannot be asked here, and the program may have closed and reused it.
 */
void scope_platform_close(int descriptor, const void *address)
{
	if (!address)
		close(descriptor);
}

/* A forked child has another id, so that it does not take its parent's. */
__attribute__((destructor)) static void take_back_name(void)
{
	char name[NAME_SIZE];

	make_name(name, scope_platform_pid());
	shm_unlink(name);
}

void *scope_platform_find(scope_platform_accept accept)
{
	char name[NAME_SIZE];
	void *address = NULL;
	struct stat status;
	int descriptor;

	make_name(name, scope_platform_pid());
	descriptor = shm_open(name, O_RDWR, 0);
	if (descriptor < 0)
		return NULL;
	if (fstat(descriptor, &status) == 0 && status.st_size > 0)
		address = scope_platform_map(descriptor, (uint64_t)status.st_size);
	close(descriptor);
	if (address && !accept(address, (uint64_t)status.st_size)) {
		scope_platform_unmap(address, (uint64_t)status.st_size);
		address = NULL;
	}
	return address;
}

void scope_platform_pause(uint64_t ns)
{
	struct timespec time = {.tv_sec = (time_t)(ns / 1000000000u), .tv_nsec = (long)(ns % 1000000000u)};

	nanosleep(&time, NULL);
}

/* No portable way; the pages come one by one. */
void scope_platform_populate(void *address, uint64_t size)
{
	(void)address;
	(void)size;
}

int scope_platform_wipe_on_fork(void *page, uint64_t size)
{
#ifdef INHERIT_ZERO
	return minherit(page, size, INHERIT_ZERO) == 0 ? 0 : -errno;
#else
	(void)page;
	(void)size;
	return -ENOSYS;
#endif
}

void scope_platform_at_fork(void (*child)(void))
{
	pthread_atfork(NULL, NULL, child);
}

const char *scope_platform_environment(const char *name)
{
	return getuid() == geteuid() && getgid() == getegid() ? getenv(name) : NULL;
}

uint32_t scope_platform_pid(void)
{
	return (uint32_t)getpid();
}

uint32_t scope_platform_tid(void)
{
#if defined(__APPLE__)
	uint64_t id = 0;

	pthread_threadid_np(NULL, &id);
	return (uint32_t)id;
#elif defined(__FreeBSD__) || defined(__DragonFly__)
	return (uint32_t)pthread_getthreadid_np();
#elif defined(__NetBSD__)
	return (uint32_t)_lwp_self();
#elif defined(__OpenBSD__)
	return (uint32_t)getthrid();
#else
	static uint32_t last;
	static _Thread_local uint32_t id;

	if (!id)
		id = __atomic_add_fetch(&last, 1, __ATOMIC_RELAXED);
	return id;
#endif
}

/*
 * POSIX does not tell. Where libc keeps this is the same for all copies of the library in a process, and
 * hardly ever for another process of the same id, whose memory may be left.
 */
uint64_t scope_platform_process_start(void)
{
	return (uintptr_t)&environ;
}

uint64_t scope_platform_thread_start(void)
{
	return 0;
}

/* Without a word of the kernel on its counters they are not used. */
bool scope_platform_counter_allowed(void)
{
	return false;
}

bool scope_platform_clocksource_is(const char *const *names)
{
	(void)names;
	return false;
}

#endif
