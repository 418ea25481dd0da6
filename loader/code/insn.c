// SPDX-License-Identifier: GPL-2.0-or-later
#include "code/insn.h"

#include <elf.h>
#include <errno.h>

int decoder_open(uint16_t machine, struct decoder *decoder)
{
	bool is_x86 = machine == EM_X86_64;
	cs_err err;

	*decoder = (struct decoder){.machine = machine};
	if (!is_x86 && machine != EM_AARCH64)
		return -ENOTSUP;
	decoder->stack_pointer = is_x86 ? X86_RSP : ARM64_SP;
	/* rax rcx rdx rsi rdi r8-r11; x0-x18, and x30, which the call itself writes. */
	decoder->lost_in_calls = is_x86 ? 0x0fc7 : 0x4007ffff;
	err = is_x86 ? cs_open(CS_ARCH_X86, CS_MODE_64, &decoder->handle)
		     : cs_open(CS_ARCH_ARM64, CS_MODE_LITTLE_ENDIAN, &decoder->handle);
	/* A Capstone that was built without one of them. */
	if (err != CS_ERR_OK)
		return err == CS_ERR_MEM ? -ENOMEM : -ENOTSUP;
	cs_option(decoder->handle, CS_OPT_DETAIL, CS_OPT_ON);
	decoder->insn = cs_malloc(decoder->handle);
	if (!decoder->insn) {
		decoder_close(decoder);
		return -ENOMEM;
	}
	return 0;
}

void decoder_close(struct decoder *decoder)
{
	if (decoder->insn)
		cs_free(decoder->insn, 1);
	if (decoder->handle)
		cs_close(&decoder->handle);
	*decoder = (struct decoder){0};
}

bool decoder_read(struct decoder *decoder, const uint8_t *bytes, size_t length, uint64_t address,
		  struct flow *flow)
{
	*flow = (struct flow){.kind = FLOW_NEXT,
			      .to = SITE_REGISTER_NONE,
			      .from = SITE_REGISTER_NONE,
			      .added = SITE_REGISTER_NONE};
	flow->site = (struct exit_site){
		.address = address, .base = SITE_REGISTER_NONE, .index = SITE_REGISTER_NONE};
	return decoder->machine == EM_X86_64 ? flow_x86_read(decoder, bytes, length, flow)
					     : flow_arm64_read(decoder, bytes, length, flow);
}
