// SPDX-License-Identifier: GPL-2.0-or-later
#include "base/capability.h"

#include <linux/capability.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/io.h"

/* By the kernel's own rule it would let us look at any process of our user namespace. */
static bool may_trace_all(void)
{
	static const char key[] = "\nCapEff:";
	unsigned long long effective = 0;
	const char *line;
	char *status;
	size_t length;

	if (io_read_file("/proc/self/status", &status, &length))
		return false;
	line = strstr(status, key);
	if (line)
		effective = strtoull(line + strlen(key), NULL, 16);
	free(status);
	return effective >> CAP_SYS_PTRACE & 1;
}

const char *right_to_look(void)
{
	if (may_trace_all())
		return "you have CAP_SYS_PTRACE, so a security module (Landlock, SELinux, AppArmor ...) forbids "
		       "it, or the process is of another user namespace";
	if (geteuid() == 0)
		return "you are root without CAP_SYS_PTRACE, as in a container: run scopetrace with it";
	return "run scopetrace as its user, or as root (sudo)";
}
