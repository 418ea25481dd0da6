// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Recursion as deep as a parser's or a tree walk's. descend() calls the leaf step() and then
 * itself, to the
 *given depth, in as many rounds. What happens at the bottom:
 *
 *	deep [--wait-go] [DEPTH [ROUNDS [return|exit|threads]]]		1000 deep, 1 round, return by default
 *
 * return: all return. exit: the last time the program ends there. threads: each round is in a
 * thread of its
 *own, which ends there.
 */
#include <pthread.h>

#include "account.h"

long descend(long below);
void step(void);

static struct account descend_calls, step_calls;
static const char *how = "return";
static long depth = 1000, rounds = 1, round_number;

static void tell(void)
{
	long open = strcmp(how, "return") == 0 ? 0 : descend_calls.entries - descend_calls.returns;

	printf("truth");
	TELL_OPEN(descend, open);
	TELL_OPEN(step, 0l);
	printf("\n");
}

OUT_OF_LINE void step(void)
{
	enter(&step_calls);
	leave(&step_calls);
}

OUT_OF_LINE long descend(long below)
{
	long sum = below;

	enter(&descend_calls);
	step();
	if (below > 0) {
		sum += descend(below - 1);
	} else if (strcmp(how, "threads") == 0) {
		pthread_exit(NULL);
	} else if (strcmp(how, "exit") == 0 && round_number == rounds) {
		tell();
		exit(0);
	}
	leave(&descend_calls);
	return sum + account_sink;
}

static void *descend_in_thread(void *context)
{
	descend(depth - 1);
	return context;
}

int main(int argc, char **argv)
{
	pthread_t thread;

	argc = wait_for_go(argc, argv);
	if (argc > 1)
		depth = atol(argv[1]);
	if (argc > 2)
		rounds = atol(argv[2]);
	if (argc > 3)
		how = argv[3];
	for (round_number = 1; round_number <= rounds; round_number++) {
		if (strcmp(how, "threads") != 0)
			descend(depth - 1);
		else if (pthread_create(&thread, NULL, descend_in_thread, NULL) ||
			 pthread_join(thread, NULL))
			return 2;
	}
	tell();
	return 0;
}
