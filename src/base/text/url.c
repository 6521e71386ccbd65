/* SPDX-License-Identifier: Apache-2.0 */
#include "base/text/url.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/text/num.h"
#include "base/text/str.h"

static bool is_visible(const char *s)
{
	for (; *s; s++)
		if (*s <= 0x20 || *s >= 0x7f)
			return false;
	return true;
}

static bool take_host(const char **at, struct url *u, bool *bracketed)
{
	static const char name[] =
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._";
	size_t n;

	*bracketed = **at == '[';
	*at += *bracketed;
	n = strspn(*at, *bracketed ? "0123456789abcdefABCDEF:." : name);
	if (!n || n >= sizeof(u->host) || (*bracketed && (*at)[n] != ']'))
		return false;
	memcpy(u->host, *at, n);
	u->host[n] = '\0';
	*at += n + *bracketed;
	return true;
}

static bool take_port(const char **at, struct url *u)
{
	char text[8] = "";
	uint64_t port;
	size_t n;

	u->port = u->tls ? 443 : 80;
	if (**at != ':')
		return true;
	n = strspn(*at + 1, "0123456789");
	if (n >= sizeof(text))
		return false;
	memcpy(text, *at + 1, n);
	if (num_count(text, &port) < 0 || port < 1 || port > 65535)
		return false;
	u->port = (uint16_t)port;
	*at += n + 1;
	return true;
}

int url_parse(const char *text, struct url *ret, struct err *e)
{
	struct url u = { .tls = str_starts_nocase(text, "https://"), .target = "/" };
	const char *at = text + strlen(u.tls ? "https://" : "http://");
	bool bracketed;

	if (!u.tls && !str_starts_nocase(text, "http://"))
		return err_set(e, ERR_CONFIG, EINVAL, "it is not an http or https address");
	if (!is_visible(text) || strchr(text, '#'))
		return err_set(e, ERR_CONFIG, EINVAL,
			       "the address has a blank, a '#' or a character that is not ASCII");
	if (memchr(at, '@', strcspn(at, "/?")))
		return err_refuse(e, ERR_CONFIG, EINVAL, "credentials belong in a header",
				  "the address has a user name");
	if (!take_host(&at, &u, &bracketed) || !take_port(&at, &u) || (*at && *at != '/'))
		return err_set(e, ERR_CONFIG, EINVAL, "the address has no valid host and port");
	if (*at)
		u.target = at;
	(void)snprintf(u.authority, sizeof(u.authority), "%s%s%s", bracketed ? "[" : "", u.host,
		       bracketed ? "]" : "");
	if (u.port != (u.tls ? 443 : 80))
		(void)snprintf(u.authority + strlen(u.authority),
			       sizeof(u.authority) - strlen(u.authority), ":%u", u.port);
	*ret = u;
	return 0;
}

void url_put_escaped(struct buf *b, const char *text)
{
	for (; *text; text++)
		if (strchr("/._-~", *text) || (*text >= '0' && *text <= '9') ||
		    (*text >= 'a' && *text <= 'z') || (*text >= 'A' && *text <= 'Z'))
			buf_putc(b, *text);
		else
			buf_printf(b, "%%%02X", (unsigned char)*text);
}
