// SPDX-License-Identifier: GPL-2.0-or-later
#include "sink/report.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define KEY(name, member)                                          \
	{                                                          \
		name, offsetof(struct function_statistics, member) \
	}
#define BY_NAME SIZE_MAX

static const struct sort_key {
	const char *name;
	size_t offset;
} sort_keys[] = {
	KEY("total", total_ns), /* first: the default */
	KEY("self", self_ns),	KEY("calls", calls), KEY("mean", mean_ns),
	KEY("p50", p50_ns),	KEY("p90", p90_ns),  KEY("p99", p99_ns),
	KEY("max", max_ns),	KEY("min", min_ns),  {"name", BY_NAME},
};

struct order {
	const struct timeline *timeline;
	size_t offset;
};

static const struct sort_key *find_key(const char *name)
{
	if (!name)
		return &sort_keys[0];
	for (size_t i = 0; i < sizeof(sort_keys) / sizeof(sort_keys[0]); i++) {
		if (strcmp(sort_keys[i].name, name) == 0)
			return &sort_keys[i];
	}
	return NULL;
}

bool report_sort_known(const char *key)
{
	return find_key(key) != NULL;
}

static uint64_t value_at(const struct function_statistics *function, size_t offset)
{
	return *(const uint64_t *)((const char *)function + offset);
}

static int compare(const void *left, const void *right, void *context)
{
	const struct function_statistics *a = left, *b = right;
	const struct order *order = context;
	char **names = order->timeline->names;
	int by_name;

	if (order->offset != BY_NAME) {
		uint64_t x = value_at(a, order->offset), y = value_at(b, order->offset);

		if (x != y)
			return x > y ? -1 : 1;
	}
	by_name = strcmp(names[a->name], names[b->name]);
	if (!by_name)
		by_name = strcmp(names[a->module], names[b->module]);
	return by_name ? by_name : a->kind - b->kind;
}

int report_sort(const struct timeline *timeline, const char *key,
		struct function_statistics *functions, size_t count)
{
	const struct sort_key *sort = find_key(key);
	struct order order = {timeline, 0};

	if (!sort)
		return -EINVAL;
	order.offset = sort->offset;
	if (count)
		qsort_r(functions, count, sizeof(*functions), compare, &order);
	return 0;
}
