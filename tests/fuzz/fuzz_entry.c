/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz/fuzz_entry.c - a line of the record, as whoever could write the file wrote it: another
 * reader agrees that what is taken is JSON, and everything made from it is safe and well formed. */
#include "fuzz.h"

#include <jansson.h>

#include "audit/read/export.h"
#include "audit/read/filter.h"
#include "audit/read/story.h"
#include "base/text/clean.h"
#include "base/text/str.h"

static bool is_json(const char *p, size_t n)
{
	json_t *j = json_loadb(p, n, 0, NULL);

	json_decref(j);
	return j != NULL;
}

static void is_safe(const struct buf *b)
{
	size_t len;

	for (const char *p = buf_str(b), *end = p + b->len; p < end; p += len) {
		len = utf8_len(p, (size_t)(end - p));
		require(len > 0 && (*p == '\n' || *p == '\r' || clean_shows(p, len)));
	}
}

static void export_all(const struct entry *en)
{
	for (int f = 0; f < FORMAT_COUNT; f++) {
		struct buf out = BUF_INIT((size_t)16 << 20);
		struct exporter x;

		export_begin(&x, (enum format)f, &out);
		x.terminal = true;
		export_entry(&x, en);
		export_end(&x);
		require(!out.failed);
		is_safe(&out);
		if (f == FORMAT_JSON || f == FORMAT_OCSF)
			require(is_json(out.data, out.len));
		buf_done(&out);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct buf out = BUF_INIT((size_t)16 << 20);
	struct filter f = { .types = { "egress.*" }, .type_count = 1, .host = "*.a", .agent = "b" };
	struct entry en;
	struct story s;

	if (entry_read((const char *)data, size, &en) < 0)
		return 0;
	/* jansson refuses more than we do: NUL in texts, numbers past its own. */
	(void)filter_match(&f, &en);
	if (!is_json((const char *)data, size))
		return 0;
	export_all(&en);
	story_begin(&s, &out);
	story_entry(&s, &en);
	story_end(&s);
	is_safe(&out);
	buf_done(&out);
	return 0;
}
