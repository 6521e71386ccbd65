/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz/fuzz_chat.c - a model's answer is put together within its bounds or refused, and however its
 * stream is cut into pieces it comes to the same. The first byte says how it is cut. */
#include "fuzz.h"

#include "apps/chat/chat_events.h"

static void on_text(void *arg, const char *p, size_t n)
{
	require(p && n);
	*(size_t *)arg += n;
}

static int take(const char *p, size_t n, size_t step, bool plain, struct chat_answer *to)
{
	struct chat_events x;
	struct err e = { 0 };
	size_t told = 0;
	int r = 0;

	chat_events_init(&x, plain, to, on_text, &told);
	for (size_t at = 0; at < n && r == 0; at += step)
		r = chat_events_feed(&x, p + at, n - at < step ? n - at : step, &e);
	if (r == 0)
		r = chat_events_end(&x, &e);
	require((r == 0) == (e.code == 0));
	chat_events_done(&x);
	require(told >= to->text.len && to->n_calls <= CHAT_CALLS_MAX);
	require(to->text.len <= CHAT_TEXT_MAX && strlen(to->finish) < sizeof(to->finish));
	return r;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct chat_answer *a = calloc(1, sizeof(*a)), *b = calloc(1, sizeof(*b));
	bool plain = size && data[0] & 0x80;
	char text[64];
	int one, two;

	require(a && b);
	if (size) {
		const char *p = (const char *)data + 1;

		one = take(p, size - 1, size, plain, a);
		two = take(p, size - 1, (data[0] & 0x7f) + 1U, plain, b);
		require(one == two && a->n_calls == b->n_calls && a->text.len == b->text.len);
		require(a->text.len == 0 || memcmp(a->text.data, b->text.data, a->text.len) == 0);
		for (size_t i = 0; i < a->n_calls; i++)
			require(strcmp(a->calls[i].name, b->calls[i].name) == 0 &&
				a->calls[i].args.len == b->calls[i].args.len);
		chat_error_text(p, size - 1, text, sizeof(text));
		require(strlen(text) < sizeof(text));
	}
	chat_answer_done(a);
	chat_answer_done(b);
	free(a);
	free(b);
	return 0;
}
