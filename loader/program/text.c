// SPDX-License-Identifier: GPL-2.0-or-later
#include "program/text.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/io.h"
#include "base/vec.h"
#include "program/process.h"
#include "program/site_screen.h"

struct text_mapping {
	uint64_t start, end, offset, inode;
	char *path;
};

enum { LONGEST = 16, NOP5_BYTES = 5 }; /* what the kernel copies of an instruction */

/* ---- what is mapped ---- */

static int add_mapping(struct text *text, const char *line)
{
	struct text_mapping mapping = {0};
	char permissions[5];
	int path = 0;

	if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %4s %" SCNx64 " %*x:%*x %" SCNu64 " %n",
		   &mapping.start, &mapping.end, permissions, &mapping.offset, &mapping.inode,
		   &path) != 5 ||
	    permissions[2] != 'x' || !mapping.inode)
		return 0;
	if (vec_grow(&text->mappings, &text->capacity, text->count))
		return -ENOMEM;
	mapping.path = strdup(line + path);
	if (!mapping.path)
		return -ENOMEM;
	text->mappings[text->count++] = mapping;
	return 0;
}

static int read_mappings(struct text *text, pid_t tid)
{
	char path[64], *maps = NULL;
	size_t length;
	int err;

	snprintf(path, sizeof(path), "/proc/%d/maps", tid);
	err = io_read_file(path, &maps, &length);
	for (char *line = maps, *next; !err && *line; line = next) {
		next = line + strcspn(line, "\n");
		if (*next)
			*next++ = '\0';
		err = add_mapping(text, line);
	}
	free(maps);
	return err;
}

int text_open(pid_t pid, struct text *text)
{
	char path[64];
	pid_t tid = 0;
	int err;

	*text = (struct text){.memory = -1, .file = -1};
	err = process_live_thread(pid, &tid);
	if (err)
		return err;
	snprintf(path, sizeof(path), "/proc/%d/mem", tid);
	text->memory = open(path, O_RDONLY | O_CLOEXEC);
	if (text->memory < 0)
		return errno == ENOENT ? -ESRCH : -errno;
	return read_mappings(text, tid);
}

void text_close(struct text *text)
{
	for (size_t i = 0; i < text->count; i++)
		free(text->mappings[i].path);
	free(text->mappings);
	if (text->memory >= 0)
		close(text->memory);
	if (text->file >= 0)
		close(text->file);
	*text = (struct text){.memory = -1, .file = -1};
}

/* ---- one instruction ---- */

/* The kernel's call in place of a nop of five bytes, or the step on the way to it. */
static bool is_optimised(const uint8_t *memory, const uint8_t *file, size_t length)
{
	return length >= NOP5_BYTES && file[0] == 0x0f && file[1] == 0x1f && memory[0] == 0xe8;
}

static enum text_state compare(const uint8_t *memory, const uint8_t *file, size_t length)
{
	if (memcmp(memory, file, length) == 0)
		return TEXT_AS_FILE;
	if (memory[0] == 0xcc || is_optimised(memory, file, length))
		return TEXT_PROBED;
	return TEXT_CHANGED;
}

/* On a layered file system maps may name another inode than stat does: then the path tells. */
static bool is_of_module(const struct text_mapping *mapping, const struct module *module)
{
	size_t length = strlen(module->path);

	return mapping->inode == module->inode ||
	       (strncmp(mapping->path, module->path, length) == 0 && !mapping->path[length]);
}

static void switch_module(struct text *text, const struct module *module)
{
	if (text->module == module)
		return;
	if (text->file >= 0)
		close(text->file);
	text->module = module;
	text->file = open(module->probe_path, O_RDONLY | O_CLOEXEC);
}

enum text_state text_look(struct text *text, const struct module *module, uint64_t offset)
{
	enum text_state found = TEXT_UNMAPPED;
	uint8_t file[LONGEST], memory[LONGEST];
	ssize_t read, length;

	switch_module(text, module);
	read = text->file >= 0 ? pread(text->file, file, sizeof(file), (off_t)offset) : 0;
	if (read <= 0)
		return TEXT_UNMAPPED;
	length = (ssize_t)site_length(file, (size_t)read);
	for (size_t i = 0; i < text->count; i++) {
		const struct text_mapping *mapping = &text->mappings[i];
		uint64_t at = offset - mapping->offset;
		enum text_state state;

		if (!is_of_module(mapping, module) || offset < mapping->offset ||
		    at >= mapping->end - mapping->start)
			continue;
		if (pread(text->memory, memory, (size_t)length, (off_t)(mapping->start + at)) !=
		    length)
			continue;
		state = compare(memory, file, (size_t)length);
		found = state > found ? state : found;
	}
	return found;
}
