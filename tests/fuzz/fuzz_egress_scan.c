/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz/fuzz_egress_scan.c - how a stream is cut changes nothing: the same verdict, the same
 * findings and the same bytes out, for the leak scan and for the scrubber. */
#include "fuzz.h"

#include "egress/scan/scan.h"
#include "egress/scan/scrub.h"

static const struct secret secrets[] = {
	{ .name = "A", .value = "aaac+/\"aaac&aaac", .len = 16, .placeholder = "brig-#" },
	{ .name = "B", .value = "0123456789abcdef", .len = 16, .placeholder = "brig-%" },
};

struct tally {
	unsigned hits, sum;
};

static void count(void *context, const struct scan_hit *hit)
{
	struct tally *t = context;

	t->hits++;
	t->sum += (unsigned)strlen(hit->kind) * (unsigned)(hit->action + 1);
}

static bool scan_in(size_t step, const uint8_t *data, size_t size, struct buf *out, struct tally *t)
{
	struct leak_spec leaks = { .scan = true };
	struct scan_options o = {
		.leaks = &leaks, .secrets = secrets, .n_secrets = 2, .report = count, .context = t
	};
	char *copy = text_of(data, size);
	struct scanner *s = NULL;
	struct scan *b = NULL;
	struct scan_release r;
	struct egress_verdict v;
	struct err e;
	bool ok = true;

	require(scanner_new(&o, &s, &e) == 0 && scan_open(s, SCAN_OUT, &b, &e) == 0);
	for (size_t at = 0; ok; at += step) {
		size_t take = size - at < step ? size - at : step;

		ok = scan_feed(b, copy + at, take, at + take == size, &r, &v);
		buf_add(out, r.held.p, r.held.n);
		buf_add(out, r.data.p, r.data.n);
		if (at + take == size)
			break;
	}
	b = scan_close(b);
	s = scanner_free(s);
	free(copy);
	return ok;
}

static void scrub_in(size_t step, const uint8_t *data, size_t size, struct buf *out)
{
	struct scrubber *s = NULL;
	struct scrub *b = NULL;
	struct err e;

	require(scrubber_new(secrets, 2, false, &s, &e) == 0 &&
		scrub_open(s, NULL, NULL, &b, &e) == 0);
	for (size_t at = 0;; at += step) {
		size_t take = size - at < step ? size - at : step;

		require(scrub_feed(b, (const char *)data + at, take, at + take == size, out, &e) ==
			0);
		if (at + take == size)
			break;
	}
	b = scrub_close(b);
	s = scrubber_free(s);
}

static bool same(const struct buf *a, const struct buf *b)
{
	return a->len == b->len && (!a->len || memcmp(a->data, b->data, a->len) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct buf one = BUF_INIT((size_t)1 << 22), two = BUF_INIT((size_t)1 << 22),
		   clean = BUF_INIT((size_t)1 << 24), again = BUF_INIT((size_t)1 << 24);
	struct tally a = { 0 }, b = { 0 };
	size_t step = size ? 1 + data[0] % 97 : 1;
	bool whole, cut;

	if (size > 1 << 16)
		return 0;
	whole = scan_in(size + 1, data, size, &one, &a);
	cut = scan_in(step, data, size, &two, &b);
	require(whole == cut);
	if (whole)
		require(same(&one, &two) && one.len == size && a.hits == b.hits && a.sum == b.sum);
	scrub_in(size + 1, data, size, &clean);
	scrub_in(step, data, size, &again);
	require(same(&clean, &again));
	for (size_t i = 0; i < 2; i++)
		require(!clean.len ||
			!memmem(clean.data, clean.len, secrets[i].value, secrets[i].len));
	buf_done(&one);
	buf_done(&two);
	buf_done(&clean);
	buf_done(&again);
	return 0;
}
