// SPDX-License-Identifier: GPL-2.0-or-later
#include "program/name.h"

#include <ctype.h>
#include <fnmatch.h>
#include <string.h>

/*
 * Suffixes that name another body of the same function. Go and assembler names have dots too, so
 * only known words count.
 */
static const char *const clone_words[] = {"constprop",	 "isra",   "part",	 "cold",
					  "lto_priv",	 "llvm",   "localalias", "clone",
					  "specialized", "__uniq", NULL};

bool name_is_among(const char *const *names, const char *name, size_t length)
{
	for (; *names; names++) {
		if (**names == *name && strncmp(*names, name, length) == 0 && !(*names)[length])
			return true;
	}
	return false;
}

bool name_matches_any(const char *const *globs, const char *name)
{
	while (*globs && fnmatch(*globs, name, 0) != 0)
		globs++;
	return *globs;
}

bool name_is_exec(const char *name, size_t length)
{
	static const char *const names[] = {"execve", "execv",	"execvp",  "execvpe",  "execl",
					    "execlp", "execle", "fexecve", "execveat", NULL};

	return name_is_among(names, name, length);
}

size_t name_without_version(const char *raw)
{
	const char *at = strchr(raw, '@');

	return at && at != raw ? (size_t)(at - raw) : strlen(raw);
}

size_t name_without_clone(const char *raw)
{
	for (const char *dot = strchr(raw, '.'); dot; dot = strchr(dot + 1, '.')) {
		if (dot != raw && name_is_among(clone_words, dot + 1, strcspn(dot + 1, ".")))
			return (size_t)(dot - raw);
	}
	return strlen(raw);
}

static bool has_clone_word(const char *raw, const char *word)
{
	size_t length = strlen(word);

	for (const char *dot = strchr(raw, '.'); dot; dot = strchr(dot + 1, '.')) {
		if (dot != raw && strncmp(dot + 1, word, length) == 0 &&
		    (dot[1 + length] == '\0' || dot[1 + length] == '.'))
			return true;
	}
	return false;
}

bool name_is_cold(const char *raw)
{
	return has_clone_word(raw, "cold");
}

bool name_is_part(const char *raw)
{
	return has_clone_word(raw, "part");
}

size_t name_without_clone_note(const char *demangled)
{
	const char *note = strstr(demangled, " [clone ");

	return note ? (size_t)(note - demangled) : strlen(demangled);
}

/* The index of the '(' that the ')' at `close` closes, or `close` itself if there is none. */
static size_t opening_of(const char *text, size_t close)
{
	size_t depth = 0;

	for (size_t i = close + 1; i-- > 0;) {
		if (text[i] == ')')
			depth++;
		else if (text[i] == '(' && --depth == 0)
			return i;
	}
	return close;
}

size_t name_without_parameters(const char *demangled, size_t length)
{
	size_t end = length;

	while (end && demangled[end - 1] != ')' && demangled[end - 1] != '>') {
		char c = demangled[end - 1];

		if (c != ' ' && c != '&' && !islower((unsigned char)c))
			return length;
		end--;
	}
	if (!end || demangled[end - 1] != ')')
		return length;
	/*
	 * What stands behind the list must be set off from it ("f() const"), else it is a name
	 * ("(anonymous namespace)::f").
	 */
	if (end < length && demangled[end] != ' ' && demangled[end] != '&')
		return length;
	end = opening_of(demangled, end - 1);
	return end ? end : length;
}

bool name_is_start_up(const char *raw)
{
	static const char *const names[] = {"_init",
					    "_fini",
					    "frame_dummy",
					    "register_tm_clones",
					    "deregister_tm_clones",
					    "__do_global_dtors_aux",
					    NULL};

	return name_is_among(names, raw, strlen(raw));
}

const char *name_unhookable(const char *raw)
{
	static const char *const without_call[] = {
		"_start",	"_dl_start_user",	"__restore_rt",
		"__restore",	"_dl_runtime_resolve*", "_dl_runtime_profile*",
		"__morestack*",
	};
	static const char *const keeps_return[] = {
		"setjmp",	"_setjmp",     "sigsetjmp",	"__sigsetjmp",
		"vfork",	"__vfork",     "__libc_vfork",	"getcontext",
		"__getcontext", "swapcontext", "__swapcontext", NULL,
	};

	for (size_t i = 0; i < sizeof(without_call) / sizeof(without_call[0]); i++) {
		size_t length = strcspn(without_call[i], "*");

		if (strncmp(raw, without_call[i], length) == 0 &&
		    (without_call[i][length] || !raw[length]))
			return "is entered without a call, so that it has no return to hook";
	}
	return name_is_among(keeps_return, raw, strlen(raw))
		       ? "returns twice: hooking its return would crash the program"
		       : NULL;
}
