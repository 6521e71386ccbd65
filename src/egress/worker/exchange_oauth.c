/* SPDX-License-Identifier: Apache-2.0 */
/* egress/worker/exchange_oauth.c - a request to a token endpoint, and its answer: both are held
 * until they are whole, and written anew (oauth.h). What the answer brings is looked for in all
 * that follows before the guest hears of it. */
#include <string.h>
#include <time.h>

#include "base/text/cleanup.h"
#include "egress/oauth/oauth.h"
#include "egress/worker/exchange_internal.h"
#include "model/known/login_file.h"

static int endpoint_of(const struct exchange *x)
{
	return (int)x->endpoint - 1;
}

/* --- the request --- */

/* What the guest says of its own is looked at as every body is; nothing is taken out of it. */
static bool look_up(struct exchange *x, char *p, size_t n, struct egress_verdict *v)
{
	struct scan_release ignored;

	if (!rate_sent(x->k->rate, n, v) || !exchange_budget_up(x, p, n, true, v) ||
	    (x->nest_up && !packed_feed(x, x->nest_up, p, n, true, v)))
		return false;
	if (x->json_up && !json_scan_feed(x->json_up, p, n, true, exchange_piece(x), v))
		return false;
	if (x->scan_up && !scan_feed(x->scan_up, p, n, true, &ignored, v))
		return false;
	return !x->nest_up ||
	       (nest_settle(x->nest_up, v) && packed_unread(x, nest_unreadable(x->nest_up), v));
}

/* The head ends in an empty line, before which its length belongs. */
static bool put_length(struct exchange *x, size_t n)
{
	x->head.len -= 2;
	buf_printf(&x->head, "Content-Length: %zu\r\n\r\n", n);
	return !x->head.failed;
}

bool exchange_oauth_up(struct exchange *x, struct egress_verdict *v)
{
	CLEANUP(buf) struct buf sent = BUF_INIT(OAUTH_BODY_MAX * 4);
	CLEANUP(buf) struct buf said = BUF_INIT(OAUTH_BODY_MAX * 4);
	const struct egress_text body = egress_text(buf_str(&x->held), x->held.len);
	char none[1] = "";
	uint64_t used = 0;

	if (!oauth_has_room(x->k->oauth, (int64_t)time(NULL)))
		return verdict_deny(v, EGRESS_BAD_REQUEST, "start another run",
				    "the run has got %d tokens, and keeps no more", OAUTH_MAX);
	if (!oauth_body(x->k->oauth, endpoint_of(x), body, &sent, &said, &used))
		return verdict_deny(v, EGRESS_BAD_REQUEST, NULL, "the body is too long");
	if (!look_up(x, said.data ? said.data : none, said.len, v))
		return false;
	if (!exchange_report_used(x, used) || !put_length(x, sent.len))
		return verdict_deny(v, EGRESS_INTERNAL, NULL,
				    "the use of a credential cannot be recorded");
	buf_done(&x->held);
	x->held = sent;
	sent = (struct buf){ 0 };
	x->waits_body = false;
	x->held_whole = true;
	return true;
}

/* --- the answer --- */

bool exchange_oauth_take(struct exchange *x, const char *p, size_t n)
{
	struct egress_verdict v = { 0 };

	buf_add(&x->sealed, p, n);
	if (!x->sealed.failed)
		return true;
	(void)verdict_deny(&v, EGRESS_BAD_ANSWER, NULL,
			   "the token endpoint answered more than %zu KiB", OAUTH_ANSWER_MAX >> 10);
	exchange_stop(x, &v);
	return false;
}

static int renew_tables(struct worker *k, struct err *e)
{
	size_t n;
	const struct secret *all = oauth_secrets(k->oauth, &n);

	if (k->scanner && scanner_renew(&k->scanner, all, n, e) < 0)
		return -e->code;
	return scrubber_renew(&k->scrubber, all, n, e);
}

/* A page of an error's is no token; nor is it passed, since nobody here could tell. */
static bool is_page(const struct exchange *x, int r)
{
	return r == -EBADMSG && x->t.status >= 300;
}

static bool seal(struct exchange *x, struct buf *out, struct egress_verdict *v)
{
	struct worker *k = x->k;
	struct oauth_news news = { 0 };
	struct err e = { 0 }, other = { 0 };
	int r = oauth_answer(k->oauth, endpoint_of(x), (int64_t)time(NULL),
			     egress_text(buf_str(&x->sealed), x->sealed.len), out, &news, &e);

	if (news.n && renew_tables(k, &other) < 0)
		return verdict_deny(v, EGRESS_INTERNAL, NULL, "%s", other.what);
	if (is_page(x, r)) {
		out->len = 0;
		return true;
	}
	if (r < 0)
		return verdict_deny(v, EGRESS_BAD_ANSWER, e.hint[0] ? e.hint : NULL,
				    "what the token endpoint answered may not pass: %s", e.what);
	return !news.n || exchange_oauth_told(x, &news) ||
	       verdict_deny(v, EGRESS_INTERNAL, NULL, "a new token cannot be recorded");
}

bool exchange_oauth_told(struct exchange *x, const struct oauth_news *news)
{
	const struct credential_spec *c = &x->k->plan->credentials.v[news->login];

	return report_credential(x->k, EGRESS_EVENT_TOKEN, &x->t.v, c->name) &&
	       (!credential_keeps(c) || !news->renews ||
		report_renewed(x->k, c->name, news->renews));
}

/* What came before the table was made anew. */
static bool clean(struct exchange *x, struct http1_text *t, struct buf *b)
{
	size_t at = b->len;

	exchange_scrubbed(x, b, *t);
	*t = (struct http1_text){ NULL, b->len - at };
	return !b->failed;
}

static bool send_sealed(struct exchange *x, struct buf *out)
{
	CLEANUP(buf) struct buf b = BUF_INIT(2 * HEAD_ROOM);
	CLEANUP(buf) struct buf body = BUF_INIT(2 * OAUTH_ANSWER_MAX);
	struct down_head h = x->kept_head;
	struct http1_text said = { buf_str(out), out->len };

	if (!clean(x, &h.reason, &b) || !clean(x, &h.fields, &b) || !clean(x, &said, &body))
		return false;
	h.reason.p = buf_str(&b);
	h.fields.p = buf_str(&b) + h.reason.n;
	look_at(x, buf_str(&b), b.len, false);
	look_at(x, buf_str(&body), body.len, true);
	return x->d->ops->head(x->d, &h) &&
	       (!body.len || x->d->ops->data(x->d, buf_str(&body), body.len)) &&
	       x->d->ops->end(x->d, (struct http1_text){ "", 0 });
}

void exchange_oauth_end(struct exchange *x)
{
	CLEANUP(buf) struct buf out = BUF_INIT(2 * OAUTH_ANSWER_MAX);
	struct egress_verdict v = { 0 };

	if (!seal(x, &out, &v)) {
		exchange_stop(x, &v);
		return;
	}
	exchange_budget_end(x, true);
	x->keeps = false; /* from here on the guest has begun to hear */
	if (send_sealed(x, &out))
		x->state = EXCHANGE_DONE;
	else
		exchange_cut(x);
}
