// SPDX-License-Identifier: GPL-2.0-or-later
#include "pinned/maps.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/vec.h"
#include "pinned/directory.h"

/* ---- opening ---- */

static int check_version(const struct pinned *pinned)
{
	struct pairing_settings settings;
	int err = pinned_settings(pinned, &settings);

	if (err)
		return err;
	if (!settings.version || !pinned->capture.start_ns) {
		log_error(
			"%s holds programs, but no capture is attached: `scopetrace attach --pin %s -p PID -f "
			"PATTERN` makes one (after `scopetrace detach --pin %s`, if attaching died half way)",
			pinned->dir, pinned->dir, pinned->dir);
		return -ENODATA;
	}
	if (settings.version == SCOPETRACE_BPF_VERSION)
		return 0;
	log_error(
		"the capture in %s is of version %u, and this scopetrace reads version %d: use the "
		"scopetrace that attached it",
		pinned->dir, settings.version, SCOPETRACE_BPF_VERSION);
	return -EPROTO;
}

static int read_capture(struct pinned *pinned)
{
	uint32_t zero = 0;
	int err = bpf_map_lookup_elem(pinned_map(pinned, "capture"), &zero, &pinned->capture);

	if (err)
		log_error("cannot read the description of the capture in %s: %s", pinned->dir,
			  strerror(-err));
	return err;
}

int pinned_open(struct pinned *pinned, const char *dir)
{
	int err;

	/* The inode first: what is exchanged meanwhile does not stand. */
	*pinned = (struct pinned){.dir = dir,
				  .cpu_count = libbpf_num_possible_cpus(),
				  .inode = pin_settings_inode(dir)};
	if (pinned->cpu_count < 0)
		return pinned->cpu_count;
	if (!pin_is_loaded(dir)) {
		err = errno == EACCES ? -EACCES : -ENOENT;
		log_error("no capture is pinned in %s%s: `scopetrace attach --pin DIR` makes one",
			  dir, err == -EACCES ? " that you may see" : "");
		return err;
	}
	pinned->object = pin_open(dir, false);
	if (!pinned->object)
		return -errno;
	err = read_capture(pinned);
	return err ? err : check_version(pinned);
}

int pinned_open_any(struct pinned *pinned, const char *dir)
{
	*pinned = (struct pinned){.dir = dir, .cpu_count = libbpf_num_possible_cpus()};
	if (pinned->cpu_count < 0 || !pin_is_loaded(dir))
		return -ENOENT;
	pinned->object = pin_open_quietly(dir);
	return pinned->object ? read_capture(pinned) : -errno;
}

void pinned_close(struct pinned *pinned)
{
	probe_object_unload(pinned->object);
	pinned->object = NULL;
}

bool pinned_stands(const struct pinned *pinned)
{
	return pin_settings_inode(pinned->dir) == pinned->inode;
}

/* Whose settings they are is not known: only those of our layout are changed. */
int pinned_silence(const char *dir)
{
	struct pairing_settings settings;
	struct bpf_map_info info = {0};
	uint32_t length = sizeof(info), zero = 0;
	int fd = pin_open_settings(dir),
	    err = fd < 0 ? fd : bpf_map_get_info_by_fd(fd, &info, &length);

	if (!err && info.value_size != sizeof(settings))
		err = -EPROTO;
	if (!err)
		err = bpf_map_lookup_elem(fd, &zero, &settings);
	settings.generation = 0;
	if (!err)
		err = bpf_map_update_elem(fd, &zero, &settings, BPF_ANY);
	if (fd >= 0)
		close(fd);
	return err;
}

int pinned_map(const struct pinned *pinned, const char *name)
{
	return probe_object_map(pinned->object, name);
}

/* ---- entries ---- */

static int get(const struct pinned *pinned, const char *map, uint32_t key, void *value)
{
	int err = bpf_map_lookup_elem(pinned_map(pinned, map), &key, value);

	if (err)
		log_error("cannot read entry %u of the map %s in %s: %s", key, map, pinned->dir,
			  strerror(-err));
	return err;
}

static int put(const struct pinned *pinned, const char *map, uint32_t key, const void *value)
{
	int err = bpf_map_update_elem(pinned_map(pinned, map), &key, value, BPF_ANY);

	if (err)
		log_error("cannot change entry %u of the map %s in %s: %s", key, map, pinned->dir,
			  err == -E2BIG ? "it is full" : strerror(-err));
	return err;
}

int pinned_settings(const struct pinned *pinned, struct pairing_settings *settings)
{
	return get(pinned, "settings", 0, settings);
}

int pinned_put_settings(const struct pinned *pinned, const struct pairing_settings *settings)
{
	return put(pinned, "settings", 0, settings);
}

int pinned_put_capture(const struct pinned *pinned, const struct capture_setting *capture)
{
	return put(pinned, "capture", 0, capture);
}

int pinned_function(const struct pinned *pinned, uint32_t id, struct function_setting *function)
{
	int err = get(pinned, "functions", id, function);

	/* Anybody with the rights may have written them. */
	function->module[sizeof(function->module) - 1] = '\0';
	function->name[sizeof(function->name) - 1] = '\0';
	return err;
}

int pinned_put_function(const struct pinned *pinned, uint32_t id,
			const struct function_setting *function)
{
	return put(pinned, "functions", id, function);
}

int pinned_counters(const struct pinned *pinned, uint32_t id, struct function_counters *sum)
{
	struct function_counters *counters = calloc((size_t)pinned->cpu_count, sizeof(*counters));
	int err = counters ? get(pinned, "counters", id, counters) : -ENOMEM;

	memset(sum, 0, sizeof(*sum));
	for (int cpu = 0; !err && cpu < pinned->cpu_count; cpu++) {
		const uint64_t *from = (const uint64_t *)&counters[cpu];

		for (size_t i = 0; i < sizeof(*sum) / sizeof(*from); i++)
			((uint64_t *)sum)[i] += from[i];
	}
	free(counters);
	return err;
}

int pinned_pending(const struct pinned *pinned, struct pending_loss *sum)
{
	struct pending_loss *pending = calloc((size_t)pinned->cpu_count, sizeof(*pending));
	int err = pending ? get(pinned, "pending_loss", 0, pending) : -ENOMEM;

	memset(sum, 0, sizeof(*sum));
	for (int cpu = 0; !err && cpu < pinned->cpu_count; cpu++) {
		sum->count += pending[cpu].count;
		sum->thread_records += pending[cpu].thread_records;
	}
	free(pending);
	return err;
}

/* ---- processes ---- */

int pinned_put_target(const struct pinned *pinned, pid_t pid, bool on)
{
	const struct target_setting target = {.on = on};

	return put(pinned, "targets", (uint32_t)pid, &target);
}

int pinned_remove_target(const struct pinned *pinned, pid_t pid)
{
	uint32_t key = (uint32_t)pid;
	int err = bpf_map_delete_elem(pinned_map(pinned, "targets"), &key);

	if (err && err != -ENOENT)
		log_error("cannot take process %d out of %s: %s", pid, pinned->dir, strerror(-err));
	return err;
}

int pinned_targets(const struct pinned *pinned, struct pinned_target **targets, size_t *count)
{
	int map = pinned_map(pinned, "targets"), err = 0;
	struct target_setting setting;
	uint32_t key, *previous = NULL, last;
	size_t capacity = 0;

	*targets = NULL;
	*count = 0;
	while (!err && !bpf_map_get_next_key(map, previous, &key)) {
		last = key;
		previous = &last;
		if (bpf_map_lookup_elem(map, &key, &setting))
			continue;
		err = vec_grow(targets, &capacity, *count);
		if (!err)
			(*targets)[(*count)++] =
				(struct pinned_target){(pid_t)key, setting.on != 0};
	}
	if (err)
		log_error("cannot list the processes of %s: %s", pinned->dir, strerror(-err));
	return err;
}

int pinned_targets_in_force(const struct pinned *pinned, struct pinned_target **targets,
			    size_t *count)
{
	struct pairing_settings settings;
	int err = pinned_targets(pinned, targets, count);

	if (!err)
		err = pinned_settings(pinned, &settings);
	for (size_t i = 0; i < *count && !err; i++)
		(*targets)[i].on |= !(settings.flags & SETTING_TARGETS);
	return err;
}

/* What they fork meanwhile stands in the map, too: it is found by the next look. */
bool pinned_free_heirs(const struct pinned *pinned)
{
	int map = pinned_map(pinned, "heirs");
	uint32_t heirs[MAX_HEIRS], *previous = NULL;
	size_t count = 0;

	while (count < MAX_HEIRS && !bpf_map_get_next_key(map, previous, &heirs[count]))
		previous = &heirs[count++];
	if (!count || pin_strip(pinned->dir, heirs, count))
		return false;
	for (size_t i = 0; i < count; i++)
		bpf_map_delete_elem(map, &heirs[i]);
	return true;
}
