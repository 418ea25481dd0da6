// SPDX-License-Identifier: GPL-2.0-or-later
#include "timeline/capture_write.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include "base/io.h"
#include "base/log.h"
#include "base/vec.h"
#include "timeline/capture_format.h"
#include "timeline/intern.h"

/* A chunk of this size is written out; one more string of the greatest length still fits behind it. */
#define BATCH_FULL (64u << 10)
#define BATCH_ROOM (BATCH_FULL + CAPTURE_STRING_MAX + 16)
static_assert(BATCH_ROOM <= CAPTURE_CHUNK_MAX, "readers accept what we write");

#define COMMAND_MAX (16u << 10) /* of the command line that is kept in the header */

/* One chunk being filled: room for its header, then the payload. */
struct batch {
	unsigned char *bytes;
	uint32_t length; /* of the payload */
};

struct capture_writer {
	struct event_output output;
	int fd;
	int error; /* the first that a write met; nothing is written after it */
	char *path;
	uint64_t bytes;
	struct intern strings;
	uint32_t strings_written; /* ids up to this one are in chunks that are written */
	struct batch batches[CHUNK_TYPES];
	uint64_t records[CHUNK_FOOTER];
	uint64_t *in_file; /* by function: its completed scopes */
	size_t in_file_capacity;
};

static int fail(struct capture_writer *writer, int err)
{
	if (!writer->error) {
		writer->error = err;
		log_error("writing the capture %s failed after %llu bytes: %s; what is in the file can still "
			  "be read, the rest is lost%s",
			  writer->path, (unsigned long long)writer->bytes, strerror(-err),
			  err == -ENOSPC || err == -EDQUOT
				  ? ": free some space, or choose another place with -o"
				  : "");
	}
	return writer->error;
}

/* ---- opening ---- */

/* A capture that is being written is locked by its writer: it must not be moved away under it. */
static int check_unused(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK), err = 0;

	if (fd < 0)
		return 0;
	if (flock(fd, LOCK_SH | LOCK_NB) && errno == EWOULDBLOCK) {
		err = -EBUSY;
		log_error("another capture is being written to %s: choose another file with -o", path);
	}
	close(fd);
	return err;
}

/* An older capture is kept as FILE.old; devices, pipes and links are written as they are. */
static int keep_older(const char *path, bool *exists)
{
	struct stat status;
	char *old;
	int err = 0;

	*exists = !lstat(path, &status);
	if (!*exists || !S_ISREG(status.st_mode))
		return 0;
	err = check_unused(path);
	if (err)
		return err;
	if (asprintf(&old, "%s.old", path) < 0)
		return -ENOMEM;
	if (rename(path, old)) {
		err = -errno;
		log_error("cannot rename the older capture %s to %s: %s; move it away, or choose another "
			  "file with -o",
			  path, old, strerror(errno));
	}
	*exists = false;
	free(old);
	return err;
}

static int open_output(const char *path)
{
	bool exists;
	int fd, err;

	if (!strcmp(path, "-")) {
		fd = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 0);
		if (fd >= 0)
			return fd;
	} else {
		err = keep_older(path, &exists);
		if (err)
			return err;
		/* A new file is really new: nobody has put a link in its place since. */
		fd = exists ? open(path, O_WRONLY | O_TRUNC | O_CLOEXEC | O_NOCTTY)
			    : open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
		if (fd >= 0) {
			if (!exists)
				flock(fd, LOCK_EX | LOCK_NB);
			return fd;
		}
	}
	err = -errno;
	log_error("cannot create the capture %s: %s; choose a writable place with -o", path, strerror(-err));
	return err;
}

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

/* ---- chunks ---- */

static int write_chunk(struct capture_writer *writer, enum chunk_type type)
{
	struct batch *batch = &writer->batches[type];
	uint32_t padded = chunk_padded(batch->length);
	struct chunk_header *header = (struct chunk_header *)batch->bytes;
	unsigned char *payload = batch->bytes + sizeof(*header);
	int err;

	if (writer->error)
		return writer->error;
	memset(payload + batch->length, 0, padded - batch->length);
	header->magic = CAPTURE_CHUNK_MAGIC;
	header->type = type;
	header->length = batch->length;
	header->crc = chunk_crc(header, payload);
	err = io_write_all(writer->fd, batch->bytes, sizeof(*header) + padded);
	if (err)
		return fail(writer, err);
	writer->bytes += sizeof(*header) + padded;
	batch->length = 0;
	if (type == CHUNK_STRING)
		writer->strings_written = (uint32_t)writer->strings.count;
	return 0;
}

/* All batches, in the order of their types: what is named comes before what names it. */
int capture_writer_flush(struct capture_writer *writer)
{
	for (int type = CHUNK_HEADER; type < CHUNK_TYPES; type++) {
		if (writer->batches[type].length)
			write_chunk(writer, type);
	}
	return writer->error;
}

static void append(struct capture_writer *writer, enum chunk_type type, const void *bytes, size_t length)
{
	struct batch *batch = &writer->batches[type];

	memcpy(batch->bytes + sizeof(struct chunk_header) + batch->length, bytes, length);
	batch->length += (uint32_t)length;
}

/* Appends `count` records of `size` bytes, writing out whenever the batch is full. */
static int put(struct capture_writer *writer, enum chunk_type type, const void *records, size_t count,
	       size_t size)
{
	const unsigned char *from = records;

	while (count && !writer->error) {
		size_t room = (BATCH_FULL - writer->batches[type].length) / size;
		size_t now = count < room ? count : room;

		append(writer, type, from, now * size);
		writer->records[type] += now;
		from += now * size;
		count -= now;
		if (now == room)
			capture_writer_flush(writer);
	}
	return writer->error;
}

/* ---- what the sources call ---- */

static struct capture_writer *writer_of(struct event_output *output)
{
	return (struct capture_writer *)((char *)output - offsetof(struct capture_writer, output));
}

static void put_string(struct capture_writer *writer, const char *bytes, uint32_t length)
{
	struct batch *batch = &writer->batches[CHUNK_STRING];
	struct string_batch head = {writer->strings_written + 1, 0};
	static const char zeros[4];

	if (!batch->length)
		append(writer, CHUNK_STRING, &head, sizeof(head));
	append(writer, CHUNK_STRING, &length, sizeof(length));
	append(writer, CHUNK_STRING, bytes, length);
	append(writer, CHUNK_STRING, zeros, -length & 3u);
	((struct string_batch *)(batch->bytes + sizeof(struct chunk_header)))->count++;
	writer->records[CHUNK_STRING]++;
	if (batch->length >= BATCH_FULL)
		write_chunk(writer, CHUNK_STRING);
}

static int output_string(struct event_output *output, const char *bytes, size_t length, uint32_t *id)
{
	struct capture_writer *writer = writer_of(output);
	bool added;
	int err;

	if (writer->error)
		return writer->error;
	if (length > CAPTURE_STRING_MAX)
		length = CAPTURE_STRING_MAX;
	err = intern_put(&writer->strings, bytes, length, id, &added);
	if (err)
		return fail(writer, err);
	if (added)
		put_string(writer, bytes, (uint32_t)length);
	return writer->error;
}

static int output_hooked(struct event_output *output, const struct hooked_scope *scopes, size_t count)
{
	struct capture_writer *writer = writer_of(output);

	for (size_t i = 0; i < count; i++) {
		if (scopes[i].function >= writer->records[CHUNK_FUNCTION]) {
			log_error("a scope of function %u, which was not declared, is not written",
				  scopes[i].function);
			return -EINVAL;
		}
		writer->in_file[scopes[i].function] +=
			!(scopes[i].flags & (SCOPE_FLAG_UNFINISHED | SCOPE_FLAG_UNWOUND));
	}
	return put(writer, CHUNK_HOOKED, scopes, count, sizeof(*scopes));
}

static int output_manual(struct event_output *output, const struct manual_event *events, size_t count)
{
	return put(writer_of(output), CHUNK_MANUAL, events, count, sizeof(*events));
}

static int output_thread(struct event_output *output, const struct thread_info *thread)
{
	return put(writer_of(output), CHUNK_THREAD, thread, 1, sizeof(*thread));
}

static int output_anchor(struct event_output *output, const struct clock_anchor *anchor)
{
	return put(writer_of(output), CHUNK_ANCHOR, anchor, 1, sizeof(*anchor));
}

static int output_loss(struct event_output *output, const struct loss_event *loss)
{
	return put(writer_of(output), CHUNK_LOSS, loss, 1, sizeof(*loss));
}

/* ---- the writer ---- */

static void destroy(struct capture_writer *writer)
{
	if (writer->fd >= 0)
		close(writer->fd);
	for (int type = 0; type < CHUNK_TYPES; type++)
		free(writer->batches[type].bytes);
	intern_clear(&writer->strings);
	free(writer->in_file);
	free(writer->path);
	free(writer);
}

static struct capture_writer *allocate(const char *path)
{
	struct capture_writer *writer = calloc(1, sizeof(*writer));

	if (!writer)
		return NULL;
	writer->fd = -1;
	writer->path = strdup(path);
	for (int type = CHUNK_HEADER; type < CHUNK_TYPES; type++) {
		writer->batches[type].bytes = malloc(sizeof(struct chunk_header) + BATCH_ROOM);
		if (!writer->batches[type].bytes || !writer->path) {
			destroy(writer);
			errno = ENOMEM;
			return NULL;
		}
	}
	writer->output.string = output_string;
	writer->output.hooked = output_hooked;
	writer->output.manual = output_manual;
	writer->output.thread = output_thread;
	writer->output.anchor = output_anchor;
	writer->output.loss = output_loss;
	return writer;
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

static int write_header(struct capture_writer *writer, int argc, char *const *argv)
{
	struct header_payload header = {.byte_order = CAPTURE_BYTE_ORDER, CAPTURE_MAJOR, CAPTURE_MINOR};
	char command[COMMAND_MAX];
	struct utsname host;

	uname(&host);
	memcpy(header.magic, CAPTURE_MAGIC, sizeof(header.magic));
	snapshot(&header);
	header.host_length = (uint32_t)strlen(host.nodename);
	header.kernel_length = (uint32_t)strlen(host.release);
	header.command_length = (uint32_t)join(command, sizeof(command), argc, argv);
	append(writer, CHUNK_HEADER, &header, sizeof(header));
	append(writer, CHUNK_HEADER, host.nodename, header.host_length);
	append(writer, CHUNK_HEADER, host.release, header.kernel_length);
	append(writer, CHUNK_HEADER, command, header.command_length);
	writer->records[CHUNK_HEADER] = 1;
	return capture_writer_flush(writer);
}

struct capture_writer *capture_writer_create(const char *path, int argc, char *const *argv)
{
	struct capture_writer *writer = allocate(path);
	int err = 0;

	if (!writer) {
		log_error("cannot create the capture %s: out of memory", path);
		return NULL;
	}
	writer->fd = open_output(path);
	err = writer->fd < 0 ? writer->fd : write_header(writer, argc, argv);
	if (err) {
		destroy(writer);
		errno = -err;
		return NULL;
	}
	return writer;
}

struct event_output *capture_writer_output(struct capture_writer *writer)
{
	return &writer->output;
}

int capture_writer_function(struct capture_writer *writer, const struct function_info *function)
{
	if (function->id != writer->records[CHUNK_FUNCTION] || function->id >= CAPTURE_FUNCTION_MAX) {
		log_error("function id %u out of order: a capture declares functions 0, 1, 2 ... up to %u",
			  function->id, CAPTURE_FUNCTION_MAX - 1);
		return -EINVAL;
	}
	if (vec_grow(&writer->in_file, &writer->in_file_capacity, function->id))
		return fail(writer, -ENOMEM);
	writer->in_file[function->id] = 0;
	return put(writer, CHUNK_FUNCTION, function, 1, sizeof(*function));
}

int capture_writer_process(struct capture_writer *writer, const struct process_info *process)
{
	/* Events before this are of the process as it was declared before, its clock included. */
	capture_writer_flush(writer);
	return put(writer, CHUNK_PROCESS, process, 1, sizeof(*process));
}

int capture_writer_function_accounting(struct capture_writer *writer, uint32_t id,
				       const struct function_accounting *accounting)
{
	struct function_account account = {.function = id, .accounting = *accounting};

	return put(writer, CHUNK_FUNCTION_ACCOUNTING, &account, 1, sizeof(account));
}

int capture_writer_segment_accounting(struct capture_writer *writer,
				      const struct segment_accounting *accounting)
{
	return put(writer, CHUNK_SEGMENT_ACCOUNTING, accounting, 1, sizeof(*accounting));
}

uint64_t capture_writer_manual_in_file(const struct capture_writer *writer)
{
	return writer->records[CHUNK_MANUAL];
}

uint64_t capture_writer_in_file(const struct capture_writer *writer, uint32_t id)
{
	return id < writer->records[CHUNK_FUNCTION] ? writer->in_file[id] : 0;
}

uint64_t capture_writer_bytes(const struct capture_writer *writer)
{
	return writer->bytes;
}

int capture_writer_finish(struct capture_writer *writer, uint64_t start_ns, uint64_t end_ns,
			  uint64_t recursion_misses)
{
	struct footer_payload footer = {start_ns, end_ns, recursion_misses, {0}};
	int err;

	capture_writer_flush(writer);
	memcpy(footer.records, writer->records, sizeof(footer.records));
	append(writer, CHUNK_FOOTER, &footer, sizeof(footer));
	write_chunk(writer, CHUNK_FOOTER);
	if (close(writer->fd) && errno != EINTR)
		fail(writer, -errno);
	writer->fd = -1;
	err = writer->error;
	destroy(writer);
	return err;
}
