// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A C++ program that throws: catcher() calls middle(), which calls thrower(), 100 times; every
 * second time an exception goes from thrower() through middle() into catcher(). Entries 100 each;
 * returns 50, 50 and 100. A uretprobe pending on any of them aborts the program.
 */
#include <cstdio>
#include <stdexcept>

extern "C" {
#include "traced.h"
}

static volatile long sum;
static int caught;

namespace scene
{
class Node
{
      public:
	__attribute__((noinline)) void thrower(int i)
	{
		sum = sum + i;
		if (i & 1)
			throw std::runtime_error("odd");
		__asm__ volatile("" ::: "memory");
	}

	__attribute__((noinline)) void middle(int i)
	{
		thrower(i);
		sum = sum + 1;
	}
};

template <typename T> __attribute__((noinline)) T twice(T value)
{
	__asm__ volatile("" ::: "memory");
	return value + value;
}
} // namespace scene

extern "C" __attribute__((noinline)) void catcher(int i)
{
	scene::Node node;

	try {
		node.middle(i);
	} catch (const std::exception &) {
		caught++;
	}
	sum = sum + scene::twice(i);
}

int main(int argc, char **argv)
{
	wait_for_go(argc, argv);
	for (int i = 0; i < 100; i++)
		catcher(i);
	std::printf(
		"truth "
		"{\"catcher\":{\"entries\":100,\"returns\":100},\"middle\":{\"entries\":100,\"returns\":50},"
		"\"thrower\":{\"entries\":100,\"returns\":50},\"caught\":%d}\n",
		caught);
	return caught != 50;
}
