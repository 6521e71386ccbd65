/* SPDX-License-Identifier: Apache-2.0 */
#include "egress/rules/host.h"

#include <assert.h>
#include <string.h>

#include "base/text/str.h"

#define LABEL_MAX 63

static const char *const faults[] = {
	[HOST_OK] = "is a host name",
	[HOST_EMPTY] = "is empty",
	[HOST_TOO_LONG] = "is longer than 253 bytes",
	[HOST_BAD_BYTE] = "has a byte that no host name has",
	[HOST_BAD_LABEL] = "has an empty or broken label",
	[HOST_NOT_ASCII] = "must be written as its A-label (xn--...)",
	[HOST_ADDRESS] = "is an address, not a name",
	[HOST_BAD_PORT] = "has a port that is none",
};
static_assert(sizeof(faults) / sizeof(*faults) == HOST_FAULTS, "a text for every fault");

const char *host_fault_text(enum host_fault f)
{
	return faults[f];
}

static bool host_is_digit(char c)
{
	return c >= '0' && c <= '9';
}

/* The byte as it stands in a canonical name, or 0. */
static char canonical(char c)
{
	if (c >= 'A' && c <= 'Z')
		return (char)(c + ('a' - 'A'));
	return (c >= 'a' && c <= 'z') || host_is_digit(c) || c == '-' || c == '.' ? c : '\0';
}

/* Why a byte that has no canonical form is there. */
static enum host_fault bad_byte(struct egress_text t, char c)
{
	const char *colon;

	if ((unsigned char)c >= 0x80)
		return HOST_NOT_ASCII;
	/* "[::1]", "::1", "fe80::1%eth0": a bracket or two colons, whatever else is wrong. */
	if (memchr(t.p, '[', t.n))
		return HOST_ADDRESS;
	colon = memchr(t.p, ':', t.n);
	if (colon && memchr(colon + 1, ':', t.n - (size_t)(colon - t.p) - 1))
		return HOST_ADDRESS;
	return HOST_BAD_BYTE;
}

static bool label_ok(const char *p, size_t n)
{
	return n && n <= LABEL_MAX && p[0] != '-' && p[n - 1] != '-';
}

static enum host_fault check_labels(const char *name, const char **last)
{
	for (const char *p = name;; p += strcspn(p, ".") + 1) {
		size_t n = strcspn(p, ".");

		if (!label_ok(p, n))
			return HOST_BAD_LABEL;
		*last = p;
		if (!p[n])
			return HOST_OK;
	}
}

enum host_fault host_parse(struct egress_text t, struct host *ret)
{
	enum host_fault f;
	const char *last;

	*ret = (struct host){ 0 };
	if (t.n && t.p[t.n - 1] == '.')
		t.n--;
	if (!t.n)
		return HOST_EMPTY;
	for (size_t i = 0; i < t.n && i <= HOST_NAME_MAX_LEN; i++)
		if (!canonical(t.p[i]))
			return bad_byte(t, t.p[i]);
	if (t.n > HOST_NAME_MAX_LEN)
		return HOST_TOO_LONG;
	for (size_t i = 0; i < t.n; i++)
		ret->name[i] = canonical(t.p[i]);
	ret->len = (uint8_t)t.n;
	f = check_labels(ret->name, &last);
	/* No top-level domain begins with a digit; every spelling of an IPv4 address ends so. */
	if (f == HOST_OK && host_is_digit(*last))
		f = HOST_ADDRESS;
	if (f != HOST_OK)
		*ret = (struct host){ 0 };
	return f;
}

static enum host_fault parse_port(struct egress_text t, uint16_t *ret)
{
	uint32_t v = 0;

	if (!t.n || t.n > 5 || t.p[0] == '0')
		return HOST_BAD_PORT;
	for (size_t i = 0; i < t.n; i++) {
		if (!host_is_digit(t.p[i]))
			return HOST_BAD_PORT;
		v = v * 10 + (uint32_t)(t.p[i] - '0');
	}
	if (v > UINT16_MAX)
		return HOST_BAD_PORT;
	*ret = (uint16_t)v;
	return HOST_OK;
}

enum host_fault host_parse_authority(struct egress_text t, uint16_t fallback, struct host *ret,
				     uint16_t *port)
{
	const char *colon = t.n ? memrchr(t.p, ':', t.n) : NULL;
	enum host_fault f;

	*port = fallback;
	if (!colon || memchr(t.p, ':', (size_t)(colon - t.p)) || memchr(t.p, '[', t.n))
		return host_parse(t, ret);
	f = host_parse(egress_text(t.p, (size_t)(colon - t.p)), ret);
	if (f != HOST_OK)
		return f;
	return parse_port(egress_text(colon + 1, t.n - (size_t)(colon - t.p) - 1), port);
}

size_t host_address_part(struct egress_text t, uint16_t fallback, uint16_t *port)
{
	const char *colon = t.n ? memrchr(t.p, ':', t.n) : NULL;
	size_t n = colon ? (size_t)(colon - t.p) : t.n;
	bool bracketed = n && t.p[0] == '[' && t.p[n - 1] == ']';

	*port = fallback;
	if (!colon || (!bracketed && (memchr(t.p, ':', n) || memchr(t.p, '[', n))))
		return t.n;
	return parse_port(egress_text(colon + 1, t.n - n - 1), port) == HOST_OK ? n : t.n;
}

bool host_eq(const struct host *a, const struct host *b)
{
	return a->len && a->len == b->len && memcmp(a->name, b->name, a->len) == 0;
}

uint32_t host_hash(const struct host *h)
{
	return (uint32_t)mem_hash(0, h->name, h->len);
}

bool host_matches(const char *pattern, const struct host *name)
{
	size_t n = strlen(pattern);

	if (n < 2 || pattern[0] != '*' || pattern[1] != '.')
		return n == name->len && memcmp(pattern, name->name, n) == 0;
	/* The dot of "*.x" takes part, and a label must stand before it. */
	pattern++;
	n--;
	return name->len > n && memcmp(name->name + name->len - n, pattern, n) == 0;
}

bool host_is_inner(const struct host *name)
{
	static const char *const inner[] = {
		"*.internal", "*.intranet", "*.private",   "*.corp", "*.home",
		"*.lan",      "*.local",    "*.localhost", "*.arpa", "*.localdomain",
		"*.onion",    "*.alt",      NULL
	};

	if (!memchr(name->name, '.', name->len))
		return true;
	for (size_t i = 0; inner[i]; i++)
		if (host_matches(inner[i], name))
			return true;
	return host_is_local(name);
}

bool host_is_local(const struct host *name)
{
	static const char *const locals[] = { "localhost",
					      "*.localhost",
					      "localhost.localdomain",
					      "localhost6.localdomain6",
					      "ip6-localhost",
					      "ip6-loopback",
					      "localhost6",
					      "*.local",
					      "broadcasthost",
					      NULL };

	for (size_t i = 0; locals[i]; i++)
		if (host_matches(locals[i], name))
			return true;
	return false;
}
