// SPDX-License-Identifier: GPL-2.0-or-later
#include "program/image.h"

#include <dwarf.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <gelf.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* libdwfl opens files that a command we launch would inherit. */
static int find_debuginfo(Dwfl_Module *module, void **data, const char *name, Dwarf_Addr base,
			  const char *file, const char *link, GElf_Word checksum, char **found)
{
	int fd =
		dwfl_standard_find_debuginfo(module, data, name, base, file, link, checksum, found);

	if (fd >= 0)
		fcntl(fd, F_SETFD, FD_CLOEXEC);
	return fd;
}

static const Dwfl_Callbacks callbacks = {
	.find_elf = dwfl_build_id_find_elf,
	.find_debuginfo = find_debuginfo,
};

/*
 * The module's file, and an ELF file by its first bytes, before libdwfl refuses the file with less
 * meaning.
 */
static int check_header(int fd, const struct module *module)
{
	unsigned char identity[EI_NIDENT];
	struct stat status;

	if (fstat(fd, &status))
		return -errno;
	if (module->inode && (status.st_ino != module->inode || status.st_dev != module->device))
		return -ESTALE;
	if (!S_ISREG(status.st_mode))
		return -ENOEXEC;
	if (pread(fd, identity, sizeof(identity), 0) != sizeof(identity) ||
	    memcmp(identity, ELFMAG, SELFMAG) != 0)
		return -ENOEXEC;
	return 0;
}

/*
 * libdwfl gets its own descriptor, which it closes. The path is only given to it as the place beside
 * which a debug file may lie (whose build id or checksum it verifies).
 */
static int report_file(struct image *image, const struct module *module)
{
	int fd = fcntl(image->fd, F_DUPFD_CLOEXEC, 3);

	if (fd < 0)
		return -errno;
	image->dwfl = dwfl_begin(&callbacks);
	if (!image->dwfl) {
		close(fd);
		return -ENOMEM;
	}
	dwfl_report_begin(image->dwfl);
	image->module = dwfl_report_elf(image->dwfl, module->base, module->path, fd, 0, true);
	if (!image->module) {
		close(fd);
		return -ENOEXEC;
	}
	dwfl_report_end(image->dwfl, NULL, NULL);
	image->elf = dwfl_module_getelf(image->module, &image->bias);
	return image->elf ? 0 : -ENOEXEC;
}

static int read_segments(struct image *image)
{
	size_t count;

	if (elf_getphdrnum(image->elf, &count))
		return -ENOEXEC;
	image->segments = calloc(count ? count : 1, sizeof(*image->segments));
	if (!image->segments)
		return -ENOMEM;
	for (size_t i = 0; i < count; i++) {
		struct image_segment *segment = &image->segments[image->segment_count];
		GElf_Phdr header;

		if (!gelf_getphdr(image->elf, (int)i, &header) || header.p_type != PT_LOAD ||
		    !header.p_filesz)
			continue;
		segment->address = header.p_vaddr;
		segment->size = header.p_filesz;
		segment->offset = header.p_offset;
		segment->executable = header.p_flags & PF_X;
		image->segment_count++;
	}
	return 0;
}

static int read_header(struct image *image)
{
	GElf_Ehdr header;

	if (!gelf_getehdr(image->elf, &header) ||
	    (header.e_type != ET_EXEC && header.e_type != ET_DYN))
		return -ENOEXEC;
	image->type = header.e_type;
	image->machine = header.e_machine;
	image->entry = header.e_entry;
	image->is_class64 = header.e_ident[EI_CLASS] == ELFCLASS64;
	return read_segments(image);
}

int image_open(const struct module *module, struct image *image)
{
	int err;

	*image = (struct image){.fd = open(module->probe_path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
	if (image->fd < 0)
		return -errno;
	err = check_header(image->fd, module);
	if (!err)
		err = report_file(image, module);
	if (!err)
		err = read_header(image);
	if (err)
		image_close(image);
	return err;
}

void image_close(struct image *image)
{
	if (image->dwfl)
		dwfl_end(image->dwfl);
	if (image->fd > 0)
		close(image->fd);
	free(image->segments);
	*image = (struct image){0};
}

static const struct image_segment *segment_of(const struct image *image, uint64_t address)
{
	for (size_t i = 0; i < image->segment_count; i++) {
		const struct image_segment *segment = &image->segments[i];

		if (address >= segment->address && address - segment->address < segment->size)
			return segment;
	}
	return NULL;
}

bool image_offset(const struct image *image, uint64_t address, uint64_t *offset)
{
	const struct image_segment *segment = segment_of(image, address);

	if (!segment || segment->offset > UINT64_MAX - (address - segment->address))
		return false;
	*offset = address - segment->address + segment->offset;
	return true;
}

/* Where a linker put code and constants into one segment, the section tells them apart. */
static bool is_in_code(const struct image *image, Elf *elf, uint64_t address, GElf_Word section)
{
	const struct image_segment *segment = segment_of(image, address);
	GElf_Shdr header;
	Elf_Scn *scn;

	if (!segment || !segment->executable)
		return false;
	if (section == SHN_UNDEF || section == SHN_ABS || !elf)
		return section != SHN_ABS;
	scn = elf_getscn(elf, section);
	return !scn || !gelf_getshdr(scn, &header) || (header.sh_flags & SHF_EXECINSTR);
}

typedef int symbol_visitor(const struct image_symbol *symbol, void *context);

/* A symbol of `elf`, one of the image's files; an empty name is passed over. */
static int visit_symbol(const struct image *image, Elf *elf, const char *name, const GElf_Sym *sym,
			uint64_t address, GElf_Word section, symbol_visitor *visit, void *context)
{
	struct image_symbol symbol = {.name = name,
				      .address = address,
				      .size = sym->st_size,
				      .type = GELF_ST_TYPE(sym->st_info),
				      .binding = GELF_ST_BIND(sym->st_info),
				      .undefined = section == SHN_UNDEF};

	if (!name || !*name)
		return 0;
	symbol.in_code = !symbol.undefined && is_in_code(image, elf, address, section);
	return visit(&symbol, context);
}

static int each_of_dwfl(struct image *image, symbol_visitor *visit, void *context)
{
	int count = dwfl_module_getsymtab(image->module), result = 0;

	for (int i = 1; i < count && !result; i++) {
		GElf_Addr address, bias;
		GElf_Word section;
		GElf_Sym sym;
		Elf *elf = NULL;
		const char *name = dwfl_module_getsym_info(image->module, i, &sym, &address,
							   &section, &elf, &bias);

		if (name)
			result = visit_symbol(image, elf, name, &sym, address - image->bias,
					      section, visit, context);
	}
	return result;
}

static int each_of_section(struct image *image, Elf_Scn *scn, const GElf_Shdr *header,
			   symbol_visitor *visit, void *context)
{
	Elf_Data *data = elf_getdata(scn, NULL);
	size_t count = data && header->sh_entsize ? data->d_size / header->sh_entsize : 0;

	int result = 0;

	for (size_t i = 1; i < count && i < INT32_MAX && !result; i++) {
		GElf_Sym sym;

		if (!gelf_getsym(data, (int)i, &sym))
			break;
		result = visit_symbol(image, image->elf,
				      elf_strptr(image->elf, header->sh_link, sym.st_name), &sym,
				      sym.st_value, sym.st_shndx, visit, context);
	}
	return result;
}

/*
 * libdwfl looks at .dynsym only when there is no other table. A table that was thinned out (strip
 * -K) may lack the imports and exports that are there in truth, and what is imported decides about
 * safety.
 */
static int each_of_dynsym(struct image *image, symbol_visitor *visit, void *context)
{
	Elf_Scn *scn = NULL;
	int result = 0;

	while (!result && (scn = elf_nextscn(image->elf, scn))) {
		GElf_Shdr header;

		if (gelf_getshdr(scn, &header) && header.sh_type == SHT_DYNSYM)
			result = each_of_section(image, scn, &header, visit, context);
	}
	return result;
}

int image_each_symbol(struct image *image,
		      int (*visit)(const struct image_symbol *symbol, void *context), void *context)
{
	int result = each_of_dwfl(image, visit, context);

	return result ? result : each_of_dynsym(image, visit, context);
}

bool image_has_section(const struct image *image, const char *name)
{
	Elf_Scn *scn = NULL;
	size_t names;

	if (elf_getshdrstrndx(image->elf, &names))
		return false;
	while ((scn = elf_nextscn(image->elf, scn))) {
		const char *found;
		GElf_Shdr header;

		if (!gelf_getshdr(scn, &header))
			continue;
		found = elf_strptr(image->elf, names, header.sh_name);
		if (found && strcmp(found, name) == 0)
			return true;
	}
	return false;
}

static bool is_text_relocated(const GElf_Dyn *entry)
{
	return entry->d_tag == DT_TEXTREL ||
	       (entry->d_tag == DT_FLAGS && (entry->d_un.d_val & DF_TEXTREL));
}

bool image_has_text_relocations(const struct image *image)
{
	Elf_Scn *scn = NULL;

	while ((scn = elf_nextscn(image->elf, scn))) {
		GElf_Shdr header;
		Elf_Data *data;
		GElf_Dyn entry;

		if (!gelf_getshdr(scn, &header) || header.sh_type != SHT_DYNAMIC)
			continue;
		data = elf_getdata(scn, NULL);
		for (int i = 0; data && gelf_getdyn(data, i, &entry); i++) {
			if (is_text_relocated(&entry))
				return true;
		}
	}
	return false;
}

bool image_interpreter(const struct image *image, char *path, size_t size)
{
	size_t count;

	if (elf_getphdrnum(image->elf, &count))
		return false;
	for (size_t i = 0; i < count; i++) {
		GElf_Phdr header;

		if (!gelf_getphdr(image->elf, (int)i, &header) || header.p_type != PT_INTERP)
			continue;
		if (!header.p_filesz || header.p_filesz > size)
			return false;
		if (pread(image->fd, path, header.p_filesz, (off_t)header.p_offset) !=
		    (ssize_t)header.p_filesz)
			return false;
		return path[header.p_filesz - 1] == '\0' && path[0];
	}
	return false;
}

static int is_inlined_as(Dwarf_Die *function, void *name)
{
	const char *own = dwarf_diename(function);

	if (own && strcmp(own, name) == 0 && dwarf_func_inline(function))
		return DWARF_CB_ABORT;
	return DWARF_CB_OK;
}

bool image_inlines(struct image *image, const char *name)
{
	char wanted[256];
	Dwarf_Die *unit = NULL;
	Dwarf_Addr bias;

	if (strlen(name) >= sizeof(wanted))
		return false;
	strcpy(wanted, name);
	while ((unit = dwfl_module_nextcu(image->module, unit, &bias))) {
		if (dwarf_getfuncs(unit, is_inlined_as, wanted, 0) > 0)
			return true;
	}
	return false;
}
