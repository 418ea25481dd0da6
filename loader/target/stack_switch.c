// SPDX-License-Identifier: GPL-2.0-or-later
#include "target/stack_switch.h"

#include <dwarf.h>
#include <elf.h>
#include <errno.h>
#include <gelf.h>
#include <stdlib.h>
#include <string.h>

#include "base/vec.h"
#include "target/stack_flow.h"
#include "target/unwind.h"

enum { FAR = 8192 }; /* a multiple of every instruction size that is fixed */

/* Code that is looked through in one go: a section, or a segment where there are no sections. */
struct region {
	const uint8_t *bytes;
	uint64_t address;
	size_t size;
};

struct scan {
	struct image *image;
	struct unwind unwind; /* opened when a first candidate is found: most files have none or few */
	bool has_unwind;
	uint64_t *starts; /* of functions that a symbol tells of */
	size_t start_count;
	size_t start_capacity;
	struct stack_flow *flow; /* of the last candidate's function */
	uint64_t flow_address;
	uint64_t flow_end;
	struct stack_switch *found;
};

/* ---- candidates, by their bytes ---------------------------------------------------------------- */

/*
 * `pop %rsp` is a single byte, which stands in every other function as a part of something else: behind a
 * prefix it is `pop %r12`, behind others a subtraction of floating-point numbers. It counts where what a
 * stack switch does next follows: pops, a return, an indirect jump or call.
 */
static bool is_pop_candidate(const uint8_t *at, size_t before, size_t left)
{
	if ((before > 0 && ((at[-1] & 0xf1) == 0x41 || at[-1] == 0x0f)) || (before > 1 && at[-2] == 0xc5) ||
	    (before > 2 && at[-3] == 0xc4) || (before > 3 && at[-4] == 0x62))
		return false;
	if (at[1] == 0xc3) /* ret */
		return true;
	/* The lowest byte of a distance of four bytes, mostly a small one. */
	if (left > 3 && (at[3] == 0 || (at[2] == 0xff && at[3] == 0xff)))
		return false;
	switch (at[1]) {
	case 0xc2: /* ret $ */
	case 0x9d: /* popf */
		return true;
	case 0xf2: /* bnd */
		return at[2] == 0xc3 || at[2] == 0xff;
	case 0xf3: /* rep */
		return at[2] == 0xc3;
	case 0x41: /* of r8-r15 */
		return (at[2] & 0xf8) == 0x58 || at[2] == 0xff;
	case 0xff: /* call, jmp */
		return (at[2] & 0x38) == 0x10 || (at[2] & 0x38) == 0x20;
	default:
		return (at[1] & 0xf8) == 0x58;
	}
}

/*
 * Could an instruction that loads the stack pointer begin here? Must be true for all of them; what else has
 * such bytes is weeded out by decoding. `leave` and `lea -N(%rbp),%rsp`, the ends of most frames, are not
 * looked at: they trust rbp, which is the callers' to keep.
 */
static bool is_x86_candidate(const uint8_t *at, size_t before, size_t left)
{
	bool is_reg_sp, is_rm_sp;
	uint8_t reg, rm;

	if (left < 3)
		return false;
	if (at[0] == 0x5c)
		return is_pop_candidate(at, before, left);
	if ((at[0] & 0xf8) != 0x48)
		return false;
	reg = at[2] >> 3 & 7;
	rm = at[2] & 7;
	is_reg_sp = reg == 4 && !(at[0] & 4);
	is_rm_sp = at[2] >= 0xc0 && rm == 4 && !(at[0] & 1);
	switch (at[1]) {
	case 0x8b: /* mov r/m,r */
		return is_reg_sp;
	case 0x89: /* mov r,r/m */
	case 0xc7: /* mov $,r/m */
		return is_rm_sp;
	case 0x87: /* xchg */
		return is_reg_sp || is_rm_sp;
	case 0x8d: /* lea; not from rsp or rbp, nor gcc's own lea -8(%r10),%rsp and ret */
		return is_reg_sp && !(left > 4 && memcmp(at, "\x49\x8d\x62\xf8\xc3", 5) == 0) &&
		       !(rm == 4 && left > 3 && (at[3] & 7) == 4 && !(at[0] & 1)) &&
		       !(rm == 5 && at[2] >= 0x40 && !(at[0] & 1));
	case 0x94: /* xchg %rax,%rsp */
		return at[0] == 0x48;
	case 0x0f: /* cmov */
		return (at[2] & 0xf0) == 0x40 && left > 3 && (at[3] >> 3 & 7) == 4 && !(at[0] & 4);
	default:
		return false;
	}
}

/* add or sub of a constant into sp from another register (`mov sp, xN` is one), or the sum of two. */
static bool is_arm64_candidate(const uint8_t *at, size_t left)
{
	uint32_t word;

	if (left < sizeof(word))
		return false;
	memcpy(&word, at, sizeof(word));
	if ((word & 0x1f) != 31 || (word >> 5 & 0x1f) == 31)
		return false;
	return (word & 0xbf000000) == 0x91000000 || (word & 0xbfe00000) == 0x8b200000;
}

/* ---- where its function begins ----------------------------------------------------------------- */

static int add_start(const struct image_symbol *symbol, void *context)
{
	struct scan *scan = context;

	if (symbol->undefined || !symbol->in_code || symbol->type != STT_FUNC)
		return 0;
	if (vec_grow(&scan->starts, &scan->start_capacity, scan->start_count))
		return -ENOMEM;
	scan->starts[scan->start_count++] = symbol->address;
	return 0;
}

static int open_tables(struct scan *scan)
{
	int err;

	if (scan->has_unwind)
		return 0;
	err = unwind_open(scan->image, &scan->unwind);
	if (err)
		return err;
	scan->has_unwind = true;
	return image_each_symbol(scan->image, add_start, scan);
}

/* The bounds between which the address lies, of those in the list; both are narrowed. */
static void narrow(uint64_t bound, uint64_t address, uint64_t *start, uint64_t *end)
{
	if (bound <= address && bound > *start)
		*start = bound;
	if (bound > address && bound < *end)
		*end = bound;
}

/*
 * The function around the address, by the unwind tables; else from the nearest start known, by a symbol or as
 * the end of another function, to the next one, but not from far away: decoding falls into step by itself.
 */
static void find_bounds(const struct scan *scan, const struct region *region, uint64_t address,
			uint64_t *start, uint64_t *end)
{
	const struct unwind_range *range = unwind_range_of(&scan->unwind, address);

	*start = region->address;
	*end = region->address + region->size;
	if (range) {
		narrow(range->address, address, start, end);
		narrow(range->address + range->size, address, start, end);
		return;
	}
	for (size_t i = 0; i < scan->unwind.count; i++) {
		const struct unwind_range *other = &scan->unwind.ranges[i];

		narrow(other->address, address, start, end);
		narrow(other->address + other->size, address, start, end);
	}
	for (size_t i = 0; i < scan->start_count; i++)
		narrow(scan->starts[i], address, start, end);
	if (address - *start > FAR)
		*start = address - FAR;
	if (*end - address > FAR)
		*end = address + FAR;
}

/* ---- judging one ------------------------------------------------------------------------------- */

static int hardware_register(const struct image *image, uint64_t dwarf)
{
	/* rax, rdx, rcx, rbx, rsi, rdi, rbp, rsp, r8 ... r15 */
	static const int8_t x86[] = {0, 2, 1, 3, 6, 7, 5, 4, 8, 9, 10, 11, 12, 13, 14, 15};

	if (image->machine == EM_AARCH64)
		return dwarf < 32 ? (int)dwarf : -1;
	return dwarf < sizeof(x86) ? x86[dwarf] : -1;
}

/* The register from which the tables count to the frame at this address. */
static int frame_register(uint64_t address, void *context)
{
	struct scan *scan = context;
	Dwarf_Frame *frame = NULL;
	size_t count = 0;
	int found = -1;
	Dwarf_Op *ops;

	if (!scan->unwind.eh_frame ||
	    dwarf_cfi_addrframe(scan->unwind.eh_frame, address + scan->image->bias - scan->unwind.eh_bias,
				&frame) != 0)
		return -1;
	if (dwarf_frame_cfa(frame, &ops, &count) == 0 && count == 1) {
		if (ops[0].atom == DW_OP_bregx)
			found = hardware_register(scan->image, ops[0].number);
		else if (ops[0].atom >= DW_OP_breg0 && ops[0].atom <= DW_OP_breg31)
			found = hardware_register(scan->image, (uint64_t)(ops[0].atom - DW_OP_breg0));
	}
	free(frame);
	return found;
}

static int open_flow(struct scan *scan, const struct region *region, uint64_t address)
{
	struct stack_code code = {
		.machine = scan->image->machine, .frame_register = frame_register, .context = scan};

	if (scan->flow && address >= scan->flow_address && address < scan->flow_end)
		return 0;
	stack_flow_close(scan->flow);
	find_bounds(scan, region, address, &scan->flow_address, &scan->flow_end);
	code.address = scan->flow_address;
	code.bytes = region->bytes + (scan->flow_address - region->address);
	code.size = scan->flow_end - scan->flow_address;
	scan->flow = stack_flow_open(&code);
	return scan->flow ? 0 : -errno;
}

/*
 * Where decoding has lost its way, what looks like a load counts as one. But not a single byte, as `pop %rsp`
 * would be found in any table of numbers among the code; nor the end of an instruction with an EVEX prefix
 * (62, two bytes, 48 for a full vector), not all of which Capstone knows.
 */
static bool is_switch(const struct region *region, size_t at, enum stack_load load, bool is_sure)
{
	if (load == STACK_LOAD_OWN)
		return false;
	if (is_sure)
		return load == STACK_LOAD_FOREIGN;
	return region->bytes[at] != 0x5c && !(at > 2 && region->bytes[at - 3] == 0x62);
}

/* mov %rbp,%rsp where rbp points to the frame */
static bool is_frame_end(struct scan *scan, const struct region *region, size_t at)
{
	return scan->image->machine == EM_X86_64 && region->size - at >= 3 &&
	       memcmp(region->bytes + at, "\x48\x89\xec", 3) == 0 &&
	       frame_register(region->address + at, scan) == 5;
}

/* The instruction at `at`, or the one that begins with prefixes (of a segment ...) before it. */
static enum stack_load judge_at(struct scan *scan, const struct region *region, size_t at)
{
	enum stack_load load = stack_flow_judge(scan->flow, region->address + at);

	for (int i = 0; i < 4 && load == STACK_LOAD_NONE && at > 0; i++) {
		if (!memchr("\x26\x2e\x36\x3e\x64\x65\x66\x67\xf0\xf2\xf3", region->bytes[--at], 11))
			break;
		load = stack_flow_judge(scan->flow, region->address + at);
	}
	return load;
}

static int judge(struct scan *scan, const struct region *region, size_t at)
{
	uint64_t address = region->address + at;
	int err = open_tables(scan);
	enum stack_load load;

	/* The end of a frame that the tables know, in code that cannot all be decoded too. */
	if (!err && is_frame_end(scan, region, at))
		return 0;
	if (!err)
		err = open_flow(scan, region, address);
	if (err)
		return err;
	load = judge_at(scan, region, at);
	if (is_switch(region, at, load, stack_flow_is_sure(scan->flow, address)))
		*scan->found = (struct stack_switch){.found = true, .address = address};
	return 0;
}

/* ---- the file ---------------------------------------------------------------------------------- */

static int scan_region(struct scan *scan, const struct region *region)
{
	bool is_x86 = scan->image->machine == EM_X86_64;
	size_t step = is_x86 ? 1 : 4;
	int err = 0;

	for (size_t at = 0; at < region->size && !err && !scan->found->found; at += step) {
		const uint8_t *bytes = region->bytes + at;
		size_t left = region->size - at;

		if (is_x86 ? is_x86_candidate(bytes, at, left) : is_arm64_candidate(bytes, left))
			err = judge(scan, region, at);
	}
	return err;
}

static int scan_bytes(struct scan *scan, Elf_Data *data, uint64_t address)
{
	struct region region = {.address = address};

	if (!data || !data->d_buf)
		return -EIO;
	region.bytes = data->d_buf;
	region.size = data->d_size;
	return scan_region(scan, &region);
}

static int scan_sections(struct scan *scan, size_t *count)
{
	Elf_Scn *scn = NULL;
	int err = 0;

	while (!err && (scn = elf_nextscn(scan->image->elf, scn))) {
		GElf_Shdr header;

		if (!gelf_getshdr(scn, &header) || header.sh_type != SHT_PROGBITS ||
		    !(header.sh_flags & SHF_EXECINSTR) || !header.sh_size)
			continue;
		err = scan_bytes(scan, elf_rawdata(scn, NULL), header.sh_addr);
		++*count;
	}
	return err;
}

static int scan_segments(struct scan *scan)
{
	int err = 0;

	for (size_t i = 0; !err && i < scan->image->segment_count; i++) {
		const struct image_segment *segment = &scan->image->segments[i];

		if (segment->executable)
			err = scan_bytes(scan,
					 elf_getdata_rawchunk(scan->image->elf, (int64_t)segment->offset,
							      segment->size, ELF_T_BYTE),
					 segment->address);
	}
	return err;
}

int stack_switch_find(struct image *image, struct stack_switch *found)
{
	struct scan scan = {.image = image, .found = found};
	size_t sections = 0;
	int err;

	*found = (struct stack_switch){0};
	if (image->machine != EM_X86_64 && image->machine != EM_AARCH64)
		return 0;
	err = scan_sections(&scan, &sections);
	if (!err && !sections)
		err = scan_segments(&scan);
	stack_flow_close(scan.flow);
	if (scan.has_unwind)
		unwind_close(&scan.unwind);
	free(scan.starts);
	return err;
}
