// SPDX-License-Identifier: GPL-2.0-or-later
#include "sink/csv.h"

#include <errno.h>
#include <inttypes.h>
#include <unistd.h>

#include "sink/escape.h"
#include "sink/output.h"
#include "sink/words.h"

static void put_row(const struct timeline *timeline, const struct lane *lane, const struct scope *scope,
		    FILE *out, bool terminal)
{
	char flags[WORDS_FLAGS_SIZE];

	fprintf(out, "%" PRIu64 ",%" PRIu64 ",%" PRIu32 ",%" PRIu32 ",%u,%s,", scope->start_ns, scope->end_ns,
		lane->pid, lane->tid, scope->depth, words_kind(scope->kind));
	escape_csv(out, timeline->names[scope->name], terminal);
	putc(',', out);
	escape_csv(out, timeline->names[scope->module], terminal);
	fprintf(out, ",%s\n", words_flags(scope->flags, flags));
}

int csv_write(const struct timeline *timeline, FILE *out, const struct sink_options *options)
{
	bool terminal = isatty(fileno(out));

	(void)options;
	errno = 0;
	fputs("start_ns,end_ns,pid,tid,depth,kind,name,module,flags\n", out);
	for (size_t i = 0; i < timeline->lane_count; i++) {
		const struct lane *lane = &timeline->lanes[i];

		for (size_t j = 0; j < lane->scope_count; j++) {
			put_row(timeline, lane, &lane->scopes[j], out, terminal);
			if (ferror(out))
				return output_result(out);
		}
	}
	return output_result(out);
}
