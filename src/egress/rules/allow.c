/* SPDX-License-Identifier: Apache-2.0 */
/* egress/rules/allow.c - the order of a decision is fixed: is it a name, is it one and the same
 * name in every layer, is it this machine, is it denied, is it allowed at this port, is this way of
 * talking allowed, is this request allowed. */
#include "egress/rules/allow.h"

#include <stdio.h>
#include <string.h>

#include "base/text/arena.h"
#include "base/text/str.h"
#include "egress/rules/git_request.h"
#include "egress/rules/head_fields.h"
#include "egress/rules/path.h"
#include "egress/rules/request_head.h"
#include "egress/rules/field_list.h"
#include "model/settings/groups.h"
#include "model/settings/rule.h"

#define RULES_BYTES ((size_t)4 << 20)
#define RULES_MAX 10000

struct rulelist {
	struct rule *v;
	size_t n;
};

struct pin {
	struct host host;
	struct addr addr;
	uint16_t port; /* 0: that of the connection */
};

struct egress_rules {
	struct arena *arena;
	struct rulelist allow, deny;
	struct pin *pins;
	size_t n_pins;
	uint32_t *pin_at; /* by hash: number + 1, 0 is free; at most half full */
	size_t pin_slots; /* a power of two */
	struct strlist passthrough;
	struct field_list fields; /* that pass beside the common ones */
	bool https_only, inspect;
	bool learn;
	bool any_ssh; /* of allow */
	uint16_t host_service;
};

/* --- compiling --- */

static int add_rule(struct egress_rules *r, struct rulelist *l, const struct rule *rule,
		    struct err *e)
{
	struct rule *slot = NULL;

	if (l->n < RULES_MAX)
		slot = ARENA_PUSH(r->arena, l->v, l->n);
	if (!slot)
		return err_set(e, ERR_CONFIG, E2BIG, "too many egress rules");
	*slot = *rule;
	return 0;
}

static int add_group(struct egress_rules *r, struct rulelist *l, const char *name, struct err *e)
{
	const char *text = arena_printf(r->arena, "@%s", name + (*name == '@'));
	const struct group *g;
	struct rule rule;

	if (!text)
		return err_nomem(e);
	if (group_get(text, &g, e) < 0)
		return -e->code;
	for (const char *const *h = g->hosts; *h; h++) {
		if (rule_parse(r->arena, *h, &rule, e) < 0)
			return -e->code;
		rule.text = text;
		if (add_rule(r, l, &rule, e) < 0)
			return -e->code;
	}
	return 0;
}

static int add_text(struct egress_rules *r, struct rulelist *l, const char *text, struct err *e)
{
	struct rule rule;

	if (rule_parse(r->arena, text, &rule, e) < 0)
		return -e->code;
	if (rule.group)
		return add_group(r, l, rule.group, e);
	if (l == &r->allow && rule_check_allow(&rule, e) < 0)
		return -e->code;
	/* Files of a repository can be read in many ways that are no fetch of git's. */
	if (l == &r->deny && (rule.git == RULE_FETCH || rule.ssh))
		return err_refuse(e, ERR_CONFIG, EINVAL,
				  rule.ssh ? "name the host, or HOST:22"
					   : "name the path: HOST/REPOSITORY",
				  "'%.100s' cannot be kept: egress.deny knows push: alone", text);
	r->any_ssh |= rule.ssh;
	return add_rule(r, l, &rule, e);
}

static int add_pin(struct egress_rules *r, const struct envvar *v, struct err *e)
{
	struct pin p = { 0 }, *slot;
	enum addr_class class;
	int family;

	if (host_parse(egress_text(v->name, strlen(v->name)), &p.host) != HOST_OK)
		return err_set(e, ERR_CONFIG, EINVAL, "'%.100s' is not a host name", v->name);
	if (pin_parse(v->value, &family, p.addr.b, &p.port, e) < 0)
		return -e->code;
	p.addr.family = (uint8_t)family;
	class = addr_class(&p.addr);
	if (class == ADDR_METADATA || class == ADDR_UNSPECIFIED || class == ADDR_MULTICAST)
		return err_refuse(e, ERR_POLICY, EPERM,
				  "such addresses stay closed even when they are named",
				  "resolve '%.100s': %s is a %s address", v->name, v->value,
				  addr_class_name(class));
	slot = ARENA_PUSH(r->arena, r->pins, r->n_pins);
	if (!slot)
		return err_nomem(e);
	*slot = p;
	return 0;
}

/* The slot that has this name, or the free one where it would be. */
static uint32_t *pin_slot(const struct egress_rules *r, const struct host *h)
{
	size_t at = host_hash(h) & (r->pin_slots - 1);

	while (r->pin_at[at] && !host_eq(&r->pins[r->pin_at[at] - 1].host, h))
		at = (at + 1) & (r->pin_slots - 1);
	return &r->pin_at[at];
}

/* Of two for one name the later one holds. */
static int index_pins(struct egress_rules *r, struct err *e)
{
	r->pin_slots = 2;
	while (r->pin_slots < 2 * r->n_pins)
		r->pin_slots *= 2;
	r->pin_at = arena_alloc(r->arena, r->pin_slots * sizeof(*r->pin_at));
	if (!r->pin_at)
		return err_nomem(e);
	for (size_t i = 0; i < r->n_pins; i++)
		*pin_slot(r, &r->pins[i].host) = (uint32_t)i + 1;
	return 0;
}

static bool has_port(const struct rule *rule, uint16_t port, bool any);

/* Is all of the name and port that the rule speaks of a tunnel, by another one? */
static bool is_for_ssh(const struct egress_rules *r, const struct rule *rule)
{
	for (size_t i = 0; i < r->allow.n; i++)
		if (r->allow.v[i].ssh && host_covers(rule->host, r->allow.v[i].host) &&
		    has_port(rule, r->allow.v[i].ports[0], false))
			return true;
	return false;
}

static bool uncovered(const struct egress_rules *r, const char *pattern)
{
	for (size_t i = 0; i < r->passthrough.n; i++)
		if (host_covers(r->passthrough.v[i], pattern))
			return true;
	return !r->inspect;
}

/* A rule about requests cannot be kept where requests are not seen. */
static int check_visible(const struct egress_rules *r, const struct rulelist *l, struct err *e)
{
	for (size_t i = 0; i < l->n; i++)
		if (rule_is_narrow(&l->v[i]) &&
		    (uncovered(r, l->v[i].host) || is_for_ssh(r, &l->v[i])))
			return err_refuse(
				e, ERR_CONFIG, EINVAL,
				"take the host out of egress.passthrough or the rule with "
				"ssh:, or the method and path out of the rule",
				"the rule '%.100s' is about requests, which are not seen "
				"where TLS is not opened",
				l->v[i].text);
	return 0;
}

static int add_passthrough(struct egress_rules *r, const char *pattern, struct err *e)
{
	struct rule rule;
	const char **slot;

	if (rule_parse(r->arena, pattern, &rule, e) < 0)
		return err_wrap(e, "passthrough");
	if (rule.group || rule.n_ports || rule_is_narrow(&rule))
		return err_set(e, ERR_CONFIG, EINVAL, "passthrough '%.100s': write the host alone",
			       pattern);
	slot = ARENA_PUSH(r->arena, r->passthrough.v, r->passthrough.n);
	if (!slot)
		return err_nomem(e);
	*slot = rule.host;
	return 0;
}

static int allow_compile(struct egress_rules *r, const struct egress_spec *s, struct err *e)
{
	r->https_only = s->https_only;
	r->inspect = s->inspect;
	r->learn = s->learn;
	r->host_service = (uint16_t)s->host_service;
	for (size_t i = 0; i < s->allow.n; i++)
		if (add_text(r, &r->allow, s->allow.v[i], e) < 0)
			return -e->code;
	for (size_t i = 0; i < s->groups.n; i++)
		if (add_group(r, &r->allow, s->groups.v[i], e) < 0)
			return -e->code;
	for (size_t i = 0; i < s->deny.n; i++)
		if (add_text(r, &r->deny, s->deny.v[i], e) < 0)
			return -e->code;
	for (size_t i = 0; i < s->resolve.n; i++)
		if (add_pin(r, &s->resolve.v[i], e) < 0)
			return -e->code;
	if (index_pins(r, e) < 0)
		return -e->code;
	for (size_t i = 0; i < s->passthrough.n; i++)
		if (add_passthrough(r, s->passthrough.v[i], e) < 0)
			return -e->code;
	if (field_list_read(r->arena, &s->fields, false, &r->fields, e) < 0)
		return err_wrap(e, "fields");
	if (check_visible(r, &r->allow, e) < 0)
		return -e->code;
	return check_visible(r, &r->deny, e);
}

int egress_rules_new(const struct egress_spec *s, struct egress_rules **ret, struct err *e)
{
	CLEANUP(egress_rules) struct egress_rules *r = calloc(1, sizeof(*r));

	if (!r || !(r->arena = arena_new(RULES_BYTES)))
		return err_nomem(e);
	if (allow_compile(r, s, e) < 0)
		return err_wrap(e, "egress");
	*ret = TAKE_PTR(r);
	return 0;
}

struct egress_rules *egress_rules_free(struct egress_rules *r)
{
	if (r)
		(void)arena_free(r->arena);
	free(r);
	return NULL;
}

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
	uint32_t number = *pin_slot(r, &v->host);
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

static bool has_port(const struct rule *rule, uint16_t port, bool any)
{
	if (!rule->n_ports)
		return any || port == 443;
	for (size_t i = 0; i < rule->n_ports; i++)
		if (rule->ports[i] == port)
			return true;
	return false;
}

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

	if (!host_matches(rule->host, &k->v->host) || !has_port(rule, k->v->port, any_port) ||
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
		    host_matches(l->v[i].host, &v->host) && has_port(&l->v[i], v->port, any_port))
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
			   has_port(&r->allow.v[i], v->port, false);
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
