/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What one hit of a probe tells: the stack pointer, where the function will return to, which
 * function or site it is. Purpose: all that depends on the processor, and on how the kernel hands a
 * cookie over, in one place.
 */
#ifndef SCOPETRACE_HIT_BPF_H
#define SCOPETRACE_HIT_BPF_H

#include "maps.bpf.h"

#if defined(__TARGET_ARCH_x86)
#define ENTRY_SP(ctx) \
	((ctx)->sp + sizeof(u64)) /* the return address is on the stack and will be popped */
#define RETURN_SP(ctx) ((ctx)->sp)
#define HIT_IP(ctx)    ((ctx)->ip)
#elif defined(__TARGET_ARCH_arm64)
#define LINK_REGISTER  30
#define ENTRY_SP(ctx)  ((ctx)->user_regs.sp)
#define RETURN_SP(ctx) ((ctx)->user_regs.sp)
#define HIT_IP(ctx)    ((ctx)->user_regs.pc)
#endif

static __always_inline u64 return_address(struct pt_regs *ctx)
{
#if defined(__TARGET_ARCH_x86)
	u64 address = 0;

	bpf_probe_read_user(&address, sizeof(address), (void *)ctx->sp);
	return address;
#else
	return ctx->user_regs.regs[LINK_REGISTER];
#endif
}

/* True if this entry was jumped to from a frame whose return is pending at this stack pointer, or from
 * itself. */
static __always_inline bool entered_by_jump(struct pt_regs *ctx, struct task_struct *task)
{
	struct mm_struct *mm = task->mm;
	struct xol_area *area = mm ? mm->uprobes_state.xol_area : NULL;

	return area && return_address(ctx) == area->vaddr;
}

/* The goroutine that runs, as Go's compiler has it in a register everywhere. */
#if defined(__TARGET_ARCH_x86)
#define GOROUTINE(ctx) ((ctx)->r14)
#elif defined(__TARGET_ARCH_arm64)
#define GOROUTINE(ctx) ((ctx)->user_regs.regs[28])
#endif
#define GOROUTINE_STACK_END 8 /* in runtime.g, which begins with the bounds of its stack */
#define GOROUTINE_SHIFT	    6 /* they are hundreds of bytes */

/*
 * A place that a frame keeps when its goroutine's stack is copied to where there is more room: how
 * far it is from the end of the stack. Places of one goroutine are ordered as stack pointers are;
 * its number is above them.
 */
static __always_inline u64 goroutine_place(struct pt_regs *ctx, u64 sp)
{
	u64 goroutine = GOROUTINE(ctx), end = 0;

	bpf_probe_read_user(&end, sizeof(end), (void *)(goroutine + GOROUTINE_STACK_END));
	return goroutine >> GOROUTINE_SHIFT << 32 | (u32)(sp - end);
}

/*
 * The key of the frame at `sp`. With stacks that migrate it is not the thread's but the process's.
 */
static __always_inline struct open_key key_at(struct pt_regs *ctx, u64 sp, struct task_struct *task,
					      const struct pairing_settings *set)
{
	struct open_key key = {.sp = sp, .tid = task->pid};

	if (set->flags & SETTING_MIGRATE) {
		key.tid = task->tgid;
		key.of_process = 1;
	}
	if (set->flags & SETTING_GOROUTINES)
		key.sp = goroutine_place(ctx, sp);
	return key;
}

/* True if the user does not want calls of this function, or of this process, just now. */
static __always_inline bool is_filtered(const struct pairing_settings *set,
					const struct function_setting *function, u32 tgid)
{
	const struct target_setting *target;

	if (set->flags & SETTING_PAUSED || function->flags & FUNCTION_OFF)
		return true;
	if (!(set->flags & SETTING_TARGETS))
		return false;
	target = bpf_map_lookup_elem(&targets, &tgid);
	return !target || !target->on;
}

/* ---- registers and conditions, as an exit site names them ---- */

/*
 * The verifier allows only constant places in the context, so the compiler must not join the cases:
 * the number in the empty assembler line differs.
 */
#define REGISTER(number, field)                               \
	case number: {                                        \
		u64 value = (ctx)->field;                     \
		asm volatile("" : "+r"(value) : "i"(number)); \
		return value;                                 \
	}

#if defined(__TARGET_ARCH_x86)

static __always_inline u64 register_of(struct pt_regs *ctx, u8 number)
{
	switch (number) {
		/* clang-format off */
		REGISTER(0, ax)
		REGISTER(1, cx)
		REGISTER(2, dx)
		REGISTER(3, bx)
		REGISTER(4, sp)
		REGISTER(5, bp)
		REGISTER(6, si)
		REGISTER(7, di)
		REGISTER(8, r8)
		REGISTER(9, r9)
		REGISTER(10, r10)
		REGISTER(11, r11)
		REGISTER(12, r12)
		REGISTER(13, r13)
		REGISTER(14, r14)
		REGISTER(15, r15)
		/* clang-format on */
	default:
		return 0;
	}
}

#define FLAG_CARRY    (1 << 0)
#define FLAG_PARITY   (1 << 2)
#define FLAG_ZERO     (1 << 6)
#define FLAG_SIGN     (1 << 7)
#define FLAG_OVERFLOW (1 << 11)

/* The condition of jcc: the low nibble of its opcode, of which bit 0 negates. */
static __always_inline bool flags_hold(struct pt_regs *ctx, u8 code)
{
	u64 flags = ctx->flags;
	bool less = !(flags & FLAG_SIGN) != !(flags & FLAG_OVERFLOW), holds = false;

	switch (code >> 1 & 7) {
	case 0:
		holds = flags & FLAG_OVERFLOW;
		break;
	case 1:
		holds = flags & FLAG_CARRY;
		break;
	case 2:
		holds = flags & FLAG_ZERO;
		break;
	case 3:
		holds = flags & (FLAG_CARRY | FLAG_ZERO);
		break;
	case 4:
		holds = flags & FLAG_SIGN;
		break;
	case 5:
		holds = flags & FLAG_PARITY;
		break;
	case 6:
		holds = less;
		break;
	case 7:
		holds = flags & FLAG_ZERO || less;
		break;
	}
	return holds != (code & 1);
}

#elif defined(__TARGET_ARCH_arm64)

static __always_inline u64 register_of(struct pt_regs *ctx, u8 number)
{
	switch (number) {
		/* clang-format off */
		REGISTER(0, user_regs.regs[0])
		REGISTER(1, user_regs.regs[1])
		REGISTER(2, user_regs.regs[2])
		REGISTER(3, user_regs.regs[3])
		REGISTER(4, user_regs.regs[4])
		REGISTER(5, user_regs.regs[5])
		REGISTER(6, user_regs.regs[6])
		REGISTER(7, user_regs.regs[7])
		REGISTER(8, user_regs.regs[8])
		REGISTER(9, user_regs.regs[9])
		REGISTER(10, user_regs.regs[10])
		REGISTER(11, user_regs.regs[11])
		REGISTER(12, user_regs.regs[12])
		REGISTER(13, user_regs.regs[13])
		REGISTER(14, user_regs.regs[14])
		REGISTER(15, user_regs.regs[15])
		REGISTER(16, user_regs.regs[16])
		REGISTER(17, user_regs.regs[17])
		REGISTER(18, user_regs.regs[18])
		REGISTER(19, user_regs.regs[19])
		REGISTER(20, user_regs.regs[20])
		REGISTER(21, user_regs.regs[21])
		REGISTER(22, user_regs.regs[22])
		REGISTER(23, user_regs.regs[23])
		REGISTER(24, user_regs.regs[24])
		REGISTER(25, user_regs.regs[25])
		REGISTER(26, user_regs.regs[26])
		REGISTER(27, user_regs.regs[27])
		REGISTER(28, user_regs.regs[28])
		REGISTER(29, user_regs.regs[29])
		REGISTER(30, user_regs.regs[30])
		/* clang-format on */
	default:
		return 0;
	}
}

#define FLAG_OVERFLOW (1ull << 28)
#define FLAG_CARRY    (1ull << 29)
#define FLAG_ZERO     (1ull << 30)
#define FLAG_NEGATIVE (1ull << 31)

/* The condition of b.cond; bit 0 negates, but for 14 and 15, which always hold. */
static __always_inline bool flags_hold(struct pt_regs *ctx, u8 code)
{
	u64 flags = ctx->user_regs.pstate;
	bool less = !(flags & FLAG_NEGATIVE) != !(flags & FLAG_OVERFLOW), holds = true;

	switch (code >> 1 & 7) {
	case 0:
		holds = flags & FLAG_ZERO;
		break;
	case 1:
		holds = flags & FLAG_CARRY;
		break;
	case 2:
		holds = flags & FLAG_NEGATIVE;
		break;
	case 3:
		holds = flags & FLAG_OVERFLOW;
		break;
	case 4:
		holds = flags & FLAG_CARRY && !(flags & FLAG_ZERO);
		break;
	case 5:
		holds = !less;
		break;
	case 6:
		holds = !less && !(flags & FLAG_ZERO);
		break;
	case 7:
		return true;
	}
	return holds != (code & 1);
}
#endif

static __always_inline bool condition_holds(struct pt_regs *ctx, const struct exit_setting *site)
{
	u64 value = register_of(ctx, site->base);

	if (site->width == 32)
		value = (u32)value;
	switch (site->condition) {
	case SITE_FLAGS:
		return flags_hold(ctx, site->code);
	case SITE_ZERO:
		return !value;
	case SITE_NOT_ZERO:
		return value;
	case SITE_BIT_CLEAR:
		return !(value >> (site->code & 63) & 1);
	case SITE_BIT_SET:
		return value >> (site->code & 63) & 1;
	default:
		return true;
	}
}

#endif
