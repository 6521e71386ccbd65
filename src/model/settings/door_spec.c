/* SPDX-License-Identifier: Apache-2.0 */
#include "model/settings/door_spec.h"

#include <stdbool.h>

#include "model/settings/rule.h"

#define SCRATCH ((size_t)1 << 20)

static bool door_spec_has(const struct door_want *w, enum door_kind kind, uint16_t port)
{
	for (size_t i = 0; i < w->n; i++)
		if (w->sockets[i].port == port &&
		    (w->sockets[i].kind == kind || kind == DOOR_STREAM))
			return true;
	return false;
}

static void door_spec_add(struct door_want *w, enum door_kind kind, uint16_t port)
{
	if (!door_spec_has(w, kind, port) && w->n < DOOR_SOCKETS_MAX)
		w->sockets[w->n++] = (struct door_socket){ .kind = kind, .port = port };
}

static int add_rule(struct door_want *w, struct arena *a, const char *text, struct err *e)
{
	struct rule r;

	if (rule_parse(a, text, &r, e) < 0)
		return err_wrap(e, "egress.allow");
	for (size_t i = 0; i < r.n_ports; i++) {
		if (w->n == DOOR_SOCKETS_MAX && !door_spec_has(w, DOOR_STREAM, r.ports[i]))
			return err_set(e, ERR_CONFIG, E2BIG,
				       "egress.allow names more than %d ports", DOOR_PORTS_MAX);
		door_spec_add(w, DOOR_STREAM, r.ports[i]);
	}
	return 0;
}

const struct door_variable door_variables[] = {
	{ "NO_PROXY", DOOR_IS_DIRECT },
	{ "no_proxy", DOOR_IS_DIRECT },
	{ "HTTP_PROXY", DOOR_IS_PROXY },
	{ "http_proxy", DOOR_IS_PROXY },
	{ "HTTPS_PROXY", DOOR_IS_PROXY },
	{ "https_proxy", DOOR_IS_PROXY },
	{ "ALL_PROXY", DOOR_IS_PROXY },
	{ "all_proxy", DOOR_IS_PROXY },
	{ "NODE_USE_ENV_PROXY", DOOR_IS_ON },
	{ "NODE_EXTRA_CA_CERTS", DOOR_IS_ROOTS },
	{ "SSL_CERT_FILE", DOOR_IS_ROOTS },
	{ "REQUESTS_CA_BUNDLE", DOOR_IS_ROOTS },
	{ "CURL_CA_BUNDLE", DOOR_IS_ROOTS },
	{ "GIT_SSL_CAINFO", DOOR_IS_ROOTS },
	{ "CARGO_HTTP_CAINFO", DOOR_IS_ROOTS },
	{ "PIP_CERT", DOOR_IS_ROOTS },
	{ "AWS_CA_BUNDLE", DOOR_IS_ROOTS },
	{ "DENO_CERT", DOOR_IS_ROOTS },
	{ "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH", DOOR_IS_ROOTS },
	{ "npm_config_cafile", DOOR_IS_ROOTS },
	{ NULL, DOOR_IS_ON },
};

int door_want(const struct egress_spec *s, struct door_want *ret, struct err *e)
{
	struct door_want w = { .proxy_port = s->port ? (uint16_t)s->port : DOOR_PROXY_PORT };
	CLEANUP(arena) struct arena *a = arena_new(SCRATCH);

	if (!a)
		return err_nomem(e);
	door_spec_add(&w, DOOR_DNS_PACKET, 53);
	door_spec_add(&w, DOOR_DNS_STREAM, 53);
	door_spec_add(&w, DOOR_PROXY, w.proxy_port);
	door_spec_add(&w, DOOR_STREAM, 80);
	door_spec_add(&w, DOOR_STREAM, 443);
	if (s->host_service)
		door_spec_add(&w, DOOR_STREAM, (uint16_t)s->host_service);
	for (size_t i = 0; i < s->allow.n; i++)
		if (add_rule(&w, a, s->allow.v[i], e) < 0)
			return -e->code;
	*ret = w;
	return 0;
}
