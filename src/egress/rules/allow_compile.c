/* SPDX-License-Identifier: Apache-2.0 */
/* egress/rules/allow_compile.c - settings become rules, refused where they contradict. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text/cleanup.h"
#include "egress/rules/allow_internal.h"
#include "model/settings/groups.h"

#define RULES_BYTES ((size_t)4 << 20)
#define RULES_MAX 10000

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

uint32_t *allow_pin_slot(const struct egress_rules *r, const struct host *h)
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
		*allow_pin_slot(r, &r->pins[i].host) = (uint32_t)i + 1;
	return 0;
}

bool allow_has_port(const struct rule *rule, uint16_t port, bool any)
{
	if (!rule->n_ports)
		return any || port == 443;
	for (size_t i = 0; i < rule->n_ports; i++)
		if (rule->ports[i] == port)
			return true;
	return false;
}

/* Is all of the name and port that the rule speaks of a tunnel, by another one? */
static bool is_for_ssh(const struct egress_rules *r, const struct rule *rule)
{
	for (size_t i = 0; i < r->allow.n; i++)
		if (r->allow.v[i].ssh && host_covers(rule->host, r->allow.v[i].host) &&
		    allow_has_port(rule, r->allow.v[i].ports[0], false))
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
