// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The plugin of pluginhost.c: has its host call a function that throws at every third number, and
 * catches that outside of the host.
 */
#include <stdexcept>

typedef void callback(long i);

static void throw_at_thirds(long i)
{
	if (i % 3 == 2)
		throw std::runtime_error("a third");
}

/* 1 if something was thrown through the host, else 0. */
extern "C" long plugin_run(void (*host)(callback *, long), long i)
{
	try {
		host(throw_at_thirds, i);
	} catch (const std::exception &) {
		return 1;
	}
	return 0;
}
