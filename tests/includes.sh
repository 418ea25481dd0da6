#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# Holds who may include whom, and that no comment names a paper that is not in the tree.
#
#	tests/includes.sh [ROOT]	default: the tree that this script is in
set -u

cd "${1:-$(dirname "$0")/..}" || exit 1
shopt -s nullglob lastpipe
found=0 files=0

# What the moves left to mend: FILE INCLUDE, a line each.
left='loader/pinned/status.c sink/escape.h
loader/record/finish.c sink/sink.h
loader/command/detach.c source/bpf_ring.h
loader/command/status.c source/bpf_ring.h'

# allow "FILES" PATTERN: each #include "..." of these files must match the pattern (an ERE on the whole name).
allow() {
	local file name
	for file in $1; do
		files=$((files + 1))
		while read -r name; do
			if ! [[ $name =~ ^($2)$ ]] && ! grep -qx "$file $name" <<<"$left"; then
				printf '%s may not include "%s"\n' "$file" "$name"
				found=$((found + 1))
			fi
		done < <(sed -nE 's/^[[:space:]]*#[[:space:]]*include[[:space:]]*"([^"]*)".*/\1/p' "$file")
	done
}

# forbid "FILES" PATTERN WHY: no #include <...> of these files may match the pattern.
forbid() {
	local file name
	for file in $1; do
		while read -r name; do
			if [[ $name =~ ^($2)$ ]]; then
				printf '%s may not include <%s>: %s\n' "$file" "$name" "$3"
				found=$((found + 1))
			fi
		done < <(sed -nE 's/^[[:space:]]*#[[:space:]]*include[[:space:]]*<([^>]*)>.*/\1/p' "$file")
	done
}

# The rooms of loader/, from the bottom to the top: what each may include beside itself.
room() { # NAME "ROOMS" [MORE]: what it includes lies in one of the rooms, or matches MORE
	allow "loader/$1/*.[ch]" "(${1}${2:+|${2// /|}})/[a-z_0-9]+\.h${3:+|$3}"
}
room base ""
room event "base"
room program "base"
# What leaves a function is named as the programs that look at it name it.
room code "program base" 'bpf/scope_event\.h'
room file "event base"
room source "event base" 'bpf/scope_event\.h|libscope/reader\.h'
room probe "event base" 'bpf/scope_event\.h|scopetrace\.skel\.h'
# The sites of a plan are written as the probes take them.
room plan "code program event base" 'bpf/scope_event\.h|probe/function\.h'
room timeline "file event base"
room sink "timeline event base" 'perfetto\.pb-c\.h'
room follow "plan program probe source file event base"
# The maps of a pinned capture are read and written by their layout.
room pinned "follow plan program probe source file event base" 'bpf/scope_event\.h'
room record "follow plan program probe source file event base"
room command "record pinned plan sink timeline file program base event"
allow "loader/main.c" 'command/[a-z_]+\.h'
allow "libscope/*.[ch] libscope/include/*" '(include/)?[a-z_]+\.(h|hpp)'
allow "bpf/*.[ch]" 'vmlinux\.h|[a-z_]+\.h|[a-z_]+\.bpf\.h'

# What is named without a folder in libscope/ and bpf/ must lie there (scope_event.h does not lie in libscope/).
for file in libscope/*.[ch] libscope/include/*; do
	while read -r name; do
		[ -e "libscope/$name" ] || [ -e "libscope/include/$name" ] && continue
		printf '%s may not include "%s": it is not of libscope\n' "$file" "$name"
		found=$((found + 1))
	done < <(sed -nE 's/^[[:space:]]*#[[:space:]]*include[[:space:]]*"([^"]*)".*/\1/p' "$file")
done

libraries='bpf/.*|elfutils/.*|libelf\.h|gelf\.h|dwarf\.h|zlib\.h|capstone/.*|libiberty/.*|demangle\.h|google/.*|protobuf-c/.*'
# libiberty's demangler takes care: it is called in one place, which keeps it within bounds.
forbid "$(printf '%s ' loader/base/*.[ch] | sed 's# loader/base/demangle.c##')" "$libraries" "base takes libc only"
forbid "libscope/*.[ch] libscope/include/*" "$libraries" "libscope takes libc only"
forbid "loader/event/*.[ch] loader/file/*.[ch] loader/timeline/*.[ch]" 'bpf/.*|elfutils/.*|libelf\.h|gelf\.h' "it knows no source"
forbid "loader/sink/*.[ch]" 'bpf/.*|elfutils/.*|libelf\.h|gelf\.h' "a sink knows no source"

# No circles: the rooms are sorted by who includes whom (tsort complains of a loop), and so are the headers.
circle() {
	local what=$1 message
	if ! message=$(tsort 2>&1 >/dev/null); then
		printf 'the %s include each other in a circle:\n%s\n' "$what" "$message"
		found=$((found + 1))
	fi
}
for file in loader/*/*.[ch]; do
	room=$(basename "$(dirname "$file")")
	sed -nE 's/^[[:space:]]*#[[:space:]]*include[[:space:]]*"([a-z]+)\/([^"]*)".*/\1 \2/p' "$file" |
		while read -r other _; do
			[ "$other" = "$room" ] || grep -q "^${file//./\\.} $other/" <<<"$left" || printf '%s %s\n' "$room" "$other"
		done
done | sort -u | circle rooms
for file in loader/*/*.h; do
	sed -nE 's/^[[:space:]]*#[[:space:]]*include[[:space:]]*"([a-z]+\/[^"]*\.h)".*/\1/p' "$file" |
		while read -r header; do printf '%s %s\n' "${file#loader/}" "$header"; done
done | sort -u | circle headers

# The reasons stand in the repository: every paper that a file names is there.
while IFS=: read -r file paper; do
	[ -e "$paper" ] || [ -e "$(dirname "$file")/$paper" ] && continue
	printf '%s names %s, which is not in the tree\n' "$file" "$paper"
	found=$((found + 1))
done < <(grep -rIoE '[A-Za-z_/.-]+\.md\b' Makefile README.md bpf libscope loader tests bench man)

printf '%d files looked through, %d against the rules\n' $files $found
[ $files -gt 0 ] && [ $found = 0 ]
