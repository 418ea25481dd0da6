// SPDX-License-Identifier: GPL-2.0-or-later
/* Trees of calls, for tests/unit/code/shape.c: which of them are closed is told by their names. */
#define KEPT   __attribute__((noinline))
#define HIDDEN __attribute__((noinline, visibility("hidden")))

extern int outside(int value);
int (*pointer)(int value);

HIDDEN int closed_leaf(int a)
{
	return a * 3 + 1;
}

HIDDEN int closed_caller(int a)
{
	return closed_leaf(a) + closed_leaf(a + 1) * a;
}

HIDDEN int closed_jumper(int a)
{
	return closed_caller(a ^ 5);
}

HIDDEN int closed_pong(int a);

/* Each of the two is closed only if the other is. */
HIDDEN int closed_ping(int a)
{
	return a < 2 ? a : closed_pong(a - 1) * 3 + closed_leaf(a);
}

HIDDEN int closed_pong(int a)
{
	return a < 2 ? a : closed_ping(a - 2) * 5 + 1;
}

HIDDEN int open_pong(int a);

HIDDEN int open_ping(int a)
{
	return a < 2 ? a : open_pong(a - 1) * 3;
}

HIDDEN int open_pong(int a)
{
	return a < 2 ? outside(a) + 1 : open_ping(a - 2) * 5 + closed_leaf(a);
}

HIDDEN int open_caller(int a)
{
	return closed_leaf(a) + open_ping(a) * 3;
}

KEPT int open_indirect(int a)
{
	return pointer(a) * 2 + closed_leaf(a);
}

KEPT int open_jump(int a)
{
	return pointer(a);
}

KEPT int open_outside(int a)
{
	return outside(a + closed_jumper(a));
}

KEPT long open_kernel(long a)
{
#ifdef __x86_64__
	__asm__ volatile("syscall" : "+a"(a) : : "rcx", "r11", "memory");
#else
	__asm__ volatile("svc #0" : : : "memory");
#endif
	return a;
}

KEPT int calls_all(int a)
{
	return closed_ping(a) + closed_jumper(a) + open_caller(a) + closed_pong(a);
}
