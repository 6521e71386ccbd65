/* SPDX-License-Identifier: Apache-2.0 */
#include "image/ref.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

#include "base/text/num.h"
#include "base/text/str.h"
#include "base/text/url.h"

#define LOWER "abcdefghijklmnopqrstuvwxyz"
#define DIGITS "0123456789"
#define ALNUM LOWER DIGITS "ABCDEFGHIJKLMNOPQRSTUVWXYZ"

bool ref_is_digest(const char *text)
{
	return str_starts(text, "sha256:") && strlen(text) == 71 &&
	       strspn(text + 7, DIGITS "abcdef") == 64;
}

bool ref_is_loopback(const char *host)
{
	char name[REF_HOST_MAX];
	struct in_addr a;
	size_t n;

	if (str_starts(host, "[::1]"))
		return !host[5] || host[5] == ':';
	n = strcspn(host, ":");
	if (n >= sizeof(name))
		return false;
	memcpy(name, host, n);
	name[n] = '\0';
	return str_eq(name, "localhost") ||
	       (inet_pton(AF_INET, name, &a) == 1 && ntohl(a.s_addr) >> 24 == 127);
}

bool ref_looks_like(const char *text)
{
	size_t n;

	if (str_starts(text, "oci://"))
		return true;
	n = strcspn(text, "/");
	if (!text[n] || !n || text[0] == '.')
		return false;
	return memchr(text, '.', n) || memchr(text, ':', n) ||
	       (n == strlen("localhost") && str_starts(text, "localhost"));
}

static int not_a_ref(const char *text, const char *why, struct err *e)
{
	return err_refuse(e, ERR_USAGE, EINVAL,
			  "HOST[:PORT]/REPOSITORY[:TAG][@sha256:...], such as "
			  "host.example.org/team/role:1.0",
			  "'%.150s' is no reference to a registry: %s", text, why);
}

static bool ref_take(char *to, size_t room, const char *from, size_t n)
{
	if (!n || n >= room)
		return false;
	memcpy(to, from, n);
	to[n] = '\0';
	return true;
}

/* The reader of addresses decides what a host is; it must have come out as it was written. */
static bool is_host(const char *host)
{
	char text[REF_HOST_MAX + 16];
	const char *colon = strrchr(host, ':');
	struct err e = { 0 };
	struct url u;
	uint64_t port;

	(void)snprintf(text, sizeof(text), "https://%s/", host);
	if (strspn(host, ALNUM ".-:[]") != strlen(host) || host[0] == '-' || host[0] == '.' ||
	    url_parse(text, &u, &e) < 0 || !str_eq(u.target, "/"))
		return false;
	if (colon && host[strlen(host) - 1] != ']')
		return num_count(colon + 1, &port) == 0 && port > 0 && port < 65536;
	return true;
}

/* Parts of small letters and digits, with single separators in between. */
static bool is_repository(const char *name)
{
	for (const char *at = name;;) {
		size_t n = strcspn(at, "/");

		if (!n || !strchr(LOWER DIGITS, at[0]) || !strchr(LOWER DIGITS, at[n - 1]) ||
		    strspn(at, LOWER DIGITS "._-") < n)
			return false;
		for (size_t i = 0; i + 1 < n; i++)
			if (at[i] == '.' && at[i + 1] == '.')
				return false;
		if (!at[n])
			return true;
		at += n + 1;
	}
}

static bool is_tag(const char *tag)
{
	return strchr(ALNUM "_", tag[0]) && strspn(tag, ALNUM "._-") == strlen(tag);
}

int ref_parse(const char *text, struct ref *ret, struct err *e)
{
	const char *at = text + (str_starts(text, "oci://") ? 6 : 0);
	const char *slash = strchr(at, '/'), *hash = strchr(at, '@'), *end, *colon;
	struct ref r = { .tag = "latest" };

	if (!slash || !ref_take(r.host, sizeof(r.host), at, (size_t)(slash - at)) ||
	    !ref_looks_like(at) || !is_host(r.host))
		return not_a_ref(text, "it begins with no host", e);
	if (hash && (!ref_is_digest(hash + 1) ||
		     !ref_take(r.digest, sizeof(r.digest), hash + 1, strlen(hash + 1))))
		return not_a_ref(text, "what follows @ is no SHA-256", e);
	end = hash ? hash : at + strlen(at);
	colon = memchr(slash, ':', (size_t)(end > slash ? end - slash : 0));
	if (end < slash ||
	    !ref_take(r.repository, sizeof(r.repository), slash + 1,
		      (size_t)((colon ? colon : end) - slash - 1)) ||
	    !is_repository(r.repository))
		return not_a_ref(text, "the repository has other than a-z, 0-9 and . _ - /", e);
	if (colon && (!ref_take(r.tag, sizeof(r.tag), colon + 1, (size_t)(end - colon - 1)) ||
		      !is_tag(r.tag)))
		return not_a_ref(text, "what follows the colon is no tag", e);
	*ret = r;
	return 0;
}
