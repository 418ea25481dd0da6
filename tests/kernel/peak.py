#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Runs a command and says on stderr how much memory it took at most: `peak N MiB`. Exits as the command does.

    peak.py COMMAND [ARGUMENT]...
"""
import os
import sys

child = os.posix_spawnp(sys.argv[1], sys.argv[1:], os.environ)
_, status, usage = os.wait4(child, 0)
print(f"peak {usage.ru_maxrss // 1024} MiB", file=sys.stderr)
sys.exit(os.waitstatus_to_exitcode(status))
