// SPDX-License-Identifier: GPL-2.0-or-later
#include "plan/hazard.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "support/program.h"

static struct hazard hazard_of(const char *path)
{
	struct module_list list;
	struct hazard hazard;

	cr_assert_eq(module_list_of_binary(path, &list), 0, "%s", path);
	cr_assert_eq(hazard_check(&list, &hazard), 0);
	module_list_close(&list);
	return hazard;
}

static struct hazard hazard_of_source(const char *command, const char *text)
{
	char path[256];

	shell("cd %s && rm -f p && printf '%%s' '%s' >p.cpp && cp p.cpp p.c && %s", scratch(), text,
	      command);
	snprintf(path, sizeof(path), "%s/p", scratch());
	return hazard_of(path);
}

static void assert_hazard(struct hazard hazard, const char *evidence)
{
	cr_assert(hazard.found, "nothing found, not %s", evidence);
	cr_assert_not_null(strstr(hazard.evidence, evidence), "%s", hazard.evidence);
}

/* This and no other kind is found. */
static void assert_only(struct hazard hazard, enum hazard_kind kind, const char *evidence)
{
	assert_hazard(hazard, evidence);
	for (int i = 0; i < HAZARD_KINDS; i++)
		cr_assert_eq(hazard.kinds[i], i == (int)kind, "kind %d: %s", i, hazard.evidence);
	for (size_t i = 0; i < hazard.count; i++)
		cr_assert_eq(hazard.items[i].kind, kind);
}

/* An object by itself, as one that is mapped later is judged. */
static int add_object(struct hazard *hazard, const char *path)
{
	const char *slash = strrchr(path, '/');
	struct module module = {.path = (char *)path,
				.base = (char *)(slash ? slash + 1 : path),
				.probe_path = (char *)path};

	return hazard_add(hazard, &module);
}

/* A library made from assembler, so that it has what it says and nothing else. */
static struct hazard hazard_of_assembler(const char *text)
{
	struct hazard hazard = {0};
	char path[256];

	shell("cd %s && rm -f p && printf '%%s\n' '%s' >p.s && gcc -shared -nostdlib p.s -o p",
	      scratch(), text);
	snprintf(path, sizeof(path), "%s/p", scratch());
	cr_assert_eq(add_object(&hazard, path), 0);
	return hazard;
}

/* What a program has that runs, made by a command from C that ends in a wait for its input. */
static struct hazard hazard_of_running(const char *command, const char *before, const char *body)
{
	struct module_list list;
	struct running running;
	struct hazard hazard;
	char path[256];

	shell("cd %s && rm -f p && cat >p.c <<'END'\n"
	      "#define _GNU_SOURCE\n#include <stdint.h>\n#include <stdio.h>\n#include <string.h>\n"
	      "#include <sys/mman.h>\n#include <unistd.h>\n%s\n"
	      "int main(void)\n{\n%s\nprintf(\"pid\\n\"); fflush(stdout); return getchar();\n}\nEND\n%s",
	      scratch(), before, body, command);
	snprintf(path, sizeof(path), "%s/p", scratch());
	running = running_start(path);
	cr_assert_eq(module_list_of_process(running.pid, &list), 0);
	cr_assert_eq(hazard_check(&list, &hazard), 0);
	module_list_close(&list);
	running_stop(&running);
	return hazard;
}

Test(hazard, plain_c_programs_are_safe)
{
	static const char *const names[] = {"alias", "clones", "twin", "zerosize", "loopentry"};
	struct hazard hazard;

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		hazard = hazard_of(target_path(names[i]));
		cr_assert_not(hazard.found, "%s", hazard.evidence);
	}
	hazard = hazard_of_source(
		"gcc -O0 p.c -o p -lm -pthread",
		"#include <math.h>\n#include <pthread.h>\nstatic void *f(void *x) { return x; }\n"
		"int main(int c, char **v) { pthread_t t; (void)v; pthread_create(&t, 0, f, 0); return "
		"(int)sin(c) + pthread_join(t, 0); }");
	cr_assert_not(hazard.found, "%s", hazard.evidence);
	cr_assert_eq(hazard.count, 0);
	cr_assert_eq(hazard.evidence[0], 0);
	cr_assert_not(hazard.asynchronous);
}

/*
 * Frames that move their stack pointer, handlers of signals, and a libc that contains all there is.
 */
Test(hazard, plain_c_programs_of_more_kinds_are_safe)
{
	struct hazard hazard;

	hazard = hazard_of_source(
		"gcc -O2 p.c -o p -lz -lm",
		"#include <signal.h>\n#include <string.h>\n#include <zlib.h>\n"
		"static void handler(int s) { (void)s; }\n"
		"__attribute__((noinline)) int f(int n) { int s = 0; for (int i = 1; i < n; i++) { char "
		"a[i * n]; memset(a, n, sizeof(a)); if (a[i] == 7) continue; s += a[n]; } return s; }\n"
		"int main(int c, char **v) { struct sigaction a = {0}; a.sa_handler = handler; "
		"sigaction(SIGUSR1, &a, 0); signal(SIGUSR2, handler); "
		"return f(c + 5) + (int)crc32(0, (void *)v[0], 3); }");
	cr_assert_not(hazard.found, "%s", hazard.evidence);
	cr_assert_not(hazard.asynchronous);
	hazard = hazard_of_running("gcc -O2 p.c -o p -Wl,-z,execstack", "", "");
	cr_assert_not(hazard.found, "%s", hazard.evidence);
}

Test(hazard, exceptions_are_found)
{
	struct running running = running_start(target_path("cxxthrow"));
	struct module_list list;
	struct hazard hazard;

	assert_hazard(hazard_of(target_path("cxxthrow")), "exception");
	cr_assert_eq(module_list_of_process(running.pid, &list), 0);
	cr_assert_eq(hazard_check(&list, &hazard), 0);
	assert_hazard(hazard, "exception");
	module_list_close(&list);
	running_stop(&running);
}

Test(hazard, a_cxx_library_is_enough)
{
	assert_hazard(
		hazard_of_source("g++ p.cpp -o p -Wl,--no-as-needed", "int main() { return 0; }"),
		"is mapped");
}

Test(hazard, static_and_stripped_cxx_is_found)
{
	const char *text =
		"#include <stdexcept>\nint main(int c, char **) { try { if (c > 5) throw "
		"std::runtime_error(\"x\"); } "
		"catch (...) { return 1; } return 0; }";

	assert_hazard(hazard_of_source("g++ p.cpp -o p -static-libstdc++ -static-libgcc -s", text),
		      "exception");
	assert_hazard(hazard_of_source("g++ p.cpp -o p -static -s", text), "exception");
}

Test(hazard, thread_ends_and_stack_switches_are_found)
{
	assert_hazard(hazard_of_source("gcc p.c -o p -pthread",
				       "#include <pthread.h>\nint main(void) { pthread_exit(0); }"),
		      "imports pthread_exit");
	assert_hazard(
		hazard_of_source(
			"gcc p.c -o p -pthread -s",
			"#include <pthread.h>\nint main(void) { return pthread_cancel(pthread_self()); }"),
		"imports pthread_cancel");
	assert_hazard(hazard_of_source("gcc p.c -o p",
				       "#include <ucontext.h>\nint main(void) { ucontext_t "
				       "a, b; return swapcontext(&a, &b); }"),
		      "imports swapcontext");
	assert_hazard(hazard_of_source("gcc p.c -o p",
				       "#include <signal.h>\nint main(void) { stack_t s = "
				       "{0}; return sigaltstack(&s, 0); }"),
		      "imports sigaltstack");
}

Test(hazard, clean_up_tables_in_c_are_found)
{
	assert_hazard(
		hazard_of_source(
			"gcc -fexceptions p.c -o p",
			"#include <stdlib.h>\nstatic void f(int *p) { (void)p; }\nint g(void);\n"
			"int main(void) { __attribute__((cleanup(f))) int a = 1; return g() + a; }\n"
			"__attribute__((noinline)) int g(void) { return rand(); }"),
		".gcc_except_table");
}

Test(hazard, go_programs_are_found)
{
	static const char *const sections[] = {".note.go.buildid", ".gopclntab"};

	for (size_t i = 0; i < sizeof(sections) / sizeof(sections[0]); i++) {
		struct hazard hazard;
		char command[256];

		snprintf(command, sizeof(command),
			 "gcc p.c -o p && echo id >id && objcopy --add-section %s=id p",
			 sections[i]);
		hazard = hazard_of_source(command, "int main(void) { return 0; }");
		assert_only(hazard, HAZARD_MOVES, "Go program");
		cr_assert(hazard.moves_stacks);
		cr_assert(hazard.asynchronous);
	}
}

Test(hazard, of_a_library_beside_a_plain_program_is_found)
{
	assert_hazard(
		hazard_of_source(
			"g++ -shared -fPIC p.cpp -o libthrows.so -static-libstdc++ -static-libgcc && "
			"echo \"int f(void); int main(void) { return f(); }\" >m.c && gcc m.c -o p -L. "
			"-lthrows -Wl,-rpath,\\$ORIGIN",
			"extern \"C\" int f(void) { throw 1; }"),
		"libthrows.so");
}

/* Who cannot look everywhere must not say that all is well. */
Test(hazard, what_could_not_be_looked_at_counts_as_one)
{
	keep_messages();
	assert_hazard(
		hazard_of_source(
			"cp /bin/true loader && gcc p.c -o p -Wl,--dynamic-linker=$PWD/loader",
			"int main(void) { return 0; }"),
		"not all of its files");
}

/* ---- each sign by itself ---- */

Test(hazard, every_import_and_definition_is_found)
{
	static const struct {
		const char *name;
		enum hazard_kind kind;
		bool asynchronous;
	} signs[] = {
		{"__cxa_throw", HAZARD_ABORTS, false},
		{"__cxa_rethrow", HAZARD_ABORTS, false},
		{"_Unwind_RaiseException", HAZARD_ABORTS, false},
		{"_Unwind_Resume", HAZARD_ABORTS, false},
		{"_Unwind_Resume_or_Rethrow", HAZARD_ABORTS, false},
		{"_Unwind_ForcedUnwind", HAZARD_ABORTS, false},
		{"rust_panic", HAZARD_ABORTS, false},
		{"pthread_exit", HAZARD_SKIPS, false},
		{"thrd_exit", HAZARD_SKIPS, false},
		{"pthread_cancel", HAZARD_SKIPS, true},
		{"pthread_setcanceltype", HAZARD_SKIPS, true},
		{"setcontext", HAZARD_MOVES, false},
		{"swapcontext", HAZARD_MOVES, false},
		{"makecontext", HAZARD_MOVES, false},
		{"jump_fcontext", HAZARD_MOVES, false},
		{"make_fcontext", HAZARD_MOVES, false},
		{"ontop_fcontext", HAZARD_MOVES, false},
		{"sigaltstack", HAZARD_SIGNAL, true},
		{"dlopen", HAZARD_LOADS, false},
		{"dlmopen", HAZARD_LOADS, false},
		{"__libc_dlopen_mode", HAZARD_LOADS, false},
	};

	for (size_t i = 0; i < sizeof(signs) / sizeof(signs[0]); i++) {
		struct hazard hazard;
		char text[256], found[64];

		snprintf(text, sizeof(text), "call %s@PLT", signs[i].name);
		snprintf(found, sizeof(found), "imports %s:", signs[i].name);
		hazard = hazard_of_assembler(text);
		assert_only(hazard, signs[i].kind, found);
		cr_assert_eq(hazard.asynchronous, signs[i].asynchronous, "%s", text);
		snprintf(text, sizeof(text), ".globl %s\n.type %s,@function\n%s: ret",
			 signs[i].name, signs[i].name, signs[i].name);
		snprintf(found, sizeof(found), "contains %s:", signs[i].name);
		assert_only(hazard_of_assembler(text), signs[i].kind, found);
		/* Something else that begins or ends so, or is no function. */
		snprintf(text, sizeof(text),
			 "call %sx@PLT\ncall x%s@PLT\ncall %.*s@PLT\n.data\n.globl %s\n%s: .long 0",
			 signs[i].name, signs[i].name, (int)strlen(signs[i].name) - 1,
			 signs[i].name, signs[i].name, signs[i].name);
		hazard = hazard_of_assembler(text);
		cr_assert_not(hazard.found, "%s: %s", text, hazard.evidence);
	}
}

/* Only together: a handler may be where the thread ends or the exception is thrown. */
Test(hazard, handlers_make_it_asynchronous)
{
	static const char *const handlers[] = {"sigaction",   "signal",	       "bsd_signal",
					       "sysv_signal", "__sysv_signal", "ssignal",
					       "sigset",      "sigvec"};
	static const char *const raisers[] = {"pthread_exit", "__cxa_throw", "swapcontext"};

	for (size_t i = 0; i < sizeof(handlers) / sizeof(handlers[0]); i++) {
		struct hazard hazard;
		char text[128];

		snprintf(text, sizeof(text), "call %s@PLT", handlers[i]);
		hazard = hazard_of_assembler(text);
		cr_assert_not(hazard.found || hazard.asynchronous, "%s", hazard.evidence);
		for (size_t k = 0; k < sizeof(raisers) / sizeof(raisers[0]); k++) {
			snprintf(text, sizeof(text), "call %s@PLT\ncall %s@PLT", raisers[k],
				 handlers[i]);
			cr_assert(hazard_of_assembler(text).asynchronous, "%s", text);
		}
		snprintf(text, sizeof(text), "call dlopen@PLT\ncall %s@PLT", handlers[i]);
		cr_assert_not(hazard_of_assembler(text).asynchronous, "%s", text);
	}
}

Test(hazard, a_personality_is_enough)
{
	assert_only(
		hazard_of_assembler(
			"p: ret\nf:\n.cfi_startproc\n.cfi_personality 0x1b,p\nret\n.cfi_endproc"),
		HAZARD_ABORTS, "personality");
	assert_only(hazard_of_assembler("f: ret\n.section .gcc_except_table,\"a\"\n.long 1"),
		    HAZARD_ABORTS, ".gcc_except_table");
}

#ifdef __x86_64__
Test(hazard, a_stack_switch_by_hand_is_found)
{
	assert_only(hazard_of_assembler("f: mov %rsp,(%rdi)\nmov %rsi,%rsp\nret"), HAZARD_MOVES,
		    "loads the stack pointer at 0x");
}
#endif

Test(hazard, libraries_are_known_by_name)
{
	static const struct {
		const char *name;
		enum hazard_kind kind;
	} names[] = {
		{"libstdc++.so.6", HAZARD_ABORTS},
		{"libc++.so.1", HAZARD_ABORTS},
		{"libc++abi.so.1", HAZARD_ABORTS},
		{"libgcc_s.so.1", HAZARD_ABORTS},
		{"libgcc_s-12.so.1", HAZARD_ABORTS},
		{"libunwind.so.8", HAZARD_ABORTS},
		{"libunwind-x86_64.so.8", HAZARD_ABORTS},
		{"libstd-0123.so", HAZARD_ABORTS},
		{"libboost_context.so.1.74.0", HAZARD_MOVES},
		{"libgo.so.21", HAZARD_MOVES},
	};

	shell("cd %s && echo 'f: ret' >p.s && gcc -shared -nostdlib p.s -o plain", scratch());
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		struct hazard hazard = {0};
		char path[256];

		shell("cp %s/plain '%s/%s'", scratch(), scratch(), names[i].name);
		snprintf(path, sizeof(path), "%s/%s", scratch(), names[i].name);
		cr_assert_eq(add_object(&hazard, path), 0);
		assert_only(hazard, names[i].kind, "is mapped:");
	}
}

/* ---- whole programs ---- */

Test(hazard, a_tail_jump_to_a_thrower_is_found)
{
	assert_hazard(
		hazard_of_source(
			"g++ -O2 -shared -fPIC p.cpp -o libthrows.so -s -static-libstdc++ "
			"-static-libgcc && echo \"void thrower(void); void leaf(void) { thrower(); } "
			"int main(void) { leaf(); return 0; }\" >m.c && gcc -O2 m.c -o p -s -L. -lthrows "
			"-Wl,-rpath,\\$ORIGIN",
			"extern \"C\" void thrower(void) { throw 1; }"),
		"libthrows.so has");
}

Test(hazard, rust_is_found)
{
	struct hazard hazard;

	if (system("command -v rustc >/dev/null && rustc --version >/dev/null 2>&1"))
		cr_skip_test("rustc is not installed");
	hazard = hazard_of_source("cp p.cpp p.rs && rustc -O -C strip=symbols p.rs -o p 2>rust.log",
				  "fn main() { println!(\"{}\", std::env::args().count()); }");
	assert_hazard(hazard, "Rust panic");
	cr_assert(hazard.kinds[HAZARD_ABORTS]);
}

Test(hazard, loaders_of_plugins_are_found)
{
	struct hazard hazard = hazard_of_source(
		"gcc p.c -o p", "#include <dlfcn.h>\nint main(int c, char **v) { return c > 1 ? "
				"dlopen(v[1], RTLD_NOW) != 0 : 0; }");

	assert_only(hazard, HAZARD_LOADS, "/p imports dlopen: code that is loaded later");
	cr_assert_not(hazard.asynchronous);
}

Test(hazard, memory_that_is_executable_is_found)
{
	struct hazard hazard;

	hazard = hazard_of_running(
		"gcc p.c -o p", "",
		"mmap(0, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);");
	assert_only(hazard, HAZARD_UNSEEN, "the program runs code of its own making");
	cr_assert(hazard.asynchronous);
	hazard = hazard_of_running(
		"gcc p.c -o p", "",
		"char *top = sbrk(8192); mprotect((void *)(((uintptr_t)top + 4095) & ~4095ul), 4096, "
		"PROT_READ | PROT_EXEC);");
	assert_only(hazard, HAZARD_UNSEEN, "the program runs code of its own making");
	/* As a compiler at run time does that never has memory both writable and executable. */
	hazard = hazard_of_running("gcc p.c -o p", "",
				   "int fd = memfd_create(\"jit\", 0); ftruncate(fd, 4096); "
				   "mmap(0, 4096, PROT_READ | PROT_EXEC, MAP_SHARED, fd, 0);");
	assert_only(hazard, HAZARD_UNSEEN, "/memfd:jit is mapped as code");
}

/* ---- what is kept ---- */

Test(hazard, an_object_that_comes_later_changes_the_verdict)
{
	struct hazard hazard;
	char path[256];

	hazard = hazard_of_source("gcc p.c -o p", "int main(void) { return 0; }");
	cr_assert_not(hazard.found);
	shell("cd %s && echo 'call dlopen@PLT' >p.s && gcc -shared -nostdlib p.s -o one && echo 'call pthread_exit@PLT; "
	      "call swapcontext@PLT; call makecontext@PLT' >p.s && gcc -shared -nostdlib p.s -o two",
	      scratch());
	snprintf(path, sizeof(path), "%s/one", scratch());
	cr_assert_eq(add_object(&hazard, path), 0);
	assert_only(hazard, HAZARD_LOADS, "/one imports dlopen:");
	cr_assert_null(strstr(hazard.evidence, "more"));
	snprintf(path, sizeof(path), "%s/two", scratch());
	for (int i = 0; i < 2; i++) { /* the second time changes nothing */
		cr_assert_eq(add_object(&hazard, path), 0);
		cr_assert_eq(hazard.count, 3);
		cr_assert_eq(hazard.left_out, 0);
		cr_assert(hazard.kinds[HAZARD_LOADS] && hazard.kinds[HAZARD_SKIPS] &&
			  hazard.kinds[HAZARD_MOVES] && !hazard.kinds[HAZARD_ABORTS]);
		cr_assert_eq(hazard.items[0].kind, HAZARD_LOADS);
		cr_assert_str_eq(hazard.items[0].found, "imports dlopen");
		cr_assert_str_eq(hazard.items[1].object, path);
		/* The gravest is told. */
		assert_hazard(hazard, "context: a stack switch inside");
		assert_hazard(hazard, "(and 2 more)");
	}
}

Test(hazard, more_evidence_than_fits_is_counted)
{
	struct hazard hazard = {0};
	char path[512], letters[201];

	memset(letters, 'x', 200);
	letters[200] = 0;
	shell("cd %s && echo 'call dlopen@PLT' >p.s && gcc -shared -nostdlib p.s -o p && mkdir -p %s%s",
	      scratch(), letters, "/yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy");
	for (int i = 0; i < HAZARD_EVIDENCE_MOST + 3; i++) {
		snprintf(path, sizeof(path),
			 "%s/%s/yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy/p%d",
			 scratch(), letters, i);
		shell("ln -s %s/p %s", scratch(), path);
		cr_assert_eq(add_object(&hazard, path), 0);
	}
	cr_assert_eq(hazard.count, HAZARD_EVIDENCE_MOST);
	cr_assert_eq(hazard.left_out, 3);
	assert_hazard(hazard, "yyyy/p0 imports dlopen");
	assert_hazard(hazard, "(and 34 more)");
}

Test(hazard, the_c_library_is_left_out)
{
	struct hazard hazard = {0};
	struct module_list list;

	cr_assert_eq(module_list_of_binary("/bin/sleep", &list), 0);
	for (size_t i = 0; i < list.count; i++) {
		list.items[i].is_libc = false;
		if (!list.items[i].is_main)
			hazard_add(&hazard, &list.items[i]);
	}
	cr_assert(hazard.found, "it has all of it");
	module_list_close(&list);
	cr_assert_eq(module_list_of_binary("/bin/sleep", &list), 0);
	cr_assert_eq(hazard_check(&list, &hazard), 0);
	cr_assert_not(hazard.found, "%s", hazard.evidence);
	module_list_close(&list);
}

Test(hazard, an_object_that_cannot_be_read_is_told)
{
	struct hazard hazard = {0};

	keep_messages();
	cr_assert_eq(add_object(&hazard, "/no/such/object"), -ENOENT);
	cr_assert_not_null(strstr(
		messages(), "cannot look for exceptions and stack switches in /no/such/object"));
}
