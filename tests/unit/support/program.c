// SPDX-License-Identifier: GPL-2.0-or-later
#include "support/program.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

const char *target_path(const char *name)
{
	static char path[4096];
	const char *targets = getenv("SCOPETRACE_TARGETS"), *build = getenv("O");

	if (targets)
		snprintf(path, sizeof(path), "%s/%s", targets, name);
	else
		snprintf(path, sizeof(path), "%s/targets/%s", build ? build : "build", name);
	return path;
}

struct running running_start(const char *path)
{
	char *arguments[] = {(char *)path, "--wait-go", NULL};
	posix_spawn_file_actions_t actions;
	struct running running;
	int in[2], out[2];
	char byte = 0;

	cr_assert_eq(pipe2(in, O_CLOEXEC) | pipe2(out, O_CLOEXEC), 0);
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_adddup2(&actions, in[0], 0);
	posix_spawn_file_actions_adddup2(&actions, out[1], 1);
	cr_assert_eq(posix_spawn(&running.pid, path, &actions, NULL, arguments, environ), 0,
		     "cannot start %s", path);
	posix_spawn_file_actions_destroy(&actions);
	close(in[0]);
	close(out[1]);
	running.in = in[1];
	running.out = out[0];
	while (byte != '\n')
		cr_assert_eq(read(running.out, &byte, 1), 1, "%s printed no pid", path);
	return running;
}

void running_stop(struct running *running)
{
	kill(running->pid, SIGKILL);
	waitpid(running->pid, NULL, 0);
	close(running->in);
	close(running->out);
}

static char scratch_path[64];

static void remove_scratch(void)
{
	char command[128];

	snprintf(command, sizeof(command), "/bin/rm -rf %s", scratch_path);
	if (system(command))
		fprintf(stderr, "%s is left behind\n", scratch_path);
}

const char *scratch(void)
{
	if (!scratch_path[0]) {
		strcpy(scratch_path, "/tmp/scopetrace-target-XXXXXX");
		cr_assert_not_null(mkdtemp(scratch_path));
		chmod(scratch_path, 0755);
		atexit(remove_scratch);
	}
	return scratch_path;
}

void shell(const char *format, ...)
{
	char command[8192];
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(command, sizeof(command), format, arguments);
	va_end(arguments);
	cr_assert_eq(system(command), 0, "%s", command);
}

static int kept = -1;

void keep_messages(void)
{
	kept = memfd_create("messages", MFD_CLOEXEC);
	cr_assert(kept >= 0 && dup2(kept, 2) == 2);
}

const char *messages(void)
{
	static char text[16384];
	ssize_t length = pread(kept, text, sizeof(text) - 1, 0);

	cr_assert(length >= 0);
	text[length] = '\0';
	return text;
}

static bool is_named(const struct function *function, const char *base, const char *name)
{
	if (base ? strcmp(function->module->base, base) != 0 : function->module->is_libc)
		return false;
	if (strcmp(function->name, name) == 0)
		return true;
	for (const char **alias = function->aliases; alias && *alias; alias++) {
		if (strcmp(*alias, name) == 0)
			return true;
	}
	return false;
}

const struct function *find_function(const struct symbol_table *table, const char *base,
				     const char *name)
{
	for (size_t i = 0; i < table->count; i++) {
		if (is_named(&table->functions[i], base, name))
			return &table->functions[i];
	}
	return NULL;
}

size_t count_functions(const struct symbol_table *table, const char *base, const char *name)
{
	size_t count = 0;

	for (size_t i = 0; i < table->count; i++)
		count += is_named(&table->functions[i], base, name);
	return count;
}

static void read_at(const char *path, uint64_t offset, void *bytes, size_t length)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	cr_assert(fd >= 0, "%s: %s", path, strerror(errno));
	cr_assert_eq(pread(fd, bytes, length, (off_t)offset), (ssize_t)length, "%s at %#" PRIx64,
		     path, offset);
	close(fd);
}

void file_bytes(const char *path, uint64_t offset, void *bytes, size_t length)
{
	read_at(path, offset, bytes, length);
}

void memory_bytes(pid_t pid, uint64_t address, void *bytes, size_t length)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/mem", pid);
	read_at(path, address, bytes, length);
}

/* The lowest address at which the process maps this file (by inode, as maps shows it). */
static uint64_t lowest_mapping(pid_t pid, uint64_t inode)
{
	char path[64], line[8192];
	uint64_t lowest = UINT64_MAX;
	FILE *maps;

	snprintf(path, sizeof(path), "/proc/%d/maps", pid);
	maps = fopen(path, "r");
	cr_assert_not_null(maps);
	while (fgets(line, sizeof(line), maps)) {
		uint64_t start, found;

		if (sscanf(line, "%" SCNx64 "-%*x %*s %*x %*x:%*x %" SCNu64, &start, &found) == 2 &&
		    found == inode && start < lowest)
			lowest = start;
	}
	fclose(maps);
	cr_assert_neq(lowest, UINT64_MAX);
	return lowest;
}

uint64_t load_bias(pid_t pid, const struct module *module)
{
	uint64_t lowest = UINT64_MAX;
	Elf64_Ehdr header;

	file_bytes(module->probe_path, 0, &header, sizeof(header));
	for (int i = 0; i < header.e_phnum; i++) {
		Elf64_Phdr segment;

		file_bytes(module->probe_path, header.e_phoff + (uint64_t)i * sizeof(segment),
			   &segment, sizeof(segment));
		if (segment.p_type == PT_LOAD && segment.p_vaddr < lowest)
			lowest = segment.p_vaddr;
	}
	return lowest_mapping(pid, module->inode) - (lowest & ~4095ull);
}

void wait_until(bool (*condition)(void *context), void *context)
{
	for (int i = 0; i < 10000; i++) {
		if (condition(context))
			return;
		nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
	}
	cr_assert_fail("waited for ten seconds in vain");
}
