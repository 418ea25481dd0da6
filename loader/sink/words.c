// SPDX-License-Identifier: GPL-2.0-or-later
#include "sink/words.h"

#include <stdio.h>
#include <string.h>

static const struct {
	unsigned flag;
	const char *name;
} flag_names[] = {
	{SCOPE_FLAG_UNFINISHED, "unfinished"},
	{SCOPE_FLAG_UNWOUND, "unwound"},
	{SCOPE_FLAG_CUT, "cut"},
	{SCOPE_FLAG_LOST, "lost"},
	{SCOPE_FLAG_MIGRATED, "migrated"},
	{SCOPE_FLAG_INSTANT, "instant"},
};

const char *words_kind(unsigned kind)
{
	return kind == SCOPE_HOOKED ? "hooked" : "manual";
}

const char *words_flags(unsigned flags, char *text)
{
	char *end = text;

	for (size_t i = 0; i < sizeof(flag_names) / sizeof(flag_names[0]); i++) {
		if (!(flags & flag_names[i].flag))
			continue;
		if (end != text)
			*end++ = '|';
		end = stpcpy(end, flag_names[i].name);
	}
	*end = '\0';
	return text;
}

const char *words_not_hooked(uint32_t why)
{
	switch (why) {
	case NOT_HOOKED_SITE:
		return "the kernel takes no probe there";
	case NOT_HOOKED_TEXT:
		return "its probe is not in the memory of the process";
	case NOT_HOOKED_RETURNS:
		return "where it returns cannot be told";
	default:
		return "for a reason that is not known here";
	}
}

const char *words_mark(unsigned kind)
{
	switch (kind) {
	case MANUAL_INSTANT:
		return "instant";
	case MANUAL_COUNTER_INT:
	case MANUAL_COUNTER_DOUBLE:
		return "counter";
	case MANUAL_ASYNC_START:
		return "async start";
	case MANUAL_ASYNC_STOP:
		return "async stop";
	case MANUAL_FRAME:
		return "frame";
	case MANUAL_ARGUMENT:
		return "argument";
	case MANUAL_FLOW:
		return "flow";
	default:
		return "mark";
	}
}

void words_loss(const struct loss_event *loss, char *text, size_t size)
{
	switch (loss->place) {
	case LOSS_KERNEL_RING:
		snprintf(text, size, "kernel ring full on cpu %u", loss->index);
		break;
	case LOSS_SEGMENT_LAP:
		snprintf(text, size, "lapped in segment ring %u", loss->index);
		break;
	case LOSS_WRITTEN_OFF:
		snprintf(text, size, "never published in segment ring %u", loss->index);
		break;
	case LOSS_HANDOFF:
		snprintf(text, size, "hand-off buffer full");
		break;
	default:
		snprintf(text, size, "place %u, index %u", loss->place, loss->index);
	}
}
