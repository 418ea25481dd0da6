// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * C++ exceptions through traced frames. catcher() calls middle(), which calls rethrower(), which
 * calls thrower(); by turns nothing is thrown, an exception goes through all three into catcher(),
 * rethrower() catches it and throws it on, and catcher() calls thrower() itself. What is destroyed
 * on the way is counted. With "uncaught" a last exception meets nobody: the program ends in its
 * terminate handler, status 42. With "deep" middle() calls itself a hundred times first.
 *
 *	cxxexc [--wait-go] [ROUNDS] [uncaught|deep]	10000 rounds by default; 0: until a line comes in
 */
#include <cstdio>
#include <exception>
#include <poll.h>
#include <stdexcept>

extern "C" {
#include "account.h"
void catcher(long i);
void middle(long i, int levels);
void rethrower(long i);
void thrower(long i);
}

enum { NO_THROW, THROUGH_ALL, RETHROWN, THROUGH_ONE, KINDS };

static account catcher_calls, middle_calls, rethrower_calls, thrower_calls;
static long caught, rethrown, destroyed;
static int levels;

struct Guard {
	~Guard() { destroyed++; }
};

OUT_OF_LINE void thrower(long i)
{
	enter(&thrower_calls);
	if (i % KINDS != NO_THROW)
		throw std::runtime_error("thrown");
	leave(&thrower_calls);
}

OUT_OF_LINE void rethrower(long i)
{
	Guard guard;

	enter(&rethrower_calls);
	if (i % KINDS == RETHROWN) {
		try {
			thrower(i);
		} catch (const std::runtime_error &) {
			rethrown++;
			throw;
		}
	} else {
		thrower(i);
	}
	leave(&rethrower_calls);
}

/* Has nothing to clean up: the unwinder goes through without stopping. */
OUT_OF_LINE void middle(long i, int levels)
{
	enter(&middle_calls);
	if (levels)
		middle(i, levels - 1);
	else
		rethrower(i);
	leave(&middle_calls);
}

OUT_OF_LINE void catcher(long i)
{
	enter(&catcher_calls);
	try {
		if (i % KINDS == THROUGH_ONE)
			thrower(i);
		else
			middle(i, levels);
	} catch (const std::exception &) {
		caught++;
	}
	leave(&catcher_calls);
}

static void tell()
{
	printf("truth");
	TELL(catcher);
	TELL(middle);
	TELL(rethrower);
	TELL(thrower);
	printf(" caught=%ld rethrown=%ld destroyed=%ld\n", caught, rethrown, destroyed);
	fflush(stdout);
}

[[noreturn]] static void on_terminate()
{
	tell();
	_exit(42);
}

static bool line_came()
{
	pollfd standard_input = {0, POLLIN, 0};

	return poll(&standard_input, 1, 0) > 0;
}

int main(int argc, char **argv)
{
	long rounds, i;

	argc = wait_for_go(argc, argv);
	rounds = argc > 1 ? atol(argv[1]) : 10000;
	levels = argc > 2 && !strcmp(argv[2], "deep") ? 100 : 0;
	for (i = 0; rounds ? i < rounds : i % KINDS || !line_came(); i++)
		catcher(i);
	if (argc > 2 && !strcmp(argv[2], "uncaught")) {
		std::set_terminate(on_terminate);
		middle(THROUGH_ALL, 0);
	}
	tell();
	return caught == i / KINDS * 3 && rethrown == i / KINDS && destroyed == i / KINDS * 3 ? 0
											      : 1;
}
