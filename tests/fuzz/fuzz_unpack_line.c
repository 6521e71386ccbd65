/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz/fuzz_unpack_line.c - an unpacker that was taken over says anything at all: the worker reads
 * nothing beyond what came, hears of no depth that there is not, and goes on.
 *
 * Each packet: two bytes of its length, then what it says. */
#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#include "fuzz.h"

#include "egress/unpack/unpack_side.h"

static int heard(void *arg, const struct peel_piece *piece, char *p)
{
	unsigned *n = arg;

	require(piece->n <= UNPACK_PIECE && piece->p == p);
	require(piece->depth <= PEEL_DEPTH + PEEL_CODINGS && piece->is <= CONTENT_CODE);
	for (size_t i = 0; i < piece->n; i++)
		*n += (unsigned char)p[i];
	return *n % 7 == 3 ? -ECANCELED : 0;
}

static void say_all(int line, const uint8_t *data, size_t size)
{
	while (size >= 2) {
		size_t n = data[0] | (size_t)data[1] << 8;

		n = n < size - 2 ? n : size - 2;
		if (send(line, data + 2, n, MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
			break;
		data += 2 + n;
		size -= 2 + n;
	}
	require(shutdown(line, SHUT_WR) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct peel_spent spent = { 0 };
	struct unpack_body *s = NULL;
	struct unpack_side *u;
	unsigned n = 0;
	int pair[2];

	require(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair) == 0);
	say_all(pair[1], data, size);
	require((u = unpack_on(pair[0])) != NULL);
	require(unpacking_new(u, &(struct unpack_want){ .n_codings = 0 }, &spent, &s) == 0);
	for (int i = 0; i < 3; i++) {
		int r = unpacking_feed(s, "a", 1, i == 2, heard, &n);

		require(r <= 0 && s->unreadable < UNREADABLES);
		require(r != -EPIPE || s->unreadable == UNREADABLE_GONE ||
			s->unreadable == UNREADABLE_MEMORY || r > -4096);
	}
	(void)unpacking_free(s);
	(void)unpack_free(u);
	(void)close(pair[1]);
	return 0;
}
