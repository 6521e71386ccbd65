/* SPDX-License-Identifier: Apache-2.0 */
/* egress/egress_plan.c - both ends are the same program's, so the text is the plainest that is
 * strict: numbers and counted strings in a fixed order, each row written and read by one list of
 * fields. */
#include "egress/egress_plan.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "egress/credential/cred.h"
#include "egress/rules/allow.h"
#include "egress/rules/upstream_proxy.h"
#include "model/credentials.h"
#include "model/dialect/dialect.h"
#include "model/spec_lists.h"

#define MAGIC "brig-egress-plan 1"
#define PLAN_BYTES ((size_t)16 << 20)
#define LIST_MAX 10000
#define MEMORY_MIN ((uint64_t)16 << 20)
#define MEMORY_MAX ((uint64_t)64 << 20)

/* --- making --- */

/* In the IronClaw dialect every well-known name stands for itself; those that are not set in the
 * caller's environment were never asked for. */
static bool may_lack(const struct spec *s)
{
	return !s->use_credentials.n && !spec_wrote(s, FIELD_CREDENTIALS);
}

static int add_secret(struct egress_plan *p, const struct spec *s, const struct credential_spec *c,
		      char *value, size_t len, struct err *e)
{
	size_t n = p->credentials.n;
	struct credential_spec *slot = ARENA_PUSH(p->arena, p->credentials.v, n);
	char placeholder[CRED_PLACEHOLDER_LEN + 1];

	p->secrets[p->credentials.n] =
		(struct secret){ .name = c->name, .value = value, .len = len };
	if (!slot)
		return err_nomem(e);
	*slot = *c;
	p->credentials.n = n; /* from here on the plan frees the value */
	if (s->home_secret)
		cred_placeholder_kept(s->home_secret, c->name, placeholder);
	else if (cred_placeholder(placeholder, e) < 0)
		return -e->code;
	p->secrets[n - 1].placeholder = arena_strdup(p->arena, placeholder);
	return p->secrets[n - 1].placeholder ? 0 : err_nomem(e);
}

static int fetch_all(struct egress_plan *p, const struct spec *s, char *const *envp, struct err *e)
{
	struct credentiallist granted = { 0 };

	if (credentials_granted(p->arena, s, &granted, e) < 0)
		return -e->code;
	p->secrets = arena_alloc(p->arena, (granted.n + 1) * sizeof(*p->secrets));
	if (!p->secrets)
		return err_nomem(e);
	for (size_t i = 0; i < granted.n; i++) {
		char *value = NULL;
		size_t len = 0;

		if (cred_fetch(&granted.v[i], envp, &value, &len, e) < 0) {
			if (e->code != ENOENT || !may_lack(s) ||
			    list_add_string(p->arena, &p->lacking, granted.v[i].name, e) < 0)
				return -e->code;
			continue;
		}
		if (add_secret(p, s, &granted.v[i], value, len, e) < 0)
			return -e->code;
	}
	return 0;
}

/* What would be refused in the worker is refused here, before anything runs. */
static int check(const struct egress_plan *p, struct err *e)
{
	CLEANUP(egress_rules) struct egress_rules *rules = NULL;
	CLEANUP(creds) struct creds *creds = NULL;
	struct upstream_proxy chain;

	if (egress_rules_new(&p->egress, &rules, e) < 0 ||
	    chain_parse(p->egress.upstream_proxy, &chain, e) < 0)
		return -e->code;
	return creds_new(&p->credentials, p->secrets, p->bind_names, &creds, e);
}

/* An eighth of what the run has, within reason; the run's own limit does not count it. */
static uint64_t memory_for(uint64_t limit)
{
	uint64_t share = limit / 8;

	if (!limit || share > MEMORY_MAX)
		return MEMORY_MAX;
	return share > MEMORY_MIN ? share : MEMORY_MIN;
}

int egress_plan_new(const struct spec *s, char *const *envp, struct egress_plan **ret,
		    struct err *e)
{
	CLEANUP(egress_plan) struct egress_plan *p = calloc(1, sizeof(*p));

	if (!p || !(p->arena = arena_new_on(s->arena, PLAN_BYTES)))
		return err_nomem(e);
	p->egress = s->egress;
	p->egress.rate.spare_domain = !spec_wrote(s, FIELD_RATE_DOMAIN);
	p->egress.rate.spare_total = !spec_wrote(s, FIELD_RATE_TOTAL);
	p->leaks = s->leaks;
	p->bind_names = s->dialect_used == DIALECT_IRONCLAW;
	p->redact_json = s->dialect_used != DIALECT_IRONCLAW; /* which documents a block */
	p->memory = memory_for(s->limits.memory);
	if (fetch_all(p, s, envp, e) < 0 || check(p, e) < 0)
		return -e->code;
	*ret = TAKE_PTR(p);
	return 0;
}

struct egress_plan *egress_plan_free(struct egress_plan *p)
{
	for (size_t i = 0; p && i < p->credentials.n; i++)
		cred_value_free((char *)(uintptr_t)p->secrets[i].value, p->secrets[i].len);
	if (p)
		(void)arena_free(p->arena);
	free(p);
	return NULL;
}

/* --- one list of fields for both directions --- */

struct wire {
	struct buf *out;      /* writing; NULL: reading */
	const char *at, *end; /* reading */
	struct arena *arena;
	bool failed;
};

static void number(struct wire *w, uint64_t *v)
{
	char *stop;

	if (w->out) {
		buf_printf(w->out, "%" PRIu64 " ", *v);
		return;
	}
	*v = 0;
	if (w->failed || w->at >= w->end || *w->at < '0' || *w->at > '9') {
		w->failed = true;
		return;
	}
	*v = strtoull(w->at, &stop, 10);
	w->failed = *stop != ' ';
	w->at = stop + 1;
}

static void flag(struct wire *w, bool *v)
{
	uint64_t n = *v;

	number(w, &n);
	*v = n == 1;
	w->failed |= n > 1;
}

static void word(struct wire *w, int *v, int max)
{
	uint64_t n = (uint64_t)*v;

	number(w, &n);
	w->failed |= n > (uint64_t)max;
	*v = w->failed ? 0 : (int)n;
}

static void bytes(struct wire *w, const char **p, size_t *n)
{
	uint64_t len = *n;

	number(w, &len);
	if (w->out) {
		buf_add(w->out, *p, *n);
		buf_putc(w->out, ' ');
		return;
	}
	if (w->failed || w->at > w->end || len >= (uint64_t)(w->end - w->at) || w->at[len] != ' ') {
		w->failed = true;
		return;
	}
	*p = w->at;
	*n = (size_t)len;
	w->at += len + 1;
}

static void text(struct wire *w, const char **v)
{
	size_t n = w->out ? strlen(*v) : 0;
	const char *p = *v;

	bytes(w, &p, &n);
	if (w->out)
		return;
	*v = w->failed || memchr(p, '\0', n) ? NULL : arena_strndup(w->arena, p, n);
	w->failed |= !*v;
}

/* How many elements follow; room for them when reading. */
static void *list(struct wire *w, void *v, size_t *n, size_t size)
{
	uint64_t count = *n;

	number(w, &count);
	if (w->out)
		return v;
	v = w->failed || count > LIST_MAX ? NULL
					  : arena_alloc(w->arena, (size_t)(count + 1) * size);
	w->failed |= !v;
	*n = w->failed ? 0 : (size_t)count;
	return v;
}

static void texts(struct wire *w, struct strlist *l)
{
	l->v = list(w, l->v, &l->n, sizeof(*l->v));
	for (size_t i = 0; i < l->n && !w->failed; i++)
		text(w, &l->v[i]);
}

static void pairs(struct wire *w, struct envlist *l)
{
	l->v = list(w, l->v, &l->n, sizeof(*l->v));
	for (size_t i = 0; i < l->n && !w->failed; i++) {
		text(w, &l->v[i].name);
		text(w, &l->v[i].value);
	}
}

static void egress(struct wire *w, struct egress_spec *s)
{
	texts(w, &s->allow);
	texts(w, &s->deny);
	texts(w, &s->groups);
	texts(w, &s->passthrough);
	texts(w, &s->roots);
	pairs(w, &s->resolve);
	flag(w, &s->rate.spare_domain);
	flag(w, &s->rate.spare_total);
	number(w, &s->rate.domain);
	number(w, &s->rate.total);
	number(w, &s->rate.connections);
	number(w, &s->rate.names);
	number(w, &s->rate.bytes_out);
	number(w, &s->rate.bytes_in);
	flag(w, &s->https_only);
	flag(w, &s->inspect);
	number(w, &s->port);
	number(w, &s->host_service);
	if (!s->upstream_proxy)
		s->upstream_proxy = "";
	text(w, &s->upstream_proxy);
}

static void credential(struct wire *w, struct credential_spec *c)
{
	int slot = (int)c->slot;

	text(w, &c->name);
	texts(w, &c->hosts);
	word(w, &slot, SLOT_BASIC);
	c->slot = (enum credential_slot)slot;
	text(w, &c->field);
	text(w, &c->prefix);
	texts(w, &c->methods);
	texts(w, &c->paths);
	texts(w, &c->query);
	flag(w, &c->in_path);
	flag(w, &c->delayed);
}

static void fields_of(struct wire *w, struct egress_plan *p)
{
	egress(w, &p->egress);
	flag(w, &p->leaks.scan);
	flag(w, &p->leaks.strict);
	pairs(w, &p->leaks.rules);
	flag(w, &p->bind_names);
	texts(w, &p->lacking);
	flag(w, &p->redact_json);
	number(w, &p->memory);
}

/* --- secrets: the values go to locked memory --- */

static int read_secret(struct wire *w, struct secret *s, const char *name, struct err *e)
{
	const char *value = NULL;
	size_t n = 0;
	char *copy = NULL;

	text(w, &s->placeholder);
	bytes(w, &value, &n);
	if (w->failed)
		return err_set(e, ERR_INTERNAL, EBADMSG, "the egress plan is broken");
	if (cred_value_new(value, n, &copy, e) < 0)
		return -e->code;
	s->name = name;
	s->value = copy;
	s->len = n;
	return 0;
}

static int read_credentials(struct wire *w, struct egress_plan *p, struct err *e)
{
	size_t n = 0;

	p->credentials.v = list(w, NULL, &n, sizeof(*p->credentials.v));
	p->secrets = w->failed ? NULL : arena_alloc(p->arena, (n + 1) * sizeof(*p->secrets));
	if (!p->secrets)
		return err_set(e, ERR_INTERNAL, EBADMSG, "the egress plan is broken");
	for (size_t i = 0; i < n; i++) {
		credential(w, &p->credentials.v[i]);
		if (read_secret(w, &p->secrets[i], p->credentials.v[i].name, e) < 0)
			return -e->code;
		p->credentials.n++;
	}
	return 0;
}

int egress_plan_write(const struct egress_plan *p, struct buf *out, struct err *e)
{
	struct wire w = { .out = out };
	struct egress_plan copy = *p;
	size_t n = p->credentials.n;

	buf_puts(out, MAGIC " ");
	fields_of(&w, &copy);
	(void)list(&w, copy.credentials.v, &n, sizeof(*copy.credentials.v));
	for (size_t i = 0; i < n; i++) {
		struct secret *s = &copy.secrets[i];

		credential(&w, &copy.credentials.v[i]);
		text(&w, &s->placeholder);
		bytes(&w, &s->value, &s->len);
	}
	return out->failed ? err_nomem(e) : 0;
}

int egress_plan_read(const char *p, size_t n, struct egress_plan **ret, struct err *e)
{
	CLEANUP(egress_plan) struct egress_plan *plan = calloc(1, sizeof(*plan));
	struct wire w = { .at = p + sizeof(MAGIC), .end = p + n };

	if (!plan || !(plan->arena = arena_new(PLAN_BYTES)))
		return err_nomem(e);
	if (n < sizeof(MAGIC) || memcmp(p, MAGIC " ", sizeof(MAGIC)) != 0 || p[n - 1] != ' ')
		return err_set(e, ERR_INTERNAL, EBADMSG, "not an egress plan");
	w.arena = plan->arena;
	fields_of(&w, plan);
	if (read_credentials(&w, plan, e) < 0)
		return -e->code;
	if (w.failed || w.at != w.end)
		return err_set(e, ERR_INTERNAL, EBADMSG, "the egress plan is broken");
	*ret = TAKE_PTR(plan);
	return 0;
}
