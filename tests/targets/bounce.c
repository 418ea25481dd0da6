// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Pushes every thread of a process from cpu to cpu, each millisecond, until the process has ended.
 *
 *	bounce PID
 */
#include <dirent.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

/* False when the process is gone. */
static int push(const char *tasks, const cpu_set_t *where)
{
	DIR *directory = opendir(tasks);
	struct dirent *entry;
	int threads = 0;

	if (!directory)
		return 0;
	while ((entry = readdir(directory))) {
		int tid = atoi(entry->d_name);

		if (tid && !sched_setaffinity(tid, sizeof(*where), where))
			threads++;
	}
	closedir(directory);
	return threads;
}

int main(int argc, char **argv)
{
	const struct timespec millisecond = {.tv_nsec = 1000000};
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);
	char tasks[64];

	if (argc != 2 || cpus < 1)
		return 2;
	snprintf(tasks, sizeof(tasks), "/proc/%d/task", atoi(argv[1]));
	for (long turn = 0;; turn++) {
		cpu_set_t where;

		CPU_ZERO(&where);
		CPU_SET((size_t)(turn % cpus), &where);
		if (!push(tasks, &where))
			return 0;
		nanosleep(&millisecond, NULL);
	}
}
