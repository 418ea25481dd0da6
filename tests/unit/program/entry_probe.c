// SPDX-License-Identifier: GPL-2.0-or-later
#include "program/entry_probe.h"

#include <criterion/criterion.h>
#include <elf.h>
#include <stdlib.h>

#define X86(...)                                                                  \
	&(struct code)                                                            \
	{                                                                         \
		.machine = EM_X86_64, .bytes = (const uint8_t[]){__VA_ARGS__},    \
		.length = sizeof((const uint8_t[]){__VA_ARGS__}),                 \
		.size = sizeof((const uint8_t[]){__VA_ARGS__}), .address = 0x1000 \
	}

#define ENDBR 0xf3, 0x0f, 0x1e, 0xfa
#define NOP5  0x0f, 0x1f, 0x44, 0x00, 0x00
#define PUSH  0x55
#define MOV   0x48, 0x89, 0xe5
#define RET   0xc3

static void assert_probe(const struct code *code, bool use_nop5, uint64_t distance,
			 enum probe_cost cost)
{
	struct entry_probe probe = entry_probe_place(code, use_nop5);

	cr_assert_eq(probe.distance, distance);
	cr_assert_eq(probe.cost, cost);
	cr_assert_eq(probe.refused != NULL, cost == PROBE_COST_REFUSED);
}

Test(instruction, cost_is_that_of_the_instruction_under_the_probe)
{
	assert_probe(X86(PUSH, RET), true, 0, PROBE_COST_EMULATED);
	assert_probe(X86(0x41, 0x57, RET), true, 0, PROBE_COST_EMULATED);
	assert_probe(X86(0x90, RET), true, 0, PROBE_COST_EMULATED);
	assert_probe(X86(0xeb, 0x10, RET), true, 0, PROBE_COST_EMULATED);
	assert_probe(X86(0xe9, 0, 0, 1, 0, RET), true, 0, PROBE_COST_EMULATED);
	assert_probe(X86(0x0f, 0x84, 0, 0, 1, 0, RET), true, 0, PROBE_COST_EMULATED);
	assert_probe(X86(0x74, 0x20, RET), true, 0, PROBE_COST_EMULATED);
	assert_probe(X86(MOV, RET), true, 0, PROBE_COST_STEPPED);
	assert_probe(X86(RET), true, 0, PROBE_COST_STEPPED);
	assert_probe(X86(NOP5, RET), true, 0, PROBE_COST_NOP5);
}

/* The kernel optimises them all. The second is clang's. */
Test(instruction, every_nop_of_five_bytes_is_one)
{
	static const uint8_t nops[][5] = {
		{0x0f, 0x1f, 0x44, 0x00, 0x00}, {0x0f, 0x1f, 0x44, 0x00, 0x08},
		{0x66, 0x0f, 0x1f, 0x40, 0x00}, {0x66, 0x66, 0x0f, 0x1f, 0x00},
		{0x66, 0x66, 0x66, 0x66, 0x90}, {0x48, 0x0f, 0x1f, 0x40, 0x00},
	};

	for (size_t i = 0; i < sizeof(nops) / sizeof(nops[0]); i++) {
		const uint8_t *n = nops[i];

		assert_probe(X86(n[0], n[1], n[2], n[3], n[4], RET), true, 0, PROBE_COST_NOP5);
		assert_probe(X86(n[0], n[1], n[2], n[3], n[4], PUSH, RET), false, 5,
			     PROBE_COST_EMULATED);
		assert_probe(
			X86(n[0], n[1], n[2], n[3], n[4], n[0], n[1], n[2], n[3], n[4], PUSH, RET),
			false, 10, PROBE_COST_EMULATED);
	}
	/* Of four and six bytes, and what is none. */
	assert_probe(X86(0x0f, 0x1f, 0x40, 0x00, PUSH, RET), false, 0, PROBE_COST_STEPPED);
	assert_probe(X86(0x66, 0x0f, 0x1f, 0x44, 0x00, 0x00, PUSH, RET), false, 0,
		     PROBE_COST_STEPPED);
	assert_probe(X86(0x0f, 0x1f, 0x80, 0x00, 0x00, 0x00, 0x00, RET), false, 0,
		     PROBE_COST_STEPPED);
}

Test(instruction, endbr64_is_stepped_over)
{
	assert_probe(X86(ENDBR, PUSH, RET), true, 4, PROBE_COST_EMULATED);
	assert_probe(X86(ENDBR, NOP5, RET), true, 4, PROBE_COST_NOP5);
	assert_probe(X86(ENDBR, NOP5, PUSH, RET), false, 9, PROBE_COST_EMULATED);
	/* Nothing behind it. */
	assert_probe(X86(ENDBR), true, 0, PROBE_COST_STEPPED);
}

Test(instruction, a_nop5_is_not_used_where_it_is_unsafe_or_slow)
{
	struct code code = *X86(NOP5, PUSH, RET);

	assert_probe(&code, false, 5, PROBE_COST_EMULATED);
	code.address = 0x1ffb; /* its last byte is the page's last */
	assert_probe(&code, true, 0, PROBE_COST_NOP5);
	for (code.address = 0x1ffc; code.address < 0x2000; code.address++)
		assert_probe(&code, true, 5, PROBE_COST_EMULATED);
	code.address = 0x2000;
	assert_probe(&code, true, 0, PROBE_COST_NOP5);
	/* A loop that comes back to it: inside the function the red zone is in use. */
	assert_probe(X86(NOP5, PUSH, 0x75, 0xf8, RET), true, 5, PROBE_COST_EMULATED);
}

Test(instruction, a_loop_back_behind_endbr64_keeps_the_probe_on_it)
{
	assert_probe(X86(ENDBR, MOV, 0x75, 0xfb, RET), true, 0, PROBE_COST_STEPPED);
	assert_probe(X86(ENDBR, MOV, 0x0f, 0x85, 0xf7, 0xff, 0xff, 0xff, RET), true, 0,
		     PROBE_COST_STEPPED);
	assert_probe(X86(ENDBR, MOV, 0xe9, 0xf8, 0xff, 0xff, 0xff, RET), true, 0,
		     PROBE_COST_STEPPED);
	/* Past it, and before it, are other places. */
	assert_probe(X86(ENDBR, MOV, 0x75, 0xfc, RET), true, 4, PROBE_COST_STEPPED);
	assert_probe(X86(ENDBR, MOV, 0x75, 0xf7, RET), true, 4, PROBE_COST_STEPPED);
}

/* `cs nopw`, with which clang fills, and a locked instruction. */
Test(instruction, what_the_kernel_refuses_behind_endbr64_keeps_the_probe_on_it)
{
	assert_probe(X86(ENDBR, 0x66, 0x2e, 0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0, RET), true, 0,
		     PROBE_COST_STEPPED);
	assert_probe(X86(ENDBR, 0xf0, 0x48, 0x83, 0x04, 0x24, 0x00, RET), true, 0,
		     PROBE_COST_STEPPED);
	assert_probe(X86(ENDBR, 0x66, 0x90, RET), true, 4, PROBE_COST_EMULATED);
}

/* At the beginning there is no other place: the probe is refused, and the cost says so. */
Test(instruction, what_the_kernel_refuses_at_the_entry)
{
	assert_probe(X86(0xf0, 0x83, 0x04, 0x24, 0x00, RET), true, 0, PROBE_COST_REFUSED);
	assert_probe(X86(0x66, 0x2e, 0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0, RET), true, 0,
		     PROBE_COST_REFUSED);
	assert_probe(X86(0x2e, 0x0f, 0x1f, 0x40, 0x00, RET), true, 0, PROBE_COST_REFUSED);
	assert_probe(X86(0x3e, 0xff, 0xe0), true, 0, PROBE_COST_REFUSED);
	assert_probe(X86(0x62, 0xf1, 0x7d, 0x48, 0x6f, 0x07), true, 0, PROBE_COST_REFUSED);
	assert_probe(X86(0xcc, RET), true, 0, PROBE_COST_REFUSED);
}

/* The kernel would take their opcodes for jumps; behind them the stack pointer is the same. */
Test(instruction, behind_what_need_not_be_probed)
{
	/* vmovdqu %ymm0,(%rdi); vzeroupper; vpbroadcastb %edi,%ymm0 (EVEX) */
	assert_probe(X86(0xc5, 0xfe, 0x7f, 0x07, RET), true, 4, PROBE_COST_STEPPED);
	assert_probe(X86(0xc5, 0xf8, 0x77, PUSH, RET), true, 3, PROBE_COST_EMULATED);
	/* endbr64 is a place as good. */
	assert_probe(X86(ENDBR, 0xc5, 0xf8, 0x77, PUSH, RET), true, 0, PROBE_COST_STEPPED);
	assert_probe(X86(0x62, 0xf2, 0x7d, 0x28, 0x7a, 0xc7, 0xc5, 0xf8, 0x77, RET), true, 9,
		     PROBE_COST_STEPPED);
	/* rep stos: each turn would be a hit. */
	assert_probe(X86(0xf3, 0x48, 0xab, RET), true, 3, PROBE_COST_STEPPED);
	/* Nothing behind it, and something behind it that is refused as well. */
	assert_probe(X86(0xc5, 0xf8, 0x77), true, 0, PROBE_COST_REFUSED);
	assert_probe(X86(0xc5, 0xf8, 0x77, 0x9c, RET), true, 0, PROBE_COST_REFUSED);
	/* vmovdqu %xmm0,(%rsp) writes over the return address. */
	assert_probe(X86(0xc5, 0xfa, 0x7f, 0x04, 0x24, RET), true, 0, PROBE_COST_REFUSED);
}

/* What shows the program the single step, or loses it. */
Test(instruction, what_would_show_a_step_at_the_entry)
{
	assert_probe(X86(0x9c, RET), true, 0, PROBE_COST_REFUSED);	 /* pushf */
	assert_probe(X86(0x9d, RET), true, 0, PROBE_COST_REFUSED);	 /* popf */
	assert_probe(X86(0x0f, 0x05, RET), true, 0, PROBE_COST_REFUSED); /* syscall */
	assert_probe(X86(0xcd, 0x80, RET), true, 0, PROBE_COST_REFUSED); /* int $0x80 */
	assert_probe(X86(0x8e, 0xd0, RET), true, 0, PROBE_COST_REFUSED); /* mov %eax,%ss */
	assert_probe(X86(0x8e, 0xd8, RET), true, 0, PROBE_COST_STEPPED); /* mov %eax,%ds */
	assert_probe(X86(0xf3, 0xc3), true, 0, PROBE_COST_STEPPED);	 /* rep ret */
}

Test(instruction, arm64_is_never_read_as_x86)
{
	/*
	 * paciasp; nop: behind paciasp the return address would be signed. The x86 bytes mean
	 * nothing there.
	 */
	static const uint8_t signs[] = {0x3f, 0x23, 0x03, 0xd5, 0x1f, 0x20, 0x03, 0xd5};
	static const uint8_t nop[] = {0x1f, 0x20, 0x03, 0xd5}, branch[] = {0x10, 0x00, 0x00, 0x14};
	static const uint8_t x86[] = {ENDBR, NOP5, PUSH};
	struct code code = {.machine = EM_AARCH64,
			    .bytes = signs,
			    .length = sizeof(signs),
			    .size = sizeof(signs)};

	assert_probe(&code, true, 0, PROBE_COST_STEPPED);
	code.bytes = nop;
	code.length = code.size = 4;
	assert_probe(&code, true, 0, PROBE_COST_EMULATED);
	code.bytes = branch;
	assert_probe(&code, true, 0, PROBE_COST_EMULATED);
	code.bytes = x86;
	code.length = code.size = sizeof(x86);
	assert_probe(&code, false, 0, PROBE_COST_STEPPED);
	code.machine = EM_386;
	assert_probe(&code, false, 0, PROBE_COST_STEPPED);
}

/* Go's check for room on the stack comes back to the entry, perhaps on another stack: the probe goes behind
 * it. */
Test(instruction, behind_the_stack_check_of_go)
{
	static const uint8_t plain[] = {0x49, 0x3b, 0x66, 0x10, 0x76, 0x30, PUSH};
	static const uint8_t far[] = {0x49, 0x3b, 0x66, 0x10, 0x0f, 0x86,
				      0x30, 0x01, 0x00, 0x00, PUSH};
	static const uint8_t large[] = {0x4c, 0x8d, 0xa4, 0x24, 0x00, 0xf0, 0xff, 0xff,
					0x4d, 0x3b, 0x66, 0x10, 0x76, 0x30, PUSH};
	static const uint8_t other[] = {0x49, 0x3b, 0x66, 0x18, 0x76, 0x30, PUSH};
	struct code code = {.machine = EM_X86_64,
			    .bytes = plain,
			    .length = sizeof(plain),
			    .size = sizeof(plain)};

	assert_probe(&code, true, 6, PROBE_COST_EMULATED);
	code.bytes = far;
	code.length = code.size = sizeof(far);
	assert_probe(&code, true, 10, PROBE_COST_EMULATED);
	code.bytes = large;
	code.length = code.size = sizeof(large);
	assert_probe(&code, true, 14, PROBE_COST_EMULATED);
	code.bytes = other;
	code.length = code.size = sizeof(other);
	assert_probe(&code, true, 0, PROBE_COST_STEPPED);
}

/* Any bytes, any sizes: no read outside, and the promise about nop5 holds. */
Test(instruction, random_code_is_safe)
{
	unsigned seed = 7;

	for (int round = 0; round < 200000; round++) {
		size_t length = (size_t)rand_r(&seed) % 24;
		uint8_t *bytes = malloc(length ? length : 1);
		struct code code = {.machine = EM_X86_64, .bytes = bytes, .length = length};

		for (size_t i = 0; i < length; i++)
			bytes[i] = ((const uint8_t[]){ENDBR, NOP5, PUSH, 0x75, 0xeb, 0xe9, 0xff,
						      0xf8, RET})[rand_r(&seed) % 16];
		code.size = (uint64_t)rand_r(&seed) % 32;
		code.address = 0x1ff0 + (uint64_t)rand_r(&seed) % 32;
		cr_assert_neq(entry_probe_place(&code, false).cost, PROBE_COST_NOP5);
		entry_probe_place(&code, true);
		free(bytes);
	}
}
