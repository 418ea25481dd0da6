// SPDX-License-Identifier: GPL-2.0-or-later
#include "pinned/drain.h"

#include <errno.h>
#include <inttypes.h>
#include <linux/membarrier.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/io.h"
#include "base/log.h"
#include "base/vec.h"
#include "pinned/durable.h"
#include "source/pace.h"
#include "follow/process.h"
#include "pinned/directory.h"
#include "source/bpf_source.h"
#include "source/shm_source.h"
#include "file/format.h"

#define SECOND_NS 1000000000ull
#define LOCK_NS	  200000000ull /* for who looks whether there is a drainer */
#define CALLS_NS  10000000ull  /* how often the kernel's ring is drained, and everything written */
#define LOOK_NS	  100000000ull /* how often processes are looked for that were added */
#define IDLE_NS	  25000000ull  /* the same while nothing comes */

struct draining {
	const struct pinned *pinned;
	struct scope_file_writer *writer;
	struct durable durable;
	struct source *calls;
	struct pinned_process **processes;
	size_t count, capacity;
	int signals;
	uint64_t start_ns;
	uint64_t wrote_ns;
	uint64_t looked_ns;
	uint64_t drained;  /* manual events, in the last round */
	uint64_t pause_ns; /* CALLS_NS, or IDLE_NS */
	bool busy;	   /* manual events were drained since everything was written */
	bool over;	   /* the capture has ended: its account can be written */
	bool rest;	   /* nobody else takes what is left: also of processes that are off */
	bool removed;	   /* by hand: nobody comes after us */
	int error;	   /* met where none can be returned */
};

/* ---- opening ---- */

static int declare_functions(struct draining *d)
{
	struct event_output *output = scope_file_writer_output(d->writer);
	struct function_setting setting;
	int err = 0;

	for (uint32_t i = 0; i < d->pinned->capture.functions && !err; i++) {
		struct function_info info = {.id = i};
		const char *module;

		err = pinned_function(d->pinned, i, &setting);
		module = basename(setting.module);
		info.address = setting.address;
		if (!err)
			err = output->string(output, setting.name, strlen(setting.name),
					     &info.name);
		if (!err)
			err = output->string(output, module, strlen(module), &info.module);
		if (!err)
			err = scope_file_writer_function(d->writer, &info);
	}
	return err;
}

static int add_process(struct draining *d, pid_t pid)
{
	struct pinned_process *process = calloc(1, sizeof(*process));

	if (!process || vec_grow(&d->processes, &d->capacity, d->count)) {
		free(process);
		return -ENOMEM;
	}
	d->processes[d->count++] = process;
	return pinned_process_open(process, pid, d->pinned->capture.start_ns, d->writer);
}

/* The latest of this id. */
static struct pinned_process *find_process(const struct draining *d, pid_t pid)
{
	size_t i = d->count;

	while (i && d->processes[i - 1]->pid != pid)
		i--;
	return i ? d->processes[i - 1] : NULL;
}

/* An id may have been given to another process since; that is ours if it is hooked. */
static bool is_known(const struct draining *d, pid_t pid, uint64_t now)
{
	struct pinned_process *process = find_process(d, pid);

	if (!process)
		return false;
	if (!pinned_process_ended(process) || now - process->renewed_ns < SECOND_NS)
		return true;
	process->renewed_ns = now;
	return kill(pid, 0) && errno == ESRCH ? true : !pin_is_hooked(d->pinned->dir, pid);
}

static int follow(struct draining *d, struct pinned_process *process, bool is_on)
{
	if (!is_on)
		return pinned_process_let_go(process, &d->durable.forward.output, d->writer);
	return pinned_process_follow(process, d->pinned->capture.watcher != 0,
				     &d->durable.forward.output, d->writer);
}

static bool is_on(const struct pinned_target *targets, size_t count, pid_t pid, bool if_listed)
{
	size_t i = 0;

	while (i < count && targets[i].pid != pid)
		i++;
	return i < count && (targets[i].on || if_listed);
}

/* Those that were added; those that were taken out stay, as calls of theirs may be on the way. */
static int look_for_processes(struct draining *d)
{
	struct pinned_target *targets;
	size_t count;
	int err = pinned_targets_in_force(d->pinned, &targets, &count);

	for (size_t i = 0; i < count && !err; i++)
		if (!is_known(d, targets[i].pid, d->looked_ns))
			err = add_process(d, targets[i].pid);
	for (size_t i = 0; i < d->count && !err; i++)
		err = follow(d, d->processes[i],
			     is_on(targets, count, d->processes[i]->pid, d->rest));
	free(targets);
	return err;
}

/* Told while the ring is drained. */
static void execed(void *context, uint32_t pid, uint32_t former, const char *comm, uint64_t time_ns)
{
	struct draining *d = context;
	struct pinned_process *process = find_process(d, (pid_t)pid);

	(void)former;
	if (process && !d->error)
		d->error = pinned_process_execed(process, comm, time_ns, d->writer);
}

static int open_calls(struct draining *d)
{
	struct bpf_source_maps maps = {
		.events = pinned_map(d->pinned, "events"),
		.open_scopes = pinned_map(d->pinned, "open_scopes"),
		.near_scopes = pinned_map(d->pinned, "near_scopes"),
		.counters = pinned_map(d->pinned, "counters"),
		.pending_loss = pinned_map(d->pinned, "pending_loss"),
	};

	d->calls = bpf_source_create(&maps, d->pinned->capture.functions);
	if (!d->calls)
		return -errno;
	bpf_source_tell_lifecycle(d->calls,
				  &(struct bpf_source_lifecycle){.execed = execed, .context = d});
	return 0;
}

static int open_draining(struct draining *d, const struct pinned_drain_options *options)
{
	struct scope_file_writer_options about = {.level = options->compress,
						  .kind = SCOPE_FILE_OF_RING,
						  .start_ns = d->pinned->capture.start_ns,
						  .numbered = true};
	int err = open_calls(d);

	if (err)
		return err;
	about.number = bpf_source_ring_id(d->calls);
	d->start_ns = io_now_ns();
	d->writer = scope_file_writer_create_with(options->output, &about, options->argc,
						  options->argv);
	if (!d->writer)
		return -errno;
	durable_init(&d->durable, d->writer);
	err = declare_functions(d);
	return err ? err : look_for_processes(d);
}

/* What a segment's reader has not written down is the next one's. */
static void close_draining(struct draining *d)
{
	for (size_t i = 0; i < d->count; i++) {
		pinned_process_close(d->processes[i]);
		free(d->processes[i]);
	}
	free(d->processes);
	if (d->calls)
		d->calls->ops->destroy(d->calls);
	if (d->writer)
		scope_file_writer_finish(d->writer, d->start_ns, io_now_ns(), 0);
	if (d->signals >= 0)
		close(d->signals);
}

/* ---- one round ---- */

static int drain_segments(struct draining *d, uint32_t *slots)
{
	*slots = 0;
	d->drained = 0;
	for (size_t i = 0; i < d->count; i++) {
		struct source *segment = d->processes[i]->segment;
		ssize_t events =
			segment ? segment->ops->drain(segment, &d->durable.forward.output) : 0;

		if (events < 0)
			return (int)events;
		if (segment && (!*slots || shm_source_slots(segment) < *slots))
			*slots = shm_source_slots(segment);
		d->drained += (uint64_t)events;
	}
	return 0;
}

/* First to the file, then for good. */
static int commit(struct draining *d)
{
	int err = durable_flush(&d->durable);

	for (size_t i = 0; i < d->count && !err; i++)
		if (d->processes[i]->segment)
			shm_source_commit(d->processes[i]->segment);
	return err;
}

static int round_of(struct draining *d, uint64_t now, uint32_t *slots)
{
	struct pairing_settings settings;
	int err = drain_segments(d, slots);
	ssize_t calls = 0;

	d->busy |= d->drained > 0;
	if (err || now - d->wrote_ns < d->pause_ns)
		return err;
	d->wrote_ns = now;
	/* Asked before the drain, so that what was produced until then is taken. */
	err = pinned_settings(d->pinned, &settings);
	d->over = !err && !settings.generation;
	d->removed = !d->over && !pinned_stands(d->pinned);
	if (!err)
		calls = d->calls->ops->drain(d->calls, &d->durable.forward.output);
	if (!err && calls < 0)
		err = (int)calls;
	d->pause_ns = calls > 0 || d->busy ? CALLS_NS : IDLE_NS;
	d->busy = false;
	if (!err)
		err = d->error;
	if (!err)
		err = commit(d);
	if (!err && now - d->looked_ns >= LOOK_NS) {
		d->looked_ns = now;
		err = look_for_processes(d);
	}
	return err;
}

/* ---- the end ---- */

static int write_accounts(struct draining *d)
{
	int err;

	/* Programs that had begun when the generation fell are done after this. */
	syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL, 0, 0);
	err = d->calls->ops->finish(d->calls, &d->durable.forward.output);
	for (uint32_t i = 0; i < d->pinned->capture.functions && !err; i++) {
		struct function_accounting terms = bpf_source_accounting(d->calls, i);

		err = scope_file_writer_function_accounting(d->writer, i, &terms);
	}
	return err;
}

/* The links may stand still, so the account holds only if we may silence them. */
static void end_removed(struct draining *d)
{
	struct pairing_settings settings;

	log_warning("what was pinned in %s was removed by hand: this capture ends here",
		    d->pinned->dir);
	if (pinned_settings(d->pinned, &settings))
		return;
	settings.generation = 0;
	d->over = !pinned_put_settings(d->pinned, &settings);
}

/* The capture's own end, or only ours. */
static int finish(struct draining *d)
{
	bool leave = !d->over && !d->removed && d->pinned->capture.watcher;
	int err = 0;

	if (d->removed)
		end_removed(d);
	for (size_t i = 0; i < d->count && !err; i++)
		err = pinned_process_end(d->processes[i], &d->durable.forward.output, leave);
	/* Of one that was let go of perhaps nobody comes after us who knows. */
	for (size_t i = 0; i < d->count && !err; i++)
		if (d->over || !d->processes[i]->segment)
			err = pinned_process_account(d->processes[i], d->writer);
	if (!err && d->over)
		err = write_accounts(d);
	else if (!err && d->calls->ops->drain(d->calls, &d->durable.forward.output) < 0)
		err = -EIO;
	return err ? err : commit(d);
}

static uint64_t calls_in_file(const struct draining *d)
{
	uint64_t calls = 0;

	for (uint32_t i = 0; i < d->pinned->capture.functions; i++) {
		struct scopes_in_file in_file = scope_file_writer_in_file(d->writer, i);

		calls += in_file.completed + in_file.unwound + in_file.instants;
	}
	return calls;
}

static int close_file(struct draining *d, const char *output)
{
	uint64_t calls = calls_in_file(d), events = scope_file_writer_manual_in_file(d->writer);
	uint64_t bytes = scope_file_writer_bytes(d->writer);
	/* With the account: what is counted since the capture began is told once. */
	uint64_t misses = d->over ? pin_recursion_misses(d->pinned->dir) : 0;
	int err = scope_file_writer_finish(d->writer, d->start_ns, io_now_ns(), misses);

	d->writer = NULL;
	if (!err)
		log_info("%" PRIu64 " calls and %" PRIu64
			 " manual events drained into %s (%.1f kB)%s",
			 calls, events, output, (double)bytes / 1e3,
			 d->over ? "; the capture has ended, and its account is written" : "");
	return err;
}

/* ---- the loop ---- */

static int watch_signals(struct draining *d)
{
	sigset_t blocked, watched;

	sigemptyset(&watched);
	sigaddset(&watched, SIGINT);
	sigaddset(&watched, SIGTERM);
	sigaddset(&watched, SIGHUP);
	blocked = watched;
	/*
	 * A pipe that nobody reads any more, or a limit of file sizes, is an error of a write, not
	 * our death.
	 */
	sigaddset(&blocked, SIGPIPE);
	sigaddset(&blocked, SIGXFSZ);
	sigprocmask(SIG_BLOCK, &blocked, NULL);
	d->signals = signalfd(-1, &watched, SFD_CLOEXEC | SFD_NONBLOCK);
	if (d->signals >= 0)
		return 0;
	log_error("signalfd: %s", strerror(errno));
	return -errno;
}

static bool signalled(const struct draining *d)
{
	struct signalfd_siginfo info;

	return read(d->signals, &info, sizeof(info)) == sizeof(info);
}

static void pause_for(const struct draining *d, uint64_t ns)
{
	struct pollfd signals = {.fd = d->signals, .events = POLLIN};
	struct timespec time = {.tv_sec = (time_t)(ns / SECOND_NS),
				.tv_nsec = (long)(ns % SECOND_NS)};

	ppoll(&signals, 1, &time, NULL);
}

static int run(struct draining *d, uint64_t duration_ns)
{
	struct pace pace;
	uint32_t slots;
	bool last;
	int err;

	pace_begin(&pace, io_now_ns());
	do {
		uint64_t now = io_now_ns();

		last = signalled(d) || (duration_ns && now - d->start_ns >= duration_ns);
		err = round_of(d, now, &slots);
		last |= d->over || d->removed;
		if (!err && !last)
			pause_for(d, slots ? pace_next(&pace, now, d->drained, slots, IDLE_NS)
					   : d->pause_ns);
	} while (!err && !last);
	return err;
}

static void say_ready(int fd)
{
	if (fd < 0)
		return;
	if (write(fd, "ready\n", 6) < 0)
		log_warning("--ready-fd %d: %s", fd, strerror(errno));
	if (fd > STDERR_FILENO)
		close(fd);
}

static int drain(const struct pinned *pinned, const struct pinned_drain_options *options)
{
	struct draining d = {.pinned = pinned, .signals = -1};
	int err = watch_signals(&d);

	if (!err)
		err = open_draining(&d, options);
	if (!err) {
		log_info("draining %s into %s; Ctrl-C ends it", pinned->dir, options->output);
		say_ready(options->ready_fd);
		err = run(&d, options->duration_ns);
	}
	if (!err)
		err = finish(&d);
	if (!err)
		err = close_file(&d, options->output);
	if (!err && d.over)
		bpf_source_set_accounted(d.calls);
	close_draining(&d);
	return err;
}

/* Others look for a moment whether somebody has it. */
static int lock_drain(const char *dir)
{
	uint64_t deadline = io_now_ns() + LOCK_NS;
	int lock;

	while ((lock = pin_lock_drain(dir)) == -EBUSY && io_now_ns() < deadline)
		nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
	return lock;
}

int pinned_drain(const struct pinned_drain_options *options)
{
	struct pinned pinned;
	int err = pinned_open(&pinned, options->dir), lock = -1;

	if (!err) {
		lock = lock_drain(options->dir);
		err = lock < 0 ? lock : 0;
		if (err == -EBUSY)
			log_error("%s is being drained by another process; there is one at a time",
				  options->dir);
		else if (err == -ESTALE || err == -ENOENT)
			log_error("%s has just been removed", options->dir);
	}
	if (!err)
		err = drain(&pinned, options);
	if (lock >= 0)
		close(lock);
	pinned_close(&pinned);
	return err;
}

/* For the watcher, which ends with the capture. */
static bool waits(const struct draining *d)
{
	size_t i = 0;

	while (i < d->count && !d->processes[i]->waits)
		i++;
	return i < d->count;
}

int pinned_drain_rest(const struct pinned *pinned, const char *output, int argc, char *const *argv)
{
	const struct pinned_drain_options options = {.output = output, .argc = argc, .argv = argv};
	struct draining d = {.pinned = pinned, .signals = -1, .over = true, .rest = true};
	int err = open_draining(&d, &options);

	while (!err && waits(&d)) {
		nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
		err = look_for_processes(&d);
	}
	if (!err)
		err = finish(&d);
	if (!err)
		err = close_file(&d, output);
	close_draining(&d);
	return err;
}
