/* SPDX-License-Identifier: Apache-2.0 */
/* wire/http1_request.h - HTTP/1.1 requests, read as strictly as http1.h reads answers.
 *
 * Pure. Refused, beyond what is refused there: an empty line in front, a method that is no token, a
 * target with anything but visible ASCII, a missing or second Host, a transfer coding in HTTP/1.0,
 * an Expect that is not 100-continue. After an error the connection must be closed. */
#pragma once

#include "wire/http1.h"

enum { HTTP1_TARGET_MAX = 8192, HTTP1_METHOD_MAX = 32 };

enum http1_form {
	HTTP1_ORIGIN,    /* /path?query */
	HTTP1_ABSOLUTE,  /* http://host/path, to a proxy */
	HTTP1_AUTHORITY, /* host:port, of CONNECT alone */
	HTTP1_ASTERISK,  /* of OPTIONS alone */
};

struct http1_request {
	unsigned minor; /* of HTTP/1.x: 0 or 1 */
	struct http1_text method, target;
	enum http1_form form;
	struct http1_text scheme, authority; /* of the absolute and authority forms */
	struct http1_text path;     /* path and query; "/" where an absolute form has none */
	struct http1_text host;     /* the Host field */
	enum http1_framing framing; /* HTTP1_NO_BODY, HTTP1_LENGTH or HTTP1_CHUNKED */
	uint64_t length;
	bool keeps_alive;
	bool expects; /* 100-continue */
	size_t n_fields;
	struct http1_field fields[HTTP1_FIELDS_MAX]; /* last: only those that are there are set */
};

/* Why a head was refused, as the status to answer with. */
enum http1_refusal {
	HTTP1_BAD_REQUEST = 400,
	HTTP1_URI_TOO_LONG = 414,
	HTTP1_EXPECTATION_FAILED = 417,
	HTTP1_FIELDS_TOO_LARGE = 431,
	HTTP1_NOT_IMPLEMENTED = 501,
	HTTP1_VERSION_UNSUPPORTED = 505,
};

/* Returns how many bytes the head took, 0 when more must come, or minus a refusal; *why then says
 * what was wrong, for people. */
ssize_t http1_read_request(const char *p, size_t n, struct http1_request *ret, const char **why);
