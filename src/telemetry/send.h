/* SPDX-License-Identifier: Apache-2.0 */
/* telemetry/send.h - hands one HTTP request to brig-send, a program of its own, and goes on.
 *
 * brig links no TLS and waits for no collector: the request goes into a memory file, brig-send
 * reads it from its descriptor 0, has no other descriptor of brig's open and is detached. Whether
 * it was delivered is not known here: the caller waits only for two forks and, if it says so, for
 * one of too many senders to end. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/text/buf.h"
#include "base/text/err.h"

enum { SEND_BODY_MAX = 4 << 20, SEND_HEADERS_MAX = 64 };

/* A POST. Everything is borrowed until send_detached returns; nothing of it appears in argv. */
struct send {
	const char *url;            /* http:// or https:// */
	const char *const *headers; /* "Name: value"..., NULL-terminated; or NULL */
	const void *body;
	size_t len;
	uint64_t timeout_ms; /* for all of it, retries included; 0: ten seconds */
	const char *ca_file; /* trusted certificates instead of SSL_CERT_FILE's; or NULL */
	uint64_t wait_ms; /* for the end of another sender, when too many live (telemetry/senders.h)
			   */
};

/* Starts brig-send: 0 or -errno and *e, e.g. for a program that is not installed or -EBUSY. Safe in
 * a process with threads; makes no zombie and no SIGCHLD. */
int send_detached(const struct send *s, struct err *e);

/* The request as brig-send reads it (base/bytes/parcel.h): url, time, headers, body. */
#define SEND_MARK "brig-send 1"
int send_encode(const struct send *s, struct buf *out, struct err *e);
