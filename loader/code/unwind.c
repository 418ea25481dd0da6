// SPDX-License-Identifier: GPL-2.0-or-later
#include "code/unwind.h"

#include <dwarf.h>
#include <elf.h>
#include <errno.h>
#include <gelf.h>
#include <stdlib.h>
#include <string.h>

#include "base/search.h"
#include "base/vec.h"

/* DWARF's numbers of the stack pointers. */
enum { X86_64_RSP = 7, AARCH64_SP = 31 };

/* A section of tables, and where it lies. */
struct section {
	const unsigned char *identity; /* e_ident */
	Elf_Data *data;
	uint64_t address;
	bool is_eh; /* .eh_frame, not .debug_frame */
};

/* ---- the section ---- */

static bool find_section(Elf *elf, const char *name, struct section *section)
{
	Elf_Scn *scn = NULL;
	size_t names;

	if (!elf || elf_getshdrstrndx(elf, &names))
		return false;
	while ((scn = elf_nextscn(elf, scn))) {
		const char *found;
		GElf_Shdr header;

		if (!gelf_getshdr(scn, &header) || header.sh_type == SHT_NOBITS)
			continue;
		found = elf_strptr(elf, names, header.sh_name);
		if (!found || strcmp(found, name) != 0)
			continue;
		section->data = elf_rawdata(scn, NULL);
		section->address = header.sh_addr;
		return section->data && section->data->d_buf;
	}
	return false;
}

/*
 * Without section headers (sstrip): PT_GNU_EH_FRAME tells where .eh_frame begins, as every linker
 * writes it (relative to the field itself, in four bytes). It ends with a zero, at the latest with
 * its segment.
 */
static bool find_by_header(const struct image *image, struct section *section)
{
	size_t count;

	if (elf_getphdrnum(image->elf, &count))
		return false;
	for (size_t i = 0; i < count; i++) {
		uint64_t offset, address;
		uint8_t bytes[8];
		GElf_Phdr header;
		int32_t relative;
		Elf_Data *data;

		if (!gelf_getphdr(image->elf, (int)i, &header) || header.p_type != PT_GNU_EH_FRAME)
			continue;
		data = elf_getdata_rawchunk(image->elf, (int64_t)header.p_offset, sizeof(bytes),
					    ELF_T_BYTE);
		if (!data || !data->d_buf || data->d_size < sizeof(bytes))
			return false;
		memcpy(bytes, data->d_buf, sizeof(bytes));
		if (bytes[1] != (DW_EH_PE_pcrel | DW_EH_PE_sdata4))
			return false;
		memcpy(&relative, bytes + 4, sizeof(relative));
		address = header.p_vaddr + 4 + (uint64_t)(int64_t)relative;
		for (size_t k = 0; k < image->segment_count; k++) {
			const struct image_segment *segment = &image->segments[k];

			if (!image_offset(image, address, &offset) || offset < segment->offset ||
			    offset - segment->offset >= segment->size)
				continue;
			section->address = address;
			section->data = elf_getdata_rawchunk(
				image->elf, (int64_t)offset,
				segment->size - (offset - segment->offset), ELF_T_BYTE);
			return section->data && section->data->d_buf;
		}
	}
	return false;
}

static bool open_section(struct image *image, bool is_eh, struct section *section)
{
	GElf_Addr bias;
	Dwarf *dwarf;
	Elf *elf;

	*section = (struct section){
		.identity = (const unsigned char *)elf_getident(image->elf, NULL), .is_eh = is_eh};
	if (!section->identity)
		return false;
	if (is_eh)
		return find_section(image->elf, ".eh_frame", section) ||
		       find_by_header(image, section);
	dwarf = dwfl_module_getdwarf(image->module, &bias);
	if (!dwarf)
		return false;
	elf = dwarf_getelf(dwarf);
	/*
	 * Moved apart from its program (prelink): its addresses would need a bias; nobody does that
	 * now.
	 */
	return bias == image->bias && find_section(elf, ".debug_frame", section);
}

/* Calls visit for each entry of the section until it returns other than 0, which it gives back. */
static int each_entry(const struct section *section,
		      int (*visit)(const struct section *section, const Dwarf_CFI_Entry *entry,
				   void *context),
		      void *context)
{
	Dwarf_Off offset = 0, next = 0;
	Dwarf_CFI_Entry entry;
	int result = 0;

	while (!result && dwarf_next_cfi(section->identity, section->data, section->is_eh, offset,
					 &next, &entry) == 0) {
		result = visit(section, &entry, context);
		if (next <= offset)
			break;
		offset = next;
	}
	return result;
}

/* ---- the ranges ---- */

struct collector {
	struct unwind *unwind;
	size_t capacity;
	Dwarf_Off cie; /* the one read last: entries of one CIE stand together */
	int encoding;  /* of its addresses; -1: not understood */
};

/* How the FDEs of this CIE write addresses. */
static int encoding_of(const struct section *section, Dwarf_Off offset)
{
	const uint8_t *data;
	Dwarf_CFI_Entry cie;
	Dwarf_Off next;
	size_t at = 0;

	if (dwarf_next_cfi(section->identity, section->data, section->is_eh, offset, &next, &cie) !=
		    0 ||
	    !dwarf_cfi_cie_p(&cie))
		return -1;
	if (!section->is_eh || cie.cie.augmentation[0] != 'z')
		return section->is_eh && cie.cie.augmentation[0] ? -1 : DW_EH_PE_absptr;
	data = cie.cie.augmentation_data;
	for (const char *a = cie.cie.augmentation + 1; *a; a++) {
		if (at >= cie.cie.augmentation_data_size)
			return strchr(a, 'R') ? -1 : DW_EH_PE_absptr;
		if (*a == 'R')
			return data[at];
		if (*a == 'P') {
			static const uint8_t sizes[] = {8, 0, 2, 4, 8, 0, 0, 0};
			uint8_t size = sizes[data[at] & 7];

			if (!size || (data[at] & 0x70) == DW_EH_PE_aligned)
				return -1;
			at += 1u + size;
		} else if (*a == 'L') {
			at++;
		}
	}
	return DW_EH_PE_absptr;
}

/* Reads a value of this form at *at, moving it on. False if it does not fit or is not of a known size. */
static bool read_value(int encoding, const uint8_t **at, const uint8_t *end, uint64_t *value)
{
	static const uint8_t sizes[] = {8, 0, 2, 4, 8, 0, 0, 0};
	size_t size = sizes[encoding & 7];
	uint64_t raw = 0;

	if (!size || (size_t)(end - *at) < size)
		return false;
	for (size_t i = 0; i < size; i++)
		raw |= (uint64_t)(*at)[i] << 8 * i;
	if ((encoding & DW_EH_PE_signed) && size < 8)
		raw = (uint64_t)((int64_t)(raw << (64 - 8 * size)) >> (64 - 8 * size));
	*at += size;
	*value = raw;
	return true;
}

static int collect(const struct section *section, const Dwarf_CFI_Entry *entry, void *context)
{
	struct collector *c = context;
	struct unwind *unwind = c->unwind;
	uint64_t address, size;
	const uint8_t *at;

	if (dwarf_cfi_cie_p(entry))
		return 0;
	if (c->cie != entry->fde.CIE_pointer) {
		c->cie = entry->fde.CIE_pointer;
		c->encoding = encoding_of(section, c->cie);
	}
	at = entry->fde.start;
	if (c->encoding < 0 || (c->encoding & DW_EH_PE_indirect))
		return 0;
	if (!read_value(c->encoding, &at, entry->fde.end, &address) ||
	    !read_value(c->encoding & ~DW_EH_PE_signed, &at, entry->fde.end, &size))
		return 0;
	if ((c->encoding & 0x70) == DW_EH_PE_pcrel)
		address += section->address +
			   (uint64_t)(entry->fde.start - (uint8_t *)section->data->d_buf);
	else if (c->encoding & 0x70)
		return 0;
	/* At 0: of a function that the linker threw away. */
	if (!address || !size || size > UINT64_MAX - address)
		return 0;
	if (vec_grow(&unwind->ranges, &c->capacity, unwind->count))
		return -ENOMEM;
	unwind->ranges[unwind->count] =
		(struct unwind_range){address, size, (uint32_t)unwind->count};
	unwind->count++;
	return 0;
}

static int by_address(const void *a, const void *b)
{
	const struct unwind_range *x = a, *y = b;

	if (x->address != y->address)
		return x->address < y->address ? -1 : 1;
	return x->order > y->order ? -1 : x->order < y->order;
}

static int by_value(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

/* The ranges are sorted by address; this is their other order. */
static int index_order(struct unwind *unwind)
{
	size_t count = unwind->count ? unwind->count : 1;
	uint64_t *keys = malloc(count * sizeof(*keys));

	unwind->ordered = malloc(count * sizeof(*unwind->ordered));
	if (!keys || !unwind->ordered) {
		free(keys);
		return -ENOMEM;
	}
	for (size_t i = 0; i < unwind->count; i++)
		keys[i] = (uint64_t)unwind->ranges[i].order << 32 | i;
	qsort(keys, unwind->count, sizeof(*keys), by_value);
	for (size_t i = 0; i < unwind->count; i++) {
		unwind->ordered[i] = (uint32_t)keys[i];
		unwind->ranges[unwind->ordered[i]].order = (uint32_t)i;
	}
	free(keys);
	return 0;
}

/* .eh_frame and .debug_frame may both tell of one function: the first is kept. */
static void sort_ranges(struct unwind *unwind)
{
	size_t kept = 0;

	if (unwind->count)
		qsort(unwind->ranges, unwind->count, sizeof(*unwind->ranges), by_address);
	for (size_t i = 0; i < unwind->count; i++) {
		if (kept && unwind->ranges[kept - 1].address == unwind->ranges[i].address)
			kept--;
		unwind->ranges[kept++] = unwind->ranges[i];
	}
	unwind->count = kept;
}

int unwind_open(struct image *image, struct unwind *unwind)
{
	struct collector collector = {.unwind = unwind, .cie = UINT64_MAX};
	struct section section;
	int err = 0;

	*unwind = (struct unwind){.image = image};
	unwind->eh_frame = dwfl_module_eh_cfi(image->module, &unwind->eh_bias);
	unwind->debug_frame = dwfl_module_dwarf_cfi(image->module, &unwind->debug_bias);
	for (int is_eh = 1; is_eh >= 0 && !err; is_eh--) {
		collector.cie = UINT64_MAX;
		if (open_section(image, is_eh, &section))
			err = each_entry(&section, collect, &collector);
	}
	if (!err) {
		sort_ranges(unwind);
		err = index_order(unwind);
	}
	if (err)
		unwind_close(unwind);
	return err;
}

void unwind_close(struct unwind *unwind)
{
	free(unwind->ranges);
	free(unwind->ordered);
	*unwind = (struct unwind){0};
}

const struct unwind_range *unwind_range_of(const struct unwind *unwind, uint64_t address)
{
	size_t low;

	SEARCH_FIRST(low, unwind->count, unwind->ranges[low].address <= address);
	if (!low || address - unwind->ranges[low - 1].address >= unwind->ranges[low - 1].size)
		return NULL;
	return &unwind->ranges[low - 1];
}

/* ---- one frame ---- */

enum frame_state {
	FRAME_UNKNOWN = 0,
	FRAME_ENTRY,   /* as at the entry of a function */
	FRAME_BUILT,   /* as in the midst of one */
	FRAME_SPECIAL, /* a signal's, or one that takes an expression to find */
};

/*
 * As at the entry: the frame begins at the stack pointer plus what a call itself pushes, and no
 * more.
 */
static enum frame_state judge_frame(const struct unwind *unwind, Dwarf_Frame *frame)
{
	bool is_x86 = unwind->image->machine == EM_X86_64, is_signal = false;
	uint64_t reg, offset;
	size_t count = 0;
	Dwarf_Op *ops;

	dwarf_frame_info(frame, NULL, NULL, &is_signal);
	if (is_signal || dwarf_frame_cfa(frame, &ops, &count) || count != 1)
		return FRAME_SPECIAL;
	if (ops[0].atom == DW_OP_bregx) {
		reg = ops[0].number;
		offset = ops[0].number2;
	} else if (ops[0].atom >= DW_OP_breg0 && ops[0].atom <= DW_OP_breg31) {
		reg = (uint64_t)(ops[0].atom - DW_OP_breg0);
		offset = ops[0].number;
	} else {
		return FRAME_SPECIAL;
	}
	if (reg == (is_x86 ? X86_64_RSP : AARCH64_SP) && offset == (is_x86 ? 8 : 0))
		return FRAME_ENTRY;
	return FRAME_BUILT;
}

static enum frame_state frame_at(const struct unwind *unwind, uint64_t address)
{
	Dwarf_CFI *tables[] = {unwind->eh_frame, unwind->debug_frame};
	uint64_t biases[] = {unwind->eh_bias, unwind->debug_bias};

	if (!unwind->image ||
	    (unwind->image->machine != EM_X86_64 && unwind->image->machine != EM_AARCH64))
		return FRAME_UNKNOWN;
	for (size_t i = 0; i < sizeof(tables) / sizeof(tables[0]); i++) {
		uint64_t there = address + unwind->image->bias - biases[i];
		Dwarf_Frame *frame = NULL;
		enum frame_state state;

		if (!tables[i] || dwarf_cfi_addrframe(tables[i], there, &frame) != 0)
			continue;
		state = judge_frame(unwind, frame);
		free(frame);
		return state;
	}
	return FRAME_UNKNOWN;
}

bool unwind_is_entry_frame(const struct unwind *unwind, uint64_t address, bool *known)
{
	enum frame_state state = frame_at(unwind, address);

	*known = state != FRAME_UNKNOWN;
	return state == FRAME_ENTRY;
}

/*
 * Linkers write an entry for the stubs of the PLT, which begins like a part. Without sections none
 * is known.
 */
static bool is_compiled(const struct image *image, uint64_t address)
{
	Elf_Scn *scn = NULL;
	size_t names;

	if (elf_getshdrstrndx(image->elf, &names))
		return false;
	while ((scn = elf_nextscn(image->elf, scn))) {
		const char *name;
		GElf_Shdr header;

		if (!gelf_getshdr(scn, &header) || !(header.sh_flags & SHF_EXECINSTR) ||
		    address - header.sh_addr >= header.sh_size)
			continue;
		name = elf_strptr(image->elf, names, header.sh_name);
		return name && strncmp(name, ".plt", 4) != 0 && strncmp(name, ".iplt", 5) != 0;
	}
	return false;
}

const struct unwind_range *unwind_part_of(const struct unwind *unwind,
					  const struct unwind_range *range)
{
	const struct unwind_range *next;

	if (range->order + 1 >= unwind->count)
		return NULL;
	next = &unwind->ranges[unwind->ordered[range->order + 1]];
	if (frame_at(unwind, next->address) != FRAME_BUILT ||
	    !is_compiled(unwind->image, next->address))
		return NULL;
	return next;
}

/* ---- personality ---- */

static int find_personality(const struct section *section, const Dwarf_CFI_Entry *entry,
			    void *context)
{
	(void)section;
	(void)context;
	return dwarf_cfi_cie_p(entry) && entry->cie.augmentation &&
	       strchr(entry->cie.augmentation, 'P');
}

bool unwind_has_personality(struct image *image)
{
	struct section section;

	return open_section(image, true, &section) && each_entry(&section, find_personality, NULL);
}
