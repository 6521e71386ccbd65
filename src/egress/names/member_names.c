/* SPDX-License-Identifier: Apache-2.0 */
#include "egress/names/member_names.h"

#include <arpa/inet.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#define TEXT_MAX 8192
#define TTL 5 /* seconds: a companion that is made anew has the same address */

bool member_names_add(struct member_names *m, const char *address, const char *name)
{
	size_t n = strlen(name);

	if (m->n == MEMBER_NAMES_MAX || !n || n >= MEMBER_NAME_SIZE ||
	    inet_pton(AF_INET, address, m->v[m->n].address) != 1)
		return false;
	memcpy(m->v[m->n++].name, name, n + 1);
	return true;
}

bool member_names_read(struct member_names *m, char *text)
{
	char *line, *name;

	while ((line = strsep(&text, "\n")) && *line) {
		name = strchr(line, ' ');
		if (!name || !text)
			return false;
		*name++ = '\0';
		if (!member_names_add(m, line, name))
			return false;
	}
	return !line || !text; /* the last line has an end */
}

bool member_names_take(struct member_names *m, int fd)
{
	char text[TEXT_MAX];
	ssize_t n = pread(fd, text, sizeof(text) - 1, 0);

	text[n > 0 ? n : 0] = '\0';
	return n > 0 && close(fd) == 0 && member_names_read(m, text);
}

ssize_t member_names_own(const struct member_names *m, const unsigned char *p,
			 const struct dns_question *q, unsigned char *out, size_t room)
{
	struct dns_address a = { .six = false };

	for (size_t i = 0; i < m->n; i++) {
		if (strcasecmp(m->v[i].name, q->name) != 0)
			continue;
		memcpy(a.bytes, m->v[i].address, sizeof(m->v[i].address));
		return dns_write_answer(p, q, DNS_NOERROR, q->type == DNS_A ? &a : NULL, TTL, out,
					room);
	}
	return 0;
}

ssize_t member_names_answer(const struct member_names *m, const unsigned char *p, size_t n,
			    unsigned char *out, size_t room)
{
	struct dns_question q;
	ssize_t r = dns_take_question(p, n, &q, out, room);

	if (!r)
		r = member_names_own(m, p, &q, out, room);
	return r ? r : dns_write_answer(p, &q, DNS_NXDOMAIN, NULL, 0, out, room);
}
