/* SPDX-License-Identifier: Apache-2.0 */
#include "model/door.h"

#include <stdbool.h>
#include <string.h>

#include "base/num.h"

static bool has(const struct door_want *w, enum door_kind kind, uint16_t port)
{
	for (size_t i = 0; i < w->n; i++)
		if (w->sockets[i].port == port &&
		    (w->sockets[i].kind == kind || kind == DOOR_STREAM))
			return true;
	return false;
}

static void add(struct door_want *w, enum door_kind kind, uint16_t port)
{
	if (!has(w, kind, port) && w->n < DOOR_SOCKETS_MAX)
		w->sockets[w->n++] = (struct door_socket){ .kind = kind, .port = port };
}

/* The port of HOST[:PORT][/PREFIX], 0 when none is named. An address with colons is in brackets. */
static uint16_t port_of(const char *rule)
{
	const char *at = rule[0] == '[' ? strchr(rule, ']') : rule;
	const char *colon = at ? strpbrk(at, ":/") : NULL;
	char digits[8];
	uint64_t port;
	size_t n;

	if (!colon || *colon != ':')
		return 0;
	n = strcspn(colon + 1, "/");
	if (!n || n >= sizeof(digits))
		return 0;
	memcpy(digits, colon + 1, n);
	digits[n] = '\0';
	return num_count(digits, &port) == 0 && port <= UINT16_MAX ? (uint16_t)port : 0;
}

int door_want(const struct egress_spec *s, struct door_want *ret, struct err *e)
{
	struct door_want w = { .proxy_port = s->port ? (uint16_t)s->port : DOOR_PROXY_PORT };

	add(&w, DOOR_DNS_PACKET, 53);
	add(&w, DOOR_DNS_STREAM, 53);
	add(&w, DOOR_PROXY, w.proxy_port);
	add(&w, DOOR_STREAM, 80);
	add(&w, DOOR_STREAM, 443);
	for (size_t i = 0; i < s->allow.n; i++) {
		uint16_t port = port_of(s->allow.v[i]);

		if (!port || has(&w, DOOR_STREAM, port))
			continue;
		if (w.n == DOOR_SOCKETS_MAX)
			return err_set(e, ERR_CONFIG, E2BIG,
				       "egress.allow names more than %d ports", DOOR_PORTS_MAX);
		add(&w, DOOR_STREAM, port);
	}
	*ret = w;
	return 0;
}
