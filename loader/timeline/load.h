/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Reading a capture file the first time: from chunks to a trace index. Purpose: every length, id
 * and kind of a hostile file is checked here, but for scopes and manual events (first_pass.h).
 * Owner: timeline_open().
 */
#ifndef SCOPETRACE_TIMELINE_LOAD_H
#define SCOPETRACE_TIMELINE_LOAD_H

#include "timeline/trace_index.h"

/*
 * Reads the file into *trace, whose timeline and region_records are given and which is otherwise
 * zero. 0 or -errno as timeline_open() has it, logged; what was read so far is freed by
 * trace_index_clear() and timeline_close().
 */
int trace_index_load(const char *path, struct trace_index *trace);

#endif
