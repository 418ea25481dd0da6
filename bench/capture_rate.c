// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * How many scopes a second does the capture file take, and how many does a reader of it put in
 * order, report and export, and in how much memory? A generated capture of hooked and manual
 * scopes, half and half, in nests of ten, over a few threads. One JSON line per figure: per second
 * of the processor's time (what a core does), and of the clock; peak memory of each step, which
 * runs in a process of its own. `load` is what each reader does first; `merge`, `report` and the
 * exports tell their own time and that of the load and theirs together.
 *
 *     capture_rate [SCOPES [THREADS [FILE]]]     10,000,000 scopes, 8 threads, a file in $TMPDIR or /tmp,
 * removed
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/io.h"
#include "sink/sink.h"
#include "file/writer.h"
#include "timeline/timeline.h"

enum { NEST = 10, BATCH = 1000 };

struct options {
	uint64_t scopes;
	uint32_t threads;
	const char *path;
	const char *step; /* load, merge, report, or a format of `export` */
};

/* One thread's events, batched as the sources batch them. */
struct producer {
	uint32_t tid;
	uint64_t now;
	uint64_t next_id;
	struct hooked_scope hooked[BATCH];
	size_t hooked_count;
	struct manual_event manual[BATCH];
	size_t manual_count;
	uint32_t names[NEST];
};

/* A moment: by the clock, and by what this process has had of processors. */
struct moment {
	uint64_t ns;
	uint64_t cpu_ns;
};

static struct moment now(void)
{
	struct rusage usage;

	getrusage(RUSAGE_SELF, &usage);
	return (struct moment){io_now_ns(),
			       (uint64_t)usage.ru_utime.tv_sec * 1000000000ull +
				       (uint64_t)usage.ru_utime.tv_usec * 1000ull +
				       (uint64_t)usage.ru_stime.tv_sec * 1000000000ull +
				       (uint64_t)usage.ru_stime.tv_usec * 1000ull};
}

static double rate(const struct options *options, uint64_t ns)
{
	return (double)options->scopes * 1e9 / (double)(ns ? ns : 1);
}

/* What the step took since `begun`; with the load before it since `opened`. */
static void print(const char *step, const struct options *options, struct moment opened,
		  struct moment begun)
{
	struct moment end = now();
	struct rusage usage;

	getrusage(RUSAGE_SELF, &usage);
	printf("{\"bench\":\"capture_rate\",\"step\":\"%s\",\"scopes\":%llu,\"threads\":%u,\"seconds\":%.3f,"
	       "\"cpu_seconds\":%.3f,\"scopes_per_cpu_s\":%.0f,\"with_load_per_cpu_s\":%.0f,\"scopes_per_s\":%.0f,"
	       "\"peak_mib\":%.1f}\n",
	       step, (unsigned long long)options->scopes, options->threads,
	       (double)(end.ns - begun.ns) / 1e9, (double)(end.cpu_ns - begun.cpu_ns) / 1e9,
	       rate(options, end.cpu_ns - begun.cpu_ns), rate(options, end.cpu_ns - opened.cpu_ns),
	       rate(options, end.ns - begun.ns), (double)usage.ru_maxrss / 1024);
	fflush(stdout);
}

static int put_out(struct producer *producer, struct event_output *output)
{
	int err = output->hooked(output, producer->hooked, producer->hooked_count);

	if (!err)
		err = output->manual(output, producer->manual, producer->manual_count);
	producer->hooked_count = 0;
	producer->manual_count = 0;
	return err;
}

static void put_manual(struct producer *producer, uint8_t kind, uint64_t id, uint32_t name)
{
	producer->manual[producer->manual_count++] =
		(struct manual_event){.ticks = producer->now * 3,
				      .scope_id = id,
				      .pid = 1,
				      .tid = producer->tid,
				      .name = name,
				      .kind = kind};
}

/* Ten scopes, one inside the other, of both kinds in turn. */
static void nest(struct producer *producer)
{
	uint64_t starts[NEST], ids[NEST];

	for (uint32_t i = 0; i < NEST; i++) {
		producer->now += 20 + (producer->now >> 3) % 100;
		starts[i] = producer->now;
		ids[i] = producer->next_id++;
		if (i & 1)
			put_manual(producer, MANUAL_START, ids[i], producer->names[i]);
	}
	for (uint32_t i = NEST; i-- > 0;) {
		producer->now += 20 + (producer->now >> 4) % 100;
		if (i & 1)
			put_manual(producer, MANUAL_STOP, ids[i], 0);
		else
			producer->hooked[producer->hooked_count++] =
				(struct hooked_scope){.start_ns = starts[i],
						      .end_ns = producer->now,
						      .pid = 1,
						      .tid = producer->tid,
						      .function = i / 2};
	}
}

static int declare(struct scope_file_writer *writer, struct producer *producers,
		   const struct options *options)
{
	struct event_output *output = scope_file_writer_output(writer);
	struct process_info process = {.pid = 1, .clock = CLOCK_ID_TSC};
	struct clock_anchor anchors[] = {{0, 0, CLOCK_ID_TSC, 10},
					 {3000000000ull, 1000000000ull, CLOCK_ID_TSC, 10}};
	int err = scope_file_writer_process(writer, &process);

	for (uint32_t i = 0; i < NEST && !err; i++) {
		char name[32];
		struct function_info info = {.id = i / 2};
		uint32_t id;

		snprintf(name, sizeof(name), "%s_%u", i & 1 ? "manual" : "hooked", i);
		err = output->string(output, name, strlen(name), &id);
		info.name = id;
		if (!err && !(i & 1))
			err = scope_file_writer_function(writer, &info);
		for (uint32_t t = 0; t < options->threads; t++)
			producers[t].names[i] = id;
	}
	for (int i = 0; i < 2 && !err; i++)
		err = output->anchor(output, &anchors[i]);
	return err;
}

static int write_capture(const struct options *options)
{
	struct scope_file_writer *writer = scope_file_writer_create(options->path, 0, NULL);
	struct producer *producers = calloc(options->threads, sizeof(*producers));
	struct moment begun = now();
	uint64_t written = 0;
	int err = writer && producers ? declare(writer, producers, options) : -1;

	for (uint32_t t = 0; t < options->threads; t++)
		producers[t].tid = 10 + t;
	while (!err && written < options->scopes) {
		struct producer *producer = &producers[written / BATCH % options->threads];

		for (int i = 0; i < BATCH / NEST; i++)
			nest(producer);
		written += BATCH;
		err = put_out(producer, scope_file_writer_output(writer));
	}
	if (writer && scope_file_writer_finish(writer, 0, 1, 0))
		err = -1;
	if (!err)
		print("write", options, begun, begun);
	free(producers);
	return err ? 1 : 0;
}

static int count_part(void *context, const struct lane_part *part)
{
	*(uint64_t *)context += part->scope_count;
	return 0;
}

static int merge_capture(const struct timeline *timeline, const struct options *options)
{
	uint64_t scopes = 0;

	return timeline_visit(timeline, count_part, &scopes) || scopes != options->scopes;
}

/* With what goes to the output thrown away. */
static int write_nowhere(int (*write)(const struct timeline *, FILE *, const struct sink_options *),
			 const struct timeline *timeline)
{
	const struct sink_options options = {0};
	FILE *out = fopen("/dev/null", "w");
	int err = out ? write(timeline, out, &options) : -1;

	return out && fclose(out) ? -1 : err;
}

static int read_capture(const struct options *options)
{
	struct moment opened = now(), begun;
	struct timeline *timeline = timeline_open(options->path);
	int err;

	if (!timeline)
		return 1;
	begun = now();
	if (strcmp(options->step, "load") == 0)
		begun = opened, err = 0;
	else if (strcmp(options->step, "merge") == 0)
		err = merge_capture(timeline, options);
	else if (strcmp(options->step, "report") == 0)
		err = write_nowhere(report_text, timeline);
	else
		err = write_nowhere(sink_find(options->step)->write, timeline);
	if (!err)
		print(options->step, options, opened, begun);
	timeline_close(timeline);
	return err ? 1 : 0;
}

/* Each step in a process of its own, so that its peak of memory is its own. */
static int apart(int (*step)(const struct options *options), const struct options *options)
{
	pid_t child = fork();
	int status = 1;

	if (!child)
		_exit(step(options));
	if (child < 0 || waitpid(child, &status, 0) != child)
		return 1;
	return status ? 1 : 0;
}

int main(int argc, char **argv)
{
	static const char *const steps[] = {"load", "merge", "report", "perfetto", "csv"};
	struct options options = {10000000, 8, NULL, NULL};
	const char *directory = getenv("TMPDIR");
	char path[512];
	int failed;

	snprintf(path, sizeof(path), "%s/capture_rate.%d.scope", directory ? directory : "/tmp",
		 (int)getpid());
	options.path = argc > 3 ? argv[3] : path;
	if (argc > 1)
		options.scopes = (strtoull(argv[1], NULL, 10) + BATCH - 1) / BATCH * BATCH;
	if (argc > 2)
		options.threads = (uint32_t)strtoul(argv[2], NULL, 10);
	if (!options.scopes || !options.threads) {
		fprintf(stderr, "usage: capture_rate [SCOPES [THREADS [FILE]]]\n");
		return 2;
	}
	failed = apart(write_capture, &options);
	for (size_t i = 0; !failed && i < sizeof(steps) / sizeof(steps[0]); i++) {
		options.step = steps[i];
		failed = apart(read_capture, &options);
	}
	if (argc <= 3)
		unlink(path);
	return failed;
}
