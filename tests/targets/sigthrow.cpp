// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Exceptions thrown by a signal handler, out of functions that call nothing: reader() reads where
 * nothing is mapped in every other call, and what SIGSEGV's handler throws goes through it into
 * catcher(). Its first instruction is the one that faults. With "repair" the handler makes the page
 * readable instead, and the same instruction runs again.
 *
 *	sigthrow [--wait-go] [throw|repair] [CALLS]	throw, 2000 calls by default
 */
#include <csignal>
#include <cstdint>
#include <sys/mman.h>

extern "C" {
#include "account.h"
void catcher(long i);
long reader(const volatile long *where);
}

static account catcher_calls, reader_calls;
static bool repair;
static long *page, caught, faults, sum;

OUT_OF_LINE long reader(const volatile long *where)
{
	return *where;
}

static void on_fault(int number)
{
	faults++;
	if (!repair)
		throw number;
	mprotect(page, 4096, PROT_READ);
}

OUT_OF_LINE void catcher(long i)
{
	enter(&catcher_calls);
	reader_calls.entries++;
	try {
		sum += reader(i & 1 ? page : &sum);
		reader_calls.returns++;
	} catch (int) {
		caught++;
	}
	leave(&catcher_calls);
}

int main(int argc, char **argv)
{
	struct sigaction action = {};
	long calls;

	argc = wait_for_go(argc, argv);
	repair = argc > 1 && !strcmp(argv[1], "repair");
	calls = argc > 2 ? atol(argv[2]) : 2000;
	page = static_cast<long *>(
		mmap(nullptr, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
	action.sa_handler = on_fault;
	action.sa_flags = SA_NODEFER;
	if (page == MAP_FAILED || sigaction(SIGSEGV, &action, nullptr))
		return 2;
	for (long i = 0; i < calls; i++) {
		catcher(i);
		mprotect(page, 4096, PROT_NONE);
	}
	printf("truth");
	TELL(catcher);
	TELL(reader);
	printf(" caught=%ld faults=%ld\n", caught, faults);
	return faults != calls / 2 || caught != (repair ? 0 : faults);
}
