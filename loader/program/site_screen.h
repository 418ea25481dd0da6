/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Whether a probe on an instruction leaves the program as it is. Purpose: the kernel's own screen is
 * not enough, since its uprobes take some vector instructions for jumps and never run them, and a
 * single step shows in the flags that some instructions store. Stateless; the bytes may be anything.
 * tests/kernel/sites.sh runs every form of first instruction that a distribution has, probed and not.
 */
#ifndef SCOPETRACE_PROGRAM_SITE_SCREEN_H
#define SCOPETRACE_PROGRAM_SITE_SCREEN_H

#include <stddef.h>
#include <stdint.h>

/*
 * Why no probe may sit on the x86-64 instruction at `bytes`, of which `length` are there; a constant
 * text that follows "on". NULL: one may.
 */
const char *site_screen_x86(const uint8_t *bytes, size_t length);

/*
 * The length of the instruction there if a probe behind it sees the same calls with the same stack
 * pointer: it goes on to the next one, and writes neither the stack pointer nor its memory. Else 0.
 */
size_t site_step_over_x86(const uint8_t *bytes, size_t length);

/*
 * The length of the instruction there, by the machine that this is built for; what is not known has all
 * of `length`, at most.
 */
size_t site_length(const uint8_t *bytes, size_t length);

#endif
