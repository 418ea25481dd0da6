// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A C program that loads a C++ plugin (plugins/thrower.cpp) when it has been told to go on, that is
 * after a tracer has come. The plugin gives the host a function to call; what that throws goes
 * through call_twice() and call_back(), which know nothing of exceptions, back into the plugin.
 *
 *	pluginhost [--wait-go] [CALLS]		10000 by default
 *
 * The plugin lies beside the program, as PROGRAM-plugin.so.
 */
#include <dlfcn.h>
#include <limits.h>

#include "account.h"

typedef void callback(long i);

void call_back(callback *function, long i);
void call_twice(callback *function, long i);

static struct account call_back_calls, call_twice_calls;

OUT_OF_LINE void call_back(callback *function, long i)
{
	enter(&call_back_calls);
	function(i);
	leave(&call_back_calls);
}

OUT_OF_LINE void call_twice(callback *function, long i)
{
	enter(&call_twice_calls);
	call_back(function, i);
	call_back(function, i + 1);
	leave(&call_twice_calls);
}

static void *load_plugin(void)
{
	char path[PATH_MAX + 16];
	ssize_t length = readlink("/proc/self/exe", path, PATH_MAX);

	if (length < 0)
		return NULL;
	strcpy(path + length, "-plugin.so");
	return dlopen(path, RTLD_NOW);
}

int main(int argc, char **argv)
{
	long (*run)(void (*)(callback *, long), long i);
	long calls, caught = 0;
	void *plugin;

	argc = wait_for_go(argc, argv);
	calls = argc > 1 ? atol(argv[1]) : 10000;
	plugin = load_plugin();
	if (!plugin) {
		fprintf(stderr, "%s\n", dlerror());
		return 2;
	}
	*(void **)&run = dlsym(plugin, "plugin_run");
	for (long i = 0; i < calls; i++)
		caught += run(call_twice, i);
	printf("truth");
	TELL(call_twice);
	TELL(call_back);
	printf(" caught=%ld\n", caught);
	return 0;
}
