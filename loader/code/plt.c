// SPDX-License-Identifier: GPL-2.0-or-later
#include "code/plt.h"

#include <elf.h>
#include <errno.h>
#include <gelf.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/vec.h"

enum { STUB_BYTES = 16 };

/* ---- slots ---- */

static int by_address(const void *left, const void *right)
{
	const struct stub_slot *a = left, *b = right;

	return (a->address > b->address) - (a->address < b->address);
}

/* The relocations of one section that name a symbol. */
static int read_relocations(struct stubs *stubs, Elf_Scn *section, const GElf_Shdr *header)
{
	Elf *elf = stubs->image->elf;
	Elf_Scn *symbols = elf_getscn(elf, header->sh_link);
	Elf_Data *relocations = elf_getdata(section, NULL),
		 *symbol_data = elf_getdata(symbols, NULL);
	GElf_Shdr symbol_header;
	GElf_Rela relocation;
	GElf_Sym symbol;

	if (!relocations || !symbol_data || !gelf_getshdr(symbols, &symbol_header))
		return 0;
	for (int i = 0; gelf_getrela(relocations, i, &relocation); i++) {
		int index = (int)GELF_R_SYM(relocation.r_info);
		const char *name;

		if (!index || !gelf_getsym(symbol_data, index, &symbol))
			continue;
		name = elf_strptr(elf, symbol_header.sh_link, symbol.st_name);
		if (!name || !*name)
			continue;
		if (vec_grow(&stubs->slots, &stubs->capacity, stubs->count))
			return -ENOMEM;
		stubs->slots[stubs->count++] = (struct stub_slot){relocation.r_offset, name};
	}
	return 0;
}

int stubs_open(const struct image *image, struct stubs *stubs)
{
	Elf_Scn *section = NULL;
	GElf_Shdr header;
	int err = 0;

	*stubs = (struct stubs){.image = image};
	while (!err && (section = elf_nextscn(image->elf, section)) != NULL)
		if (gelf_getshdr(section, &header) && header.sh_type == SHT_RELA)
			err = read_relocations(stubs, section, &header);
	if (stubs->count)
		qsort(stubs->slots, stubs->count, sizeof(*stubs->slots), by_address);
	return err;
}

void stubs_close(struct stubs *stubs)
{
	free(stubs->slots);
	*stubs = (struct stubs){0};
}

/* ---- code ---- */

/* [endbr64] [bnd] jmp *disp32(%rip) */
static uint64_t slot_x86(const uint8_t *b, uint64_t address)
{
	static const uint8_t endbr64[] = {0xf3, 0x0f, 0x1e, 0xfa};
	size_t at = memcmp(b, endbr64, sizeof(endbr64)) ? 0 : sizeof(endbr64);
	int32_t displacement;

	at += b[at] == 0xf2;
	if (b[at] != 0xff || b[at + 1] != 0x25)
		return 0;
	memcpy(&displacement, b + at + 2, sizeof(displacement));
	return address + at + 6 + (uint64_t)(int64_t)displacement;
}

static uint32_t word_at(const uint8_t *b)
{
	return b[0] | b[1] << 8 | b[2] << 16 | (uint32_t)b[3] << 24;
}

/* [bti c] adrp x16, page; ldr x17, [x16, #offset] */
static uint64_t slot_arm64(const uint8_t *b, uint64_t address)
{
	size_t at = word_at(b) == 0xd503245f ? 4 : 0;
	uint32_t adrp = word_at(b + at), ldr = word_at(b + at + 4);
	int64_t pages;

	if ((adrp & 0x9f00001f) != 0x90000010 || (ldr & 0xffc003ff) != 0xf9400211)
		return 0;
	pages = (int64_t)((adrp >> 5 & 0x7ffff) << 2 | (adrp >> 29 & 3));
	pages = pages & 1 << 20 ? pages - (1 << 21) : pages;
	return ((address + at) & ~0xfffull) + (uint64_t)(pages * 4096) + (ldr >> 10 & 0xfff) * 8;
}

const char *stubs_slot_name(const struct stubs *stubs, uint64_t slot)
{
	const struct stub_slot wanted = {.address = slot};
	const struct stub_slot *found = stubs->count ? bsearch(&wanted, stubs->slots, stubs->count,
							       sizeof(*stubs->slots), by_address)
						     : NULL;

	return found ? found->name : NULL;
}

const char *stubs_target(const struct stubs *stubs, uint64_t address)
{
	const struct image *image = stubs->image;
	uint8_t bytes[STUB_BYTES];
	uint64_t offset, slot = 0;

	if (!stubs->count || !image_offset(image, address, &offset) ||
	    pread(image->fd, bytes, sizeof(bytes), (off_t)offset) != (ssize_t)sizeof(bytes))
		return NULL;
	if (image->machine == EM_X86_64)
		slot = slot_x86(bytes, address);
	else if (image->machine == EM_AARCH64)
		slot = slot_arm64(bytes, address);
	return slot ? stubs_slot_name(stubs, slot) : NULL;
}
