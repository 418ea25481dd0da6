// SPDX-License-Identifier: GPL-2.0-or-later
#include "probe/object.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "bpf/scope_event.h"
#include "scopetrace.skel.h"

#define LOG_BYTES 3072 /* the end of what libbpf says: the verifier's verdict is in its last lines */

struct probe_object {
	struct scopetrace_bpf *skeleton;
	struct pairing_settings settings;
};

/* ---- what libbpf says --------------------------------------------------------------------------------- */

struct libbpf_log {
	size_t length;
	char text[LOG_BYTES];
};

/* libbpf passes its print function no context, so where it goes must be known to the thread that loads. */
static _Thread_local struct libbpf_log *listening;

/* Appends, dropping what is oldest. */
static void append(struct libbpf_log *log, const char *text, size_t length)
{
	size_t room = sizeof(log->text) - 1, excess;

	if (length > room) {
		text += length - room;
		length = room;
	}
	excess = log->length + length > room ? log->length + length - room : 0;
	log->length -= excess;
	memmove(log->text, log->text + excess, log->length);
	memcpy(log->text + log->length, text, length);
	log->length += length;
	log->text[log->length] = '\0';
}

static int keep_message(enum libbpf_print_level level, const char *format, va_list arguments)
{
	char *message;
	int length;

	if (!listening || level == LIBBPF_DEBUG)
		return 0;
	length = vasprintf(&message, format, arguments);
	if (length < 0)
		return 0;
	append(listening, message, (size_t)length);
	free(message);
	return 0;
}

static void say_load_failure(const struct libbpf_log *log, int err)
{
	const char *cure = "please report it with the kernel's version";

	if (err == -EPERM || err == -EACCES)
		cure = "run it with sudo, or give it CAP_BPF and CAP_PERFMON";
	else if (err == -ENOMEM)
		cure = "choose a smaller ring";
	log_error("the BPF programs do not load into this kernel: %s; %s%s%s", strerror(-err), cure,
		  log->length ? "\nlibbpf says:\n" : "", log->text);
}

/* ---- loading ------------------------------------------------------------------------------------------ */

static int size_maps(struct scopetrace_bpf *skeleton, size_t ring_bytes, size_t function_count)
{
	int err = bpf_map__set_max_entries(skeleton->maps.events, ring_bytes);

	return err ? err : bpf_map__set_max_entries(skeleton->maps.counters, function_count);
}

static int write_settings(struct probe_object *object)
{
	uint32_t zero = 0;
	int fd = bpf_map__fd(object->skeleton->maps.settings);
	int err = bpf_map_update_elem(fd, &zero, &object->settings, BPF_ANY);

	if (err)
		log_error("cannot change the settings of the BPF programs: %s", strerror(-err));
	return err;
}

/* 0 or -errno, the log filled. */
static int load(struct probe_object *object, size_t ring_bytes, size_t function_count)
{
	int err;

	object->skeleton = scopetrace_bpf__open();
	if (!object->skeleton)
		return -errno;
	err = size_maps(object->skeleton, ring_bytes, function_count);
	return err ? err : scopetrace_bpf__load(object->skeleton);
}

struct probe_object *probe_object_load(size_t ring_bytes, uint64_t minimum_ns, size_t function_count)
{
	struct probe_object *object = calloc(1, sizeof(*object));
	struct libbpf_log *log = calloc(1, sizeof(*log));
	libbpf_print_fn_t before;
	int err = -ENOMEM;

	if (!object || !log)
		goto out;
	object->settings.version = SCOPETRACE_BPF_VERSION;
	object->settings.generation = PROBE_GENERATION;
	object->settings.minimum_ns = minimum_ns;

	listening = log;
	before = libbpf_set_print(keep_message);
	err = load(object, ring_bytes, function_count);
	libbpf_set_print(before);
	listening = NULL;

	if (err)
		say_load_failure(log, err);
	else
		err = write_settings(object);
out:
	free(log);
	if (!err)
		return object;
	probe_object_unload(object);
	errno = -err;
	return NULL;
}

void probe_object_unload(struct probe_object *object)
{
	if (!object)
		return;
	scopetrace_bpf__destroy(object->skeleton);
	free(object);
}

/* ---- using it ----------------------------------------------------------------------------------------- */

static int follow(struct bpf_link **link, struct bpf_program *program)
{
	if (*link)
		return 0;
	*link = bpf_program__attach(program);
	if (*link)
		return 0;
	log_error("cannot attach the BPF program %s, which follows threads: %s", bpf_program__name(program),
		  strerror(errno));
	return -errno;
}

int probe_object_follow_threads(struct probe_object *object)
{
	struct scopetrace_bpf *skeleton = object->skeleton;
	int err = follow(&skeleton->links.thread_exit, skeleton->progs.thread_exit);

	if (!err)
		err = follow(&skeleton->links.process_exec, skeleton->progs.process_exec);
	if (!err)
		err = follow(&skeleton->links.thread_rename, skeleton->progs.thread_rename);
	if (!err)
		err = follow(&skeleton->links.process_fork, skeleton->progs.process_fork);
	return err;
}

void probe_object_unfollow_threads(struct probe_object *object)
{
	struct scopetrace_bpf *skeleton = object->skeleton;

	bpf_link__destroy(skeleton->links.process_fork);
	bpf_link__destroy(skeleton->links.thread_rename);
	bpf_link__destroy(skeleton->links.process_exec);
	bpf_link__destroy(skeleton->links.thread_exit);
	skeleton->links.process_fork = NULL;
	skeleton->links.thread_rename = NULL;
	skeleton->links.process_exec = NULL;
	skeleton->links.thread_exit = NULL;
}

int probe_object_silence(struct probe_object *object)
{
	object->settings.generation = 0;
	return write_settings(object);
}

int probe_object_program(const struct probe_object *object, enum probe_program program)
{
	struct scopetrace_bpf *skeleton = object->skeleton;

	return bpf_program__fd(program == PROBE_ENTRY ? skeleton->progs.scope_entry
						      : skeleton->progs.scope_return);
}

int probe_object_map(const struct probe_object *object, const char *name)
{
	struct bpf_map *map = bpf_object__find_map_by_name(object->skeleton->obj, name);

	return map ? bpf_map__fd(map) : -ENOENT;
}

uint64_t probe_object_recursion_misses(const struct probe_object *object)
{
	struct bpf_program *program;
	uint64_t misses = 0;

	bpf_object__for_each_program(program, object->skeleton->obj)
	{
		struct bpf_prog_info info = {0};
		uint32_t length = sizeof(info);

		if (!bpf_obj_get_info_by_fd(bpf_program__fd(program), &info, &length))
			misses += info.recursion_misses;
	}
	return misses;
}
