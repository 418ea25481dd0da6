// SPDX-License-Identifier: GPL-2.0-or-later
#include "pinned/status.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/demangle.h"
#include "base/io.h"
#include "sink/escape.h"
#include "program/process.h"
#include "plan/returns.h"

/* ---- for both ---- */

static const char *state(const struct pinned_status *s)
{
	if (!s->settings.generation)
		return "ended";
	return s->settings.flags & SETTING_PAUSED ? "paused" : "running";
}

static void sum_up(const struct pinned_status *s, struct function_counters *sum)
{
	memset(sum, 0, sizeof(*sum));
	for (uint32_t i = 0; i < s->pinned.capture.functions; i++) {
		const uint64_t *from = (const uint64_t *)&s->counters[i];

		for (size_t j = 0; j < sizeof(*sum) / sizeof(*from); j++)
			((uint64_t *)sum)[j] += from[j];
	}
}

static uint64_t sites_of(const struct pinned_status *s, pid_t pid, size_t *links)
{
	uint64_t sites = 0;

	*links = 0;
	for (size_t i = 0; i < s->links.count; i++) {
		const struct pin_link *link = &s->links.items[i];

		if (!link->is_hook || link->pid != pid)
			continue;
		++*links;
		sites += link->count;
	}
	return sites;
}

static const char *function_name(const struct pinned_status *s, uint32_t id)
{
	return id < s->pinned.capture.functions ? s->functions[id].name : "?";
}

/* Those of the list: a call that was left by one of its exits is counted as completed only when its thread is
 * hit again. */
static size_t open_calls(const struct pinned_status *s, uint32_t id)
{
	size_t open = 0;

	for (size_t i = 0; i < s->call_count; i++)
		open += s->calls[i].function == id;
	return open;
}

/* malloc'ed: as people call it. */
static char *shown(const char *name)
{
	char *demangled = demangle(name), *text = escape_text(demangled ? demangled : name);

	free(demangled);
	return text;
}

/* False if the process has ended. */
static bool comm_of(pid_t pid, char comm[17])
{
	char *command = NULL;
	bool there = !process_read_name(pid, comm, &command);

	free(command);
	return there;
}

/* ---- for people ---- */

static void print_targets(const struct pinned_status *s)
{
	for (size_t i = 0; i < s->target_count; i++) {
		const struct pinned_target *target = &s->targets[i];
		size_t links;
		uint64_t sites = sites_of(s, target->pid, &links);
		char comm[17] = "";
		bool there = comm_of(target->pid, comm);
		char *text = escape_text(comm);

		printf("process %d (%s): %s, %zu links to %" PRIu64 " places\n", target->pid,
		       there && text ? text : "ended",
		       target->on || !(s->settings.flags & SETTING_TARGETS) ? "on" : "off", links,
		       sites);
		free(text);
	}
}

static void print_losses(const struct pinned_status *s, const struct function_counters *sum)
{
	printf("%" PRIu64 " calls completed, %" PRIu64 " lost in the ring, %" PRIu64
	       " below the minimum, %" PRIu64 " filtered, %" PRIu64 " too deep",
	       (uint64_t)sum->completed, (uint64_t)sum->ring_lost, (uint64_t)sum->below_minimum,
	       (uint64_t)sum->filtered, (uint64_t)sum->too_deep);
	if (sum->map_full)
		printf(", %" PRIu64 " not opened (map full)", (uint64_t)sum->map_full);
	if (sum->chain_full)
		printf(", %" PRIu64 " not opened (chain full)", (uint64_t)sum->chain_full);
	if (s->pending.thread_records)
		printf(", %" PRIu64 " records of threads lost in the ring",
		       (uint64_t)s->pending.thread_records);
	printf("\n");
}

static void print_watcher(const struct pinned_status *s)
{
	if (s->watched)
		printf("watcher: process %u\n", s->pinned.capture.watcher);
	else if (s->pinned.capture.watcher && s->settings.generation)
		printf("watcher: process %u HAS ENDED: manual scopes are not captured while nobody drains, and forked "
		       "children keep the breakpoints\n",
		       s->pinned.capture.watcher);
}

static void print_functions(const struct pinned_status *s)
{
	printf("\n%12s %12s %12s %10s  %-11s %s\n", "entries", "completed", "ring lost", "open",
	       "returns", "function");
	for (uint32_t i = 0; i < s->pinned.capture.functions; i++) {
		const struct function_counters *c = &s->counters[i];
		const struct function_setting *f = &s->functions[i];
		char *name = shown(f->name);

		printf("%12" PRIu64 " %12" PRIu64 " %12" PRIu64 " %10zu  %-11s %s%s\n",
		       (uint64_t)c->entries, (uint64_t)c->completed, (uint64_t)c->ring_lost,
		       open_calls(s, i),
		       f->returns ? return_mode_name((enum return_mode)f->returns) : "-",
		       name ? name : "?", f->flags & FUNCTION_OFF ? " (off)" : "");
		free(name);
	}
}

static void print_open(const struct pinned_status *s, uint64_t now)
{
	printf("\nopen now: %zu calls\n", s->call_count);
	for (size_t i = 0; i < s->call_count; i++) {
		const struct pinned_call *call = &s->calls[i];
		char *name = shown(function_name(s, call->function));

		printf("  pid %u tid %u  %10.3f ms  %s\n", call->tgid, call->tid,
		       now > call->start_ns ? (double)(now - call->start_ns) / 1e6 : 0,
		       name ? name : "?");
		free(name);
	}
}

void pinned_status_text(const struct pinned_status *s)
{
	struct function_counters sum;
	uint64_t now = io_now_ns();

	sum_up(s, &sum);
	printf("%s: %s, attached %.1f s ago, %s\n", s->pinned.dir, state(s),
	       (double)(now - s->pinned.capture.start_ns) / 1e9,
	       s->drained ? "being drained" : "not being drained");
	print_losses(s, &sum);
	printf("ring: %.1f of %.1f kB wait to be drained\n", (double)s->waiting_bytes / 1024,
	       (double)s->ring_bytes / 1024);
	if (s->settings.minimum_ns)
		printf("minimum: %.3f us\n", (double)s->settings.minimum_ns / 1e3);
	print_watcher(s);
	print_targets(s);
	if (s->links.unseen)
		printf("%zu links are not yours to look at\n", s->links.unseen);
	print_functions(s);
	print_open(s, now);
}

/* ---- for programs ---- */

static void json_string(const char *key, const char *value)
{
	printf(",\"%s\":", key);
	escape_json(stdout, value);
}

/* As `report --json` has it, and the symbol, which other commands take. */
static void json_name(const char *symbol)
{
	char *demangled = demangle(symbol);

	json_string("name", demangled ? demangled : symbol);
	json_string("symbol", symbol);
	free(demangled);
}

/* The whole account, so that it can be seen to add up. */
static void json_terms(const struct function_counters *c)
{
	const struct {
		const char *key;
		uint64_t count;
	} terms[] = {
		{"entries", c->entries},
		{"not_a_call", c->not_a_call},
		{"too_deep", c->too_deep},
		{"filtered", c->filtered},
		{"map_full", c->map_full},
		{"chain_full", c->chain_full},
		{"opened", c->opened},
		{"instants", c->instants},
		{"returns_seen", c->returns},
		{"not_a_return", c->not_a_return},
		{"orphans", c->orphans},
		{"duplicates", c->duplicates},
		{"completed", c->completed},
		{"discarded", c->discarded},
		{"unwound", c->unwound},
		{"unfinished", c->unfinished},
		{"below_minimum", c->below_minimum},
		{"ring_lost", c->ring_lost},
	};

	for (size_t i = 0; i < sizeof(terms) / sizeof(*terms); i++)
		printf(",\"%s\":%" PRIu64, terms[i].key, terms[i].count);
}

static void json_watcher(const struct pinned_status *s)
{
	if (s->pinned.capture.watcher)
		printf(",\"watcher\":{\"pid\":%u,\"ended\":%s}", s->pinned.capture.watcher,
		       s->watched ? "false" : "true");
	else
		printf(",\"watcher\":null");
}

static void json_functions(const struct pinned_status *s)
{
	printf(",\n\"functions\":[");
	for (uint32_t i = 0; i < s->pinned.capture.functions; i++) {
		const struct function_counters *c = &s->counters[i];
		const struct function_setting *f = &s->functions[i];

		printf("%s\n{\"id\":%u", i ? "," : "", i);
		json_name(f->name);
		json_string("path", f->module);
		json_string("returns",
			    f->returns ? return_mode_name((enum return_mode)f->returns) : "");
		printf(",\"off\":%s,\"minimum_ns\":%" PRIu64,
		       f->flags & FUNCTION_OFF ? "true" : "false", (uint64_t)f->minimum_ns);
		json_terms(c);
		printf(",\"open\":%zu}", open_calls(s, i));
	}
	printf("]");
}

static void json_targets(const struct pinned_status *s)
{
	printf(",\n\"processes\":[");
	for (size_t i = 0; i < s->target_count; i++) {
		const struct pinned_target *target = &s->targets[i];
		size_t links;
		uint64_t sites = sites_of(s, target->pid, &links);
		char comm[17] = "";
		bool there = comm_of(target->pid, comm);

		printf("%s\n{\"pid\":%d,\"on\":%s,\"ended\":%s", i ? "," : "", target->pid,
		       target->on ? "true" : "false", there ? "false" : "true");
		json_string("name", comm);
		printf(",\"links\":%zu,\"sites\":%" PRIu64 "}", links, sites);
	}
	printf("],\n\"links\":[");
	for (size_t i = 0; i < s->links.count; i++) {
		const struct pin_link *link = &s->links.items[i];

		printf("%s\n{\"id\":%u", i ? "," : "", link->id);
		json_string("pin", link->name);
		if (link->is_hook) {
			json_string("path", link->path);
			printf(",\"pid\":%d,\"return\":%s,\"sites\":%u", link->pid,
			       link->is_return ? "true" : "false", link->count);
		}
		printf("}");
	}
	printf("]");
}

static void json_calls(const struct pinned_status *s)
{
	printf(",\n\"open\":[");
	for (size_t i = 0; i < s->call_count; i++) {
		const struct pinned_call *call = &s->calls[i];

		printf("%s\n{\"pid\":%u,\"tid\":%u,\"start_ns\":%" PRIu64 ",\"function\":%u",
		       i ? "," : "", call->tgid, call->tid, call->start_ns, call->function);
		json_name(function_name(s, call->function));
		printf("}");
	}
	printf("]");
}

void pinned_status_json(const struct pinned_status *s)
{
	struct function_counters sum;

	sum_up(s, &sum);
	printf("{\"state\":\"%s\"", state(s));
	json_string("directory", s->pinned.dir);
	printf(",\"start_ns\":%" PRIu64 ",\"now_ns\":%" PRIu64
	       ",\"drained\":%s,\"minimum_ns\":%" PRIu64
	       ",\"ring_bytes\":%zu,\"waiting_bytes\":%zu,\"thread_records_lost\":%" PRIu64,
	       (uint64_t)s->pinned.capture.start_ns, io_now_ns(), s->drained ? "true" : "false",
	       (uint64_t)s->settings.minimum_ns, s->ring_bytes, s->waiting_bytes,
	       (uint64_t)s->pending.thread_records);
	json_terms(&sum);
	json_watcher(s);
	json_targets(s);
	json_functions(s);
	json_calls(s);
	printf("}\n");
}
