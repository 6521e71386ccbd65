/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/shared/sandbox_id.h"

#include <stdint.h>
#include <string.h>

#include "base/bytes/random.h"
#include "base/sys/clock.h"
#include "base/text/str.h"

enum { CHARACTERS = 26, OF_TIME = 10, NAME_MAX_LENGTH = 63 };

/* Those of base32, in the order in which they sort. */
static const char alphabet[] = "234567abcdefghijklmnopqrstuvwxyz";

int id_make(const char *kind, char *out, struct err *e)
{
	unsigned char bytes[CHARACTERS];
	size_t n = strlen(kind);
	uint64_t ms;

	if (random_fill(bytes, sizeof(bytes), e) < 0)
		return -e->code;
	ms = clock_wall_us() / 1000;
	memcpy(out, kind, n);
	for (int i = OF_TIME - 1; i >= 0; i--, ms >>= 5)
		bytes[i] = ms & 31;
	for (int i = 0; i < CHARACTERS; i++)
		out[n + (size_t)i] = alphabet[bytes[i] & 31];
	out[n + CHARACTERS] = '\0';
	return 0;
}

bool id_is(const char *kind, const char *text)
{
	size_t n = strlen(kind);

	return str_starts(text, kind) && strlen(text) == n + CHARACTERS &&
	       strspn(text + n, alphabet) == CHARACTERS;
}

bool name_is(const char *text)
{
	static const char first[] = "abcdefghijklmnopqrstuvwxyz0123456789";
	static const char any[] = "abcdefghijklmnopqrstuvwxyz0123456789._-";
	size_t n = strlen(text);

	return n && n <= NAME_MAX_LENGTH && strspn(text, first) && strspn(text, any) == n &&
	       !str_starts(text, SANDBOX_ID);
}
