/* SPDX-License-Identifier: Apache-2.0 */
/* egress/rules/allow.c - the order of a decision is fixed: is it a name, is it one and the same
 * name in every layer, is it this machine, is it denied, is it allowed at this port, is this way of
 * talking allowed, is this request allowed. */
#include "egress/rules/allow.h"

#include <stdio.h>
#include <string.h>

#include "base/text/str.h"
#include "egress/rules/allow_internal.h"
#include "egress/rules/git_request.h"
#include "egress/rules/head_fields.h"
#include "egress/rules/path.h"
#include "egress/rules/request_head.h"

/* --- names --- */

/* What is neither a name nor an address may be anything, and is not repeated: it would end up in
 * the record. */
static bool parse_name(struct egress_text t, struct host *ret, struct egress_verdict *v)
{
	enum host_fault f = host_parse(t, ret);
	int shown = (int)(t.n < 48 ? t.n : 48);

	if (f == HOST_OK)
		return true;
	if (f == HOST_ADDRESS) {
		struct addr a;
		bool meta = addr_parse(t.p, t.n, &a) == 0 && addr_class(&a) == ADDR_METADATA;

		for (int i = 0; i < shown && i < (int)sizeof(v->address) - 1; i++)
			v->address[i] = t.p[i] > ' ' && t.p[i] < '\177' ? t.p[i] : '?';
		return verdict_deny(
			v, EGRESS_NOT_ALLOWED,
			meta ? "keys that a cloud gives its machines stay outside: "
			       "export one, and name it with --credential"
			     : "use the host's name; egress.resolve can give an address "
			       "one",
			"Host not in allowlist: '%.*s' %s", shown, t.p, host_fault_text(f));
	}
	return verdict_deny(v, EGRESS_BAD_REQUEST, NULL, "the host %s", host_fault_text(f));
}

/* One name in every layer that has one. */
static bool same_name(const struct egress_request *q, struct egress_text other, const char *what,
		      struct egress_verdict *v)
{
	enum egress_reason r = q->via == EGRESS_VIA_TLS ? EGRESS_TLS_MISMATCH : EGRESS_BAD_REQUEST;
	struct host h;

	if (!other.p)
		return true;
	if (host_parse(other, &h) != HOST_OK)
		return verdict_deny(v, r, NULL, "%s is not the host '%s' that was asked for", what,
				    v->host.name);
	if (!host_eq(&h, &v->host))
		return verdict_deny(v, r, NULL, "%s '%s' is not the host '%s' that was asked for",
				    what, h.name, v->host.name);
	return true;
}

static bool check_names(const struct egress_request *q, struct egress_verdict *v)
{
	if (!parse_name(q->host, &v->host, v))
		return false;
	if (!q->port)
		return verdict_deny(v, EGRESS_BAD_REQUEST, NULL, "0 is not a port");
	if (q->via == EGRESS_VIA_TLS && !q->sni.p)
		return verdict_deny(v, EGRESS_TLS_MISMATCH, "the client must send the host's name",
				    "TLS without a server name");
	return same_name(q, q->sni, "the TLS server name", v) &&
	       same_name(q, q->tunnel, "the connection's name", v);
}

/* --- this machine, and addresses given by hand --- */

static void find_pin(const struct egress_rules *r, struct egress_verdict *v)
{
	uint32_t number = *allow_pin_slot(r, &v->host);
	const struct pin *p = number ? &r->pins[number - 1] : NULL;

	if (!p)
		return;
	v->pinned = true;
	v->pin = p->addr;
	v->pin_port = p->port ? p->port : v->port;
}

static bool decide_host_service(const struct egress_rules *r, struct egress_verdict *v)
{
	if (!r->host_service || v->port != r->host_service)
		return verdict_deny(v, EGRESS_PRIVATE_ADDRESS,
				    "one port of the host can be opened by egress.host_service",
				    "port %u of the host is closed", v->port);
	v->host_service = v->pinned = true;
	v->pin = (struct addr){ .family = 4, .b = { 127, 0, 0, 1 } };
	v->pin_port = v->port;
	v->rule = "egress.host_service";
	return true;
}

/* --- rules --- */

static bool has_method(const struct rule *rule, struct egress_text method)
{
	for (size_t i = 0; i < rule->methods.n; i++)
		if (strlen(rule->methods.v[i]) == method.n &&
		    memcmp(rule->methods.v[i], method.p, method.n) == 0)
			return true;
	return !rule->methods.n;
}

/* The request against the rules: the path is normalised once, and only if a rule looks at it. */
struct question {
	const struct egress_request *q;
	struct egress_verdict *v;
	struct buf path;
	bool normalised, git_read;
	struct git_request git;
};

static bool need_path(struct question *k)
{
	enum path_fault f;

	if (k->normalised)
		return true;
	k->normalised = true;
	f = path_normalise(path_of_target(k->q->target), &k->path);
	return f == PATH_OK ||
	       verdict_deny(k->v, EGRESS_BAD_REQUEST,
			    "the rules of this host name paths, so the path must be plain",
			    "the path %s", path_fault_text(f));
}

/* Behind need_path. */
static const struct git_request *read_git(struct question *k)
{
	if (!k->git_read)
		git_request_read(k->q->method, buf_str(&k->path), k->q->target, &k->git);
	k->git_read = true;
	return &k->git;
}

/* A rule for a path lets no push through that it does not name. */
static bool path_fits(struct question *k, const struct rule *rule, bool denies)
{
	const struct git_request *g = read_git(k);
	const char *path = buf_str(&k->path);

	if (rule->git && denies)
		return g->writes && git_repo_covers(path, rule->path);
	if (rule->git)
		return g->use == (rule->git == RULE_PUSH ? GIT_USE_PUSH : GIT_USE_FETCH) &&
		       git_repo_is(path, g->repo, rule->path);
	return path_below(path, rule->path, denies) &&
	       (denies || !g->receives || strstr(rule->path, "/git-receive-pack"));
}

enum fit { FIT_NO, FIT_YES, FIT_BROKEN };

/* A tunnel for SSH is one from its first byte on: what opens TLS or sends a request is not it. */
static bool fits_ssh(const struct question *k, const struct rule *rule)
{
	return !rule->ssh || (k->q->via == EGRESS_VIA_TUNNEL && !k->q->method.p);
}

/* Before the request is known, a rule about requests allows as far as it can be told, and denies
 * nothing. A rule that denies is for any port where it names none, and for a path in any case: some
 * servers know no other. */
static enum fit allow_fits(struct question *k, const struct rule *rule, bool denies)
{
	bool any_port = denies, early = !denies;

	if (!host_matches(rule->host, &k->v->host) || !allow_has_port(rule, k->v->port, any_port) ||
	    !fits_ssh(k, rule))
		return FIT_NO;
	if (!k->q->method.p)
		return early || !rule_is_narrow(rule) ? FIT_YES : FIT_NO;
	/* What is said in a WebSocket no rule about requests has seen: one must name it. What is
	 * denied is denied to it as well. */
	if (rule->ws != k->q->websocket && (rule->ws || !denies))
		return FIT_NO;
	if (!has_method(rule, k->q->method))
		return FIT_NO;
	if (!rule->path && !rule->git)
		return FIT_YES;
	if (!need_path(k))
		return FIT_BROKEN;
	return path_fits(k, rule, denies) ? FIT_YES : FIT_NO;
}

/* Is the name, at this port, subject to any rule about requests? */
static bool is_narrow(const struct rulelist *l, const struct egress_verdict *v, bool any_port)
{
	for (size_t i = 0; i < l->n; i++)
		if ((l->v[i].ws ? l->v[i].path != NULL : rule_is_narrow(&l->v[i])) &&
		    host_matches(l->v[i].host, &v->host) &&
		    allow_has_port(&l->v[i], v->port, any_port))
			return true;
	return false;
}

static bool check_deny(const struct egress_rules *r, struct question *k)
{
	for (size_t i = 0; i < r->deny.n; i++) {
		enum fit f = allow_fits(k, &r->deny.v[i], true);

		if (f == FIT_BROKEN)
			return false;
		if (f == FIT_NO)
			continue;
		k->v->rule = r->deny.v[i].text;
		return verdict_deny(k->v, EGRESS_DENIED, "egress.deny is stronger than any --allow",
				    "Host denied: %s is denied by '%s'", k->v->host.name,
				    r->deny.v[i].text);
	}
	return true;
}

/* Does any rule speak of this name, at whatever port? */
static bool name_known(const struct egress_rules *r, const struct host *h)
{
	for (size_t i = 0; i < r->allow.n; i++)
		if (host_matches(r->allow.v[i].host, h))
			return true;
	return false;
}

static bool plain_path(const char *path)
{
	struct err e;

	return strlen(path) < 120 && path_prefix_check(path, &e) == 0;
}

/* Plain HTTP, which leaves this machine: no rule for a host lets it through. */
static bool too_plain(const struct egress_rules *r, const struct egress_request *q,
		      const struct egress_verdict *v)
{
	bool near = v->pinned && addr_class(&v->pin) == ADDR_LOOPBACK;

	return q->via == EGRESS_VIA_HTTP && r->https_only && !near;
}

/* A person knows names of the internet. What a name means on this machine's own networks only the
 * operator can say, in egress.resolve. And no answer would help a request that is refused for
 * how it talks. */
static bool is_open_to_words(const struct egress_rules *r, const struct egress_request *q,
			     const struct egress_verdict *v)
{
	return (v->pinned || !host_is_inner(&v->host)) && q->via != EGRESS_VIA_OTHER &&
	       !too_plain(r, q, v);
}

/* What was said of a host narrows WebSockets too, while brig learns. */
static bool allow_learns(const struct egress_rules *r, const struct question *k)
{
	if (!r->learn)
		return false;
	return k->q->websocket
		       ? is_open_to_words(r, k->q, k->v) && !is_narrow(&r->allow, k->v, false)
		       : k->v->askable;
}

/* The line that would let this request through; the path that it shows. */
static const char *hint_request(struct question *k, const char *port, char *hint, size_t n)
{
	const struct egress_verdict *v = k->v;
	const char *path = need_path(k) ? buf_str(&k->path) : "";
	const struct git_request *g = read_git(k);

	if (k->q->websocket)
		(void)snprintf(hint, n, "--allow ws:%s%s%s", v->host.name, port,
			       plain_path(path) ? path : "");
	else if (g->use && plain_path(path))
		(void)snprintf(hint, n, "--allow %s:%s%s%.*s",
			       g->use == GIT_USE_PUSH ? "push" : "fetch", v->host.name, port,
			       (int)g->repo, path);
	else
		(void)snprintf(hint, n, "--allow '%.*s %s%s%s'", (int)k->q->method.n,
			       k->q->method.p, v->host.name, port, plain_path(path) ? path : "");
	return path;
}

static bool not_in_list(const struct egress_rules *r, struct question *k)
{
	const struct egress_request *q = k->q;
	struct egress_verdict *v = k->v;
	char hint[sizeof(v->hint)], port[8] = "";
	bool request = false;
	const char *path;

	if (v->port != 443)
		(void)snprintf(port, sizeof(port), ":%u", v->port);
	for (size_t i = 0; q->method.p && i < r->allow.n; i++)
		request |= !r->allow.v[i].ssh && host_matches(r->allow.v[i].host, &v->host) &&
			   allow_has_port(&r->allow.v[i], v->port, false);
	if (q->via == EGRESS_VIA_HTTP && r->https_only && !request && name_known(r, &v->host))
		return verdict_deny(v, EGRESS_NOT_ALLOWED, "use https://",
				    "plain HTTP to %s is refused", v->host.name);
	/* A rule for the host would not let a WebSocket through: the hint is the one that does. */
	if (!request && (!q->websocket || too_plain(r, q, v))) {
		v->askable = !q->websocket && is_open_to_words(r, q, v);
		(void)snprintf(hint, sizeof(hint), "--allow %s%s%s",
			       v->port == RULE_SSH_PORT ? "ssh:" : "", v->host.name,
			       v->port == RULE_SSH_PORT ? ""
			       : too_plain(r, q, v)     ? ", and https:// in its address"
							: port);
		return verdict_deny(v, EGRESS_NOT_ALLOWED, hint, "Host not in allowlist: %s%s",
				    v->host.name, port);
	}
	path = hint_request(k, port, hint, sizeof(hint));
	return verdict_deny(v, EGRESS_NOT_ALLOWED, hint,
			    "Host not in allowlist for this request: %.*s %s%s%.150s",
			    (int)q->method.n, q->method.p, v->host.name, port, path);
}

static bool verdict_grant(struct egress_verdict *v, const char *by)
{
	v->reason = EGRESS_OK;
	v->rule = by;
	v->what[0] = v->hint[0] = '\0';
	return true;
}

/* Of two rules for one name and port the one for SSH says what a connection to it is. */
static bool check_allow(const struct egress_rules *r, struct question *k)
{
	const struct rule *by = NULL;

	for (size_t i = 0; i < r->allow.n && !(by && (by->ssh || !r->any_ssh)); i++) {
		enum fit f = allow_fits(k, &r->allow.v[i], false);

		if (f == FIT_BROKEN)
			return false;
		if (f == FIT_YES && (!by || r->allow.v[i].ssh))
			by = &r->allow.v[i];
	}
	if (by) {
		k->v->rule = by->text;
		k->v->ssh = by->ssh;
		return true;
	}
	if (not_in_list(r, k))
		return true;
	if (k->v->askable && k->q->granted)
		return verdict_grant(k->v, k->q->granted);
	return allow_learns(r, k) && verdict_grant(k->v, EGRESS_LEARNS);
}

bool egress_has_ssh(const struct egress_rules *r)
{
	return r->any_ssh;
}

/* --- the request --- */

static bool text_is(struct egress_text t, const char *word)
{
	return t.n == strlen(word) && memcmp(t.p, word, t.n) == 0;
}

static bool check_request(const struct egress_request *q, struct egress_verdict *v)
{
	enum path_fault f;

	if (!q->method.p)
		return true;
	if (!egress_method_valid(q->method))
		return verdict_deny(v, EGRESS_BAD_REQUEST, NULL, "not a method of HTTP");
	if (text_is(q->method, "TRACE") || text_is(q->method, "CONNECT"))
		return verdict_deny(v, EGRESS_BAD_REQUEST, NULL, "the method %.*s is refused",
				    (int)q->method.n, q->method.p);
	if (!q->target.p)
		return verdict_deny(v, EGRESS_BAD_REQUEST, NULL, "a request without a target");
	f = path_check_target(q->target);
	if (f == PATH_OK && q->target.p[0] == '*' && !text_is(q->method, "OPTIONS"))
		f = PATH_NOT_ABSOLUTE;
	return f == PATH_OK || verdict_deny(v, EGRESS_BAD_REQUEST, NULL, "the request's target %s",
					    path_fault_text(f));
}

static bool check_transport(const struct egress_rules *r, const struct egress_request *q,
			    struct egress_verdict *v)
{
	if (q->via == EGRESS_VIA_OTHER)
		return verdict_deny(v, EGRESS_NOT_ALLOWED, NULL,
				    "bytes to %s that are neither TLS nor HTTP", v->host.name);
	if (too_plain(r, q, v))
		return verdict_deny(v, EGRESS_NOT_ALLOWED,
				    "use https://, or set egress.https_only to false",
				    "plain HTTP to %s is refused", v->host.name);
	return true;
}

static bool is_passthrough(const struct egress_rules *r, const struct host *h)
{
	for (size_t i = 0; i < r->passthrough.n; i++)
		if (host_matches(r->passthrough.v[i], h))
			return true;
	return !r->inspect;
}

bool egress_decide(const struct egress_rules *r, const struct egress_request *q,
		   struct egress_verdict *v)
{
	struct question k = { .q = q, .v = v, .path = BUF_INIT(PATH_MAX_LEN * 3 + 1) };
	bool ok;

	*v = (struct egress_verdict){ .port = q->port };
	if (!check_names(q, v))
		return false;
	find_pin(r, v);
	if (!v->pinned && str_eq(v->host.name, EGRESS_HOST_SERVICE))
		return decide_host_service(r, v);
	if (!v->pinned && host_is_local(&v->host))
		return verdict_deny(v, EGRESS_PRIVATE_ADDRESS, NULL,
				    "%s is this machine or its neighbours", v->host.name);
	ok = check_request(q, v) && check_deny(r, &k) && check_allow(r, &k) &&
	     check_transport(r, q, v);
	v->passthrough = ok && is_passthrough(r, &v->host);
	v->narrow = ok && (is_narrow(&r->allow, v, false) || is_narrow(&r->deny, v, true));
	buf_done(&k.path);
	return ok;
}

bool egress_field_passes(const struct egress_rules *r, const struct host *host,
			 struct egress_text name)
{
	return field_is_common(name) || field_list_has(&r->fields, host, name, false);
}

bool egress_address(const struct addr *a, const struct addr *own, size_t n_own,
		    struct egress_verdict *v)
{
	enum addr_class class = addr_class(a);
	char text[48];

	addr_text(a, text);
	if (class != ADDR_PUBLIC)
		return verdict_deny(
			v, EGRESS_PRIVATE_ADDRESS,
			class == ADDR_METADATA ? NULL
					       : "--set egress.resolve=HOST=ADDRESS "
						 "opens exactly one private address for a "
						 "name that you know",
			"%s resolves to %s, a %s address", v->host.len ? v->host.name : "the name",
			text, addr_class_name(class));
	for (size_t i = 0; i < n_own; i++)
		if (addr_eq(a, &own[i]))
			return verdict_deny(v, EGRESS_PRIVATE_ADDRESS, NULL,
					    "%s resolves to %s, an address of this machine",
					    v->host.len ? v->host.name : "the name", text);
	return true;
}
