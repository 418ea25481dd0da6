// SPDX-License-Identifier: GPL-2.0-or-later
/* The hand-off with its hooks. */
#include "handoff_hooks.h"

#include "source/pending.c"
#include "source/handoff.c"
