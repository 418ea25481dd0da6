// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Loads, calls and unloads a library as it is told: `reloader LIBRARY`. On its standard input "load" and "unload"; "call"
 * calls version_of(0) 100 times and prints "sum N"; each answers with a line. Truth: 100 times the version of the
 * library, exit 0 at "end".
 */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static long call(void *library)
{
	long (*version_of)(long), sum = 0;

	*(void **)&version_of = dlsym(library, "version_of");
	for (int i = 0; i < 100; i++)
		sum += version_of(0);
	return sum;
}

int main(int argc, char **argv)
{
	char line[64];
	void *library = NULL;

	setvbuf(stdout, NULL, _IOLBF, 0);
	printf("pid %d\n", (int)getpid());
	while (argc == 2 && fgets(line, sizeof(line), stdin) && strcmp(line, "end\n") != 0) {
		if (strcmp(line, "load\n") == 0)
			library = dlopen(argv[1], RTLD_NOW);
		if (strcmp(line, "unload\n") == 0)
			dlclose(library);
		if (strcmp(line, "call\n") == 0)
			printf("sum %ld\n", call(library));
		else
			printf("done\n");
	}
	return argc != 2;
}
