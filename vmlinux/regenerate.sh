#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
#
# Shows the types of vmlinux/vmlinux.h as a kernel has them, and fails when a type or a field that bpf/ uses is missing
# there. vmlinux.h is written by hand, since it holds so little; run this against a new kernel, and take over what has
# changed its name.
#
#   vmlinux/regenerate.sh [BTF]        BTF: a file with a kernel's BTF, /sys/kernel/btf/vmlinux by default
#   vmlinux/regenerate.sh -q [BTF]     only what is missing
set -eu

here=$(dirname "$0")
quiet=
if [ "${1-}" = -q ]; then
	quiet=1
	shift
fi
btf=${1-/sys/kernel/btf/vmlinux}

bpftool=${BPFTOOL-}
for candidate in /usr/sbin/bpftool /usr/bin/bpftool /usr/local/sbin/bpftool bpftool; do
	[ -n "$bpftool" ] || ! command -v "$candidate" >/dev/null 2>&1 || bpftool=$candidate
done
if [ -z "$bpftool" ]; then
	echo "regenerate.sh: bpftool is missing: install it (make deps)" >&2
	exit 2
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT INT TERM

# A kernel of the other architecture has other registers: the types are told by what the BTF itself holds.
"$bpftool" btf dump file "$btf" format c >"$work/kernel.h"
case $(grep -c '^struct user_pt_regs {' "$work/kernel.h" || true) in
0) target=x86 ;;
*) target=arm64 ;;
esac

# vmlinux.h as the compiler sees it for that architecture: one "type field" per line, type alone for its own existence.
"${CLANG-clang}" -target bpf -E -P -D__TARGET_ARCH_$target "$here/vmlinux.h" | awk '
	/^struct [a-z_]+ *\{/ { type = $2; print type; next }
	/^\}/ { type = "" }
	type != "" && /;/ {
		field = $0
		sub(/\[[^]]*\]/, "", field)
		sub(/;.*/, "", field)
		sub(/.*[ *]/, "", field)
		print type, field
	}' >"$work/used"

# Each type of ours as the kernel has it.
awk 'NR == FNR { wanted[$1] = 1; next }
	/^struct [a-z_]+ \{/ && ($2 in wanted) { inside = 1 }
	inside { print }
	inside && /^\}/ { inside = 0 }' "$work/used" "$work/kernel.h" >"$work/types"

[ -n "$quiet" ] || cat "$work/types"

awk -v btf="$btf" 'NR == FNR {
		if ($0 ~ /^struct [a-z_]+ \{/)
			type = $2
		known[type] = 1
		line = $0
		gsub(/\[[^]]*\]|: *[0-9]+;|[;(),*]/, " ", line)
		count = split(line, words, " ")
		for (i = 1; i <= count; i++)
			has[type, words[i]] = 1
		next
	}
	!($1 in known) { if (!said[$1]++) { print "regenerate.sh: " btf ": no struct " $1; bad = 1 } next }
	NF == 2 && !(($1, $2) in has) { print "regenerate.sh: " btf ": struct " $1 " has no " $2; bad = 1 }
	NF == 2 { fields++ }
	END {
		if (bad)
			exit 1
		print "regenerate.sh: " btf ": all " fields " fields are there"
	}' "$work/types" "$work/used" >&2
