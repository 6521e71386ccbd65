/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz/fuzz_far_asked.c - a request from another brig: whatever its pieces are, it is refused with
 * a reason, or it is for the native backend and has a command where one was sent.
 *
 * The first byte: does a settings text begin as this version's does? */
#include "fuzz.h"

#include "far/serve/far_asked.h"
#include "sandbox/manager.h"

static void take_all(struct far_asked *a, const char *data, size_t n)
{
	struct frames_head h;
	const char *payload;
	ssize_t took;

	while ((took = frames_look(data, n, false, &h, &payload)) > 0) {
		require(far_asked_take(a, &h, payload) ==
			(h.kind >= FRAMES_SETTINGS && h.kind <= FRAMES_CODE));
		data += took;
		n -= (size_t)took;
	}
}

static void begin_as_ours(struct far_asked *a)
{
	static const char ours[] = "{\"version\":\"" BRIG_VERSION "\",\"protocol\":2,";
	const struct frames_head h = { .size = sizeof(ours) - 1, .kind = FRAMES_SETTINGS };

	require(FAR_PROTOCOL == 2 && far_asked_take(a, &h, ours));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	brig_request *q = NULL;
	struct err e = { 0 };
	struct far_asked a;

	if (!size)
		return 0;
	far_asked_init(&a);
	if (data[0] & 1)
		begin_as_ours(&a);
	take_all(&a, (const char *)data + 1, size - 1);
	if (far_asked_request(&a, NULL, &q, &e) < 0) {
		require(e.code && *e.what);
	} else {
		require(request_spec(q)->backend == BACKEND_NATIVE);
		require(!a.has_words || a.has_code || request_spec(q)->command.argv);
	}
	brig_request_free(q);
	far_asked_done(&a);
	return 0;
}
