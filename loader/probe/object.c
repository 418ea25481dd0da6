// SPDX-License-Identifier: GPL-2.0-or-later
#include "probe/object.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "bpf/scope_event.h"
#include "probe/libbpf_log.h"
#include "scopetrace.skel.h"

#define MOST_OF_A_KIND 32 /* programs, or maps */

/* Of a program or map that is pinned; its place is that in the skeleton. */
struct adopted {
	int programs[MOST_OF_A_KIND];
	int maps[MOST_OF_A_KIND];
};

struct probe_object {
	struct scopetrace_bpf *skeleton; /* not loaded if `adopted` */
	struct adopted *adopted;
	struct pairing_settings settings;
	int followers[PROBE_FOLLOWERS]; /* links; -1: not attached */
};

/* ---- programs and maps, loaded or adopted ---- */

static int program_fd(const struct probe_object *object, const struct bpf_program *program)
{
	struct bpf_program *other;
	size_t i = 0;

	if (!object->adopted)
		return bpf_program__fd(program);
	bpf_object__for_each_program(other, object->skeleton->obj)
	{
		if (other == program)
			return object->adopted->programs[i];
		i++;
	}
	return -ENOENT;
}

static int map_fd(const struct probe_object *object, const struct bpf_map *map)
{
	const struct bpf_map *other;
	size_t i = 0;

	if (!object->adopted)
		return bpf_map__fd(map);
	bpf_object__for_each_map(other, object->skeleton->obj)
	{
		if (other == map)
			return object->adopted->maps[i];
		i++;
	}
	return -ENOENT;
}

/* ---- loading ---- */

static int size_maps(struct scopetrace_bpf *skeleton, const struct probe_object_options *options)
{
	int err = bpf_map__set_max_entries(skeleton->maps.events, options->ring_bytes);

	if (!err)
		err = bpf_map__set_max_entries(skeleton->maps.counters, options->function_count);
	if (!err)
		err = bpf_map__set_max_entries(skeleton->maps.functions, options->function_count);
	/* A map has at least one entry. */
	return err ? err
		   : bpf_map__set_max_entries(skeleton->maps.exit_sites,
					      options->exit_count ? options->exit_count : 1);
}

static int write_settings(struct probe_object *object)
{
	uint32_t zero = 0;
	int fd = map_fd(object, object->skeleton->maps.settings);
	int err = bpf_map_update_elem(fd, &zero, &object->settings, BPF_ANY);

	if (err)
		log_error("cannot change the settings of the BPF programs: %s", strerror(-err));
	return err;
}

/* 0 or -errno, the log filled. */
static int load(struct probe_object *object, const struct probe_object_options *options)
{
	int err;

	object->skeleton = scopetrace_bpf__open();
	if (!object->skeleton)
		return -errno;
	err = size_maps(object->skeleton, options);
	return err ? err : scopetrace_bpf__load(object->skeleton);
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

static struct probe_object *make_object(void)
{
	struct probe_object *object = calloc(1, sizeof(*object));

	for (size_t i = 0; object && i < PROBE_FOLLOWERS; i++)
		object->followers[i] = -1;
	return object;
}

struct probe_object *probe_object_load(const struct probe_object_options *options)
{
	struct probe_object *object = make_object();
	struct libbpf_log *log = calloc(1, sizeof(*log));
	int err = -ENOMEM;

	if (!object || !log)
		goto out;
	object->settings.version = SCOPETRACE_BPF_VERSION;
	object->settings.minimum_ns = options->minimum_ns;
	object->settings.flags = options->flags;

	libbpf_log_begin(log);
	err = load(object, options);
	libbpf_log_end(log);

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
	probe_object_unfollow_threads(object);
	for (size_t i = 0; object->adopted && i < MOST_OF_A_KIND; i++) {
		if (object->adopted->programs[i] >= 0)
			close(object->adopted->programs[i]);
		if (object->adopted->maps[i] >= 0)
			close(object->adopted->maps[i]);
	}
	free(object->adopted);
	scopetrace_bpf__destroy(object->skeleton);
	free(object);
}

/* ---- using it ---- */

static const struct bpf_program *follower(const struct probe_object *object, size_t index)
{
	const struct scopetrace_bpf *skeleton = object->skeleton;
	const struct bpf_program *programs[PROBE_FOLLOWERS] = {
		skeleton->progs.thread_exit,
		skeleton->progs.process_exec,
		skeleton->progs.thread_rename,
		skeleton->progs.process_fork,
	};

	return programs[index];
}

const char *probe_object_follower(const struct probe_object *object, size_t index, int *fd)
{
	*fd = object->followers[index];
	return bpf_program__name(follower(object, index));
}

int probe_object_follow_threads(struct probe_object *object)
{
	for (size_t i = 0; i < PROBE_FOLLOWERS; i++) {
		const struct bpf_program *program = follower(object, i);
		int fd = object->followers[i];

		if (fd < 0)
			fd = bpf_link_create(program_fd(object, program), 0, BPF_TRACE_RAW_TP,
					     NULL);
		if (fd < 0) {
			log_error("cannot attach the BPF program %s, which follows threads: %s",
				  bpf_program__name(program), strerror(-fd));
			return fd;
		}
		object->followers[i] = fd;
	}
	return 0;
}

int probe_object_add_target(struct probe_object *object, pid_t pid)
{
	struct target_setting target = {.on = 1};
	uint32_t key = (uint32_t)pid;
	int err = bpf_map_update_elem(map_fd(object, object->skeleton->maps.targets), &key, &target,
				      BPF_ANY);

	if (err)
		log_error("cannot follow process %d: %s", pid,
			  err == -E2BIG ? "too many processes for one capture" : strerror(-err));
	return err;
}

void probe_object_unfollow_threads(struct probe_object *object)
{
	for (size_t i = PROBE_FOLLOWERS; i-- > 0;) {
		if (object->followers[i] >= 0)
			close(object->followers[i]);
		object->followers[i] = -1;
	}
}

int probe_object_configure(struct probe_object *object, uint64_t minimum_ns, uint32_t flags)
{
	object->settings = (struct pairing_settings){
		.version = SCOPETRACE_BPF_VERSION, .minimum_ns = minimum_ns, .flags = flags};
	return write_settings(object);
}

int probe_object_set_generation(struct probe_object *object, uint32_t generation)
{
	object->settings.generation = generation;
	return write_settings(object);
}

int probe_object_program(const struct probe_object *object, enum probe_program program)
{
	struct scopetrace_bpf *skeleton = object->skeleton;
	const struct bpf_program *programs[] = {
		[PROBE_ENTRY] = skeleton->progs.scope_entry,
		[PROBE_RETURN] = skeleton->progs.scope_return,
		[PROBE_ENTRY_BY_EXIT] = skeleton->progs.scope_entry_by_exit,
		[PROBE_EXIT] = skeleton->progs.scope_exit,
		[PROBE_INSTANT] = skeleton->progs.scope_instant,
	};

	return program_fd(object, programs[program]);
}

int probe_object_map(const struct probe_object *object, const char *name)
{
	struct bpf_map *map = bpf_object__find_map_by_name(object->skeleton->obj, name);

	return map ? map_fd(object, map) : -ENOENT;
}

uint64_t probe_object_recursion_misses(const struct probe_object *object)
{
	struct bpf_program *program;
	uint64_t misses = 0;

	bpf_object__for_each_program(program, object->skeleton->obj)
	{
		struct bpf_prog_info info = {0};
		uint32_t length = sizeof(info);

		if (!bpf_obj_get_info_by_fd(program_fd(object, program), &info, &length))
			misses += info.recursion_misses;
	}
	return misses;
}

/* ---- programs and maps that are in the kernel already ---- */

/* The sizes of the maps' keys and values are those of this build; how many entries they have is their maker's
 * choice. */
static int check_map(const struct bpf_map *map, int fd)
{
	struct bpf_map_info info = {0};
	uint32_t length = sizeof(info);

	if (bpf_obj_get_info_by_fd(fd, &info, &length)) {
		log_error("cannot look at the map %s: %s", bpf_map__name(map), strerror(errno));
		return -errno;
	}
	if (info.type == (uint32_t)bpf_map__type(map) && info.key_size == bpf_map__key_size(map) &&
	    info.value_size == bpf_map__value_size(map))
		return 0;
	log_error(
		"the map %s is of another kind or size than this scopetrace's: it is of another build; use that, "
		"or load this one's scopetrace.bpf.o",
		bpf_map__name(map));
	return -EPROTO;
}

static int adopt_all(struct probe_object *object, probe_object_opener open, void *context,
		     bool with_programs)
{
	struct bpf_program *program;
	struct bpf_map *map;
	size_t programs = 0, maps = 0;
	int err = 0;

	bpf_object__for_each_map(map, object->skeleton->obj)
	{
		int *fd = &object->adopted->maps[maps++];

		if (!err)
			*fd = err = open(context, PROBE_OBJECT_MAPS, bpf_map__name(map));
		if (err >= 0)
			err = check_map(map, *fd);
	}
	bpf_object__for_each_program(program, object->skeleton->obj)
	{
		int *fd = &object->adopted->programs[programs++];

		if (!err && with_programs)
			*fd = err =
				open(context, PROBE_OBJECT_PROGRAMS, bpf_program__name(program));
		err = err < 0 ? err : 0;
	}
	return err;
}

static int read_settings(struct probe_object *object)
{
	int fd = map_fd(object, object->skeleton->maps.settings);
	uint32_t zero = 0;
	int err = bpf_map_lookup_elem(fd, &zero, &object->settings);

	if (err)
		log_error("cannot read the settings of the BPF programs: %s", strerror(-err));
	return err;
}

struct probe_object *probe_object_adopt(probe_object_opener open, void *context, bool with_programs)
{
	struct probe_object *object = make_object();
	int err = -ENOMEM;

	if (object)
		object->adopted = malloc(sizeof(*object->adopted));
	if (object && object->adopted) {
		memset(object->adopted, 0xff, sizeof(*object->adopted)); /* -1 */
		object->skeleton = scopetrace_bpf__open();
		err = object->skeleton ? adopt_all(object, open, context, with_programs) : -errno;
	}
	if (!err)
		err = read_settings(object);
	if (!err)
		return object;
	probe_object_unload(object);
	errno = -err;
	return NULL;
}

int probe_object_visit(const struct probe_object *object, probe_object_visitor visit, void *context)
{
	struct bpf_program *program;
	struct bpf_map *map;
	int err = 0;

	bpf_object__for_each_map(map, object->skeleton->obj)
	{
		if (!err)
			err = visit(context, PROBE_OBJECT_MAPS, bpf_map__name(map),
				    map_fd(object, map));
	}
	bpf_object__for_each_program(program, object->skeleton->obj)
	{
		if (!err)
			err = visit(context, PROBE_OBJECT_PROGRAMS, bpf_program__name(program),
				    program_fd(object, program));
	}
	return err;
}

static bool has_same_tag(int left, int right)
{
	struct bpf_prog_info one = {0}, other = {0};
	uint32_t length = sizeof(one);

	if (bpf_obj_get_info_by_fd(left, &one, &length))
		return false;
	length = sizeof(other);
	return !bpf_obj_get_info_by_fd(right, &other, &length) &&
	       memcmp(one.tag, other.tag, sizeof(one.tag)) == 0;
}

bool probe_object_is_same(const struct probe_object *left, const struct probe_object *right,
			  const char **differs)
{
	struct bpf_program *program;
	const struct bpf_program *other;

	bpf_object__for_each_program(program, left->skeleton->obj)
	{
		*differs = bpf_program__name(program);
		other = bpf_object__find_program_by_name(right->skeleton->obj, *differs);
		if (!other || !has_same_tag(program_fd(left, program), program_fd(right, other)))
			return false;
	}
	return true;
}
