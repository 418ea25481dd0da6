// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A program whose code in memory is not its file's. Truth: changed is called once a millisecond, as is plain, until a
 * line comes on its standard input; then prints "calls N right N" with as many right results as calls, exit 0.
 *	textchange patch    the first instruction of `changed` is another one than in the file, before anybody attaches
 *	textchange move     all code goes to anonymous memory at the same address, bytes as in the file
 *	textchange leader   the first thread ends at once, another one does the work
 */
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define HOOKED __attribute__((noinline, noclone))
#define PAGE   4096ul

long changed(void);

/* mov $1, %eax in the file; the patch makes it mov $2. */
asm(".text\n.balign 4096\n.globl changed\n.type changed,@function\nchanged:\n	mov $1, %eax\n	ret\n"
    ".size changed, .-changed\n.balign 4096\n");

HOOKED long plain(long n)
{
	asm volatile("");
	return n + 1;
}

static void *page_of(const void *address)
{
	return (void *)((unsigned long)address & ~(PAGE - 1));
}

static void patch(void)
{
	unsigned char *code = (unsigned char *)changed;

	mprotect(page_of(code), PAGE, PROT_READ | PROT_WRITE | PROT_EXEC);
	code[1] = 2;
	mprotect(page_of(code), PAGE, PROT_READ | PROT_EXEC);
}

/* Of the page of `changed` alone: what moves it must stay. */
static void move(void)
{
	void *page = page_of((const void *)changed);
	void *copy = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	memcpy(copy, page, PAGE);
	mprotect(copy, PAGE, PROT_READ | PROT_EXEC);
	mremap(copy, PAGE, PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, page);
}

static void *work(void *expected)
{
	struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
	long calls = 0, right = 0;

	while (poll(&input, 1, 1) == 0) {
		right += changed() == (long)expected && plain(calls) == calls + 1;
		calls++;
	}
	printf("calls %ld right %ld\n", calls, right);
	fflush(stdout);
	_exit(calls != right);
}

int main(int argc, char **argv)
{
	const char *mode = argc > 1 ? argv[1] : "";
	pthread_t thread;

	if (strcmp(mode, "patch") == 0)
		patch();
	else if (strcmp(mode, "move") == 0)
		move();
	if (strcmp(mode, "leader") != 0) {
		printf("pid %d\n", (int)getpid());
		fflush(stdout);
		work((void *)(strcmp(mode, "patch") == 0 ? 2l : 1l));
	}
	pthread_create(&thread, NULL, work, (void *)1l);
	printf("pid %d\n", (int)getpid());
	fflush(stdout);
	pthread_exit(NULL);
}
