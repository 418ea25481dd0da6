#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# Threads and processes that change their names while they are captured, live but a moment, or run another program: each
# lane bears the last name that its thread had.
. "$(dirname "$0")/lib.sh"

need "$SCOPETRACE" "$O/targets/renames" "$O/targets/threadend"

# capture NAME PROGRAM "FUNCTION..." "RECORD OPTIONS" ARGUMENT...: its report is in $T/NAME.json, its pid in $target.
capture() {
	local name=$1 program=$2 functions=() function options=$4
	for function in $3; do
		functions+=(-f "$function")
	done
	shift 4
	start "$name" out "$program" --wait-go "$@"
	wait_line "$name" '^pid [0-9]+$'
	target=${line#pid }
	start "record-$name" err "$SCOPETRACE" record -p "$target" "${functions[@]}" -o "$T/$name.scope" $options
	wait_line "record-$name" "armed $((${#functions[@]} / 2)) of"
	send "$name" go
	wait_line "$name" '^truth '
	finish "$name"
	expect_status 0 "$name"
	finish "record-$name"
	expect_status 0 "record of $name"
	run "$SCOPETRACE" report "$T/$name.scope" --json
	expect_status 0 "report of $name"
	mv "$T/run.out" "$T/$name.json"
}

# lanes NAME: "NAME SCOPES", one a line; main's lane is marked by a star.
lanes() {
	python3 - "$T/$1.json" "$target" <<-'END'
		import json, sys
		for thread in json.load(open(sys.argv[1]))["threads"]:
		    print(("*" if thread["tid"] == int(sys.argv[2]) else "") + thread["name"], thread["scopes"])
	END
}

expect_lanes() {
	local name=$1 wanted=$2 found
	found=$(lanes "$name" | sort | uniq -c | awk '{ print $1 "x", $2, $3 }')
	[ "$found" = "$wanted" ] || fail "$name: its lanes are"$'\n'"$found"$'\n'"and should be"$'\n'"$wanted"
	say "$name: $found"
}

# By a symbolic link: the same file, whose functions are hooked, under another name.
ln -s "$O/targets/renames" "$T/other-name"
capture renames "$O/targets/renames" work "" "$T/other-name"
expect_lanes renames $'1x *other-name 30\n1x third 30'

# Sixteen threads that are gone before anyone could look into /proc, each with its own first and last call.
capture threadend "$O/targets/threadend" 'step leave' --force
expect_lanes threadend $'16x threadend 101'
