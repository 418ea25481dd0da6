# SPDX-License-Identifier: GPL-2.0-or-later
# The second twin, and a way in from C.
	.text
	.local	twin
	.type	twin, @function
twin:
	lea	2(%rdi), %rax
	ret
	.size	twin, .-twin

	.globl	call_second
	.type	call_second, @function
call_second:
	sub	$8, %rsp
	call	twin
	add	$8, %rsp
	ret
	.size	call_second, .-call_second

	.section .note.GNU-stack, "", @progbits
