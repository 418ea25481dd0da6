// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Stripping where the kernel refuses for a while: links on a function of this very program. Needs
 * root.
 */
#include <bpf/bpf.h>
#include <criterion/criterion.h>
#include <criterion/redirect.h>
#include <fcntl.h>
#include <link.h>
#include <linux/bpf.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "base/io.h"
#include "probe/inherited.h"

#define DEADLINE_NS (20 * 1000000000ull)

static void need_root(void)
{
	if (geteuid() != 0)
		cr_skip_test("links need root");
}

TestSuite(strip, .init = need_root, .timeout = 120);

/* fd of a program that does nothing, of the kind that a link of uprobe_multi takes. */
static int load_program(void)
{
	LIBBPF_OPTS(bpf_prog_load_opts, options, .expected_attach_type = BPF_TRACE_UPROBE_MULTI);
	const struct bpf_insn nothing[] = {
		{.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0, .imm = 0},
		{.code = BPF_JMP | BPF_EXIT},
	};

	return bpf_prog_load(BPF_PROG_TYPE_KPROBE, "nothing", "GPL", nothing, 2, &options);
}

void stripped(void);

__attribute__((noinline)) void stripped(void)
{
	__asm__ volatile("" ::: "memory");
}

/* From an address in our own first object to its place in the file. */
static int find_segment(struct dl_phdr_info *info, size_t size, void *context)
{
	unsigned long *offset = context, address = *offset - info->dlpi_addr;

	(void)size;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *segment = &info->dlpi_phdr[i];

		if (segment->p_type != PT_LOAD || address - segment->p_vaddr >= segment->p_memsz)
			continue;
		*offset = address - segment->p_vaddr + segment->p_offset;
		return 1;
	}
	return -1;
}

struct place {
	struct sites sites;
	int heirs;
	int program; /* no program, until it is replaced */
	struct strip *strip;
};

static void add_heir(const struct place *place, uint32_t tgid)
{
	uint32_t one = 1;

	cr_assert_eq(bpf_map_update_elem(place->heirs, &tgid, &one, BPF_ANY), 0);
}

static bool has_heir(const struct place *place)
{
	uint32_t key;

	return bpf_map_get_next_key(place->heirs, NULL, &key) == 0;
}

static void begin(struct place *place)
{
	static const unsigned long long cookie = 1;
	unsigned long offset = (uintptr_t)stripped;
	struct site_link link = {.pid = getpid(),
				 .path = "/proc/self/exe",
				 .offsets = &offset,
				 .cookies = &cookie,
				 .count = 1};

	cr_assert_eq(dl_iterate_phdr(find_segment, &offset), 1);
	memset(place, 0, sizeof(*place));
	place->program = link.program = open("/dev/null", O_RDONLY | O_CLOEXEC);
	place->heirs = bpf_map_create(BPF_MAP_TYPE_HASH, "heirs", 4, 4, 16, NULL);
	cr_assert_geq(place->heirs, 0);
	sites_init(&place->sites);
	cr_assert_eq(sites_keep(&place->sites, -1, &link), 0);
	place->strip = strip_create(&place->sites, place->heirs);
	cr_assert_not_null(place->strip);
	cr_redirect_stderr();
}

static void let_it_succeed(const struct place *place)
{
	int program = load_program();

	cr_assert_geq(program, 0);
	cr_assert_geq(dup3(program, place->program, O_CLOEXEC), 0);
	close(program);
}

static void wait_until_free(const struct place *place)
{
	uint64_t deadline = io_now_ns() + DEADLINE_NS;

	while (!strip_count(place->strip) && io_now_ns() < deadline)
		poll(NULL, 0, 5);
	cr_expect_eq(strip_count(place->strip), 1);
	cr_expect_not(has_heir(place));
}

static void end(struct place *place)
{
	strip_destroy(place->strip);
	sites_clear(&place->sites);
	close(place->program);
	close(place->heirs);
}

/* How many lines it has said. */
static size_t lines_said(void)
{
	char text[4096];
	size_t length, lines = 0;

	fflush(stderr);
	length = fread(text, 1, sizeof(text), cr_get_redirected_stderr());
	for (size_t i = 0; i < length; i++)
		lines += text[i] == '\n';
	return lines;
}

/* No further fork is needed. */
Test(strip, a_failure_that_passes_is_tried_again)
{
	struct place place;

	begin(&place);
	add_heir(&place, 77);
	strip_wanted(place.strip);
	poll(NULL, 0, 200); /* it fails meanwhile, more than once */
	cr_expect_eq(strip_count(place.strip), 0);
	cr_expect(has_heir(&place));
	let_it_succeed(&place);
	wait_until_free(&place);
	end(&place);
	cr_expect_eq(lines_said(), 1, "the failure is said once");
}

/* An end in the midst of a pause does not wait for it. */
Test(strip, ends_at_once_while_it_fails)
{
	struct place place;
	uint64_t before;

	begin(&place);
	add_heir(&place, 77);
	strip_wanted(place.strip);
	poll(NULL, 0, 400);
	before = io_now_ns();
	end(&place);
	cr_expect_lt(io_now_ns() - before, DEADLINE_NS);
}

/* What is wanted after all tries have failed is tried as well. */
Test(strip, a_fork_long_after_is_tried)
{
	struct place place;

	begin(&place);
	add_heir(&place, 77);
	strip_wanted(place.strip);
	poll(NULL, 0, 3500); /* 0.1 + 0.2 + 0.4 + 0.8 + 1.6 s, and all tries have failed */
	let_it_succeed(&place);
	poll(NULL, 0, 300);
	cr_expect_eq(strip_count(place.strip), 0, "nothing was tried by itself any more");
	add_heir(&place, 78);
	strip_wanted(place.strip);
	wait_until_free(&place);
	end(&place);
	cr_expect_eq(lines_said(), 1, "the failure is said once");
}
