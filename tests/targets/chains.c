// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Chains of tail calls between functions whose returns are seen in different ways: looping() comes
 * back to
 *its own entry, and so has probes on its return instructions even where uretprobes are harmless; front()
 *jumps to it, and it jumps to back(). With "exit" back() ends the program in the last round.
 *
 *	chains [--wait-go] ROUNDS [exit]
 */
#include "traced.h"

int front(int turns, int last);
int looping(int turns, int last);
int back(int last);

static volatile int sink;

OUT_OF_LINE int back(int last)
{
	sink++;
	if (last) {
		printf("truth front=%d/%d looping=%d/%d back=%d/%d\n", sink, sink - 1, sink,
		       sink - 1, sink, sink - 1);
		fflush(stdout);
		_exit(0);
	}
	return sink;
}

/* The loop's head is the function's first instruction. */
__asm__(".text\n.globl looping\n.type looping, @function\nlooping:\n"
#if defined(__x86_64__)
	"	dec %edi\n	jns looping\n	mov %esi, %edi\n	jmp back\n"
#elif defined(__aarch64__)
	"	subs w0, w0, #1\n	b.pl looping\n	mov w0, w1\n	b back\n"
#endif
	".size looping, . - looping\n");

OUT_OF_LINE int front(int turns, int last)
{
	sink = sink;
	return looping(turns, last);
}

int main(int argc, char **argv)
{
	int rounds;

	argc = wait_for_go(argc, argv);
	rounds = argc > 1 ? atoi(argv[1]) : 100;
	for (int i = 0; i < rounds; i++) {
		front(3, argc > 2 && i == rounds - 1);
		NOT_LAST();
	}
	printf("truth front=%d/%d looping=%d/%d back=%d/%d\n", rounds, rounds, rounds, rounds,
	       rounds, rounds);
	return 0;
}
