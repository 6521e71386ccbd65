/* SPDX-License-Identifier: Apache-2.0 */
/* egress/oauth/token_form.c - NAME=VALUE&..., as requests are written and a few endpoints answer.
 */
#include <errno.h>
#include <string.h>

#include "base/text/cleanup.h"
#include "base/text/num.h"
#include "egress/oauth/oauth_internal.h"

struct form_pair {
	struct egress_text name, value; /* as they are written */
};

static bool next_pair(struct egress_text *rest, struct form_pair *ret)
{
	const char *end, *eq;

	if (!rest->n)
		return false;
	end = memchr(rest->p, '&', rest->n);
	end = end ? end : rest->p + rest->n;
	eq = memchr(rest->p, '=', (size_t)(end - rest->p));
	ret->name = egress_text(rest->p, (size_t)((eq ? eq : end) - rest->p));
	ret->value = eq ? egress_text(eq + 1, (size_t)(end - eq - 1)) : egress_text(end, 0);
	rest->n -= (size_t)(end - rest->p);
	rest->p = end;
	if (rest->n) {
		rest->p++;
		rest->n--;
	}
	return true;
}

static int digit(char c)
{
	return c >= '0' && c <= '9'                 ? c - '0'
	       : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10
						    : -1;
}

static void put_decoded(struct buf *b, struct egress_text t)
{
	for (size_t i = 0; i < t.n; i++) {
		int high = i + 2 < t.n && t.p[i] == '%' ? digit(t.p[i + 1]) : -1;
		int low = high >= 0 ? digit(t.p[i + 2]) : -1;

		if (low >= 0)
			i += 2;
		buf_putc(b, (char)(low >= 0 ? high * 16 + low : t.p[i] == '+' ? ' ' : t.p[i]));
	}
}

static void put_escaped(struct buf *b, const char *p, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if ((p[i] >= 'A' && p[i] <= 'Z') || (p[i] >= 'a' && p[i] <= 'z') ||
		    (p[i] >= '0' && p[i] <= '9') || (p[i] && strchr("-._~", p[i])))
			buf_putc(b, p[i]);
		else
			buf_printf(b, "%%%02X", (unsigned char)p[i]);
}

/* --- an answer --- */

/* Every sign that a form has, and no other: no page of HTML, no text. */
static bool is_form(struct egress_text t)
{
	static const char signs[] = "-._~%+*=&:/,@!$'();?";

	for (size_t i = 0; i < t.n; i++)
		if (!((t.p[i] >= 'A' && t.p[i] <= 'Z') || (t.p[i] >= 'a' && t.p[i] <= 'z') ||
		      (t.p[i] >= '0' && t.p[i] <= '9') || (t.p[i] && strchr(signs, t.p[i]))))
			return false;
	return t.n && memchr(t.p, '=', t.n);
}

static int64_t lifetime(struct egress_text body)
{
	struct form_pair p;

	while (next_pair(&body, &p)) {
		uint64_t n = 0;

		if (!egress_text_is(p.name, "expires_in") || p.value.n > 9)
			continue;
		for (size_t i = 0; i < p.value.n; i++)
			if (p.value.p[i] >= '0' && p.value.p[i] <= '9')
				n = n * 10 + (uint64_t)(p.value.p[i] - '0');
		return (int64_t)n;
	}
	return 0;
}

static int answer_pair(struct oauth *t, int endpoint, int64_t until, const struct form_pair *p,
		       struct buf *out, struct oauth_news *news, struct err *e)
{
	CLEANUP(buf) struct buf name = BUF_INIT(OAUTH_ANSWER_MAX);
	CLEANUP(buf) struct buf value = BUF_INIT(OAUTH_ANSWER_MAX);
	const char *instead = NULL;
	int r;

	put_decoded(&name, p->name);
	put_decoded(&value, p->value);
	if (name.failed || value.failed)
		return err_nomem(e);
	r = token_seal(t, endpoint, egress_text(buf_str(&name), name.len),
		       egress_text(buf_str(&value), value.len), until, &instead, news, e);
	put_escaped(out, buf_str(&name), name.len);
	buf_putc(out, '=');
	if (instead)
		buf_puts(out, instead);
	else
		put_escaped(out, buf_str(&value), value.len);
	if (value.data)
		explicit_bzero(value.data, value.len);
	return r;
}

int token_form_answer(struct oauth *t, int endpoint, struct egress_text body, struct buf *out,
		      struct oauth_news *news, struct err *e)
{
	int64_t life, until;
	struct form_pair p;

	while (body.n && (body.p[body.n - 1] == '\n' || body.p[body.n - 1] == '\r'))
		body.n--;
	if (!is_form(body))
		return err_set(e, ERR_UNAVAILABLE, EBADMSG, "neither JSON nor a form");
	life = lifetime(body);
	until = life ? t->now + life : 0;
	for (bool first = true; next_pair(&body, &p); first = false) {
		if (!first)
			buf_putc(out, '&');
		if (answer_pair(t, endpoint, until, &p, out, news, e) < 0)
			return -e->code;
	}
	return 0;
}

/* --- a request --- */

void token_form_body(const struct oauth *t, int endpoint, struct egress_text body, struct buf *sent,
		     struct buf *said, uint64_t *used)
{
	struct form_pair p;

	for (bool first = true; next_pair(&body, &p); first = false) {
		const struct secret *s =
			token_field(p.name) ? oauth_value(t, endpoint, p.value, used) : NULL;

		for (int k = 0; k < 2; k++) {
			struct buf *b = k ? said : sent;

			if (!first)
				buf_putc(b, '&');
			buf_add(b, p.name.p, p.name.n);
			if (p.value.p > p.name.p + p.name.n)
				buf_putc(b, '=');
			if (s && b == sent)
				put_escaped(b, s->value, s->len);
			else if (!s)
				buf_add(b, p.value.p, p.value.n);
		}
	}
}
