// SPDX-License-Identifier: GPL-2.0-or-later
#include "code/shape.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "disassembled.h"
#include "support/program.h"

static struct symbol_table table;
static struct shapes *shapes;

static void open_shapes(const char *path)
{
	cr_assert_eq(symbol_table_of_binary(path, false, &table), 0, "%s", path);
	shapes = shapes_open(&table);
	cr_assert_not_null(shapes);
}

static void close_shapes(void)
{
	shapes_close(shapes);
	symbol_table_close(&table);
}

static const struct function *function_of(const char *name)
{
	const struct function *function = find_function(&table, NULL, name);

	cr_assert_not_null(function, "%s", name);
	return function;
}

static const struct function_shape *shape_of(const char *name)
{
	const struct function_shape *shape = NULL;

	cr_assert_eq(shapes_of(shapes, function_of(name), &shape), 0, "%s: %s", name,
		     shape ? shape->why : "");
	return shape;
}

static const char *build(const char *command, const char *source)
{
	static char path[256];
	struct object object;

	if (!object_build(command, source, &object))
		return NULL;
	strcpy(path, object.path);
	object_close(&object);
	return path;
}

Test(shape, shapes_are_read_once)
{
	const struct function_shape *first, *again;

	open_shapes(build("gcc -O2", "flow.c"));
	first = shape_of("many_returns");
	again = shape_of("many_returns");
	cr_assert_eq(first, again);
	cr_assert_gt(first->exit_count, 1);
	close_shapes();
}

/* The same exits, whether symbols or only the unwind tables tell of the part. */
static void assert_cold(const char *path, const char *name, const struct named *cold)
{
	const struct function_shape *shape;

	open_shapes(path);
	shape = shape_of(name);
	cr_assert_eq(shape->range_count, 2, "%s of %s has no part", name, path);
	cr_assert_eq(shape->ranges[1].address, cold->address);
	cr_assert_eq(shape->ranges[1].size, cold->size);
	for (size_t i = 0; i < shape->exit_count; i++)
		cr_assert(shape->exits[i].kind == SITE_RETURN || shape->exits[i].kind == SITE_JUMP);
	close_shapes();
}

Test(shape, cold_parts_with_and_without_symbols)
{
	/* by a jump; by a jump table alone */
	static const char *const names[] = {"has_cold", "table"};
	struct object object;
	struct named colds[2];
	char stripped[300];

	cr_assert(object_build("gcc -O2", "flow.c", &object));
	cr_assert(object_find(&object, "has_cold.cold", &colds[0]));
	cr_assert(object_find(&object, "table.cold", &colds[1]));
	snprintf(stripped, sizeof(stripped), "%s.stripped", object.path);
	shell("strip -o %s %s", stripped, object.path);
	for (size_t i = 0; i < 2; i++) {
		assert_cold(object.path, names[i], &colds[i]);
		assert_cold(stripped, names[i], &colds[i]);
	}
	object_close(&object);
}

static size_t count_kind(const struct function_shape *shape, enum site_kind kind)
{
	size_t count = 0;

	for (size_t i = 0; i < shape->exit_count; i++)
		count += shape->exits[i].kind == kind;
	return count;
}

/*
 * A part that begins with the frame of an entry: a symbol tells it; without, that a conditional
 * jump goes there.
 */
Test(shape, a_part_at_the_entry_frame)
{
	const char *path = build("gcc -O2 -fcf-protection=none", "flow.c");
	char stripped[300];
	size_t returns;

	open_shapes(path);
	cr_assert_eq(shape_of("table_leaf")->range_count, 2);
	cr_assert_eq(count_kind(shape_of("table_leaf"), SITE_CONDITIONAL), 0);
	returns = count_kind(shape_of("table_leaf"), SITE_RETURN);
	cr_assert_gt(returns, 7);
	close_shapes();
	snprintf(stripped, sizeof(stripped), "%s.stripped", path);
	shell("strip -o %s %s", stripped, path);
	open_shapes(stripped);
	cr_assert_eq(shape_of("table_leaf")->range_count, 2);
	cr_assert_eq(count_kind(shape_of("table_leaf"), SITE_CONDITIONAL), 0);
	cr_assert_eq(count_kind(shape_of("table_leaf"), SITE_RETURN), returns);
	close_shapes();
}

/*
 * Where an indirect jump goes is told at the hit, by two ranges. What lies between the parts is not
 * the function's: one that has more of them is not taken unless it does not jump so.
 */
Test(shape, an_indirect_jump_among_many_parts_is_refused)
{
	static const char *const source =
		".text\n.type f,@function\nf: test %%edi,%%edi\njne f.cold\ntest %%esi,%%esi\n%s\nback: %s\n.size f,.-f\n"
		".type between,@function\nbetween: ret\n.size between,.-between\n"
		".type f.cold,@function\nf.cold: xor %%eax,%%eax\njmp back\n.size f.cold,.-f.cold\n"
		".type other,@function\nother: ret\n.size other,.-other\n"
		".type f.cold.1,@function\nf.cold.1: inc %%eax\njmp back\n.size f.cold.1,.-f.cold.1\n";
	static const struct {
		const char *second, *end;
		size_t parts; /* 0: refused */
	} cases[] = {
		{"jne f.cold.1", "ret", 3},
		{"nop", "jmp *%rdx", 2},
		{"jne f.cold.1", "jmp *%rdx", 0},
	};
	char path[256], text[1024];

	snprintf(path, sizeof(path), "%s/parts.so", scratch());
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const struct function_shape *shape = NULL;
		int err;

		snprintf(text, sizeof(text), source, cases[i].second, cases[i].end);
		shell("cat >%s.s <<'END'\n%s\nEND\ngcc -shared -nostdlib %s.s -o %s", path, text,
		      path, path);
		open_shapes(path);
		err = shapes_of(shapes, function_of("f"), &shape);
		if (cases[i].parts) {
			cr_assert_eq(err, 0, "%s", shape->why);
			cr_assert_eq(shape->range_count, cases[i].parts);
		} else {
			cr_assert_eq(err, -ENOTSUP);
			cr_assert_str_eq(shape->why, "an indirect jump among its 3 parts at +0x8");
		}
		close_shapes();
	}
}

Test(shape, where_a_function_without_a_size_ends)
{
	const struct function_shape *shape = NULL;
	char path[256];

	shell("cd %s && printf '.text\\n.globl sized, untold\\n.type sized,@function\\n.type untold,@function\\n"
	      "sized: .cfi_startproc\\n test %%%%edi,%%%%edi\\n je 1f\\n ret\\n1: ret\\n.cfi_endproc\\n"
	      "untold: ret\\n' >z.s && gcc -shared -nostdlib z.s -o z.so",
	      scratch());
	snprintf(path, sizeof(path), "%s/z.so", scratch());
	open_shapes(path);
	cr_assert_eq(function_of("sized")->size, 0);
	cr_assert_eq(shape_of("sized")->exit_count, 2);
	cr_assert_eq(shapes_of(shapes, function_of("untold"), &shape), -ENOTSUP);
	cr_assert_not_null(strstr(shape->why, "tells where it ends"), "%s", shape->why);
	cr_assert_not(shapes_is_closed(shapes, function_of("untold")));
	close_shapes();
}

Test(shape, a_file_that_cannot_be_read_is_told)
{
	const struct function_shape *shape = NULL;
	const char *path = build("gcc -O2", "flow.c");

	open_shapes(path);
	cr_assert_eq(unlink(path), 0);
	cr_assert_eq(shapes_of(shapes, function_of("leaf"), &shape), -ENOTSUP);
	cr_assert_not_null(strstr(shape->why, "its file cannot be read: No such file"), "%s",
			   shape->why);
	close_shapes();
}

/* Where there is an endbr64 the probe stays on it, which the loop does not reach. */
Test(shape, loops_to_the_probe)
{
	open_shapes(build("gcc -O1 -fcf-protection=none", "flow.c"));
	cr_assert(shape_of("loop_first")->is_looped_to);
	cr_assert_not(shape_of("leaf_loop")->is_looped_to);
	close_shapes();
	open_shapes(build("gcc -O1 -fcf-protection=full", "flow.c"));
	cr_assert_eq(function_of("loop_first")->probe_offset,
		     function_of("loop_first")->file_offset);
	cr_assert_not(shape_of("loop_first")->is_looped_to);
	close_shapes();
}

/* ---- closed call trees ---- */

static void assert_closed(const char *command)
{
	const char *path = build(command, "calls.c");
	size_t closed = 0, open = 0;

	if (!path)
		return;
	open_shapes(path);
	/* In either order: what one answer leaves behind must not mislead the next. */
	for (size_t pass = 0; pass < 4; pass++) {
		for (size_t k = 0; k < table.count; k++) {
			size_t i = pass % 2 ? table.count - 1 - k : k;
			const struct function *function = &table.functions[i];
			bool is_closed = shapes_is_closed(shapes, function);

			if (strncmp(function->name, "closed_", 7) == 0) {
				cr_assert(is_closed, "%s: %s", command, function->name);
				closed++;
			} else if (strncmp(function->name, "open_", 5) == 0 ||
				   strcmp(function->name, "calls_all") == 0) {
				cr_assert_not(is_closed, "%s: %s", command, function->name);
				open++;
			}
		}
		if (pass == 1) {
			close_shapes();
			open_shapes(path);
		}
	}
	cr_assert_eq(closed, 4 * 5);
	cr_assert_eq(open, 4 * 8);
	close_shapes();
}

Test(shape, closed_call_trees)
{
	assert_closed("gcc -O0");
	assert_closed("gcc -O2");
	assert_closed("gcc -O2 -fcf-protection=none");
	assert_closed("gcc -Os");
	assert_closed("clang -O0");
	assert_closed("clang -O2");
}

/* What the C library has: nearly all of it is understood, the rest is refused with a reason. */
Test(shape, the_c_library)
{
	size_t count = 0, refused = 0;

	open_shapes(target_path("clones"));
	for (size_t i = 0; i < table.count; i++) {
		const struct function_shape *shape;

		count++;
		if (shapes_of(shapes, &table.functions[i], &shape)) {
			cr_assert_neq(shape->why[0], '\0');
			cr_assert_not(shapes_is_closed(shapes, &table.functions[i]));
			refused++;
		}
	}
	cr_assert_gt(count, 2000);
	cr_assert_lt(refused * 40, count, "%zu of %zu are refused", refused, count);
	close_shapes();
}

/* Parts that lie over one another: a byte belongs to one of them, and the reading ends. */
Test(shape, parts_that_overlap_are_read_once, .timeout = 10)
{
	const char *path = build("gcc", "overlap.s");

	if (!path)
		cr_skip_test("no gcc");
	open_shapes(path);
	cr_assert_geq(shape_of("overlapped")->exit_count, 2);
	close_shapes();
	open_shapes(build("gcc -O2 -fno-reorder-functions", "coldinside.c"));
	cr_assert_geq(shape_of("work")->exit_count, 2);
	close_shapes();
}
