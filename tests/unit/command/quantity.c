// SPDX-License-Identifier: GPL-2.0-or-later
#include <criterion/criterion.h>
#include <errno.h>

#include "command/quantity.h"

Test(quantity, durations_with_units)
{
	static const struct {
		const char *text;
		uint64_t ns;
	} cases[] = {{"2", 2000000000ull},     {"2s", 2000000000ull},	 {"500ms", 500000000ull},
		     {"50us", 50000ull},       {"10ns", 10ull},		 {"1.5s", 1500000000ull},
		     {"3m", 180000000000ull},  {"1h", 3600000000000ull}, {".5s", 500000000ull},
		     {"2MIN", 120000000000ull}};

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		uint64_t ns = 0;

		cr_assert_eq(parse_duration(cases[i].text, &ns), 0, "%s", cases[i].text);
		cr_assert_eq(ns, cases[i].ns, "%s gave %lu", cases[i].text, (unsigned long)ns);
	}
}

Test(quantity, what_is_no_duration)
{
	static const char *const bad[] = {"",	"s",   "-1",  "+2",   " 2",    "2 s",
					  "2x", "inf", "nan", "0x10", "1e400", "2s2"};
	uint64_t ns;

	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		cr_assert_eq(parse_duration(bad[i], &ns), -EINVAL, "'%s'", bad[i]);
	cr_assert_eq(parse_duration("0", &ns), -ERANGE);
	cr_assert_eq(parse_duration("0.1ns", &ns), -ERANGE);
	cr_assert_eq(parse_duration("99999999999h", &ns), -ERANGE);
}

Test(quantity, sizes)
{
	uint64_t bytes;

	cr_assert_eq(parse_size("4096", &bytes), 0);
	cr_assert_eq(bytes, 4096);
	cr_assert_eq(parse_size("64k", &bytes), 0);
	cr_assert_eq(bytes, 65536);
	cr_assert_eq(parse_size("8MiB", &bytes), 0);
	cr_assert_eq(bytes, 8u << 20);
	cr_assert_eq(parse_size("0", &bytes), -ERANGE);
	cr_assert_eq(parse_size("8Q", &bytes), -EINVAL);
}

Test(quantity, pids)
{
	pid_t pid;

	cr_assert_eq(parse_pid("1234", &pid), 0);
	cr_assert_eq(pid, 1234);
	cr_assert_eq(parse_pid("0", &pid), -ERANGE);
	cr_assert_eq(parse_pid("99999999999", &pid), -ERANGE);
	cr_assert_eq(parse_pid("-5", &pid), -EINVAL);
	cr_assert_eq(parse_pid("12a", &pid), -EINVAL);
	cr_assert_eq(parse_pid("", &pid), -EINVAL);
}
