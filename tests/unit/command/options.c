// SPDX-License-Identifier: GPL-2.0-or-later
#include <criterion/criterion.h>
#include <criterion/redirect.h>
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

#include "command/options.h"
#include "plan/returns.h"
#include "program/selector.h"

struct all {
	const char *text;
	const char *output;
	struct option_patterns patterns;
	uint64_t duration_ns, ring_bytes;
	enum return_mode returns;
	pid_t pid;
	int compress;
	bool on, migrate;
};

#define FIELD(name) offsetof(struct all, name)

static const struct option_row rows[] = {
	{"text", 0, required_argument, option_text, FIELD(text)},
	{"output", 'o', required_argument, option_output, FIELD(output)},
	{"function", 'f', required_argument, option_patterns, FIELD(patterns)},
	{"duration", 'd', required_argument, option_duration, FIELD(duration_ns)},
	{"ring-size", 0, required_argument, option_ring_size, FIELD(ring_bytes)},
	{"returns", 0, required_argument, option_returns, FIELD(returns)},
	{"pid", 'p', required_argument, option_pid, FIELD(pid)},
	{"compress", 'z', optional_argument, option_compress, FIELD(compress)},
	{"on", 'q', no_argument, option_switch, FIELD(on)},
	{"stacks", 0, required_argument, option_stacks, FIELD(migrate)},
	OPTION_HELP,
};

/* The words of the line, which has no quotes. */
static int read_line(const char *line, bool operands_end_it, struct all *all, int *operands)
{
	const struct option_table table = {"test",	    rows, sizeof(rows) / sizeof(*rows),
					   operands_end_it, NULL, "lists them"};
	char words[256], *argv[32] = {"test"}, *rest = NULL;
	int argc = 1, err;

	snprintf(words, sizeof(words), "%s", line);
	for (char *word = strtok_r(words, " ", &rest); word; word = strtok_r(NULL, " ", &rest))
		argv[argc++] = strdup(word);
	memset(all, 0, sizeof(*all));
	err = options_read(&table, all, argc, argv);
	*operands = argc - optind;
	return err;
}

Test(options, each_goes_into_its_field)
{
	struct all all;
	int operands;

	cr_assert_eq(
		read_line(
			"-o file --text=a -f one -fq two --function three -p 12 -d 2ms --ring-size 8K -q "
			"--returns none --compress --stacks migrate",
			false, &all, &operands),
		0);
	cr_assert_str_eq(all.output, "file");
	cr_assert_str_eq(all.text, "a");
	cr_assert_eq(all.patterns.count, 3);
	cr_assert_str_eq(all.patterns.list[0], "one");
	cr_assert_str_eq(all.patterns.list[1], "q");
	cr_assert_str_eq(all.patterns.list[2], "three");
	cr_assert_eq(all.pid, 12);
	cr_assert_eq(all.duration_ns, 2000000);
	cr_assert_eq(all.ring_bytes, 8192);
	cr_assert_eq(all.returns, RETURNS_NONE);
	cr_assert_eq(all.compress, 1);
	cr_assert(all.on && all.migrate);
	cr_assert_eq(operands, 1, "options behind an operand are ours");
	selector_free_patterns(all.patterns.list, all.patterns.count);
}

Test(options, a_command_line_behind_ours_is_left_alone)
{
	struct all all;
	int operands;

	cr_assert_eq(read_line("-q command --on -o x", true, &all, &operands), 0);
	cr_assert_eq(operands, 4);
	cr_assert_null(all.output);
	cr_assert_eq(read_line("-q -- --on", true, &all, &operands), 0);
	cr_assert_eq(operands, 1);
}

Test(options, nothing_is_read_behind_help)
{
	struct all all;
	int operands;

	cr_assert_eq(read_line("-q --help --nonsense", false, &all, &operands), OPTIONS_HELP);
	cr_assert(all.on);
}

Test(options, what_is_wrong_is_said, .init = cr_redirect_stderr)
{
	static const char *const wrong[] = {
		"--nonsense",	"-x",		"--text",	 "-p",
		"--o",		"--output=",	"-d x",		 "--ring-size 5000",
		"--returns no", "--compress=0", "--compress=11", "--stacks no",
		"--on=1"};
	struct all all;
	int operands;

	for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++)
		cr_assert_eq(read_line(wrong[i], false, &all, &operands), -EINVAL, "%s", wrong[i]);
	fflush(stderr);
	cr_assert_stderr_neq_str("");
}

Test(options, a_message_names_option_value_and_help, .init = cr_redirect_stderr)
{
	struct all all;
	int operands;

	read_line("--nonsense", false, &all, &operands);
	read_line("--text", false, &all, &operands);
	read_line("-p x", false, &all, &operands);
	fflush(stderr);
	cr_assert_stderr_eq_str(
		"scopetrace: error: --nonsense is no option; `scopetrace test --help` lists them\n"
		"scopetrace: error: --text wants a value; `scopetrace test --help` tells more\n"
		"scopetrace: error: -p 'x': wants a process id\n");
}
