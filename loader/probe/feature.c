// SPDX-License-Identifier: GPL-2.0-or-later
#include "probe/feature.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <linux/capability.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/log.h"

#define BTF_FILE	      "/sys/kernel/btf/vmlinux"
#define INITIAL_PID_NAMESPACE 0xEFFFFFFCu /* the kernel's PROC_PID_INIT_INO: part of its ABI */
#define ATTACH_TYPE_MULTI     48 /* BPF_TRACE_UPROBE_MULTI, which older headers do not name */
#define LIBBPF_MAJOR	      1
#define LIBBPF_MINOR	      3

static bool has_capability(const struct __user_cap_data_struct *data, int capability)
{
	return data[CAP_TO_INDEX(capability)].effective & CAP_TO_MASK(capability);
}

static int require_privileges(void)
{
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3] = {0};
	bool bpf, perfmon;

	if (syscall(SYS_capget, &header, data))
		return -errno;
	if (has_capability(data, CAP_SYS_ADMIN))
		return 0;
	bpf = has_capability(data, CAP_BPF);
	perfmon = has_capability(data, CAP_PERFMON);
	if (bpf && perfmon)
		return 0;
	log_error(
		"hooking functions needs root: run it with sudo, or give it the capabilities CAP_BPF and "
		"CAP_PERFMON "
		"(missing here: %s%s%s), and CAP_SYS_PTRACE for another user's processes",
		bpf ? "" : "CAP_BPF", !bpf && !perfmon ? " and " : "",
		perfmon ? "" : "CAP_PERFMON");
	return -EPERM;
}

static int require_btf(void)
{
	if (!access(BTF_FILE, R_OK))
		return 0;
	log_error(
		"this kernel has no type information: cannot read %s: %s; use a kernel built with "
		"CONFIG_DEBUG_INFO_BTF, as the distributions' own are, and mount sysfs on /sys",
		BTF_FILE, strerror(errno));
	return -ENOENT;
}

static int require_libbpf(void)
{
	uint32_t major = libbpf_major_version(), minor = libbpf_minor_version();

	if (major > LIBBPF_MAJOR || (major == LIBBPF_MAJOR && minor >= LIBBPF_MINOR))
		return 0;
	log_error(
		"libbpf %u.%u is too old, 1.3 is needed: on Debian 12 bookworm-backports has 1.4, which "
		"`make deps` "
		"installs; or take the scopetrace that `make static` builds, which needs no library here",
		major, minor);
	return -ELIBBAD;
}

static int require_initial_pid_namespace(void)
{
	struct stat namespace;

	if (stat("/proc/self/ns/pid", &namespace)) {
		int err = -errno;

		log_error("cannot read /proc/self/ns/pid: %s; mount proc on /proc", strerror(-err));
		return err;
	}
	if (namespace.st_ino == INITIAL_PID_NAMESPACE)
		return 0;
	log_error(
		"hooking from inside a container's pid namespace is not supported: run scopetrace "
		"on the host, by the process's pid there, or start the container with --pid=host; "
		"manual scopes can be captured here");
	return -ENOTSUP;
}

/* fd of the smallest program that could be attached, or -errno. */
static int load_empty_program(void)
{
	const struct bpf_insn instructions[] = {
		{.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0, .imm = 0},
		{.code = BPF_JMP | BPF_EXIT},
	};
	LIBBPF_OPTS(bpf_prog_load_opts, options, .expected_attach_type = ATTACH_TYPE_MULTI);
	int fd = bpf_prog_load(BPF_PROG_TYPE_KPROBE, "probe_feature", "GPL", instructions, 2,
			       &options);

	return fd < 0 ? -errno : fd;
}

/*
 * A link on a directory: where uprobe_multi exists, the kernel gets as far as refusing that it is
 * no regular file. A link is never made.
 */
static int try_uprobe_multi(void)
{
	const unsigned long offset = 0;
	LIBBPF_OPTS(bpf_link_create_opts, options);
	int program = load_empty_program(), err = 0, link;

	if (program < 0)
		return program;
	options.uprobe_multi.path = "/";
	options.uprobe_multi.offsets = &offset;
	options.uprobe_multi.cnt = 1;
	link = bpf_link_create(program, 0, ATTACH_TYPE_MULTI, &options);
	if (link >= 0)
		close(link);
	else
		err = -errno;
	close(program);
	return err;
}

static int require_uprobe_multi(void)
{
	struct utsname kernel = {0};
	int err = try_uprobe_multi();

	if (err == -EBADF)
		return 0;
	if (err == -EPERM || err == -EACCES) {
		log_error(
			"the kernel does not let us use BPF: %s; run it as root outside of a user "
			"namespace, and look "
			"whether a container's seccomp filter or kernel lockdown forbids bpf(2)",
			strerror(-err));
		return -EPERM;
	}
	uname(&kernel);
	log_error(
		"this kernel (%s) has no uprobe_multi (%s): Linux 6.6 or newer is needed; the tracefs "
		"fallback for "
		"older kernels does not exist yet; manual scopes can be captured without",
		kernel.release, strerror(-err));
	return -ENOTSUP;
}

int feature_require_hooking(void)
{
	int err = require_privileges();

	if (!err)
		err = require_btf();
	if (!err)
		err = require_libbpf();
	if (!err)
		err = require_uprobe_multi();
	if (!err)
		err = require_initial_pid_namespace();
	return err;
}
