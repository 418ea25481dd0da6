// SPDX-License-Identifier: GPL-2.0-or-later
#include "code/exits.h"

#include <criterion/criterion.h>
#include <elf.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "disassembled.h"

/* ---- compiled functions, against objdump ---- */

static const char *const x86_commands[] = {
	"gcc -O0",
	"gcc -O1",
	"gcc -O2",
	"gcc -O3",
	"gcc -Os",
	"gcc -O0 -fcf-protection=none",
	"gcc -O1 -fcf-protection=full",
	"gcc -O2 -fcf-protection=full",
	"gcc -Os -fcf-protection=full",
	"gcc -O2 -fcf-protection=none",
	"gcc -O2 -fcf-protection=none -fno-omit-frame-pointer",
	"gcc -O3 -march=skylake-avx512 -fcf-protection=none",
	"gcc -O2 -mfunction-return=thunk-extern -fcf-protection=none",
	"gcc -O2 -fno-plt -fstack-protector-all",
	"gcc -O2 -fstack-clash-protection -pg -mfentry",
	"clang -O0",
	"clang -O1",
	"clang -O2 -fcf-protection=full",
	"clang -O2 -fcf-protection=none",
	"clang -O3 -march=skylake-avx512",
	"clang -Os",
};

static const char *const arm64_commands[] = {
	"aarch64-linux-gnu-gcc -O0",
	"aarch64-linux-gnu-gcc -O1",
	"aarch64-linux-gnu-gcc -O2",
	"aarch64-linux-gnu-gcc -O3 -mbranch-protection=standard",
	"aarch64-linux-gnu-gcc -Os",
	"clang --target=aarch64-linux-gnu -fuse-ld=lld -O0",
	"clang --target=aarch64-linux-gnu -fuse-ld=lld -O2",
	"clang --target=aarch64-linux-gnu -fuse-ld=lld -O2 -mbranch-protection=standard",
};

/* A function, its cold part, and what is true of them. */
struct truth {
	struct shape_range ranges[2];
	size_t range_count;
	struct exit_site exits[64];
	size_t exit_count;
	uint64_t callees[64];
	size_t callee_count;
	bool calls_indirectly;
	bool is_looped_to;
};

static bool is_inside(const struct truth *truth, uint64_t address)
{
	for (size_t i = 0; i < truth->range_count; i++) {
		if (address - truth->ranges[i].address < truth->ranges[i].size)
			return true;
	}
	return false;
}

static bool begins(const char *text, const char *word)
{
	return strncmp(text, word, strlen(word)) == 0;
}

/* The kind of exit that this line is if it leaves; 0: none. */
static enum site_kind kind_of(const struct line *line)
{
	const char *text = line->text;

	if (begins(text, "bnd ") || begins(text, "rep "))
		text += 4;
	if (begins(text, "repz "))
		text += 5;
	if (begins(text, "ret"))
		return SITE_RETURN;
	if (begins(text, "jmp ") || begins(text, "b "))
		return line->target ? SITE_JUMP : SITE_INDIRECT;
	if (begins(text, "br "))
		return SITE_INDIRECT;
	if (line->target &&
	    (text[0] == 'j' || begins(text, "b.") || begins(text, "cb") || begins(text, "tb")))
		return SITE_CONDITIONAL;
	return 0;
}

static void add_callee(struct truth *truth, uint64_t target)
{
	for (size_t i = 0; i < truth->callee_count; i++) {
		if (truth->callees[i] == target)
			return;
	}
	cr_assert_lt(truth->callee_count, 64);
	truth->callees[truth->callee_count++] = target;
}

static void add_line(struct truth *truth, const struct line *line, uint64_t next)
{
	enum site_kind kind = kind_of(line);
	bool is_direct = kind == SITE_JUMP || kind == SITE_CONDITIONAL;

	if (begins(line->text, "call ") || begins(line->text, "bl "))
		line->target ? add_callee(truth, line->target)
			     : (void)(truth->calls_indirectly = true);
	truth->calls_indirectly |= begins(line->text, "blr ");
	if (!kind || (is_direct && is_inside(truth, line->target))) {
		truth->is_looped_to |= kind && line->target == truth->ranges[0].address;
		return;
	}
	if (is_direct)
		add_callee(truth, line->target);
	cr_assert_lt(truth->exit_count, 64);
	truth->exits[truth->exit_count++] =
		(struct exit_site){.address = line->address,
				   .target = line->target,
				   .kind = (uint8_t)kind,
				   .length = (uint8_t)(next - line->address)};
}

static void tell_truth(struct object *object, const struct listing *listing,
		       const struct named *named, struct truth *truth)
{
	struct named cold;
	char name[80];

	*truth = (struct truth){.ranges = {{named->address, named->size}}, .range_count = 1};
	snprintf(name, sizeof(name), "%s.cold", named->name);
	if (object_find(object, name, &cold))
		truth->ranges[truth->range_count++] = (struct shape_range){cold.address, cold.size};
	for (size_t i = 0; i < listing->count; i++) {
		const struct line *line = &listing->lines[i];

		if (is_inside(truth, line->address))
			add_line(truth, line,
				 i + 1 < listing->count ? line[1].address : line->address);
	}
}

static const struct exit_site *site_at(const struct function_shape *shape, uint64_t address)
{
	for (size_t i = 0; i < shape->exit_count; i++) {
		if (shape->exits[i].address == address)
			return &shape->exits[i];
	}
	return NULL;
}

/* Of an indirect jump objdump does not say whether it leaves. Their functions' names do. */
static bool is_told_apart(const char *name, bool leaves)
{
	return leaves ? begins(name, "tail_") : !begins(name, "table_leaf");
}

static void assert_same_exits(const struct truth *truth, const struct function_shape *shape,
			      const char *name, bool has_exact_tables, const char *command)
{
	size_t found = 0;

	for (size_t i = 0; i < truth->exit_count; i++) {
		const struct exit_site *wanted = &truth->exits[i],
				       *site = site_at(shape, wanted->address);
		bool is_sure = wanted->kind != SITE_INDIRECT || is_told_apart(name, true);

		found += site != NULL;
		if (!site && !is_sure)
			continue;
		cr_assert_not_null(site, "%s: %s: no exit at %" PRIx64, command, name,
				   wanted->address);
		cr_assert_eq(site->kind, wanted->kind, "%s: %s at %" PRIx64, command, name,
			     wanted->address);
		if (wanted->kind != SITE_INDIRECT)
			cr_assert_eq(site->target, wanted->target);
		else if (has_exact_tables)
			cr_assert(is_sure || !is_told_apart(name, false),
				  "%s: %s: a table at %" PRIx64 " is taken for an exit", command,
				  name, wanted->address);
		if (wanted->length && is_inside(truth, wanted->address + wanted->length))
			cr_assert_eq(site->length, wanted->length);
	}
	cr_assert_eq(found, shape->exit_count, "%s: %s: %zu exits, not %zu", command, name,
		     shape->exit_count, found);
}

static void assert_same_calls(const struct truth *truth, const struct function_shape *shape,
			      const char *name, const char *command)
{
	cr_assert_eq(shape->callee_count, truth->callee_count, "%s: %s: %zu callees, not %zu",
		     command, name, shape->callee_count, truth->callee_count);
	for (size_t i = 0; i < shape->callee_count; i++) {
		bool is_one = false;

		for (size_t k = 0; k < truth->callee_count; k++)
			is_one |= shape->callees[i] == truth->callees[k];
		cr_assert(is_one, "%s: %s calls no %" PRIx64, command, name, shape->callees[i]);
		cr_assert(i == 0 || shape->callees[i] > shape->callees[i - 1]);
	}
	cr_assert_eq(shape->calls_indirectly, truth->calls_indirectly, "%s: %s", command, name);
	cr_assert_eq(shape->is_looped_to, truth->is_looped_to, "%s: %s", command, name);
	cr_assert_not(shape->enters_kernel);
}

/*
 * Arrays of a variable size may be given back by a load that looks like a switch; nothing else
 * does.
 */
static void assert_stack(const struct function_shape *shape, const char *name, const char *command)
{
	bool may = begins(name, "variable") || begins(name, "aligned_variable");

	cr_assert(!shape->loads_stack_pointer || may, "%s: %s loads the stack pointer", command,
		  name);
}

/* Nothing in it could unwind or switch stacks: what shapes_is_closed() asks first. */
static bool is_leaf(const struct function_shape *shape)
{
	for (size_t i = 0; i < shape->exit_count; i++) {
		if (shape->exits[i].kind != SITE_RETURN)
			return false;
	}
	return shape->decoded && !shape->callee_count && !shape->calls_indirectly &&
	       !shape->enters_kernel && !shape->loads_stack_pointer;
}

static void assert_leaf(const struct truth *truth, const struct function_shape *shape,
			const char *name, const char *command)
{
	bool leaf = !truth->callee_count && !truth->calls_indirectly;

	for (size_t i = 0; i < shape->exit_count; i++)
		leaf &= shape->exits[i].kind == SITE_RETURN;
	cr_assert_eq(is_leaf(shape), leaf && !shape->loads_stack_pointer, "%s: %s", command, name);
}

static void compare(struct object *object, const struct listing *listing, const struct named *named,
		    const char *command)
{
	bool is_exact = !begins(command, "clang --target=aarch64");
	struct function_shape shape;
	struct truth truth;

	tell_truth(object, listing, named, &truth);
	for (int with_tables = 1; with_tables >= 0; with_tables--) {
		cr_assert_eq(object_shape(object, named, with_tables, COLD_TOLD, &shape), 0,
			     "%s: %s: %s", command, named->name, shape.why);
		cr_assert(shape.decoded);
		cr_assert_eq(shape.range_count, truth.range_count, "%s: %s", command, named->name);
		assert_same_exits(&truth, &shape, named->name, with_tables && is_exact, command);
		assert_same_calls(&truth, &shape, named->name, command);
		assert_stack(&shape, named->name, command);
		assert_leaf(&truth, &shape, named->name, command);
		function_shape_clear(&shape);
	}
}

/* Returns how many functions were compared; 0 if the compiler is not here. */
static size_t compare_all(const char *command, const char *source)
{
	struct listing listing;
	struct named *functions;
	struct object object;
	size_t count;

	if (!object_build(command, source, &object))
		return 0;
	object_list(&object, &listing);
	count = object_functions(&object, &functions);
	cr_assert_gt(count, 10);
	for (size_t i = 0; i < count; i++)
		compare(&object, &listing, &functions[i], command);
	free(functions);
	free(listing.lines);
	object_close(&object);
	return count;
}

Test(disassemble, exits_of_x86_functions_are_those_that_objdump_shows)
{
	size_t compared = 0;

	for (size_t i = 0; i < sizeof(x86_commands) / sizeof(x86_commands[0]); i++)
		compared += compare_all(x86_commands[i], "flow.c");
	cr_assert_gt(compared, 100);
}

Test(disassemble, exits_of_arm64_functions_are_those_that_objdump_shows)
{
	size_t compared = 0;

	if (system("command -v aarch64-linux-gnu-objdump >/dev/null 2>&1"))
		cr_skip_test("no objdump for arm64 is installed");
	for (size_t i = 0; i < sizeof(arm64_commands) / sizeof(arm64_commands[0]); i++)
		compared += compare_all(arm64_commands[i], "flow.c");
	cr_assert_gt(compared, 50);
}

/* The first line at or behind the address: they are sorted. */
static size_t line_at(const struct listing *listing, uint64_t address)
{
	size_t low = 0, high = listing->count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (listing->lines[middle].address < address)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static size_t count_returns(const struct listing *listing, const struct shape_range *range)
{
	size_t count = 0;

	for (size_t i = line_at(listing, range->address);
	     i < listing->count && listing->lines[i].address - range->address < range->size; i++)
		count += kind_of(&listing->lines[i]) == SITE_RETURN;
	return count;
}

/* This very program, with what of libiberty is in it: whatever compiled it. */
Test(disassemble, the_test_program_itself_is_understood)
{
	struct named *functions;
	struct listing listing;
	struct object object;
	char path[256] = "";
	size_t count;

	cr_assert_gt(readlink("/proc/self/exe", path, sizeof(path) - 1), 0);
	object_open(path, &object);
	object_list(&object, &listing);
	count = object_functions(&object, &functions);
	cr_assert_gt(count, 200);
	for (size_t i = 0; i < count; i++) {
		size_t returns = 0, wanted = 0;
		struct function_shape shape;

		cr_assert_eq(object_shape(&object, &functions[i], true, COLD_ASKED, &shape), 0,
			     "%s: %s", functions[i].name, shape.why);
		for (size_t k = 0; k < shape.exit_count; k++)
			returns += shape.exits[k].kind == SITE_RETURN;
		for (size_t k = 0; k < shape.range_count; k++)
			wanted += count_returns(&listing, &shape.ranges[k]);
		cr_assert_eq(returns, wanted, "%s: %zu returns, not %zu", functions[i].name,
			     returns, wanted);
		function_shape_clear(&shape);
	}
	free(functions);
	free(listing.lines);
	object_close(&object);
}

/* A cold part of which nobody tells is not a tail call: the frame shows it. */
Test(disassemble, a_jump_to_an_unknown_part_is_refused)
{
	struct function_shape shape;
	struct object object;
	struct named named;

	cr_assert(object_build("gcc -O2", "flow.c", &object));
	cr_assert(object_find(&object, "has_cold", &named));
	cr_assert_eq(object_shape(&object, &named, true, COLD_UNKNOWN, &shape), -ENOTSUP);
	cr_assert_not_null(strstr(shape.why, "a jump to a part that is not known"), "%s",
			   shape.why);
	cr_assert_not(shape.decoded);
	function_shape_clear(&shape);
	cr_assert_eq(object_shape(&object, &named, true, COLD_ASKED, &shape), 0);
	cr_assert_eq(shape.range_count, 2);
	function_shape_clear(&shape);
	object_close(&object);
}

/* ---- bytes, by hand ---- */

enum { AT = 0x1000 };

static struct function_shape shape;

static int read_ranges(uint16_t machine, const struct code_range *ranges, size_t count,
		       uint64_t probe)
{
	struct function_code code = {
		.machine = machine, .ranges = ranges, .range_count = count, .probe = probe};

	function_shape_clear(&shape);
	return function_shape_read(&code, &shape);
}

static int read_code(uint16_t machine, const void *bytes, size_t size)
{
	/* On the heap and no byte longer: AddressSanitizer sees what reads beyond. */
	uint8_t *copy = malloc(size);
	int err;

	memcpy(copy, bytes, size);
	err = read_ranges(machine, &(struct code_range){copy, AT, size}, 1, AT);
	free(copy);
	return err;
}

#define X86(...) \
	read_code(EM_X86_64, (const uint8_t[]){__VA_ARGS__}, sizeof((const uint8_t[]){__VA_ARGS__}))
#define ARM64(...)                                             \
	read_code(EM_AARCH64, (const uint32_t[]){__VA_ARGS__}, \
		  sizeof((const uint32_t[]){__VA_ARGS__}))

#define RET  0xc3
#define NOP  0x90
#define PUSH 0x55
#define POP  0x5d

static const struct exit_site *only_exit(uint64_t offset, enum site_kind kind, uint8_t length)
{
	cr_assert(shape.decoded, "%s", shape.why);
	cr_assert_eq(shape.exit_count, 1);
	cr_assert_eq(shape.exits[0].address, AT + offset);
	cr_assert_eq(shape.exits[0].kind, kind);
	cr_assert_eq(shape.exits[0].length, length);
	return &shape.exits[0];
}

static void assert_refused(int err, const char *why)
{
	cr_assert_eq(err, -ENOTSUP, "taken, not refused for %s", why);
	cr_assert_not(shape.decoded);
	cr_assert_not_null(strstr(shape.why, why), "%s", shape.why);
}

Test(disassemble, returns_in_all_forms)
{
	cr_assert_eq(X86(RET), 0);
	cr_assert_eq(only_exit(0, SITE_RETURN, 1)->pop, 0);
	cr_assert(is_leaf(&shape));
	cr_assert_eq(X86(NOP, 0xf3, RET), 0); /* rep ret */
	only_exit(1, SITE_RETURN, 2);
	cr_assert_eq(X86(NOP, 0xf2, RET), 0); /* bnd ret */
	only_exit(1, SITE_RETURN, 2);
	cr_assert_eq(X86(0xc2, 0x10, 0x01), 0);
	cr_assert_eq(only_exit(0, SITE_RETURN, 3)->pop, 0x110);
	cr_assert_eq(X86(0x75, 0x01, RET, RET), 0);
	cr_assert_eq(shape.exit_count, 2);
	cr_assert_eq(shape.exits[0].address, AT + 2);
	cr_assert_eq(shape.exits[1].address, AT + 3);
	/* What only looks like one: inside of an immediate, and behind the end. */
	cr_assert_eq(X86(0xb8, RET, RET, RET, RET, RET), 0);
	only_exit(5, SITE_RETURN, 1);
	assert_refused(X86(NOP, 0xcb), "bytes that cannot be decoded at +0x1"); /* far */
	assert_refused(X86(NOP, 0x48, 0xcf), "cannot be decoded at +0x1");	/* iretq */
	assert_refused(X86(0x66, RET), "cannot be decoded at +0x0");
	assert_refused(X86(0x2e, RET),
		       "a segment prefix, on which the kernel takes no probe at +0x0");
	assert_refused(X86(0x3e, RET), "a notrack or ds prefix");
	function_shape_clear(&shape);
}

Test(disassemble, jumps_that_leave)
{
	const struct exit_site *site;

	cr_assert_eq(X86(0xe9, 0x00, 0x01, 0x00, 0x00), 0);
	site = only_exit(0, SITE_JUMP, 5);
	cr_assert_eq(site->target, AT + 0x105);
	cr_assert(site->is_emulated);
	cr_assert_eq(shape.callee_count, 1);
	cr_assert_eq(shape.callees[0], AT + 0x105);
	cr_assert_not(is_leaf(&shape));
	cr_assert_eq(X86(0xf2, 0xe9, 0xf0, 0xff, 0xff, 0xff), 0); /* bnd jmp, backwards */
	cr_assert_eq(only_exit(0, SITE_JUMP, 6)->target, AT - 10);
	cr_assert_eq(X86(0xeb, 0x70), 0);
	cr_assert_eq(only_exit(0, SITE_JUMP, 2)->target, AT + 0x72);
	for (uint8_t code = 0; code < 16; code++) {
		cr_assert_eq(X86(0x70 | code, 0x40, 0xeb, 0xfc), 0);
		site = only_exit(0, SITE_CONDITIONAL, 2);
		cr_assert_eq(site->condition, SITE_FLAGS);
		cr_assert_eq(site->code, code);
		cr_assert_eq(site->target, AT + 0x42);
		cr_assert(site->is_emulated);
		cr_assert_eq(X86(0x0f, 0x80 | code, 0x00, 0x00, 0x01, 0x00, 0xeb, 0xf8), 0);
		site = only_exit(0, SITE_CONDITIONAL, 6);
		cr_assert_eq(site->code, code);
		cr_assert_eq(site->target, AT + 0x10006);
	}
	cr_assert_eq(X86(0xe3, 0x40, 0xeb, 0xfc), 0); /* jrcxz */
	site = only_exit(0, SITE_CONDITIONAL, 2);
	cr_assert_eq(site->condition, SITE_ZERO);
	cr_assert_eq(site->base, 1);
	cr_assert_eq(site->width, 64);
	cr_assert_not(site->is_emulated);
	cr_assert_eq(X86(0x67, 0xe3, 0x40, 0xeb, 0xfb), 0); /* jecxz */
	cr_assert_eq(only_exit(0, SITE_CONDITIONAL, 3)->width, 32);
	assert_refused(X86(0xe2, 0x40, RET), "a loop instruction");
	/* inside it is just a loop */
	cr_assert_eq(X86(NOP, 0xe2, 0xfd, RET), 0);
	assert_refused(X86(0x2e, 0x75, 0x40, RET), "a segment prefix"); /* a hint: not taken */
	assert_refused(X86(0x3e, 0xe9, 0, 1, 0, 0), "a notrack or ds prefix");
	assert_refused(X86(0x66, 0xe9, 0x00, 0x01, 0x00, 0x00), "cannot be decoded");
	assert_refused(X86(0xea, 0, 0, 0, 0, 0, 0), "cannot be decoded");
	function_shape_clear(&shape);
}

Test(disassemble, indirect_jumps_with_their_operands)
{
	const struct exit_site *site;

	cr_assert_eq(X86(0xff, 0xe0), 0);
	site = only_exit(0, SITE_INDIRECT, 2);
	cr_assert_eq(site->base, 0);
	cr_assert_not(site->is_memory);
	cr_assert_not(site->is_emulated);
	cr_assert_not(is_leaf(&shape));
	cr_assert_eq(X86(0x41, 0xff, 0xe3), 0);
	cr_assert_eq(only_exit(0, SITE_INDIRECT, 3)->base, 11);
	cr_assert_eq(X86(0xff, 0x25, 0x10, 0x20, 0x00, 0x00), 0); /* jmp *0x2010(%rip) */
	site = only_exit(0, SITE_INDIRECT, 6);
	cr_assert(site->is_memory);
	cr_assert_eq(site->base, SITE_REGISTER_IP);
	cr_assert_eq(site->index, SITE_REGISTER_NONE);
	cr_assert_eq(site->displacement, 0x2010);
	cr_assert_eq(X86(0x43, 0xff, 0x64, 0xa5, 0xf8), 0); /* jmp *-8(%r13,%r12,4) */
	site = only_exit(0, SITE_INDIRECT, 5);
	cr_assert_eq(site->base, 13);
	cr_assert_eq(site->index, 12);
	cr_assert_eq(site->scale, 4);
	cr_assert_eq(site->displacement, -8);
	cr_assert_eq(X86(0xff, 0x24, 0xc5, 0x00, 0x10, 0x40, 0x00), 0); /* jmp *0x401000(,%rax,8) */
	site = only_exit(0, SITE_INDIRECT, 7);
	cr_assert_eq(site->base, SITE_REGISTER_NONE);
	cr_assert_eq(site->index, 0);
	cr_assert_eq(site->scale, 8);
	cr_assert_eq(site->displacement, 0x401000);
	/* A notrack jump is a table's if there is code that only it can lead to. */
	cr_assert_eq(X86(0x3e, 0xff, 0xe0, 0x31, 0xc0, RET), 0);
	only_exit(5, SITE_RETURN, 1);
	/*
	 * Or if it goes where a table tells: movslq (%rdx, %rdi, 4), %rax; add %rdx, %rax (or %rax,
	 * %rdx).
	 */
	cr_assert_eq(
		X86(0x74, 0x0a, 0x48, 0x63, 0x04, 0xba, 0x48, 0x01, 0xd0, 0x3e, 0xff, 0xe0, RET),
		0);
	only_exit(12, SITE_RETURN, 1);
	cr_assert_eq(
		X86(0x74, 0x0a, 0x48, 0x63, 0x04, 0xba, 0x48, 0x01, 0xc2, 0x3e, 0xff, 0xe2, RET),
		0);
	only_exit(12, SITE_RETURN, 1);
	cr_assert_eq(X86(0x74, 0x08, 0x3e, 0xff, 0x24, 0xc5, 0x00, 0x10, 0x40, 0x00, RET), 0);
	only_exit(10, SITE_RETURN, 1);
	assert_refused(
		X86(0x74, 0x0a, 0x48, 0x63, 0x04, 0xba, 0x48, 0x89, 0xd0, 0x3e, 0xff, 0xe0, RET),
		"notrack jump that may leave at +0x9");
	assert_refused(X86(0x3e, 0xff, 0xe0), "notrack jump that may leave at +0x0");
	assert_refused(X86(0x74, 0x01, RET, 0x3e, 0xff, 0xe0, NOP, NOP),
		       "notrack jump that may leave at +0x3");
	assert_refused(X86(0x2e, 0xff, 0xe0), "a segment prefix");
	assert_refused(X86(0x64, 0xff, 0x24, 0x25, 0x28, 0, 0, 0), "thread-local");
	assert_refused(X86(0xff, 0x28), "cannot be decoded"); /* far */
	function_shape_clear(&shape);
}

Test(disassemble, calls_and_the_kernel)
{
	cr_assert_eq(X86(0xe8, 0x00, 0x01, 0, 0, 0xe8, 0xfb, 0x00, 0, 0, 0xe8, 0, 0, 1, 0, RET), 0);
	cr_assert_eq(shape.callee_count, 2);
	cr_assert_eq(shape.callees[0], AT + 0x105);
	cr_assert_eq(shape.callees[1], AT + 0x1000f);
	cr_assert_not(is_leaf(&shape));
	/* as __tls_get_addr is called */
	cr_assert_eq(X86(0x66, 0x66, 0x48, 0xe8, 0, 1, 0, 0, RET), 0);
	cr_assert_eq(shape.callees[0], AT + 0x108);
	cr_assert_eq(X86(0xff, 0xd0, RET), 0);
	cr_assert(shape.calls_indirectly);
	cr_assert_not(is_leaf(&shape));
	cr_assert_eq(X86(0xff, 0x15, 0, 0x20, 0, 0, RET), 0);
	cr_assert(shape.calls_indirectly);
	cr_assert_eq(X86(0x0f, 0x05, RET), 0);
	cr_assert(shape.enters_kernel);
	cr_assert_not(is_leaf(&shape));
	cr_assert_eq(X86(0xcd, 0x80, RET), 0);
	cr_assert(shape.enters_kernel);
	/*
	 * Recursion is a call; one into its own middle is not understood; one of the next only
	 * pushes.
	 */
	cr_assert_eq(X86(PUSH, 0xe8, 0xfa, 0xff, 0xff, 0xff, POP, RET), 0);
	cr_assert_eq(shape.callee_count, 1);
	cr_assert_eq(shape.callees[0], AT);
	cr_assert_not(shape.is_looped_to);
	assert_refused(X86(PUSH, 0xe8, 0x01, 0, 0, 0, RET, RET),
		       "a call into its own middle at +0x1");
	cr_assert_eq(X86(0xe8, 0, 0, 0, 0, 0x58, RET), 0);
	cr_assert_eq(shape.callee_count, 0);
	function_shape_clear(&shape);
}

Test(disassemble, where_it_may_end)
{
	cr_assert_eq(X86(0xe8, 0, 1, 0, 0), 0); /* a call that does not come back */
	cr_assert_eq(shape.exit_count, 0);
	cr_assert_eq(X86(0xe8, 0, 1, 0, 0, NOP, 0xcc, 0x0f, 0x1f, 0), 0);
	cr_assert_eq(X86(0x0f, 0x0b), 0); /* ud2 */
	/* ud1, as clang's sanitizers write it */
	cr_assert_eq(X86(0x67, 0x0f, 0xb9, 0x40, 0x12), 0);
	cr_assert_eq(X86(0xf4), 0);		  /* hlt */
	cr_assert_eq(X86(0x0f, 0x05), 0);	  /* a system call that does not */
	cr_assert_eq(X86(RET, 0, 0, 0, 0, 0), 0); /* padding */
	only_exit(0, SITE_RETURN, 1);
	cr_assert_eq(X86(RET, 0xcc, 0xcc, NOP), 0);
	assert_refused(X86(NOP, 0x31, 0xc0), "it runs on into what follows at +0x3");
	assert_refused(X86(0x75, 0x01, RET, NOP), "it runs on into what follows at +0x4");
	assert_refused(X86(0x31, 0xc0, NOP), "it runs on into what follows at +0x3");
	assert_refused(X86(0x48), "cannot be decoded at +0x0");
	assert_refused(X86(NOP, 0xe9, 0, 0), "cannot be decoded at +0x1");
	assert_refused(X86(0x75, 0x00, 0x48, 0x8b), "cannot be decoded at +0x2");
	assert_refused(X86(NOP, 0x06, RET), "cannot be decoded at +0x1");
	function_shape_clear(&shape);
}

Test(disassemble, data_between_the_code)
{
	/* Nothing can lead there: no table, no landing pad. What looks like a ret is none. */
	cr_assert_eq(X86(0xeb, 0x03, RET, 0x06, RET, 0x31, 0xc0, RET), 0);
	only_exit(7, SITE_RETURN, 1);
	/* Behind a table's jump all of it may be code. */
	assert_refused(X86(0x3e, 0xff, 0xe0, 0x06, RET), "cannot be decoded at +0x3");
	cr_assert_eq(X86(0x3e, 0xff, 0xe0, RET, 0x31, 0xc0, RET), 0);
	cr_assert_eq(shape.exit_count, 2);
	/*
	 * Its own constant, which a load tells: mov 2(%rip), %eax; ret; int3; .long c3c3c3c3; and a
	 * table's.
	 */
	cr_assert_eq(X86(0x8b, 0x05, 0x05, 0, 0, 0, 0x3e, 0xff, 0xe0, 0x90, RET, RET, RET, RET, RET,
			 RET),
		     0);
	cr_assert_eq(shape.exit_count, 2);
	cr_assert_eq(shape.exits[0].address, AT + 10);
	cr_assert_eq(shape.exits[1].address, AT + 15);
	/* An exit inside another instruction: a breakpoint would change that one. */
	assert_refused(X86(0x74, 0x01, 0xb8, RET, 0, 0, 0, RET),
		       "an exit inside of another instruction");
	/*
	 * A jump over a lock prefix, as old C libraries have it, is fine: lock; cmpxchg %ecx,
	 * (%rdx); ret
	 */
	cr_assert_eq(X86(0x74, 0x01, 0xf0, 0x0f, 0xb1, 0x0a, RET), 0);
	only_exit(6, SITE_RETURN, 1);
	function_shape_clear(&shape);
}

Test(disassemble, instructions_newer_than_capstone)
{
	/*
	 * vpmadd52luq, vgf2p8affineqb with a constant, vaesenc %ymm, rdsspq, rdpkru, kmovd; then
	 * ret
	 */
	cr_assert_eq(X86(0x62, 0xf2, 0xed, 0x28, 0xb4, 0xc1, RET), 0);
	only_exit(6, SITE_RETURN, 1);
	cr_assert_eq(X86(0x62, 0xf3, 0xf5, 0x48, 0xce, 0xc2, RET, RET), 0);
	only_exit(7, SITE_RETURN, 1);
	cr_assert_eq(X86(0x62, 0xf2, 0xed, 0x28, 0xb4, 0x84, 0x24, RET, RET, RET, RET, RET), 0);
	only_exit(11, SITE_RETURN, 1);
	cr_assert_eq(X86(0xc4, 0xe2, 0x7d, 0xdc, 0xc1, RET), 0);
	only_exit(5, SITE_RETURN, 1);
	cr_assert_eq(X86(0xf3, 0x48, 0x0f, 0x1e, 0xc8, RET), 0);
	only_exit(5, SITE_RETURN, 1);
	cr_assert_eq(X86(0xf3, 0x48, 0x0f, 0xae, 0xe9, RET), 0); /* incsspq */
	only_exit(5, SITE_RETURN, 1);
	cr_assert_eq(X86(0x0f, 0x01, 0xee, RET), 0);
	only_exit(3, SITE_RETURN, 1);
	cr_assert_eq(X86(0xc5, 0xfb, 0x93, 0xc0, RET), 0);
	only_exit(4, SITE_RETURN, 1);
	/* APX push2 */
	assert_refused(X86(0x62, 0xf4, 0x7c, 0x18, 0xff, 0xf3, RET), "cannot be decoded");
	/* uiret */
	assert_refused(X86(0xf3, 0x0f, 0x01, 0xec, RET), "cannot be decoded");
	function_shape_clear(&shape);
}

Test(disassemble, loops_to_the_probe)
{
	static const uint8_t loop[] = {0xf3, 0x0f, 0x1e, 0xfa, 0x48, 0xff, 0xcf, 0x75, 0xfb, RET};
	const struct code_range range = {loop, AT, sizeof(loop)};

	cr_assert_eq(read_ranges(EM_X86_64, &range, 1, AT + 4), 0); /* jne f+4 */
	cr_assert(shape.is_looped_to);
	cr_assert_eq(read_ranges(EM_X86_64, &range, 1, AT), 0);
	cr_assert_not(shape.is_looped_to);
	/* To endbr64: on the way to a probe behind it. */
	cr_assert_eq(X86(0xf3, 0x0f, 0x1e, 0xfa, 0x75, 0xfa, RET), 0);
	cr_assert(shape.is_looped_to);
	cr_assert_eq(X86(NOP, 0x75, 0xfe, RET), 0);
	cr_assert_not(shape.is_looped_to);
	function_shape_clear(&shape);
}

Test(disassemble, stack_switches_and_frames)
{
	static const struct {
		const char *what;
		bool loads;
		uint8_t bytes[32];
		size_t size;
	} cases[] = {
		{"mov (%rsi), %rsp", true, {0x48, 0x8b, 0x26, RET}, 4},
		{"mov %rsi, %rsp", true, {0x48, 0x89, 0xf4, RET}, 4},
		{"xchg %rax, %rsp", true, {0x48, 0x94, RET}, 3},
		{"xchg %rsp, (%rdi)", true, {0x48, 0x87, 0x27, RET}, 4},
		{"pop %rsp", true, {0x5c, RET}, 2},
		{"mov %edi, %esp", true, {0x89, 0xfc, RET}, 3},
		{"cmove %rax, %rsp", true, {0x48, 0x0f, 0x44, 0xe0, RET}, 5},
		{"lea -8(%rdi), %rsp", true, {0x48, 0x8d, 0x67, 0xf8, RET}, 5},
		{"lea (%rdi, %rax), %rsp", true, {0x48, 0x8d, 0x24, 0x07, RET}, 5},
		{"mov %rdi, %rbp; leave", true, {0x48, 0x89, 0xfd, 0xc9, RET}, 5},
		{"mov %rsp, %rax; mov %rdi, %rsp; call *%rsi; mov %rbx, %rsp",
		 true,
		 {0x48, 0x89, 0xe3, 0x48, 0x89, 0xfc, 0xff, 0xd6, 0x48, 0x89, 0xdc, RET},
		 12},
		{"mov %rsp, %rax; mov %rdi, %rax; mov %rax, %rsp",
		 true,
		 {0x48, 0x89, 0xe0, 0x48, 0x89, 0xf8, 0x48, 0x89, 0xc4, RET},
		 10},
		{"mov %rsp, %rax; call; mov %rax, %rsp",
		 true,
		 {0x48, 0x89, 0xe0, 0xe8, 0, 1, 0, 0, 0x48, 0x89, 0xc4, RET},
		 12},
		{"push; mov %rsp, %rbp; sub; leave",
		 false,
		 {PUSH, 0x48, 0x89, 0xe5, 0x48, 0x83, 0xec, 0x20, 0xc9, RET},
		 10},
		{"lea -0x28(%rbp), %rsp; pop; pop",
		 false,
		 {PUSH, 0x48, 0x89, 0xe5, 0x53, 0x48, 0x8d, 0x65, 0xf8, 0x5b, POP, RET},
		 12},
		{"lea 8(%rsp), %r10; and; push -8(%r10) ... lea -8(%r10), %rsp",
		 false,
		 {0x4c, 0x8d, 0x54, 0x24, 0x08, 0x48, 0x83, 0xe4, 0xe0, 0x41,
		  0xff, 0x72, 0xf8, PUSH, POP,	0x49, 0x8d, 0x62, 0xf8, RET},
		 20},
		{"mov %rsp, %rax; sub $16, %rax; mov %rax, %rsp (alloca)",
		 false,
		 {0x48, 0x89, 0xe0, 0x48, 0x83, 0xe8, 0x10, 0x48, 0x89, 0xc4, RET},
		 11},
		{"add %rax, %rsp", false, {0x48, 0x01, 0xc4, RET}, 4},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		cr_assert_eq(read_code(EM_X86_64, cases[i].bytes, cases[i].size), 0, "%s: %s",
			     cases[i].what, shape.why);
		cr_assert_eq(shape.loads_stack_pointer, cases[i].loads, "%s", cases[i].what);
		cr_assert(!cases[i].loads || !is_leaf(&shape));
	}
	function_shape_clear(&shape);
}

/* ---- what the unwind tables tell ---- */

/* The frame is built at the addresses in `built`; known everywhere. */
struct frames {
	const uint64_t *built;
	size_t count;
};

static bool is_entry(uint64_t address, bool *known, void *context)
{
	const struct frames *frames = context;

	*known = true;
	for (size_t i = 0; i < frames->count; i++) {
		if (frames->built[i] == address)
			return false;
	}
	return true;
}

static int read_framed(const uint8_t *bytes, size_t size, const uint64_t *built, size_t count)
{
	struct frames frames = {built, count};
	struct code_range range = {bytes, AT, size};
	struct function_code code = {.machine = EM_X86_64,
				     .ranges = &range,
				     .range_count = 1,
				     .probe = AT,
				     .is_entry_frame = is_entry,
				     .context = &frames};

	function_shape_clear(&shape);
	return function_shape_read(&code, &shape);
}

#define FRAMED(bytes, ...)                                           \
	read_framed(bytes, sizeof(bytes), (uint64_t[]){__VA_ARGS__}, \
		    sizeof((uint64_t[]){__VA_ARGS__}) / sizeof(uint64_t))

Test(disassemble, only_where_the_frame_is_gone_a_jump_leaves)
{
	static const uint8_t table[] = {PUSH, 0xff, 0xe0, POP, RET};
	static const uint8_t jump[] = {PUSH, 0x75, 0x02, POP, RET, 0xe9, 0, 1, 0, 0};
	static const uint8_t no_return[] = {PUSH, 0xe9, 0, 1, 0, 0};

	cr_assert_eq(FRAMED(table, AT + 1), 0);
	only_exit(4, SITE_RETURN, 1);
	cr_assert_eq(FRAMED(table, AT + 3), 0);
	cr_assert_eq(shape.exit_count, 2);
	cr_assert_eq(shape.exits[0].kind, SITE_INDIRECT);
	cr_assert_eq(FRAMED(jump, AT), 0);
	cr_assert_eq(shape.exit_count, 2);
	assert_refused(FRAMED(jump, AT + 5), "a jump to a part that is not known (0x110a) at +0x5");
	/*
	 * Tables that show the return itself in the midst of the frame tell nothing of the jumps.
	 */
	cr_assert_eq(FRAMED(jump, AT + 5, AT + 4), 0);
	cr_assert_eq(shape.exit_count, 2);
	/* Without a return what the target looks like decides. */
	cr_assert_eq(FRAMED(no_return, AT + 1), 0);
	only_exit(1, SITE_JUMP, 5);
	assert_refused(FRAMED(no_return, AT + 1, AT + 0x106), "a jump to a part that is not known");
	function_shape_clear(&shape);
}

Test(disassemble, parts_elsewhere)
{
	static const uint8_t body[] = {0x74, 0x7e, RET, 0x31, 0xc0, RET};
	static const uint8_t cold[] = {0xe8, 0,	   1,	 0,    0,    0x75, 0x01,
				       RET,  0xe9, 0x76, 0xff, 0xff, 0xff};
	const struct code_range ranges[] = {{body, AT, sizeof(body)},
					    {cold, AT + 0x80, sizeof(cold)}};

	cr_assert_eq(read_ranges(EM_X86_64, ranges, 2, AT), 0, "%s", shape.why);
	cr_assert_eq(shape.exit_count, 3);
	cr_assert_eq(shape.exits[1].address, AT + 5); /* the cold part comes back to it */
	cr_assert_eq(shape.exits[2].address, AT + 0x87);
	cr_assert_eq(shape.callee_count, 1);
	cr_assert_eq(shape.range_count, 2);
	/* Alone: a conditional tail call, as far as can be seen. */
	cr_assert_eq(read_ranges(EM_X86_64, ranges, 1, AT), 0);
	cr_assert_eq(shape.exit_count, 2);
	cr_assert_eq(shape.exits[0].kind, SITE_CONDITIONAL);
	function_shape_clear(&shape);
}

/* ---- arm64 ---- */

Test(disassemble, arm64_branches)
{
	const struct exit_site *site;

	cr_assert_eq(ARM64(0xd65f03c0), 0); /* ret */
	site = only_exit(0, SITE_RETURN, 4);
	cr_assert(site->is_emulated);
	cr_assert(is_leaf(&shape));
	cr_assert_eq(ARM64(0x14000040), 0); /* b .+0x100 */
	cr_assert_eq(only_exit(0, SITE_JUMP, 4)->target, AT + 0x100);
	cr_assert_eq(ARM64(0x17fffff0), 0); /* b .-0x40 */
	cr_assert_eq(only_exit(0, SITE_JUMP, 4)->target, AT - 0x40);
	cr_assert_eq(ARM64(0x5400080b, 0x17ffffff), 0); /* b.lt .+0x100; b .-4 */
	site = only_exit(0, SITE_CONDITIONAL, 4);
	cr_assert_eq(site->condition, SITE_FLAGS);
	cr_assert_eq(site->code, 0xb);
	cr_assert_eq(site->target, AT + 0x100);
	cr_assert(shape.is_looped_to);
	cr_assert_eq(ARM64(0xb4000803, 0x17ffffff), 0); /* cbz x3, .+0x100 */
	site = only_exit(0, SITE_CONDITIONAL, 4);
	cr_assert_eq(site->condition, SITE_ZERO);
	cr_assert_eq(site->base, 3);
	cr_assert_eq(site->width, 64);
	cr_assert_eq(ARM64(0x35000804, 0x17ffffff), 0); /* cbnz w4, .+0x100 */
	site = only_exit(0, SITE_CONDITIONAL, 4);
	cr_assert_eq(site->condition, SITE_NOT_ZERO);
	cr_assert_eq(site->base, 4);
	cr_assert_eq(site->width, 32);
	cr_assert_eq(ARM64(0xb7080805, 0x17ffffff), 0); /* tbnz x5, #33, .+0x100 */
	site = only_exit(0, SITE_CONDITIONAL, 4);
	cr_assert_eq(site->condition, SITE_BIT_SET);
	cr_assert_eq(site->base, 5);
	cr_assert_eq(site->code, 33);
	cr_assert_eq(site->target, AT + 0x100);
	cr_assert_eq(ARM64(0x36100806, 0x17ffffff), 0); /* tbz w6, #2, .+0x100 */
	site = only_exit(0, SITE_CONDITIONAL, 4);
	cr_assert_eq(site->condition, SITE_BIT_CLEAR);
	cr_assert_eq(site->code, 2);
	cr_assert_eq(ARM64(0xd61f0200), 0); /* br x16 */
	cr_assert_eq(only_exit(0, SITE_INDIRECT, 4)->base, 16);
	cr_assert_eq(ARM64(0x94000040, 0xd63f0000, 0xd65f03c0), 0); /* bl .+0x100; blr x0; ret */
	cr_assert_eq(shape.callees[0], AT + 0x100);
	cr_assert(shape.calls_indirectly);
	cr_assert_eq(ARM64(0xd4000001, 0xd65f03c0), 0); /* svc #0 */
	cr_assert(shape.enters_kernel);
	function_shape_clear(&shape);
}

Test(disassemble, arm64_ends_and_refusals)
{
	assert_refused(ARM64(0xd65f0bff), "a branch that checks a signed address"); /* retaa */
	assert_refused(ARM64(0xd65f0fff), "a branch that checks a signed address"); /* retab */
	/* braa x16, x17 */
	assert_refused(ARM64(0xd71f0a11), "a branch that checks a signed address");
	assert_refused(ARM64(0xd69f03e0), "cannot be decoded"); /* eret */
	assert_refused(ARM64(0x54000810, 0xd65f03c0), "a hinted conditional branch");
	assert_refused(ARM64(0x8b000000), "it runs on into what follows at +0x4");
	assert_refused(read_code(EM_AARCH64, (uint8_t[]){0xc0, 0x03, 0x5f}, 3),
		       "cannot be decoded");
	cr_assert_eq(ARM64(0xd503237f, 0x94000040, 0xd50323ff, 0xd65f03c0),
		     0); /* paciasp; bl; autiasp; ret */
	only_exit(12, SITE_RETURN, 4);
	cr_assert_eq(ARM64(0x94000040), 0);		   /* a call that does not come back */
	cr_assert_eq(ARM64(0xd4200000), 0);		   /* brk */
	cr_assert_eq(ARM64(0xd65f03c0, 0, 0xd503201f), 0); /* padding */
	only_exit(0, SITE_RETURN, 4);
	/* A constant of its own that looks like a ret: ldr x0, .+8; br x0 ... */
	cr_assert_eq(ARM64(0x58000040, 0xd61f0000, 0xd65f03c0, 0xd65f03c0, 0xd65f03c0), 0);
	cr_assert_eq(shape.exit_count, 2);
	cr_assert_eq(shape.exits[1].address, AT + 16);
	/* SVE and LSE, which Capstone 4 does not know: of one size all the same. */
	cr_assert_eq(ARM64(0x04a0e3e0, 0x25208000, 0xb8200041, 0xd65f03c0), 0);
	only_exit(12, SITE_RETURN, 4);
	function_shape_clear(&shape);
}

Test(disassemble, arm64_stack)
{
	cr_assert_eq(ARM64(0x9100001f, 0xd65f03c0), 0); /* mov sp, x0 */
	cr_assert(shape.loads_stack_pointer);
	cr_assert_eq(ARM64(0xf9400029, 0x9100013f, 0xd65f03c0), 0); /* ldr x9, [x1]; mov sp, x9 */
	cr_assert(shape.loads_stack_pointer);
	/*
	 * stp x29, x30, [sp, -32]!; mov x29, sp; sub sp, sp, x0; mov sp, x29; ldp x29, x30, [sp],
	 * 32; ret
	 */
	cr_assert_eq(ARM64(0xa9be7bfd, 0x910003fd, 0xcb2063ff, 0x910003bf, 0xa8c27bfd, 0xd65f03c0),
		     0);
	cr_assert_not(shape.loads_stack_pointer);
	/* sub x9, sp, 80; and sp, x9, -64; ret (clang's realigned frame) */
	cr_assert_eq(ARM64(0xd10143e9, 0x927ae53f, 0xd65f03c0), 0);
	cr_assert_not(shape.loads_stack_pointer);
	function_shape_clear(&shape);
}

/* ---- anything ---- */

Test(disassemble, other_machines_are_refused)
{
	const uint8_t bytes[] = {RET};

	assert_refused(read_code(EM_386, bytes, 1), "a machine that is not understood");
	cr_assert_eq(read_ranges(EM_X86_64, NULL, 0, AT), -EINVAL);
	function_shape_clear(&shape);
}

/* Random bytes, most of them such as branch: it ends, and no exit lies outside. */
Test(disassemble, random_code_is_safe)
{
	static const uint8_t likely[] = {0xeb, 0x75, 0xe9, 0xe8, 0xff, 0xe0, 0x25, 0x0f,
					 0x84, RET,  NOP,  0x3e, 0xf3, 0x66, 0x48, 0x8b,
					 0x05, 0x62, 0xc4, 0xc5, 0x00, 0x01, 0x02, 0x04};
	unsigned int seed = 11, decoded = 0;

	for (int round = 0; round < 60000; round++) {
		size_t size = 1 + (size_t)rand_r(&seed) % 40;
		uint16_t machine = rand_r(&seed) % 4 ? EM_X86_64 : EM_AARCH64;
		uint8_t bytes[40];

		for (size_t i = 0; i < size; i++)
			bytes[i] = rand_r(&seed) % 4
					   ? likely[(size_t)rand_r(&seed) % sizeof(likely)]
					   : (uint8_t)rand_r(&seed);
		if (read_code(machine, bytes, size)) {
			cr_assert_neq(shape.why[0], '\0');
			continue;
		}
		decoded++;
		for (size_t i = 0; i < shape.exit_count; i++)
			cr_assert_leq(shape.exits[i].address - AT + shape.exits[i].length, size);
	}
	cr_assert_gt(decoded, 1000);
	function_shape_clear(&shape);
}
