// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * exec() by a thread that is not the first, where the new program maps a library later, or calls
 * from its first moment on. Prints `pid N`, and does what it is told on stdin, as it does again
 * after its exec:
 *
 *	execagain LIBRARY
 *
 *	load   maps LIBRARY, which has zlibVersion()
 *	call   calls work(), and zlibVersion() if it is there, ten times each; prints `called`
 *	exec   runs this program again, which prints `again`
 *	flat   the same, which then maps LIBRARY and calls work() over and over until the next line, and
 *	       prints `truth work=N`
 */
#include <dlfcn.h>
#include <pthread.h>

#include "traced.h"

void work(int i);

enum { CALLS = 10 };

static volatile long sink;
static volatile int stopped;
static const char *(*version)(void);

OUT_OF_LINE void work(int i)
{
	sink += i;
	NOT_LAST();
}

static void say(const char *line)
{
	puts(line);
	fflush(stdout);
}

static void call(void)
{
	for (int i = 0; i < CALLS; i++)
		work(i);
	for (int i = 0; i < CALLS && version; i++)
		sink += version()[0];
	say("called");
}

static void load(const char *path)
{
	void *library = dlopen(path, RTLD_NOW);

	*(void **)&version = library ? dlsym(library, "zlibVersion") : NULL;
	say(version ? "loaded" : dlerror());
}

static void *replace(void *arguments)
{
	execv("/proc/self/exe", arguments);
	exit(1);
}

static void *await_line(void *line)
{
	if (!fgets(line, 16, stdin))
		exit(2);
	stopped = 1;
	return NULL;
}

static void call_flat(void)
{
	char line[16];
	pthread_t thread;
	long calls = 0;

	if (pthread_create(&thread, NULL, await_line, line))
		exit(1);
	for (; !stopped; calls++)
		work(1);
	pthread_join(thread, NULL);
	printf("truth work=%ld\n", calls);
	fflush(stdout);
}

int main(int argc, char **argv)
{
	static char line[16];
	char *again[] = {argv[0], argv[1], line, NULL};
	pthread_t thread;

	setvbuf(stdin, NULL, _IONBF, 0); /* what is not read is the next program's */
	if (argc < 2)
		return 2;
	if (argc == 2)
		printf("pid %d\n", (int)getpid());
	say(argc == 2 ? "first" : "again");
	if (argc > 2 && strcmp(argv[2], "flat\n") == 0) {
		load(argv[1]);
		call_flat();
	}
	while (fgets(line, sizeof(line), stdin)) {
		if (strcmp(line, "load\n") == 0)
			load(argv[1]);
		else if (strcmp(line, "call\n") == 0)
			call();
		else if (!pthread_create(&thread, NULL, replace, again))
			pthread_join(thread, NULL);
	}
	return 0;
}
