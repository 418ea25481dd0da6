// SPDX-License-Identifier: GPL-2.0-or-later
/* Names: what is well-formed UTF-8, and what each sink makes of the rest. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "sink/escape.h"

static void expect_code(const char *bytes, size_t length, uint32_t code)
{
	uint32_t got;

	cr_expect_eq(escape_decode(bytes, &got), length, "length of %02x", (unsigned char)*bytes);
	cr_expect_eq(got, code, "code of %02x: %x", (unsigned char)*bytes, got);
}

Test(escape, decode)
{
	expect_code("a", 1, 'a');
	expect_code("\xc2\x80", 2, 0x80);
	expect_code("\xdf\xbf", 2, 0x7ff);
	expect_code("\xe0\xa0\x80", 3, 0x800);
	expect_code("\xef\xbf\xbf", 3, 0xffff);
	expect_code("\xf0\x90\x80\x80", 4, 0x10000);
	expect_code("\xf4\x8f\xbf\xbf", 4, 0x10ffff);
}

Test(escape, decode_invalid)
{
	expect_code("\x80", 1, ESCAPE_INVALID);		    /* continuation alone */
	expect_code("\xc0\x80", 1, ESCAPE_INVALID);	    /* NUL in two bytes */
	expect_code("\xc1\xbf", 1, ESCAPE_INVALID);	    /* too long a form */
	expect_code("\xe0\x9f\xbf", 1, ESCAPE_INVALID);	    /* too long a form */
	expect_code("\xf0\x8f\xbf\xbf", 1, ESCAPE_INVALID); /* too long a form */
	expect_code("\xed\xa0\x80", 1, ESCAPE_INVALID);	    /* a surrogate */
	expect_code("\xf4\x90\x80\x80", 1, ESCAPE_INVALID); /* above U+10FFFF */
	expect_code("\xf5\x80\x80\x80", 1, ESCAPE_INVALID);
	expect_code("\xff", 1, ESCAPE_INVALID);
	expect_code("\xc3", 1, ESCAPE_INVALID); /* the text ends inside */
	expect_code("\xe2\x82", 1, ESCAPE_INVALID);
	expect_code("\xf0\x90\x80", 1, ESCAPE_INVALID);
	expect_code("\xe2\x28\xa1", 1, ESCAPE_INVALID);
}

static void expect_text(const char *name, const char *expected)
{
	char *text = escape_text(name);

	cr_expect_str_eq(text, expected);
	free(text);
}

Test(escape, text)
{
	expect_text("operator<<(std::ostream&)", "operator<<(std::ostream&)");
	expect_text("\xc3\xa9t\xc3\xa9", "\xc3\xa9t\xc3\xa9");
	expect_text("a\nb\tc\r", "a\\nb\\tc\\u000d");
	expect_text("\x1b]0;owned\x07", "\\u001b]0;owned\\u0007");
	expect_text("\x7f\xc2\x9b", "\\u007f\\u009b");
	expect_text("\xe2\x80\xae"
		    "abc",
		    "\\u202e"
		    "abc");
	expect_text("\xff\xc3", "\\xff\\xc3");
}

/* Whatever the bytes, what comes out is one line of well-formed UTF-8 without controls; JSON besides without
 * bare quotes. */
Test(escape, any_bytes)
{
	srand(1);
	for (int round = 0; round < 20000; round++) {
		char name[24], *text;
		size_t length = (size_t)rand() % (sizeof(name) - 1);
		uint32_t code;

		for (size_t i = 0; i < length; i++)
			name[i] = (char)(rand() % 3 ? 1 + rand() % 255
						    : "\xc3\xe2\xf0\x80\xbf\x1b\n\""[rand() % 8]);
		name[length] = '\0';
		text = escape_text(name);
		for (const char *at = text; *at;) {
			at += escape_decode(at, &code);
			cr_assert(code != ESCAPE_INVALID && !escape_is_control(code));
		}
		free(text);
		text = escape_utf8(name);
		for (const char *at = text; *at;) {
			at += escape_decode(at, &code);
			cr_assert_neq(code, ESCAPE_INVALID);
		}
		free(text);
	}
}
