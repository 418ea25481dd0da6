/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The protocol of the hand-off buffer (loader/source/handoff.c, pending.c) for Spin: each access to what the
 * two threads share is one step, in the order in which the code makes them. A record takes one place of the
 * ring; lengths and the rewind are left to the unit tests, as they are of one thread.
 *
 * What must hold: the reader gets each record or is told that it was discarded, once, in order, with the time
 * of the first (here: its number) and the count right; nobody writes a place that the other has; the reader
 * sleeps for good only if there is nothing (else an invalid end state); the end comes behind everything.
 *
 * -DCLOSES: the writer closes at last; without it nothing but its writes may wake the reader.
 * Mutants, which Spin must refute: NO_GENERATION, BLIND_SLEEP, LATE_CLEAR, LATE_TIME, POSITION_FIRST,
 * CLOSED_LAST (with CLOSES), ROOM_FOR_ONE, KEPT_EXTRA.
 */
#ifndef RECORDS
#define RECORDS 7
#endif
#ifndef CAPACITY
#define CAPACITY 3
#endif
#ifndef INTERRUPTIONS
#define INTERRUPTIONS 1 /* how often the reader's sleep ends for no reason */
#endif

/* The write position and its flags: one word in the code, so they change together. */
byte written;
bool sleeps;
bool extra;
/* The read position. */
byte read;
/* The pending entry: count and generation are one word, the time of the first is another. */
byte count;
byte generation;
byte first;
bool closed;
/* The eventfd. */
bool awake;
/* The ring. discarded 0: record `number`; else so many from `number` on. tagged: its tag is set. */
byte number[CAPACITY];
byte discarded[CAPACITY];
bool tagged[CAPACITY];

/* What a successful exchange does; the writer's retries do nothing else. */
inline publish(places, flag)
{
	atomic { old_sleeps = sleeps; written = written + places; sleeps = false; extra = flag }
	if
	:: old_sleeps -> awake = true
	:: else
	fi
}

inline put(what, how_many)
{
	d_step {
		assert(!tagged[written % CAPACITY]);
		tagged[written % CAPACITY] = true;
		number[written % CAPACITY] = what;
		discarded[written % CAPACITY] = how_many
	}
	publish(1, false)
}

#ifdef NO_GENERATION
#define CHANGED(c, g) (count != c)
#define NEXT_GENERATION generation
#else
#define CHANGED(c, g) (count != c || generation != g)
#define NEXT_GENERATION generation + 1
#endif

/* pending_add */
inline add(time)
{
	atomic { seen = count; seen_generation = generation }
	do
	:: seen == 0 ->
#ifdef LATE_TIME
		atomic { count = 1; generation = NEXT_GENERATION }
		first = time;
#else
		first = time;
		atomic { count = 1; generation = NEXT_GENERATION }
#endif
		break
	:: else ->
		atomic {
			if
			:: CHANGED(seen, seen_generation) -> seen = count; seen_generation = generation
			:: else -> count++; seen = 255
			fi
		}
		if
		:: seen == 255 -> break
		:: else
		fi
	od
}

/* put_discarded */
inline put_pending()
{
	do
	:: atomic { seen = count; seen_generation = generation }
		if
		:: seen == 0 -> break
		:: else
		fi
		time_seen = first;
		atomic {
			if
			:: CHANGED(seen, seen_generation) -> taken = false
			:: else -> count = 0; generation = NEXT_GENERATION; taken = true
			fi
		}
		if
		:: taken -> put(time_seen, seen); break
		:: else
		fi
	od
}

active proctype writer()
{
	byte n = 1, seen, seen_generation, time_seen, free;
	bool behind, old_sleeps, taken;

	do
	:: n > RECORDS -> break
	:: else ->
		behind = (count > 0);
		free = CAPACITY - (written - read);
		if
#ifdef ROOM_FOR_ONE
		:: free < 1 ->
#else
		:: free < (behind -> 2 : 1) ->
#endif
			add(n);
			publish(0, true)
		:: else ->
			if
			:: behind -> put_pending()
			:: else
			fi
			put(n, 0)
		fi
		n++
	od
#ifdef CLOSES
	closed = true;
	publish(0, true)
#endif
}

/* What the caller gets, and what it must be. */
inline deliver(what, how_many)
{
	assert(what == expected);
	expected = expected + (how_many -> how_many : 1)
}

/* give_back */
inline give_back()
{
	d_step {
		i = read;
		do
		:: i == next -> break
		:: else -> tagged[i % CAPACITY] = false; i++
		od;
		i = 0
	}
	read = next
}

/* One place at least; as many more as it likes, as where the ring ends is not in this model. */
inline take_records()
{
	do
	:: d_step {
		assert(tagged[next % CAPACITY]);
		deliver(number[next % CAPACITY], discarded[next % CAPACITY]);
		next++
	}
		if
		:: next != at -> skip
		:: break
		fi
	od
}

active proctype reader()
{
	byte expected = 1, next, at, i, seen, seen_generation, time_seen, interruptions = INTERRUPTIONS;
	bool was_closed, was_asleep, had_extra, taken;

give:
	give_back();
again:
#ifdef POSITION_FIRST
	atomic { at = written; was_asleep = sleeps; had_extra = extra }
#endif
#ifndef CLOSED_LAST
	was_closed = closed;
#endif
	atomic { seen = count; seen_generation = generation }
#ifndef POSITION_FIRST
	atomic { at = written; was_asleep = sleeps; had_extra = extra }
#endif
#ifdef CLOSED_LAST
	was_closed = closed;
#endif
	if
	:: at != next ->
		take_records();
		goto give
	:: at == next && seen > 0 ->
		time_seen = first;
		atomic {
			if
			:: CHANGED(seen, seen_generation) -> taken = false
			:: else -> count = 0; generation = NEXT_GENERATION; taken = true
			fi
		}
		if
		:: taken -> deliver(time_seen, seen); goto give
		:: else -> goto again
		fi
	:: at == next && seen == 0 && was_closed ->
		assert(expected == RECORDS + 1);
		goto end_closed
	:: else
	fi;
#ifdef KEPT_EXTRA
	/* It trusts what it has looked at: the flag is cleared, and that is that. */
	atomic {
		if
		:: written == at && sleeps == was_asleep && extra == had_extra -> extra = false; had_extra = false
		:: else -> goto again
		fi
	}
#else
	if
	:: had_extra ->
		atomic {
			if
			:: written == at && sleeps == was_asleep && extra == had_extra -> extra = false
			:: else
			fi
		}
		goto again
	:: else
	fi;
#endif
	/* HANDOFF_EMPTY */
#ifndef CLOSES
	if
	:: expected == RECORDS + 1 -> goto end_all
	:: else
	fi;
#endif
#ifndef LATE_CLEAR
	awake = false;
#endif
	atomic {
#ifdef BLIND_SLEEP
		sleeps = true; taken = true
#else
		if
		:: written == at && sleeps == was_asleep && extra == had_extra -> sleeps = true; taken = true
		:: else -> taken = false
		fi
#endif
	}
	if
	:: !taken -> goto again
	:: else
	fi;
#ifdef LATE_CLEAR
	awake = false;
#endif
	if
	:: awake
	:: interruptions > 0 -> interruptions--
	fi;
	goto again;
end_closed:
	assert(!tagged[0] && !tagged[1]);
end_all:
	skip
}
