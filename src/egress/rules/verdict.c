/* SPDX-License-Identifier: Apache-2.0 */
#include "egress/rules/verdict.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>

#include "base/bytes/json.h"

static const struct {
	const char *name;
	int status;
} reasons[] = {
	[EGRESS_OK] = { "ok", 200 },
	[EGRESS_NOT_ALLOWED] = { "not-allowed", 403 },
	[EGRESS_DENIED] = { "denied", 403 },
	[EGRESS_PRIVATE_ADDRESS] = { "private-address", 403 },
	[EGRESS_BAD_REQUEST] = { "bad-request", 400 },
	[EGRESS_TLS_MISMATCH] = { "tls-mismatch", 421 },
	[EGRESS_CREDENTIAL_MISUSE] = { "credential-misuse", 403 },
	[EGRESS_LEAK] = { "leak", 403 },
	[EGRESS_LIMIT] = { "limit", 429 },
	[EGRESS_BUDGET] = { "budget", 402 }, /* which clients of models do not try again */
	[EGRESS_BAD_ANSWER] = { "bad-answer", 502 },
	[EGRESS_INTERNAL] = { "internal", 502 },
};
static_assert(sizeof(reasons) / sizeof(*reasons) == EGRESS_REASONS, "a row for every reason");

const char *egress_reason_name(enum egress_reason r)
{
	return reasons[r].name;
}

int egress_reason_status(enum egress_reason r)
{
	return reasons[r].status;
}

/* What a client wrote may end in a terminal or a header. */
static void make_printable(char *s)
{
	for (; *s; s++)
		if (*s < 0x20 || *s > 0x7e)
			*s = '?';
}

bool verdict_deny(struct egress_verdict *v, enum egress_reason r, const char *hint, const char *fmt,
		  ...)
{
	va_list ap;

	v->reason = r;
	va_start(ap, fmt);
	(void)vsnprintf(v->what, sizeof(v->what), fmt, ap);
	va_end(ap);
	(void)snprintf(v->hint, sizeof(v->hint), "%s", hint ? hint : "");
	make_printable(v->what);
	make_printable(v->hint);
	return false;
}

/* As each of the APIs of models says it, in one: their clients look for `error.message`. */
static void json_model_error(struct json *j, const char *error)
{
	json_kstr(j, "type", "error");
	json_kobject(j, "error");
	json_kstr(j, "type", "billing_error");
	json_kstr(j, "code", "budget");
	json_kstr(j, "status", "RESOURCE_EXHAUSTED");
	json_kstr(j, "message", error);
	json_object_end(j);
}

void verdict_json(const struct egress_verdict *v, struct buf *out)
{
	char error[sizeof(v->what) + sizeof(v->hint) + 2];
	struct json j;

	json_init(&j, out, false);
	json_object(&j);
	(void)snprintf(error, sizeof(error), "%s%s%s", v->what, *v->hint ? "; " : "", v->hint);
	if (v->reason == EGRESS_BUDGET)
		json_model_error(&j, error);
	else
		json_kstr(&j, "error", error);
	json_kstr(&j, "reason", egress_reason_name(v->reason));
	json_kstr(&j, "what", v->what);
	json_kstr(&j, "hint", *v->hint ? v->hint : NULL);
	json_kstr(&j, "host", v->host.len ? v->host.name : NULL);
	json_ku64(&j, "port", v->port);
	json_kstr(&j, "rule", v->rule);
	if (v->retry_after)
		json_ku64(&j, "retry_after", v->retry_after);
	json_object_end(&j);
	buf_putc(out, '\n');
}
