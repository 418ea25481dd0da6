// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A function that calls nothing and still is left by an exception: jumper() ends in a direct jump
 * to thrower(), which throws in every other call. With two such jumps in a row, hopper() to
 * jumper() to thrower().
 *
 *	jmpthrower [--wait-go] [CALLS]		10000 by default
 */
#include <stdexcept>

extern "C" {
#include "account.h"
void catcher(long i);
void hopper(long i);
void jumper(long i);
void thrower(long i);
extern volatile long jumper_entries, hopper_entries;
volatile long jumper_entries, hopper_entries;
}

static account catcher_calls, hopper_calls, jumper_calls, thrower_calls;
static long caught;

__asm__("	.text\n"
	"	.globl	jumper\n"
	"	.type	jumper, @function\n"
	"jumper:\n"
	"	.cfi_startproc\n"
	"	addq	$1, jumper_entries(%rip)\n"
	"	jmp	thrower\n"
	"	.cfi_endproc\n"
	"	.size	jumper, . - jumper\n"
	"	.globl	hopper\n"
	"	.type	hopper, @function\n"
	"hopper:\n"
	"	.cfi_startproc\n"
	"	addq	$1, hopper_entries(%rip)\n"
	"	jmp	jumper\n"
	"	.cfi_endproc\n"
	"	.size	hopper, . - hopper\n");

OUT_OF_LINE void thrower(long i)
{
	enter(&thrower_calls);
	if (i & 1)
		throw std::runtime_error("odd");
	leave(&thrower_calls);
}

OUT_OF_LINE void catcher(long i)
{
	enter(&catcher_calls);
	try {
		if (i & 2)
			hopper(i);
		else
			jumper(i);
	} catch (const std::exception &) {
		caught++;
	}
	leave(&catcher_calls);
}

int main(int argc, char **argv)
{
	long calls;

	argc = wait_for_go(argc, argv);
	calls = (argc > 1 ? atol(argv[1]) : 10000) & ~3l;
	for (long i = 0; i < calls; i++)
		catcher(i);
	/* Half of each are left by exceptions. */
	jumper_calls = {jumper_entries, jumper_entries / 2};
	hopper_calls = {hopper_entries, hopper_entries / 2};
	printf("truth");
	TELL(catcher);
	TELL(hopper);
	TELL(jumper);
	TELL(thrower);
	printf(" caught=%ld\n", caught);
	return caught != calls / 2;
}
