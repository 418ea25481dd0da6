// SPDX-License-Identifier: GPL-2.0-or-later
#include "plan/text_check.h"

#include <errno.h>
#include <stdlib.h>

#include "base/log.h"
#include "program/image.h"
#include "program/process.h"
#include "program/text.h"

#define MOST_NAMED 5

static const char changed_text[] =
	"other code in memory than in its file (patched, relocated or unpacked), which a probe would undo";

/* ---- before ---- */

static bool is_changed(struct text *text, const struct function *function,
		       const struct return_choice *choice)
{
	const struct function_shape *shape = choice->shape;

	if (text_look(text, function->module, function->probe_offset) == TEXT_CHANGED)
		return true;
	for (size_t i = 0; shape && i < shape->exit_count; i++) {
		uint64_t offset =
			function->file_offset + (shape->exits[i].address - function->address);

		if (text_look(text, function->module, offset) == TEXT_CHANGED)
			return true;
	}
	return false;
}

int text_refuse_changed(struct plan *plan, pid_t pid, bool *changed)
{
	struct text text;
	int err = text_open(pid, &text);

	*changed = false;
	for (size_t i = 0; i < plan->count && !err; i++) {
		const struct function *function = plan->functions[i];

		if (!function || plan->returns.choices[i].refused ||
		    !is_changed(&text, function, &plan->returns.choices[i]))
			continue;
		plan->symbols.functions[function - plan->symbols.functions].refused = changed_text;
		*changed = true;
	}
	text_close(&text);
	return err == -ENOMEM ? err : 0;
}

/* -ENOMEM; another failure to read the file is for those who need its code. */
static int is_relocated(const struct module *module, bool *relocated)
{
	struct image image;
	int err = image_open(module, &image);

	*relocated = !err && image_has_text_relocations(&image);
	if (!err)
		image_close(&image);
	return err == -ENOMEM ? err : 0;
}

int text_refuse_relocated(struct plan *plan, bool *changed)
{
	const struct module *module = NULL;
	bool relocated = false;
	int err = 0;

	*changed = false;
	for (size_t i = 0; i < plan->count && !err; i++) {
		const struct function *function = plan->functions[i];

		if (!function)
			continue;
		if (function->module != module)
			err = is_relocated(function->module, &relocated);
		module = function->module;
		if (!relocated)
			continue;
		plan->symbols.functions[function - plan->symbols.functions].refused =
			"in a file with text relocations, whose code is written when it is mapped";
		*changed = true;
	}
	return err;
}

/* ---- after ---- */

static void log_unreached(const struct plan *plan, size_t function, size_t *named)
{
	if ((*named)++ < MOST_NAMED)
		log_warning("%s is not reached: no probe stands at its entry in the memory of the "
			    "process; calls of it are not seen",
			    plan->functions[function]->demangled);
}

/* The kernel arms what the first thread has mapped. */
static int fail_unreached(pid_t pid)
{
	pid_t tid = pid;

	if (process_live_thread(pid, &tid) == 0 && tid != pid)
		log_error(
			"no function is reached: the first thread of process %d has ended, and the kernel "
			"finds what to probe by that thread. Start the program under `scopetrace record "
			"-- COMMAND`",
			pid);
	else
		log_error(
			"no function is reached: the memory of process %d holds none of the probes at "
			"their entries; has it moved its code, or runs a copy of it?",
			pid);
	return -ENXIO;
}

int text_verify(struct plan *plan, pid_t pid, bool (*is_refused)(const void *of, uint32_t function),
		const void *of)
{
	size_t reached = 0, unreached = 0, named = 0;
	struct text text;
	bool is_first = !plan->unreached;
	int err = text_open(pid, &text);

	if (!err && is_first) {
		plan->unreached = calloc(plan->count ? plan->count : 1, sizeof(*plan->unreached));
		err = plan->unreached ? 0 : -ENOMEM;
	}
	for (size_t i = 0; i < plan->count && !err; i++) {
		const struct function *function = plan->functions[i];
		enum text_state state;

		if (!function || plan->returns.choices[i].refused || is_refused(of, (uint32_t)i))
			continue;
		state = text_look(&text, function->module, function->probe_offset);
		reached += state == TEXT_PROBED;
		/* Later on a library may have been closed, whose functions nobody calls then. */
		if (state == TEXT_PROBED || (state == TEXT_UNMAPPED && !is_first))
			continue;
		unreached++;
		if (!plan->unreached[i])
			log_unreached(plan, i, &named);
		plan->unreached[i] = true;
	}
	text_close(&text);
	if (named > MOST_NAMED)
		log_warning("and %zu more are not reached", named - MOST_NAMED);
	if (err)
		return err == -ENOMEM ? err : 0;
	return unreached && !reached && named ? fail_unreached(pid) : 0;
}
