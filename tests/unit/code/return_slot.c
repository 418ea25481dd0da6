// SPDX-License-Identifier: GPL-2.0-or-later
#include "code/return_slot.h"

#include <string.h>

#include "code/shape.h"
#include "disassembled.h"
#include "support/program.h"

Test(return_slot, who_looks_and_who_does_not)
{
	struct object object;
	struct symbol_table table;
	struct shapes *shapes;
	size_t looking = 0, others = 0;

	if (!object_build("gcc", "looks.s", &object))
		cr_skip_test("no gcc");
	cr_assert_eq(symbol_table_of_binary(object.path, NULL, &table), 0);
	shapes = shapes_open(&table);
	cr_assert_not_null(shapes);
	for (size_t i = 0; i < table.count; i++) {
		const struct function *function = &table.functions[i];
		bool looks = strncmp(function->name, "looks_", 6) == 0;

		if (!looks && strncmp(function->name, "else_", 5) != 0)
			continue;
		cr_expect_eq(shapes_looks_at_return(shapes, function), looks, "%s", function->name);
		looking += looks;
		others += !looks;
	}
	cr_assert_eq(looking, 16);
	cr_assert_eq(others, 8);
	shapes_close(shapes);
	symbol_table_close(&table);
	object_close(&object);
}

Test(return_slot, names_where_code_does_not_tell)
{
	cr_assert(return_slot_is_read_by("mcount", false));
	cr_assert(return_slot_is_read_by("dlsym", true));
	cr_assert_not(return_slot_is_read_by("dlsym", false));
	cr_assert_not(return_slot_is_read_by("puts", true));
}

/* Any bytes: no read outside of them (the sanitized build tells), and an end. */
Test(return_slot, random_code_ends)
{
	unsigned seed = 11;

	for (int round = 0; round < 20000; round++) {
		size_t size = 1 + (size_t)rand_r(&seed) % 40;
		uint8_t *bytes = malloc(size);
		struct code_range range = {bytes, 0x1000, size};
		struct function_code code = {
			.machine = 62, .ranges = &range, .range_count = 1, .probe = 0x1000};
		bool looks;

		for (size_t i = 0; i < size; i++)
			bytes[i] = (uint8_t)rand_r(&seed);
		cr_assert_eq(return_slot_read(&code, &looks), 0);
		free(bytes);
	}
}
