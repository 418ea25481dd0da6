// SPDX-License-Identifier: BSD-2-Clause
/*
 * Windows: a section of the paging file by the name Local\libscope-PID, which goes with its last handle and
 * view. There is no fork, and no reader of ours yet. Built with mingw-w64.
 */
#include "platform.h"

#ifdef SCOPE_PLATFORM_WINDOWS
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#define WIN32_LEAN_AND_MEAN
#include <windows.h>

enum { NAME_SIZE = 40 };

static void make_name(char name[NAME_SIZE])
{
	static const char prefix[] = "Local\\libscope-";
	char digits[10];
	size_t count = 0, at = sizeof(prefix) - 1;
	uint32_t pid = scope_platform_pid();

	memcpy(name, prefix, at);
	do
		digits[count++] = (char)('0' + pid % 10);
	while (pid /= 10);
	while (count)
		name[at++] = digits[--count];
	name[at] = '\0';
}

/* Handles are small numbers, of which 32 bits count. */
static HANDLE handle_of(int descriptor)
{
	return (HANDLE)(intptr_t)descriptor;
}

/*
 * The name is ours alone, but scope_init makes a second section while the first is there: that one has no
 * name, and copies of the library that come later do not meet this one.
 */
int scope_platform_create(uint64_t size)
{
	char name[NAME_SIZE];
	HANDLE handle;

	make_name(name);
	handle = CreateFileMappingA(INVALID_HANDLE_VALUE, NULL, PAGE_READWRITE, (DWORD)(size >> 32),
				    (DWORD)size, name);
	if (handle && GetLastError() == ERROR_ALREADY_EXISTS) {
		CloseHandle(handle);
		handle = CreateFileMappingA(INVALID_HANDLE_VALUE, NULL, PAGE_READWRITE, (DWORD)(size >> 32),
					    (DWORD)size, NULL);
	}
	return handle ? (int)(intptr_t)handle : -ENOMEM;
}

void *scope_platform_map(int descriptor, uint64_t size)
{
	return MapViewOfFile(handle_of(descriptor), FILE_MAP_ALL_ACCESS, 0, 0, (SIZE_T)size);
}

void scope_platform_unmap(void *address, uint64_t size)
{
	(void)size;
	UnmapViewOfFile(address);
}

void scope_platform_close(int descriptor, const void *address)
{
	(void)address;
	CloseHandle(handle_of(descriptor));
}

static uint64_t size_of_view(const void *address)
{
	MEMORY_BASIC_INFORMATION information;

	return VirtualQuery(address, &information, sizeof(information)) ? information.RegionSize : 0;
}

/* The view keeps the section; the handle is not needed. */
void *scope_platform_find(scope_platform_accept accept)
{
	char name[NAME_SIZE];
	HANDLE handle;
	void *address;

	make_name(name);
	handle = OpenFileMappingA(FILE_MAP_ALL_ACCESS, FALSE, name);
	if (!handle)
		return NULL;
	address = MapViewOfFile(handle, FILE_MAP_ALL_ACCESS, 0, 0, 0);
	CloseHandle(handle);
	if (address && !accept(address, size_of_view(address))) {
		UnmapViewOfFile(address);
		address = NULL;
	}
	return address;
}

void scope_platform_pause(uint64_t ns)
{
	Sleep((DWORD)((ns + 999999) / 1000000));
}

void scope_platform_populate(void *address, uint64_t size)
{
	(void)address;
	(void)size;
}

/* Nothing forks here. */
int scope_platform_wipe_on_fork(void *page, uint64_t size)
{
	(void)page;
	(void)size;
	return 0;
}

void scope_platform_at_fork(void (*child)(void))
{
	(void)child;
}

const char *scope_platform_environment(const char *name)
{
	return getenv(name);
}

uint32_t scope_platform_pid(void)
{
	return (uint32_t)GetCurrentProcessId();
}

uint32_t scope_platform_tid(void)
{
	return (uint32_t)GetCurrentThreadId();
}

static uint64_t number_of(FILETIME time)
{
	return (uint64_t)time.dwHighDateTime << 32 | time.dwLowDateTime;
}

uint64_t scope_platform_process_start(void)
{
	FILETIME start, end, kernel, user;

	return GetProcessTimes(GetCurrentProcess(), &start, &end, &kernel, &user) ? number_of(start) : 0;
}

uint64_t scope_platform_thread_start(void)
{
	FILETIME start, end, kernel, user;

	return GetThreadTimes(GetCurrentThread(), &start, &end, &kernel, &user) ? number_of(start) : 0;
}

uint64_t scope_platform_monotonic_ns(void)
{
	LARGE_INTEGER now, rate;

	QueryPerformanceCounter(&now);
	QueryPerformanceFrequency(&rate);
	return (uint64_t)(now.QuadPart / rate.QuadPart) * 1000000000u +
	       (uint64_t)(now.QuadPart % rate.QuadPart) * 1000000000u / (uint64_t)rate.QuadPart;
}

/* Windows does not say what its performance counter reads; asking it is what is sound. */
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
