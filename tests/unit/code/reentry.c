// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The jumps of a loop that comes back to the probe: all of them, or none where one may be missing.
 */
#include "code/reentry.h"

#include <elf.h>
#include <errno.h>
#include <stdlib.h>

#include <criterion/criterion.h>

enum { BASE = 0x1000 };

#define SUB_RDI 0x48, 0x83, 0xef, 0x01
#define RET	0xc3

static struct exit_site *turns;
static size_t turn_count;

static int read_x86(const uint8_t *bytes, size_t size, uint64_t probe)
{
	const struct code_range range = {bytes, BASE, size};
	const struct function_code code = {
		.machine = EM_X86_64, .ranges = &range, .range_count = 1, .probe = BASE + probe};

	free(turns);
	return turns_read(&code, &turns, &turn_count);
}
#define READ(probe, ...) \
	read_x86((const uint8_t[]){__VA_ARGS__}, sizeof((const uint8_t[]){__VA_ARGS__}), probe)

static void expect_turn(size_t index, uint64_t offset, uint8_t kind)
{
	cr_assert_lt(index, turn_count);
	cr_expect_eq(turns[index].address, BASE + offset);
	cr_expect_eq(turns[index].kind, kind);
}

Test(turn, conditional_and_plain_jumps)
{
	cr_assert_eq(READ(0, SUB_RDI, 0x75, 0xfa, RET), 0); /* jnz 0 */
	cr_assert_eq(turn_count, 1);
	expect_turn(0, 4, SITE_CONDITIONAL);
	cr_expect_eq(turns[0].condition, SITE_FLAGS);
	cr_expect_eq(turns[0].code, 5);
	cr_assert_eq(READ(0, SUB_RDI, 0x74, 0x02, 0xeb, 0xf8, RET), 0); /* jz 8; jmp 0; 8: ret */
	cr_assert_eq(turn_count, 1);
	expect_turn(0, 6, SITE_JUMP);
}

/* A jump that leaves out the endbr64 goes to the probe; one behind the probe does not. */
Test(turn, where_the_probe_is)
{
	cr_assert_eq(READ(4, 0xf3, 0x0f, 0x1e, 0xfa, SUB_RDI, 0x75, 0xfa, RET), 0);
	cr_expect_eq(turn_count, 1);
	cr_assert_eq(READ(0, 0xf3, 0x0f, 0x1e, 0xfa, SUB_RDI, 0x75, 0xfa, RET), 0);
	cr_expect_eq(turn_count, 0);
}

/* Bytes within another instruction are none, and data that nothing leads to may be one. */
Test(turn, what_only_looks_like_a_jump)
{
	/* mov $0xfceb, %eax: eb fa would be a jump to 0 */
	cr_assert_eq(READ(0, SUB_RDI, 0xb8, 0xeb, 0xf9, 0x00, 0x00, 0x75, 0xf5, RET), 0);
	cr_expect_eq(turn_count, 1);
	/* behind the ret: a landing pad, perhaps */
	cr_expect_eq(READ(0, SUB_RDI, 0x75, 0xfa, RET, 0xeb, 0xf7), -ENOTSUP);
	cr_expect_eq(turn_count, 0);
}

Test(turn, what_hides_one)
{
	/* an indirect jump: ff e0 */
	cr_expect_eq(READ(0, SUB_RDI, 0x75, 0xfa, 0xff, 0xe0), -ENOTSUP);
	/* the probed instruction itself */
	cr_expect_eq(READ(0, 0x75, 0xfe, RET), -ENOTSUP);
	/* no probe can be put on `loop` so that it tells where it goes */
	cr_expect_eq(READ(0, SUB_RDI, 0xe2, 0xfa, RET), -ENOTSUP);
	free(turns);
	turns = NULL;
}
