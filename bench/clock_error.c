// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * How far are manual scopes from CLOCK_MONOTONIC, and so from hooked ones? Prints a JSON line per
 * figure.
 *
 *	clock_error [SECONDS]		60 by default
 *
 * `error`: two threads read the raw counter between two readings of CLOCK_MONOTONIC for SECONDS,
 * while the loader's source takes its anchors as it does in a capture; afterwards the loader's
 * clock line converts what was read. The error is to the middle of a bracket, and a bracket is half
 * its width unsure of it; `outside` counts those whose converted time is not between the two
 * readings. `backward steps`: over those readings and the records of a scope around each, in each
 * thread's order, and over every tick for some microseconds on both sides of each anchor. `hooked`
 * (root): scopetrace records tests/targets/calls, in which each of outer, middle and inner has a
 * manual scope just inside; the margins are from the hooked scope's edge to the manual one's, as
 * the timeline places them; none may be negative.
 */
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/io.h"
#include "base/vec.h"
#include "libscope/clock.h"
#include "libscope/include/scope.h"
#include "source/shm_source.h"
#include "timeline/clock.h"
#include "timeline/timeline.h"

enum {
	SAMPLERS = 2,
	SAMPLE_PAUSE_NS = 20000,
	SAMPLES_MAX = 4000000,
	EVENTS_MAX = 8000000,
	SWEEP = 5000
};

struct sample {
	uint64_t before;
	uint64_t ticks;
	uint32_t width;
};

struct sampler {
	pthread_t thread;
	uint64_t end_ns;
	struct sample *samples;
	size_t count;
};

/* What the source puts out. */
struct collector {
	struct event_output output;
	struct clock_anchor *anchors;
	size_t anchor_count;
	size_t anchor_capacity;
	struct manual_event *events;
	size_t event_count;
};

static void die(const char *what)
{
	fprintf(stderr, "clock_error: %s: %s\n", what, strerror(errno));
	exit(1);
}

/* ---- readings ---- */

static void *sample(void *argument)
{
	struct sampler *sampler = argument;

	while (sampler->count < SAMPLES_MAX) {
		SCOPE("around a reading");
		struct sample *s = &sampler->samples[sampler->count++];
		uint64_t after;

		s->before = clock_monotonic_ns();
		s->ticks = clock_raw();
		after = clock_monotonic_ns();
		s->width = (uint32_t)(after - s->before);
		if (after >= sampler->end_ns)
			break;
		while (clock_monotonic_ns() - after < SAMPLE_PAUSE_NS && sampler->count % 64)
			;
		/* Now and then off the processor, so that the other one takes over. */
		if (sampler->count % 64 == 0)
			nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
	}
	return NULL;
}

static int take_string(struct event_output *output, const char *bytes, size_t length, uint32_t *id)
{
	(void)output, (void)bytes, (void)length;
	*id = 1;
	return 0;
}

static int take_manual(struct event_output *output, const struct manual_event *events, size_t count)
{
	struct collector *collector = (struct collector *)output;

	for (size_t i = 0; i < count && collector->event_count < EVENTS_MAX; i++)
		collector->events[collector->event_count++] = events[i];
	return 0;
}

static int take_thread(struct event_output *output, const struct thread_info *thread)
{
	(void)output, (void)thread;
	return 0;
}

static int take_anchor(struct event_output *output, const struct clock_anchor *anchor)
{
	struct collector *collector = (struct collector *)output;

	if (collector->anchor_count < collector->anchor_capacity)
		collector->anchors[collector->anchor_count++] = *anchor;
	return 0;
}

static int take_loss(struct event_output *output, const struct loss_event *loss)
{
	(void)output, (void)loss;
	return 0;
}

/*
 * A capture of ourselves, by the loader's source and at its pace. False where there is no raw
 * counter.
 */
static bool collect(struct collector *collector, struct sampler *samplers, uint64_t duration_ns)
{
	uint64_t end = io_now_ns() + duration_ns;
	struct source *source = shm_source_open(getpid(), NULL);

	if (!source)
		die("shm_source_open");
	if (shm_source_clock(source) == CLOCK_ID_MONOTONIC) {
		source->ops->destroy(source);
		return false;
	}
	for (int i = 0; i < SAMPLERS; i++) {
		samplers[i].end_ns = end - 1000000;
		if (pthread_create(&samplers[i].thread, NULL, sample, &samplers[i]) != 0)
			die("pthread_create");
	}
	while (io_now_ns() < end) {
		if (source->ops->drain(source, &collector->output) < 0)
			exit(1);
		nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
	}
	for (int i = 0; i < SAMPLERS; i++)
		pthread_join(samplers[i].thread, NULL);
	if (source->ops->finish(source, &collector->output) != 0)
		exit(1);
	source->ops->destroy(source);
	return true;
}

/* ---- figures ---- */

static int compare(const void *left, const void *right)
{
	int64_t a = *(const int64_t *)left, b = *(const int64_t *)right;

	return (a > b) - (a < b);
}

static int64_t at_share(const int64_t *sorted, size_t count, double share)
{
	size_t index = (size_t)(share * (double)count);

	return sorted[index < count ? index : count - 1];
}

/* Of all readings, and of those whose brackets are as tight as the median one or tighter. */
static void print_error(const char *which, int64_t *errors, size_t count, uint32_t widest,
			size_t outside, int64_t outside_most, double seconds)
{
	qsort(errors, count, sizeof(*errors), compare);
	printf("{\"bench\":\"clock_error\",\"figure\":\"error\",\"brackets\":\"%s\",\"seconds\":%.0f,\"readings\":%zu,"
	       "\"widest_bracket_ns\":%u,\"p50_ns\":%lld,\"p99_ns\":%lld,\"max_ns\":%lld,\"outside\":%zu,"
	       "\"outside_most_ns\":%lld}\n",
	       which, seconds, count, widest, (long long)at_share(errors, count, 0.5),
	       (long long)at_share(errors, count, 0.99), (long long)errors[count - 1], outside,
	       (long long)outside_most);
}

static uint32_t width_at(const struct sampler *samplers, double share)
{
	size_t total = samplers[0].count + samplers[1].count, i = 0;
	int64_t *widths = calloc(total, sizeof(*widths)), width;

	if (!widths)
		die("calloc");
	for (int s = 0; s < SAMPLERS; s++) {
		for (size_t k = 0; k < samplers[s].count; k++)
			widths[i++] = samplers[s].samples[k].width;
	}
	qsort(widths, total, sizeof(*widths), compare);
	width = at_share(widths, total, share);
	free(widths);
	return (uint32_t)width;
}

/* Brackets wider than `widest` tell less of the conversion than of what came in between. */
static void report_error(const struct clock_line *line, const struct sampler *samplers,
			 const char *which, uint32_t widest, double seconds)
{
	int64_t *errors = calloc(samplers[0].count + samplers[1].count, sizeof(*errors)), most = 0;
	size_t count = 0, outside = 0;

	if (!errors)
		die("calloc");
	for (int i = 0; i < SAMPLERS; i++) {
		struct clock_cursor cursor = {0};

		for (size_t k = 0; k < samplers[i].count; k++) {
			const struct sample *s = &samplers[i].samples[k];
			int64_t off =
				(int64_t)(clock_line_convert(line, &cursor, s->ticks) - s->before);
			int64_t beyond = off < 0 ? -off : off - s->width;

			if (s->width > widest)
				continue;
			off -= s->width / 2;
			errors[count++] = off < 0 ? -off : off;
			outside += beyond > 0;
			most = beyond > most ? beyond : most;
		}
	}
	print_error(which, errors, count, widest, outside, most, seconds);
	free(errors);
}

struct steps {
	uint64_t conversions;
	uint64_t backward;
};

static void step(struct steps *steps, uint64_t *last, uint64_t ns)
{
	steps->conversions++;
	steps->backward += ns < *last;
	*last = ns;
}

static void step_over_events(struct steps *steps, const struct clock_line *line,
			     const struct collector *collector, uint32_t tid)
{
	struct clock_cursor cursor = {0};
	uint64_t last = 0;

	for (size_t i = 0; i < collector->event_count; i++) {
		if (collector->events[i].tid == tid)
			step(steps, &last,
			     clock_line_convert(line, &cursor, collector->events[i].ticks));
	}
}

static void report_steps(const struct clock_line *line, const struct sampler *samplers,
			 const struct collector *collector)
{
	struct steps steps = {0};
	uint32_t first = 0;

	for (int i = 0; i < SAMPLERS; i++) {
		struct clock_cursor cursor = {0};
		uint64_t last = 0;

		for (size_t k = 0; k < samplers[i].count; k++)
			step(&steps, &last,
			     clock_line_convert(line, &cursor, samplers[i].samples[k].ticks));
	}
	for (size_t i = 0; i < collector->event_count; i++) {
		if (!first)
			first = collector->events[i].tid;
		if (collector->events[i].tid == first && i)
			continue;
		if (i == 0 || collector->events[i].kind == MANUAL_THREAD_START)
			step_over_events(&steps, line, collector, collector->events[i].tid);
	}
	for (size_t i = 0; i < line->anchor_count; i++) {
		struct clock_cursor cursor = {0};
		uint64_t last = 0, middle = line->anchors[i].ticks;

		for (uint64_t ticks = middle - SWEEP; ticks <= middle + SWEEP; ticks++)
			step(&steps, &last, clock_line_convert(line, &cursor, ticks));
	}
	printf("{\"bench\":\"clock_error\",\"figure\":\"backward steps\",\"conversions\":%llu,\"records\":%zu,"
	       "\"anchors\":%zu,\"stretches\":%zu,\"steps\":%llu}\n",
	       (unsigned long long)steps.conversions, collector->event_count, line->anchor_count,
	       line->stretch_count, (unsigned long long)steps.backward);
}

static void report_collected(const struct collector *collector, const struct sampler *samplers,
			     double seconds)
{
	struct clock_line line;

	if (clock_line_build(&line, CLOCK_RAW_KIND, collector->anchors, collector->anchor_count) !=
		    0 ||
	    !clock_line_usable(&line))
		die("clock line");
	report_error(&line, samplers, "the tighter half", width_at(samplers, 0.5), seconds);
	report_error(&line, samplers, "99 of 100", width_at(samplers, 0.99), seconds);
	report_steps(&line, samplers, collector);
	clock_line_clear(&line);
}

/* False where there is no raw counter. */
static bool measure_error(double seconds)
{
	struct collector collector = {.output = {.string = take_string,
						 .manual = take_manual,
						 .thread = take_thread,
						 .anchor = take_anchor,
						 .loss = take_loss},
				      .anchor_capacity = (size_t)(seconds * 20) + 100};
	struct sampler samplers[SAMPLERS] = {0};
	bool raw;

	collector.anchors = calloc(collector.anchor_capacity, sizeof(*collector.anchors));
	collector.events = calloc(EVENTS_MAX, sizeof(*collector.events));
	for (int i = 0; i < SAMPLERS; i++)
		samplers[i].samples = calloc(SAMPLES_MAX, sizeof(*samplers[i].samples));
	if (!collector.anchors || !collector.events || !samplers[0].samples || !samplers[1].samples)
		die("calloc");
	raw = collect(&collector, samplers, (uint64_t)(seconds * 1e9));
	if (raw)
		report_collected(&collector, samplers, seconds);
	else
		printf("{\"bench\":\"clock_error\",\"figure\":\"error\",\"skipped\":\"no raw counter here: records carry "
		       "CLOCK_MONOTONIC itself\"}\n");
	for (int i = 0; i < SAMPLERS; i++)
		free(samplers[i].samples);
	free(collector.events);
	free(collector.anchors);
	return raw;
}

/* ---- hooked and manual scopes of one thread ---- */

static const char *const hooked_names[] = {"outer", "middle", "inner"};
static const char *const manual_names[] = {"m_outer", "m_middle", "m_inner"};

/* Waits for a line that begins with `word`; false at the end of the stream. */
static bool wait_for(FILE *stream, const char *word)
{
	char line[4096];

	while (fgets(line, sizeof(line), stream)) {
		if (strncmp(line, word, strlen(word)) == 0)
			return true;
	}
	return false;
}

static pid_t start(const char *program, char *const *arguments, FILE **orders, FILE **answers)
{
	int in[2], out[2];
	pid_t pid;

	if (pipe(in) != 0 || pipe(out) != 0)
		die("pipe");
	pid = fork();
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		dup2(in[0], 0);
		dup2(out[1], 1);
		close(in[1]);
		close(out[0]);
		if (!freopen("/dev/null", "w", stderr))
			_exit(127);
		execv(program, arguments);
		_exit(127);
	}
	close(in[0]);
	close(out[1]);
	*orders = fdopen(in[1], "w");
	*answers = fdopen(out[0], "r");
	return pid;
}

/* Records `calls` from its go line to its end. False if it could not be done. */
static bool record_calls(const char *directory, const char *build, const char *file)
{
	char target[PATH_MAX], loader[PATH_MAX], pid[16];
	char *calls[] = {target,    "--wait-go", "--manual", "--threads", "2",
			 "--calls", "20000",	 "--rate",   "2000",	  NULL};
	char *record[] = {loader,  "record",	 "-p",	       pid,  "-f",
			  "outer", "-f",	 "middle",     "-f", "inner",
			  "-o",	   (char *)file, "--ready-fd", "1",  NULL};
	FILE *orders, *answers, *record_orders, *record_answers;
	pid_t program, recorder;
	bool done = false;
	int status = 1;

	snprintf(target, sizeof(target), "%s/../targets/calls%s", directory, build);
	snprintf(loader, sizeof(loader), "%s/../scopetrace", directory);
	program = start(target, calls, &orders, &answers);
	snprintf(pid, sizeof(pid), "%d", (int)program);
	if (wait_for(answers, "pid ")) {
		recorder = start(loader, record, &record_orders, &record_answers);
		if (wait_for(record_answers, "ready") && fputs("go\n", orders) != EOF &&
		    fflush(orders) != EOF)
			done = wait_for(answers, "truth ");
		fclose(record_orders);
		fclose(record_answers);
		fclose(orders);
		waitpid(recorder, &status, 0);
	}
	fclose(answers);
	waitpid(program, NULL, 0);
	return done && status == 0;
}

struct span {
	uint64_t start;
	uint64_t end;
};

/* Scopes of one name do not nest here: by start is also by end. */
struct spans {
	struct span *all;
	size_t count, capacity;
};

enum { FUNCTIONS = sizeof(hooked_names) / sizeof(*hooked_names) };

struct lane_spans {
	struct spans hooked[FUNCTIONS];
	struct spans manual[FUNCTIONS];
};

/* What a visit of the timeline sorts its scopes into. */
struct comparison {
	const struct timeline *timeline;
	struct lane_spans *lanes; /* as the timeline's */
};

static int add_scope(struct lane_spans *lane, const struct scope *scope, const char *name)
{
	const char *const *names = scope->kind == SCOPE_HOOKED ? hooked_names : manual_names;

	for (int i = 0; i < FUNCTIONS; i++) {
		struct spans *spans =
			scope->kind == SCOPE_HOOKED ? &lane->hooked[i] : &lane->manual[i];

		if (strcmp(name, names[i]) != 0)
			continue;
		if (vec_grow(&spans->all, &spans->capacity, spans->count))
			return -ENOMEM;
		spans->all[spans->count++] = (struct span){scope->start_ns, scope->end_ns};
	}
	return 0;
}

static int add_part(void *context, const struct lane_part *part)
{
	struct comparison *comparison = context;
	const struct timeline *timeline = comparison->timeline;
	struct lane_spans *lane = &comparison->lanes[part->lane - timeline->lanes];
	int err = 0;

	/*
	 * One that never stopped got its end from the scope around it, which says nothing of a
	 * clock.
	 */
	for (size_t i = 0; i < part->scope_count && !err; i++) {
		if (!(part->scopes[i].flags & (SCOPE_FLAG_UNFINISHED | SCOPE_FLAG_CUT)))
			err = add_scope(lane, &part->scopes[i],
					timeline->names[part->scopes[i].name]);
	}
	return err;
}

struct margins {
	int64_t *start;
	int64_t *end;
	size_t count;
	size_t sticking;
	bool mismatched; /* a call or a scope is missing: they cannot be put side by side */
};

static void add_margins(struct margins *margins, const struct spans *hooked,
			const struct spans *manual)
{
	margins->mismatched = margins->mismatched || hooked->count != manual->count;
	if (margins->mismatched)
		return;
	margins->start = realloc(margins->start,
				 (margins->count + hooked->count + 1) * sizeof(*margins->start));
	margins->end =
		realloc(margins->end, (margins->count + hooked->count + 1) * sizeof(*margins->end));
	for (size_t i = 0; i < hooked->count; i++) {
		int64_t start = (int64_t)(manual->all[i].start - hooked->all[i].start);
		int64_t end = (int64_t)(hooked->all[i].end - manual->all[i].end);

		margins->start[margins->count] = start;
		margins->end[margins->count++] = end;
		margins->sticking += start < 0 || end < 0;
	}
}

static void print_margins(const char *build, const char *function, struct margins *margins)
{
	printf("{\"bench\":\"clock_error\",\"figure\":\"hooked\",\"build\":\"%s\",\"function\":\"%s\",",
	       build, function);
	if (margins->mismatched || !margins->count) {
		printf("\"skipped\":\"calls and scopes are not equally many: something was lost\"}\n");
		return;
	}
	qsort(margins->start, margins->count, sizeof(*margins->start), compare);
	qsort(margins->end, margins->count, sizeof(*margins->end), compare);
	printf("\"scopes\":%zu,\"start_margin_min_ns\":%lld,\"start_margin_p50_ns\":%lld,\"end_margin_min_ns\":%lld,"
	       "\"end_margin_p50_ns\":%lld,\"sticking_out\":%zu}\n",
	       margins->count, (long long)margins->start[0],
	       (long long)at_share(margins->start, margins->count, 0.5), (long long)margins->end[0],
	       (long long)at_share(margins->end, margins->count, 0.5), margins->sticking);
}

static void compare_function(const struct comparison *comparison, const char *build, int which)
{
	struct margins margins = {0};

	for (size_t i = 0; i < comparison->timeline->lane_count; i++)
		add_margins(&margins, &comparison->lanes[i].hooked[which],
			    &comparison->lanes[i].manual[which]);
	print_margins(build, hooked_names[which], &margins);
	free(margins.start);
	free(margins.end);
}

static void compare_scopes(const struct timeline *timeline, const char *build)
{
	struct comparison comparison = {
		timeline, calloc(timeline->lane_count + 1, sizeof(struct lane_spans))};

	if (!comparison.lanes || timeline_visit(timeline, add_part, &comparison) != 0)
		die("reading the capture");
	for (int i = 0; i < FUNCTIONS; i++)
		compare_function(&comparison, build, i);
	for (size_t lane = 0; lane < timeline->lane_count; lane++) {
		for (int i = 0; i < FUNCTIONS; i++) {
			free(comparison.lanes[lane].hooked[i].all);
			free(comparison.lanes[lane].manual[i].all);
		}
	}
	free(comparison.lanes);
}

static void skip_hooked(const char *build, const char *why)
{
	printf("{\"bench\":\"clock_error\",\"figure\":\"hooked\",\"build\":\"%s\",\"skipped\":\"%s\"}\n",
	       build, why);
}

static void measure_hooked(const char *directory, const char *build, const char *suffix)
{
	const char *temporary = getenv("TMPDIR");
	struct timeline *timeline = NULL;
	char file[PATH_MAX];

	snprintf(file, sizeof(file), "%s/clock_error.%d.scope", temporary ? temporary : "/tmp",
		 (int)getpid());
	if (geteuid() != 0)
		skip_hooked(build, "hooking needs root");
	else if (!record_calls(directory, suffix, file) || !(timeline = timeline_open(file)))
		skip_hooked(build, "scopetrace record failed; run it by hand to see why");
	else
		compare_scopes(timeline, build);
	unlink(file);
	fflush(stdout);
	timeline_close(timeline);
}

static void measure_both(const char *directory, double seconds)
{
	bool raw = measure_error(seconds);

	fflush(stdout);
	if (raw) {
		measure_hooked(directory, "nop5", ".nop5");
		measure_hooked(directory, "plain", "");
	} else {
		skip_hooked("nop5", "no raw counter here");
		skip_hooked("plain", "no raw counter here");
	}
}

int main(int argc, char **argv)
{
	double seconds = argc > 1 ? strtod(argv[1], NULL) : 60;
	char directory[PATH_MAX];
	ssize_t length = readlink("/proc/self/exe", directory, sizeof(directory) - 1);

	if (!(seconds >= 1) || length < 0) {
		fprintf(stderr, "usage: clock_error [SECONDS]\n");
		return 2;
	}
	directory[length] = '\0';
	*strrchr(directory, '/') = '\0';
	signal(SIGPIPE, SIG_IGN);
	measure_both(directory, seconds);
	return 0;
}
