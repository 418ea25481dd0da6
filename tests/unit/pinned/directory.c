// SPDX-License-Identifier: GPL-2.0-or-later
#include <criterion/criterion.h>
#include <linux/bpf.h>

#include "pinned/directory.h"

/* As Linux 6.6 and 6.7 leave it, and as later kernels fill it in. */
Test(pin, tells_whether_the_kernel_tells_of_hooks)
{
	struct bpf_link_info info = {.type = BPF_LINK_TYPE_UPROBE_MULTI};

	cr_assert(!pin_info_tells(&info));
	info.uprobe_multi.count = 3;
	cr_assert(pin_info_tells(&info));
	info = (struct bpf_link_info){.type = BPF_LINK_TYPE_TRACING};
	cr_assert(pin_info_tells(&info));
}

Test(pin, one_hook_that_is_not_told_is_enough)
{
	struct pin_link items[] = {{.is_told = true}, {.is_hook = true, .is_told = true}};
	struct pin_links links = {.items = items, .count = 2};

	cr_assert(pin_links_tell(&links));
	items[1].is_told = false;
	cr_assert(!pin_links_tell(&links));
	links.count = 0;
	cr_assert(pin_links_tell(&links));
}

Test(pin, a_name_tells_whose_a_hook_is)
{
	struct pin_link link = {.is_hook = true, .name = (char *)"1234-5-2a-77"};

	cr_assert_eq(pin_link_owner(&link), 1234);
	link.name = (char *)"kept-5-2a-77";
	cr_assert_eq(pin_link_owner(&link), 0);
	link = (struct pin_link){.name = (char *)"1234-5"};
	cr_assert_eq(pin_link_owner(&link), 0);
}
