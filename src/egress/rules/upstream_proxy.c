/* SPDX-License-Identifier: Apache-2.0 */
#include "egress/rules/upstream_proxy.h"

#include <errno.h>
#include <string.h>

#include "base/text/str.h"

#define SCHEME "http://"
#define SCHEME_TLS "https://"

static int bad(const char *text, const char *why, struct err *e)
{
	return err_refuse(e, ERR_CONFIG, EINVAL,
			  "write it as http://HOST:PORT or https://HOST:PORT",
			  "egress.upstream_proxy '%.100s': %s", text, why);
}

static bool read_port(const char *p, size_t n, uint16_t *ret)
{
	uint32_t v = 0;

	if (!n || n > 5 || *p == '0')
		return false;
	for (size_t i = 0; i < n; i++) {
		if (p[i] < '0' || p[i] > '9')
			return false;
		v = v * 10 + (uint32_t)(p[i] - '0');
	}
	*ret = (uint16_t)v;
	return v <= UINT16_MAX;
}

int chain_parse(const char *text, struct upstream_proxy *ret, struct err *e)
{
	const char *p = text, *colon;
	struct upstream_proxy c = { .on = true };
	size_t n, len;

	*ret = (struct upstream_proxy){ 0 };
	if (!text || !*text)
		return 0;
	if (str_starts(p, SCHEME))
		p += sizeof(SCHEME) - 1;
	else if (str_starts(p, SCHEME_TLS))
		p += sizeof(SCHEME_TLS) - 1;
	else if (strstr(p, "://"))
		return bad(text, "HTTP and HTTPS alone are spoken to it", e);
	c.tls = p != text && p[-4] == 's';
	n = strlen(p);
	n -= n && p[n - 1] == '/';
	/* A password would be in every file that shows the settings. */
	if (memchr(p, '@', n))
		return err_refuse(e, ERR_CONFIG, EINVAL,
				  "egress.upstream_login names a credential that has them",
				  "egress.upstream_proxy: no user and password in the address");
	colon = memrchr(p, ':', n);
	len = colon ? (size_t)(colon - p) : 0;
	if (!colon || !read_port(colon + 1, n - len - 1, &c.port))
		return bad(text, "no port", e);
	if (len > 2 && p[0] == '[' && p[len - 1] == ']' &&
	    addr_parse(p + 1, len - 2, &c.addr) == 0 && c.addr.family == 6)
		return *ret = c, 0;
	if (addr_parse(p, len, &c.addr) == 0 && c.addr.family == 4)
		return *ret = c, 0;
	if (host_parse(egress_text(p, len), &c.host) != HOST_OK)
		return bad(text, "no host", e);
	*ret = c;
	return 0;
}
