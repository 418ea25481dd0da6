// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * module_list_of_binary: a program that does not run yet, and what the dynamic loader will map for
 * it. Nothing of the program is run: its loader is asked, and only if it is one that the system's
 * owner installed.
 */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/io.h"
#include "base/log.h"
#include "base/vec.h"
#include "program/image.h"
#include "program/module_list.h"
#include "program/name.h"

extern char **environ;

enum { LOADER_SECONDS = 10, LOADER_MOST_BYTES = 1 << 20 };

#if defined(__x86_64__)
static const uint16_t own_machine = EM_X86_64, own_machine32 = EM_386;
#elif defined(__aarch64__)
static const uint16_t own_machine = EM_AARCH64, own_machine32 = EM_ARM;
#else
#error "scopetrace runs on x86-64 and arm64"
#endif

/* ---- finding the file ---- */

/* Like execvp: the first in PATH that is a file we may execute. */
static bool find_in_path(const char *name, char *found, size_t size)
{
	const char *path = getenv("PATH");

	for (const char *next = path ? path : "/usr/local/bin:/usr/bin:/bin"; next;) {
		size_t length = strcspn(next, ":");
		struct stat status;
		int used = snprintf(found, size, "%.*s/%s", (int)(length ? length : 1),
				    length ? next : ".", name);

		if (used > 0 && (size_t)used < size && stat(found, &status) == 0 &&
		    S_ISREG(status.st_mode) && access(found, X_OK) == 0)
			return true;
		next = next[length] ? next + length + 1 : NULL;
	}
	return false;
}

/* The file behind all symbolic links, in `resolved` (PATH_MAX bytes). 0 or -errno, logged. */
static int resolve_program(const char *path, char *resolved)
{
	char found[PATH_MAX];
	struct stat status;

	if (!*path) {
		log_error("there is no program '': its name is empty");
		return -ENOENT;
	}
	if (!strchr(path, '/')) {
		if (!find_in_path(path, found, sizeof(found))) {
			log_error(
				"there is no program %s in PATH; give its path (./%s) if it is a file here",
				path, path);
			return -ENOENT;
		}
		path = found;
	}
	if (!realpath(path, resolved) || stat(resolved, &status)) {
		int err = -errno;

		log_error("cannot open %s: %s", path, strerror(-err));
		return err == -EACCES || err == -ENOMEM ? err : -ENOENT;
	}
	if (!S_ISREG(status.st_mode)) {
		log_error("%s is %s, not a program", path,
			  S_ISDIR(status.st_mode) ? "a directory" : "a special file");
		return -EACCES;
	}
	return 0;
}

/* ---- is it a program ---- */

/*
 * A script's first line names the program that runs. True and that program's path if it is a
 * script.
 */
static bool script_interpreter(const char *path, char *interpreter, size_t size)
{
	char line[256] = "";
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t length = fd >= 0 ? read(fd, line, sizeof(line) - 1) : -1;
	const char *name;

	if (fd >= 0)
		close(fd);
	if (length < 2 || line[0] != '#' || line[1] != '!')
		return false;
	line[strcspn(line, "\n")] = '\0';
	name = line + 2 + strspn(line + 2, " \t");
	snprintf(interpreter, size, "%.*s", (int)strcspn(name, "\r"), name);
	return true;
}

static int log_not_elf(const char *path)
{
	char interpreter[256];

	if (script_interpreter(path, interpreter, sizeof(interpreter)))
		log_error(
			"%s is a script; the program that runs is its interpreter: give that (%s %s), or the "
			"program of yours that the script starts",
			path, interpreter, path);
	else
		log_error("%s is not an ELF program or library", path);
	return -ENOEXEC;
}

static const char *machine_name(uint16_t machine, char *text, size_t size)
{
	switch (machine) {
	case EM_X86_64:
		return "x86-64";
	case EM_386:
		return "i386";
	case EM_AARCH64:
		return "arm64";
	case EM_ARM:
		return "32-bit arm";
	case EM_RISCV:
		return "RISC-V";
	default:
		snprintf(text, size, "ELF machine %u", machine);
		return text;
	}
}

static int check_machine(const char *path, const struct image *image)
{
	char theirs[32], ours[32];

	if (image->machine == own_machine || image->machine == own_machine32)
		return 0;
	log_error("%s is built for %s; this machine runs %s", path,
		  machine_name(image->machine, theirs, sizeof(theirs)),
		  machine_name(own_machine, ours, sizeof(ours)));
	return -ENOEXEC;
}

/* ---- its libraries ---- */

/* A file can name any program as its loader, and asking it means running it. */
static bool is_trusted_loader(const char *path)
{
	static const char *const patterns[] = {"ld-linux*.so.*", "ld-musl-*.so.*", "ld64.so.*",
					       "ld-2.*.so",	 "ld.so.*",	   NULL};
	char resolved[PATH_MAX];
	struct stat status;

	return path[0] == '/' && name_matches_any(patterns, basename(path)) &&
	       realpath(path, resolved) && stat(resolved, &status) == 0 &&
	       S_ISREG(status.st_mode) && status.st_uid == 0 &&
	       !(status.st_mode & (S_IWGRP | S_IWOTH));
}

static int spawn_loader(const char *loader, const char *path, int *output, pid_t *pid)
{
	char *arguments[] = {(char *)loader, "--list", (char *)path, NULL};
	posix_spawn_file_actions_t actions;
	int ends[2], err;

	if (pipe2(ends, O_CLOEXEC))
		return -errno;
	err = posix_spawn_file_actions_init(&actions);
	if (!err) {
		posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
		posix_spawn_file_actions_adddup2(&actions, ends[1], 1);
		posix_spawn_file_actions_adddup2(&actions, ends[1], 2);
		err = posix_spawn(pid, loader, &actions, NULL, arguments, environ);
		posix_spawn_file_actions_destroy(&actions);
	}
	close(ends[1]);
	if (err) {
		close(ends[0]);
		return -err;
	}
	*output = ends[0];
	return 0;
}

/* All it prints, NUL-terminated, or NULL when it takes too long or is too much. */
static char *read_output(int fd)
{
	uint64_t deadline = io_now_ns() + LOADER_SECONDS * 1000000000ull;
	size_t used = 0, capacity = 0;
	char *text = NULL;

	for (;;) {
		struct pollfd poll_fd = {.fd = fd, .events = POLLIN};
		uint64_t now = io_now_ns();
		ssize_t length;

		if (now >= deadline || used > LOADER_MOST_BYTES ||
		    vec_reserve((void **)&text, &capacity, used + 4097, 1))
			break;
		if (poll(&poll_fd, 1, (int)((deadline - now) / 1000000) + 1) <= 0)
			continue;
		length = read(fd, text + used, capacity - used - 1);
		if (length < 0 && errno != EINTR)
			break;
		if (length == 0) {
			text[used] = '\0';
			return text;
		}
		used += length > 0 ? (size_t)length : 0;
	}
	free(text);
	return NULL;
}

/* What the loader prints, errors too, or NULL if it cannot be run. *failed: the loader did not find all. */
static char *ask_loader(const char *loader, const char *path, bool *failed)
{
	int output = -1, status = 0;
	char *text;
	pid_t pid;

	if (spawn_loader(loader, path, &output, &pid))
		return NULL;
	text = read_output(output);
	close(output);
	if (!text)
		kill(pid, SIGKILL);
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	*failed = !WIFEXITED(status) || WEXITSTATUS(status) != 0;
	return text;
}

static int add_file(const char *path, bool is_main, struct module_list *list)
{
	struct module_file file = {.path = path, .probe_path = path, .is_main = is_main};
	struct stat status;

	if (stat(path, &status)) {
		log_warning("%s is left out: %s", path, strerror(errno));
		list->is_incomplete = true;
		return 0;
	}
	file.device = status.st_dev;
	file.inode = status.st_ino;
	return module_list_add(list, &file);
}

/*
 * "libm.so.6 => /lib/libm.so.6 (0x7f...)", "/lib64/ld-linux-x86-64.so.2 (0x7f...)", "libx.so => not
 * found".
 */
static int add_listed(char *line, const char *program, struct module_list *list)
{
	char *arrow = strstr(line, " => "), *path = arrow ? arrow + 4 : line, *address,
	     resolved[PATH_MAX];

	path += strspn(path, " \t");
	address = strstr(path, " (0x");
	if (address)
		*address = '\0';
	if (path[0] == '/')
		return add_file(realpath(path, resolved) ? resolved : path, false, list);
	if (arrow && strncmp(path, "not found", 9) == 0) {
		list->is_incomplete = true;
		log_warning("%s needs %.*s, which its loader does not find", program,
			    (int)(arrow - line), line + strspn(line, " \t"));
	}
	return 0;
}

static int add_all_listed(char *text, const char *program, struct module_list *list)
{
	int err = 0;

	for (char *line = text, *next; *line && !err; line = next) {
		next = line + strcspn(line, "\n");
		if (*next)
			*next++ = '\0';
		err = add_listed(line, program, list);
	}
	return err;
}

static int add_libraries(const char *path, const char *loader, struct module_list *list)
{
	bool failed = true;
	char *text;
	int err = 0;

	if (!is_trusted_loader(loader)) {
		log_warning(
			"the libraries of %s are left out: to find them means to run its loader "
			"%s, which is no system loader owned by root",
			path, loader);
		list->is_incomplete = true;
		return 0;
	}
	text = ask_loader(loader, path, &failed);
	if (text && !failed) {
		err = add_all_listed(text, path, list);
	} else {
		list->is_incomplete = true;
		log_warning(
			"the libraries of %s are left out: its loader %s cannot list them%s%.*s",
			path, loader, text ? ": " : "", text ? (int)strcspn(text, "\n") : 0,
			text ? text : "");
	}
	free(text);
	return err;
}

/* ---- the list ---- */

static int check_program(const char *path, struct image *image, bool is_program)
{
	int err = check_machine(path, image);

	if (err)
		return err;
	/* A library needs no right to execute; a program that nobody may start does. */
	if (is_program && access(path, X_OK)) {
		log_error("%s is not executable: chmod +x it, or run scopetrace as a user who may",
			  path);
		return -EACCES;
	}
	return 0;
}

static int list_file(const char *path, struct module_list *list)
{
	struct module module = {
		.path = (char *)path, .probe_path = (char *)path, .base = basename(path)};
	char loader[PATH_MAX];
	struct image image;
	bool is_program;
	int err = image_open(&module, &image);

	if (err == -ENOEXEC)
		return log_not_elf(path);
	if (err) {
		log_error("cannot read %s: %s", path, strerror(-err));
		return err;
	}
	is_program = image_interpreter(&image, loader, sizeof(loader));
	err = check_program(path, &image, is_program || image.type == ET_EXEC);
	image_close(&image);
	if (!err)
		err = add_file(path, true, list);
	if (!err && is_program)
		err = add_libraries(path, loader, list);
	if (err == -ENOMEM)
		log_error("listing the libraries of %s failed: %s", path, strerror(ENOMEM));
	return err;
}

int module_list_of_binary(const char *path, struct module_list *list)
{
	char resolved[PATH_MAX];
	int err;

	*list = (struct module_list){0};
	err = resolve_program(path, resolved);
	if (!err)
		err = list_file(resolved, list);
	if (err)
		module_list_close(list);
	return err;
}
