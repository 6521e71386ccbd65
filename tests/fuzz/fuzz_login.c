/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz/fuzz_login.c - files and helpers that hold a registry's credentials: whatever they say, what
 * is taken from it is text of a known length, and the name of a program is only a name. */
#include "fuzz.h"

#include "image/login.h"
#include "base/bytes/base64.h"

static void check(const struct login *l)
{
	require(memchr(l->helper, '\0', sizeof(l->helper)) &&
		memchr(l->user, '\0', sizeof(l->user)) &&
		memchr(l->secret, '\0', sizeof(l->secret)));
	require(!strpbrk(l->helper, "/ $;"));
}

static void check_base64(const char *text, size_t size)
{
	char out[4096], again[4096];
	struct buf b = BUF_INIT(8192);
	ssize_t n = base64_read(text, size, out, sizeof(out));

	if (n < 0)
		return;
	base64_url(&b, out, (size_t)n);
	require(b.len == size);
	for (size_t i = 0; i < b.len; i++)
		b.data[i] = b.data[i] == '-' ? '+' : b.data[i] == '_' ? '/' : b.data[i];
	require(b.len == 0 || memcmp(b.data, text, size) == 0);
	require(base64_read(text, size, again, sizeof(again)) == n);
	buf_done(&b);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *const registries[] = { "docker.io", "127.0.0.1:5000", "registry.test" };
	const char *text = (const char *)data;
	struct err e;

	for (size_t i = 0; i < 3; i++) {
		struct login l = { 0 };

		if (login_read(text, size, registries[i], &l, &e) == 0) {
			check(&l);
			require(l.helper[0] || l.secret[0] || l.user[0]);
		}
		if (login_answer(text, size, &l, &e) == 0)
			check(&l);
	}
	if (size < 4096)
		check_base64(text, size);
	return 0;
}
