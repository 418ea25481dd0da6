// SPDX-License-Identifier: GPL-2.0-or-later
#include "sink/escape.h"

#include <stdlib.h>
#include <string.h>

#define REPLACEMENT "\xef\xbf\xbd" /* U+FFFD in UTF-8 */

/*
 * How many bytes follow a lead byte, and which code points they may make; 0 for a byte that cannot
 * lead.
 */
static size_t sequence(unsigned char lead, uint32_t *code, uint32_t *lowest)
{
	if (lead >= 0xc2 && lead <= 0xdf) {
		*code = lead & 0x1f;
		*lowest = 0x80;
		return 1;
	}
	if (lead >= 0xe0 && lead <= 0xef) {
		*code = lead & 0x0f;
		*lowest = 0x800;
		return 2;
	}
	if (lead >= 0xf0 && lead <= 0xf4) {
		*code = lead & 0x07;
		*lowest = 0x10000;
		return 3;
	}
	return 0;
}

size_t escape_decode(const char *text, uint32_t *code)
{
	const unsigned char *bytes = (const unsigned char *)text;
	uint32_t value, lowest;
	size_t more;

	if (bytes[0] < 0x80) {
		*code = bytes[0];
		return 1;
	}
	*code = ESCAPE_INVALID;
	more = sequence(bytes[0], &value, &lowest);
	if (!more)
		return 1;
	for (size_t i = 1; i <= more; i++) {
		/* The NUL at the end is no continuation byte: this never reads past it. */
		if ((bytes[i] & 0xc0) != 0x80)
			return 1;
		value = value << 6 | (bytes[i] & 0x3f);
	}
	if (value < lowest || value > 0x10ffff || (value >= 0xd800 && value <= 0xdfff))
		return 1;
	*code = value;
	return more + 1;
}

bool escape_is_control(uint32_t code)
{
	return code < 0x20 || (code >= 0x7f && code <= 0x9f) || /* C0, DEL, C1 */
	       code == 0x061c || code == 0x200e || code == 0x200f ||
	       (code >= 0x2028 && code <= 0x202e) || (code >= 0x2066 && code <= 0x2069) ||
	       code == 0xfeff;
}

static void put_visible(FILE *out, const char *text, size_t length, uint32_t code)
{
	if (code == ESCAPE_INVALID)
		fprintf(out, "\\x%02x", (unsigned char)*text);
	else if (code == '\n')
		fputs("\\n", out);
	else if (code == '\t')
		fputs("\\t", out);
	else if (escape_is_control(code))
		fprintf(out, "\\u%04x", (unsigned)code);
	else
		fwrite(text, 1, length, out);
}

static void put_valid(FILE *out, const char *text, size_t length, uint32_t code)
{
	if (code == ESCAPE_INVALID)
		fputs(REPLACEMENT, out);
	else
		fwrite(text, 1, length, out);
}

typedef void (*put_function)(FILE *out, const char *text, size_t length, uint32_t code);

static char *copy(const char *text, put_function put)
{
	char *result = NULL;
	size_t size = 0;
	FILE *out = open_memstream(&result, &size);
	int failed;

	if (!out)
		return NULL;
	while (*text) {
		uint32_t code;
		size_t length = escape_decode(text, &code);

		put(out, text, length, code);
		text += length;
	}
	failed = ferror(out);
	if (fclose(out) || failed) {
		free(result);
		return NULL;
	}
	return result;
}

char *escape_text(const char *text)
{
	return copy(text, put_visible);
}

char *escape_utf8(const char *text)
{
	return copy(text, put_valid);
}

size_t escape_columns(const char *text)
{
	size_t columns = 0;

	for (; *text; text++)
		columns += (*text & 0xc0) != 0x80;
	return columns;
}

void escape_json(FILE *out, const char *text)
{
	putc('"', out);
	while (*text) {
		uint32_t code;
		size_t length = escape_decode(text, &code);

		if (code == '"' || code == '\\')
			fprintf(out, "\\%c", (char)code);
		else if (code == ESCAPE_INVALID)
			fputs("\\ufffd", out);
		/* all of them lie below U+10000: one unit of UTF-16 */
		else if (escape_is_control(code))
			fprintf(out, "\\u%04x", (unsigned)code);
		else
			fwrite(text, 1, length, out);
		text += length;
	}
	putc('"', out);
}

void escape_csv(FILE *out, const char *text, bool terminal)
{
	bool quoted = text[strcspn(text, ",\"\r\n")] != '\0';

	if (quoted)
		putc('"', out);
	while (*text) {
		uint32_t code;
		size_t length = escape_decode(text, &code);

		if (code == '"')
			fputs("\"\"", out);
		else if (terminal)
			put_visible(out, text, length, code);
		else
			put_valid(out, text, length, code);
		text += length;
	}
	if (quoted)
		putc('"', out);
}
