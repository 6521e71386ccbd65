/* SPDX-License-Identifier: Apache-2.0 */
/* telemetry/send/request.h - what brig wants sent, as it stands in the memory file
 * (telemetry/send.h). */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/text/buf.h"
#include "base/text/url.h"

enum { REQUEST_MAX = 5 << 20, REQUEST_TIMEOUT_MAX_MS = 600000 };

/* Texts are borrowed from the memory file's. */
struct send_request {
	struct url url;
	uint64_t timeout_ms;
	const char *type;  /* of the body */
	struct buf fields; /* "Name: value\r\n"... */
	const char *body;
	size_t len;
};

int request_parse(const char *data, size_t n, struct send_request *ret, struct err *e);
void request_done(struct send_request *q);
