/* SPDX-License-Identifier: Apache-2.0 */
#include "egress/rules/direct.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/text/str.h"

/* `net` without a family: it is a name. */
struct direct_entry {
	char pattern[HOST_NAME_MAX_LEN + 3];
	struct addr net;
	unsigned bits;
};

struct direct {
	size_t n;
	struct direct_entry v[];
};

static int refuse(const char *text, const char *why, const char *hint, struct err *e)
{
	return err_refuse(e, ERR_CONFIG, EINVAL, hint, "egress.direct '%.100s': %s", text, why);
}

static bool read_bits(const char *p, unsigned most, unsigned *ret)
{
	unsigned v = 0;

	if (!*p || (*p == '0' && p[1]) || strlen(p) > 3)
		return false;
	for (; *p; p++) {
		if (*p < '0' || *p > '9')
			return false;
		v = v * 10 + (unsigned)(*p - '0');
	}
	*ret = v;
	return v <= most;
}

/* Sets or reads what is behind the prefix; the address is its first (false: is it?) or last. */
static bool edge(struct addr *a, unsigned bits, bool last)
{
	unsigned all = a->family == 4 ? 32 : 128;
	bool zero = true;

	for (unsigned i = bits; i < all; i++) {
		uint8_t bit = (uint8_t)(0x80U >> (i % 8));

		zero &= !(a->b[i / 8] & bit);
		if (last)
			a->b[i / 8] |= bit;
	}
	return zero;
}

static bool is_inner(const struct addr *a)
{
	enum addr_class c = addr_class(a);

	return c == ADDR_PRIVATE || c == ADDR_SHARED;
}

static int read_prefix(const char *text, const char *slash, struct direct_entry *ret, struct err *e)
{
	struct addr last;

	if (addr_parse(text, (size_t)(slash - text), &ret->net) < 0 ||
	    !read_bits(slash + 1, ret->net.family == 4 ? 32 : 128, &ret->bits))
		return refuse(text, "no address and length of a prefix", "such as 10.0.0.0/8", e);
	if (!edge(&ret->net, ret->bits, false))
		return refuse(text, "its address has bits beyond the prefix", "such as 10.0.0.0/8",
			      e);
	last = ret->net;
	(void)edge(&last, ret->bits, true);
	/* An aligned block whose ends are both private is private throughout. */
	if (!is_inner(&ret->net) || !is_inner(&last))
		return refuse(text, "not a prefix of private addresses",
			      "a public address needs no prefix; one alone, whatever it is, is "
			      "opened by egress.resolve",
			      e);
	return 0;
}

static const char *hint_of(const char *text)
{
	if (text[0] == '.')
		return "*.NAME is what lies below NAME; NAME alone is NAME itself";
	if (str_eq(text, "*"))
		return "leave egress.upstream_proxy out";
	return "NAME, *.NAME, or a prefix of private addresses such as 10.0.0.0/8";
}

static int read_name(const char *text, struct direct_entry *ret, struct err *e)
{
	bool below = str_starts(text, "*.");
	const char *name = text + (below ? 2 : 0);
	enum host_fault fault;
	struct host h;

	fault = host_parse(egress_text(name, strlen(name)), &h);
	if (fault == HOST_ADDRESS)
		return refuse(text, "is an address, and rules know names alone",
			      "egress.resolve gives it a name, and is dialled without the proxy",
			      e);
	if (fault != HOST_OK)
		return refuse(text, "is no name", hint_of(text), e);
	(void)memcpy(ret->pattern, "*.", 2);
	(void)memcpy(ret->pattern + (below ? 2 : 0), h.name, (size_t)h.len + 1);
	return 0;
}

int direct_new(const struct strlist *texts, struct direct **ret, struct err *e)
{
	CLEANUP(direct)
	struct direct *d = calloc(1, sizeof(*d) + texts->n * sizeof(d->v[0]));

	if (!d)
		return err_nomem(e);
	for (size_t i = 0; i < texts->n; i++) {
		const char *text = texts->v[i], *slash = strchr(text, '/');
		struct direct_entry *at = &d->v[i];

		if ((slash ? read_prefix(text, slash, at, e) : read_name(text, at, e)) < 0)
			return -e->code;
		d->n++;
	}
	*ret = TAKE_PTR(d);
	return 0;
}

struct direct *direct_free(struct direct *d)
{
	free(d);
	return NULL;
}

bool direct_has(const struct direct *d, const struct host *name)
{
	for (size_t i = 0; i < d->n; i++)
		if (!d->v[i].net.family && host_matches(d->v[i].pattern, name))
			return true;
	return false;
}

static bool lies_in(const struct addr *a, const struct direct_entry *net)
{
	for (unsigned i = 0; i < net->bits; i++)
		if ((a->b[i / 8] ^ net->net.b[i / 8]) & (0x80U >> (i % 8)))
			return false;
	return a->family == net->net.family;
}

bool direct_opens(const struct direct *d, const struct addr *a)
{
	for (size_t i = 0; i < d->n; i++)
		if (d->v[i].net.family && lies_in(a, &d->v[i]))
			return is_inner(a);
	return false;
}
