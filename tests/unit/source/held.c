// SPDX-License-Identifier: GPL-2.0-or-later
/* Names in several records, with other records of the thread between them. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "source/held.h"

enum { TID = 7 };

/* What left, in words: "id:name " for each. */
struct left {
	char names[64][1100];
	uint32_t name_count;
	char text[16384];
};

static int take_name(void *context, const char *bytes, size_t length, uint32_t *id)
{
	struct left *left = context;

	memcpy(left->names[left->name_count], bytes, length);
	left->names[left->name_count][length] = '\0';
	*id = ++left->name_count;
	return 0;
}

static int take_event(void *context, const struct manual_event *event)
{
	struct left *left = context;

	sprintf(left->text + strlen(left->text), "%d:%s ", (int)event->scope_id,
		event->name ? left->names[event->name - 1] : "");
	return 0;
}

static struct left left;
static struct held held = {.output = {take_name, take_event, &left}};

static struct manual_event event(uint64_t scope_id)
{
	return (struct manual_event){.scope_id = scope_id, .tid = TID, .kind = MANUAL_START};
}

static void begin(uint64_t scope_id, const char *name)
{
	struct manual_event e = event(scope_id);

	cr_assert_eq(held_begin(&held, &e, name, strlen(name)), 0);
}

static void go_on(uint64_t scope_id, const char *name, bool last)
{
	cr_assert_eq(held_continue(&held, TID, scope_id, name, strlen(name), last), 0);
}

static void put(uint64_t scope_id)
{
	struct manual_event e = event(scope_id);

	cr_assert_eq(held_put(&held, &e), 0);
}

static void expect(const char *text)
{
	cr_assert_str_eq(left.text, text);
	left.text[0] = '\0';
}

Test(held, a_name_in_pieces)
{
	put(1);
	expect("1: ");
	begin(2, "ab");
	go_on(2, "cd", false);
	expect("");
	go_on(2, "ef", true);
	expect("2:abcdef ");
	cr_assert_eq(held.count, 0);
	/* Of a name whose beginning was lost. */
	go_on(3, "x", true);
	expect("");
	held_clear(&held);
}

/* A signal handler between the pieces, with a long name of its own. */
Test(held, the_order_of_the_thread_stays)
{
	begin(1, "outer");
	put(2);
	begin(3, "inner");
	put(4);
	go_on(3, "!", true);
	expect("");
	go_on(1, "?", true);
	expect("1:outer? 2: 3:inner! 4: ");
	held_clear(&held);
}

/* The end of the name was lost: its thread's later events do not wait for ever. */
Test(held, a_lost_end_is_not_waited_for)
{
	begin(1, "cut");
	for (uint64_t i = 0; i < 63; i++)
		put(100);
	expect("");
	put(101);
	cr_assert(strncmp(left.text, "1:cut 100: ", 11) == 0, "%s", left.text);
	cr_assert_eq(held.count, 0, "nothing waits any more");
	left.text[0] = '\0';
	begin(2, "short");
	cr_assert_eq(held_finish(&held), 0);
	expect("2:short ");
	held_clear(&held);
}

/* A forged segment: any number of threads that never end a name, names without end. */
Test(held, memory_is_bounded)
{
	char block[32];

	memset(block, 'x', sizeof(block));
	for (uint32_t tid = 0; tid < 150; tid++) {
		struct manual_event e = {.tid = 1000 + tid, .scope_id = tid};

		cr_assert_eq(held_begin(&held, &e, "n", 1), 0);
	}
	cr_assert_leq(held.count, 128);
	held_clear(&held);
	left.name_count = 0;
	begin(1, "x");
	for (int i = 0; i < 100; i++)
		cr_assert_eq(held_continue(&held, TID, 1, block, sizeof(block), i == 99), 0);
	cr_assert_eq(strlen(left.names[0]), 1024);
	held_clear(&held);
}
