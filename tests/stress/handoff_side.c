// SPDX-License-Identifier: GPL-2.0-or-later
/* The hand-off with its hooks. */
#include "handoff_hooks.h"

#include "record/pending.c"
#include "record/handoff.c"
