// SPDX-License-Identifier: GPL-2.0-or-later
#include "disassembled.h"

#include <elf.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "support/program.h"
#include "program/name.h"

void object_open(const char *path, struct object *object)
{
	*object = (struct object){0};
	snprintf(object->path, sizeof(object->path), "%s", path);
	object->module = (struct module){
		.path = object->path, .base = object->path, .probe_path = object->path};
	cr_assert_eq(image_open(&object->module, &object->image), 0, "%s", path);
	cr_assert_eq(unwind_open(&object->image, &object->unwind), 0);
}

void object_close(struct object *object)
{
	unwind_close(&object->unwind);
	image_close(&object->image);
}

bool object_build(const char *command, const char *source, struct object *object)
{
	static unsigned int number;
	char path[200], test[256];

	snprintf(test, sizeof(test), "command -v %.*s >/dev/null 2>&1", (int)strcspn(command, " "),
		 command);
	if (system(test))
		return false;
	snprintf(path, sizeof(path), "%s/object%u.so", scratch(), ++number);
	shell("%s -shared -nostdlib -fPIC -w tests/unit/code/shapes/%s -o %s", command, source,
	      path);
	object_open(path, object);
	return true;
}

/* ---- its symbols ---- */

struct lookup {
	const char *name; /* NULL: all */
	bool is_cold;
	struct named *found;
	size_t count;
};

static int look(const struct image_symbol *symbol, void *context)
{
	struct lookup *lookup = context;
	struct named *grown;

	if (symbol->undefined || symbol->type != STT_FUNC || !symbol->size ||
	    name_is_cold(symbol->name) != lookup->is_cold ||
	    (lookup->name && strcmp(lookup->name, symbol->name) != 0))
		return 0;
	for (size_t i = 0; i < lookup->count; i++) {
		if (lookup->found[i].address == symbol->address)
			return 0;
	}
	grown = realloc(lookup->found, (lookup->count + 1) * sizeof(*grown));
	cr_assert_not_null(grown);
	lookup->found = grown;
	grown[lookup->count] = (struct named){.address = symbol->address, .size = symbol->size};
	snprintf(grown[lookup->count++].name, sizeof(grown->name), "%s", symbol->name);
	return 0;
}

bool object_find(struct object *object, const char *name, struct named *named)
{
	struct lookup lookup = {.name = name, .is_cold = name_is_cold(name)};

	image_each_symbol(&object->image, look, &lookup);
	if (lookup.count)
		*named = lookup.found[0];
	free(lookup.found);
	return lookup.count;
}

size_t object_functions(struct object *object, struct named **functions)
{
	struct lookup lookup = {0};

	image_each_symbol(&object->image, look, &lookup);
	*functions = lookup.found;
	return lookup.count;
}

/* ---- its shapes ---- */

struct asked {
	struct object *object;
	struct lookup colds;
	uint8_t *buffers[8];
	size_t count;
};

static void read_range(struct asked *asked, uint64_t address, uint64_t size,
		       struct code_range *range)
{
	uint64_t offset;
	uint8_t *bytes = malloc(size);

	cr_assert(bytes && asked->count < sizeof(asked->buffers) / sizeof(asked->buffers[0]));
	asked->buffers[asked->count++] = bytes;
	cr_assert(image_offset(&asked->object->image, address, &offset));
	file_bytes(asked->object->path, offset, bytes, size);
	*range = (struct code_range){bytes, address, size};
}

static bool is_entry_frame(uint64_t address, bool *known, void *context)
{
	struct asked *asked = context;

	return unwind_is_entry_frame(&asked->object->unwind, address, known);
}

static bool find_part(const struct exit_site *jump, bool is_entry, struct code_range *part,
		      void *context)
{
	uint64_t target = jump->target;
	struct asked *asked = context;

	(void)is_entry;
	for (size_t i = 0; i < asked->colds.count; i++) {
		const struct named *cold = &asked->colds.found[i];

		if (target - cold->address < cold->size) {
			read_range(asked, cold->address, cold->size, part);
			return true;
		}
	}
	return false;
}

int object_shape(struct object *object, const struct named *named, bool with_tables,
		 enum cold_part cold_part, struct function_shape *shape)
{
	struct asked asked = {.object = object, .colds = {.is_cold = true}};
	struct code_range ranges[2];
	struct function_code code = {
		.machine = object->image.machine,
		.ranges = ranges,
		.range_count = 1,
		.probe = named->address,
		.is_entry_frame = with_tables ? is_entry_frame : NULL,
		.find_part = cold_part == COLD_ASKED ? find_part : NULL,
		.context = &asked,
	};
	struct named cold;
	char name[80];
	int err;

	image_each_symbol(&object->image, look, &asked.colds);
	read_range(&asked, named->address, named->size, &ranges[0]);
	snprintf(name, sizeof(name), "%s.cold", named->name);
	if (cold_part == COLD_TOLD && object_find(object, name, &cold))
		read_range(&asked, cold.address, cold.size, &ranges[code.range_count++]);
	err = function_shape_read(&code, shape);
	for (size_t i = 0; i < asked.count; i++)
		free(asked.buffers[i]);
	free(asked.colds.found);
	return err;
}

/* ---- what objdump says ---- */

/*
 * Behind the mnemonic, or behind its last operand, the address of a direct branch: "jne 1139
 * <f+0x9>".
 */
static uint64_t target_of(const char *text)
{
	const char *angle = strrchr(text, '<'), *start;

	if (!angle || angle == text || strchr(text, '*'))
		return 0;
	for (start = angle - 1; start > text && strchr(" \t,", start[-1]) == NULL; start--)
		;
	return strtoull(start, NULL, 16);
}

void object_list(const struct object *object, struct listing *listing)
{
	const char *tool =
		object->image.machine == EM_AARCH64 ? "aarch64-linux-gnu-objdump" : "objdump";
	char command[400], text[400];
	FILE *output;

	*listing = (struct listing){0};
	snprintf(command, sizeof(command), "%s -d --no-show-raw-insn %s", tool, object->path);
	output = popen(command, "r");
	cr_assert_not_null(output);
	while (fgets(text, sizeof(text), output)) {
		struct line line = {0};

		if (sscanf(text, " %" SCNx64 ":\t%119[^\n]", &line.address, line.text) != 2)
			continue;
		for (char *c = line.text; *c; c++)
			*c = *c == '\t' ? ' ' : *c;
		line.target = target_of(line.text);
		if (listing->count % 256 == 0) {
			listing->lines = realloc(listing->lines,
						 (listing->count + 256) * sizeof(*listing->lines));
			cr_assert_not_null(listing->lines);
		}
		listing->lines[listing->count++] = line;
	}
	cr_assert_eq(pclose(output), 0, "%s", command);
	cr_assert_gt(listing->count, 0);
}
