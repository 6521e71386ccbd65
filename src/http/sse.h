/* SPDX-License-Identifier: Apache-2.0 */
/* http/sse.h - a stream of events, read as it arrives: the part of text/event-stream that the
 * daemon writes. Pure. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/text/buf.h"

struct sse {
	char type[32];
	uint64_t id; /* 0: none */
	struct buf data, line;
	bool any; /* a field of the event was read */
	bool done;
};

#define SSE_INIT(limit)                                                                            \
	{                                                                                          \
		.data = BUF_INIT(limit), .line = BUF_INIT(limit)                                   \
	}

void sse_done(struct sse *s);
/* Takes bytes up to the end of the next event: how many. *whole: the event is complete, and stays
 * until the next call. -EMSGSIZE: it is larger than the limit. */
ssize_t sse_take(struct sse *s, const char *p, size_t n, bool *whole);
