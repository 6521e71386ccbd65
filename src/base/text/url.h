/* SPDX-License-Identifier: Apache-2.0 */
/* base/text/url.h - http and https addresses, read strictly. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/text/buf.h"
#include "base/text/err.h"

enum { URL_HOST_SIZE = 254 };

struct url {
	bool tls;
	char host[URL_HOST_SIZE]; /* a name, an IPv4 address, or an IPv6 address without brackets */
	char authority[URL_HOST_SIZE + 8]; /* of the Host field: the host, with the port where it is
					      not the usual one */
	uint16_t port;
	const char *target; /* path and query, borrowed from the text; "/" where there is none */
};

/* Refuses what two readers could understand differently: control characters, blanks, bytes beyond
 * ASCII, a user name, a fragment, an empty host or port. The error names no part of the text: it
 * may hold a token. */
int url_parse(const char *text, struct url *ret, struct err *e);

/* Text as a part of a target: everything but letters, digits and "/._-~" with a percent sign. */
void url_put_escaped(struct buf *b, const char *text);
