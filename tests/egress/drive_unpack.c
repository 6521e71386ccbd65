/* SPDX-License-Identifier: Apache-2.0 */
/* egress/drive_unpack.c - hands a file to an unpacker in pieces, for egress/test_unpack.py.
 *
 *     drive-unpack FILE PIECE [CODING...]
 *
 * Tells each text as "DEPTH CLASS BYTES\n" and the bytes, then the result. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>

#include "base/text/buf.h"
#include "egress/unpack/coding.h"

#define SHOWN ((size_t)1 << 20)

struct text {
	struct buf b;
	uint64_t n;
	int is;
};

static struct text texts[PEEL_DEPTH + PEEL_CODINGS + 1];

static int told(void *arg, const struct peel_piece *piece, char *p)
{
	struct text *t = &texts[piece->depth];

	(void)arg;
	if (piece->begins) {
		t->b = (struct buf)BUF_INIT(SHOWN);
		t->n = 0;
		t->is = (int)piece->is;
	}
	t->n += piece->n;
	buf_add(&t->b, p, t->b.len + piece->n < SHOWN ? piece->n : 0);
	if (piece->ends) {
		printf("%u %d %llu %zu\n", piece->depth, t->is, (unsigned long long)t->n, t->b.len);
		(void)fwrite(buf_str(&t->b), 1, t->b.len, stdout);
		buf_done(&t->b);
	}
	return 0;
}

static uint64_t now(void)
{
	struct timespec t;

	(void)clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
}

int main(int argc, char **argv)
{
	int fd = argc > 2 ? open(argv[1], O_RDONLY | O_CLOEXEC) : -1, r = 0;
	size_t piece = argc > 2 ? (size_t)atol(argv[2]) : 0, n;
	struct peel_spent spent = { 0 };
	struct unpack_want w = { 0 };
	struct unpack_body *s = NULL;
	struct unpack_side *u = NULL;
	struct err e = { 0 };
	struct codings c = { 0 };
	struct stat st;
	uint64_t since;
	char *p;

	if (fd < 0 || fstat(fd, &st) < 0 || !piece ||
	    (argc > 3 && coding_parse(egress_text(argv[3], strlen(argv[3])), &c) < 0))
		return 2;
	n = (size_t)st.st_size;
	p = mmap(NULL, n ? n : 1, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
	w.n_codings = c.n;
	for (unsigned i = 0; i < c.n; i++)
		w.codings[i] = (enum packed_as)c.v[c.n - 1 - i];
	if (p == MAP_FAILED || unpack_start(&u, &e) < 0 || unpacking_new(u, &w, &spent, &s) < 0)
		return 2;
	since = now();
	for (size_t at = 0; r == 0 && (at < n || !at); at += piece)
		r = unpacking_feed(s, p + at, n - at < piece ? n - at : piece, at + piece >= n,
				   told, NULL);
	printf("%d %d %llu %llu %llu\n", r, (int)s->unreadable, (unsigned long long)spent.out,
	       (unsigned long long)spent.us, (unsigned long long)(now() - since));
	(void)unpacking_free(s);
	(void)unpack_free(u);
	return 0;
}
