/* SPDX-License-Identifier: Apache-2.0 */
/* egress/worker/session_answer.c - what the door itself says to a guest. */
#include "base/cleanup.h"
#include "base/json.h"
#include "egress/worker/session.h"

static void answer(struct session *s, int status, const char *phrase, const char *reason,
		   unsigned retry_after, const struct buf *body)
{
	CLEANUP(buf) struct buf b = BUF_INIT(8192);

	buf_printf(&b,
		   "HTTP/1.1 %d %.120s\r\nContent-Type: application/json\r\nbrig-reason: %s\r\n",
		   status, phrase, reason);
	if (retry_after)
		buf_printf(&b, "Retry-After: %u\r\n", retry_after);
	buf_printf(&b, "Content-Length: %zu\r\nConnection: close\r\n\r\n", body->len);
	if (s->x.asked != HTTP1_ASKED_HEAD)
		buf_add(&b, buf_str(body), body->len);
	(void)link_add(&s->guest, buf_str(&b), b.len);
}

void session_deny(struct session *s, const struct egress_verdict *v, struct http1_text method)
{
	CLEANUP(buf) struct buf body = BUF_INIT(4096);

	report_deny(s->k, v, method);
	verdict_json(v, &body);
	answer(s, egress_reason_status(v->reason), v->what, egress_reason_name(v->reason),
	       v->retry_after, &body);
	session_linger(s);
}

void session_answer(struct session *s, int status, const char *reason, const char *what)
{
	CLEANUP(buf) struct buf body = BUF_INIT(1024);
	struct json j;

	json_init(&j, &body, false);
	json_object(&j);
	json_key(&j, "error");
	json_object(&j);
	json_kstr(&j, "reason", reason);
	json_kstr(&j, "what", what);
	json_object_end(&j);
	json_object_end(&j);
	buf_putc(&body, '\n');
	answer(s, status, what, reason, 0, &body);
	session_linger(s);
}

/* A fatal alert, for a guest to whom no leaf can be shown: access_denied. */
void session_alert(struct session *s)
{
	static const unsigned char denied[] = { 21, 3, 3, 0, 2, 2, 49 };

	(void)link_add(&s->guest, denied, sizeof(denied));
	session_linger(s);
}
