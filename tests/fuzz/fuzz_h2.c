/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz/fuzz_h2.c - whatever the other side of HTTP/2 says, in either role: heads are one head of
 * HTTP/1 each, bodies are whole or reset, and nothing is left behind.
 *
 * The first byte: the role, whether the preface and SETTINGS are given, and how the rest is cut. */
#include "fuzz.h"

#include "wire/h2/h2.h"

#define INPUT_MAX ((size_t)1 << 16)
#define PREFACE "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
#define SETTINGS "\0\0\0\4\0\0\0\0\0"

enum { OWNED_MAX = 2 * H2_STREAMS_MAX };

struct owned {
	struct h2_stream *v[OWNED_MAX];
	size_t n;
};

static void on_opened(void *arg, struct h2_stream *s)
{
	struct owned *o = arg;

	require(o->n < OWNED_MAX);
	s->owner = o;
	o->v[o->n++] = s;
}

static void on_stirs(void *arg, struct h2_stream *s)
{
	require(s->owner == arg);
}

static const struct h2_events events = { .opened = on_opened, .stirs = on_stirs };

/* Is what came over as a head exactly one, with no line that its sender broke into it? */
static void check_request(struct h2_stream *s)
{
	struct http1_text t = h2_heads(s);
	struct http1_request q;
	const char *why;
	ssize_t n = http1_read_request(t.p, t.n, &q, &why);

	require(n != 0 && n <= (ssize_t)t.n);
	if (n < 0)
		return;
	require(n == (ssize_t)t.n);
	for (size_t i = 0; i < q.n_fields; i++)
		for (size_t k = 0; k < q.fields[i].name.n && i; k++)
			require(q.fields[i].name.p[k] < 'A' || q.fields[i].name.p[k] > 'Z' ||
				q.fields[i].is == HTTP1_NAME_TRANSFER_ENCODING);
	h2_drop_head(s, (size_t)n);
}

static void check_answers(struct h2_stream *s)
{
	struct http1_text t = h2_heads(s);
	struct http1_answer a;
	struct err e = { 0 };
	ssize_t n;

	while (t.n && (n = http1_read_answer(t.p, t.n, HTTP1_ASKED_PLAIN, &a, &e)) > 0) {
		h2_drop_head(s, (size_t)n);
		t = h2_heads(s);
	}
}

static bool use(struct h2_stream *s, bool server)
{
	char *p;
	size_t n;

	if (server && h2_heads(s).n)
		check_request(s);
	else if (!server)
		check_answers(s);
	while ((n = h2_piece(s, 1000, &p)))
		memset(p, 'x', n);
	(void)h2_trailers(s);
	if (server && s->ended && !s->closed &&
	    h2_answer(s, 200, (struct http1_text){ "X-A: b\r\n", 8 }, true)) {
		(void)h2_add(s, "body", 4);
		h2_end(s, (struct http1_text){ "x-t: 1\r\n", 8 });
	}
	return s->ended || s->closed;
}

static void use_all(struct owned *o, bool server)
{
	for (size_t i = 0; i < o->n;) {
		if (!use(o->v[i], server)) {
			i++;
			continue;
		}
		h2_leave(o->v[i]);
		o->v[i] = o->v[--o->n];
	}
}

static bool give(struct h2 *h, const char *p, size_t n, uint64_t now)
{
	const char *out;
	bool ok = h2_feed(h, p, n, now);
	size_t sent = 0, k;

	while ((k = h2_next(h, &out)) && sent < ((size_t)1 << 20))
		sent += k;
	return ok && !h2_over(h);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char ask[] = "GET / HTTP/1.1\r\nHost: a.test\r\nX-A: b\r\n\r\n";
	const char *p = (const char *)data + 1;
	struct owned o = { 0 };
	bool server, alive = true;
	size_t step;
	struct h2 *h;

	if (size < 2 || size > INPUT_MAX)
		return 0;
	server = data[0] & 1;
	step = (size_t)(data[0] >> 2) * 16 + 1;
	h = h2_new(server ? H2_SERVER : H2_CLIENT, &events, &o);
	require(h != NULL);
	if (!server)
		for (int i = 0; i < 3; i++)
			on_opened(&o, h2_ask(h, (struct http1_text){ ask, sizeof(ask) - 1 }, i == 1,
					     &o));
	if (data[0] & 2)
		alive = (!server || give(h, PREFACE, sizeof(PREFACE) - 1, 1)) &&
			give(h, SETTINGS, sizeof(SETTINGS) - 1, 1);
	for (size_t at = 0; alive && at < size - 1; at += step) {
		alive = give(h, p + at, size - 1 - at < step ? size - 1 - at : step, at + 1);
		use_all(&o, server);
	}
	require(h2_streams(h) <= OWNED_MAX);
	while (o.n)
		h2_leave(o.v[--o.n]);
	(void)h2_free(h);
	return 0;
}
