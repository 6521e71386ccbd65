/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/dns.h"

#include <errno.h>
#include <string.h>
#include <strings.h>

#define HEAD 12
#define JUMPS_MAX 16 /* of compressed names */
#define ALIASES_MAX 8
#define RECORDS_MAX 64
#define FLAG_ANSWER 0x8000
#define FLAG_CUT 0x0200
#define FLAG_RECURSE 0x0100
#define FLAG_CAN_RECURSE 0x0080

static uint16_t get16(const unsigned char *p)
{
	return (uint16_t)(p[0] << 8 | p[1]);
}

static void put16(unsigned char *p, uint16_t v)
{
	p[0] = (unsigned char)(v >> 8);
	p[1] = (unsigned char)v;
}

static bool label_char(unsigned char c)
{
	return c > 0x20 && c < 0x7f && c != '.' && c != '\\';
}

/* Reads the name at *at; pointers only lead backwards, so there is an end to them. */
static int dns_read_name(const unsigned char *p, size_t n, size_t *at, char out[DNS_NAME_MAX],
			 size_t *len, bool pointers)
{
	size_t i = *at, used = 0, limit = *at;
	bool jumped = false;

	for (unsigned jumps = 0;;) {
		size_t label;

		if (i >= n)
			return -EBADMSG;
		label = p[i];
		if ((label & 0xc0) == 0xc0) {
			if (!pointers || i + 1 >= n || ++jumps > JUMPS_MAX)
				return -EBADMSG;
			if (!jumped)
				*at = i + 2;
			jumped = true;
			i = (size_t)get16(p + i) & 0x3fff;
			if (i >= limit)
				return -EBADMSG;
			limit = i;
			continue;
		}
		if (label > 63 || i + 1 + label > n)
			return -EBADMSG;
		i++;
		if (!label)
			break;
		if (used + label + 1 >= DNS_NAME_MAX)
			return -EBADMSG;
		if (used)
			out[used++] = '.';
		for (size_t k = 0; k < label; k++, i++) {
			if (!label_char(p[i]))
				return -EBADMSG;
			out[used++] = (char)p[i];
		}
	}
	if (!jumped)
		*at = i;
	out[used] = '\0';
	*len = used;
	return 0;
}

int dns_read_question(const unsigned char *p, size_t n, struct dns_question *ret)
{
	struct dns_question q = { 0 };
	size_t at = HEAD;

	if (n < HEAD || get16(p + 2) & FLAG_ANSWER)
		return -EBADMSG;
	q.id = get16(p);
	q.opcode = p[2] >> 3 & 15;
	q.recursion = get16(p + 2) & FLAG_RECURSE;
	q.end = HEAD;
	*ret = q;
	if (q.opcode != 0 || get16(p + 4) != 1 || get16(p + 6) != 0 || get16(p + 8) != 0)
		return -EOPNOTSUPP;
	if (dns_read_name(p, n, &at, q.name, &q.name_len, false) < 0 || at + 4 > n)
		return -EOPNOTSUPP;
	q.type = get16(p + at);
	q.class = get16(p + at + 2);
	q.end = at + 4;
	*ret = q;
	return 0;
}

ssize_t dns_write_answer(const unsigned char *p, const struct dns_question *q, enum dns_code code,
			 const struct dns_address *a, uint32_t ttl, unsigned char *out, size_t room)
{
	size_t size = a && a->six ? 16 : 4, n = q->end;
	bool question = q->end > HEAD;

	if (room < n + (a ? 12 + size : 0))
		return -ENOSPC;
	memcpy(out, p, n);
	put16(out, q->id);
	put16(out + 2, (uint16_t)(FLAG_ANSWER | q->opcode << 11 | FLAG_CAN_RECURSE |
				  (q->recursion ? FLAG_RECURSE : 0) | code));
	put16(out + 4, question);
	put16(out + 6, a != NULL);
	memset(out + 8, 0, 4);
	if (!a)
		return (ssize_t)n;
	put16(out + n, 0xc000 | HEAD); /* the name: as asked */
	put16(out + n + 2, a->six ? DNS_AAAA : DNS_A);
	put16(out + n + 4, DNS_IN);
	put16(out + n + 6, (uint16_t)(ttl >> 16));
	put16(out + n + 8, (uint16_t)ttl);
	put16(out + n + 10, (uint16_t)size);
	memcpy(out + n + 12, a->bytes, size);
	return (ssize_t)(n + 12 + size);
}

ssize_t dns_take_question(const unsigned char *p, size_t n, struct dns_question *ret,
			  unsigned char *out, size_t room)
{
	int r = dns_read_question(p, n, ret);

	if (r == -EBADMSG)
		return -1;
	if (r < 0)
		return dns_write_answer(p, ret, ret->opcode ? DNS_NOTIMP : DNS_FORMERR, NULL, 0,
					out, room);
	return ret->class == DNS_IN ? 0 : dns_write_answer(p, ret, DNS_REFUSED, NULL, 0, out, room);
}

ssize_t dns_write_question(uint16_t id, const char *name, uint16_t type, unsigned char *out,
			   size_t room)
{
	size_t at = HEAD, len = strlen(name);

	if (!len || len >= DNS_NAME_MAX || room < HEAD + len + 2 + 4)
		return -ENOSPC;
	memset(out, 0, HEAD);
	put16(out, id);
	put16(out + 2, FLAG_RECURSE);
	put16(out + 4, 1);
	while (*name) {
		size_t label = strcspn(name, ".");

		if (!label || label > 63)
			return -EINVAL;
		out[at++] = (unsigned char)label;
		memcpy(out + at, name, label);
		at += label;
		name += label + (name[label] == '.');
	}
	out[at++] = 0;
	put16(out + at, type);
	put16(out + at + 2, DNS_IN);
	return (ssize_t)at + 4;
}

struct dns_record {
	char name[DNS_NAME_MAX];
	uint16_t type, class;
	size_t data, size;
};

static int read_record(const unsigned char *p, size_t n, size_t *at, struct dns_record *r)
{
	size_t len;

	if (dns_read_name(p, n, at, r->name, &len, true) < 0 || *at + 10 > n)
		return -EBADMSG;
	r->type = get16(p + *at);
	r->class = get16(p + *at + 2);
	r->size = get16(p + *at + 8);
	r->data = *at + 10;
	*at = r->data + r->size;
	return *at <= n ? 0 : -EBADMSG;
}

/* One pass over the records: addresses of `name`, or where it is an alias, its new name. */
static int dns_pass(const unsigned char *p, size_t n, size_t at, unsigned count, uint16_t type,
		    char name[DNS_NAME_MAX], struct dns_answer *a, bool *alias)
{
	size_t want = type == DNS_AAAA ? 16 : 4;

	*alias = false;
	for (unsigned i = 0; i < count && i < RECORDS_MAX; i++) {
		struct dns_record r;
		size_t len, data;

		if (read_record(p, n, &at, &r) < 0)
			return -EBADMSG;
		if (r.class != DNS_IN || strcasecmp(r.name, name) != 0)
			continue;
		data = r.data;
		if (r.type == DNS_CNAME) {
			*alias = true;
			return dns_read_name(p, n, &data, name, &len, true);
		}
		if (r.type != type || r.size != want || a->n == DNS_ADDRS_MAX)
			continue;
		a->addrs[a->n].six = type == DNS_AAAA;
		memcpy(a->addrs[a->n++].bytes, p + data, want);
	}
	return 0;
}

int dns_read_answer(const unsigned char *p, size_t n, uint16_t id, const char *name, uint16_t type,
		    struct dns_answer *ret)
{
	struct dns_answer a = { 0 };
	char at_name[DNS_NAME_MAX];
	size_t at = HEAD, len;
	bool alias = true;

	if (n < HEAD || get16(p) != id || !(get16(p + 2) & FLAG_ANSWER) || get16(p + 4) != 1 ||
	    dns_read_name(p, n, &at, at_name, &len, false) < 0 || at + 4 > n ||
	    strcasecmp(at_name, name) != 0 || get16(p + at) != type || get16(p + at + 2) != DNS_IN)
		return -EBADMSG;
	a.code = (enum dns_code)(p[3] & 15);
	a.cut = get16(p + 2) & FLAG_CUT;
	for (unsigned i = 0; alias && !a.n; i++)
		if (i > ALIASES_MAX ||
		    dns_pass(p, n, at + 4, get16(p + 6), type, at_name, &a, &alias) < 0)
			return -EBADMSG;
	*ret = a;
	return 0;
}
