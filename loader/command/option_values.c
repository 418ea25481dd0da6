// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "command/options.h"
#include "command/quantity.h"
#include "plan/returns.h"
#include "program/selector.h"

int option_switch(char *value, void *on)
{
	(void)value;
	*(bool *)on = true;
	return 0;
}

int option_text(char *value, void *text)
{
	*(const char **)text = value;
	return 0;
}

int option_output(char *value, void *path)
{
	*(const char **)path = value;
	return *value ? 0 : option_refuse("-o", value, "wants a file name");
}

int option_pid(char *value, void *pid)
{
	if (*(pid_t *)pid)
		return option_refuse("-p", value, "one process at a time: -p was given before");
	return parse_pid(value, pid) ? option_refuse("-p", value, "wants a process id") : 0;
}

int option_patterns(char *value, void *patterns)
{
	struct option_patterns *into = patterns;

	return selector_expand(value, &into->list, &into->count);
}

int option_duration(char *value, void *ns)
{
	return parse_duration(value, ns) ? option_refuse("--duration", value,
							 "wants a time such as 2, 2s, 500ms or 1m")
					 : 0;
}

int option_minimum(char *value, void *ns)
{
	return parse_duration(value, ns)
		       ? option_refuse("--min", value, "wants a time such as 50us")
		       : 0;
}

int option_ring_size(char *value, void *bytes)
{
	uint64_t size;

	if (parse_size(value, &size) || size < 4096 || size > 1u << 30 || (size & (size - 1)))
		return option_refuse("--ring-size", value,
				     "wants a power of two from 4K to 1G, such as 8M");
	*(uint64_t *)bytes = size;
	return 0;
}

int option_returns(char *value, void *mode)
{
	for (enum return_mode each = RETURNS_AUTO; each <= RETURNS_NONE; each++) {
		if (strcmp(value, return_mode_name(each)) == 0) {
			*(enum return_mode *)mode = each;
			return 0;
		}
	}
	return option_refuse("--returns", value, "wants auto, uretprobe, instruction or none");
}

int option_refuse_terminal(const char *output)
{
	if (strcmp(output, "-") != 0 || !isatty(STDOUT_FILENO))
		return 0;
	log_error(
		"-o -: a capture is binary, and standard output is a terminal: redirect it, or name a file");
	return -EINVAL;
}

int option_stacks(char *value, void *migrate)
{
	*(bool *)migrate = strcmp(value, "migrate") == 0;
	return *(bool *)migrate || strcmp(value, "stay") == 0
		       ? 0
		       : option_refuse("--stacks", value, "wants migrate, or stay");
}

int option_compress(char *value, void *level)
{
	int asked = value ? value[0] - '0' : 1;

	if (value && (asked < 1 || asked > 9 || value[1]))
		return option_refuse("--compress", value,
				     "wants a level from 1 (fast) to 9 (small)");
	*(int *)level = asked;
	return 0;
}

int option_ready_fd(char *value, void *fd)
{
	char *end;
	long number = strtol(value, &end, 10);

	if (*end || end == value || number < 0 || number > 1 << 20 ||
	    fcntl((int)number, F_GETFD) < 0)
		return option_refuse("--ready-fd", value, "not an open file descriptor");
	fcntl((int)number, F_SETFD, FD_CLOEXEC);
	*(int *)fd = (int)number;
	return 0;
}
