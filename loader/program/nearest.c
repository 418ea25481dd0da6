// SPDX-License-Identifier: GPL-2.0-or-later
#include "program/nearest.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

void nearest_begin(struct nearest *nearest, const char *wanted)
{
	size_t length;

	*nearest = (struct nearest){0};
	snprintf(nearest->wanted, sizeof(nearest->wanted), "%s", wanted);
	length = strlen(nearest->wanted);
	nearest->limit = length < 7 ? 2 : length / 3;
}

static size_t smaller(size_t a, size_t b)
{
	return a < b ? a : b;
}

/*
 * Levenshtein's distance, upper and lower case alike, or more than the limit when it is more than
 * that.
 */
static size_t name_distance(const char *a, const char *b, size_t length, size_t limit)
{
	size_t row[NEAREST_LONGEST + 1], a_length = strlen(a);

	if ((a_length > length ? a_length - length : length - a_length) > limit ||
	    length >= NEAREST_LONGEST)
		return limit + 1;
	for (size_t j = 0; j <= length; j++)
		row[j] = j;
	for (size_t i = 1; i <= a_length; i++) {
		size_t diagonal = row[0], least = i;

		row[0] = i;
		for (size_t j = 1; j <= length; j++) {
			bool same = tolower((unsigned char)a[i - 1]) ==
				    tolower((unsigned char)b[j - 1]);
			size_t here = smaller(smaller(row[j], row[j - 1]) + 1, diagonal + !same);

			diagonal = row[j];
			row[j] = here;
			least = smaller(least, here);
		}
		if (least > limit)
			return limit + 1;
	}
	return row[length];
}

struct span {
	size_t start;
	size_t length;
};

/*
 * "method" of "ns::Class<std::string>::method<int>": of the last name outside angle brackets, what
 * stands before them.
 */
static struct span last_component(const char *name, size_t length)
{
	struct span span = {0, length};
	size_t depth = 0;

	for (size_t i = 0; i < length; i++) {
		if (name[i] == '<' && !depth++)
			span.length = i - span.start;
		else if (name[i] == '>' && depth)
			depth--;
		else if (name[i] == ':' && !depth && i + 1 < length && name[i + 1] == ':')
			span = (struct span){i + 2, length - i - 2};
	}
	return span;
}

static void insert_name(struct nearest *nearest, const char *name, size_t length, size_t found)
{
	size_t at = nearest->count;

	for (size_t i = 0; i < nearest->count; i++) {
		if (strncmp(nearest->items[i].name, name, length) == 0 &&
		    !nearest->items[i].name[length])
			return;
	}
	while (at && nearest->items[at - 1].distance > found)
		at--;
	if (at == NEAREST_MOST)
		return;
	if (nearest->count < NEAREST_MOST)
		nearest->count++;
	memmove(&nearest->items[at + 1], &nearest->items[at],
		(nearest->count - at - 1) * sizeof(nearest->items[0]));
	memcpy(nearest->items[at].name, name, length);
	nearest->items[at].name[length] = '\0';
	nearest->items[at].distance = found;
}

void nearest_offer(struct nearest *nearest, const char *name, size_t length)
{
	struct span last = last_component(name, length);
	size_t found, wanted_length = strlen(nearest->wanted);

	if (!length || length >= NEAREST_LONGEST)
		return;
	found = name_distance(nearest->wanted, name, length, nearest->limit);
	if (last.length != length)
		found = smaller(found, name_distance(nearest->wanted, name + last.start,
						     last.length, nearest->limit));
	if (found > nearest->limit && wanted_length >= 3 &&
	    memmem(name, length, nearest->wanted, wanted_length))
		found = nearest->limit;
	if (found <= nearest->limit)
		insert_name(nearest, name, length, found);
}

const char *nearest_list(const struct nearest *nearest, char *text, size_t size)
{
	*text = '\0';
	for (size_t i = 0; i < nearest->count; i++) {
		size_t used = strlen(text);

		snprintf(text + used, size - used, "%s%s", i ? ", " : "", nearest->items[i].name);
	}
	return text;
}
