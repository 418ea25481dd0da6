/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * `other_version MAJOR MINOR`: a program whose segment says that it is of that version. Prints its pid;
 * records a scope each millisecond until its stdin ends.
 */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "scope.h"
#include "segment.h"

int main(int argc, char **argv)
{
	struct scope_header *header = (struct scope_header *)scope_gate.segment;
	struct pollfd in = {.fd = STDIN_FILENO, .events = POLLIN};

	if (argc != 3 || !header)
		return 1;
	header->abi_major = (uint16_t)atoi(argv[1]);
	header->abi_minor = (uint16_t)atoi(argv[2]);
	printf("%d\n", (int)getpid());
	fflush(stdout);
	while (poll(&in, 1, 1) == 0) {
		SCOPE_HOT("scope of another version");
	}
	return 0;
}
