/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Two copies of libscope in one process: this program's own, and that of a plug-in which is loaded while a
 * scope is open. `copies PLUGIN`. Both must write to one segment, and the thread must start once in it.
 * Prints what it found.
 */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "reader.h"
#include "scope.h"

struct seen {
	unsigned thread_starts;
	unsigned records;
	char names[256];
};

static int take(void *context, uint32_t ring, const struct scope_record *record)
{
	struct seen *seen = context;

	(void)ring;
	seen->records++;
	seen->thread_starts += record->kind == SCOPE_KIND_THREAD_START;
	if (record->kind == SCOPE_KIND_START) {
		strncat(seen->names, record->name, record->name_length);
		strcat(seen->names, " ");
	} else if (record->kind == SCOPE_KIND_STOP) {
		strcat(seen->names, "/ ");
	}
	return 0;
}

static int miss(void *context, uint32_t ring, enum scope_gap_reason reason, uint64_t count)
{
	(void)context;
	(void)ring;
	(void)reason;
	(void)count;
	return -1;
}

/* From outside there is one segment only. */
static int count_segments(void)
{
	FILE *maps = fopen("/proc/self/maps", "r");
	char line[512];
	int count = 0;

	while (maps && fgets(line, sizeof(line), maps))
		count += strstr(line, "/memfd:libscope") && strstr(line, " 00000000 ");
	if (maps)
		fclose(maps);
	return count;
}

int main(int argc, char **argv)
{
	struct seen seen = {0};
	struct scope_reader_events events = {.context = &seen, .record = take, .gap = miss};
	struct scope_reader *reader = scope_reader_open(getpid());
	void (*plugin_work)(void);
	void *plugin;

	if (argc != 2 || !reader)
		return 1;
	scope_reader_capture(reader, 60000000000ull);
	{
		SCOPE("program");
		plugin = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
		if (!plugin) {
			fprintf(stderr, "%s\n", dlerror());
			return 1;
		}
		*(void **)&plugin_work = dlsym(plugin, "plugin_work");
		plugin_work();
		dlclose(plugin);
		SCOPE("after");
	}
	plugin = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
	*(void **)&plugin_work = dlsym(plugin, "plugin_work");
	plugin_work();
	scope_reader_drain(reader, &events, 0);
	printf("segments=%d thread_starts=%u records=%u names=%s\n", count_segments(), seen.thread_starts,
	       seen.records, seen.names);
	scope_reader_close(reader);
	return !(count_segments() == 1 && seen.thread_starts == 1 && seen.records == 9 &&
		 strcmp(seen.names, "program plugin / after / / plugin / ") == 0);
}
