/* SPDX-License-Identifier: Apache-2.0 */
/* wire/hello.h - the server name in a TLS ClientHello, read before anybody speaks TLS.
 *
 * Pure and bounded. The hello may be spread over several records; it is put together in the
 * caller's scratch space. Refused: anything that is not a handshake record of TLS 1.x, a second
 * server name, a name with a NUL, an encrypted hello whose outer name would hide the real one. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

enum { HELLO_MAX = 16384 };

struct hello {
	const char *name; /* into scratch, not NUL-terminated; NULL: none was sent */
	size_t name_len;
	bool encrypted; /* carries an encrypted inner hello (ECH) */
	bool offers_http1, has_alpn;
};

/* Returns 1 when the hello is whole, 0 when more must come, -EBADMSG for what is none, -EMSGSIZE
 * for one that is too long. Reads, takes nothing: the bytes still belong to TLS. */
int hello_read(const char *p, size_t n, unsigned char scratch[HELLO_MAX], struct hello *ret);
