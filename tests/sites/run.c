// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Executes each form of first instruction from many register files, and prints what came of it: registers, flags, stack
 * and memory as one number a form, the signals that it raised, how it went on. Whoever watches the functions must get the
 * same lines as nobody. Functions are called from an own stack at a fixed address, and all memory that they may reach
 * is one region, so that two runs differ in nothing.
 *
 *     sites [ROUNDS]     default 20
 *
 * Prints "form_N TEXT: NUMBER went G branched B raised R"; forms whose result differs from run to run (rdtsc ...) have no
 * number.
 */
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

#define REGISTERS 16
#define REGION	  (1 << 20)
#define STACK	  4096

struct form {
	void (*function)(void);
	const char *text;
	uint32_t small;	  /* registers that must be small: an index, a count */
	uint32_t code;	  /* that must hold the address of code */
	uint32_t through; /* it jumps through memory */
	uint32_t varies;
};

struct state {
	uint64_t general[REGISTERS]; /* by their numbers; rsp: how far it moved */
	uint64_t flags;
	uint8_t vectors[16][16];
};

extern const struct form forms[];
extern const uint32_t form_count;
extern char capture[];
void call_form(void (*function)(void));

struct state before, after;
uint8_t scratch[REGION] __attribute__((aligned(4096)));
uint8_t stack[3 * STACK] __attribute__((aligned(4096)));
uint64_t stack_top; /* where the form's return address lies */
uint64_t caller_stack;
uint8_t captured, branched;
uint64_t seen_stack[64]; /* 256 bytes on both sides of the return address, as the form left them */
extern uint8_t scratch_middle[];

/*
 * call_form loads `before`, calls the form on the other stack, and comes back by a true return. What a form leaves goes to
 * `after` before anything else happens, whether it goes on to `capture` or returns by itself.
 */
asm("	.globl scratch_middle\n"
    "	.set scratch_middle, scratch + 0x80000\n"
    "	.text\n"
    "	.globl call_form\n"
    "call_form:\n"
    "	push %rbx; push %rbp; push %r12; push %r13; push %r14; push %r15\n"
    "	mov %rsp, caller_stack(%rip)\n"
    "	mov stack_top(%rip), %rsp\n"
    "	add $8, %rsp\n"
    "	mov %rdi, form_to_call(%rip)\n"
    "	.irp n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15\n"
    "	movups before+136+16*\\n(%rip), %xmm\\n\n"
    "	.endr\n"
    "	push before+128(%rip)\n"
    "	popfq\n"
    "	mov before(%rip), %rax\n"
    "	mov before+8(%rip), %rcx\n"
    "	mov before+16(%rip), %rdx\n"
    "	mov before+24(%rip), %rbx\n"
    "	mov before+40(%rip), %rbp\n"
    "	mov before+48(%rip), %rsi\n"
    "	mov before+56(%rip), %rdi\n"
    "	.irp n, 8,9,10,11,12,13,14,15\n"
    "	mov before+8*\\n(%rip), %r\\n\n"
    "	.endr\n"
    "	call *form_to_call(%rip)\n"
    "	mov %rsp, after+32(%rip)\n"
    "	mov caller_stack(%rip), %rsp\n"
    "	pushfq\n"
    "	cmpb $0, captured(%rip)\n"
    "	jne 1f\n"
    "	call keep\n"
    "1:	popfq\n"
    "	cld\n"
    "	pop %r15; pop %r14; pop %r13; pop %r12; pop %rbp; pop %rbx\n"
    "	ret\n"
    /* The flags lie above the return address of the caller of keep. */
    "keep:\n"
    "	mov %rax, after(%rip)\n"
    "	mov %rcx, after+8(%rip)\n"
    "	mov %rdx, after+16(%rip)\n"
    "	mov %rbx, after+24(%rip)\n"
    "	mov %rbp, after+40(%rip)\n"
    "	mov %rsi, after+48(%rip)\n"
    "	mov %rdi, after+56(%rip)\n"
    "	.irp n, 8,9,10,11,12,13,14,15\n"
    "	mov %r\\n, after+8*\\n(%rip)\n"
    "	.endr\n"
    "	mov 8(%rsp), %rax\n"
    "	mov %rax, after+128(%rip)\n"
    "	.irp n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15\n"
    "	movups %xmm\\n, after+136+16*\\n(%rip)\n"
    "	.endr\n"
    "	ret\n"
    "	.globl capture\n"
    "capture_branched:\n"
    "	movb $1, branched(%rip)\n"
    "capture:\n"
    "	mov %rsp, after+32(%rip)\n"
    "	mov caller_stack(%rip), %rsp\n"
    "	pushfq\n"
    "	call keep\n"
    /* The way back may leave its own marks below the stack pointer. */
    "	mov stack_top(%rip), %rsi\n"
    "	sub $256, %rsi\n"
    "	lea seen_stack(%rip), %rdi\n"
    "	mov $64, %ecx\n"
    "	cld\n"
    "	rep movsq\n"
    "	movb $1, captured(%rip)\n"
    "	mov stack_top(%rip), %rsp\n"
    "	ret\n"
    "	.globl capture_branched\n"
    "	.local form_to_call\n"
    "	.comm form_to_call, 8, 8\n");

static sigjmp_buf out;
static int raised;
static uint64_t raised_at;

static void on_signal(int number, siginfo_t *info, void *context)
{
	(void)info;
	raised = number;
	raised_at = (uint64_t)((ucontext_t *)context)->uc_mcontext.gregs[16 /* rip */];
	siglongjmp(out, 1);
}

static uint64_t random_word(uint64_t *seed)
{
	*seed ^= *seed << 13;
	*seed ^= *seed >> 7;
	*seed ^= *seed << 17;
	return *seed;
}

static uint64_t mix(uint64_t hash, const void *bytes, size_t size)
{
	const uint8_t *at = bytes;
	uint64_t word;

	for (size_t i = 0; i + sizeof(word) <= size; i += sizeof(word)) {
		memcpy(&word, at + i, sizeof(word));
		hash = (hash ^ word) * 0x9e3779b97f4a7c15ull;
		hash ^= hash >> 29;
	}
	return hash;
}

static void prepare(const struct form *form, uint64_t *seed)
{
	before = (struct state){.flags = 0x202 | (random_word(seed) & 0x8d5)};
	for (unsigned i = 0; i < REGISTERS; i++) {
		before.general[i] = (uint64_t)scratch_middle + (random_word(seed) & 0xffc0);
		if (form->small >> i & 1)
			before.general[i] = random_word(seed) & 0x3f;
		if (form->code >> i & 1)
			before.general[i] = (uint64_t)capture;
	}
	for (size_t i = 0; i < sizeof(before.vectors) / 8; i++) {
		uint64_t word = random_word(seed);

		memcpy((uint8_t *)before.vectors + 8 * i, &word, 8);
	}
	after = (struct state){0};
	captured = branched = 0;
	memset(seen_stack, 0, sizeof(seen_stack));
	/* The way back of the round before has left its marks. */
	memset(stack, 0x5a, sizeof(stack));
}

/* The kernel turns one of five bytes into a call, which pushes. */
static int is_nop(const struct form *form)
{
	return strncmp(form->text, "nop", 3) == 0;
}

/* Memory that a jump goes through holds an address of code, all else a pattern. */
static void fill_memory(const struct form *form)
{
	uint64_t *word = (uint64_t *)scratch, seed = 88172645463325252ull;

	for (size_t i = 0; i < sizeof(scratch) / sizeof(*word); i++)
		word[i] = form->through ? (uint64_t)capture : random_word(&seed);
}

struct outcome {
	uint64_t hash;
	unsigned went, branched, raised;
};

static void run_once(const struct form *form, struct outcome *outcome)
{
	uint64_t entry = (uint64_t)form->function;

	raised = 0;
	raised_at = 0;
	if (!sigsetjmp(out, 1)) {
		call_form(form->function);
		outcome->went++;
	}
	outcome->branched += branched;
	outcome->raised += raised != 0;
	after.general[4] -= stack_top;
	/* Resume and trap flag: a signal's context may show the first. */
	after.flags &= 0xcd5;
	outcome->hash = mix(outcome->hash, &after, sizeof(after));
	/* Below the stack pointer lies nothing of a function that begins with a nop. */
	seen_stack[32] = 0;
	outcome->hash = mix(outcome->hash, seen_stack + (is_nop(form) ? 32 : 0),
			    (is_nop(form) ? 32 : 64) * sizeof(*seen_stack));
	outcome->hash = mix(outcome->hash, &raised, 4);
	/* Where the fault is seen: at or behind the instruction, or where it led. */
	raised_at = raised && raised_at - entry < 16 ? raised_at - entry : 16;
	outcome->hash = mix(outcome->hash, &raised_at, sizeof(raised_at));
}

static struct outcome run(const struct form *form, unsigned rounds)
{
	struct outcome outcome = {0};
	uint64_t seed = 2463534242ull;

	fill_memory(form);
	for (unsigned i = 0; i < rounds; i++) {
		prepare(form, &seed);
		run_once(form, &outcome);
	}
	outcome.hash = mix(outcome.hash, scratch, sizeof(scratch));
	return outcome;
}

static void catch_signals(void)
{
	static const int numbers[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP, SIGSYS};
	static uint8_t other[1 << 16];
	stack_t alternate = {.ss_sp = other, .ss_size = sizeof(other)};
	struct sigaction action = {.sa_sigaction = on_signal,
				   .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER};

	sigaltstack(&alternate, NULL);
	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
		sigaction(numbers[i], &action, NULL);
}

int main(int argc, char **argv)
{
	unsigned rounds = argc > 1 ? (unsigned)atoi(argv[1]) : 20;

	setvbuf(stdout, NULL, _IOFBF, 1 << 16);
	catch_signals();
	stack_top = (uint64_t)stack + 2 * STACK - 8; /* as the ABI aligns it */
	for (uint32_t i = 0; i < form_count; i++) {
		struct outcome o = run(&forms[i], rounds);

		printf("form_%03u %s: ", i, forms[i].text);
		if (forms[i].varies)
			printf("varies");
		else
			printf("%016llx", (unsigned long long)o.hash);
		printf(" went %u branched %u raised %u\n", o.went, o.branched, o.raised);
		fflush(stdout);
	}
	return 0;
}
