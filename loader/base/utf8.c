// SPDX-License-Identifier: GPL-2.0-or-later
#include "base/utf8.h"

#include <stdlib.h>
#include <string.h>

/*
 * Length of the valid UTF-8 sequence at `s` (RFC 3629: no overlong forms, no surrogates, up to
 * U+10FFFF); if there is none, 0 and in *bad the number of bytes to replace by one U+FFFD.
 */
static size_t sequence(const unsigned char *s, size_t left, size_t *bad)
{
	unsigned char low = 0x80, high = 0xbf;
	size_t length, i;

	*bad = 1;
	if (s[0] && s[0] < 0x80)
		return 1;
	if (s[0] < 0xc2 || s[0] > 0xf4)
		return 0;
	length = s[0] < 0xe0 ? 2 : s[0] < 0xf0 ? 3 : 4;
	if (s[0] == 0xe0)
		low = 0xa0;
	else if (s[0] == 0xed)
		high = 0x9f;
	else if (s[0] == 0xf0)
		low = 0x90;
	else if (s[0] == 0xf4)
		high = 0x8f;
	for (i = 1; i < length; i++, low = 0x80, high = 0xbf) {
		if (i >= left || s[i] < low || s[i] > high) {
			*bad = i;
			return 0;
		}
	}
	return length;
}

char *name_from_bytes(const char *bytes, size_t length)
{
	const unsigned char *s = (const unsigned char *)bytes;
	char *name = malloc(length * 3 + 1);
	size_t used = 0, i = 0;

	if (!name)
		return NULL;
	while (i < length) {
		size_t bad, valid = sequence(s + i, length - i, &bad);

		memcpy(name + used, valid ? bytes + i : "\xef\xbf\xbd", valid ? valid : 3);
		used += valid ? valid : 3;
		i += valid ? valid : bad;
	}
	name[used] = '\0';
	if (used < length * 3) {
		char *fitted = realloc(name, used + 1);

		if (fitted)
			name = fitted;
	}
	return name;
}

size_t name_cut(const char *text, size_t limit)
{
	size_t length = strnlen(text, limit + 1);

	if (length <= limit)
		return length;
	while (limit && ((unsigned char)text[limit] & 0xc0) == 0x80)
		limit--;
	return limit;
}
