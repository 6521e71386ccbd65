/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/socks.h"

#include <arpa/inet.h>
#include <errno.h>
#include <string.h>

#define VERSION 5
#define NO_AUTHENTICATION 0
#define COMMAND_CONNECT 1

enum { ATYP_V4 = 1, ATYP_NAME = 3, ATYP_V6 = 4 };

ssize_t socks_read_greeting(const unsigned char *p, size_t n)
{
	if (n && p[0] != VERSION)
		return -EBADMSG;
	if (n < 2 || n < 2U + p[1])
		return 0;
	if (!memchr(p + 2, NO_AUTHENTICATION, p[1]))
		return -EPROTO;
	return 2 + p[1];
}

/* Bytes of the address at p, with the length byte of a name; 0: no such kind. */
static size_t address_size(const unsigned char *p)
{
	switch (p[3]) {
	case ATYP_V4:
		return 4;
	case ATYP_V6:
		return 16;
	case ATYP_NAME:
		return 1U + p[4];
	default:
		return 0;
	}
}

ssize_t socks_read_request(const unsigned char *p, size_t n, struct socks_request *ret)
{
	struct socks_request r = { 0 };
	size_t size;

	if ((n > 0 && p[0] != VERSION) || (n > 2 && p[2] != 0))
		return -EBADMSG;
	if (n < 5)
		return 0;
	size = address_size(p);
	if (!size || (p[3] == ATYP_NAME && size == 1))
		return -EBADMSG;
	if (n < 4 + size + 2)
		return 0;
	if (p[1] != COMMAND_CONNECT)
		return -EOPNOTSUPP;
	if (p[3] == ATYP_NAME) {
		r.host_len = size - 1;
		memcpy(r.host, p + 5, r.host_len);
	} else {
		(void)inet_ntop(p[3] == ATYP_V4 ? AF_INET : AF_INET6, p + 4, r.host,
				sizeof(r.host));
		r.host_len = strlen(r.host);
	}
	r.port = (uint16_t)(p[4 + size] << 8 | p[5 + size]);
	*ret = r;
	return (ssize_t)(4 + size + 2);
}

void socks_reply(enum socks_code code, unsigned char out[SOCKS_REPLY_LEN])
{
	memset(out, 0, SOCKS_REPLY_LEN);
	out[0] = VERSION;
	out[1] = (unsigned char)code;
	out[3] = ATYP_V4;
}
