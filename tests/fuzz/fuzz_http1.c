/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz/fuzz_http1.c - an answer is the same however it is cut, and nothing points outside of it.
 *
 * The first byte: what was asked, and how the rest is cut into calls. */
#include <errno.h>

#include "fuzz.h"

#include "wire/http1.h"

#define INPUT_MAX ((size_t)1 << 18)

static void inside(struct http1_text t, const char *p, size_t n)
{
	require(!t.n || (t.p >= p && t.p + t.n <= p + n));
}

static void check_head(const struct http1_answer *a, const char *p, size_t n)
{
	require(a->status >= 100 && a->status <= 599 && a->n_fields <= HTTP1_FIELDS_MAX);
	inside(a->reason, p, n);
	for (size_t i = 0; i < a->n_fields; i++) {
		inside(a->fields[i].name, p, n);
		inside(a->fields[i].value, p, n);
		require(a->fields[i].name.n > 0);
		require(!memchr(a->fields[i].value.p, '\n', a->fields[i].value.n));
		require(!memchr(a->fields[i].value.p, '\r', a->fields[i].value.n));
	}
}

/* Bytes of the body put to out, or -EBADMSG; *took is where it ended. */
static ssize_t body(const struct http1_answer *a, const char *p, size_t n, size_t step, char *out,
		    size_t *took)
{
	char trailer[HTTP1_TRAILER_MAX];
	struct http1_body b;
	size_t at = 0, done = 0;

	http1_body_init(&b, a);
	b.keep = trailer;
	while (at < n && !http1_body_done(&b)) {
		size_t give = n - at < step ? n - at : step;
		struct http1_text data;
		ssize_t got = http1_body_read(&b, p + at, give, &data);

		if (got < 0)
			return got;
		require(got >= 1 && (size_t)got <= give);
		inside(data, p + at, (size_t)got);
		if (data.n)
			memcpy(out + done, data.p, data.n);
		done += data.n;
		at += (size_t)got;
	}
	*took = at;
	require(b.kept <= sizeof(trailer) && b.kept <= n);
	(void)http1_body_end(&b);
	return (ssize_t)done;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *p = (const char *)data + 1;
	size_t n = size - 1, step, took = 0, took_cut = 0;
	struct http1_answer a, again;
	struct err e = { 0 };
	char *whole, *cut;
	ssize_t head, m, m_cut;

	if (size < 2 || size > INPUT_MAX)
		return 0;
	step = (size_t)(data[0] >> 2) % 32 + 1;
	head = http1_read_answer(p, n, (enum http1_asked)(data[0] % 3), &a, &e);
	require((head < 0) == (e.code != 0));
	if (head <= 0)
		return 0;
	check_head(&a, p, (size_t)head);
	/* One byte less is not a head yet, and what follows does not change it. */
	require(http1_read_answer(p, (size_t)head - 1, (enum http1_asked)(data[0] % 3), &again,
				  &e) == 0);
	whole = malloc(n);
	cut = malloc(n);
	require(whole && cut);
	m = body(&a, p + head, n - (size_t)head, n, whole, &took);
	m_cut = body(&a, p + head, n - (size_t)head, step, cut, &took_cut);
	require(m == m_cut && took == took_cut);
	require(m <= 0 || memcmp(whole, cut, (size_t)m) == 0);
	free(whole);
	free(cut);
	return 0;
}
