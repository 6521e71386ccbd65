/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz/fuzz_egress_path.c - a normalised path has no second reading: decoding it once more shows no
 * separator, dot segment or control that was not there. */
#include "fuzz.h"

#include "egress/rules/path.h"

static void require_plain(const char *p)
{
	require(p[0] == '/' && !strstr(p, "//") && !strpbrk(p, "\\;?#"));
	require(!strstr(p, "/../") && !strstr(p, "/./"));
	for (; *p; p++) {
		char hex[3] = { 0 };
		long v;

		require(*p > 0x20 && *p < 0x7f);
		if (*p != '%')
			continue;
		memcpy(hex, p + 1, 2);
		v = strtol(hex, NULL, 16);
		require(v >= 0x20 && !strchr("/\\%;?#.", (int)v));
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct egress_text t = egress_text((const char *)data, size);
	struct buf once = BUF_INIT(65536), twice = BUF_INIT(65536);

	if (path_normalise(t, &once) == PATH_OK) {
		require_plain(buf_str(&once));
		require(path_normalise(egress_text(buf_str(&once), once.len), &twice) == PATH_OK);
		require(strcmp(buf_str(&once), buf_str(&twice)) == 0);
		require(path_below(buf_str(&once), "/", false));
	}
	(void)path_check_target(t);
	buf_done(&once);
	buf_done(&twice);
	return 0;
}
