/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz/fuzz_letter.c - a letter to brig inside bubblewrap, with bytes of it changed: refused, or
 * read without a step outside of it. The form depends on the build, so the input is what is
 * changed: two bytes of place, then the bytes that go there. */
#include "fuzz.h"

#include "backend/bwrap/letter.h"

static void write_sample(struct buf *b)
{
	static const char *const argv[] = { "sh", "-c", "true", NULL }, *const envp[] = { "A=b",
											  NULL };
	static const char *const writable[] = { "/tmp", "/workspace" };
	const struct letter_check checks[] = { { "/workspace", { .dev = 1, .ino = 2 } } };
	struct inside c = { .argv = argv,
			    .envp = envp,
			    .path = "/bin",
			    .cwd = "/workspace",
			    .layered = "",
			    .writable = writable,
			    .writable_count = 2,
			    .tmpfs = { "/tmp" },
			    .tmpfs_count = 1 };

	letter_write(&c, checks, 1, b);
}

static size_t length(const char *const *v)
{
	size_t n = 0;

	for (; *v; v++)
		n += strlen(*v);
	return n;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct buf b = BUF_INIT(1 << 16);
	struct letter l;
	struct err e;
	size_t at, n;

	write_sample(&b);
	require(!b.failed);
	if (size >= 2) {
		at = (size_t)(data[0] << 8 | data[1]) % b.len;
		n = size - 2 < b.len - at ? size - 2 : b.len - at;
		memcpy(b.data + at, data + 2, n);
	}
	if (letter_read(b.data, b.len, &l, &e) == 0) {
		size_t sum = length(l.inside.argv) + length(l.inside.envp) + strlen(l.inside.path) +
			     strlen(l.inside.cwd) + strlen(l.inside.layered);

		for (size_t i = 0; i < l.check_count; i++)
			sum += strlen(l.checks[i].path);
		require(sum <= b.len);
		letter_done(&l);
	}
	buf_done(&b);
	return 0;
}
