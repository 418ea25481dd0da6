// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Loops that compilers let begin at the function's entry, or just behind its endbr64: built in
 * several ways, some of which do so (tests/kernel/hazards.sh looks which).
 *
 *	entryloop [--wait-go] [TURNS]		10000 calls of 20 turns by default
 */
#include "traced.h"

void count_down(long turns);
long find_end(const char *text);

volatile long loop_turns;

OUT_OF_LINE void count_down(long turns)
{
	do
		loop_turns++;
	while (--turns);
}

OUT_OF_LINE long find_end(const char *text)
{
	do
		loop_turns++;
	while (*text++);
	return (long)text;
}

int main(int argc, char **argv)
{
	enum { CALLS = 10000 };
	char text[101];
	long turns;

	argc = wait_for_go(argc, argv);
	turns = argc > 1 ? atol(argv[1]) : 20;
	if (turns < 1 || turns >= (long)sizeof(text))
		return 2;
	memset(text, 'x', sizeof(text));
	text[turns - 1] = 0;
	for (int i = 0; i < CALLS; i++) {
		count_down(turns);
		find_end(text);
	}
	printf("truth count_down=%d/%d find_end=%d/%d turns=%ld\n", CALLS, CALLS, CALLS, CALLS,
	       loop_turns);
	return loop_turns != 2 * CALLS * turns;
}
