#!/bin/sh
# Installs what building, testing and running scopetrace needs: `make deps`.
# Says what it is about to do before it does it; without root it prints the command for the administrator and fails.
# Packages that are present already are not touched, so that a second run does nothing and needs no network.
set -eu

# What each package is for is in README.md, "Dependencies".
debian="make gcc g++ clang libclang-rt-dev llvm lld xz-utils pkg-config patch python3 spin libbpf-dev bpftool libelf-dev libdw-dev zlib1g-dev libcapstone-dev
libiberty-dev libprotobuf-c-dev protobuf-c-compiler protobuf-compiler libcriterion-dev
gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user liblzma-dev libbz2-dev libzstd-dev gdb openssl clang-format shellcheck"
fedora="make gcc gcc-c++ clang llvm lld xz pkgconf patch python3 libbpf-devel bpftool elfutils-libelf-devel elfutils-devel capstone-devel
zlib-devel binutils-devel protobuf-c-devel protobuf-c-compiler protobuf-compiler libcriterion-devel
gcc-aarch64-linux-gnu qemu-user compiler-rt libasan libubsan libtsan gdb openssl clang-tools-extra ShellCheck"
arch="make gcc clang llvm lld xz pkgconf patch python libbpf bpf libelf capstone zlib binutils protobuf-c protobuf criterion
aarch64-linux-gnu-gcc qemu-user compiler-rt gdb openssl shellcheck"
libbpf_wanted=1.3

say() { printf 'deps: %s\n' "$*"; }

# Runs a command as root: directly, or by a sudo that asks nothing. Otherwise the command is printed and we stop.
as_root() {
	if [ "$(id -u)" = 0 ]; then
		"$@"
	elif command -v sudo >/dev/null && sudo -n true 2>/dev/null; then
		sudo -n "$@"
	else
		say "this needs root. Run: sudo make deps" >&2
		exit 1
	fi
}

have_package() { dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null | grep -qx installed; }

libbpf_is_new_enough() { pkg-config --atleast-version=$libbpf_wanted libbpf 2>/dev/null; }

# Debian 12 has libbpf 1.1; its backports have 1.4. The suite's address is the one the machine's own apt uses.
add_backports() {
	. /etc/os-release
	suite="$VERSION_CODENAME-backports"
	list=/etc/apt/sources.list.d/scopetrace-backports.list
	if apt-get indextargets --format '$(CODENAME)' 'Created-By: Packages' | grep -qx "$suite"; then
		return
	fi
	uri=$(apt-get indextargets --format '$(CODENAME) $(COMPONENT) $(REPO_URI)' 'Created-By: Packages' |
		awk -v code="$VERSION_CODENAME" '$1 == code && $2 == "main" { print $3; exit }')
	if [ -z "$uri" ]; then
		say "no apt source for $VERSION_CODENAME found; add $suite by hand, then run make deps again" >&2
		exit 1
	fi
	say "libbpf here is older than $libbpf_wanted: adding $suite in $list (remove that file to undo)"
	line="deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $uri $suite main"
	as_root sh -c "printf '%s\n' '$line' > $list && apt-get update -q"
}

install_debian() {
	missing=
	for package in $debian; do
		have_package "$package" || missing="$missing $package"
	done
	[ -z "$missing" ] && libbpf_is_new_enough && return
	say "installing:$missing"
	as_root apt-get update -q
	. /etc/os-release
	backported="libbpf-dev bpftool libelf-dev libdw-dev"
	if [ "${ID:-}" = debian ] && [ "${VERSION_ID:-0}" = 12 ]; then
		add_backports
		as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends \
			-t "$VERSION_CODENAME-backports" $backported
	fi
	as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends $debian
}

# install_others PACKAGES ASK INSTALL...: those that the command ASK does not know of are installed.
install_others() {
	missing=
	packages=$1
	ask=$2
	shift 2
	for package in $packages; do
		$ask "$package" >/dev/null 2>&1 || missing="$missing $package"
	done
	[ -n "$missing" ] || return 0
	say "installing:$missing"
	as_root "$@" $missing
}

if command -v apt-get >/dev/null; then
	install_debian
elif command -v dnf >/dev/null; then
	install_others "$fedora" "rpm -q" dnf install -y
elif command -v pacman >/dev/null; then
	install_others "$arch" "pacman -Q" pacman -S --needed --noconfirm
else
	say "no apt, dnf or pacman here; install the equivalents of: $debian" >&2
	exit 1
fi

if ! libbpf_is_new_enough; then
	say "libbpf is $(pkg-config --modversion libbpf 2>/dev/null || echo missing), but $libbpf_wanted or newer is needed" >&2
	say "take it from your distribution's backports, or build it and set PKG_CONFIG_PATH" >&2
	exit 1
fi
