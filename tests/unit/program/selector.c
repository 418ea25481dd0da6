// SPDX-License-Identifier: GPL-2.0-or-later
#include "program/selector.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/program.h"

static struct symbol_table table;

static void open_table(const char *name)
{
	cr_assert_eq(symbol_table_of_binary(target_path(name), false, &table), 0);
	keep_messages();
}

static void close_table(void)
{
	symbol_table_close(&table);
}

/* What these patterns choose, as "module:name module:name"; or the error as a number. */
static const char *chosen_by(const char *first, const char *second, const char *exclude)
{
	static char text[4096];
	char *include[] = {(char *)first, (char *)second}, *excluded[] = {(char *)exclude};
	const struct function **chosen;
	size_t count, used = 0;
	int err = selector_choose(&table, include, second ? 2 : 1, excluded, exclude ? 1 : 0, false,
				  &chosen, &count);

	if (err) {
		cr_assert_null(chosen);
		snprintf(text, sizeof(text), "%s", strerror(-err));
		return text;
	}
	text[0] = '\0';
	for (size_t i = 0; i < count; i++) {
		used += (size_t)snprintf(text + used, sizeof(text) - used, "%s%s:%s", i ? " " : "",
					 chosen[i]->module->base, chosen[i]->demangled);
		cr_assert_lt(used, sizeof(text));
	}
	free(chosen);
	return text;
}

#define assert_chooses(pattern, wanted) cr_assert_str_eq(chosen_by(pattern, NULL, NULL), wanted)

Test(selector, names_globs_and_expressions, .fini = close_table)
{
	open_table("clones");
	assert_chooses("hot", "clones:hot");
	assert_chooses("h?t", "clones:hot");
	assert_chooses("ho*", "clones:hot");
	assert_chooses("[h]ot", "clones:hot");
	assert_chooses("/^(hot|fail)$/", "clones:fail clones:hot");
	assert_chooses("clones:hot", "clones:hot");
	assert_chooses("cl*:/^hot$/", "clones:hot");
	assert_chooses("work", "clones:work.constprop.0");
	assert_chooses("work.constprop.0", "clones:work.constprop.0");
	assert_chooses("split", "clones:split.part.0");
	cr_assert_str_eq(chosen_by("hot", "fail", NULL), "clones:fail clones:hot");
	cr_assert_str_eq(chosen_by("hot", "h*", NULL), "clones:hot");
	cr_assert_str_eq(chosen_by("/^(hot|fail)$/", NULL, "f*"), "clones:hot");
	cr_assert_str_eq(chosen_by("hot", NULL, "hot"), strerror(ENOENT));
	cr_assert_not_null(strstr(messages(), "excluded"), "%s", messages());
}

Test(selector, the_c_library_only_when_named, .fini = close_table)
{
	open_table("clones");
	assert_chooses("malloc", "libc.so.6:malloc");
	assert_chooses("libc.so.6:malloc", "libc.so.6:malloc");
	assert_chooses("libc:malloc", "libc.so.6:malloc");
	assert_chooses("libc*:malloc", "libc.so.6:malloc");
	assert_chooses("mallo*", strerror(ENOENT));
	assert_chooses("clones:malloc", strerror(ENOENT));
	assert_chooses("nowhere:hot", strerror(ENOENT));
	cr_assert_not_null(
		strstr(messages(), "no module is called nowhere; there are: clones, libc.so.6"),
		"%s", messages());
}

Test(selector, an_alias_is_shown_as_asked_for_and_once, .fini = close_table)
{
	open_table("alias");
	assert_chooses("weak_alias", "alias:weak_alias");
	cr_assert_str_eq(chosen_by("real_name", "weak_alias", NULL), "alias:real_name");
	assert_chooses("fwrite", "libc.so.6:fwrite");
}

Test(selector, both_twins, .fini = close_table)
{
	open_table("twin");
	assert_chooses("twin", "twin:twin twin:twin");
}

Test(selector, untyped_symbols_by_their_exact_name_only, .fini = close_table)
{
	open_table("zerosize");
	assert_chooses("untyped", "zerosize:untyped");
	assert_chooses("untype?", strerror(ENOENT));
	assert_chooses("/^untyped$/", strerror(ENOENT));
	assert_chooses("sizel*", "zerosize:sizeless");
}

Test(selector, demangled_names, .fini = close_table)
{
	open_table("cxxthrow");
	assert_chooses("scene::twice<int>", "cxxthrow:scene::twice<int>(int)");
	assert_chooses("scene::twice<int>(int)", "cxxthrow:scene::twice<int>(int)");
	assert_chooses("scene::twice<int>( int )", "cxxthrow:scene::twice<int>(int)");
	assert_chooses("scene::tw*", "cxxthrow:scene::twice<int>(int)");
	assert_chooses("*::twice<*", "cxxthrow:scene::twice<int>(int)");
	assert_chooses("/^scene::twice/", "cxxthrow:scene::twice<int>(int)");
	assert_chooses("cxxthrow:scene::twice<int>", "cxxthrow:scene::twice<int>(int)");
	assert_chooses("_ZN5scene5twiceIiEET_S1_", "cxxthrow:scene::twice<int>(int)");
	/* gcc makes clones of them. */
	cr_assert_not_null(
		strstr(chosen_by("scene::Node::middle", NULL, NULL), "scene::Node::middle(int)"));
	cr_assert_not_null(strstr(chosen_by("scene::Node::thrower(int)", NULL, NULL),
				  "scene::Node::thrower(int)"));
	/* Names that mangling abbreviates are found as well. */
	cr_assert_str_eq(chosen_by("std::terminate", NULL, NULL),
			 "libstdc++.so.6.0.30:std::terminate()" + 0 * table.count);
}

static void assert_explains(const char *pattern, const char *why)
{
	assert_chooses(pattern, strerror(ENOENT));
	cr_assert_not_null(strstr(messages(), why), "%s", messages());
}

Test(selector, what_matches_nothing_gets_near_names, .fini = close_table)
{
	open_table("cxxthrow");
	assert_explains("cacher", "the nearest names: catcher");
	assert_explains("Catcher", "the nearest names: catcher");
	assert_explains("throwr", "the nearest names: scene::Node::thrower");
	assert_explains("middle", "the nearest names: scene::Node::middle");
	assert_explains("twice", "the nearest names: scene::twice<int>");
	assert_explains("qwertzuiopasdfgh", "none has a name like it");
}

Test(selector, what_cannot_be_hooked_is_explained, .fini = close_table)
{
	open_table("clones");
	assert_explains("clones:fputs",
			"fputs is imported by clones; it lives in libc.so.6: use libc.so.6:fputs");
	assert_explains("memcpy", "is an IFUNC");
	assert_explains("hot.cold", "cold part of a function");
	assert_explains("sum", "is data, not a function");
	assert_explains("setjmp", "returns twice");
	assert_explains("_start", "entered without a call");
}

Test(selector, what_was_inlined_is_explained)
{
	char path[256];

	snprintf(path, sizeof(path), "%s/inlined", scratch());
	shell("echo 'static int tiny(int a) { return a * 3; } int main(int c, char **v) { (void)v; return "
	      "tiny(c); }' "
	      ">%s.c && gcc -O2 -g %s.c -o %s",
	      path, path, path);
	cr_assert_eq(symbol_table_of_binary(path, false, &table), 0);
	keep_messages();
	assert_explains("tiny", "tiny in inlined was inlined wherever it is called");
	close_table();
	shell("strip %s", path);
	cr_assert_eq(symbol_table_of_binary(path, false, &table), 0);
	assert_explains("tiny", "there are no symbols to match");
	close_table();
}

static void assert_bad(const char *pattern, const char *why)
{
	errno = 0;
	cr_assert_null(selector_parse(pattern), "%s", pattern);
	cr_assert_eq(errno, EINVAL);
	cr_assert_not_null(strstr(messages(), why), "%s", messages());
}

Test(selector, bad_patterns_point_at_the_column)
{
	keep_messages();
	assert_bad("", "name is missing (column 1)");
	assert_bad(":fn", "library before : is missing (column 1)");
	assert_bad("lib:", "name is missing (column 5)");
	/* regcomp would take gigabytes. */
	assert_bad("/a++++++++++++++++++++++++++++++++/",
		   "it repeats too much (+ and {}) for the memory it would take (column 19)");
	assert_bad("/((a{200}){200}){200}/", "it repeats too much");
	assert_bad("/abc",
		   "closing / of the regular expression is missing (column 5)\n\t/abc\n\t    ^");
	assert_bad("lib:/a(b/", "(column 6)\n\tlib:/a(b/\n\t     ^");
	assert_bad("//", "is empty (column 2)");
}

Test(selector, a_thousand_functions_need_all)
{
	const struct function **chosen;
	char *include[] = {"libc*:*"};
	size_t count;

	open_table("alias");
	cr_assert_eq(selector_choose(&table, include, 1, NULL, 0, false, &chosen, &count), -E2BIG);
	cr_assert_not_null(strstr(messages(), "more than 1000 need --all"), "%s", messages());
	cr_assert_eq(selector_choose(&table, include, 1, NULL, 0, true, &chosen, &count), 0);
	cr_assert_gt(count, 1000);
	for (size_t i = 0; i < count; i++)
		cr_assert_not_null(chosen[i]->demangled);
	free(chosen);
	close_table();
}

Test(selector, patterns_come_from_files_too)
{
	char **patterns = NULL, argument[256];
	size_t count = 0;

	snprintf(argument, sizeof(argument), "@%s/patterns", scratch());
	shell("printf '# all of it\\n\\n  render_*  \\n\\tns::Class::f(int, char)\\r\\n#x\\nlast' >%s",
	      argument + 1);
	cr_assert_eq(selector_expand("first", &patterns, &count), 0);
	cr_assert_eq(selector_expand(argument, &patterns, &count), 0);
	cr_assert_eq(count, 4);
	cr_assert_str_eq(patterns[0], "first");
	cr_assert_str_eq(patterns[1], "render_*");
	cr_assert_str_eq(patterns[2], "ns::Class::f(int, char)");
	cr_assert_str_eq(patterns[3], "last");
	keep_messages();
	cr_assert_eq(selector_expand("@/nonexistent", &patterns, &count), -ENOENT);
	cr_assert_not_null(strstr(messages(), "/nonexistent"), "%s", messages());
	selector_free_patterns(patterns, count);
}
