// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * selector_parse and selector_matches: libFuzzer target. The input is a pattern, a zero, and the
 * name of a function that it is tried on, with names of a C++, a Rust and a C program. Regular
 * expressions with repetition counts, back references or many repetitions are left out: what they
 * take (/a++++++++++++++++/: twice the memory with each +) is the C library's affair, and who gives
 * the pattern waits for himself only.
 */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "program/selector.h"

static const char *const names[] = {
	"main",
	"_ZN5space4ship4moveEPKc",
	"_ZNSt6vectorIiSaIiEE9push_backEOi",
	"_RNvCs1234_7mycrate4main",
	"parse.constprop.0",
	"",
};

static bool costs_the_library(const char *pattern)
{
	size_t repetitions = 0;

	for (const char *at = pattern; *at; at++)
		repetitions += strchr("*+?", *at) != NULL;
	return strchr(pattern, '/') &&
	       (strchr(pattern, '{') || strchr(pattern, '\\') || repetitions > 4);
}

static void match(const struct selector *selector, const char *name)
{
	struct module module = {.base = "libfoo.so.6"};
	struct function function = {.name = name, .demangled = name, .module = &module};

	selector_matches(selector, &function);
	function.is_untyped = true;
	selector_matches(selector, &function);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *pattern = calloc(1, size + 2), *name;
	struct selector *selector;

	if (!pattern)
		exit(2);
	memcpy(pattern, data, size);
	name = pattern + strlen(pattern) + (strlen(pattern) < size);
	if (size < 256 && !costs_the_library(pattern)) {
		selector = selector_parse(pattern);
		if (selector) {
			match(selector, name);
			for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
				match(selector, names[i]);
			selector_names_module(selector);
		}
		selector_destroy(selector);
	}
	free(pattern);
	return 0;
}
