// SPDX-License-Identifier: GPL-2.0-or-later
#include "target/hazard.h"

#include <stdio.h>
#include <string.h>

#include "support.h"

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

	shell("cd %s && rm -f p && printf '%%s' '%s' >p.cpp && cp p.cpp p.c && %s", scratch(), text, command);
	snprintf(path, sizeof(path), "%s/p", scratch());
	return hazard_of(path);
}

static void assert_hazard(struct hazard hazard, const char *evidence)
{
	cr_assert(hazard.found, "nothing found, not %s", evidence);
	cr_assert_not_null(strstr(hazard.evidence, evidence), "%s", hazard.evidence);
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
	assert_hazard(hazard_of_source("g++ p.cpp -o p -Wl,--no-as-needed", "int main() { return 0; }"),
		      "is mapped");
}

Test(hazard, static_and_stripped_cxx_is_found)
{
	const char *text = "#include <stdexcept>\nint main(int c, char **) { try { if (c > 5) throw "
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
	assert_hazard(hazard_of_source("gcc p.c -o p", "#include <ucontext.h>\nint main(void) { ucontext_t "
						       "a, b; return swapcontext(&a, &b); }"),
		      "imports swapcontext");
	assert_hazard(hazard_of_source("gcc p.c -o p", "#include <signal.h>\nint main(void) { stack_t s = "
						       "{0}; return sigaltstack(&s, 0); }"),
		      "imports sigaltstack");
}

Test(hazard, clean_up_tables_in_c_are_found)
{
	assert_hazard(
		hazard_of_source("gcc -fexceptions p.c -o p",
				 "#include <stdlib.h>\nstatic void f(int *p) { (void)p; }\nint g(void);\n"
				 "int main(void) { __attribute__((cleanup(f))) int a = 1; return g() + a; }\n"
				 "__attribute__((noinline)) int g(void) { return rand(); }"),
		".gcc_except_table");
}

Test(hazard, go_programs_are_found)
{
	assert_hazard(
		hazard_of_source("gcc p.c -o p && echo id >id && objcopy --add-section .note.go.buildid=id p",
				 "int main(void) { return 0; }"),
		"Go program");
}

Test(hazard, of_a_library_beside_a_plain_program_is_found)
{
	assert_hazard(hazard_of_source(
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
	assert_hazard(hazard_of_source("cp /bin/true loader && gcc p.c -o p -Wl,--dynamic-linker=$PWD/loader",
				       "int main(void) { return 0; }"),
		      "not all of its files");
}
