/* SPDX-License-Identifier: Apache-2.0 */
/* egress/rules/upstream_proxy.h - the proxy that this machine must use itself
 * (`egress.upstream_proxy`). Pure.
 *
 * Where there is one, every connection that is not pinned goes through it by CONNECT. It resolves
 * the names, so which addresses they lead to is for it to judge. */
#pragma once

#include "base/text/err.h"
#include "egress/rules/addr.h"
#include "egress/rules/host.h"

struct upstream_proxy {
	bool on;
	struct host host; /* empty: `addr` it is */
	struct addr addr;
	uint16_t port;
	bool tls; /* and its certificate is verified, before anything is said to it */
};

/* [http://]HOST:PORT[/], https://HOST:PORT[/]; NULL or an empty text: none. */
int chain_parse(const char *text, struct upstream_proxy *ret, struct err *e);
