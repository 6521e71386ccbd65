/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz/fuzz_egress_json.c - how a JSON body is cut changes nothing of what the leak scan makes of
 * it; what passes has the length it had, valid JSON is still valid, and no known value is in it
 * however it was escaped. */
#include "fuzz.h"

#include "base/bytes/jread.h"
#include "egress/scan/scan_json.h"

static const struct secret secrets[] = {
	{ .name = "A", .value = "naac+/\"naac&naac", .len = 16, .placeholder = "brig-#" },
	{ .name = "B", .value = "0123456789abcdef", .len = 16, .placeholder = "brig-%" },
};

static bool scan_in(struct scanner *s, size_t step, bool redact, const uint8_t *data, size_t size,
		    struct buf *out)
{
	struct json_scan *j = NULL;
	struct egress_verdict v;
	struct err e;
	bool ok = true;

	require(json_scan_open(s, redact, &j, &e) == 0);
	for (size_t at = 0; ok; at += step) {
		size_t take = size - at < step ? size - at : step;

		ok = json_scan_feed(j, (const char *)data + at, take, at + take == size, out, &v);
		if (at + take == size)
			break;
	}
	j = json_scan_close(j);
	return ok;
}

/* Compiling takes longer than any input: one scanner serves all, and a body of blanks makes it
 * forget the one before. */
static struct scanner *fresh(bool redact_json)
{
	static struct scanner *both[2];
	struct scanner *s = both[redact_json];
	static uint8_t blanks[2048];
	struct leak_spec leaks = { .scan = true };
	struct scan_options o = {
		.leaks = &leaks, .secrets = secrets, .n_secrets = 2, .redact_json = redact_json
	};
	struct buf ignored = BUF_INIT(sizeof(blanks));
	struct err e;

	if (!s) {
		memset(blanks, '\n', sizeof(blanks));
		require(scanner_new(&o, &s, &e) == 0);
		both[redact_json] = s;
	}
	require(scan_in(s, sizeof(blanks), true, blanks, sizeof(blanks), &ignored));
	buf_done(&ignored);
	return s;
}

static bool valid(const void *p, size_t n)
{
	struct jread *tree = NULL;
	struct err e;
	bool ok = jread_parse(p, n, &tree, &e) == 0;

	tree = jread_free(tree);
	return ok;
}

static void no_value_in(const struct buf *b)
{
	for (size_t i = 0; i < 2; i++)
		require(!b->len || !memmem(b->data, b->len, secrets[i].value, secrets[i].len));
}

static void try(bool soft, const uint8_t *data, size_t size)
{
	struct buf one = BUF_INIT((size_t)1 << 22), two = BUF_INIT((size_t)1 << 22),
		   kept = BUF_INIT((size_t)1 << 22);
	bool whole = scan_in(fresh(soft), size + 1, true, data, size, &one);
	bool cut = scan_in(fresh(soft), size ? 1 + data[0] % 97 : 1, true, data, size, &two);

	require(whole == cut);
	if (whole) {
		require(one.len == size && two.len == size);
		require(!size || memcmp(one.data, two.data, size) == 0);
		require(!valid(data, size) || valid(one.data, one.len));
		no_value_in(&one);
	}
	/* what may not be changed passes as it was, or not */
	if (scan_in(fresh(soft), 4096, false, data, size, &kept))
		require(kept.len == size && (!size || memcmp(kept.data, data, size) == 0));
	buf_done(&one);
	buf_done(&two);
	buf_done(&kept);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size <= 1 << 15) {
		try(false, data, size);
		try(true, data, size);
	}
	return 0;
}
