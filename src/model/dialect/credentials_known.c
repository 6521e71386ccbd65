/* SPDX-License-Identifier: Apache-2.0 */
/* model/dialect/credentials_known.c - credentials of the services that brig knows, and which ones a
 * run has. */
#include <string.h>

#include "base/text/str.h"
#include "model/dialect/credentials.h"
#include "model/known/services.h"
#include "model/settings/spec_lists.h"

/* --- one row as a credential --- */

/* "NAME: PREFIX" in two. */
static int fill_header(struct arena *a, const char *slot, const char **name, const char **prefix,
		       struct err *e)
{
	const char *colon = strstr(slot, ": ");

	*name = arena_strndup(a, slot, (size_t)(colon - slot));
	*prefix = colon + 2;
	return *name ? 0 : err_nomem(e);
}

static int fill_slots(struct arena *a, const struct service *s, struct credential_spec *c,
		      struct err *e)
{
	const char *first = s->slots[0], *prefix;

	c->prefix = "";
	if (*first == '?') {
		c->slot = SLOT_QUERY;
		c->field = first + 1;
	} else if (str_starts(first, "sigv4 ")) {
		c->slot = SLOT_SIGV4;
		c->field = first + strlen("sigv4 ");
	} else if (str_starts(first, "basic ")) {
		c->slot = SLOT_BASIC;
		c->field = first + strlen("basic ");
	} else {
		c->slot = SLOT_HEADER;
		if (fill_header(a, first, &c->field, &c->prefix, e) < 0)
			return -e->code;
	}
	for (const char *const *more = s->slots + 1; *more; more++) {
		const char *name;

		if (fill_header(a, *more, &name, &prefix, e) < 0 ||
		    list_add_string(a, &c->headers, name, e) < 0)
			return -e->code;
	}
	return 0;
}

int credential_of_row(struct arena *a, const struct service *row, struct credential_spec *c,
		      struct err *e)
{
	for (const char *const *h = row->hosts; *h; h++)
		if (list_add_string(a, &c->hosts, *h, e) < 0)
			return -e->code;
	if (row->path && list_add_string(a, &c->paths, row->path, e) < 0)
		return -e->code;
	c->git = row->git;
	return fill_slots(a, row, c, e);
}

static int fill_known(struct arena *a, const struct service *s, const char *variable,
		      struct credential_spec *ret, struct err *e)
{
	struct credential_spec c = { .name = variable,
				     .login = s->login,
				     .from = FROM_ENVIRONMENT };

	if (credential_of_row(a, s, &c, e) < 0 || list_add_string(a, &c.source, variable, e) < 0)
		return -e->code;
	*ret = c;
	return 0;
}

bool credential_known(struct arena *a, const char *name, struct credential_spec *ret)
{
	const struct service *s = service_of_variable(name);
	struct err e;

	return s && s->hosts[0] && fill_known(a, s, name, ret, &e) == 0;
}

/* Where that dialect's own pages put {NAME} in a URL. */
static int add_queries(struct arena *a, struct credential_spec *c, struct err *e)
{
	static const char *const names[] = { "token", "access_token", "key" };

	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		if (list_add_string(a, &c->query, names[i], e) < 0)
			return -e->code;
	return 0;
}

int credentials_add_known(struct spec *s, struct err *e)
{
	if (s->origin[FIELD_CREDENTIALS] != ORIGIN_DEFAULT)
		return 0;
	(void)spec_list_begin(s, FIELD_CREDENTIALS, ORIGIN_DIALECT);
	for (const struct service *row = services; row->name; row++)
		for (const char *const *v = row->variables; row->ironclaw && *v; v++) {
			struct credential_spec c;

			if (fill_known(s->arena, row, *v, &c, e) < 0 ||
			    add_queries(s->arena, &c, e) < 0)
				return -e->code;
			c.login = NULL; /* nobody has asked for it by name */
			c.hosts.n = 1;  /* the one that its pages name, and its one header */
			c.headers.n = 0;
			c.git = NULL;
			if (credentials_add(s->arena, &s->credentials, &c, e) < 0)
				return -e->code;
		}
	return 0;
}

/* --- those of one run --- */

/* Every variable of a service, declared or known; which of them are set is seen when they are
 * fetched. */
static int grant_service(struct arena *a, const struct spec *s, const struct service *row,
			 struct credentiallist *l, struct err *e)
{
	const char *name = row->name;

	if (!row->hosts[0])
		return err_refuse(e, ERR_CONFIG, EINVAL,
				  "write it in a brig.yaml, and name the variable: credentials: "
				  "{NAME: {service: SERVICE, host: HOST}}",
				  "service '%s' has another host for each of its customers", name);
	for (; row->name && str_eq(row->name, name); row++)
		for (const char *const *v = row->variables; *v; v++) {
			const struct credential_spec *own = credential_find(&s->credentials, *v);
			struct credential_spec c;

			if (credential_find(l, *v))
				continue;
			if (own)
				c = *own;
			else if (fill_known(a, row, *v, &c, e) < 0)
				return -e->code;
			c.service = name;
			if (credentials_add(a, l, &c, e) < 0)
				return -e->code;
		}
	return 0;
}

static int unknown_credential(const char *name, struct err *e)
{
	const char *near = service_nearest(name);

	(void)err_set(e, ERR_CONFIG, ENOENT, "no credential '%.60s' is declared", name);
	return near ? err_hint(e, "did you mean the service '%s'?", near)
		    : err_hint(e,
			       "write it in a brig.yaml: credentials: {%.60s: {host: HOST, from: "
			       "{env: %.60s}}}",
			       name, name);
}

static int grant_one(struct arena *a, const struct spec *s, const char *name,
		     struct credentiallist *l, struct err *e)
{
	const struct credential_spec *c = credential_find(&s->credentials, name);
	const struct service *service = service_find(name);
	struct credential_spec table;

	for (size_t i = 0; i < l->n; i++)
		if (str_eq(l->v[i].name, name)) {
			l->v[i].service = NULL; /* asked for by its own name as well */
			return 0;
		}
	if (!c && service)
		return grant_service(a, s, service, l, e);
	if (!c && credential_known(a, name, &table))
		c = &table;
	return c ? credentials_add(a, l, c, e) : unknown_credential(name, e);
}

/* Of a key that signs the parts belong together: who names one of AWS's variables means all three,
 * at the same hosts. */
static int grant_siblings(struct arena *a, const struct spec *s, struct credentiallist *l,
			  struct err *e)
{
	for (size_t i = 0; i < l->n; i++) {
		const struct service *of = service_of_variable(l->v[i].name), *row;

		if (l->v[i].slot != SLOT_SIGV4 || !of)
			continue;
		l->v[i].service = of->name;
		for (row = service_find(of->name); row->name && str_eq(row->name, of->name);
		     row++) {
			const struct credential_spec *own =
				credential_find(&s->credentials, row->variables[0]);
			struct credential_spec c;

			if (credential_find(l, row->variables[0]))
				continue;
			if (!own && fill_known(a, row, row->variables[0], &c, e) < 0)
				return -e->code;
			if (own) {
				c = *own;
			} else {
				c.hosts = l->v[i].hosts;
				c.methods = l->v[i].methods;
				c.paths = l->v[i].paths;
			}
			c.service = of->name;
			if (credentials_add(a, l, &c, e) < 0)
				return -e->code;
		}
	}
	return 0;
}

static bool is_login(const struct spec *s, const char *name)
{
	return s->egress.upstream_login && str_eq(s->egress.upstream_login, name);
}

int credential_login(const struct spec *s, const struct credential_spec **ret, struct err *e)
{
	const char *name = s->egress.upstream_login;
	const struct credential_spec *c = name ? credential_find(&s->credentials, name) : NULL;

	*ret = c;
	if (!name)
		return 0;
	if (!c)
		return err_refuse(e, ERR_CONFIG, ENOENT,
				  "credentials: {NAME: {host: PROXY, basic: USER, from: ...}} "
				  "declares it",
				  "egress.upstream_login '%.60s' is no credential", name);
	if (!s->egress.upstream_proxy)
		return err_set(e, ERR_CONFIG, EINVAL,
			       "egress.upstream_login without an egress.upstream_proxy");
	if (c->slot != SLOT_BASIC)
		return err_refuse(e, ERR_CONFIG, EINVAL, "basic: USER",
				  "egress.upstream_login '%.60s' is not the password of a user",
				  name);
	return 0;
}

int credentials_granted(struct arena *a, const struct spec *s, struct credentiallist *ret,
			struct err *e)
{
	struct credentiallist l = { 0 };

	for (size_t i = 0; !s->use_credentials.n && i < s->credentials.n; i++)
		if (!is_login(s, s->credentials.v[i].name) &&
		    credentials_add(a, &l, &s->credentials.v[i], e) < 0)
			return -e->code;
	for (size_t i = 0; i < s->use_credentials.n; i++)
		if (is_login(s, s->use_credentials.v[i]))
			return err_set(e, ERR_CONFIG, EINVAL,
				       "credential '%.60s' is egress.upstream_login, and no "
				       "command's",
				       s->use_credentials.v[i]);
	for (size_t i = 0; i < s->use_credentials.n; i++)
		if (grant_one(a, s, s->use_credentials.v[i], &l, e) < 0)
			return -e->code;
	if (grant_siblings(a, s, &l, e) < 0)
		return -e->code;
	*ret = l;
	return 0;
}
