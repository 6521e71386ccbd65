/* SPDX-License-Identifier: Apache-2.0 */
#include "model/door_spec.h"

#include <stdbool.h>

#include "model/rule.h"

#define SCRATCH ((size_t)1 << 20)

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

static int add_rule(struct door_want *w, struct arena *a, const char *text, struct err *e)
{
	struct rule r;

	if (rule_parse(a, text, &r, e) < 0)
		return err_wrap(e, "egress.allow");
	for (size_t i = 0; i < r.n_ports; i++) {
		if (w->n == DOOR_SOCKETS_MAX && !has(w, DOOR_STREAM, r.ports[i]))
			return err_set(e, ERR_CONFIG, E2BIG,
				       "egress.allow names more than %d ports", DOOR_PORTS_MAX);
		add(w, DOOR_STREAM, r.ports[i]);
	}
	return 0;
}

int door_want(const struct egress_spec *s, struct door_want *ret, struct err *e)
{
	struct door_want w = { .proxy_port = s->port ? (uint16_t)s->port : DOOR_PROXY_PORT };
	CLEANUP(arena) struct arena *a = arena_new(SCRATCH);

	if (!a)
		return err_nomem(e);
	add(&w, DOOR_DNS_PACKET, 53);
	add(&w, DOOR_DNS_STREAM, 53);
	add(&w, DOOR_PROXY, w.proxy_port);
	add(&w, DOOR_STREAM, 80);
	add(&w, DOOR_STREAM, 443);
	if (s->host_service)
		add(&w, DOOR_STREAM, (uint16_t)s->host_service);
	for (size_t i = 0; i < s->allow.n; i++)
		if (add_rule(&w, a, s->allow.v[i], e) < 0)
			return -e->code;
	*ret = w;
	return 0;
}
