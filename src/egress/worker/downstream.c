/* SPDX-License-Identifier: Apache-2.0 */
#include "egress/worker/downstream.h"

#include "base/bytes/json.h"
#include "base/text/cleanup.h"

#define TURN ((size_t)1 << 20) /* bytes; then it is somebody else's turn */

bool downstream_tired(const struct downstream *d)
{
	return d->turn >= TURN;
}

void downstream_deny(struct downstream *d, const struct egress_verdict *v)
{
	CLEANUP(buf) struct buf body = BUF_INIT(4096);

	verdict_json(v, &body);
	d->ops->refuse(d, &(struct down_refusal){ .status = egress_reason_status(v->reason),
						  .phrase = v->what,
						  .reason = egress_reason_name(v->reason),
						  .retry_after = v->retry_after,
						  .body = &body });
}

void downstream_fail(struct downstream *d, int status, const char *reason, const char *what)
{
	CLEANUP(buf) struct buf body = BUF_INIT(1024);
	struct json j;

	json_init(&j, &body, false);
	json_object(&j);
	json_kstr(&j, "error", what);
	json_kstr(&j, "reason", reason);
	json_kstr(&j, "what", what);
	json_object_end(&j);
	buf_putc(&body, '\n');
	d->ops->refuse(d,
		       &(struct down_refusal){
			       .status = status, .phrase = what, .reason = reason, .body = &body });
}
