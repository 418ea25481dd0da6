/* SPDX-License-Identifier: GPL-2.0-or-later */
/* One function over which two unwind ranges lie, the second of which begins inside it and ends behind it. */
	.text
	.globl overlapped
	.type overlapped, @function
overlapped:
	.cfi_startproc
	call elsewhere@PLT
	test %eax, %eax
	js behind
	ret
	.cfi_endproc
	.cfi_startproc
	xor %eax, %eax
	ret
	.size overlapped, . - overlapped
behind:
	mov $1, %eax
	ret
	.cfi_endproc
	.section .note.GNU-stack, "", @progbits
