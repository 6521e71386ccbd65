/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/http1_name.h"

#include <strings.h>

#include "wire/http1.h"

#define LONGEST 22

static const char *const names[HTTP1_NAMES] = {
	[HTTP1_NAME_OTHER] = "",
	[HTTP1_NAME_TE] = "TE",
	[HTTP1_NAME_VIA] = "Via",
	[HTTP1_NAME_HOST] = "Host",
	[HTTP1_NAME_PROXY] = "Proxy",
	[HTTP1_NAME_RANGE] = "Range",
	[HTTP1_NAME_COOKIE] = "Cookie",
	[HTTP1_NAME_EXPECT] = "Expect",
	[HTTP1_NAME_ALT_SVC] = "Alt-Svc",
	[HTTP1_NAME_TRAILER] = "Trailer",
	[HTTP1_NAME_UPGRADE] = "Upgrade",
	[HTTP1_NAME_IF_RANGE] = "If-Range",
	[HTTP1_NAME_FORWARDED] = "Forwarded",
	[HTTP1_NAME_X_REAL_IP] = "X-Real-IP",
	[HTTP1_NAME_CONNECTION] = "Connection",
	[HTTP1_NAME_KEEP_ALIVE] = "Keep-Alive",
	[HTTP1_NAME_SET_COOKIE] = "Set-Cookie",
	[HTTP1_NAME_BRIG_REASON] = "brig-reason",
	[HTTP1_NAME_CONTENT_TYPE] = "Content-Type",
	[HTTP1_NAME_AUTHORIZATION] = "Authorization",
	[HTTP1_NAME_X_HTTP_METHOD] = "X-HTTP-Method",
	[HTTP1_NAME_X_REWRITE_URL] = "X-Rewrite-URL",
	[HTTP1_NAME_CONTENT_LENGTH] = "Content-Length",
	[HTTP1_NAME_HTTP2_SETTINGS] = "HTTP2-Settings",
	[HTTP1_NAME_X_ORIGINAL_URL] = "X-Original-URL",
	[HTTP1_NAME_ACCEPT_ENCODING] = "Accept-Encoding",
	[HTTP1_NAME_PUBLIC_KEY_PINS] = "Public-Key-Pins",
	[HTTP1_NAME_X_FORWARDED_FOR] = "X-Forwarded-For",
	[HTTP1_NAME_CONTENT_ENCODING] = "Content-Encoding",
	[HTTP1_NAME_PROXY_CONNECTION] = "Proxy-Connection",
	[HTTP1_NAME_X_FORWARDED_HOST] = "X-Forwarded-Host",
	[HTTP1_NAME_TRANSFER_ENCODING] = "Transfer-Encoding",
	[HTTP1_NAME_X_FORWARDED_PROTO] = "X-Forwarded-Proto",
	[HTTP1_NAME_X_METHOD_OVERRIDE] = "X-Method-Override",
	[HTTP1_NAME_X_HTTP_METHOD_OVERRIDE] = "X-HTTP-Method-Override",
};

/* The first name of a length; a length that none has begins where the next one does. */
static const unsigned char begins[LONGEST + 2] = {
	[0] = HTTP1_NAME_TE,
	[1] = HTTP1_NAME_TE,
	[2] = HTTP1_NAME_TE,
	[3] = HTTP1_NAME_VIA,
	[4] = HTTP1_NAME_HOST,
	[5] = HTTP1_NAME_PROXY,
	[6] = HTTP1_NAME_COOKIE,
	[7] = HTTP1_NAME_ALT_SVC,
	[8] = HTTP1_NAME_IF_RANGE,
	[9] = HTTP1_NAME_FORWARDED,
	[10] = HTTP1_NAME_CONNECTION,
	[11] = HTTP1_NAME_BRIG_REASON,
	[12] = HTTP1_NAME_CONTENT_TYPE,
	[13] = HTTP1_NAME_AUTHORIZATION,
	[14] = HTTP1_NAME_CONTENT_LENGTH,
	[15] = HTTP1_NAME_ACCEPT_ENCODING,
	[16] = HTTP1_NAME_CONTENT_ENCODING,
	[17] = HTTP1_NAME_TRANSFER_ENCODING,
	[18] = HTTP1_NAME_X_HTTP_METHOD_OVERRIDE,
	[19] = HTTP1_NAME_X_HTTP_METHOD_OVERRIDE,
	[20] = HTTP1_NAME_X_HTTP_METHOD_OVERRIDE,
	[21] = HTTP1_NAME_X_HTTP_METHOD_OVERRIDE,
	[22] = HTTP1_NAME_X_HTTP_METHOD_OVERRIDE,
	[23] = HTTP1_NAMES,
};

enum http1_name http1_name(struct http1_text t)
{
	if (t.n > LONGEST)
		return HTTP1_NAME_OTHER;
	for (unsigned i = begins[t.n]; i < begins[t.n + 1]; i++)
		/* Bit 5 is all that case can change. */
		if (!((t.p[0] ^ names[i][0]) & 0xdf) && strncasecmp(t.p, names[i], t.n) == 0)
			return (enum http1_name)i;
	return HTTP1_NAME_OTHER;
}

const char *http1_name_text(enum http1_name n)
{
	return names[n];
}
