/* SPDX-License-Identifier: Apache-2.0 */
/* egress/credential/cred_left.c - placeholders that nothing was put in for: each is a misuse. */
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/text/str.h"
#include "egress/credential/cred_internal.h"

static bool bound_to(const struct cred *c, const struct cred_target *to)
{
	for (size_t i = 0; c && i < c->n_hosts; i++)
		if (c->hosts[i].port == to->port && binding_is(&c->hosts[i], to->host))
			return true;
	return false;
}

/* What would let it through; c is NULL for a name that nobody has bound. */
static void say_way_out(const struct cred_target *to, const struct cred *c, const char *name,
			char *hint, size_t n)
{
	char port[8] = "";

	if (to->port != 443)
		(void)snprintf(port, sizeof(port), ":%u", to->port);
	if (!to->verified)
		(void)snprintf(hint, n,
			       "a credential goes over verified TLS alone, and this is plain HTTP; "
			       "a server of this host with a certificate: --allow NAME --set "
			       "egress.resolve=NAME=127.0.0.1:PORT --set egress.roots=FILE");
	else if (bound_to(c, to))
		(void)snprintf(
			hint, n,
			"it is bound to this host, for another place in the request: header, "
			"cookie, basic and query under credentials say which");
	else
		(void)snprintf(hint, n,
			       "credentials: {%.60s: {host: %.200s%s}} binds it to this host", name,
			       to->host->name, port);
}

static bool misuse(struct cred_job *j, const struct cred *c, const char *name, const char *where)
{
	char hint[sizeof(j->v->hint)];

	say_way_out(j->to, c, name, hint, sizeof(hint));
	return verdict_deny(j->v, EGRESS_CREDENTIAL_MISUSE, hint,
			    "the placeholder of credential '%s' in the %s of a request to %s", name,
			    where, j->to->host->name);
}

/* A name that no value came for: bound, as some are by themselves, or not. */
static bool without_value(struct cred_job *j, const char *name, const char *where)
{
	const struct strlist *l = j->creds->lacking;
	char hint[sizeof(j->v->hint)];

	for (size_t i = 0; l && i < l->n; i++) {
		if (!str_eq(l->v[i], name))
			continue;
		(void)snprintf(hint, sizeof(hint), "set %.60s where brig is started", name);
		return verdict_deny(j->v, EGRESS_CREDENTIAL_MISUSE, hint,
				    "credential '%s' is bound, but this run has no value for it",
				    name);
	}
	return misuse(j, NULL, name, where);
}

/* {UPPER_CASE}, which is a name somebody meant to bind. */
static size_t unbound_name(const char *p, size_t n, char *out, size_t max)
{
	size_t open = n && *p == '{'                            ? 1
		      : n >= 3 && strncasecmp(p, "%7b", 3) == 0 ? 3
								: 0,
	       i = open;

	while (open && i < n && i - open < max - 1 &&
	       ((p[i] >= 'A' && p[i] <= 'Z') || p[i] == '_' ||
		(i > open && p[i] >= '0' && p[i] <= '9')))
		i++;
	if (!open || i - open < 3 || i >= n ||
	    !(p[i] == '}' || (n - i >= 3 && strncasecmp(p + i, "%7d", 3) == 0)))
		return 0;
	memcpy(out, p + open, i - open);
	out[i - open] = '\0';
	return i - open;
}

static bool check_at(struct cred_job *j, const char *p, size_t n, const char *where)
{
	char name[64];

	for (size_t i = 0; i < j->creds->n; i++) {
		const struct cred *c = &j->creds->v[i];

		if (cred_name_at(c, p, n))
			return misuse(j, c, c->spec->name, where);
		if (cred_placeholder_at(c, p, n))
			return misuse(j, c, c->spec->name, where);
	}
	if (n >= CRED_PLACEHOLDER_LEN && cred_is_placeholder(egress_text(p, CRED_PLACEHOLDER_LEN)))
		return verdict_deny(j->v, EGRESS_CREDENTIAL_MISUSE, NULL,
				    "a placeholder of another run in the %s", where);
	if (j->creds->bind_names && unbound_name(p, n, name, sizeof(name)))
		return without_value(j, name, where);
	return true;
}

static bool check_left(struct cred_job *j, struct egress_text t, const char *where)
{
	for (size_t i = 0; i < t.n; i++)
		if ((t.p[i] == 'b' || t.p[i] == '{' || t.p[i] == '%') &&
		    !check_at(j, t.p + i, t.n - i, where))
			return false;
	return true;
}

/* A placeholder that Basic has wrapped is one all the same. */
static bool check_basic(struct cred_job *j, struct egress_text value)
{
	CLEANUP(buf) struct buf pair = BUF_INIT(CRED_TEXT_MAX);
	struct egress_text scheme, rest;

	if (!cred_split_scheme(value, &scheme, &rest) || !cred_same_nocase(scheme, "basic") ||
	    !cred_get_base64(rest, &pair) || !pair.len)
		return true;
	return check_left(j, egress_text(pair.data, pair.len), "authorization");
}

bool cred_check_left(struct cred_job *j)
{
	if (!check_left(j, j->head->target, "URL"))
		return false;
	for (size_t i = 0; i < j->head->n_fields; i++) {
		const struct egress_field *f = &j->head->fields[i];

		if (!check_left(j, f->name, "headers") || !check_left(j, f->value, "headers") ||
		    !check_basic(j, f->value))
			return false;
	}
	return true;
}
