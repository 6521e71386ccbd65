/* SPDX-License-Identifier: Apache-2.0 */
/* egress/worker/session.h - the parts of a session, for one another. */
#pragma once

#include "egress/worker/worker.h"

#define SECOND ((uint64_t)1000 * 1000)
#define HEAD_US (30 * SECOND) /* for a hello, a handshake, a head */

static const struct http1_text session_connect = { "CONNECT", 7 }, session_tls = { "TLS", 3 };

/* The steps of a session's states: true when something moved. */
bool session_first(struct session *s);
bool session_socks(struct session *s);
bool session_hello(struct session *s);
bool session_shake(struct session *s);
bool session_head(struct session *s);
bool session_opening(struct session *s); /* a tunnel, until its upstream is there */
bool session_pipe(struct session *s);    /* a tunnel that is open */

/* A fatal alert, for a guest to whom no leaf can be shown: access_denied. */
void session_alert(struct session *s);
/* Runs it again once the monitor knows what was decided until now. */
void session_hold(struct session *s);
