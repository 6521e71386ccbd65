/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz/fuzz_event.c - what a worker tells: an event that is read is written again as it came, its
 * texts end in their room, and less of it is never more. */
#include "fuzz.h"

#include "egress/event_pack.h"

#define ENDS(text) require(memchr(text, '\0', sizeof(text)) != NULL)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *copy = malloc(size + 1), again[EVENT_PACKED_MAX];
	struct egress_event ev;
	ssize_t n = 1;

	require(copy != NULL);
	memcpy(copy, data, size);
	for (size_t at = 0; n > 0; at += (size_t)n) {
		n = event_unpack(copy + at, size - at, &ev);
		require(n == event_size(copy + at, size - at));
		if (n <= 0)
			break;
		require((size_t)n <= size - at && (size_t)n <= EVENT_PACKED_MAX);
		require(event_size(copy + at, (size_t)n - 1) == 0);
		ENDS(ev.host);
		ENDS(ev.method);
		ENDS(ev.address);
		ENDS(ev.rule);
		ENDS(ev.credential);
		ENDS(ev.what);
		ENDS(ev.hint);
		ENDS(ev.path);
		ENDS(ev.fields);
		/* A text that has a NUL in it ends there. */
		require(event_pack(&ev, again) <= (size_t)n);
	}
	require(event_packet(copy, size) <= EGRESS_PACKET);
	free(copy);
	return 0;
}
