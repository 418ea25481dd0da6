// SPDX-License-Identifier: GPL-2.0-or-later
#include "file/header.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/io.h"
#include "file/reader.h"

static uint64_t clock_ns(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return (uint64_t)now.tv_sec * 1000000000ull + (uint64_t)now.tv_nsec;
}

/* The three clocks at one moment: of several brackets the one in which the least time passed. */
static void snapshot(struct header_payload *header)
{
	uint64_t best = UINT64_MAX;

	for (int i = 0; i < 9; i++) {
		uint64_t before = clock_ns(CLOCK_MONOTONIC);
		uint64_t realtime = clock_ns(CLOCK_REALTIME);
		uint64_t boottime = clock_ns(CLOCK_BOOTTIME);
		uint64_t width = clock_ns(CLOCK_MONOTONIC) - before;

		if (width >= best)
			continue;
		best = width;
		header->monotonic_ns = before + width / 2;
		header->realtime_ns = realtime;
		header->boottime_ns = boottime;
	}
}

/* Joins the arguments by blanks, as far as there is room. Returns the length. */
static size_t join(char *line, size_t room, int argc, char *const *argv)
{
	size_t used = 0;

	for (int i = 0; i < argc; i++) {
		size_t length = strlen(argv[i]);

		if (i && used < room)
			line[used++] = ' ';
		if (length > room - used)
			length = room - used;
		memcpy(line + used, argv[i], length);
		used += length;
	}
	return used;
}

/* What tells this boot from others; zeros if nobody knows. */
static void take_boot_id(uint8_t id[16])
{
	char *text;
	size_t length, have = 0;

	if (io_read_file("/proc/sys/kernel/random/boot_id", &text, &length))
		return;
	for (size_t i = 0; i < length && have < 32; i++) {
		const char *digits = "0123456789abcdef",
			   *digit = text[i] ? strchr(digits, text[i]) : NULL;

		if (!digit)
			continue;
		id[have / 2] |= (uint8_t)((digit - digits) << (have & 1 ? 0 : 4));
		have++;
	}
	free(text);
}

static void fill_header(struct header_payload *header,
			const struct scope_file_writer_options *options)
{
	memcpy(header->magic, SCOPE_FILE_MAGIC, sizeof(header->magic));
	snapshot(header);
	take_boot_id(header->boot_id);
	header->capture_kind = options->kind;
	header->capture_number = options->number;
	header->capture_start_ns = options->start_ns;
	for (int type = 0; type < CHUNK_TYPES; type++)
		header->record_size[type] = scope_file_record_sizes[type].here;
	header->fixed_length = sizeof(*header);
}

/* When and where the other capture was made. */
static void copy_moment(struct header_payload *header, const struct header_payload *other)
{
	header->monotonic_ns = other->monotonic_ns;
	header->realtime_ns = other->realtime_ns;
	header->boottime_ns = other->boottime_ns;
	memcpy(header->boot_id, other->boot_id, sizeof(header->boot_id));
}

void scope_file_header_make(struct scope_file_header *header,
			    const struct scope_file_writer_options *options, int argc,
			    char *const *argv)
{
	struct header_payload *payload = &header->payload;

	*payload = (struct header_payload){.byte_order = SCOPE_FILE_BYTE_ORDER,
					   .major = SCOPE_FILE_MAJOR,
					   .minor = SCOPE_FILE_MINOR};
	uname(&header->machine);
	fill_header(payload, options);
	if (options->like)
		copy_moment(payload, &options->like->header);
	header->host = options->like ? options->like->host : header->machine.nodename;
	header->kernel = options->like ? options->like->kernel : header->machine.release;
	payload->host_length = (uint32_t)strlen(header->host);
	payload->kernel_length = (uint32_t)strlen(header->kernel);
	payload->command_length =
		(uint32_t)join(header->command, sizeof(header->command), argc, argv);
}
