// SPDX-License-Identifier: GPL-2.0-or-later
#include "hooked_run.h"

#include <bpf/bpf.h>
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <gelf.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/io.h"
#include "base/vec.h"

#define MAX_ARGUMENTS 8
#define DEADLINE_NS   (120 * 1000000000ull)

void need_root(void)
{
	if (geteuid() != 0)
		cr_skip_test("hooking functions needs root");
}

/* ---- the traced program ---- */

static void run_child(struct target *target, int gate, int input, int output,
		      const char *const *arguments, bool wait_go)
{
	const char *vector[MAX_ARGUMENTS + 3] = {target->path};
	size_t count = 1;
	char byte;

	prctl(PR_SET_PDEATHSIG, SIGKILL); /* a test that fails leaves nothing running */
	dup2(input, STDIN_FILENO);
	dup2(output, STDOUT_FILENO);
	if (wait_go)
		vector[count++] = "--wait-go";
	for (size_t i = 1; arguments[i] && i <= MAX_ARGUMENTS; i++)
		vector[count++] = arguments[i];
	if (read(gate, &byte, 1) >= 0)
		execv(target->path, (char *const *)vector);
	_exit(127);
}

static void launch(struct target *target, const char *const *arguments, bool wait_go)
{
	const char *directory = getenv("SCOPETRACE_TARGETS");
	int input[2], output[2], gate[2];

	memset(target, 0, sizeof(*target));
	if (strchr(arguments[0], '/'))
		snprintf(target->path, sizeof(target->path), "%s", arguments[0]);
	else
		snprintf(target->path, sizeof(target->path), "%s/%s",
			 directory ? directory : "build/targets", arguments[0]);
	cr_assert_eq(access(target->path, X_OK), 0,
		     "%s is not built (SCOPETRACE_TARGETS says where)", target->path);
	cr_assert_eq(pipe2(input, O_CLOEXEC), 0);
	cr_assert_eq(pipe2(output, O_CLOEXEC), 0);
	cr_assert_eq(pipe2(gate, O_CLOEXEC), 0);
	target->pid = fork();
	cr_assert_geq(target->pid, 0);
	if (target->pid == 0) {
		close(gate[1]);
		run_child(target, gate[0], input[0], output[1], arguments, wait_go);
	}
	close(input[0]);
	close(output[1]);
	close(gate[0]);
	target->input = input[1];
	target->output = output[0];
	target->gate = gate[1];
}

void target_fork(struct target *target, const char *const *arguments)
{
	launch(target, arguments, false);
}

void target_start(struct target *target, const char *const *arguments)
{
	char line[64] = "";
	ssize_t length;
	int pid = 0;

	launch(target, arguments, true);
	close(target->gate);
	target->gate = -1;
	length = read(target->output, line, sizeof(line) - 1);
	cr_assert_gt(length, 0, "%s printed nothing", target->path);
	cr_assert_eq(sscanf(line, "pid %d\n", &pid), 1);
	cr_assert_eq(pid, target->pid);
}

void target_go(struct target *target)
{
	if (target->gate >= 0)
		close(target->gate);
	target->gate = -1;
	cr_assert_eq(write(target->input, "\n", 1), 1);
}

static void read_text(struct target *target)
{
	size_t length = 0;
	ssize_t got;

	while ((got = read(target->output, target->text + length,
			   sizeof(target->text) - 1 - length)) > 0)
		length += (size_t)got;
	target->text[length] = '\0';
	close(target->input);
	close(target->output);
}

bool target_ended(struct target *target)
{
	pid_t ended = waitpid(target->pid, &target->status, WNOHANG);

	cr_assert_geq(ended, 0);
	if (ended == 0)
		return false;
	read_text(target);
	return true;
}

void target_kill(struct target *target)
{
	kill(target->pid, SIGKILL);
	waitpid(target->pid, &target->status, 0);
	read_text(target);
}

bool target_truth(const struct target *target, const char *function, uint64_t *entries,
		  uint64_t *returns)
{
	const char *line = strstr(target->text, "truth ");
	char wanted[64];

	snprintf(wanted, sizeof(wanted), " %s=", function);
	line = line ? strstr(line, wanted) : NULL;
	return line && sscanf(line + strlen(wanted), "%" SCNu64 "/%" SCNu64, entries, returns) == 2;
}

/* ---- where its functions are ---- */

static uint64_t file_offset(Elf *elf, uint64_t address)
{
	size_t count = 0;
	GElf_Phdr segment;

	elf_getphdrnum(elf, &count);
	for (size_t i = 0; i < count; i++) {
		if (!gelf_getphdr(elf, (int)i, &segment) || segment.p_type != PT_LOAD)
			continue;
		if (address >= segment.p_vaddr && address < segment.p_vaddr + segment.p_filesz)
			return address - segment.p_vaddr + segment.p_offset;
	}
	return 0;
}

static uint64_t find_in_table(Elf *elf, Elf_Scn *section, const GElf_Shdr *header, const char *name)
{
	Elf_Data *data = elf_getdata(section, NULL);
	GElf_Sym symbol;

	for (size_t i = 0; data && i < header->sh_size / header->sh_entsize; i++) {
		const char *found = NULL;

		if (gelf_getsym(data, (int)i, &symbol) && GELF_ST_TYPE(symbol.st_info) == STT_FUNC)
			found = elf_strptr(elf, header->sh_link, symbol.st_name);
		if (found && strcmp(found, name) == 0)
			return file_offset(elf, symbol.st_value);
	}
	return 0;
}

static uint64_t function_offset(const char *path, const char *name)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	uint64_t offset = 0;
	Elf_Scn *section = NULL;
	GElf_Shdr header;
	Elf *elf;

	elf_version(EV_CURRENT);
	elf = elf_begin(fd, ELF_C_READ, NULL);
	while (!offset && (section = elf_nextscn(elf, section)))
		if (gelf_getshdr(section, &header) && header.sh_type == SHT_SYMTAB)
			offset = find_in_table(elf, section, &header, name);
	elf_end(elf);
	close(fd);
	cr_assert_neq(offset, 0, "%s has no %s", path, name);
	return offset;
}

/* ---- what was delivered ---- */

static int keep_string(struct event_output *output, const char *bytes, size_t length, uint32_t *id)
{
	struct tally *tally = (struct tally *)output;

	cr_assert_eq(vec_grow(&tally->names, &tally->name_capacity, tally->name_count), 0);
	snprintf(tally->names[tally->name_count], sizeof(*tally->names), "%.*s", (int)length,
		 bytes);
	*id = (uint32_t)tally->name_count++;
	return 0;
}

static bool was_announced(const struct tally *tally, const struct hooked_scope *scope)
{
	for (size_t i = tally->thread_count; i-- > 0;)
		if (tally->threads[i].tid == scope->tid && tally->threads[i].change == THREAD_SEEN)
			return tally->threads[i].pid == scope->pid;
	return false;
}

static int keep_scopes(struct event_output *output, const struct hooked_scope *scopes, size_t count)
{
	struct tally *tally = (struct tally *)output;

	if (tally->fail_after == 0)
		return -EIO;
	if (tally->fail_after > 0)
		tally->fail_after--;
	cr_assert_eq(vec_reserve((void **)&tally->scopes, &tally->scope_capacity,
				 tally->scope_count + count, sizeof(*scopes)),
		     0);
	memcpy(tally->scopes + tally->scope_count, scopes, count * sizeof(*scopes));
	tally->scope_count += count;
	for (size_t i = 0; i < count; i++)
		if (!was_announced(tally, &scopes[i]))
			tally->unannounced = true;
	return 0;
}

static int keep_thread(struct event_output *output, const struct thread_info *thread)
{
	struct tally *tally = (struct tally *)output;

	cr_assert_eq(vec_grow(&tally->threads, &tally->thread_capacity, tally->thread_count), 0);
	tally->threads[tally->thread_count++] = *thread;
	return 0;
}

static int keep_loss(struct event_output *output, const struct loss_event *loss)
{
	struct tally *tally = (struct tally *)output;

	cr_assert_eq(loss->place, LOSS_KERNEL_RING);
	cr_assert_leq(loss->first_ns, loss->last_ns);
	cr_assert_gt(loss->count, 0);
	tally->lost += loss->count;
	tally->losses++;
	return 0;
}

static void count_fork(void *context, uint32_t child, uint32_t parent, uint64_t time_ns)
{
	struct tally *tally = context;

	cr_assert_neq(child, parent);
	cr_assert_gt(time_ns, 0);
	cr_assert(!tally->forks || tally->fork_parent == parent);
	tally->fork_parent = parent;
	tally->forks++;
}

static void count_exec(void *context, uint32_t pid, uint32_t former, const char *comm,
		       uint64_t time_ns)
{
	struct tally *tally = context;

	cr_assert_gt(time_ns, 0);
	cr_assert_gt(strlen(comm), 0);
	tally->execs++;
	tally->exec_pid = pid;
	tally->exec_former = former;
}

/* ---- a run ---- */

void run_open(struct hooked_run *run, const char *const *functions,
	      const struct probe_options *options)
{
	struct probe_options defaults = {0};
	struct bpf_source_maps maps;

	memset(run, 0, sizeof(*run));
	while (functions[run->function_count]) {
		run->functions[run->function_count] = functions[run->function_count];
		run->function_count++;
	}
	run->tally.output.string = keep_string;
	run->tally.output.hooked = keep_scopes;
	run->tally.output.thread = keep_thread;
	run->tally.output.loss = keep_loss;
	run->tally.fail_after = -1;
	run->session = probe_session_open(options ? options : &defaults, run->function_count);
	cr_assert_not_null(run->session);
	maps.events = probe_session_map(run->session, "events");
	maps.open_scopes = probe_session_map(run->session, "open_scopes");
	maps.near_scopes = probe_session_map(run->session, "near_scopes");
	maps.counters = probe_session_map(run->session, "counters");
	maps.pending_loss = probe_session_map(run->session, "pending_loss");
	run->source = bpf_source_create(&maps, run->function_count);
	cr_assert_not_null(run->source);
	bpf_source_tell_lifecycle(
		run->source, &(struct bpf_source_lifecycle){count_fork, count_exec, &run->tally});
}

void run_attach(struct hooked_run *run, const struct target *target)
{
	struct probe_function functions[RUN_FUNCTIONS] = {0};

	for (size_t i = 0; i < run->function_count; i++) {
		functions[i].binary = target->path;
		functions[i].offset = function_offset(target->path, run->functions[i]);
		functions[i].display = run->functions[i];
	}
	cr_assert_eq(
		probe_session_attach(run->session, target->pid, functions, run->function_count), 0);
}

void run_drain(struct hooked_run *run)
{
	cr_assert_geq(run->source->ops->drain(run->source, &run->tally.output), 0);
}

void run_until_end(struct hooked_run *run, struct target *target)
{
	uint64_t deadline = io_now_ns() + DEADLINE_NS;

	target_go(target);
	while (!target_ended(target)) {
		cr_assert_lt(io_now_ns(), deadline, "%s does not end", target->path);
		run_drain(run);
		poll(NULL, 0, 1);
	}
}

void run_finish(struct hooked_run *run)
{
	probe_session_detach(run->session);
	cr_assert_eq(run->source->ops->finish(run->source, &run->tally.output), 0);
	cr_assert_eq(bpf_source_backlog(run->source), 0);
	cr_assert_eq(probe_session_recursion_misses(run->session), 0);
}

void run_close(struct hooked_run *run)
{
	run->source->ops->destroy(run->source);
	probe_session_close(run->session);
	free(run->tally.scopes);
	free(run->tally.threads);
	free(run->tally.names);
}

void run_whole(struct hooked_run *run, struct target *target, const char *const *arguments,
	       const char *const *functions, const struct probe_options *options)
{
	target_start(target, arguments);
	run_open(run, functions, options);
	run_attach(run, target);
	run_until_end(run, target);
	cr_assert(WIFEXITED(target->status) && WEXITSTATUS(target->status) == 0,
		  "%s ended with status %#x", target->path, target->status);
	run_finish(run);
	run_check(run);
}

/* ---- judging ---- */

static uint32_t id_of(const struct hooked_run *run, const char *function)
{
	uint32_t id = 0;

	while (id < run->function_count && strcmp(run->functions[id], function) != 0)
		id++;
	cr_assert_lt(id, run->function_count);
	return id;
}

struct function_accounting run_account(const struct hooked_run *run, const char *function)
{
	return bpf_source_accounting(run->source, id_of(run, function));
}

uint64_t run_delivered(const struct hooked_run *run, const char *function, uint16_t flags,
		       uint16_t without)
{
	uint32_t id = id_of(run, function);
	uint64_t count = 0;

	for (size_t i = 0; i < run->tally.scope_count; i++) {
		const struct hooked_scope *scope = &run->tally.scopes[i];

		count += scope->function == id && (scope->flags & flags) == flags &&
			 !(scope->flags & without);
	}
	return count;
}

size_t run_threads(const struct hooked_run *run, enum thread_change change)
{
	size_t count = 0;

	for (size_t i = 0; i < run->tally.thread_count; i++)
		count += run->tally.threads[i].change == change;
	return count;
}

static size_t slots_near(const struct hooked_run *run, struct open_key *key, struct open_slot *slot)
{
	const size_t length = NEAR_SCOPES * sizeof(struct near_slot);
	const struct near_slot *near = mmap(NULL, length, PROT_READ, MAP_SHARED,
					    probe_session_map(run->session, "near_scopes"), 0);
	size_t count = 0;

	cr_assert_neq(near, MAP_FAILED);
	for (size_t i = 0; i < NEAR_SCOPES; i++) {
		if (!near[i].key.tid)
			continue;
		if (!count && key)
			*key = near[i].key;
		if (!count && slot)
			*slot = near[i].slot;
		count++;
	}
	munmap((void *)near, length);
	return count;
}

size_t run_slots(const struct hooked_run *run, struct open_key *key, struct open_slot *slot)
{
	int map = probe_session_map(run->session, "open_scopes");
	struct open_key *previous = NULL, at;
	size_t count = slots_near(run, key, slot);

	for (; !bpf_map_get_next_key(map, previous, &at); previous = &at) {
		if (!count && key)
			*key = at;
		if (!count && slot)
			cr_assert_eq(bpf_map_lookup_elem(map, &at, slot), 0);
		count++;
	}
	return count;
}

static void check_identities(const struct hooked_run *run, const char *function)
{
	struct function_accounting a = run_account(run, function);
	uint64_t in_file = run_delivered(run, function, 0, SCOPE_FLAG_UNFINISHED);
	uint64_t unfinished = run_delivered(run, function, SCOPE_FLAG_UNFINISHED, 0);

	cr_expect_eq(a.entries,
		     a.not_a_call + a.too_deep + a.filtered + a.map_full + a.chain_full + a.opened,
		     "%s: entries", function);
	cr_expect_eq(a.opened, a.completed + a.discarded + a.unwound + a.unfinished,
		     "%s: opened %" PRIu64 " completed %" PRIu64 " discarded %" PRIu64
		     " unfinished %" PRIu64,
		     function, a.opened, a.completed, a.discarded, a.unfinished);
	cr_expect_eq(a.returns, a.completed + a.not_a_return + a.orphans, "%s: returns", function);
	cr_expect_eq(
		a.completed + a.unwound, a.below_minimum + a.ring_lost + a.handoff_lost + in_file,
		"%s: completed %" PRIu64 " below %" PRIu64 " lost %" PRIu64 " in file %" PRIu64,
		function, a.completed, a.below_minimum, a.ring_lost, in_file);
	cr_expect_eq(a.unfinished, unfinished, "%s: unfinished", function);
}

static int by_thread_and_start(const void *left, const void *right)
{
	const struct hooked_scope *a = left, *b = right;

	if (a->tid != b->tid)
		return a->tid < b->tid ? -1 : 1;
	if (a->start_ns != b->start_ns)
		return a->start_ns < b->start_ns ? -1 : 1;
	return (a->end_ns < b->end_ns) - (a->end_ns > b->end_ns);
}

/*
 * On one stack scopes nest; a return that was given to another call's entry makes two cross. When an
 * unwound one truly ended the timeline finds out.
 */
static void check_nesting(const struct hooked_run *run)
{
	size_t count = 0, depth = 0, crossings = 0;
	struct hooked_scope *scopes = calloc(run->tally.scope_count + 1, sizeof(*scopes));
	uint64_t *ends = calloc(run->tally.scope_count + 1, sizeof(*ends));

	for (size_t i = 0; i < run->tally.scope_count; i++) {
		if (!(run->tally.scopes[i].flags & SCOPE_FLAG_UNWOUND))
			scopes[count++] = run->tally.scopes[i];
	}
	qsort(scopes, count, sizeof(*scopes), by_thread_and_start);
	for (size_t i = 0; i < count; i++) {
		if (i && scopes[i].tid != scopes[i - 1].tid)
			depth = 0;
		while (depth && ends[depth - 1] < scopes[i].start_ns)
			depth--;
		crossings += depth && ends[depth - 1] < scopes[i].end_ns;
		ends[depth++] = scopes[i].end_ns;
	}
	cr_expect_eq(crossings, 0, "%zu scopes cross others", crossings);
	free(scopes);
	free(ends);
}

void run_check(const struct hooked_run *run)
{
	for (size_t i = 0; i < run->function_count; i++)
		check_identities(run, run->functions[i]);
	check_nesting(run);
	cr_expect_not(run->tally.unannounced, "a scope came before its thread's record");
}
