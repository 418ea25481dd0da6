// SPDX-License-Identifier: GPL-2.0-or-later
#include "pinned/names.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/vec.h"

static int by_name(const void *left, const void *right)
{
	return strcmp(*(char *const *)left, *(char *const *)right);
}

static int read_all(DIR *folder, struct pin_names *names)
{
	size_t capacity = 0;
	struct dirent *entry;

	while ((entry = readdir(folder))) {
		if (entry->d_name[0] == '.')
			continue;
		if (vec_grow(&names->items, &capacity, names->count))
			return -ENOMEM;
		names->items[names->count] = strdup(entry->d_name);
		if (!names->items[names->count])
			return -ENOMEM;
		names->count++;
	}
	return 0;
}

int pin_names_read(const char *dir, const char *folder, struct pin_names *names)
{
	char path[PATH_MAX];
	DIR *open = NULL;
	int err = 0;

	*names = (struct pin_names){0};
	if (snprintf(path, sizeof(path), "%s/%s", dir, folder) >= (int)sizeof(path))
		err = -ENAMETOOLONG;
	else
		open = opendir(path);
	if (open) {
		err = read_all(open, names);
		closedir(open);
	} else if (!err && errno != ENOENT) {
		err = -errno;
	}
	if (err)
		log_error("cannot read the directory %s/%s: %s", dir, folder, strerror(-err));
	else
		qsort(names->items, names->count, sizeof(*names->items), by_name);
	return err;
}

void pin_names_clear(struct pin_names *names)
{
	for (size_t i = 0; i < names->count; i++)
		free(names->items[i]);
	free(names->items);
	*names = (struct pin_names){0};
}
