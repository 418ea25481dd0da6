// SPDX-License-Identifier: GPL-2.0-or-later
#include "code/stack_switch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/program.h"

/* Compiles `text` (as p.c) to `p` by the command and looks through that. */
static struct stack_switch switch_in(const char *command, const char *text)
{
	char path[256];
	struct module module = {.path = path, .base = "p", .probe_path = path};
	struct stack_switch found;
	struct image image;

	shell("cd %s && rm -f p && cat >p.c <<'END'\n%s\nEND\n%s", scratch(), text, command);
	snprintf(path, sizeof(path), "%s/p", scratch());
	cr_assert_eq(image_open(&module, &image), 0, "%s", path);
	cr_assert_eq(stack_switch_find(&image, &found), 0);
	image_close(&image);
	return found;
}

static bool is_there(const char *program)
{
	char command[256];

	snprintf(command, sizeof(command), "command -v %s >/dev/null", program);
	return system(command) == 0;
}

#define LIBRARY(compiler, flags) \
	compiler " " flags " -w -Wno-psabi -shared -fPIC -nostdlib p.c -o p"

/* ---- what compilers make of frames that move their stack pointer themselves ---- */

static const char *const frames =
	"#include <stddef.h>\n"
	"void *use(void *, size_t); void fail(void) __attribute__((noreturn));\n"
	"long array(size_t n) { long sum = 0; for (size_t i = 0; i < n; i++) { char a[n + i]; "
	"sum += *(char *)use(a, n); if (sum < 0) continue; if (!use(a, 1)) return 7; } return sum; }\n"
	"long nested(size_t n, size_t m) { char a[n]; long sum = 0; while (m--) { char b[m]; use(a, n); "
	"for (size_t i = 0; i < m; i++) { char c[i]; if (use(c, i)) { use(b, m); break; } sum += (long)c; } "
	"if (!sum) fail(); } return sum; }\n"
	"long space(size_t n) { char *a = __builtin_alloca(n); use(a, n); a = __builtin_alloca(n * 2); "
	"return (long)use(a, n); }\n"
	"struct line { char bytes[64]; } __attribute__((aligned(64)));\n"
	"long aligned(int a, int b, int c, int d, int e, int f, long g, struct line h) { struct line l; "
	"use(&l, g); use(&h, 1); return l.bytes[0] + a + b + c + d + e + f; }\n"
	"long both(size_t n, long g) { struct line l; char a[n]; use(&l, g); use(a, n); if (g) { char b[g]; "
	"use(b, g); } return l.bytes[0] + a[0]; }\n"
	"long choice(int what, size_t n) { long sum = 0; for (;;) { char a[n]; switch (what) { "
	"case 0: use(a, 1); break; case 1: use(a, 2); sum++; break; case 2: sum += 3; what = (long)use(0, n); "
	"continue; case 3: use(a, 4); break; case 4: use(a, 5); what = 2; break; case 5: return sum; "
	"case 6: n++; use(a, 6); break; default: fail(); } what = (long)use(a, 3); } }\n";

static void assert_own(const char *compiler, const char *level, const char *more)
{
	struct stack_switch found;
	char command[512];

	snprintf(command, sizeof(command), LIBRARY("%s", "%s %s"), compiler, level, more);
	found = switch_in(command, frames);
	cr_assert_not(found.found, "%s: at %#lx", command, (unsigned long)found.address);
}

/* Has the code what is to be told from a switch at all? */
static void assert_loads(const char *objdump, const char *pattern)
{
	shell("%s -d --no-show-raw-insn %s/p | grep -qE '%s'", objdump, scratch(), pattern);
}

#ifdef __x86_64__
Test(stack_switch, own_frames_are_none)
{
	static const char *const levels[] = {"-O0", "-O1", "-O2", "-O3", "-Os"};
	static const char *const more[] = {"", "-fomit-frame-pointer -mno-red-zone",
					   "-fcf-protection=full -mavx",
					   "-fstack-protector-all -fstack-clash-protection"};

	for (size_t i = 0; i < sizeof(levels) / sizeof(levels[0]); i++) {
		for (size_t k = 0; k < sizeof(more) / sizeof(more[0]); k++) {
			assert_own("gcc", levels[i], more[k]);
			assert_loads("objdump", "mov +[^,]*%r[^,]+,%rsp");
			assert_own("clang", levels[i], more[k]);
			assert_loads("objdump", "mov +[^,]*%r[^,]+,%rsp");
		}
	}
}

Test(stack_switch, own_frames_without_symbols_are_none)
{
	struct stack_switch found;

	found = switch_in(LIBRARY("gcc", "-O2 -s"), frames);
	cr_assert_not(found.found, "at %#lx", (unsigned long)found.address);
}
#endif

Test(stack_switch, own_frames_on_arm64_are_none)
{
	static const char *const levels[] = {"-O0", "-O1", "-O2", "-O3"};

	if (!is_there("aarch64-linux-gnu-gcc"))
		cr_skip_test("no compiler for arm64 is installed");
	for (size_t i = 0; i < sizeof(levels) / sizeof(levels[0]); i++) {
		assert_own("aarch64-linux-gnu-gcc", levels[i], "");
		assert_loads("aarch64-linux-gnu-objdump", "mov\tsp, x");
		assert_own("clang --target=aarch64-linux-gnu -fuse-ld=lld", levels[i], "");
		assert_loads("aarch64-linux-gnu-objdump", "(mov|sub)\tsp, x");
	}
}

/* ---- what goes over to another stack ---- */

/* Finds it at `change`, wherever else it looks, with tables and symbols and without. */
static void assert_found(const char *compiler, const char *objdump, const char *body)
{
	static const char *const flags[] = {"", "-fno-asynchronous-unwind-tables -s"};
	static const char *const forms[] = {
		/* Of a compiler, with tables; by hand, with symbols; by hand, without. */
		"void plain(void) {}\nvoid change(void) { __asm__ volatile(\"here: %s\"); }\nvoid after(void) {}\n",
		"void plain(void) {}\n__asm__(\".text\\n.globl change\\n.type change,%%function\\nchange: here: "
		"%s\\nret\\n.size change,.-change\");\nvoid after(void) {}\n",
		"void plain(void) {}\n__asm__(\".text\\nhere: %s\\nret\");\nvoid after(void) {}\n",
	};
	char text[2048], command[256];

	for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
		for (size_t k = 0; k < sizeof(flags) / sizeof(flags[0]); k++) {
			struct stack_switch found;

			snprintf(text, sizeof(text), forms[i], body);
			snprintf(command, sizeof(command), LIBRARY("%s", "-O2 %s"), compiler,
				 flags[k]);
			found = switch_in(command, text);
			cr_assert(found.found, "%s %s", command, text);
			if (*flags[k])
				continue;
			shell("%s -d %s/p --start-address=%#lx | grep -A1 '^[0-9a-f]* <' | head -2 | "
			      "grep -qE 'sp|94|leave'",
			      objdump, scratch(), (unsigned long)found.address);
		}
	}
}

#ifdef __x86_64__
Test(stack_switch, by_hand_is_found)
{
	static const char *const bodies[] = {
		"mov %%rsp, (%%rdi); mov %%rsi, %%rsp",
		"mov %%rsp, (%%rdi); mov (%%rsi), %%rsp",
		"push %%rbp; mov %%rsp, (%%rdi); mov 8(%%rsi), %%rsp; pop %%rbp",
		"mov %%rsp, %%rax; mov %%rax, (%%rdi); mov (%%rsi), %%rax; mov %%rax, %%rsp",
		"xchg %%rsp, (%%rdi)",
		"xchg %%rdi, %%rsp",
		"xchg %%rax, %%rsp",
		"push (%%rdi); pop %%rsp",
		"push (%%rdi); pop %%rsp; jmp 1f; nop; 1: ret",
		"push (%%rdi); pop %%rsp; mov 8(%%rdi), %%rbx; jmp *%%rsi",
		"mov %%rdi, %%r13; lea 64(%%r13,%%rax,8), %%rsp",
		"test %%rdi, %%rdi; cmovne %%rdi, %%rsp",
		"mov %%rbp, %%rax; mov (%%rdi), %%rbp; mov %%rbp, %%rsp",
		/* Its own on one way only. */
		"mov %%rsp, %%rdx; test %%rdi, %%rdi; je 1f; mov %%rdi, %%rdx; 1: mov %%rdx, %%rsp",
		"test %%rdi, %%rdi; jne 1f; mov %%rsp, %%rdi; 1: mov %%rdi, %%rsp",
		/* Kept in the frame, but not its own. */
		"push %%rbp; mov %%rsp, %%rbp; mov %%rdi, -8(%%rbp); mov -8(%%rbp), %%rsp; leave",
		"push %%rbp; mov %%rsp, %%rbp; mov -8(%%rbp), %%rsp; leave",
		"mov %%gs:8, %%rsp",
		"mov $0x10000, %%rsp",
		"movabs $0x1234567890, %%rax; mov %%rax, %%rsp",
		/* By way of rbp, which is no frame pointer then, whatever it was before. */
		"mov %%rbp, (%%rdi); mov (%%rsi), %%rbp; leave; ret",
		"mov %%rsi, %%rbp; leave; ret",
		"mov %%r12, %%rbp; leave; jmp *8(%%rdi)",
		"lea 64(%%rsi), %%rbp; lea -16(%%rbp), %%rsp; pop %%rbx; pop %%r12; pop %%rbp; ret",
		"mov (%%rsi), %%rbp; lea -0x128(%%rbp), %%rsp; pop %%rbx; pop %%rbp; ret",
		"push (%%rsi); pop %%rbp; leave; ret",
		"push %%rsi; pop %%rbp; mov %%rbp, %%rsp; pop %%rbp; ret",
		"xchg %%rbp, (%%rsi); leave; ret",
		"push %%rbp; mov %%rsp, %%rbp; push %%rbx; mov %%rsp, (%%rdi); mov (%%rsi), %%rbp; leave; ret",
		"push %%rbp; mov %%rsp, %%rbp; test %%rdi, %%rdi; je 1f; mov %%rsi, %%rbp; 1: leave; ret",
		"push %%rbp; mov %%rsp, %%rbp; mov %%rsi, -8(%%rbp); mov -8(%%rbp), %%rbp; leave; ret",
		"push %%rbp; mov %%rsp, %%rbp; mov %%rsi, (%%rbp); leave; leave; ret",
		/* As the end of a frame that gcc realigned, but it is not. */
		"mov (%%rsi), %%r10; lea -8(%%r10), %%rsp; ret",
	};
	char plain[512];

	for (size_t i = 0; i < sizeof(bodies) / sizeof(bodies[0]); i++) {
		/* A basic asm statement takes %rsp as it is. */
		snprintf(plain, sizeof(plain), "%s", bodies[i]);
		for (char *at = plain; (at = strstr(at, "%%")); at++)
			memmove(at, at + 1, strlen(at));
		assert_found("gcc", "objdump", plain);
	}
}

/*
 * In a frame that its compiler describes to the unwind tables: they do not know of what is done by
 * hand.
 */
Test(stack_switch, by_hand_behind_the_tables_back_is_found)
{
	static const char *const bodies[] = {
		"mov (%0), %%rbp; leave; ret",
		"mov %0, %%rbp; leave; ret",
		"mov (%0), %%rbp; mov %%rbp, %%rsp; pop %%rbp; ret",
		"mov (%0), %%rbp; lea -8(%%rbp), %%rsp; pop %%rbx; pop %%rbp; ret",
		"mov 8(%0), %%rsp; pop %%rbp; ret",
	};
	static const char *const compilers[] = {"gcc", "clang"};
	static const char *const levels[] = {"-O0", "-O2", "-O2 -s"};
	char text[512], command[256];

	for (size_t i = 0; i < sizeof(bodies) / sizeof(bodies[0]); i++) {
		for (size_t k = 0; k < sizeof(compilers) / sizeof(compilers[0]) * 3; k++) {
			snprintf(
				text, sizeof(text),
				"void use(void *);\nvoid change(void *to) { use(to); __asm__ volatile(\"%s\" : : "
				"\"r\"(to)); }\nvoid frame(void) { use(0); use(0); }",
				bodies[i]);
			snprintf(command, sizeof(command),
				 LIBRARY("%s", "-fno-omit-frame-pointer %s"), compilers[k / 3],
				 levels[k % 3]);
			cr_assert(switch_in(command, text).found, "%s %s", command, text);
		}
	}
}

/* Numbers among the code are not taken for it, real code behind them is. */
Test(stack_switch, data_among_the_code_is_passed)
{
	struct stack_switch found;

	found = switch_in(
		LIBRARY("gcc", "-O2"),
		"__asm__(\".text\\ntable: .rept 64\\n.byte 0x06,0x5c,0x5b,0x27,0x5c,0xc3\\n.endr\\n"
		".globl f\\n.type f,@function\\nf: ret\\n.size f,.-f\");");
	cr_assert_not(found.found, "at %#lx", (unsigned long)found.address);
	found = switch_in(
		LIBRARY("gcc", "-O2"),
		"__asm__(\".text\\ntable: .rept 64\\n.byte 0x06,0x5c,0x5b,0x27,0x5c,0xc3\\n.endr\\n"
		".globl f\\n.type f,@function\\nf: mov (%rdi), %rsp; ret\\n.size f,.-f\");");
	cr_assert(found.found);
}

/* Nothing that is known leads there: not the end of what stands before. */
Test(stack_switch, what_is_reached_from_nowhere_is_found)
{
	cr_assert(
		switch_in(LIBRARY("gcc", "-O2 -s"),
			  "__asm__(\".text\\nnop\\nret\\nmov %rsp, (%rdi); mov %rsi, %rsp; ret\");")
			.found);
}

/* As in libaom and libjpeg: realigned by hand, the old stack pointer kept on the new stack. */
Test(stack_switch, own_by_hand_is_none)
{
	static const char *const bodies[] = {
		"push %rbp; mov %rsp, %rbp; push %rbx; mov %rsp, %rax; and $-16, %rsp; push %rax; sub $96, %rsp; "
		"call use; add $96, %rsp; pop %rsp; pop %rbx; pop %rbp; ret",
		"push %rbp; mov %rsp, %rax; sub $8, %rsp; and $-32, %rsp; mov %rax, (%rsp); mov %rsp, %rbp; "
		"lea -64(%rbp), %rsp; call use; mov %rbp, %rsp; pop %rsp; pop %rbp; ret",
		"mov %rsp, %rbx; and $-64, %rsp; call use; mov %rbx, %rsp; ret",
		/* Nobody comes through the padding before 2, least of all from the jump table. */
		"push %rbp; mov %rsp, %rbp; mov %rsp, %rbx; sub $64, %rsp; test %rdi, %rdi; je 2f; xor %ebx, %ebx; "
		"jmp *(%rdi); nopw 0(%rax,%rax); nop; 2: call use; mov %rbx, %rsp; leave; ret",
		/* Nor on from a call that does not return. */
		"push %rbp; mov %rsp, %rbp; sub $64, %rsp; test %rdi, %rdi; je 2f; mov %rsp, -8(%rbp); jmp 3f; "
		"2: call fail; 3: sub $64, %rsp; call use; mov -8(%rbp), %rsp; leave; ret",
		"push %rbx; test %rdi, %rdi; je 2f; mov %rsp, %rbx; jmp 3f; 2: call fail; 3: sub $64, %rsp; call use; "
		"mov %rbx, %rsp; pop %rbx; ret",
		/*
		 * As gcc realigns where r10 is taken: its register is kept in the frame by a push.
		 */
		"push %r13; lea 16(%rsp), %r13; and $-32, %rsp; push -8(%r13); push %rbp; mov %rsp, %rbp; push %r15; "
		"push %r13; push %rbx; sub $96, %rsp; call use; xor %r13, %r13; lea -24(%rbp), %rsp; pop %rbx; "
		"pop %rdx; pop %r15; pop %rbp; lea -16(%rdx), %rsp; pop %r13; ret",
		"push %rbp; mov %rsp, %rbp; push %rbx; call use; lea -8(%rbp), %rsp; pop %rbx; pop %rbp; ret",
		"enter $32, $0; call use; leave; ret",
		/* The last bytes of all. */
		"push %rbx; push %r12; mov %rdi, %rbx; call use; pop %rbx; pop %r12; ret",
		/* rbp is used for something else, and was put back. */
		"push %rbp; mov %rsp, %rbp; push %rbp; mov %rdi, %rbp; mov (%rbp), %rax; pop %rbp; leave; ret",
		"push %rbp; mov %rsp, %rbp; mov %rsp, -8(%rbp); mov %rsi, %rbp; call use; mov 8(%rsp), %rbp; ret",
		/* What Capstone does not know (FMA4, AVX-512) stands in the way. */
		"push %rbp; mov %rsp, %rbp; mov %rsp, %rbx; .byte 0xc4,0xe3,0x69,0x68,0x55,0xc9,0x60; .byte "
		"0x62,0xf2,0xfd,0x48,0xb4,0xc9; call use; mov %rbx, %rsp; leave; ret",
	};
	char text[1024];

	for (size_t i = 0; i < sizeof(bodies) / sizeof(bodies[0]); i++) {
		struct stack_switch found;

		snprintf(text, sizeof(text),
			 "__asm__(\".text\\n.globl f\\n.type f,@function\\nf: %s\\n.size f,.-f\");",
			 bodies[i]);
		found = switch_in(LIBRARY("gcc", "-O2"), text);
		cr_assert_not(found.found, "%s: at %#lx", bodies[i], (unsigned long)found.address);
	}
}
/* A part of a function that stands elsewhere: only the tables tell that rbp points to its frame. */
Test(stack_switch, own_frames_in_cold_parts_are_none)
{
	static const char *const text =
		"__asm__(\".text\\nf: .cfi_startproc\\npush %%rbp\\n.cfi_def_cfa_offset 16\\nmov %%rsp, %%rbp\\n"
		".cfi_def_cfa_register %%rbp\\njmp cold\\nback: leave\\nret\\n.cfi_endproc\\n.section .text.cold,"
		"\\\"ax\\\"\\n.cfi_startproc\\n.cfi_def_cfa %s,16\\ncold: mov %%rsp, -8(%%rbp)\\nsub $96, %%rsp\\n"
		"call use\\nmov -8(%%rbp), %%rsp\\njmp back\\n.cfi_endproc\");";
	char code[1024];
	struct stack_switch found;

	snprintf(code, sizeof(code), text, "%rbp");
	found = switch_in(LIBRARY("gcc", ""), code);
	cr_assert_not(found.found, "at %#lx", (unsigned long)found.address);
	snprintf(code, sizeof(code), text, "%rsp");
	cr_assert(switch_in(LIBRARY("gcc", ""), code).found);
}

/*
 * As in libsystemd: an assertion that does not come back stands before other code of the function,
 * and a slot of the frame is used twice. Without symbols such a function is known only from others
 * that end with it.
 */
Test(stack_switch, what_stands_behind_an_endless_call_is_passed)
{
	static const char *const text =
		"__asm__(\".text\\nf: .cfi_startproc\\npush %%rbp\\n.cfi_def_cfa_offset 16\\nmov %%rsp, %%rbp\\n"
		".cfi_def_cfa_register %%rbp\\nsub $32, %%rsp\\nmov %%rdx, -8(%%rbp)\\ntest %%rdi, %%rdi\\nje 9f\\n"
		"1: mov %%rsp, -8(%%rbp)\\nsub %%rdi, %%rsp\\ncall use\\ntest %%rax, %%rax\\njne 2f\\n"
		"3: mov -8(%%rbp), %%rsp\\ncall use\\ntest %%rax, %%rax\\njne 1b\\nleave\\nret\\n"
		"9: call failed\\n2: call use\\njmp 3b\\n.cfi_endproc\\n"
		"g: .cfi_startproc\\nsub $8, %%rsp\\ncall use\\n%s\\n.cfi_endproc\\n"
		"failed: .cfi_startproc\\nsub $8, %%rsp\\ncall use\\nhlt\\n.cfi_endproc\");";
	struct stack_switch found;
	char code[1024];

	snprintf(code, sizeof(code), text, "call failed");
	found = switch_in(LIBRARY("gcc", "-s"), code);
	cr_assert_not(found.found, "at %#lx", (unsigned long)found.address);
	snprintf(code, sizeof(code), text, "call failed; add $8, %rsp; ret");
	cr_assert(switch_in(LIBRARY("gcc", "-s"), code).found);
}
#endif

Test(stack_switch, by_hand_on_arm64_is_found)
{
	static const char *const bodies[] = {
		"mov x9, sp; str x9, [x0]; mov sp, x1",
		"mov x9, sp; str x9, [x0]; ldr x9, [x1]; mov sp, x9",
		"ldp x9, x10, [x1]; mov sp, x10",
		"add sp, x1, #64",
		"ldr x29, [x1]; mov sp, x29; ldp x29, x30, [sp], #16; ret",
		"mov x29, x1; add sp, x29, #16; ret",
		"stp x29, x30, [sp, #-16]!; mov x29, sp; ldr x29, [x1]; mov sp, x29; ldp x29, x30, [sp], #16; ret",
	};

	if (!is_there("aarch64-linux-gnu-gcc"))
		cr_skip_test("no compiler for arm64 is installed");
	for (size_t i = 0; i < sizeof(bodies) / sizeof(bodies[0]); i++)
		assert_found("aarch64-linux-gnu-gcc", "aarch64-linux-gnu-objdump", bodies[i]);
}

/* ---- files of any kind ---- */

Test(stack_switch, without_section_headers)
{
	struct stack_switch found;

	found = switch_in(
		LIBRARY("gcc",
			"-O2 -s") " && python3 -c \"import struct; b=bytearray(open(\\\"p\\\",\\\"rb\\\")"
				  ".read()); b[40:48]=bytes(8); b[58:64]=bytes(6); "
				  "open(\\\"p\\\",\\\"wb\\\").write(b)\"",
		"void change(void *to) { __asm__ volatile(\"mov %0, %%rsp\" : : \"r\"(to)); }");
	cr_assert(found.found);
}

/* Any bytes at all: looked through to the end, whatever is found. */
Test(stack_switch, random_code_is_survived)
{
	static const char *const compilers[] = {"gcc", "aarch64-linux-gnu-gcc"};

	for (size_t i = 0; i < sizeof(compilers) / sizeof(compilers[0]); i++) {
		char command[512];

		if (!is_there(compilers[i]))
			continue;
		for (int seed = 0; seed < 8; seed++) {
			snprintf(
				command, sizeof(command),
				"python3 -c 'import random; random.seed(%d); open(\"code\", \"wb\").write(bytes("
				"random.choice((random.randrange(256), 0x48, 0x5c, 0x8b, 0x75, 0xeb)) for _ in "
				"range(30000)))' && " LIBRARY("%s", "-O1"),
				seed, compilers[i]);
			switch_in(
				command,
				"__asm__(\".text\\n.balign 4\\n.cfi_startproc\\n.incbin \\\"code\\\"\\n.cfi_endproc\\n"
				".incbin \\\"code\\\"\");");
		}
	}
}
