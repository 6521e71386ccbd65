/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz/fuzz_order.c - what init reads of a command of an open sandbox: within its bounds, whatever
 * it is given, and what it takes are texts of the order's own. */
#include "fuzz.h"

#include "proc/order.h"

static size_t count(const char *const *v, const char *from, const char *end)
{
	size_t n = 0;

	for (; v[n]; n++)
		if (v[n] < from || v[n] + strlen(v[n]) >= end)
			abort();
	return n;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	const char *text = (const char *)data;
	size_t words = order_words(text, n);
	const char **room = words ? calloc(words, sizeof(*room)) : NULL;
	struct order o;

	if (room && order_read(text, n, room, &o) &&
	    (!count(o.argv, text, text + n) ||
	     count(o.argv, text, text + n) + count(o.envp, text, text + n) + 2 != words))
		abort();
	free(room);
	return 0;
}
