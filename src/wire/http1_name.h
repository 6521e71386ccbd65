/* SPDX-License-Identifier: Apache-2.0 */
/* wire/http1_name.h - the names of fields as numbers, so that each is compared once.
 *
 * A reader of heads gives every field its number; whoever asks for a name that has one compares
 * numbers. In the order of their length, which is what a name is looked up by. */
#pragma once

#include <stddef.h>

struct http1_text;

enum http1_name {
	HTTP1_NAME_OTHER, /* any that has no number */
	HTTP1_NAME_TE,
	HTTP1_NAME_VIA,
	HTTP1_NAME_HOST,
	HTTP1_NAME_PROXY,
	HTTP1_NAME_RANGE,
	HTTP1_NAME_COOKIE,
	HTTP1_NAME_EXPECT,
	HTTP1_NAME_ALT_SVC,
	HTTP1_NAME_TRAILER,
	HTTP1_NAME_UPGRADE,
	HTTP1_NAME_IF_RANGE,
	HTTP1_NAME_FORWARDED,
	HTTP1_NAME_X_REAL_IP,
	HTTP1_NAME_CONNECTION,
	HTTP1_NAME_KEEP_ALIVE,
	HTTP1_NAME_SET_COOKIE,
	HTTP1_NAME_BRIG_REASON,
	HTTP1_NAME_CONTENT_TYPE,
	HTTP1_NAME_AUTHORIZATION,
	HTTP1_NAME_X_HTTP_METHOD,
	HTTP1_NAME_X_REWRITE_URL,
	HTTP1_NAME_CONTENT_LENGTH,
	HTTP1_NAME_HTTP2_SETTINGS,
	HTTP1_NAME_X_ORIGINAL_URL,
	HTTP1_NAME_ACCEPT_ENCODING,
	HTTP1_NAME_PUBLIC_KEY_PINS,
	HTTP1_NAME_X_FORWARDED_FOR,
	HTTP1_NAME_CONTENT_ENCODING,
	HTTP1_NAME_PROXY_CONNECTION,
	HTTP1_NAME_X_FORWARDED_HOST,
	HTTP1_NAME_TRANSFER_ENCODING,
	HTTP1_NAME_X_FORWARDED_PROTO,
	HTTP1_NAME_X_METHOD_OVERRIDE,
	HTTP1_NAME_X_HTTP_METHOD_OVERRIDE,
	HTTP1_NAMES
};

enum http1_name http1_name(struct http1_text t); /* in any case */
const char *http1_name_text(enum http1_name n);  /* "" of HTTP1_NAME_OTHER */
