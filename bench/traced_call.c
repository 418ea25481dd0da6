// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * What does a traced call cost? Empty entry and return programs (the floor: what the kernel takes
 * for the hits) against the shipped object, its session and its drain loop, everything counted,
 * with uretprobes and with probes on the return instruction (--returns=instruction); on a plain
 * build and on one with optimised entries; interleaved in one process each, medians. Prints one
 * JSON line a build. Needs root.
 *
 * Each of them first makes calls that are measured apart (`first_ns`): on the cheap build as many
 * as fill the ring once. They are the first to touch its memory, and dearer by the cache misses.
 * `ours_ns` is for the calls after those, as in a process that is watched for longer than half a
 * second.
 *
 *	traced_call [ROUNDS]		7 by default
 *	traced_call floor PID PROGRAM	holds the floor on that process until stdin ends; says `ready`
 */
#include <bpf/bpf.h>
#include <fcntl.h>
#include <gelf.h>
#include <libgen.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <signal.h>
#include <unistd.h>

#include "probe/attach.h"
#include "probe/feature.h"
#include "source/bpf_source.h"
#include "code/shape.h"

#define FUNCTION   "traced_function"
#define MAX_ROUNDS 101
#define MAX_EXITS  8
#define RING_CALLS 131072 /* records of 64 bytes, with the kernel's header, in the default ring */

struct build {
	const char *name;
	const char *program;
	double bar; /* what must be reached */
	long first; /* calls before those that are measured */
	long calls;
};

static const struct build builds[] = {
	{"plain", "traced_call_target", 1.06, 2500, 5000},
	{"nop5", "traced_call_target.nop5", 1.20, RING_CALLS, 50000},
};

struct subject {
	char path[512];
	uint64_t offset;
	struct probe_exit exits[MAX_EXITS];
	size_t exit_count;
	pid_t pid;
	FILE *orders;
	FILE *answers;
	int answers_fd;
};

/* Nanoseconds a call. */
struct cost {
	double first; /* of the calls that come first */
	double later; /* of those after them */
};

struct samples {
	double untraced[MAX_ROUNDS];
	double floor[MAX_ROUNDS];
	double first[MAX_ROUNDS];
	double ours[MAX_ROUNDS];
	double instruction[MAX_ROUNDS];
	uint64_t lost;
};

static void die(const char *what)
{
	perror(what);
	exit(1);
}

/* ---- the traced program ---- */

static uint64_t symbol_offset(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	uint64_t address = 0, offset = 0;
	Elf_Scn *section = NULL;
	GElf_Shdr header;
	GElf_Phdr segment;
	GElf_Sym symbol;
	Elf *elf;

	elf_version(EV_CURRENT);
	elf = elf_begin(fd, ELF_C_READ, NULL);
	while ((section = elf_nextscn(elf, section))) {
		Elf_Data *data = elf_getdata(section, NULL);

		if (!gelf_getshdr(section, &header) || header.sh_type != SHT_SYMTAB)
			continue;
		for (int i = 0; gelf_getsym(data, i, &symbol); i++)
			if (strcmp(elf_strptr(elf, header.sh_link, symbol.st_name), FUNCTION) == 0)
				address = symbol.st_value;
	}
	for (int i = 0; gelf_getphdr(elf, i, &segment); i++)
		if (segment.p_type == PT_LOAD && address - segment.p_vaddr < segment.p_filesz)
			offset = address - segment.p_vaddr + segment.p_offset;
	elf_end(elf);
	close(fd);
	return offset;
}

/* Where the function returns: a plain one, so there are returns only. */
static void find_exits(struct subject *subject)
{
	struct symbol_table table;
	struct shapes *shapes;

	if (symbol_table_of_binary(subject->path, true, &table))
		exit(1);
	shapes = shapes_open(&table);
	for (size_t i = 0; i < table.count; i++) {
		const struct function *function = &table.functions[i];
		const struct function_shape *shape;

		if (strcmp(function->name, FUNCTION) != 0)
			continue;
		if (shapes_of(shapes, function, &shape) || shape->exit_count > MAX_EXITS)
			die("its returns");
		subject->exit_count = shape->exit_count;
		for (size_t j = 0; j < shape->exit_count; j++)
			subject->exits[j] = (struct probe_exit){
				.offset = function->file_offset +
					  (shape->exits[j].address - function->address),
				.setting = {.kind = shape->exits[j].kind}};
	}
	shapes_close(shapes);
	symbol_table_close(&table);
}

static void start_subject(struct subject *subject, const char *directory, const char *program)
{
	int orders[2], answers[2];

	snprintf(subject->path, sizeof(subject->path), "%s/%s", directory, program);
	subject->offset = symbol_offset(subject->path);
	if (!subject->offset || pipe2(orders, O_CLOEXEC) || pipe2(answers, O_CLOEXEC))
		die(subject->path);
	find_exits(subject);
	subject->pid = fork();
	if (subject->pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		dup2(orders[0], STDIN_FILENO);
		dup2(answers[1], STDOUT_FILENO);
		execl(subject->path, subject->path, NULL);
		_exit(127);
	}
	close(orders[0]);
	close(answers[1]);
	subject->orders = fdopen(orders[1], "w");
	subject->answers = fdopen(answers[0], "r");
	subject->answers_fd = answers[0];
}

static void stop_subject(struct subject *subject)
{
	fclose(subject->orders);
	fclose(subject->answers);
	waitpid(subject->pid, NULL, 0);
}

static void order(struct subject *subject, long calls)
{
	fprintf(subject->orders, "%ld\n", calls);
	fflush(subject->orders);
}

static double answer(struct subject *subject, long calls)
{
	long long ns;

	if (fscanf(subject->answers, "%lld", &ns) != 1)
		die("the traced program has ended");
	return (double)ns / (double)calls;
}

/* ---- four ways to run it ---- */

static double run_untraced(struct subject *subject, const struct build *build)
{
	order(subject, build->calls);
	return answer(subject, build->calls);
}

static int load_empty(void)
{
	const struct bpf_insn instructions[] = {
		{.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0, .imm = 0},
		{.code = BPF_JMP | BPF_EXIT},
	};
	LIBBPF_OPTS(bpf_prog_load_opts, options, .expected_attach_type = BPF_TRACE_UPROBE_MULTI);

	return bpf_prog_load(BPF_PROG_TYPE_KPROBE, "empty", "GPL", instructions, 2, &options);
}

static int link_empty(int program, const struct subject *subject, uint32_t flags)
{
	const unsigned long offset = subject->offset;
	LIBBPF_OPTS(bpf_link_create_opts, options);
	int fd;

	options.uprobe_multi.path = subject->path;
	options.uprobe_multi.offsets = &offset;
	options.uprobe_multi.cnt = 1;
	options.uprobe_multi.pid = (uint32_t)subject->pid;
	options.uprobe_multi.flags = flags;
	fd = bpf_link_create(program, 0, BPF_TRACE_UPROBE_MULTI, &options);
	if (fd < 0)
		die("empty link");
	return fd;
}

static double run_floor(struct subject *subject, const struct build *build)
{
	int program = load_empty(), on_return, on_entry;
	double ns;

	if (program < 0)
		die("empty program");
	on_return = link_empty(program, subject, BPF_F_UPROBE_MULTI_RETURN);
	on_entry = link_empty(program, subject, 0);
	order(subject, build->first);
	answer(subject, build->first);
	order(subject, build->calls);
	ns = answer(subject, build->calls);
	close(on_entry);
	close(on_return);
	close(program);
	return ns;
}

static int accept_string(struct event_output *output, const char *bytes, size_t length,
			 uint32_t *id)
{
	(void)output, (void)bytes, (void)length;
	*id = 0;
	return 0;
}

static int accept_scopes(struct event_output *output, const struct hooked_scope *scopes,
			 size_t count)
{
	(void)output, (void)scopes, (void)count;
	return 0;
}

static int accept_thread(struct event_output *output, const struct thread_info *thread)
{
	(void)output, (void)thread;
	return 0;
}

static int accept_loss(struct event_output *output, const struct loss_event *loss)
{
	(void)output, (void)loss;
	return 0;
}

/* Drains as a loader does, every millisecond, until the answer is there. */
static double drained_calls(struct subject *subject, struct source *source,
			    struct event_output *output, long calls)
{
	struct pollfd done = {.fd = subject->answers_fd, .events = POLLIN};

	order(subject, calls);
	while (poll(&done, 1, 1) == 0)
		source->ops->drain(source, output);
	return answer(subject, calls);
}

static void check_account(const struct source *source, const struct build *build, uint64_t *lost)
{
	struct function_accounting account = bpf_source_accounting(source, 0);
	uint64_t calls = (uint64_t)(build->first + build->calls);

	*lost += account.ring_lost;
	if (account.completed == calls)
		return;
	fprintf(stderr, "traced_call: %llu calls, %llu completed\n", (unsigned long long)calls,
		(unsigned long long)account.completed);
	exit(1);
}

static struct cost run_ours(struct subject *subject, const struct build *build,
			    enum return_mode returns, uint64_t *lost)
{
	struct event_output output = {.string = accept_string,
				      .hooked = accept_scopes,
				      .thread = accept_thread,
				      .loss = accept_loss};
	struct probe_function function = {.binary = subject->path,
					  .offset = subject->offset,
					  .display = FUNCTION,
					  .returns = returns,
					  .exits = subject->exits,
					  .exit_count = subject->exit_count};
	struct probe_options options = {.exit_count = subject->exit_count};
	struct probe_session *session = probe_session_open(&options, 1);
	struct bpf_source_maps maps;
	struct source *source;
	struct cost cost;

	if (!session || probe_session_attach(session, subject->pid, &function, 1))
		exit(1);
	maps.events = probe_session_map(session, "events");
	maps.open_scopes = probe_session_map(session, "open_scopes");
	maps.near_scopes = probe_session_map(session, "near_scopes");
	maps.counters = probe_session_map(session, "counters");
	maps.pending_loss = probe_session_map(session, "pending_loss");
	source = bpf_source_create(&maps, 1);
	if (!source)
		exit(1);
	cost.first = drained_calls(subject, source, &output, build->first);
	cost.later = drained_calls(subject, source, &output, build->calls);
	probe_session_detach(session);
	source->ops->finish(source, &output);
	check_account(source, build, lost);
	source->ops->destroy(source);
	probe_session_close(session);
	return cost;
}

/* ---- figures ---- */

static int by_value(const void *left, const void *right)
{
	const double *a = left, *b = right;

	return (*a > *b) - (*a < *b);
}

static double median(double *values, int count)
{
	qsort(values, (size_t)count, sizeof(*values), by_value);
	return count % 2 ? values[count / 2] : (values[count / 2 - 1] + values[count / 2]) / 2;
}

static void print_figures(const struct build *build, struct samples *samples, int rounds)
{
	double floor = median(samples->floor, rounds), ours = median(samples->ours, rounds);
	double instruction = median(samples->instruction, rounds);
	struct utsname kernel;

	uname(&kernel);
	printf("{\"bench\":\"traced_call\",\"build\":\"%s\",\"kernel\":\"%s\",\"rounds\":%d,\"calls\":%ld,"
	       "\"untraced_ns\":%.1f,\"floor_ns\":%.0f,\"first_ns\":%.0f,\"ours_ns\":%.0f,\"ratio\":%.3f,"
	       "\"bar\":%.2f,\"reached\":%s,\"instruction_ns\":%.0f,\"instruction_ratio\":%.2f,"
	       "\"ring_lost\":%llu}\n",
	       build->name, kernel.release, rounds, build->calls, median(samples->untraced, rounds),
	       floor, median(samples->first, rounds), ours, ours / floor, build->bar,
	       ours / floor <= build->bar ? "true" : "false", instruction, instruction / floor,
	       (unsigned long long)samples->lost);
}

static void measure(const struct build *build, const char *directory, int rounds)
{
	struct samples samples = {.lost = 0};
	struct subject subject;

	start_subject(&subject, directory, build->program);
	for (int i = 0; i < rounds; i++) {
		struct cost cost;

		samples.untraced[i] = run_untraced(&subject, build);
		samples.floor[i] = run_floor(&subject, build);
		cost = run_ours(&subject, build, RETURNS_URETPROBE, &samples.lost);
		samples.first[i] = cost.first;
		samples.ours[i] = cost.later;
		samples.instruction[i] =
			run_ours(&subject, build, RETURNS_INSTRUCTION, &samples.lost).later;
	}
	stop_subject(&subject);
	print_figures(build, &samples, rounds);
}

/* For bench/peers, which measures. */
static int hold_floor(const char *pid, const char *path)
{
	struct subject subject = {.pid = atoi(pid), .offset = symbol_offset(path)};
	int program = load_empty(), on_return, on_entry;
	char byte;

	snprintf(subject.path, sizeof(subject.path), "%s", path);
	if (program < 0 || !subject.offset)
		die(path);
	on_return = link_empty(program, &subject, BPF_F_UPROBE_MULTI_RETURN);
	on_entry = link_empty(program, &subject, 0);
	puts("ready");
	fflush(stdout);
	while (read(STDIN_FILENO, &byte, 1) > 0)
		;
	close(on_entry);
	close(on_return);
	close(program);
	return 0;
}

int main(int argc, char **argv)
{
	int rounds = argc > 1 ? atoi(argv[1]) : 7;
	char self[512] = "";

	if (argc == 4 && strcmp(argv[1], "floor") == 0)
		return hold_floor(argv[2], argv[3]);
	if (rounds < 1 || rounds > MAX_ROUNDS) {
		fprintf(stderr, "traced_call: between 1 and %d rounds\n", MAX_ROUNDS);
		return 2;
	}
	if (feature_require_hooking() || readlink("/proc/self/exe", self, sizeof(self) - 1) < 0)
		return 1;
	for (size_t i = 0; i < sizeof(builds) / sizeof(*builds); i++)
		measure(&builds[i], dirname(strdup(self)), rounds);
	return 0;
}
