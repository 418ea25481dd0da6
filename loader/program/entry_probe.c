// SPDX-License-Identifier: GPL-2.0-or-later
#include "program/entry_probe.h"

#include <elf.h>
#include <string.h>

#include "program/site_screen.h"

static const uint8_t x86_endbr64[] = {0xf3, 0x0f, 0x1e, 0xfa};

enum { PAGE_BYTES = 4096, NOP5_BYTES = 5, MOST_STEPPED_OVER = 8 };

static bool begins_with(const struct code *code, uint64_t at, const uint8_t *bytes, size_t length)
{
	return at <= code->length && code->length - at >= length &&
	       memcmp(code->bytes + at, bytes, length) == 0;
}

/* A step over `length` bytes that stays inside the function; else no step. */
static uint64_t stepped_over(const struct code *code, uint64_t at, size_t length)
{
	uint64_t end = code->size && code->size < code->length ? code->size : code->length;

	return at + length < end ? at + length : at;
}

static bool is_prefix(uint8_t byte)
{
	return (byte & 0xf0) == 0x40 || byte == 0x66 || byte == 0x2e || byte == 0x36 ||
	       byte == 0x3e || byte == 0x26 || byte == 0x64 || byte == 0x65 || byte == 0xf2;
}

/*
 * Any nop of five bytes, as the kernel's can_optimize() takes it: gcc writes 0f 1f 44 00 00, clang
 * 0f 1f 44 00 08, and others prefix a shorter one.
 */
static bool is_nop5(const struct code *code, uint64_t at)
{
	const uint8_t *b = code->bytes + at;
	size_t prefixes = 0, modrm;

	if (at > code->length || code->length - at < NOP5_BYTES)
		return false;
	while (prefixes < NOP5_BYTES && is_prefix(b[prefixes]))
		prefixes++;
	if (prefixes == NOP5_BYTES - 1)
		return b[prefixes] == 0x90;
	modrm = prefixes + 2;
	if (modrm >= NOP5_BYTES || b[prefixes] != 0x0f || b[prefixes + 1] != 0x1f)
		return false;
	switch (NOP5_BYTES - modrm) {
	case 1: /* a register or plain memory operand */
		return (b[modrm] & 0x07) != 0x04 &&
		       ((b[modrm] & 0xc0) == 0xc0 || (b[modrm] & 0xc7) < 0x05);
	case 2: /* with one more byte: a displacement, or the SIB byte */
		return (b[modrm] & 0xc7) == 0x04 ||
		       ((b[modrm] & 0xc0) == 0x40 && (b[modrm] & 0x07) != 0x04);
	default: /* with SIB byte and displacement */
		return (b[modrm] & 0xc7) == 0x44;
	}
}

/* The kernel patches five bytes at once and so refuses those that cross a page. */
static bool is_optimisable(const struct code *code, uint64_t at)
{
	return is_nop5(code, at) && (code->address + at) % PAGE_BYTES <= PAGE_BYTES - NOP5_BYTES;
}

static int32_t relative32(const uint8_t *bytes)
{
	int32_t relative;

	memcpy(&relative, bytes, sizeof(relative));
	return relative;
}

/*
 * Whether bytes that could be a jump to `target` stand anywhere in the function. Not a disassembly:
 * a false alarm only makes the probe dearer.
 */
static bool is_jumped_to(const struct code *code, uint64_t target)
{
	uint64_t end = code->size < code->length ? code->size : code->length;
	const uint8_t *b = code->bytes;

	for (uint64_t i = 0; i + 2 <= end; i++) {
		bool is_short = b[i] == 0xeb || (b[i] & 0xf0) == 0x70 || (b[i] & 0xfc) == 0xe0;

		if (is_short && i + 2 + (uint64_t)(int64_t)(int8_t)b[i + 1] == target)
			return true;
		if (b[i] == 0xe9 && i + 5 <= end &&
		    i + 5 + (uint64_t)(int64_t)relative32(b + i + 1) == target)
			return true;
		if (b[i] == 0x0f && (b[i + 1] & 0xf0) == 0x80 && i + 6 <= end &&
		    i + 6 + (uint64_t)(int64_t)relative32(b + i + 2) == target)
			return true;
	}
	return false;
}

static const char *refused_x86(const struct code *code, uint64_t at)
{
	return at < code->length ? site_screen_x86(code->bytes + at, code->length - at) : NULL;
}

/*
 * The forms that the kernel emulates instead of stepping: push of a register, nop, call, jmp, jcc.
 */
static bool is_emulated_x86(const uint8_t *b, size_t length)
{
	if (length && b[0] == 0x66)
		return length > 1 && b[1] == 0x90;
	if (length && b[0] == 0x41)
		return length > 1 && (b[1] & 0xf8) == 0x50;
	if (length > 1 && b[0] == 0x0f)
		return (b[1] & 0xf0) == 0x80;
	return length && ((b[0] & 0xf8) == 0x50 || (b[0] & 0xf0) == 0x70 || b[0] == 0x90 ||
			  b[0] == 0xe8 || b[0] == 0xe9 || b[0] == 0xeb);
}

static struct entry_probe probe_at(const struct code *code, uint64_t at)
{
	struct entry_probe probe = {.distance = at, .refused = refused_x86(code, at)};

	if (probe.refused)
		probe.cost = PROBE_COST_REFUSED;
	else if (is_optimisable(code, at))
		probe.cost = PROBE_COST_NOP5;
	else if (at < code->length && is_emulated_x86(code->bytes + at, code->length - at))
		probe.cost = PROBE_COST_EMULATED;
	else
		probe.cost = PROBE_COST_STEPPED;
	return probe;
}

/*
 * Go's check for room on the stack, whose other branch gets more and comes back to the entry,
 * perhaps with the stack elsewhere: behind it each call comes by once. [lea -N(%rsp),%r12] cmp
 * 0x10(%r14),reg; jbe
 */
static uint64_t behind_stack_check(const struct code *code)
{
	static const uint8_t lea8[] = {0x4c, 0x8d, 0x64, 0x24}, lea32[] = {0x4c, 0x8d, 0xa4, 0x24};
	static const uint8_t compare_sp[] = {0x49, 0x3b, 0x66, 0x10},
			     compare_r12[] = {0x4d, 0x3b, 0x66, 0x10};
	static const uint8_t jbe8[] = {0x76}, jbe32[] = {0x0f, 0x86};
	uint64_t at = 0;

	if (begins_with(code, 0, lea8, sizeof(lea8)))
		at = sizeof(lea8) + 1;
	else if (begins_with(code, 0, lea32, sizeof(lea32)))
		at = sizeof(lea32) + 4;
	if (at ? !begins_with(code, at, compare_r12, sizeof(compare_r12))
	       : !begins_with(code, at, compare_sp, sizeof(compare_sp)))
		return 0;
	at += sizeof(compare_sp);
	if (begins_with(code, at, jbe8, sizeof(jbe8)))
		return stepped_over(code, 0, at + sizeof(jbe8) + 1);
	if (begins_with(code, at, jbe32, sizeof(jbe32)))
		return stepped_over(code, 0, at + sizeof(jbe32) + 4);
	return 0;
}

/*
 * The first place at or behind `at` on which a probe may sit, if each call passes it with the stack
 * pointer of its entry. `at` if there is none.
 */
static uint64_t behind_refused(const struct code *code, uint64_t at)
{
	uint64_t to = at;

	for (int i = 0; i < MOST_STEPPED_OVER && to < code->length && refused_x86(code, to); i++) {
		size_t length = site_step_over_x86(code->bytes + to, code->length - to);
		uint64_t next = length ? stepped_over(code, to, length) : to;

		if (next == to)
			return at;
		to = next;
	}
	return refused_x86(code, to) ? at : to;
}

static struct entry_probe probe_x86(const struct code *code, bool use_nop5)
{
	uint64_t at = behind_stack_check(code), behind_endbr;

	if (at)
		return probe_at(code, at);
	if (begins_with(code, 0, x86_endbr64, sizeof(x86_endbr64)))
		at = stepped_over(code, 0, sizeof(x86_endbr64));
	behind_endbr = at;
	/*
	 * A nop5 that a loop comes back to lies inside the function, where the red zone is in use.
	 */
	while (is_nop5(code, at) &&
	       (!use_nop5 || !is_optimisable(code, at) || is_jumped_to(code, at)))
		at += NOP5_BYTES;
	/* If the function loops back to the probe, endbr64 is the place that only calls reach. */
	if (behind_endbr && (is_jumped_to(code, at) || refused_x86(code, at)))
		at = 0;
	return probe_at(code, behind_refused(code, at));
}

/* Branches, nop, adr and literal loads: what arm64 simulates. */
static bool is_simulated_arm64(uint32_t word)
{
	return (word & 0x7c000000) == 0x14000000 || /* b, bl */
	       (word & 0xff000010) == 0x54000000 || /* b.cond */
	       (word & 0x7e000000) == 0x34000000 || /* cbz, cbnz */
	       (word & 0x7e000000) == 0x36000000 || /* tbz, tbnz */
	       (word & 0xff9ffc1f) == 0xd61f0000 || /* br, blr, ret */
	       (word & 0x1f000000) == 0x10000000 || /* adr, adrp */
	       (word & 0xbf000000) == 0x18000000 || /* ldr literal */
	       (word & 0xff000000) == 0x98000000 || /* ldrsw literal */
	       word == 0xd503201f;		    /* nop */
}

/*
 * Always the first instruction. The kernel steps `bti c` well, and behind a `paciasp` the return
 * address is signed already: a return hooked there would not survive its check.
 */
static enum probe_cost cost_arm64(const struct code *code)
{
	uint32_t word;

	if (code->length < sizeof(word))
		return PROBE_COST_STEPPED;
	word = code->bytes[0] | code->bytes[1] << 8 | code->bytes[2] << 16 |
	       (uint32_t)code->bytes[3] << 24;
	return is_simulated_arm64(word) ? PROBE_COST_EMULATED : PROBE_COST_STEPPED;
}

struct entry_probe entry_probe_place(const struct code *code, bool use_nop5)
{
	if (code->machine == EM_X86_64)
		return probe_x86(code, use_nop5);
	return (struct entry_probe){.cost = code->machine == EM_AARCH64 ? cost_arm64(code)
									: PROBE_COST_STEPPED};
}
