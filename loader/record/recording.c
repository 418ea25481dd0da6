// SPDX-License-Identifier: GPL-2.0-or-later
#include "record/recording.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/io.h"
#include "base/log.h"
#include "source/bpf_source.h"
#include "source/shm_source.h"
#include "file/format.h"
#include "record/flight.h"

/* ---- signals ---- */

/*
 * A hang-up that was ignored when we were started (nohup) stays so. The others do not: a shell's
 * script has its background jobs ignore Ctrl-C, and yet who sends them one means it.
 */
static void watch(sigset_t *set, int signal)
{
	const struct sigaction usual = {.sa_handler = SIG_DFL};
	struct sigaction action;

	if (sigaction(signal, NULL, &action) || (action.sa_handler == SIG_IGN && signal == SIGHUP))
		return;
	if (action.sa_handler == SIG_IGN)
		sigaction(signal, &usual, NULL);
	sigaddset(set, signal);
}

int capture_block_signals(struct capture *c)
{
	sigset_t blocked, watched;

	sigemptyset(&watched);
	watch(&watched, SIGINT);
	watch(&watched, SIGTERM);
	watch(&watched, SIGHUP);
	watch(&watched, SIGQUIT);
	watch(&watched, SIGUSR1);
	sigaddset(&watched, LEASE_SIGNAL);
	blocked = watched;
	/*
	 * A pipe that nobody reads any more, or a limit of file sizes, is an error of a write, not
	 * our death.
	 */
	sigaddset(&blocked, SIGPIPE);
	sigaddset(&blocked, SIGXFSZ);
	sigprocmask(SIG_BLOCK, &blocked, NULL);
	c->blocked = true;
	c->signals = signalfd(-1, &watched, SFD_CLOEXEC | SFD_NONBLOCK);
	if (c->signals < 0) {
		log_error("signalfd: %s", strerror(errno));
		return -errno;
	}
	return 0;
}

void capture_unblock_signals(struct capture *c)
{
	sigset_t mask = c->old_mask;

	if (!c->blocked)
		return;
	sigaddset(&mask, SIGPIPE);
	sigaddset(&mask, SIGXFSZ);
	/*
	 * It still asks for a file where a command goes on, and must not end us in the midst of the
	 * last.
	 */
	sigaddset(&mask, SIGUSR1);
	sigaddset(&mask, LEASE_SIGNAL);
	pthread_sigmask(SIG_SETMASK, &mask, NULL);
}

/* ---- the target ---- */

static char *join(char *const *words)
{
	char *joined = NULL;
	size_t length;
	FILE *text = open_memstream(&joined, &length);

	if (!text)
		return NULL;
	for (size_t i = 0; words[i]; i++)
		fprintf(text, "%s%s", i ? " " : "", words[i]);
	fclose(text);
	return joined;
}

/* The child will be the command: until its exec it bears our name. */
static int name_launched(struct capture *c)
{
	free(c->process.command);
	c->process.command = join(c->options->command);
	snprintf(c->process.comm, sizeof(c->process.comm), "%.15s",
		 basename(c->options->command[0]));
	return c->process.command ? 0 : -ENOMEM;
}

/* The child; it maps each file of a chosen function. They lie one module after another. */
static int prepare_launch(struct capture *c)
{
	struct launch_plan plan = {.argv = c->options->command,
				   .mask = &c->old_mask,
				   .spare_stdout = strcmp(c->options->output, "-") == 0};
	const char **files = calloc(c->plan.count + 1, sizeof(*files));
	int err;

	if (!files)
		return -ENOMEM;
	for (size_t i = 0; i < c->plan.count; i++) {
		if (!i || c->plan.functions[i]->module != c->plan.functions[i - 1]->module)
			files[plan.file_count++] = c->plan.functions[i]->module->probe_path;
	}
	plan.files = files;
	err = launch_prepare(&c->launch, &plan);
	free(files);
	return err;
}

static int open_target(struct capture *c)
{
	bool launches = c->options->command;
	int err = 0;

	if (launches)
		err = prepare_launch(c);
	if (!err)
		err = process_open(launches ? c->launch.pid : c->options->pid, &c->process);
	if (err)
		return err;
	c->opened = true;
	return launches ? name_launched(c) : 0;
}

/* ---- the file ---- */

static bool is_stream(const char *path)
{
	struct stat status;

	return strcmp(path, "-") == 0 ||
	       (stat(path, &status) == 0 && !S_ISREG(status.st_mode) && !S_ISDIR(status.st_mode));
}

/* Whoever is to read it may be long in coming: a target does not bear probes meanwhile. */
static int open_stream(struct capture *c)
{
	const char *path = c->options->output;

	return is_stream(path) ? scope_file_output_open(&c->stream, path, false) : 0;
}

/* A command is not started, and a target not disturbed, for a file that cannot be written. */
static int check_output(const char *path)
{
	struct stat status;
	char *folder, *slash;
	int err = 0;

	if (is_stream(path))
		return 0;
	if (stat(path, &status) == 0 && S_ISDIR(status.st_mode)) {
		log_error("-o '%s' is a directory: give a file name", path);
		return -EISDIR;
	}
	folder = strdup(path);
	if (!folder)
		return -ENOMEM;
	slash = strrchr(folder, '/');
	if (slash)
		slash[slash == folder] = '\0';
	if (access(slash ? folder : ".", W_OK)) {
		err = -errno;
		log_error("cannot create '%s': %s; choose another place with -o", path,
			  strerror(errno));
	}
	free(folder);
	return err;
}

static uint32_t why_not_hooked(const struct capture *c, size_t function)
{
	if (c->plan.functions[function]->refused)
		return NOT_HOOKED_SITE;
	if (c->plan.returns.choices[function].refused)
		return NOT_HOOKED_RETURNS;
	if (probe_session_refused(c->session, (uint32_t)function))
		return NOT_HOOKED_SITE;
	return c->plan.unreached && c->plan.unreached[function] ? NOT_HOOKED_TEXT : 0;
}

static int declare_functions(struct capture *c)
{
	struct event_output *output = capture_sink(c);
	struct flight *flight = c->flight.recorder;
	int err = 0;

	for (size_t i = 0; i < c->plan.count && !err; i++) {
		const struct function *f = c->plan.functions[i];
		struct function_info info = {.address = f->address,
					     .id = (uint32_t)i,
					     .not_hooked = why_not_hooked(c, i)};

		err = output->string(output, f->name, strlen(f->name), &info.name);
		if (!err)
			err = output->string(output, f->module->base, strlen(f->module->base),
					     &info.module);
		if (!err)
			err = flight ? flight_function(flight, &info)
				     : scope_file_writer_function(c->writer, &info);
	}
	return err;
}

int capture_declare_process(struct capture *c)
{
	struct event_output *output = relay_output(c->events.relay);
	const char *command = c->process.command ? c->process.command : "";
	struct source *segment = c->segments.source;
	struct process_info info = {.start_ns = c->process.start_ns,
				    .time_ns = c->lifecycle.named_ns,
				    .pid = (uint32_t)c->process.pid,
				    .clock = segment ? shm_source_clock(segment) : 0,
				    .segment = segment ? shm_source_segment(segment) : 0};
	int err = output->string(output, c->process.comm, strlen(c->process.comm), &info.name);

	if (!err)
		err = output->string(output, command, strlen(command), &info.command);
	return err ? err : output->process(output, &info);
}

/* What the capture is of, so that its file can be told from those of others. */
static struct scope_file_writer_options describe_capture(const struct capture *c)
{
	struct scope_file_writer_options options = {.level = c->options->compress};

	/* The files of a flight recorder are no parts of one whole. */
	if (c->options->flight_ns)
		return options;
	options.kind = c->hooked ? SCOPE_FILE_OF_RING : SCOPE_FILE_OF_PROCESS;
	options.number = c->hooked ? bpf_source_ring_id(c->hooked) : (uint32_t)c->process.pid;
	options.start_ns = c->hooked ? 0 : c->process.start_ns;
	return options;
}

static int open_relays(struct capture *c)
{
	struct event_output *output = capture_sink(c);
	size_t bytes = c->options->buffer_bytes ? c->options->buffer_bytes : RELAY_BYTES_DEFAULT;

	c->events.relay = relay_create(output, bytes, 0);
	if (c->events.relay && c->hooked)
		c->calls.relay = relay_create(output, bytes, c->plan.count);
	return c->events.relay && (c->calls.relay || !c->hooked) ? 0 : -errno;
}

static int open_file(struct capture *c)
{
	struct scope_file_writer_options options = describe_capture(c);
	const char *path = c->options->output;
	int err;

	if (c->stream.fd >= 0)
		options.opened = &c->stream;
	c->replaced = !options.opened && access(path, F_OK) == 0;
	c->writer =
		scope_file_writer_create_with(path, &options, c->options->argc, c->options->argv);
	if (!c->writer)
		return -errno;
	c->start_ns = io_now_ns();
	err = capture_open_flight(c);
	if (!err)
		err = open_relays(c);
	if (!err)
		err = declare_functions(c);
	return err ? err : capture_declare_process(c);
}

/* There was nothing to capture after all: the file before it is again what it was. */
static void discard_file(struct capture *c)
{
	const char *path = c->options->output;
	char *older = NULL;

	scope_file_writer_abandon(c->writer);
	c->writer = NULL;
	if (is_stream(path))
		return;
	unlink(path);
	if (c->replaced && asprintf(&older, "%s.old", path) > 0)
		rename(older, path);
	free(older);
}

/* ---- opening and closing ---- */

static void say_ready(struct capture *c)
{
	int fd = c->options->ready_fd;

	if (c->session)
		plan_log_returns(&c->plan, false);
	if (c->session)
		log_info("armed %zu of %zu functions in pid %d%s", probe_session_armed(c->session),
			 c->plan.count, c->process.pid,
			 c->segments.source ? " and its manual scopes" : "");
	else if (c->segments.source)
		log_info("capturing the manual scopes of pid %d", c->process.pid);
	if (!c->options->command && !c->options->duration_ns)
		log_info("Ctrl-C ends the capture");
	if (fd < 0)
		return;
	if (write(fd, "ready\n", 6) < 0)
		log_warning("--ready-fd %d: %s", fd, strerror(errno));
	/* Who waits for its end of file shall have it now. */
	if (fd > STDERR_FILENO)
		close(fd);
}

static int nothing_to_capture(const struct capture *c)
{
	log_error(
		"process %d (%s) has no libscope segment, and no -f was given: there is nothing to capture. Hook functions by name with -f (`scopetrace functions -p %d` lists them), or build the program with libscope",
		c->process.pid, c->process.comm, c->process.pid);
	return -ENOENT;
}

/* Everything up to the file. Signals are blocked only from the moment on at which there is something to
 * close. */
static int open_sources(struct capture *c)
{
	const struct capture_options *o = c->options;
	int err = check_output(o->output);

	/*
	 * A process is first held fast by its pidfd; a command is read before there is a process.
	 */
	if (!err && !o->command)
		err = open_target(c);
	if (!err)
		err = open_stream(c);
	if (!err && o->plan.include_count)
		err = capture_choose(c);
	if (!err && o->command)
		err = open_target(c);
	if (!err)
		err = capture_block_signals(c);
	if (!err && o->plan.include_count)
		err = capture_arm(c);
	if (!err && !o->command)
		err = capture_follow_segment(c);
	if (!err && !o->command && !c->segments.source && !c->hooked)
		err = nothing_to_capture(c);
	return err;
}

static int start_command(struct capture *c)
{
	int err = capture_lost_lease(c) ? -ESTALE : launch_go(&c->launch, c->options->command);

	if (err)
		discard_file(c);
	return err;
}

int capture_open(struct capture *c, const struct capture_options *options)
{
	int err;

	*c = (struct capture){.options = options,
			      .launch = {.go = -1, .failure = -1},
			      .process = {.pidfd = -1},
			      .stream = {.fd = -1},
			      .signals = -1};
	sigprocmask(SIG_SETMASK, NULL, &c->old_mask);
	err = open_sources(c);
	if (!err)
		err = open_file(c);
	if (err && c->writer)
		discard_file(c);
	if (err)
		return err;
	say_ready(c);
	/* The command starts only when everything else stands. */
	return options->command ? start_command(c) : 0;
}

/*
 * A command that outlived the capture: told to end if its time is up; if the capture failed then
 * that is no reason for the command to, and we wait for it. Either way a signal now ends us at
 * once.
 */
static void close_command(struct capture *c)
{
	if (c->launch.pid && c->launch.go < 0) {
		if (c->time_is_up) {
			kill(c->launch.pid, SIGTERM);
			log_info(
				"the time is up: the command was sent SIGTERM, waiting for its end");
		} else
			log_warning("the capture has failed; the command goes on without it");
	}
	launch_cancel(&c->launch);
}

void capture_close(struct capture *c)
{
	drainer_stop(&c->watcher);
	drainer_stop(&c->calls.drainer);
	drainer_stop(&c->events.drainer);
	if (c->hooked)
		c->hooked->ops->destroy(c->hooked);
	if (c->segments.source)
		c->segments.source->ops->destroy(c->segments.source);
	probe_session_close(c->session);
	leases_release(&c->leases);
	relay_destroy(c->calls.relay);
	relay_destroy(c->events.relay);
	capture_close_flight(c);
	scope_file_output_close(&c->stream);
	capture_unblock_signals(c);
	close_command(c);
	plan_release(&c->plan);
	if (c->opened)
		process_close(&c->process);
	if (c->signals >= 0)
		close(c->signals);
	capture_close_lifecycle(c);
	hash_map_clear(&c->segments.tids);
	free(c->segments.done);
}
