/* SPDX-License-Identifier: Apache-2.0 */
/* apps/learn/learn_hosts.c - requests as rules: never a name that was not asked for, never a method
 * that was not used; a path as far as all requests have it in common. */
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "apps/learn/learn_text.h"
#include "base/text/str.h"
#include "model/settings/rule.h"

#define RULE_ROOM 1024

int learn_line(struct learn_text *t, struct learned_list *l, const char *text, uint64_t count,
	       uint64_t first_us, struct err *e)
{
	struct learned_line *slot;

	for (size_t i = 0; i < l->n; i++)
		if (str_eq(l->v[i].text, text)) {
			if (count && (!l->v[i].count || first_us < l->v[i].first_us))
				l->v[i].first_us = first_us;
			l->v[i].count += count;
			return 0;
		}
	slot = ARENA_PUSH(t->arena, l->v, l->n);
	if (!slot)
		return err_nomem(e);
	*slot = (struct learned_line){ arena_strdup(t->arena, text), count, first_us };
	return slot->text ? 0 : err_nomem(e);
}

static bool is_git(const struct seen_request *r)
{
	return str_eq(r->method, "fetch") || str_eq(r->method, "push");
}

static bool is_websocket(const struct seen_request *r)
{
	return str_eq(r->method, "ws");
}

/* A tunnel, or a host that no rule about requests would do for. */
static bool is_whole(const struct seen_request *r)
{
	return r->unruly || (!is_git(r) && !is_websocket(r) && !method_valid(r->method));
}

static bool same_host(const struct seen_request *a, const struct seen_request *b)
{
	return a->port == b->port && str_eq(a->host, b->host);
}

static bool whole_host(const struct sightings *s, const struct seen_request *r)
{
	for (size_t i = 0; i < s->n_requests; i++)
		if (same_host(&s->requests[i], r) && is_whole(&s->requests[i]))
			return true;
	return false;
}

/* All methods that have the same path in common stand before it. */
static void put_methods(const struct sightings *s, const struct seen_request *r, struct buf *out)
{
	size_t n = 0;

	for (size_t i = 0; i < s->n_requests; i++) {
		const struct seen_request *o = &s->requests[i];

		if (same_host(o, r) && !is_git(o) && !is_websocket(o) && str_eq(o->path, r->path))
			buf_printf(out, "%s%s", n++ ? "," : "", o->method);
	}
	buf_putc(out, ' ');
}

static void put_place(const struct seen_request *r, const char *path, struct buf *out)
{
	buf_puts(out, r->host);
	if (r->port != 443)
		buf_printf(out, ":%u", r->port);
	if (path[0] && !str_eq(path, "/"))
		buf_puts(out, path);
}

static void put_rule(const struct sightings *s, const struct seen_request *r, bool whole,
		     struct buf *out)
{
	if (is_websocket(r)) {
		buf_puts(out, "ws:");
		put_place(r, whole ? "" : r->path, out);
		return;
	}
	if (whole) {
		put_place(r, "", out);
		return;
	}
	if (is_git(r))
		buf_printf(out, "%s:", r->method);
	else
		put_methods(s, r, out);
	put_place(r, r->path, out);
}

/* Does the rule mean this very host and port, however they are spelt? */
static bool holds(struct arena *a, const char *text, const struct seen_request *r)
{
	struct rule rule;
	struct err e;

	return rule_parse(a, text, &rule, &e) == 0 && !rule.group && rule.host[0] != '*' &&
	       strcasecmp(rule.host, r->host) == 0 &&
	       (rule.n_ports ? rule.n_ports == 1 && rule.ports[0] == r->port : r->port == 443) &&
	       rule_check_allow(&rule, &e) == 0;
}

/* What no rule can name is told, and not allowed. */
static int add_request(struct learn_text *t, const struct seen_request *r, struct err *e)
{
	CLEANUP(buf) struct buf rule = BUF_INIT(RULE_ROOM);

	put_rule(t->seen, r, whole_host(t->seen, r), &rule);
	return learn_line(t,
			  !rule.failed && holds(t->arena, buf_str(&rule), r) ? &t->allow : &t->odd,
			  buf_str(&rule), r->count, r->first_us, e);
}

/* A star in either would stand for more than was asked for. */
static bool learn_is_field(const struct seen_field *f)
{
	static const char letters[] =
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-";
	size_t host = strspn(f->host, letters), n = strlen(f->name);

	while (f->host[host] == '.')
		host += 1 + strspn(f->host + host + 1, letters);
	return host && !f->host[host] && n && n <= 120 && strspn(f->name, letters) == n;
}

static bool needs_fields(const struct sightings *s, const char *host)
{
	for (size_t i = 0; i < s->n_requests; i++)
		if (str_eq(s->requests[i].host, host) && !whole_host(s, &s->requests[i]))
			return true;
	return false;
}

static int add_seen_field(struct learn_text *t, const struct seen_field *f, struct err *e)
{
	char text[RULE_ROOM];

	if (!needs_fields(t->seen, f->host))
		return 0;
	(void)snprintf(text, sizeof(text), "%s %s", f->host, f->name);
	return learn_line(t, learn_is_field(f) ? &t->fields : &t->odd, text, 1, 0, e);
}

static int add_earlier(struct learn_text *t, struct learned_list *l, const struct strlist *from,
		       struct err *e)
{
	for (size_t i = 0; i < from->n; i++)
		if (learn_line(t, l, from->v[i], 0, 0, e) < 0)
			return -e->code;
	return 0;
}

int learn_hosts(struct learn_text *t, struct err *e)
{
	if (t->add && (add_earlier(t, &t->allow, &t->add->egress.allow, e) < 0 ||
		       add_earlier(t, &t->fields, &t->add->egress.fields, e) < 0))
		return -e->code;
	for (size_t i = 0; i < t->seen->n_requests; i++)
		if (add_request(t, &t->seen->requests[i], e) < 0)
			return -e->code;
	for (size_t i = 0; i < t->seen->n_fields; i++)
		if (add_seen_field(t, &t->seen->fields[i], e) < 0)
			return -e->code;
	return 0;
}
