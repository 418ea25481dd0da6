#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# `make install`: C99, C11 and C++11 programs built against the installed tree by pkg-config, static and shared, and traced
# by the installed scopetrace; the Python module; DESTDIR; `make uninstall` leaves nothing.
set -u

cd "$(dirname "$0")/../.." || exit 1
O=$(realpath "${O:-build}")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
prefix=$work/prefix
failed=0

report() { # STATUS NAME
	[ "$1" = 0 ] && { echo "ok $2"; return; }
	echo "not ok $2"
	sed 's/^/    /' "$work/log"
	failed=1
}

# Of `make`: nothing of the make that runs these tests, whose job server is not ours.
run_make() { env -u MAKEFLAGS -u MAKELEVEL -u MFLAGS make --no-print-directory O="$O" PREFIX="$1" "${@:2}" >"$work/log" 2>&1; }

run_make "$prefix" install
report $? "make install"
(cd "$prefix" && find . ! -type d | sort) >"$work/installed"
for file in bin/scopetrace include/scope.h include/scope.hpp lib/libscope.a lib/libscope.so lib/libscope.so.1 \
	lib/scopetrace/scopetrace.bpf.o lib/pkgconfig/libscope.pc share/libscope/scope.py share/man/man1/scopetrace.1 \
	share/man/man3/libscope.3; do
	grep -qx "./$file" "$work/installed" >"$work/log"
	report $? "installs $file"
done
cmp "$O/scopetrace.bpf.o" "$prefix/lib/scopetrace/scopetrace.bpf.o" >"$work/log" 2>&1
report $? "the BPF object is that of the installed scopetrace"
[ "$(readlink "$prefix/lib/libscope.so")" = libscope.so.1 ] && [ -f "$(realpath "$prefix/lib/libscope.so.1")" ] &&
	[ "$(objdump -p "$prefix/lib/libscope.so" | awk '/SONAME/ { print $2 }')" = libscope.so.1 ]
report $? "links lead to the library of the soname"

export PKG_CONFIG_PATH=$prefix/lib/pkgconfig
cat >"$work/program.c" <<'PROGRAM'
#include <scope.h>
int main(void)
{
	for (int i = 0; i < 100; i++) {
		SCOPE("installed");
		SCOPE_COUNTER("i", i);
	}
	return 0;
}
PROGRAM
cp "$work/program.c" "$work/program.cpp"
sed -i 's/scope\.h/scope.hpp/; s/SCOPE("installed")/scope::span span("installed")/' "$work/program.cpp"

# build NAME SOURCE COMPILER...: static and shared, and traced.
build() {
	local name=$1 source=$2 form
	shift 2
	# shellcheck disable=SC2046
	"$@" -Wall -Wextra -Wpedantic -Werror "$source" $(pkg-config --cflags --libs libscope) -Wl,-rpath,"$prefix/lib" \
		-o "$work/shared" >"$work/log" 2>&1 && ldd "$work/shared" | grep -q "$prefix/lib/libscope.so.1"
	report $? "$name, shared"
	# shellcheck disable=SC2046
	"$@" -static -Wall -Wextra -Wpedantic -Werror "$source" $(pkg-config --static --cflags --libs libscope) -o "$work/static" \
		>"$work/log" 2>&1
	report $? "$name, static"
	for form in shared static; do
		"$prefix/bin/scopetrace" record -o "$work/x.scope" -- "$work/$form" >"$work/log" 2>&1 &&
			"$prefix/bin/scopetrace" report "$work/x.scope" >"$work/log" 2>&1 &&
			grep -Eq '^installed +manual +100 ' "$work/log" && grep -Eq '^i +counter .* 99$' "$work/log"
		report $? "$name, $form, traced"
	done
}
build C99 "$work/program.c" gcc -std=c99
build C11 "$work/program.c" gcc -std=c11
build C++11 "$work/program.cpp" g++ -std=c++11

env -u SCOPE_LIBRARY PYTHONDONTWRITEBYTECODE=1 PYTHONPATH="$(pkg-config --variable=pythondir libscope)" \
	python3 -c 'import scope; assert scope.available' >"$work/log" 2>&1
report $? "scope.py finds the installed library"

run_make "$prefix" uninstall && find "$prefix" ! -type d >"$work/log" && [ ! -s "$work/log" ]
report $? "make uninstall leaves no file"
! [ -e "$prefix/lib/scopetrace" ] && ! [ -e "$prefix/share/libscope" ]
report $? "nor folders of its own"
run_make /usr DESTDIR="$work/stage" install-libscope
report $? "make install-libscope DESTDIR=..."
grep -qx 'libdir=/usr/lib' "$work/stage/usr/lib/pkgconfig/libscope.pc" && [ -f "$work/stage/usr/include/scope.h" ] &&
	[ ! -e "$work/stage/usr/bin" ]
report $? "stages the library alone, with paths of the real place"
exit $failed
