// SPDX-License-Identifier: GPL-2.0-or-later
#include "code/plt.h"

#include <criterion/criterion.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "support/program.h"

/* Against objdump, which names each stub `name@plt`. */
static size_t compare_stubs(const char *objdump, const char *path)
{
	struct module module = {
		.path = (char *)path, .probe_path = (char *)path, .base = (char *)path};
	char command[512], line[256], name[128];
	struct image image;
	struct stubs stubs;
	uint64_t address;
	size_t found = 0;
	FILE *lines;

	cr_assert_eq(image_open(&module, &image), 0, "%s", path);
	cr_assert_eq(stubs_open(&image, &stubs), 0);
	snprintf(command, sizeof(command), "%s -d %s", objdump, path);
	lines = popen(command, "r");
	cr_assert_not_null(lines);
	while (fgets(line, sizeof(line), lines)) {
		const char *target;

		if (sscanf(line, "%" SCNx64 " <%127[^@>]@plt>:", &address, name) != 2 ||
		    !strstr(line, "@plt>:"))
			continue;
		target = stubs_target(&stubs, address);
		cr_expect(target && strcmp(target, name) == 0, "%s at %#" PRIx64 ": %s, not %s",
			  path, address, target ? target : "nothing", name);
		found++;
	}
	cr_assert_eq(pclose(lines), 0);
	cr_expect_null(stubs_target(&stubs, image.entry), "the entry point is no stub");
	cr_expect_null(stubs_target(&stubs, UINT64_MAX));
	stubs_close(&stubs);
	image_close(&image);
	return found;
}

#define SOURCE                                                                                                  \
	"extern int one(int), two(int); int three(int x) { return one(x) + two(x); } int four(int x) { return " \
	"two(x); }"

static void build(const char *compiler, const char *flags, const char *path)
{
	shell("echo '" SOURCE "' | %s -O2 -shared -fPIC -nostdlib %s -x c - -o %s", compiler, flags,
	      path);
}

static void compare_build(const char *compiler, const char *objdump, const char *flags)
{
	char path[300];

	snprintf(path, sizeof(path), "%s/stubs.so", scratch());
	build(compiler, flags, path);
	cr_expect_eq(compare_stubs(objdump, path), 2, "%s %s", compiler, flags);
}

Test(stub, of_x86)
{
	compare_build("gcc", "objdump", "");
	compare_build("gcc", "objdump", "-fcf-protection=full -Wl,-z,ibtplt");
	compare_build("gcc", "objdump", "-Wl,-z,now");
	compare_build("clang", "objdump", "");
}

Test(stub, of_arm64)
{
	compare_build("aarch64-linux-gnu-gcc", "aarch64-linux-gnu-objdump", "");
	compare_build("aarch64-linux-gnu-gcc", "aarch64-linux-gnu-objdump",
		      "-mbranch-protection=standard -Wl,-z,force-bti");
}

Test(stub, of_a_program)
{
	cr_expect_gt(compare_stubs("objdump", target_path("pluginhost")), 3);
}
