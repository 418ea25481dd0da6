// SPDX-License-Identifier: GPL-2.0-or-later
#include "code/unwind.h"

#include <criterion/criterion.h>
#include <elf.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "disassembled.h"
#include "support/program.h"

/* Takes the section headers away, as sstrip does. */
static void drop_sections(const char *path)
{
	int fd = open(path, O_RDWR);
	Elf64_Ehdr header;

	cr_assert(fd >= 0 && pread(fd, &header, sizeof(header), 0) == sizeof(header));
	header.e_shoff = 0;
	header.e_shnum = 0;
	header.e_shstrndx = 0;
	cr_assert_eq(pwrite(fd, &header, sizeof(header), 0), sizeof(header));
	close(fd);
}

/* ---- against readelf ---- */

struct rows {
	size_t ranges;
	size_t entries;
	size_t others;
	bool is_common; /* the rows of a CIE, which are at no address, follow */
};

/* One line of readelf -wF: a range, or a row of its table. */
static void compare_line(struct object *object, const char *line, bool is_arm64, struct rows *rows)
{
	const char *range_text = strstr(line, " pc=");
	const struct unwind_range *range;
	uint64_t begin, end;
	char cfa[32];
	bool known, is_entry;

	if (range_text && sscanf(range_text, " pc=%" SCNx64 "..%" SCNx64, &begin, &end) == 2) {
		range = unwind_range_of(&object->unwind, begin);
		cr_assert_not_null(range, "%s", line);
		cr_assert_eq(range->address, begin, "%s", line);
		cr_assert_eq(range->size, end - begin, "%s", line);
		cr_assert_eq(unwind_range_of(&object->unwind, end - 1), range);
		rows->ranges++;
		rows->is_common = false;
	} else if (strstr(line, " CIE ")) {
		rows->is_common = true;
	} else if (!rows->is_common && sscanf(line, "%16" SCNx64 " %31s", &begin, cfa) == 2 &&
		   strlen(line) > 17 && line[16] == ' ' && strspn(line, "0123456789abcdef") == 16) {
		is_entry = unwind_is_entry_frame(&object->unwind, begin, &known);
		cr_assert(known, "%s", line);
		cr_assert_eq(is_entry, strcmp(cfa, is_arm64 ? "sp+0" : "rsp+8") == 0, "%s", line);
		is_entry ? rows->entries++ : rows->others++;
	}
}

static void compare_with_readelf(const char *command)
{
	bool is_arm64 = strstr(command, "aarch64");
	struct object object;
	struct rows rows = {0};
	char text[400], line[400];
	FILE *output;

	if (!object_build(command, "flow.c", &object))
		return;
	snprintf(text, sizeof(text), "%sreadelf -wF %s", is_arm64 ? "aarch64-linux-gnu-" : "",
		 object.path);
	output = popen(text, "r");
	cr_assert_not_null(output);
	while (fgets(line, sizeof(line), output))
		compare_line(&object, line, is_arm64, &rows);
	cr_assert_eq(pclose(output), 0);
	cr_assert_eq(rows.ranges, object.unwind.count, "%zu of %zu", rows.ranges,
		     object.unwind.count);
	cr_assert_gt(rows.ranges, 20);
	cr_assert_gt(rows.entries, 20);
	cr_assert_gt(rows.others, 10);
	object_close(&object);
}

Test(unwind, frames_are_those_that_readelf_shows)
{
	compare_with_readelf("gcc -O0");
	compare_with_readelf("gcc -O2");
	compare_with_readelf("gcc -O2 -g -fno-asynchronous-unwind-tables -fno-unwind-tables");
	compare_with_readelf("clang -O2");
	compare_with_readelf("aarch64-linux-gnu-gcc -O2");
}

Test(unwind, what_no_table_tells_is_not_known)
{
	struct object object;
	struct named named;
	bool known = true;

	cr_assert(object_build("gcc -O2 -fno-asynchronous-unwind-tables -fno-unwind-tables",
			       "flow.c", &object));
	cr_assert(object_find(&object, "leaf", &named));
	cr_assert_not(unwind_is_entry_frame(&object.unwind, named.address, &known));
	cr_assert_not(known);
	cr_assert_null(unwind_range_of(&object.unwind, named.address));
	object_close(&object);
	cr_assert(object_build("gcc -O2", "flow.c", &object));
	cr_assert_null(unwind_range_of(&object.unwind, 0));
	cr_assert_null(unwind_range_of(&object.unwind, UINT64_MAX));
	cr_assert_not(unwind_is_entry_frame(&object.unwind, 0x10, &known));
	cr_assert_not(known);
	object_close(&object);
}

/* ---- parts ---- */

Test(unwind, a_part_is_told_from_the_next_function)
{
	const struct unwind_range *range, *part;
	struct object object;
	struct named named, cold, first;
	size_t parts = 0;

	cr_assert(object_build("gcc -O2", "flow.c", &object));
	cr_assert(object_find(&object, "has_cold", &named));
	cr_assert(object_find(&object, "has_cold.cold", &cold));
	/* .text begins with it, behind .plt */
	cr_assert(object_find(&object, "table.cold", &first));
	range = unwind_range_of(&object.unwind, named.address);
	cr_assert_not_null(range);
	part = unwind_part_of(&object.unwind, range);
	cr_assert_not_null(part);
	cr_assert_eq(part->address, cold.address);
	cr_assert_eq(part->size, cold.size);
	/* Neither a function nor the stubs of the PLT are parts. */
	for (size_t i = 0; i < object.unwind.count; i++) {
		part = unwind_part_of(&object.unwind, &object.unwind.ranges[i]);
		parts += part != NULL;
		cr_assert(!part ||
				  (part->address >= first.address && part->address < named.address),
			  "%" PRIx64 " is no cold part", part->address);
	}
	cr_assert_lt(parts, 5);
	object_close(&object);
}

/* ---- personality ---- */

static bool has_personality(const char *path)
{
	struct module module = {
		.path = (char *)path, .base = (char *)path, .probe_path = (char *)path};
	struct image image;
	bool has;

	cr_assert_eq(image_open(&module, &image), 0, "%s", path);
	has = unwind_has_personality(&image);
	image_close(&image);
	return has;
}

Test(unwind, personalities)
{
	char path[256];

	shell("cd %s && echo 'extern \"C\" void g(); struct s { ~s(); }; extern \"C\" void f() { s a; g(); }' >p.cpp && "
	      "echo 'void g(void); void f(void) { g(); g(); }' >p.c && "
	      "g++ -O2 -shared -fPIC -nostdlib p.cpp -o plus.so && gcc -O2 -shared -fPIC -nostdlib p.c -o plain.so && "
	      "strip plus.so plain.so && cp plus.so bare.so && cp plain.so bareplain.so",
	      scratch());
	snprintf(path, sizeof(path), "%s/plus.so", scratch());
	cr_assert(has_personality(path));
	snprintf(path, sizeof(path), "%s/plain.so", scratch());
	cr_assert_not(has_personality(path));
	snprintf(path, sizeof(path), "%s/bare.so", scratch());
	drop_sections(path);
	cr_assert(has_personality(path));
	snprintf(path, sizeof(path), "%s/bareplain.so", scratch());
	drop_sections(path);
	cr_assert_not(has_personality(path));
}

/* Tables that lie, as a fuzzer would write them: nothing is read outside, and it ends. */
Test(unwind, broken_tables_are_survived)
{
	struct module module;
	unsigned int seed = 5;
	char path[256];

	shell("cd %s && echo 'void g(void); int f(int a) { g(); return a; } void h(void) { g(); g(); }' >b.c && "
	      "gcc -O2 -shared -fPIC -nostdlib b.c -o b.so",
	      scratch());
	snprintf(path, sizeof(path), "%s/b.so", scratch());
	module = (struct module){.path = path, .base = path, .probe_path = path};
	for (int round = 0; round < 300; round++) {
		uint64_t offset = 0, size = 0;
		struct unwind unwind;
		struct image image;
		Elf_Scn *scn = NULL;
		GElf_Shdr header;
		uint8_t byte = (uint8_t)rand_r(&seed);
		bool known;
		int fd;

		cr_assert_eq(image_open(&module, &image), 0);
		while ((scn = elf_nextscn(image.elf, scn))) {
			size_t names;

			cr_assert_eq(elf_getshdrstrndx(image.elf, &names), 0);
			if (gelf_getshdr(scn, &header) &&
			    strcmp(elf_strptr(image.elf, names, header.sh_name), ".eh_frame") ==
				    0) {
				offset = header.sh_offset;
				size = header.sh_size;
			}
		}
		cr_assert_neq(size, 0);
		if (unwind_open(&image, &unwind) == 0) {
			for (size_t i = 0; i < unwind.count; i++) {
				unwind_is_entry_frame(&unwind, unwind.ranges[i].address, &known);
				unwind_part_of(&unwind, &unwind.ranges[i]);
			}
			unwind_has_personality(&image);
			unwind_close(&unwind);
		}
		image_close(&image);
		fd = open(path, O_WRONLY);
		cr_assert_eq(pwrite(fd, &byte, 1, (off_t)(offset + (uint64_t)rand_r(&seed) % size)),
			     1);
		close(fd);
	}
}
