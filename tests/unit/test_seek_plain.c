/* SPDX-License-Identifier: Apache-2.0 */
/* test_seek.c once more, with the C that neither SSE2 nor NEON is needed for. */
#define SEEK_PLAIN
#include "egress/seek/seek.c"
#include "egress/seek/seek_table.c"

#include "test_seek.c"
