/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz/fuzz_gitsay.c - what git prints of a configuration that a hostile run left. The first
 * byte is not part of it. */
#include "fuzz.h"

#include <string.h>

#include "git/gitsay.h"

/* Two lists in one input, whatever is in them: a list has not grown into one with a program more.
 */
static void check_growth(const char *data, size_t size)
{
	CLEANUP(buf) struct buf was = BUF_INIT(1 << 16);
	CLEANUP(buf) struct buf is = BUF_INIT(1 << 16);

	buf_add(&was, data, size / 2);
	buf_add(&is, data + size / 2, size - size / 2);
	(void)gitsay_change(&was, &is);
	buf_putc(&was, '\0');
	require(gitsay_change(&was, &was) == GITSAY_PLAIN);
	is.len = 0;
	is.failed = false;
	buf_add(&is, was.data, was.len);
	buf_add(&is, "core.fsmonitor\nx", 17);
	require(is.failed || gitsay_has(&was, "core.fsmonitor\nx") ||
		gitsay_change(&was, &is) == GITSAY_HOSTILE);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	CLEANUP(buf) struct buf facts = BUF_INIT(1 << 16);
	CLEANUP(buf) struct buf list = BUF_INIT(1 << 16);

	if (!size)
		return 0;
	buf_add(&list, data + 1, size - 1);
	(void)gitsay_config(&list, &facts);
	check_growth((const char *)data + 1, size - 1);
	require(!gitsay_has(&facts, "plain") || !strstr(buf_str(&facts), "hooks="));
	return 0;
}
