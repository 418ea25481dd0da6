// SPDX-License-Identifier: GPL-2.0-or-later
/* With -fno-reorder-functions gcc lays the cold part of work inside the size of its symbol. */
static volatile long sink;

__attribute__((cold, noinline)) void out(const char *text)
{
	sink += text[0];
}

__attribute__((noinline, noclone)) long work(long i)
{
	if (__builtin_expect(i < 0, 0)) {
		out("negative");
		return sink;
	}
	return i * 2 - 1;
}
