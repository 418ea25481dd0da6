/* SPDX-License-Identifier: GPL-2.0-or-later */
/* looks_*: functions that look at their own return address; else_*: functions that only seem to. */
	.text
	.macro function name
	.globl \name
	.type \name, @function
\name:
	.endm
	.macro end name
	.size \name, . - \name
	.endm

	function looks_reads
	mov (%rsp), %rax
	ret
	end looks_reads

	function looks_deeper
	push %rbx
	sub $0x18, %rsp
	mov 0x20(%rsp), %rax
	add $0x18, %rsp
	pop %rbx
	ret
	end looks_deeper

	function looks_by_frame
	push %rbp
	mov %rsp, %rbp
	and $-32, %rsp
	mov 8(%rbp), %rax
	leave
	ret
	end looks_by_frame

	function looks_pops
	pop %rdx
	jmp *%rdx
	end looks_pops

	function looks_at_place
	push %rax
	lea 8(%rsp), %rdi
	call other@PLT
	pop %rcx
	ret
	end looks_at_place

	function looks_copies
	mov %rsp, %rdi
	call other@PLT
	ret
	end looks_copies

	function looks_by_branch
	test %edi, %edi
	jne 1f
	ret
1:	push %rax
	mov 8(%rsp), %rax
	pop %rcx
	ret
	end looks_by_branch

	function looks_by_tail
	xor %edi, %edi
	jmp looks_reads
	end looks_by_tail

	function looks_by_import
	mov $-1, %rdi
	jmp dlsym@PLT
	end looks_by_import

	function looks_profiled
	push %rbp
	mov %rsp, %rbp
	call *mcount@GOTPCREL(%rip)
	pop %rbp
	ret
	end looks_profiled

	function looks_for_profiler
	call mcount@PLT
	ret
	end looks_for_profiler

	function looks_locked
	lock xadd %rax, (%rsp)
	ret
	end looks_locked

/* A circle of tail calls, which one of them leaves to what looks; in both orders. */
	function looks_circle_a
	test %edi, %edi
	je looks_circle_b
	jmp looks_reads
	end looks_circle_a

	function looks_circle_b
	jmp looks_circle_a
	end looks_circle_b

	function looks_circle_c
	jmp looks_circle_d
	end looks_circle_c

	function looks_circle_d
	test %edi, %edi
	je looks_circle_c
	jmp looks_reads
	end looks_circle_d

	function else_circle_a
	jmp else_circle_b
	end else_circle_a

	function else_circle_b
	test %edi, %edi
	je else_circle_a
	ret
	end else_circle_b

	function else_plain
	push %rbp
	mov %rsp, %rbp
	mov 16(%rbp), %rax
	mov -8(%rbp), %rcx
	pop %rbp
	ret
	end else_plain

	function else_barrier
	lock orq $0, (%rsp)
	ret
	end else_barrier

	function else_calls
	push %rax
	call dlsym@PLT
	pop %rcx
	ret
	end else_calls

	function else_arguments
	lea 8(%rsp), %rdi
	mov 8(%rsp), %rax
	ret
	end else_arguments

	function else_instruction_pointer
	call 1f
1:	pop %rax
	ret
	end else_instruction_pointer

	function else_unknown
	mov %rdi, %rsp
	mov (%rsp), %rax
	pop %rcx
	ret
	end else_unknown
	.section .note.GNU-stack, "", @progbits
