// SPDX-License-Identifier: GPL-2.0-or-later
#include "program/symbol.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "plan/hazard.h"
#include "program/selector.h"
#include "support/program.h"

static void open_binary(const char *path, struct symbol_table *table)
{
	cr_assert_eq(symbol_table_of_binary(path, false, table), 0, "%s", path);
}

/* Builds C text with these flags; returns its path, static until the next call. */
static const char *build(const char *name, const char *flags, const char *text)
{
	static char path[256];
	FILE *source;

	snprintf(path, sizeof(path), "%s/%s.c", scratch(), name);
	source = fopen(path, "w");
	cr_assert_not_null(source);
	fputs(text, source);
	fclose(source);
	shell("cd %s && gcc -O2 %s %s.c -o %s", scratch(), flags, name, name);
	snprintf(path, sizeof(path), "%s/%s", scratch(), name);
	return path;
}

/*
 * Every address is proven: what stands in the file at the offset runs in the process at the
 * symbol's address.
 */
static void assert_offsets_are_true(const char *path)
{
	struct running running = running_start(path);
	struct symbol_table table;
	const struct module *module = NULL;
	uint64_t bias = 0;

	cr_assert_eq(symbol_table_of_process(running.pid, false, &table), 0);
	cr_assert_gt(table.count, 1000);
	for (size_t i = 0; i < table.count; i++) {
		const struct function *f = &table.functions[i];
		uint8_t on_disk[8], in_memory[8];

		if (f->module != module)
			bias = load_bias(running.pid, f->module);
		module = f->module;
		file_bytes(module->probe_path, f->file_offset, on_disk, sizeof(on_disk));
		memory_bytes(running.pid, bias + f->address, in_memory, sizeof(in_memory));
		cr_assert_arr_eq(on_disk, in_memory, sizeof(on_disk), "%s:%s", module->base,
				 f->name);
	}
	symbol_table_close(&table);
	running_stop(&running);
}

Test(symbol, offsets_are_those_of_the_code_that_runs)
{
	assert_offsets_are_true(target_path("clones"));
}

Test(symbol, offsets_of_a_fixed_program_are_true)
{
	assert_offsets_are_true(target_path("clones.nop5"));
}

#define WAITS \
	"#include <stdio.h>\nint main(int c, char **v) { puts(v[0]); fflush(stdout); return getchar(); }\n"

/*
 * As lld, gold and linker scripts lay programs out: the code's place in the file is not its place
 * in memory.
 */
Test(symbol, offsets_go_through_the_program_headers)
{
	const char *path = build("moved", "-Wl,--section-start=.text=0x40000",
				 WAITS "int fn(int a) { return a * 5; }");
	const struct function *function;
	struct symbol_table table;

	open_binary(path, &table);
	function = find_function(&table, "moved", "fn");
	cr_assert_not_null(function);
	cr_assert_geq(function->address, 0x40000);
	cr_assert_lt(function->file_offset, 0x40000);
	symbol_table_close(&table);
	assert_offsets_are_true(path);
}

Test(symbol, offsets_of_lld_are_true)
{
	if (access("/usr/bin/ld.lld", X_OK))
		cr_skip_test("lld is not installed");
	assert_offsets_are_true(
		build("by_lld", "-fuse-ld=lld", WAITS "int fn(int a) { return a * 5; }"));
}

Test(symbol, one_address_is_one_function)
{
	const struct function *function;
	struct symbol_table table;

	open_binary(target_path("alias"), &table);
	function = find_function(&table, "alias", "real_name");
	cr_assert_not_null(function);
	cr_assert_eq(function, find_function(&table, "alias", "strong_alias"));
	cr_assert_eq(function, find_function(&table, "alias", "weak_alias"));
	cr_assert_neq(strcmp(function->name, "weak_alias"), 0,
		      "a global name comes before a weak one");
	cr_assert_not_null(function->aliases);
	cr_assert_not_null(function->aliases[1]);
	cr_assert_null(function->aliases[2]);
	for (size_t i = 1; i < table.count; i++) {
		const struct function *f = &table.functions[i];

		cr_assert(f->module > f[-1].module ||
			  (f->module == f[-1].module && f->address > f[-1].address));
	}
	symbol_table_close(&table);
}

Test(symbol, two_functions_of_one_name_are_two)
{
	struct symbol_table table;

	open_binary(target_path("twin"), &table);
	cr_assert_eq(count_functions(&table, "twin", "twin"), 2);
	symbol_table_close(&table);
}

Test(symbol, clones_answer_to_their_source_name_and_cold_parts_to_none)
{
	const struct function *function;
	struct symbol_table table;

	open_binary(target_path("clones"), &table);
	function = find_function(&table, "clones", "work.constprop.0");
	cr_assert_not_null(function);
	cr_assert_str_eq(function->plain, "work");
	function = find_function(&table, "clones", "split.part.0");
	cr_assert_not_null(function);
	cr_assert_str_eq(function->plain, "split");
	cr_assert_not_null(find_function(&table, "clones", "hot"));
	cr_assert_null(find_function(&table, "clones", "hot")->plain);
	cr_assert_null(find_function(&table, "clones", "hot.cold"));
	symbol_table_close(&table);
}

/*
 * Where the whole function is there too, its calls go on into the part: one name must not stand for
 * both.
 */
Test(symbol, a_part_beside_its_whole_is_asked_for_by_its_own_name)
{
	const struct function *part;
	struct symbol_table table;

	open_binary(
		build("parts", "",
		      "int main(void) { return 0; }\n"
		      "__asm__(\".text\\n.globl whole\\n.type whole, @function\\nwhole: jmp "
		      "whole.part.0\\n.size whole, 5\\n\"\n"
		      "\".type whole.part.0, @function\\nwhole.part.0: ret\\n.size whole.part.0, 1\\n\");\n"),
		&table);
	part = find_function(&table, "parts", "whole.part.0");
	cr_assert_not_null(part);
	cr_assert_null(part->plain);
	symbol_table_close(&table);
}

Test(symbol, symbols_that_say_little_are_taken_with_care)
{
	static const uint8_t sizeless_bytes[] = {0x48, 0x8d, 0x47, 0x01, 0xc3};
	const struct function *sizeless, *untyped;
	struct symbol_table table;
	uint8_t bytes[5];

	open_binary(target_path("zerosize"), &table);
	sizeless = find_function(&table, "zerosize", "sizeless");
	untyped = find_function(&table, "zerosize", "untyped");
	cr_assert(sizeless && untyped);
	cr_assert_eq(sizeless->size, 0);
	cr_assert_not(sizeless->is_untyped);
	cr_assert(untyped->is_untyped);
	cr_assert_not_null(find_function(&table, "zerosize", "with_label"));
	cr_assert_null(find_function(&table, "zerosize", "label_inside"));
	file_bytes(sizeless->module->probe_path, sizeless->file_offset, bytes, sizeof(bytes));
	cr_assert_arr_eq(bytes, sizeless_bytes, sizeof(bytes));
	symbol_table_close(&table);
}

Test(symbol, what_is_not_called_is_not_offered)
{
	static const char *const names[] = {"_start", "setjmp",	    "_setjmp",	  "__sigsetjmp",
					    "vfork",  "getcontext", "swapcontext"};
	struct symbol_table table;

	open_binary(target_path("alias"), &table);
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		cr_assert_null(find_function(&table, "alias", names[i]));
		cr_assert_null(find_function(&table, "libc.so.6", names[i]), "%s", names[i]);
	}
	cr_assert_not_null(find_function(&table, "libc.so.6", "malloc"));
	/* An IFUNC, and an old function of the same name that new programs never call. */
	cr_assert_null(find_function(&table, "libc.so.6", "memcpy"));
	symbol_table_close(&table);
}

/*
 * Each function of the whole program must be found again, at the same place, in what is left of it.
 */
static void assert_finds_the_same(const char *whole, const char *left, const char *base)
{
	struct symbol_table before, after;
	size_t compared = 0;

	open_binary(whole, &before);
	open_binary(left, &after);
	for (size_t i = 0; i < before.count; i++) {
		const struct function *f = &before.functions[i], *g;

		if (!f->module->is_main || !strstr(f->name, "exported"))
			continue;
		g = find_function(&after, base, f->name);
		cr_assert_not_null(g, "%s", f->name);
		cr_assert_eq(f->address, g->address);
		cr_assert_eq(f->file_offset, g->file_offset);
		cr_assert_eq(f->probe_offset, g->probe_offset);
		compared++;
	}
	cr_assert_eq(compared, 2);
	symbol_table_close(&before);
	symbol_table_close(&after);
}

#define EXPORTS                                                                                  \
	"int exported_one(int a) { return a + 1; }\nint exported_two(int a) { return a + 2; }\n" \
	"int main(void) { return 0; }\n"

static const char *in_scratch(const char *name)
{
	static char path[256];

	snprintf(path, sizeof(path), "%s/%s", scratch(), name);
	return path;
}

Test(symbol, stripped_libraries_and_programs_keep_what_they_export)
{
	char whole[256];

	strcpy(whole, build("whole.so", "-shared -fPIC", EXPORTS));
	shell("strip %s -o %s/left.so", whole, scratch());
	assert_finds_the_same(whole, in_scratch("left.so"), "left.so");
	strcpy(whole, build("whole", "-rdynamic", EXPORTS));
	shell("strip %s -o %s/left", whole, scratch());
	assert_finds_the_same(whole, in_scratch("left"), "left");
	/* A symbol table that holds one name of all. */
	shell("strip -K main %s -o %s/thin", whole, scratch());
	assert_finds_the_same(whole, in_scratch("thin"), "thin");
}

Test(symbol, separate_debug_files_are_read)
{
	char whole[256];

	strcpy(whole, build("whole", "-g", EXPORTS));
	shell("cd %s && objcopy --only-keep-debug whole left.debug && strip whole -o left && "
	      "objcopy --add-gnu-debuglink=left.debug left",
	      scratch());
	assert_finds_the_same(whole, in_scratch("left"), "left");
}

Test(symbol, a_compressed_symbol_table_is_read)
{
	char whole[256];

	if (access("/usr/bin/xz", X_OK))
		cr_skip_test("xz is not installed");
	strcpy(whole, build("whole", "", EXPORTS));
	shell("cd %s && objcopy --only-keep-debug whole mini && strip -g mini && xz -k mini && strip whole "
	      "-o left && "
	      "objcopy --add-section .gnu_debugdata=mini.xz left",
	      scratch());
	assert_finds_the_same(whole, in_scratch("left"), "left");
}

Test(symbol, a_stripped_program_that_exports_nothing_has_none)
{
	char whole[256];
	struct symbol_table table;

	strcpy(whole, build("whole", "", EXPORTS));
	shell("strip %s -o %s/left", whole, scratch());
	open_binary(in_scratch("left"), &table);
	cr_assert_null(find_function(&table, "left", "main"));
	cr_assert_null(find_function(&table, "left", "exported_one"));
	symbol_table_close(&table);
}

#if defined(__x86_64__)

#define WITH_NOP5 "-pg -mfentry -mnop-mcount -fno-pie -no-pie"

static uint64_t probe_distance(const char *path, const char *base, const char *name, bool optimized,
			       enum probe_cost *cost)
{
	const struct function *function;
	struct symbol_table table;
	uint64_t distance;

	cr_assert_eq(symbol_table_of_binary(path, optimized, &table), 0);
	function = find_function(&table, base, name);
	cr_assert_not_null(function);
	distance = function->probe_offset - function->file_offset;
	*cost = function->cost;
	symbol_table_close(&table);
	return distance;
}

Test(symbol, a_nop5_is_used_unless_the_program_may_fork)
{
	enum probe_cost cost;
	const char *path;

	cr_assert_eq(
		probe_distance(target_path("alias.nop5"), "alias.nop5", "real_name", false, &cost),
		0);
	cr_assert_eq(cost, PROBE_COST_NOP5);
	path = build(
		"forks", WITH_NOP5,
		"#include <unistd.h>\nint fn(int a) { return a * 5; }\nint main(void) { return fork() "
		"== fn(3); }\n");
	cr_assert_eq(probe_distance(path, "forks", "fn", false, &cost), 5);
	cr_assert_neq(cost, PROBE_COST_NOP5);
	cr_assert_eq(probe_distance(path, "forks", "fn", true, &cost), 0);
	cr_assert_eq(cost, PROBE_COST_NOP5);
	/* vfork and posix_spawn share the memory with the trampoline, or replace it all. */
	path = build(
		"spawns", WITH_NOP5,
		"#include <spawn.h>\n#include <unistd.h>\n#include <stdlib.h>\nint fn(int a) { return a "
		"* 5; }\n"
		"int main(void) { if (!vfork()) _exit(0); posix_spawnp(0, \"x\", 0, 0, 0, 0); return "
		"system(\"\"); }\n");
	cr_assert_eq(probe_distance(path, "spawns", "fn", false, &cost), 0);
	cr_assert_eq(cost, PROBE_COST_NOP5);
}

Test(symbol, a_nop5_of_a_library_is_not_used_if_the_program_may_exec)
{
	struct symbol_table table;
	enum probe_cost cost;
	const char *path;

	build("libnop.so", "-shared",
	      "__asm__(\".globl fn\\n.type fn, @function\\nfn: .byte 0x0f, 0x1f, 0x44, 0, 0\\nret\\n"
	      ".size fn, .-fn\\n\");\n");
	path = build("stays", WITH_NOP5 " -Wl,--no-as-needed,-rpath,$PWD libnop.so",
		     "int main(void) { return 0; }\n");
	cr_assert_eq(probe_distance(path, "libnop.so", "fn", false, &cost), 0);
	path = build("execs", WITH_NOP5 " -Wl,--no-as-needed,-rpath,$PWD libnop.so",
		     "#include <unistd.h>\nint main(int c, char **v) { return execv(v[c], v); }\n");
	cr_assert_eq(probe_distance(path, "libnop.so", "fn", false, &cost), 5);
	cr_assert_eq(probe_distance(path, "libnop.so", "fn", true, &cost), 0);
	cr_assert_eq(probe_distance(path, "execs", "main", false, &cost), 0);
	open_binary(path, &table);
	cr_assert(table.may_exec && !table.may_fork);
	cr_assert_not_null(strstr(table.fork_evidence, "/execs imports execv"), "%s",
			   table.fork_evidence);
	symbol_table_close(&table);
	open_binary(build("looks", "",
			  "#include <dlfcn.h>\nint main(void) { return !dlsym(0, \"fork\"); }\n"),
		    &table);
	cr_assert(table.may_fork);
	symbol_table_close(&table);
}

Test(symbol, whoever_forks_is_named)
{
	struct symbol_table table;

	open_binary(build("daemon", "",
			  "#include <unistd.h>\nint main(void) { return daemon(0, 0); }\n"),
		    &table);
	cr_assert(table.may_fork);
	cr_assert_not_null(strstr(table.fork_evidence, "/daemon imports daemon"), "%s",
			   table.fork_evidence);
	symbol_table_close(&table);
	open_binary(build("fixed", "-static",
			  "#include <unistd.h>\nint main(void) { return fork(); }\n"),
		    &table);
	cr_assert(table.may_fork);
	symbol_table_close(&table);
	open_binary(target_path("alias"), &table);
	cr_assert_not(table.may_fork);
	symbol_table_close(&table);
}

Test(symbol, endbr64_is_stepped_over)
{
	enum probe_cost cost;
	const char *path =
		build("guarded", "-fcf-protection=full",
		      "int other(int a);\nint fn(int a) { return other(other(a)) + a; }\n"
		      "__attribute__((noinline)) int other(int a) { return a * 5; }\n"
		      "int main(void) { return fn(3); }\n");

	cr_assert_eq(probe_distance(path, "guarded", "fn", false, &cost), 4);
	cr_assert_eq(
		probe_distance(target_path("loopentry"), "loopentry", "guarded_spin", false, &cost),
		0);
	cr_assert_eq(cost, PROBE_COST_STEPPED);
	cr_assert_eq(probe_distance(target_path("loopentry"), "loopentry", "spin", false, &cost),
		     0);
}
#endif

/* All that is done with a file: reading, looking for dangers, explaining. */
static void read_all_of(const char *path)
{
	static const char *const patterns[] = {"no_such", "exported_*", "/exp/"};
	struct symbol_table table;
	struct hazard hazard;

	if (symbol_table_of_binary(path, false, &table))
		return;
	hazard_check(&table.modules, &hazard);
	for (size_t i = 0; i < sizeof(patterns) / sizeof(patterns[0]); i++) {
		char *include[] = {(char *)patterns[i]};
		const struct function **chosen;
		size_t count;

		if (selector_choose(&table, include, 1, NULL, 0, false, &chosen, &count) == 0)
			free(chosen);
	}
	symbol_table_close(&table);
}

static void write_file(const char *path, const uint8_t *bytes, size_t length)
{
	FILE *file = fopen(path, "w");

	cr_assert_not_null(file);
	cr_assert_eq(fwrite(bytes, 1, length, file), length);
	fclose(file);
}

/*
 * Whatever a file says, reading it ends and breaks nothing. A library: no loader is asked about it.
 */
Test(symbol, broken_files_break_nothing, .timeout = 120)
{
	static uint8_t original[1 << 20], bytes[1 << 20];
	const char *path = build("whole.so", "-g -shared -fPIC", EXPORTS);
	unsigned seed = 1;
	FILE *file = fopen(path, "r");
	size_t size;

	cr_assert_not_null(file);
	size = fread(original, 1, sizeof(original), file);
	fclose(file);
	cr_assert(size > 4096 && size < sizeof(original));
	path = in_scratch("broken.so");
	keep_messages();
	write_file(path, original, size);
	read_all_of(path);
	for (int round = 0; round < 2000; round++) {
		/* Headers in the beginning, section headers at the end, or anywhere. */
		size_t from = round % 3 == 1 ? size - 2400 : 0, among = round % 3 == 2 ? size
									: round % 3    ? 2400
										       : 1200;

		memcpy(bytes, original, size);
		for (int i = 0; i < 1 + round % 9; i++)
			bytes[from + (size_t)rand_r(&seed) % among] =
				(uint8_t)(rand_r(&seed) % 4 ? rand_r(&seed) : 0xff);
		write_file(path, bytes, round % 7 ? size : (size_t)rand_r(&seed) % size);
		read_all_of(path);
	}
}
