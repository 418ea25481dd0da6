// SPDX-License-Identifier: GPL-2.0-or-later
#include "file/format.h"

const struct record_size scope_file_record_sizes[CHUNK_TYPES] = {
	[CHUNK_PROCESS] = {sizeof(struct process_info), 24},
	[CHUNK_THREAD] = {sizeof(struct thread_info), 32},
	[CHUNK_FUNCTION] = {sizeof(struct function_info), 24},
	[CHUNK_ANCHOR] = {sizeof(struct clock_anchor), 24},
	[CHUNK_HOOKED] = {sizeof(struct hooked_scope), 40},
	[CHUNK_MANUAL] = {sizeof(struct manual_event), 40},
	[CHUNK_LOSS] = {sizeof(struct loss_event), 32},
	[CHUNK_FUNCTION_ACCOUNTING] = {sizeof(struct function_account), 152},
	[CHUNK_SEGMENT_ACCOUNTING] = {sizeof(struct segment_accounting), 64},
	[CHUNK_FOOTER] = {sizeof(struct footer_payload), 120},
	[CHUNK_SPAN] = {sizeof(struct ring_span), 16},
	[CHUNK_INDEX] = {sizeof(struct index_entry), 40},
};
