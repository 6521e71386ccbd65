/* SPDX-License-Identifier: Apache-2.0 */
#include "base/bytes/random.h"

#include <assert.h>
#include <string.h>
#include <sys/random.h>

#include "base/bytes/hex.h"

enum { FILL_MAX = 256 }; /* as much as one call gives whole */

int random_fill(void *p, size_t n, struct err *e)
{
	assert(n <= FILL_MAX);
	if (getrandom(p, n, 0) != (ssize_t)n)
		return err_sys(e, "the kernel gives no random numbers");
	return 0;
}

int random_hex(char *out, size_t size, struct err *e)
{
	unsigned char raw[FILL_MAX];
	size_t n = (size - 1) / 2;

	assert(size % 2 == 1 && n <= sizeof(raw));
	if (random_fill(raw, n, e) < 0)
		return -e->code;
	hex_encode(raw, n, out);
	out[2 * n] = '\0';
	explicit_bzero(raw, n);
	return 0;
}
