// SPDX-License-Identifier: GPL-2.0-or-later
#include "program/module.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/program.h"
#include "program/image.h"

static const struct module *find_module(const struct module_list *list, const char *base)
{
	for (size_t i = 0; i < list->count; i++) {
		if (strcmp(list->items[i].base, base) == 0)
			return &list->items[i];
	}
	return NULL;
}

static size_t count_main(const struct module_list *list)
{
	size_t count = 0;

	for (size_t i = 0; i < list->count; i++)
		count += list->items[i].is_main;
	return count;
}

Test(module, of_a_process_are_the_files_it_maps)
{
	struct running running = running_start(target_path("alias"));
	struct module_list list;
	char exe[64];

	cr_assert_eq(module_list_of_process(running.pid, &list), 0);
	snprintf(exe, sizeof(exe), "/proc/%d/exe", running.pid);
	cr_assert_eq(count_main(&list), 1);
	cr_assert(find_module(&list, "alias")->is_main);
	cr_assert_not(find_module(&list, "alias")->is_libc);
	cr_assert_str_eq(find_module(&list, "alias")->probe_path, exe);
	cr_assert(find_module(&list, "libc.so.6")->is_libc);
	for (size_t i = 0; i < list.count; i++) {
		struct stat status;

		cr_assert_eq(stat(list.items[i].probe_path, &status), 0, "%s",
			     list.items[i].probe_path);
		cr_assert_eq(status.st_ino, list.items[i].inode);
		for (size_t j = 0; j < i; j++)
			cr_assert(list.items[i].inode != list.items[j].inode ||
				  list.items[i].device != list.items[j].device);
	}
	module_list_close(&list);
	running_stop(&running);
}

/*
 * The functions found through `table` are those that run: the bytes in memory are those at the
 * probe's place.
 */
static void assert_found_in_memory(pid_t pid, const char *base, const char *name)
{
	const struct function *function;
	uint8_t on_disk[16], in_memory[16];
	struct symbol_table table;

	cr_assert_eq(symbol_table_of_process(pid, false, &table), 0);
	function = find_function(&table, base, name);
	cr_assert_not_null(function, "%s:%s", base, name);
	file_bytes(function->module->probe_path, function->file_offset, on_disk, sizeof(on_disk));
	memory_bytes(pid, load_bias(pid, function->module) + function->address, in_memory,
		     sizeof(in_memory));
	cr_assert_arr_eq(on_disk, in_memory, sizeof(on_disk));
	symbol_table_close(&table);
}

Test(module, deleted_and_replaced_programs_are_still_read)
{
	struct running running;
	char path[256];

	snprintf(path, sizeof(path), "%s/prog ram\n(1)", scratch());
	shell("cp %s '%s'", target_path("clones"), path);
	running = running_start(path);
	cr_assert_eq(unlink(path), 0);
	assert_found_in_memory(running.pid, "prog ram\n(1)", "hot");
	/* Another program under the same name must not be taken for it. */
	shell("cp %s '%s'", target_path("alias"), path);
	assert_found_in_memory(running.pid, "prog ram\n(1)", "hot");
	running_stop(&running);
}

Test(module, deleted_and_replaced_libraries_are_still_read)
{
	struct running running;
	char path[256];

	if (getuid() != 0)
		cr_skip_test("needs root for /proc/PID/map_files");
	shell("cd %s && echo 'int lib_function(int a) { return a * 3 + 1; }' >lib.c && gcc -O2 -shared -fPIC "
	      "lib.c -o "
	      "liblib.so && echo '#include <stdio.h>\nint lib_function(int);\n"
	      "int main(int c, char **v) { puts(v[0]); fflush(stdout); getchar(); return lib_function(c); }' "
	      ">main.c && "
	      "gcc -O2 main.c -o main -L. -llib -Wl,-rpath,%s",
	      scratch(), scratch());
	snprintf(path, sizeof(path), "%s/main", scratch());
	running = running_start(path);
	shell("cd %s && rm liblib.so && echo 'int other(void) { return 0; }' >lib.c && gcc -shared -fPIC "
	      "lib.c -o liblib.so",
	      scratch());
	assert_found_in_memory(running.pid, "liblib.so", "lib_function");
	running_stop(&running);
}

Test(module, a_program_in_a_memfd_is_read)
{
	char path[64];
	int from = open(target_path("alias"), O_RDONLY), fd = memfd_create("in memory", 0);
	struct running running;
	struct stat status;

	cr_assert(from >= 0 && fd >= 0 && fstat(from, &status) == 0);
	cr_assert_eq(sendfile(fd, from, NULL, (size_t)status.st_size), status.st_size);
	snprintf(path, sizeof(path), "/proc/%d/fd/%d", getpid(), fd);
	running = running_start(path);
	assert_found_in_memory(running.pid, "memfd:in memory", "real_name");
	running_stop(&running);
}

static void read_line(const struct running *running)
{
	char byte = 0;

	while (byte != '\n')
		cr_assert_eq(read(running->out, &byte, 1), 1);
}

/* It runs `alias` when a line comes in. */
static struct running start_changing(void)
{
	char path[256];

	shell("cd %s && printf '#include <stdio.h>\n#include <unistd.h>\nint main(void) { puts(\"\"); fflush(stdout); "
	      "getchar(); execl(\"%s\", \"alias\", \"--wait-go\", NULL); return 1; }' >c.c && gcc -O2 c.c -o changes",
	      scratch(), target_path("alias"));
	snprintf(path, sizeof(path), "%s/changes", scratch());
	return running_start(path);
}

Test(module, what_is_held_stays_the_same_file_over_an_exec)
{
	struct running running = start_changing();
	struct symbol_table held, left;
	const struct function *function;
	struct image image;

	cr_assert_eq(symbol_table_of_process(running.pid, false, &held), 0);
	cr_assert_eq(symbol_table_of_process(running.pid, false, &left), 0);
	function = find_function(&held, "changes", "main");
	cr_assert_eq(symbol_table_keep_open(
			     &held, (const struct function *[]){NULL, function, function}, 3),
		     0);
	cr_assert_eq(write(running.in, "\n", 1), 1);
	read_line(&running);
	cr_assert_eq(image_open(function->module, &image), 0);
	image_close(&image);
	function = find_function(&left, "changes", "main");
	cr_assert_eq(image_open(function->module, &image), -ESTALE);
	keep_messages();
	cr_assert_eq(symbol_table_keep_open(&left, &function, 1), -ESTALE);
	cr_assert_not_null(strstr(messages(), "/changes (through /proc/"), "%s", messages());
	symbol_table_close(&held);
	symbol_table_close(&left);
	running_stop(&running);
}

Test(module, a_binary_that_is_replaced_is_no_longer_the_same)
{
	const struct function *function;
	struct symbol_table table;
	char path[256];

	snprintf(path, sizeof(path), "%s/p", scratch());
	shell("cp %s %s", target_path("alias"), path);
	cr_assert_eq(symbol_table_of_binary(path, false, &table), 0);
	function = find_function(&table, "p", "real_name");
	shell("cp %s %s.new && mv %s.new %s", target_path("alias"), path, path, path);
	cr_assert_eq(symbol_table_keep_open(&table, &function, 1), -ESTALE);
	symbol_table_close(&table);
}

Test(module, of_an_ended_process_are_none)
{
	struct module_list list;
	pid_t pid = fork();

	if (!pid)
		_exit(0);
	waitpid(pid, NULL, 0);
	keep_messages();
	cr_assert_eq(module_list_of_process(pid, &list), -ESRCH);
	cr_assert_not_null(strstr(messages(), "has ended"), "%s", messages());
}

Test(module, of_a_binary_are_what_its_loader_lists)
{
	struct module_list list;

	cr_assert_eq(module_list_of_binary(target_path("cxxthrow"), &list), 0);
	cr_assert_eq(count_main(&list), 1);
	cr_assert(list.items[0].is_main);
	cr_assert_str_eq(list.items[0].base, "cxxthrow");
	cr_assert_not_null(find_module(&list, "libc.so.6"));
	cr_assert_geq(list.count, 5); /* libstdc++, libm, libgcc_s, libc, ld.so */
	module_list_close(&list);
}

Test(module, binaries_are_found_in_PATH_and_behind_links)
{
	struct module_list list;
	char path[4096], link[256];

	realpath(target_path("alias"), path);
	snprintf(link, sizeof(link), "%s/by_link", scratch());
	cr_assert_eq(symlink(path, link), 0);
	cr_assert_eq(module_list_of_binary(link, &list), 0);
	cr_assert_str_eq(list.items[0].base, "alias");
	module_list_close(&list);
	setenv("PATH", scratch(), 1);
	cr_assert_eq(module_list_of_binary("by_link", &list), 0);
	cr_assert_str_eq(list.items[0].base, "alias");
	module_list_close(&list);
	keep_messages();
	cr_assert_eq(module_list_of_binary("alias", &list), -ENOENT);
	cr_assert_not_null(strstr(messages(), "no program alias in PATH"), "%s", messages());
}

static void assert_refused(const char *path, int err, const char *why)
{
	struct module_list list;

	cr_assert_eq(module_list_of_binary(path, &list), err, "%s", path);
	cr_assert_null(list.items);
	cr_assert_not_null(strstr(messages(), why), "%s", messages());
}

Test(module, what_is_no_program_is_refused_with_the_reason)
{
	char path[256];

	scratch();
	keep_messages();
	assert_refused(scratch(), -EACCES, "a directory");
	assert_refused("/dev/null", -EACCES, "a special file");
	snprintf(path, sizeof(path), "%s/missing", scratch());
	assert_refused(path, -ENOENT, "No such file");
	assert_refused("", -ENOENT, "name is empty");
	snprintf(path, sizeof(path), "%s/script", scratch());
	shell("printf '#! /usr/bin/env python3\\n' >%s; chmod +x %s", path, path);
	assert_refused(path, -ENOEXEC,
		       "is a script; the program that runs is its interpreter: give that "
		       "(/usr/bin/env python3 ");
	snprintf(path, sizeof(path), "%s/text", scratch());
	shell("echo hello >%s; chmod +x %s", path, path);
	assert_refused(path, -ENOEXEC, "not an ELF");
	snprintf(path, sizeof(path), "%s/empty", scratch());
	shell(": >%s; chmod +x %s", path, path);
	assert_refused(path, -ENOEXEC, "not an ELF");
	snprintf(path, sizeof(path), "%s/locked", scratch());
	shell("cp %s %s; chmod -x %s", target_path("alias"), path, path);
	assert_refused(path, -EACCES, "not executable");
	snprintf(path, sizeof(path), "%s/foreign", scratch());
	/* e_machine: SPARC */
	shell("cp %s %s; printf '\\053\\000' | dd of=%s bs=1 seek=18 conv=notrunc 2>/dev/null",
	      target_path("alias"), path, path);
	assert_refused(path, -ENOEXEC, "is built for ELF machine 43");
}

Test(module, static_programs_and_libraries_stand_alone)
{
	struct module_list list;
	char path[256];

	shell("cd %s && echo 'int f(void) { return 1; } int main(void) { return f(); }' >p.c && gcc -static "
	      "p.c -o fixed && "
	      "gcc -static-pie p.c -o moved && gcc -shared -fPIC p.c -o libp.so && chmod -x libp.so",
	      scratch());
	for (size_t i = 0; i < 3; i++) {
		snprintf(path, sizeof(path), "%s/%s", scratch(),
			 (const char *[]){"fixed", "moved", "libp.so"}[i]);
		cr_assert_eq(module_list_of_binary(path, &list), 0, "%s", path);
		cr_assert_eq(list.count, 1, "%s", path);
		module_list_close(&list);
	}
}

/* A file may name anything as its loader; to ask that would mean to run it. */
Test(module, a_strange_loader_is_not_run)
{
	struct module_list list;
	char path[256];

	shell("cd %s && printf '#!/bin/sh\\ntouch %s/it_ran\\n' >loader && chmod +x loader && "
	      "echo 'int main(void) { return 0; }' >p.c && gcc p.c -o p -Wl,--dynamic-linker=%s/loader",
	      scratch(), scratch(), scratch());
	snprintf(path, sizeof(path), "%s/p", scratch());
	keep_messages();
	cr_assert_eq(module_list_of_binary(path, &list), 0);
	cr_assert_eq(list.count, 1);
	cr_assert_not_null(strstr(messages(), "no system loader"), "%s", messages());
	cr_assert(list.is_incomplete);
	snprintf(path, sizeof(path), "%s/it_ran", scratch());
	cr_assert_neq(access(path, F_OK), 0);
	module_list_close(&list);
}

/* Asking the loader runs nothing of the program, constructors neither. */
Test(module, the_program_itself_is_not_run)
{
	struct module_list list;
	char path[256];

	shell("cd %s && echo '#include <fcntl.h>\n__attribute__((constructor)) void f(void) { "
	      "open(\"%s/it_ran\", O_CREAT, "
	      "0600); } int main(void) { return 0; }' >p.c && gcc p.c -o p",
	      scratch(), scratch());
	snprintf(path, sizeof(path), "%s/p", scratch());
	cr_assert_eq(module_list_of_binary(path, &list), 0);
	cr_assert_geq(list.count, 2);
	snprintf(path, sizeof(path), "%s/it_ran", scratch());
	cr_assert_neq(access(path, F_OK), 0);
	module_list_close(&list);
}

Test(module, a_missing_library_is_named)
{
	struct module_list list;
	char path[256];

	shell("cd %s && echo 'int f(void) { return 1; }' >l.c && gcc -shared -fPIC l.c -o libgone.so && "
	      "echo 'int f(void); int main(void) { return f(); }' >p.c && gcc p.c -o p -L. -lgone && rm "
	      "libgone.so",
	      scratch());
	snprintf(path, sizeof(path), "%s/p", scratch());
	keep_messages();
	cr_assert_eq(module_list_of_binary(path, &list), 0);
	cr_assert_not_null(strstr(messages(), "libgone.so"), "%s", messages());
	cr_assert(list.is_incomplete);
	module_list_close(&list);
}
