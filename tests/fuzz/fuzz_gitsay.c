/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz/fuzz_gitsay.c - what git prints of an index and of a configuration that a hostile run left.
 * The first byte says how the list comes in pieces; the answer must not depend on that. */
#include "fuzz.h"

#include <string.h>

#include "backend/kit/protect/gitsay.h"

static bool listen(const uint8_t *data, size_t size, size_t piece, struct buf *links)
{
	struct gitsay_index g = { 0 };

	for (size_t at = 0; at < size; at += piece)
		gitsay_index(&g, (const char *)data + at, size - at < piece ? size - at : piece,
			     links);
	return gitsay_index_end(&g, links);
}

static void check_links(const struct buf *links)
{
	for (const char *at = NULL; (at = gitsay_next(links, at));) {
		require(*at && *at != '/' && strlen(at) < 4096 + 128);
		require(!strstr(at, "//") && strcmp(at, "..") != 0 && strncmp(at, "../", 3) != 0);
	}
}

/* Two lists in one input, whatever is in them: a list has not grown into one with a program more.
 */
static void check_growth(const char *data, size_t size)
{
	CLEANUP(buf) struct buf was = BUF_INIT(1 << 16);
	CLEANUP(buf) struct buf is = BUF_INIT(1 << 16);

	buf_add(&was, data, size / 2);
	buf_add(&is, data + size / 2, size - size / 2);
	(void)gitsay_grew(&was, &is);
	buf_putc(&was, '\0');
	require(gitsay_grew(&was, &was));
	is.len = 0;
	is.failed = false;
	buf_add(&is, was.data, was.len);
	buf_add(&is, "core.fsmonitor\nx", 17);
	require(is.failed || gitsay_has(&was, "core.fsmonitor\nx") || !gitsay_grew(&was, &is));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	CLEANUP(buf) struct buf one = BUF_INIT(1 << 16);
	CLEANUP(buf) struct buf other = BUF_INIT(1 << 16);
	CLEANUP(buf) struct buf facts = BUF_INIT(1 << 16);
	bool whole;

	if (!size)
		return 0;
	whole = listen(data + 1, size - 1, size, &one);
	require(listen(data + 1, size - 1, (size_t)data[0] + 1, &other) == whole);
	if (whole) {
		require(one.len == other.len &&
			(!one.len || !memcmp(one.data, other.data, one.len)));
		check_links(&one);
	}
	(void)gitsay_config((const char *)data + 1, size - 1, &facts);
	check_growth((const char *)data + 1, size - 1);
	require(!gitsay_has(&facts, "plain") || !strstr(buf_str(&facts), "hooks="));
	return 0;
}
