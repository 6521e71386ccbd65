/* SPDX-License-Identifier: Apache-2.0 */
/* wire/socks.h - what a SOCKS5 client says (RFC 1928): CONNECT to a name or an address, without
 * authentication. Pure. */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum socks_code {
	SOCKS_OK,
	SOCKS_FAILURE,
	SOCKS_NOT_ALLOWED,
	SOCKS_UNREACHABLE_NETWORK,
	SOCKS_UNREACHABLE_HOST,
	SOCKS_REFUSED,
	SOCKS_EXPIRED,
	SOCKS_BAD_COMMAND,
	SOCKS_BAD_ADDRESS,
};

enum { SOCKS_REPLY_LEN = 10, SOCKS_HOST_MAX = 255 };

struct socks_request {
	char host[SOCKS_HOST_MAX + 1]; /* as sent, or an address as text; may hold anything */
	size_t host_len;
	uint16_t port;
};

/* The greeting: bytes taken, 0 for more, -EBADMSG, or -EPROTO where the client insists on
 * authentication. */
ssize_t socks_read_greeting(const unsigned char *p, size_t n);

/* The request: bytes taken, 0 for more, -EBADMSG, -EOPNOTSUPP for BIND and UDP. */
ssize_t socks_read_request(const unsigned char *p, size_t n, struct socks_request *ret);

void socks_reply(enum socks_code code, unsigned char out[SOCKS_REPLY_LEN]);
