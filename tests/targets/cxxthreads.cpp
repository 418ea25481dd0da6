// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * C++ threads that end below traced calls, several at once. Each thread's body() calls guarded(),
 * which has something to destroy and calls what the thread is for: return normally, throw and catch
 * fifty times, pthread_exit, wait until it is cancelled at a cancellation point, or loop in a leaf
 * function until it is cancelled asynchronously. Whatever way it ends, both destructors must have
 * run.
 *
 *	cxxthreads [--wait-go] [ROUNDS]		20 rounds of one thread of each kind by default
 */
#include <atomic>
#include <pthread.h>
#include <thread>

extern "C" {
#include "account.h"
void body(int kind);
void guarded(int kind);
void normal();
void thrower();
void leaver();
void waiter();
void spinner();
}

enum { NORMAL, THROWS, EXITS, DEFERRED, ASYNCHRONOUS, KINDS };

static account body_calls, guarded_calls, normal_calls, thrower_calls, leaver_calls, waiter_calls,
	spinner_calls;
static std::atomic<int> destroyed, caught, inside;
static volatile long spins;

struct Guard {
	~Guard() { destroyed++; }
};

OUT_OF_LINE void normal()
{
	enter(&normal_calls);
	leave(&normal_calls);
}

OUT_OF_LINE void thrower()
{
	enter(&thrower_calls);
	throw 1;
}

OUT_OF_LINE void leaver()
{
	enter(&leaver_calls);
	pthread_exit(nullptr);
}

OUT_OF_LINE void waiter()
{
	enter(&waiter_calls);
	inside++;
	for (;;)
		pause();
}

/* A leaf: nothing in it could throw. */
OUT_OF_LINE void spinner()
{
	enter(&spinner_calls);
	inside++;
	for (;;)
		spins = spins + 1;
}

OUT_OF_LINE void guarded(int kind)
{
	Guard guard;
	int type;

	enter(&guarded_calls);
	switch (kind) {
	case NORMAL:
		normal();
		break;
	case THROWS:
		for (int i = 0; i < 50; i++) {
			try {
				thrower();
			} catch (int) {
				caught++;
			}
		}
		break;
	case EXITS:
		leaver();
		break;
	case DEFERRED:
		waiter();
		break;
	case ASYNCHRONOUS:
		pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, &type);
		spinner();
		break;
	}
	leave(&guarded_calls);
}

OUT_OF_LINE void body(int kind)
{
	Guard guard;

	enter(&body_calls);
	guarded(kind);
	leave(&body_calls);
}

int main(int argc, char **argv)
{
	int rounds;

	argc = wait_for_go(argc, argv);
	rounds = argc > 1 ? atoi(argv[1]) : 20;
	for (int round = 0; round < rounds; round++) {
		std::thread threads[KINDS];

		for (int kind = NORMAL; kind < KINDS; kind++)
			threads[kind] = std::thread(body, kind);
		while (inside != 2 * (round + 1))
			std::this_thread::yield();
		pthread_cancel(threads[DEFERRED].native_handle());
		pthread_cancel(threads[ASYNCHRONOUS].native_handle());
		for (std::thread &thread : threads)
			thread.join();
	}
	printf("truth");
	TELL(body);
	TELL(guarded);
	TELL(normal);
	TELL(thrower);
	TELL(leaver);
	TELL(waiter);
	TELL(spinner);
	printf(" destroyed=%d caught=%d\n", destroyed.load(), caught.load());
	return destroyed != rounds * KINDS * 2 || caught != rounds * 50;
}
