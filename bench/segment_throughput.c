// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * How many scopes a second does one process take out of another's segment without losing any? The
 * writer is segment_writer, the reader is the loader's own (shm_source) with the loader's pauses
 * (with -1: always 1 ms, and no say in the scheduling); with -l it is the whole of `scopetrace
 * record`, which writes a file. A JSON line per figure.
 *
 *	segment_throughput [-l | -1] [-T] [-s SECONDS] [-n REPEATS] [CASE]
 *	CASE: [-t THREADS] [-k SLOTS] [-r RATE] [-m scope|hot] [-p busy|sleep]
 *
 * `bar`: the rates that must be reached. With -T also `table`: rate x threads x slots, the median
 * share of events lost over the repeats and the most, and `largest`: by bisection, the largest rate
 * at which no repeat lost anything. With a case, that one instead. Each count is checked: delivered
 * + lost is what was written.
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/io.h"
#include "source/pace.h"
#include "source/shm_source.h"
#include "base/intern.h"

enum { REPEATS_MAX = 32 };

/* As the drain loop has it: capture_run.c. */
#define LONGEST_NS 4000000ull

struct load {
	unsigned threads;
	unsigned slots; /* per ring; there are 16 */
	double rate;	/* scopes a second and thread */
	const char *kind;
	const char *pace;
};

struct plan {
	const char *directory; /* of our own program */
	double seconds;
	unsigned repeats;
	bool loader; /* all of it */
	bool table;  /* the long one */
	bool plain;  /* a pause of 1 ms each time, as any process is scheduled */
};

struct outcome {
	uint64_t scopes;
	uint64_t delivered;
	uint64_t lost;
	uint64_t bytes;
	double seconds;
	double reader_cpu; /* share of one processor */
	unsigned sharing;  /* the most threads on one ring */
	bool exact;
};

/* ---- the writer ---- */

struct child {
	pid_t pid;
	FILE *orders;
	FILE *answers;
};

static void die(const char *what)
{
	fprintf(stderr, "segment_throughput: %s: %s\n", what, strerror(errno));
	exit(1);
}

static void exec_writer(const struct plan *plan, const struct load *load)
{
	char path[512], threads[16], rate[32], milliseconds[32], slots[16];

	snprintf(path, sizeof(path), "%s/segment_writer", plan->directory);
	snprintf(threads, sizeof(threads), "%u", load->threads);
	snprintf(rate, sizeof(rate), "%.0f", load->rate);
	snprintf(milliseconds, sizeof(milliseconds), "%.0f", plan->seconds * 1000);
	snprintf(slots, sizeof(slots), "%u", load->slots);
	setenv("SCOPE_SLOTS", slots, 1);
	setenv("SCOPE_RINGS", "16", 1);
	execl(path, path, threads, rate, milliseconds, load->kind, load->pace, (char *)NULL);
	_exit(127);
}

static void expect(struct child *child, const char *word, char *line, size_t size)
{
	if (!fgets(line, (int)size, child->answers) || strncmp(line, word, strlen(word)) != 0) {
		fprintf(stderr, "segment_throughput: no '%s' from the child\n", word);
		exit(1);
	}
}

static void order(struct child *child)
{
	if (fputs("go\n", child->orders) == EOF || fflush(child->orders) == EOF)
		die("writer");
}

static struct child start_writer(const struct plan *plan, const struct load *load)
{
	struct child child;
	int orders[2], answers[2];
	char line[64];

	if (pipe2(orders, O_CLOEXEC) != 0 || pipe2(answers, O_CLOEXEC) != 0)
		die("pipe");
	child.pid = fork();
	if (child.pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		dup2(orders[0], 0);
		dup2(answers[1], 1);
		exec_writer(plan, load);
	}
	close(orders[0]);
	close(answers[1]);
	child.orders = fdopen(orders[1], "w");
	child.answers = fdopen(answers[0], "r");
	expect(&child, "ready", line, sizeof(line));
	return child;
}

/* What the writer says it did; it stays until its reader has finished. */
static unsigned take_done(struct child *child, struct outcome *outcome)
{
	unsigned recorded = 0;
	unsigned long long scopes;
	char line[128];

	expect(child, "done", line, sizeof(line));
	if (sscanf(line, "done %llu %lf %u %u", &scopes, &outcome->seconds, &outcome->sharing,
		   &recorded) != 4)
		exit(1);
	outcome->scopes = scopes;
	return recorded;
}

static void end_writer(struct child *child)
{
	order(child);
	fclose(child->orders);
	fclose(child->answers);
	waitpid(child->pid, NULL, 0);
}

static void judge(struct outcome *outcome, const struct load *load, unsigned recorded)
{
	uint64_t each = strcmp(load->kind, "hot") == 0 ? 1 : 2;

	/* A thread's first record says that it begins. */
	outcome->exact = outcome->delivered + outcome->lost == outcome->scopes * each + recorded;
}

/* ---- the reader: the loader's source, and nobody behind it ---- */

struct counter {
	struct event_output output;
	struct intern names;
	uint64_t events;
};

static int count_string(struct event_output *output, const char *bytes, size_t length, uint32_t *id)
{
	bool added;

	return intern_put(&((struct counter *)output)->names, bytes, length, id, &added);
}

static int count_manual(struct event_output *output, const struct manual_event *events,
			size_t count)
{
	(void)events;
	((struct counter *)output)->events += count;
	return 0;
}

static int pass_thread(struct event_output *output, const struct thread_info *thread)
{
	(void)output, (void)thread;
	return 0;
}

static int pass_anchor(struct event_output *output, const struct clock_anchor *anchor)
{
	(void)output, (void)anchor;
	return 0;
}

static int pass_loss(struct event_output *output, const struct loss_event *loss)
{
	(void)output, (void)loss;
	return 0;
}

static uint64_t cpu_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void drain_until(struct source *source, struct counter *counter, const struct plan *plan,
			const struct load *load, int answers)
{
	struct pollfd said = {.fd = answers, .events = POLLIN};
	struct pace pace = {.pause_ns = PACE_USUAL_NS};

	if (!plan->plain)
		pace_begin(&pace, io_now_ns());
	for (;;) {
		uint64_t now = io_now_ns(), pause = PACE_USUAL_NS;
		ssize_t drained = source->ops->drain(source, &counter->output);
		struct timespec time;

		if (drained < 0)
			exit(1);
		if (!plan->plain)
			pause = pace_next(&pace, now, (uint64_t)drained, load->slots, LONGEST_NS);
		time = (struct timespec){.tv_nsec = (long)pause};
		if (ppoll(&said, 1, &time, NULL) != 0)
			return;
	}
}

static struct outcome run_reader(const struct plan *plan, const struct load *load)
{
	struct child writer = start_writer(plan, load);
	struct counter counter = {.output = {.string = count_string,
					     .manual = count_manual,
					     .thread = pass_thread,
					     .anchor = pass_anchor,
					     .loss = pass_loss}};
	struct source *source = shm_source_open(writer.pid, NULL);
	struct outcome outcome = {0};
	struct segment_accounting account;
	uint64_t begun;
	unsigned recorded;

	if (!source)
		die("shm_source_open");
	begun = cpu_ns();
	order(&writer);
	drain_until(source, &counter, plan, load, fileno(writer.answers));
	outcome.reader_cpu = (double)(cpu_ns() - begun);
	recorded = take_done(&writer, &outcome);
	outcome.reader_cpu /= outcome.seconds * 1e9;
	if (source->ops->finish(source, &counter.output) != 0)
		die("finish");
	account = shm_source_accounting(source);
	outcome.delivered = counter.events;
	outcome.lost = account.lost + account.written_off + account.holes;
	judge(&outcome, load, recorded);
	source->ops->destroy(source);
	intern_clear(&counter.names);
	end_writer(&writer);
	return outcome;
}

/* ---- the reader: scopetrace record ---- */

static struct child start_record(const struct plan *plan, pid_t target, const char *file)
{
	struct child child = {.orders = NULL};
	int answers[2];
	char path[512], pid[16], line[64];

	snprintf(path, sizeof(path), "%s/../scopetrace", plan->directory);
	snprintf(pid, sizeof(pid), "%d", (int)target);
	if (pipe(answers) != 0)
		die("pipe");
	child.pid = fork();
	if (child.pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		close(answers[0]);
		dup2(answers[1], 1);
		freopen("/dev/null", "w", stderr);
		execl(path, path, "record", "-p", pid, "-o", file, "--ready-fd", "1", "--json",
		      (char *)NULL);
		_exit(127);
	}
	close(answers[1]);
	child.answers = fdopen(answers[0], "r");
	expect(&child, "ready", line, sizeof(line));
	return child;
}

static uint64_t member(const char *json, const char *key)
{
	const char *at = strstr(json, key);

	return at ? strtoull(at + strlen(key), NULL, 10) : 0;
}

static double cpu_of(pid_t pid)
{
	char path[64], text[1024];
	unsigned long user = 0, system = 0;
	char *end;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	file = fopen(path, "r");
	if (!file)
		return 0;
	end = fgets(text, sizeof(text), file) ? strrchr(text, ')') : NULL;
	if (end)
		sscanf(end, ") %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &user,
		       &system);
	fclose(file);
	return (double)(user + system) / (double)sysconf(_SC_CLK_TCK);
}

static struct outcome run_loader(const struct plan *plan, const struct load *load)
{
	const char *directory = getenv("TMPDIR");
	struct child writer = start_writer(plan, load), loader;
	struct outcome outcome = {0};
	char file[256], json[4096];
	struct stat status;
	unsigned recorded;
	double cpu;

	snprintf(file, sizeof(file), "%s/segment_throughput.%d.scope",
		 directory ? directory : "/tmp", (int)getpid());
	loader = start_record(plan, writer.pid, file);
	cpu = cpu_of(loader.pid);
	order(&writer);
	recorded = take_done(&writer, &outcome);
	outcome.reader_cpu = (cpu_of(loader.pid) - cpu) / outcome.seconds;
	kill(loader.pid, SIGINT);
	expect(&loader, "{", json, sizeof(json));
	outcome.delivered = member(json, "\"segment_delivered\":");
	outcome.lost = member(json, "\"segment_lost\":") + member(json, "\"written_off\":") +
		       member(json, "\"segment_holes\":");
	judge(&outcome, load, recorded);
	fclose(loader.answers);
	waitpid(loader.pid, NULL, 0);
	outcome.bytes = stat(file, &status) == 0 ? (uint64_t)status.st_size : 0;
	unlink(file);
	end_writer(&writer);
	return outcome;
}

/* ---- figures ---- */

struct figure {
	uint64_t lost_most;
	double lost_share; /* median */
	double rate;	   /* reached, scopes a second and thread: median */
	double cpu;	   /* median */
	uint64_t bytes;
	unsigned clean; /* repeats that lost nothing */
	unsigned repeats;
	unsigned sharing; /* the most of all repeats */
	bool exact;
};

static int compare(const void *left, const void *right)
{
	double a = *(const double *)left, b = *(const double *)right;

	return (a > b) - (a < b);
}

static double median(double *values, unsigned count)
{
	qsort(values, count, sizeof(*values), compare);
	return values[count / 2];
}

/* `strict` stops at the first repeat that lost something. */
static struct figure measure(const struct plan *plan, const struct load *load, bool strict)
{
	double share[REPEATS_MAX], rate[REPEATS_MAX], cpu[REPEATS_MAX];
	struct figure figure = {.exact = true};

	while (figure.repeats < plan->repeats && !(strict && figure.lost_most)) {
		struct outcome outcome =
			plan->loader ? run_loader(plan, load) : run_reader(plan, load);
		uint64_t all = outcome.delivered + outcome.lost;

		share[figure.repeats] = all ? (double)outcome.lost / (double)all : 0;
		rate[figure.repeats] = (double)outcome.scopes / outcome.seconds / load->threads;
		cpu[figure.repeats++] = outcome.reader_cpu;
		figure.clean += !outcome.lost;
		figure.lost_most =
			outcome.lost > figure.lost_most ? outcome.lost : figure.lost_most;
		figure.sharing =
			outcome.sharing > figure.sharing ? outcome.sharing : figure.sharing;
		figure.bytes = outcome.bytes;
		figure.exact = figure.exact && outcome.exact;
	}
	figure.lost_share = median(share, figure.repeats);
	figure.rate = median(rate, figure.repeats);
	figure.cpu = median(cpu, figure.repeats);
	return figure;
}

static void print(const struct plan *plan, const char *what, const struct load *load,
		  const struct figure *figure)
{
	printf("{\"bench\":\"segment_throughput\",\"figure\":\"%s\",\"reader\":\"%s\",\"kind\":\"%s\",\"pace\":\"%s\","
	       "\"threads\":%u,\"slots\":%u,\"rate_asked\":%.0f,\"rate_reached\":%.0f,\"lost_median\":%.5f,"
	       "\"lost_most\":%llu,\"clean\":\"%u of %u\",\"threads_on_a_ring\":%u,\"reader_cpu\":%.3f,",
	       what, plan->loader ? "scopetrace record" : "shm_source", load->kind, load->pace,
	       load->threads, load->slots, load->rate, figure->rate, figure->lost_share,
	       (unsigned long long)figure->lost_most, figure->clean, figure->repeats,
	       figure->sharing, figure->cpu);
	if (plan->loader)
		printf("\"file_bytes\":%llu,", (unsigned long long)figure->bytes);
	/* On a machine too busy for the writer to reach the rate there is nothing to say. */
	if (strcmp(what, "bar") == 0)
		printf("\"met\":%s,", figure->rate < 0.9 * load->rate ? "\"rate not reached\""
				      : figure->lost_share > 0	      ? "false"
								      : "true");
	printf("\"counts\":\"%s\"}\n", figure->exact ? "exact" : "WRONG");
	fflush(stdout);
}

static bool run_case(const struct plan *plan, const char *what, const struct load *load)
{
	struct figure figure = measure(plan, load, false);

	print(plan, what, load, &figure);
	return figure.exact;
}

/* The rate is reached only as far as a thread gets a processor: then the reached one counts. */
static bool find_largest(const struct plan *plan, struct load load)
{
	double low = 62500, high = 16e6;
	struct figure best = {.exact = true};
	bool exact = true;

	for (int step = 0; step < 7; step++) {
		struct figure figure;

		load.rate = step ? low * __builtin_sqrt(high / low) : high;
		figure = measure(plan, &load, true);
		exact = exact && figure.exact;
		if (figure.lost_most) {
			high = load.rate;
			continue;
		}
		best = figure;
		low = load.rate;
		if (step == 0)
			break;
	}
	load.rate = low;
	print(plan, "largest", &load, &best);
	return exact;
}

static bool run_table(const struct plan *plan)
{
	static const double rates[] = {250e3, 500e3, 1e6, 2e6, 4e6};
	static const unsigned threads[] = {1, 2, 8}, slots[] = {8192, 32768, 131072};
	bool exact = true;

	for (unsigned t = 0; t < 3; t++) {
		for (unsigned s = 0; s < 3; s++) {
			struct load load = {threads[t], slots[s], 0, "scope", "busy"};

			for (unsigned r = 0; r < 5; r++) {
				load.rate = rates[r];
				exact = run_case(plan, "table", &load) && exact;
			}
			exact = find_largest(plan, load) && exact;
		}
	}
	return exact;
}

static bool run_bars(const struct plan *plan)
{
	static const struct load bars[] = {
		{1, 8192, 500e3, "scope", "busy"}, {1, 8192, 1e6, "hot", "busy"},
		{1, 131072, 2e6, "scope", "busy"}, {8, 8192, 500e3, "scope", "sleep"},
		{8, 8192, 1e6, "hot", "sleep"},
	};
	bool exact = true;

	for (unsigned i = 0; i < sizeof(bars) / sizeof(bars[0]); i++)
		exact = run_case(plan, "bar", &bars[i]) && exact;
	return exact;
}

static const char usage[] =
	"usage: segment_throughput [-l | -1] [-T] [-s SECONDS] [-n REPEATS] [-t THREADS] [-k SLOTS] "
	"[-r RATE] [-m scope|hot] [-p busy|sleep]\n";

static bool parse_case(int option, const char *value, struct load *load)
{
	switch (option) {
	case 't':
		load->threads = (unsigned)strtoul(value, NULL, 10);
		break;
	case 'k':
		load->slots = (unsigned)strtoul(value, NULL, 10);
		break;
	case 'r':
		load->rate = strtod(value, NULL);
		break;
	case 'm':
		load->kind = value;
		break;
	case 'p':
		load->pace = value;
		break;
	default:
		return false;
	}
	return true;
}

/* *single: one case was chosen. */
static bool parse(int argc, char **argv, struct plan *plan, struct load *load, bool *single)
{
	for (int option; (option = getopt(argc, argv, "l1Ts:n:t:k:r:m:p:")) != -1;) {
		switch (option) {
		case 'l':
			plan->loader = true;
			break;
		case '1':
			plan->plain = true;
			break;
		case 'T':
			plan->table = true;
			break;
		case 's':
			plan->seconds = strtod(optarg, NULL);
			break;
		case 'n':
			plan->repeats = (unsigned)strtoul(optarg, NULL, 10);
			break;
		default:
			*single = true;
			if (!parse_case(option, optarg, load))
				return false;
		}
	}
	return optind == argc && plan->repeats >= 1 && plan->repeats <= REPEATS_MAX &&
	       plan->seconds > 0;
}

static void find_directory(char *directory, size_t size)
{
	ssize_t length = readlink("/proc/self/exe", directory, size - 1);

	if (length < 0)
		die("/proc/self/exe");
	directory[length] = '\0';
	*strrchr(directory, '/') = '\0';
}

int main(int argc, char **argv)
{
	struct plan plan = {.seconds = 1, .repeats = 5};
	struct load load = {1, 8192, 500e3, "scope", "busy"};
	char directory[512];
	bool single = false, exact;

	find_directory(directory, sizeof(directory));
	plan.directory = directory;
	if (!parse(argc, argv, &plan, &load, &single)) {
		fputs(usage, stderr);
		return 2;
	}
	/* A writer that ends early is told by the answer that it does not give. */
	signal(SIGPIPE, SIG_IGN);
	if (single)
		return run_case(&plan, "case", &load) ? 0 : 1;
	exact = run_bars(&plan);
	if (plan.table)
		exact = run_table(&plan) && exact;
	return exact ? 0 : 1;
}
