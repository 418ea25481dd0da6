// SPDX-License-Identifier: GPL-2.0-or-later
#include "base/demangle.h"
#include "program/name.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "program/nearest.h"

static void assert_length(size_t (*of)(const char *), const char *name, const char *wanted)
{
	cr_assert_eq(of(name), strlen(wanted), "%s", name);
	cr_assert_eq(strncmp(name, wanted, strlen(wanted)), 0);
}

Test(name, versions_and_clone_suffixes_are_told_from_names)
{
	assert_length(name_without_version, "memcpy@@GLIBC_2.14", "memcpy");
	assert_length(name_without_version, "memcpy@GLIBC_2.2.5", "memcpy");
	assert_length(name_without_version, "memcpy", "memcpy");
	assert_length(name_without_version, "@odd", "@odd");
	assert_length(name_without_clone, "work.constprop.0", "work");
	assert_length(name_without_clone, "work.isra.0.constprop.12", "work");
	assert_length(name_without_clone, "work.part.3.cold", "work");
	assert_length(name_without_clone, "_ZN1a1bEv.llvm.123456", "_ZN1a1bEv");
	assert_length(name_without_clone, "main.work", "main.work");
	assert_length(name_without_clone, ".cold", ".cold");
	assert_length(name_without_clone, "x.colder", "x.colder");
	cr_assert(name_is_cold("f.cold") && name_is_cold("f.part.0.cold.7") &&
		  !name_is_cold("f.colder") && !name_is_cold("cold"));
	cr_assert(name_is_part("f.part.0") && !name_is_part("part") && !name_is_part("f.parts"));
}

static void assert_demangles(const char *raw, const char *wanted, const char *without_parameters)
{
	char *demangled = demangle(raw);
	size_t length;

	cr_assert_not_null(demangled, "%s", raw);
	cr_assert_str_eq(demangled, wanted);
	length = name_without_parameters(demangled, name_without_clone_note(demangled));
	cr_assert_eq(length, strlen(without_parameters), "%s", demangled);
	cr_assert_eq(strncmp(demangled, without_parameters, length), 0, "%s", demangled);
	free(demangled);
}

Test(name, cxx_and_rust_names_are_demangled)
{
	assert_demangles("_Z3fooi", "foo(int)", "foo");
	assert_demangles("_ZNK2ns1C1mEv", "ns::C::m() const", "ns::C::m");
	assert_demangles("_ZN2ns1CclEi", "ns::C::operator()(int)", "ns::C::operator()");
	assert_demangles("_Z5twiceIiET_S0_", "twice<int>(int)", "twice<int>");
	assert_demangles("_ZN12_GLOBAL__N_14workEv", "(anonymous namespace)::work()",
			 "(anonymous namespace)::work");
	assert_demangles("_ZN1AC2EPFivE", "A::A(int (*)())", "A::A");
	assert_demangles("_Z3fooi.constprop.0", "foo(int) [clone .constprop.0]", "foo");
	assert_demangles("_ZN4core3fmt9Formatter3pad17h0123456789abcdefE",
			 "core::fmt::Formatter::pad", "core::fmt::Formatter::pad");
	assert_demangles("_RNvCs1234_7mycrate3foo", "mycrate::foo", "mycrate::foo");
	cr_assert_null(demangle("plain"));
	cr_assert_null(demangle("_Zgarbage"));
}

/* A name of thousands of nested things must end in an answer, not in a full stack. */
Test(name, a_hostile_name_is_survived)
{
	size_t length = 1 << 20;
	char *name = malloc(length + 1);

	memcpy(name, "_Z1f", 4);
	memset(name + 4, 'P', length - 4);
	name[length] = '\0';
	free(demangle(name));
	memset(name + 4, 'N', length - 4);
	free(demangle(name));
	free(name);
}

Test(name, what_returns_twice_or_never_is_not_hooked)
{
	cr_assert_not_null(name_unhookable("_start"));
	cr_assert_not_null(name_unhookable("setjmp"));
	cr_assert_not_null(name_unhookable("vfork"));
	cr_assert_not_null(name_unhookable("_dl_runtime_resolve_xsavec"));
	cr_assert_null(name_unhookable("_start_all"));
	cr_assert_null(name_unhookable("setjmps"));
	cr_assert_null(name_unhookable("main"));
}

Test(nearest, the_nearest_come_first_and_only_five)
{
	static const char *const names[] = {"render_frame",  "render_frames",  "rendr_frame",
					    "rander_frome",  "unrelated",      "ns::render_frame",
					    "render_framed", "rendered_frame", "zzz"};
	struct nearest nearest;
	char text[1024];

	nearest_begin(&nearest, "render_fram");
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		nearest_offer(&nearest, names[i], strlen(names[i]));
	cr_assert_eq(nearest.count, NEAREST_MOST);
	cr_assert_str_eq(
		nearest_list(&nearest, text, sizeof(text)),
		"render_frame, ns::render_frame, render_frames, rendr_frame, render_framed");
	for (size_t i = 1; i < nearest.count; i++)
		cr_assert_geq(nearest.items[i].distance, nearest.items[i - 1].distance);
}

Test(nearest, long_names_and_repeated_ones_do_no_harm)
{
	char name[1000];
	struct nearest nearest;

	memset(name, 'a', sizeof(name) - 1);
	name[sizeof(name) - 1] = '\0';
	nearest_begin(&nearest, name);
	nearest_offer(&nearest, name, strlen(name));
	cr_assert_eq(nearest.count, 0);
	nearest_begin(&nearest, "f");
	nearest_offer(&nearest, "f", 1);
	nearest_offer(&nearest, "f", 1);
	nearest_offer(&nearest, "", 0);
	cr_assert_eq(nearest.count, 1);
}
