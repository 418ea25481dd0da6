/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the tests of the disassembler share: code built now by the compilers that are here, for
 * x86-64 and arm64, and what objdump says of it. Each failure in here fails the test.
 */
#ifndef SCOPETRACE_TESTS_TARGET_DISASSEMBLED_H
#define SCOPETRACE_TESTS_TARGET_DISASSEMBLED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "code/exits.h"
#include "program/image.h"
#include "code/unwind.h"

/* A shared object, opened. */
struct object {
	char path[256];
	struct module module;
	struct image image;
	struct unwind unwind;
};

/* One line of objdump. */
struct line {
	uint64_t address;
	char text[120];
	uint64_t target; /* of a direct branch, else 0 */
};

struct listing {
	struct line *lines;
	size_t count;
};

struct named {
	char name[64];
	uint64_t address;
	uint64_t size;
};

/*
 * Builds tests/unit/code/shapes/SOURCE by this command ("gcc -O2 -fPIC") into a shared object, and
 * opens it. False if the compiler is not here.
 */
bool object_build(const char *command, const char *source, struct object *object);
void object_open(const char *path, struct object *object);
void object_close(struct object *object);

/* False if there is no function of this name. */
bool object_find(struct object *object, const char *name, struct named *named);

/*
 * The functions that are in .symtab, cold parts left out; returns how many, and the array to free.
 */
size_t object_functions(struct object *object, struct named **functions);

/* How a function's cold part is told of: not at all, from the start, when it is asked for. */
enum cold_part { COLD_UNKNOWN, COLD_TOLD, COLD_ASKED };

/* What function_shape_read says, with or without the object's unwind tables. */
int object_shape(struct object *object, const struct named *named, bool with_tables,
		 enum cold_part cold_part, struct function_shape *shape);

/* All of its code. */
void object_list(const struct object *object, struct listing *listing);

#endif
