// SPDX-License-Identifier: GPL-2.0-or-later
#include "code/stack_switch.h"

#include <capstone/capstone.h>
#include <dwarf.h>
#include <elf.h>
#include <errno.h>
#include <gelf.h>
#include <stdlib.h>
#include <string.h>

#include "base/search.h"
#include "base/vec.h"
#include "code/insn.h"
#include "code/stack_bytes.h"
#include "code/stack_flow.h"
#include "code/unwind.h"

enum {
	FAR = 8192,    /* a multiple of every instruction size that is fixed */
	LONGEST = 15,  /* instruction */
	DISTANCE = 48, /* in which reading falls into step */
	RBP = 5,
};

/* Code that is looked through in one go: a section, or a segment where there are no sections. */
struct region {
	const uint8_t *bytes;
	uint64_t address;
	size_t size;
};

struct scan {
	struct image *image;
	struct region *regions;
	size_t region_count;
	size_t region_capacity;
	/* opened when a first candidate is found: most files have none or few */
	struct unwind unwind;
	bool has_unwind;
	bool has_bounds;
	uint64_t *bounds; /* of functions, as symbols and tables tell of them, by address */
	size_t bound_count;
	size_t bound_capacity;
	bool has_endless;
	uint64_t *endless; /* functions that never come back, by address */
	size_t endless_count;
	size_t endless_capacity;
	/* The function of the last candidate. */
	uint64_t start;
	uint64_t end;
	struct stack_flow *flow; /* NULL: not needed yet */
	struct stack_bytes_frame frame;
	bool has_frame; /* it was read */
	csh decoder;	/* x86-64 only, without details */
	cs_insn *insn;
	struct stack_switch *found;
};

/* ---- where its function begins ---- */

static int add_bound(struct scan *scan, uint64_t address)
{
	if (vec_grow(&scan->bounds, &scan->bound_capacity, scan->bound_count))
		return -ENOMEM;
	scan->bounds[scan->bound_count++] = address;
	return 0;
}

static int add_start(const struct image_symbol *symbol, void *context)
{
	if (symbol->undefined || !symbol->in_code || symbol->type != STT_FUNC)
		return 0;
	return add_bound(context, symbol->address);
}

static int by_value(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

/*
 * The bytes at this address, with the sections' own or the segment's `left` behind them; NULL: no
 * code.
 */
static const uint8_t *code_at(const struct scan *scan, uint64_t address, size_t size)
{
	for (size_t i = 0; i < scan->region_count; i++) {
		const struct region *region = &scan->regions[i];

		if (address >= region->address && address - region->address < region->size &&
		    region->size - (address - region->address) >= size)
			return region->bytes + (address - region->address);
	}
	return NULL;
}

/* The address that is called by the last instruction of [address, address + size), or 0. */
static uint64_t called_last(const struct scan *scan, uint64_t address, uint64_t size)
{
	bool is_x86 = scan->image->machine == EM_X86_64;
	size_t length = is_x86 ? 5 : 4;
	const uint8_t *at = size < length ? NULL : code_at(scan, address + size - length, length);
	int32_t distance;
	uint32_t word;

	if (!at)
		return 0;
	if (is_x86) {
		memcpy(&distance, at + 1, sizeof(distance));
		return at[0] == 0xe8 ? address + size + (uint64_t)(int64_t)distance : 0;
	}
	memcpy(&word, at, sizeof(word));
	if (word >> 26 != 0x25) /* bl */
		return 0;
	return address + size - length + (uint64_t)(((int64_t)word << 38) >> 36);
}

/*
 * A compiler ends a function with a call only if that does not come back (abort, a failed
 * assertion), so that what stands behind other calls of the same is not reached from them.
 */
static int find_endless(struct scan *scan)
{
	if (scan->has_endless)
		return 0;
	scan->has_endless = true;
	for (size_t i = 0; i < scan->unwind.count; i++) {
		const struct unwind_range *range = &scan->unwind.ranges[i];
		uint64_t target = called_last(scan, range->address, range->size);

		if (!target || !code_at(scan, target, 1))
			continue;
		if (vec_grow(&scan->endless, &scan->endless_capacity, scan->endless_count))
			return -ENOMEM;
		scan->endless[scan->endless_count++] = target;
	}
	if (scan->endless_count)
		qsort(scan->endless, scan->endless_count, sizeof(*scan->endless), by_value);
	return 0;
}

static bool is_endless(uint64_t address, void *context)
{
	const struct scan *scan = context;

	return scan->endless_count && bsearch(&address, scan->endless, scan->endless_count,
					      sizeof(*scan->endless), by_value);
}

/* Most files have tables for all of their code, and need none of this. */
static int find_starts(struct scan *scan)
{
	int err;

	if (scan->has_bounds)
		return 0;
	scan->has_bounds = true;
	err = image_each_symbol(scan->image, add_start, scan);
	for (size_t i = 0; i < scan->unwind.count && !err; i++) {
		const struct unwind_range *range = &scan->unwind.ranges[i];

		err = add_bound(scan, range->address);
		if (!err)
			err = add_bound(scan, range->address + range->size);
	}
	if (scan->bound_count)
		qsort(scan->bounds, scan->bound_count, sizeof(*scan->bounds), by_value);
	return err;
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
	return 0;
}

/* How many of the `count` values, sorted, are not above this one. */
static size_t count_up_to(const uint64_t *values, size_t count, uint64_t value)
{
	size_t low;

	SEARCH_FIRST(low, count, values[low] <= value);
	return low;
}

/* The bounds between which the address lies; both are narrowed. */
static void narrow(uint64_t bound, uint64_t address, uint64_t *start, uint64_t *end)
{
	if (bound <= address && bound > *start)
		*start = bound;
	if (bound > address && bound < *end)
		*end = bound;
}

/*
 * The function around the address, by the unwind tables; else from the nearest start known, by a
 * symbol or as the end of another function, to the next one, but not from far away: decoding falls
 * into step by itself.
 */
static int find_bounds(struct scan *scan, const struct region *region, uint64_t address,
		       uint64_t *start, uint64_t *end)
{
	const struct unwind_range *range = unwind_range_of(&scan->unwind, address);
	size_t next;
	int err;

	*start = region->address;
	*end = region->address + region->size;
	if (range) {
		narrow(range->address, address, start, end);
		narrow(range->address + range->size, address, start, end);
		return 0;
	}
	err = find_starts(scan);
	if (err)
		return err;
	next = count_up_to(scan->bounds, scan->bound_count, address);
	if (next)
		narrow(scan->bounds[next - 1], address, start, end);
	if (next < scan->bound_count)
		narrow(scan->bounds[next], address, start, end);
	if (address - *start > FAR)
		*start = address - FAR;
	if (*end - address > FAR)
		*end = address + FAR;
	return 0;
}

/* ---- judging one ---- */

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
	    dwarf_cfi_addrframe(scan->unwind.eh_frame,
				address + scan->image->bias - scan->unwind.eh_bias, &frame) != 0)
		return -1;
	if (dwarf_frame_cfa(frame, &ops, &count) == 0 && count == 1) {
		if (ops[0].atom == DW_OP_bregx)
			found = hardware_register(scan->image, ops[0].number);
		else if (ops[0].atom >= DW_OP_breg0 && ops[0].atom <= DW_OP_breg31)
			found = hardware_register(scan->image,
						  (uint64_t)(ops[0].atom - DW_OP_breg0));
	}
	free(frame);
	return found;
}

/* The function around the address becomes the one that is looked at. */
static int enter_function(struct scan *scan, const struct region *region, uint64_t address)
{
	if (address >= scan->start && address < scan->end)
		return 0;
	stack_flow_close(scan->flow);
	scan->flow = NULL;
	scan->has_frame = false;
	return find_bounds(scan, region, address, &scan->start, &scan->end);
}

static int open_flow(struct scan *scan, const struct region *region)
{
	struct stack_code code = {.machine = scan->image->machine,
				  .bytes = region->bytes + (scan->start - region->address),
				  .address = scan->start,
				  .size = scan->end - scan->start,
				  .frame_register = frame_register,
				  .is_endless = is_endless,
				  .context = scan};

	int err = find_endless(scan);

	if (err)
		return err;
	if (!scan->flow)
		scan->flow = stack_flow_open(&code);
	return scan->flow ? 0 : -errno;
}

/*
 * Where decoding has lost its way, what looks like a load counts as one. But not a single byte, as
 * `pop %rsp` or `leave` would be found in any table of numbers among the code; nor the end of an
 * instruction with an EVEX prefix (62, two bytes, 48 for a full vector), not all of which Capstone
 * knows.
 */
static bool is_switch(const struct region *region, size_t at, enum stack_load load, bool is_sure)
{
	if (load == STACK_LOAD_OWN)
		return false;
	if (is_sure)
		return load == STACK_LOAD_FOREIGN;
	return region->bytes[at] != 0x5c && region->bytes[at] != 0xc9 &&
	       !(at > 2 && region->bytes[at - 3] == 0x62);
}

/*
 * Bytes that stand before an opcode: of a segment, lock, REX with no effect where another follows
 * ...
 */
static bool is_prefix(uint8_t byte)
{
	return (byte & 0xf0) == 0x40 ||
	       memchr("\x26\x2e\x36\x3e\x64\x65\x66\x67\xf0\xf2\xf3", byte, 11);
}

/* The instruction at `place`, as far as its length goes; it may begin with prefixes before `at`. */
static size_t step_over(struct scan *scan, const struct region *region, size_t place, size_t at)
{
	const uint8_t *bytes = region->bytes + place;
	uint64_t address = region->address + place;
	size_t left = region->size - place, size = 1, prefixes = 0;
	uint32_t written;

	while (place + prefixes < at && is_prefix(bytes[prefixes]))
		prefixes++;
	if (place + prefixes == at)
		return prefixes;
	if (cs_disasm_iter(scan->decoder, &bytes, &left, &address, scan->insn))
		return scan->insn->size;
	size = flow_x86_unknown(bytes, left, &written);
	return size ? size : 1;
}

/*
 * May an instruction begin at `at`, in code that begins at `start`? One does in any fifteen bytes
 * before it: some way of reading from there leads here then. Mostly all lead past it, as code that
 * is read from its middle soon falls into step, and decoding the whole function is saved.
 */
static bool may_begin(struct scan *scan, const struct region *region, size_t start, size_t at)
{
	bool seen[DISTANCE + LONGEST] = {false};
	size_t from = at - start < DISTANCE + LONGEST ? start : at - DISTANCE - LONGEST;
	size_t last = from == start ? from : from + LONGEST - 1;

	for (size_t first = from; first <= last; first++) {
		size_t place = first;

		while (place < at && !seen[place - from]) {
			seen[place - from] = true;
			place += step_over(scan, region, place, at);
		}
		if (place == at)
			return true;
	}
	return false;
}

static void read_frame(struct scan *scan, const struct region *region)
{
	if (!scan->has_frame)
		scan->frame = stack_bytes_frame(region->bytes + (scan->start - region->address),
						scan->end - scan->start);
	scan->has_frame = true;
}

/*
 * The end of a frame whose rbp comes from the stack pointer, or points to the frame as the tables
 * know (in a part of a function that stands elsewhere). Bytes tell enough where none of them could
 * give it another value.
 */
static bool is_frame_end(struct scan *scan, const struct region *region, size_t at)
{
	uint64_t address = region->address + at;

	read_frame(scan, region);
	return !scan->frame.may_be_strange &&
	       (scan->frame.may_be_own || frame_register(address, scan) == RBP);
}

/* As bytes and a few instructions tell. */
static bool is_harmless(struct scan *scan, const struct region *region, size_t at,
			enum stack_bytes kind)
{
	if (scan->image->machine != EM_X86_64)
		return false;
	return (kind != STACK_BYTES_LOAD && is_frame_end(scan, region, at)) ||
	       !may_begin(scan, region, scan->start - region->address, at);
}

/* The instruction at `at`, or the one that begins with prefixes (of a segment ...) before it. */
static enum stack_load judge_at(struct scan *scan, const struct region *region, size_t at)
{
	enum stack_load load = stack_flow_judge(scan->flow, region->address + at);

	for (int i = 0; i < 4 && load == STACK_LOAD_NONE && at > 0; i++) {
		if (!is_prefix(region->bytes[--at]))
			break;
		load = stack_flow_judge(scan->flow, region->address + at);
	}
	return load;
}

static int judge(struct scan *scan, const struct region *region, size_t at, enum stack_bytes kind)
{
	uint64_t address = region->address + at;
	int err = open_tables(scan);
	enum stack_load load;

	if (!err)
		err = enter_function(scan, region, address);
	if (!err && is_harmless(scan, region, at, kind))
		return 0;
	if (!err)
		err = open_flow(scan, region);
	if (err)
		return err;
	load = judge_at(scan, region, at);
	if (is_switch(region, at, load, stack_flow_is_sure(scan->flow, address)))
		*scan->found = (struct stack_switch){.found = true, .address = address};
	return 0;
}

/* ---- the file ---- */

static int scan_x86(struct scan *scan, const struct region *region)
{
	size_t size = region->size, at = 0;
	int err = 0;

	while (at < size && !err && !scan->found->found) {
		const uint8_t *bytes = region->bytes + at;
		enum stack_bytes kind;

		if (at % STACK_BYTES_BLOCK == 0 && size - at >= STACK_BYTES_BLOCK + 2 &&
		    stack_bytes_none(bytes)) {
			at += STACK_BYTES_BLOCK;
			continue;
		}
		kind = stack_bytes_x86(bytes, at, size - at);
		if (kind != STACK_BYTES_NONE)
			err = judge(scan, region, at, kind);
		at++;
	}
	return err;
}

static int scan_arm64(struct scan *scan, const struct region *region)
{
	int err = 0;

	for (size_t at = 0; at < region->size && !err && !scan->found->found; at += 4) {
		if (stack_bytes_arm64(region->bytes + at, region->size - at))
			err = judge(scan, region, at, STACK_BYTES_LOAD);
	}
	return err;
}

static int scan_region(struct scan *scan, const struct region *region)
{
	return scan->image->machine == EM_X86_64 ? scan_x86(scan, region)
						 : scan_arm64(scan, region);
}

static int add_region(struct scan *scan, Elf_Data *data, uint64_t address)
{
	if (!data || !data->d_buf)
		return -EIO;
	if (vec_grow(&scan->regions, &scan->region_capacity, scan->region_count))
		return -ENOMEM;
	scan->regions[scan->region_count++] = (struct region){data->d_buf, address, data->d_size};
	return 0;
}

static int add_sections(struct scan *scan)
{
	Elf_Scn *scn = NULL;
	int err = 0;

	while (!err && (scn = elf_nextscn(scan->image->elf, scn))) {
		GElf_Shdr header;

		if (!gelf_getshdr(scn, &header) || header.sh_type != SHT_PROGBITS ||
		    !(header.sh_flags & SHF_EXECINSTR) || !header.sh_size)
			continue;
		err = add_region(scan, elf_rawdata(scn, NULL), header.sh_addr);
	}
	return err;
}

static int add_segments(struct scan *scan)
{
	int err = 0;

	for (size_t i = 0; !err && i < scan->image->segment_count; i++) {
		const struct image_segment *segment = &scan->image->segments[i];

		if (segment->executable)
			err = add_region(scan,
					 elf_getdata_rawchunk(scan->image->elf,
							      (int64_t)segment->offset,
							      segment->size, ELF_T_BYTE),
					 segment->address);
	}
	return err;
}

static int open_decoder(struct scan *scan)
{
	if (scan->image->machine != EM_X86_64)
		return 0;
	if (cs_open(CS_ARCH_X86, CS_MODE_64, &scan->decoder))
		return -ENOMEM;
	scan->insn = cs_malloc(scan->decoder);
	return scan->insn ? 0 : -ENOMEM;
}

static void close_scan(struct scan *scan)
{
	stack_flow_close(scan->flow);
	if (scan->has_unwind)
		unwind_close(&scan->unwind);
	if (scan->insn)
		cs_free(scan->insn, 1);
	if (scan->decoder)
		cs_close(&scan->decoder);
	free(scan->regions);
	free(scan->bounds);
	free(scan->endless);
}

int stack_switch_find(struct image *image, struct stack_switch *found)
{
	struct scan scan = {.image = image, .found = found};
	int err;

	*found = (struct stack_switch){0};
	if (image->machine != EM_X86_64 && image->machine != EM_AARCH64)
		return 0;
	err = open_decoder(&scan);
	if (!err)
		err = add_sections(&scan);
	if (!err && !scan.region_count)
		err = add_segments(&scan);
	for (size_t i = 0; i < scan.region_count && !err; i++)
		err = scan_region(&scan, &scan.regions[i]);
	close_scan(&scan);
	return err;
}
