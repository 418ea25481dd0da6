/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What this kernel and these privileges allow. Purpose: a clear refusal with its cure instead of a
 * failure half way. Features are probed, never inferred from a version.
 */
#ifndef SCOPETRACE_PROBE_FEATURE_H
#define SCOPETRACE_PROBE_FEATURE_H

/*
 * Checks all that hooking needs: privileges (CAP_BPF + CAP_PERFMON, or root), BTF, libbpf at least
 * 1.3 at run time, uprobe_multi, the initial pid namespace (the records carry its ids). 0, or with
 * the failure and its cure logged: -EPERM, -ENOENT (no BTF), -ENOTSUP (no uprobe_multi, or another
 * pid namespace), -ELIBBAD (libbpf too old).
 */
int feature_require_hooking(void);

#endif
