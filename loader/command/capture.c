// SPDX-License-Identifier: GPL-2.0-or-later
#include "command/capture.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/io.h"
#include "base/log.h"
#include "probe/feature.h"
#include "source/bpf_source.h"
#include "source/shm_source.h"
#include "target/hazard.h"

static int block_signals(struct capture *c)
{
	sigset_t blocked, watched;

	sigemptyset(&watched);
	sigaddset(&watched, SIGINT);
	sigaddset(&watched, SIGTERM);
	sigaddset(&watched, SIGHUP);
	blocked = watched;
	/* A pipe that nobody reads any more is an error of a write, not our death. */
	sigaddset(&blocked, SIGPIPE);
	sigprocmask(SIG_BLOCK, &blocked, &c->old_mask);
	c->signals = signalfd(-1, &watched, SFD_CLOEXEC | SFD_NONBLOCK);
	if (c->signals < 0) {
		log_error("signalfd: %s", strerror(errno));
		return -errno;
	}
	return 0;
}

static uint32_t translate_tid(void *context, uint32_t namespace_tid)
{
	struct capture *c = context;
	struct process_thread *threads;
	size_t count;
	uint32_t tid = 0;

	if (process_threads(&c->process, &threads, &count))
		return 0;
	for (size_t i = 0; i < count; i++) {
		if ((uint32_t)threads[i].namespace_tid == namespace_tid)
			tid = (uint32_t)threads[i].tid;
	}
	free(threads);
	return tid;
}

int capture_open_manual(struct capture *c)
{
	struct tid_translator translator = {.translate = translate_tid, .context = c};

	c->manual = shm_source_open(c->process.pid, c->namespaced ? &translator : NULL);
	if (c->manual || errno == ENOENT || errno == EAGAIN || errno == ESRCH)
		return 0;
	return -errno;
}

static int open_target(struct capture *c)
{
	pid_t pid = c->options->pid;
	int err;

	if (c->options->command) {
		err = launch_prepare(&c->launch, c->options->command, &c->old_mask);
		if (err)
			return err;
		pid = c->launch.pid;
	}
	err = process_open(pid, &c->process);
	if (err)
		return err;
	c->opened = true;
	c->namespaced = c->process.namespace_pid != c->process.pid;
	return 0;
}

static int refuse_hazard(struct capture *c)
{
	struct hazard hazard;
	int err = hazard_check(&c->symbols.modules, &hazard);

	if (err)
		return err;
	if (!hazard.found)
		return 0;
	if (c->options->force) {
		log_warning("--force: hooking although it may kill the program: %s", hazard.evidence);
		return 0;
	}
	log_error("not hooking this program, as hooking could kill it: %s. Its manual scopes can be captured "
		  "without "
		  "-f; --force hooks it all the same (see HAZARDS in scopetrace-record(1))",
		  hazard.evidence);
	return -EPERM;
}

static int choose_functions(struct capture *c)
{
	const struct capture_options *o = c->options;
	struct symbol_options options = {.optimized = o->optimized};
	int err;

	if (o->command)
		err = symbol_table_of_binary(o->command[0], &options, &c->symbols);
	else
		err = symbol_table_of_process(c->process.pid, &options, &c->symbols);
	if (err)
		return err;
	c->has_symbols = true;
	err = selector_choose(&c->symbols, o->include, o->include_count, o->exclude, o->exclude_count, o->all,
			      &c->functions, &c->function_count);
	if (err)
		return err;
	return refuse_hazard(c);
}

static int arm(struct capture *c)
{
	struct probe_function *sites = calloc(c->function_count, sizeof(*sites));
	int err;

	if (!sites)
		return -ENOMEM;
	for (size_t i = 0; i < c->function_count; i++) {
		sites[i].binary = c->functions[i]->module->probe_path;
		sites[i].offset = c->functions[i]->probe_offset;
		sites[i].display = c->functions[i]->demangled;
	}
	err = probe_session_attach(c->session, c->process.pid, sites, c->function_count);
	free(sites);
	return err;
}

static int open_hooked(struct capture *c)
{
	struct probe_options options = {.ring_bytes = c->options->ring_bytes,
					.minimum_ns = c->options->minimum_ns};
	struct bpf_source_maps maps;
	int err = feature_require_hooking();

	if (!err)
		err = choose_functions(c);
	if (err)
		return err;
	c->session = probe_session_open(&options, c->function_count);
	if (!c->session)
		return -errno;
	maps.events = probe_session_map(c->session, "events");
	maps.open_scopes = probe_session_map(c->session, "open_scopes");
	maps.counters = probe_session_map(c->session, "counters");
	maps.pending_loss = probe_session_map(c->session, "pending_loss");
	c->hooked = bpf_source_create(&maps, c->function_count);
	if (!c->hooked)
		return -errno;
	return arm(c);
}

/* A command is not started, and a target not disturbed, for a file that cannot be written. */
static int check_output(const char *path)
{
	char *copy, *slash;
	struct stat status;
	int err = 0;

	if (strcmp(path, "-") == 0)
		return 0;
	if (stat(path, &status) == 0 && S_ISDIR(status.st_mode)) {
		log_error("-o '%s' is a directory: give a file name", path);
		return -EISDIR;
	}
	copy = strdup(path);
	if (!copy)
		return -ENOMEM;
	slash = strrchr(copy, '/');
	if (slash)
		slash[slash == copy] = '\0';
	if (access(slash ? copy : ".", stat(path, &status) == 0 && !S_ISREG(status.st_mode) ? F_OK : W_OK)) {
		err = -errno;
		log_error("cannot create '%s': %s; choose another place with -o", path, strerror(errno));
	}
	free(copy);
	return err;
}

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

static char *join(char *const *words)
{
	size_t length = 1;
	char *joined;

	for (size_t i = 0; words[i]; i++)
		length += strlen(words[i]) + 1;
	joined = calloc(1, length);
	for (size_t i = 0; joined && words[i]; i++) {
		strcat(joined, words[i]);
		if (words[i + 1])
			strcat(joined, " ");
	}
	return joined;
}

/* The child has become the command: until its exec it bore our name. */
static int rename_launched(struct capture *c)
{
	free(c->process.command);
	c->process.command = join(c->options->command);
	snprintf(c->process.comm, sizeof(c->process.comm), "%.15s", base_name(c->options->command[0]));
	return c->process.command ? 0 : -ENOMEM;
}

static int declare_functions(struct capture *c)
{
	struct event_output *output = capture_writer_output(c->writer);

	for (size_t i = 0; i < c->function_count; i++) {
		const struct function *f = c->functions[i];
		struct function_info info = {.address = f->address, .id = (uint32_t)i};
		int err = output->string(output, f->name, strlen(f->name), &info.name);

		if (!err)
			err = output->string(output, f->module->base, strlen(f->module->base), &info.module);
		if (!err)
			err = capture_writer_function(c->writer, &info);
		if (err)
			return err;
	}
	return 0;
}

static int open_file(struct capture *c)
{
	c->writer = capture_writer_create(c->options->output, c->options->argc, c->options->argv);
	if (!c->writer)
		return -errno;
	c->start_ns = io_now_ns();
	return declare_functions(c);
}

static void say_ready(struct capture *c)
{
	const char *manual = c->manual ? " and its manual scopes" : "";

	if (c->session)
		log_info("armed %zu of %zu functions in pid %d%s", c->function_count, c->function_count,
			 c->process.pid, manual);
	else if (c->manual)
		log_info("capturing the manual scopes of pid %d", c->process.pid);
	if (!c->options->command && !c->options->duration_ns)
		log_info("Ctrl-C ends the capture");
	if (c->options->ready_fd >= 0 && write(c->options->ready_fd, "ready\n", 6) < 0)
		log_warning("--ready-fd %d: %s", c->options->ready_fd, strerror(errno));
}

static int nothing_to_capture(const struct capture *c)
{
	log_error("process %d (%s) has no libscope segment, and no -f was given: there is nothing to "
		  "capture. Hook "
		  "functions by name with -f (`scopetrace functions -p %d` lists them), or build the program "
		  "with "
		  "libscope",
		  c->process.pid, c->process.comm, c->process.pid);
	return -ENOENT;
}

static int open_all(struct capture *c)
{
	const struct capture_options *o = c->options;
	int err = check_output(o->output);

	if (!err)
		err = block_signals(c);
	if (!err)
		err = open_target(c);
	if (!err && o->include_count)
		err = open_hooked(c);
	if (!err && !o->command)
		err = capture_open_manual(c);
	if (!err && !o->command && !c->manual && !c->hooked)
		err = nothing_to_capture(c);
	return err;
}

int capture_open(struct capture *c, const struct capture_options *options)
{
	int err;

	*c = (struct capture){.options = options,
			      .launch = {.go = -1, .failure = -1},
			      .process = {.pidfd = -1},
			      .signals = -1};
	err = open_all(c);
	/* The command starts only when everything else stands. */
	if (!err && options->command) {
		say_ready(c);
		err = launch_go(&c->launch, options->command);
		if (!err)
			err = rename_launched(c);
	}
	if (!err)
		err = open_file(c);
	if (!err && !options->command)
		say_ready(c);
	return err;
}

void capture_close(struct capture *c)
{
	if (c->hooked)
		c->hooked->ops->destroy(c->hooked);
	if (c->manual)
		c->manual->ops->destroy(c->manual);
	probe_session_close(c->session);
	if (c->writer)
		capture_writer_finish(c->writer, c->start_ns, io_now_ns(), 0);
	/* One that still runs outlived the capture: its time was up, or the capture failed. */
	if (c->launch.pid && c->launch.go < 0)
		kill(c->launch.pid, SIGTERM);
	launch_cancel(&c->launch);
	free(c->functions);
	if (c->has_symbols)
		symbol_table_close(&c->symbols);
	if (c->opened)
		process_close(&c->process);
	if (c->signals >= 0)
		close(c->signals);
	hash_map_clear(&c->thread_names);
	free(c->segments);
}
