// SPDX-License-Identifier: GPL-2.0-or-later
#include "pinned/attach.h"

#include <errno.h>
#include <grp.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/io.h"
#include "base/log.h"
#include "pinned/watch.h"
#include "plan/sites.h"
#include "plan/text_check.h"
#include "probe/attach.h"
#include "probe/feature.h"
#include "program/lease.h"
#include "program/process.h"
#include "pinned/directory.h"
#include "pinned/maps.h"

#define DEFAULT_RING_BYTES (8u << 20)
#define MAKE_TRIES	   10

struct attaching {
	const struct pinned_attach_options *options;
	const char *dir;
	struct process process;
	struct plan plan;
	struct lease_set leases; /* until it is armed */
	gid_t group;
	int lock;
	bool made_dir; /* DIR was not there */
	bool loaded;   /* by us: else what bpftool loaded stays when we fail */
	bool changed;  /* something to undo */
	bool refused;  /* something was there before, and stays as it is */
	struct pinned pinned;
	struct watcher watcher;
	struct probe_session *session; /* has pinned.object, as soon as there is one */
	unsigned links;
};

/* ---- programs and maps ---- */

static struct probe_object_options object_options(const struct attaching *a)
{
	const struct pinned_attach_options *o = a->options;

	return (struct probe_object_options){
		.ring_bytes = o->ring_bytes ? o->ring_bytes : DEFAULT_RING_BYTES,
		.function_count = a->plan.count,
		.exit_count = plan_most_exits(&a->plan),
	};
}

static int load(struct attaching *a)
{
	const struct probe_object_options options = object_options(a);

	a->loaded = a->changed = true;
	a->pinned.object = probe_object_load(&options);
	return a->pinned.object ? pin_object(a->dir, a->pinned.object) : -errno;
}

/* That the programs are the same instruction for instruction, ours must be loaded to tell. */
static int check_build(const struct attaching *a)
{
	const struct probe_object_options options = {
		.ring_bytes = (size_t)sysconf(_SC_PAGESIZE), .function_count = 1, .exit_count = 1};
	struct probe_object *ours = probe_object_load(&options);
	const char *differs;
	bool same;

	if (!ours)
		return -errno;
	same = probe_object_is_same(a->pinned.object, ours, &differs);
	if (!same)
		log_error(
			"the program %s in %s is not that of this scopetrace: another build has loaded it; use that "
			"one's scopetrace, or load this one's scopetrace.bpf.o with bpftool",
			differs, a->dir);
	probe_object_unload(ours);
	return same ? 0 : -EPROTO;
}

static int refuse_attached(struct attaching *a)
{
	a->refused = true;
	log_error(
		"a capture is attached in %s already, or attaching died half way: `scopetrace status --pin %s` "
		"tells; `scopetrace detach --pin %s` removes it, `scopetrace set --pin %s --add-pid` adds a process",
		a->dir, a->dir, a->dir, a->dir);
	return -EEXIST;
}

static int refuse_programs_alone(struct attaching *a)
{
	a->refused = true;
	log_error(
		"%s/" PROBE_OBJECT_PROGRAMS " holds programs, and %s/" PROBE_OBJECT_MAPS
		" no maps: `scopetrace detach --pin %s` removes them; load them with `pinmaps %s/" PROBE_OBJECT_MAPS
		"`",
		a->dir, a->dir, a->dir, a->dir);
	return -EINVAL;
}

static int open_loaded(struct attaching *a)
{
	const struct probe_object_options options = object_options(a);
	struct pairing_settings settings;
	int err;

	a->pinned.object = pin_open(a->dir, true);
	if (!a->pinned.object)
		return -errno;
	err = pinned_settings(&a->pinned, &settings);
	if (!err && settings.version)
		return refuse_attached(a);
	if (!err)
		err = check_build(a);
	if (!err)
		err = pin_check_room(a->dir, a->pinned.object, &options);
	a->changed = !err;
	if (!err && a->options->ring_bytes)
		log_warning("--ring-size: the ring in %s is there already, and stays as it is",
			    a->dir);
	if (!err)
		log_info("using the programs and maps that are pinned in %s", a->dir);
	return err;
}

/* A detach that is under way may remove it before we have its lock. */
static int make_directory(struct attaching *a)
{
	int err = -ENOENT;

	for (int i = 0; i < MAKE_TRIES && err == -ENOENT; i++) {
		a->made_dir |= access(a->dir, F_OK) != 0;
		err = pin_make_directory(a->dir);
		if (err)
			return err;
		a->lock = pin_wait_changes(a->dir);
		err = a->lock < 0 ? a->lock : 0;
	}
	if (err == -ENOENT)
		log_error("%s is being removed: try again", a->dir);
	return err;
}

static int check_directory(struct attaching *a)
{
	struct pin_links links;
	int err = pin_links_read(a->dir, &links);

	if (!err && !links.count && pin_has_programs_alone(a->dir))
		err = refuse_programs_alone(a);
	else if (!err && (links.count || (!pin_is_loaded(a->dir) && !pin_is_empty(a->dir))))
		err = refuse_attached(a);
	pin_links_clear(&links);
	return err;
}

static int open_directory(struct attaching *a)
{
	int err = make_directory(a);

	if (!err)
		err = check_directory(a);
	if (err)
		return err;
	return pin_is_loaded(a->dir) ? open_loaded(a) : load(a);
}

/* ---- attaching ---- */

static int pin_hook(void *context, const char *name, int fd)
{
	struct attaching *a = context;
	char numbered[64];

	if (!name) {
		snprintf(numbered, sizeof(numbered), "%d-%u", a->process.pid, a->links++);
		name = numbered;
	}
	return pin_link(a->dir, name, fd);
}

static bool is_refused(const void *session, uint32_t function)
{
	return probe_session_refused(session, function);
}

/* Until here, and no longer: the capture is nobody's process afterwards, and a lease wants one. */
static int refuse_rewritten(const struct attaching *a)
{
	const struct module *module = leases_lost(&a->leases);

	if (!module)
		return 0;
	log_error(
		"%s is being written to, or was: probes in a changed file kill programs, so nothing is hooked",
		module->path);
	return -ESTALE;
}

static int hook(struct attaching *a)
{
	struct plan_sites sites = {0};
	size_t count = a->plan.count;
	int err;

	a->session = probe_session_adopt(a->pinned.object, count, plan_most_exits(&a->plan));
	if (!a->session) {
		a->pinned.object = NULL;
		return -errno;
	}
	err = plan_sites_make(&a->plan, &sites);
	if (!err)
		err = probe_session_attach(a->session, a->process.pid, sites.functions, count);
	plan_sites_clear(&sites);
	if (!err)
		err = text_verify(&a->plan, a->process.pid, is_refused, a->session);
	return err ? err : probe_session_visit_links(a->session, pin_hook, a);
}

static uint32_t flags(const struct attaching *a)
{
	return SETTING_TARGETS | (a->options->near ? 0 : SETTING_HASH_ONLY) |
	       plan_setting_flags(&a->plan);
}

/* Everything up to the moment at which the hits count. */
static int arm(struct attaching *a)
{
	const struct pinned_attach_options *o = a->options;
	const struct capture_setting capture = {.start_ns = io_now_ns(),
						.functions = (uint32_t)a->plan.count,
						.returns = o->plan.returns,
						.watcher = (uint32_t)a->watcher.pid};
	int err = probe_object_configure(a->pinned.object, o->minimum_ns, flags(a));

	if (!err)
		err = leases_take(&a->leases, a->plan.functions, a->plan.count);
	if (!err)
		err = hook(a);
	if (!err && a->options->group)
		err = pin_give_group(a->dir, a->group);
	else if (!err)
		pin_close_to_others(a->dir);
	if (!err)
		err = pinned_put_capture(&a->pinned, &capture);
	if (!err && a->options->watch)
		err = pinned_watch_open(&a->watcher, a->dir);
	if (!err)
		err = refuse_rewritten(a);
	return err ? err : probe_session_leave(a->session);
}

/* ---- the way back ---- */

/* What bpftool loaded is again as it was: nothing attached, and so silent. */
static void undo(struct attaching *a)
{
	const struct pairing_settings none = {0};
	const struct capture_setting nothing = {0};

	/* Links that we hold ourselves would be waited for. */
	if (a->session)
		probe_session_detach(a->session);
	if (a->loaded) {
		pin_remove(a->dir);
		return;
	}
	if (a->changed && a->pinned.object) {
		pinned_put_settings(&a->pinned, &none);
		pinned_put_capture(&a->pinned, &nothing);
		pinned_remove_target(&a->pinned, a->process.pid);
	}
	pin_remove_links(a->dir, NULL, NULL);
	pin_remove_made(a->dir, a->made_dir);
}

static int find_group(struct attaching *a)
{
	const struct group *group;

	if (!a->options->group)
		return 0;
	group = getgrnam(a->options->group);
	if (!group) {
		log_error("--group '%s': there is no such group", a->options->group);
		return -EINVAL;
	}
	a->group = group->gr_gid;
	return 0;
}

static void say_attached(const struct attaching *a)
{
	plan_log_returns(&a->plan, false);
	log_info(
		"armed %zu of %zu functions in pid %d; pinned in %s, %s: `scopetrace drain --pin %s` "
		"records, `scopetrace detach --pin %s` ends it",
		probe_session_armed(a->session), a->plan.count, a->process.pid, a->dir,
		a->loaded ? "with programs and maps of its own"
			  : "with those that were loaded there",
		a->dir, a->dir);
	if (a->options->watch)
		log_info("process %d watches: manual scopes are captured while nobody drains",
			 a->watcher.pid);
}

static int choose(struct attaching *a)
{
	const struct pinned_attach_options *o = a->options;
	int err = find_group(a);

	if (!err)
		err = process_open(o->pid, &a->process);
	if (!err)
		err = feature_require_hooking();
	return err ? err : plan_make(&a->plan, &o->plan, a->process.pid, NULL);
}

int pinned_attach(const struct pinned_attach_options *options)
{
	struct attaching a = {.options = options,
			      .dir = options->dir,
			      .lock = -1,
			      .pinned = {.dir = options->dir},
			      .watcher = {.channel = -1},
			      .process = {.pidfd = -1}};
	int err = options->watch ? pinned_watch_start(&a.watcher) : 0;

	if (!err)
		err = choose(&a);
	if (!err)
		err = open_directory(&a);
	if (!err)
		err = arm(&a);
	if (!err)
		say_attached(&a);
	else if (a.lock >= 0 && !a.refused)
		undo(&a);
	else if (a.lock >= 0 || a.lock == -ENOENT)
		pin_remove_made(a.dir, a.made_dir);
	leases_release(&a.leases);
	if (a.session)
		probe_session_close(a.session);
	else
		pinned_close(&a.pinned);
	if (a.lock >= 0)
		close(a.lock);
	pinned_watch_leave(&a.watcher);
	plan_release(&a.plan);
	process_close(&a.process);
	return err;
}
