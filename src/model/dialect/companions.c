/* SPDX-License-Identifier: Apache-2.0 */
#include "model/dialect/companions.h"

#include <string.h>

#include "base/text/num.h"
#include "base/text/str.h"
#include "model/dialect/brigyaml.h"
#include "model/settings/envrules.h"
#include "model/settings/paths.h"
#include "model/settings/spec_lists.h"

#define TEST_WORDS 64
#define NAME_BYTES 63 /* it is a host name inside */
#define PRIMARY "sandbox"

const struct companion_key companion_keys[] = {
	{ "command", "the service's program and its arguments: of the host's own, or of the image",
	  COMPANION_TEXTS },
	{ "image", "a container image; without a command, what it runs by itself; docker alone",
	  COMPANION_TEXT },
	{ "env", "variables of the companion; never shown again", COMPANION_PAIRS },
	{ "data", "a folder inside that is on disk and stays until the sandbox is deleted",
	  COMPANION_TEXT },
	{ "healthcheck", "when it is ready; without one, as soon as it runs", COMPANION_HEALTH },
	{ "post_start_on_primary", "lines for sh in the sandbox, once the companion is healthy",
	  COMPANION_TEXTS },
	{ "limits", "its own, apart from the sandbox's", COMPANION_LIMITS },
	{ "network",
	  "what else it reaches: none, proxy (what egress allows the sandbox, without credentials) "
	  "or "
	  "bridge (the internet and nothing nearer)",
	  COMPANION_NETWORK },
	{ "user", "UID[:GID] inside; never 0", COMPANION_TEXT },
	{ 0 },
};

const struct companion_key companion_health_keys[] = {
	{ "test", "[CMD, PROGRAM, ARG...], [CMD-SHELL, LINE] or [NONE]", COMPANION_TEXTS },
	{ "interval", "from the end of one check to the next; 1s", COMPANION_TEXT },
	{ "timeout", "of one check; 5s", COMPANION_TEXT },
	{ "retries", "failures in a row that are too many; 30", COMPANION_TEXT },
	{ "start_period", "failures are not counted so long", COMPANION_TEXT },
	{ 0 },
};

const struct companion_key companion_limit_keys[] = {
	{ "memory", "as limits.memory", COMPANION_TEXT },
	{ "cpus", "as limits.cpus", COMPANION_TEXT },
	{ "pids", "as limits.pids", COMPANION_TEXT },
	{ "disk", "as limits.disk", COMPANION_TEXT },
	{ 0 },
};

/* ---- parts of an entry ---- */

static int only_keys(const struct source *src, const struct node *map,
		     const struct companion_key *keys, const char *in, struct err *e)
{
	const char *names[16] = { NULL };

	for (size_t i = 0; keys[i].name && i + 1 < ARRAY_LEN(names); i++)
		names[i] = keys[i].name;
	return read_only_keys(src, map, names, in, e);
}

typedef int number_fn(const char *text, uint64_t *ret);

static int read_number(const struct source *src, const struct node *map, const char *key,
		       number_fn *read, uint64_t *ret, struct err *e)
{
	const struct node *n = brigyaml_member(map, key);

	if (!n)
		return 0;
	if (brigyaml_want(src, n, NODE_SCALAR, e) < 0)
		return -e->code;
	if (read(n->text, ret) < 0 || !*ret)
		return node_error(src->name, n, e, "%s: '%.40s' is not a value for this", key,
				  n->text);
	return 0;
}

int companion_check_test(const struct source *src, const struct node *n, const struct strlist *test,
			 struct err *e)
{
	static const char *const words[] = { "CMD", "CMD-SHELL", "NONE", NULL };
	const char *near;
	bool ok;

	if (!test->n)
		return node_error(src->name, n, e, "healthcheck.test is empty");
	ok = str_eq(test->v[0], "CMD")         ? test->n >= 2
	     : str_eq(test->v[0], "CMD-SHELL") ? test->n == 2
					       : test->n == 1;
	ok = ok && test->n <= TEST_WORDS;
	near = str_nearest(test->v[0], words);
	if (!near || !str_eq(near, test->v[0])) {
		(void)node_error(src->name, n, e,
				 "healthcheck.test begins with '%.40s', not CMD, CMD-SHELL or NONE",
				 test->v[0]);
		return near ? err_hint(e, "did you mean '%s'?", near) : -e->code;
	}
	if (!ok) {
		(void)node_error(src->name, n, e, "healthcheck.test: wrong number of words for %s",
				 test->v[0]);
		return err_hint(e, "[CMD, PROGRAM, ARG...], [CMD-SHELL, \"LINE\"] or [NONE]");
	}
	return 0;
}

static int read_health(struct spec *s, const struct source *src, const struct node *n,
		       struct health_spec *h, struct err *e)
{
	const struct node *test = n ? brigyaml_member(n, "test") : NULL;

	if (!n)
		return 0;
	if (brigyaml_want(src, n, NODE_MAP, e) < 0 ||
	    only_keys(src, n, companion_health_keys, "healthcheck", e) < 0)
		return -e->code;
	if (!test)
		return node_error(src->name, n, e, "healthcheck: 'test' is missing");
	if (brigyaml_strings(s->arena, src, n, "test", &h->test, e) < 0 ||
	    companion_check_test(src, test, &h->test, e) < 0 ||
	    read_number(src, n, "interval", num_duration, &h->interval, e) < 0 ||
	    read_number(src, n, "timeout", num_duration, &h->timeout, e) < 0 ||
	    read_number(src, n, "start_period", num_duration, &h->start_period, e) < 0)
		return -e->code;
	return read_number(src, n, "retries", num_count, &h->retries, e);
}

static int read_env(struct spec *s, const struct source *src, const struct node *map,
		    struct envlist *ret, struct err *e)
{
	if (!map)
		return 0;
	if (brigyaml_want(src, map, NODE_MAP, e) < 0)
		return -e->code;
	for (const struct node *n = map->first; n; n = n->next) {
		const char *text;

		if (brigyaml_want(src, n, NODE_SCALAR, e) < 0)
			return -e->code;
		if (!env_name_valid(n->key))
			return node_key_error(src->name, n, e, "'%.60s' is not a variable name",
					      n->key);
		text = arena_printf(s->arena, "%s=%s", n->key, n->text);
		if (!text || list_add_env(s->arena, ret, text, e) < 0)
			return text ? read_failed(src, n, e) : err_nomem(e);
	}
	return 0;
}

/* A number in a file may be seen as one (retries: 3): its text is what counts. */
static int companions_read_limits(const struct source *src, const struct node *n,
				  struct companion_spec *c, struct err *e)
{
	if (!n)
		return 0;
	if (brigyaml_want(src, n, NODE_MAP, e) < 0 ||
	    only_keys(src, n, companion_limit_keys, "limits", e) < 0 ||
	    read_number(src, n, "cpus", num_milli, &c->cpus, e) < 0 ||
	    read_number(src, n, "memory", num_size, &c->memory, e) < 0 ||
	    read_number(src, n, "pids", num_count, &c->pids, e) < 0)
		return -e->code;
	return read_number(src, n, "disk", num_size, &c->disk, e);
}

static int read_network(const struct source *src, const struct node *n, struct companion_spec *c,
			struct err *e)
{
	const char *const *words = fields[FIELD_NETWORK].words;

	if (!n)
		return 0;
	if (brigyaml_want(src, n, NODE_SCALAR, e) < 0)
		return -e->code;
	for (int i = 0; i < NETWORK_HOST && words[i]; i++)
		if (str_eq(words[i], n->text)) {
			c->network = (enum network)i;
			return 0;
		}
	(void)node_error(src->name, n, e, "network: '%.40s' is none of none, proxy, bridge",
			 n->text);
	return str_eq(n->text, "host") ? err_hint(e, "a companion never has the host's own network")
				       : -e->code;
}

/* Anything of the spec is the caller's to check; this is what it means for ids. */
static int read_user(struct spec *s, const struct source *src, const struct node *n,
		     struct companion_spec *c, struct err *e)
{
	CLEANUP(spec) struct spec *scratch = n ? spec_new(e) : NULL;

	if (!n)
		return 0;
	if (!scratch)
		return -e->code;
	if (brigyaml_want(src, n, NODE_SCALAR, e) < 0)
		return -e->code;
	if (spec_set(scratch, FIELD_USER, n->text, src->origin, e) < 0)
		return read_failed(src, n, e);
	c->user = arena_strdup(s->arena, n->text);
	return c->user ? 0 : err_nomem(e);
}

static int read_data(struct spec *s, const struct source *src, const struct node *n,
		     struct companion_spec *c, struct err *e)
{
	if (!n)
		return 0;
	if (brigyaml_want(src, n, NODE_SCALAR, e) < 0)
		return -e->code;
	if (target_check(n->text, WORKSPACE_PLACE, e) < 0)
		return read_failed(src, n, e);
	c->data = arena_strdup(s->arena, n->text);
	return c->data ? 0 : err_nomem(e);
}

/* ---- an entry ---- */

static bool name_valid(const char *name)
{
	size_t n = strlen(name);

	if (!n || n > NAME_BYTES || name[0] == '-' || name[n - 1] == '-')
		return false;
	return strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789-_") == n &&
	       !str_eq(name, "localhost") && !str_eq(name, "brig") && !str_eq(name, PRIMARY);
}

bool companion_is_checked(const struct companion_spec *c)
{
	return c->health.test.n && !str_eq(c->health.test.v[0], "NONE");
}

static int read_what(struct spec *s, const struct source *src, const struct node *n,
		     struct companion_spec *c, struct err *e)
{
	const struct node *image = brigyaml_member(n, "image");

	if (image && brigyaml_want(src, image, NODE_SCALAR, e) < 0)
		return -e->code;
	if (image && !(c->image = arena_strdup(s->arena, image->text)))
		return err_nomem(e);
	if (brigyaml_strings(s->arena, src, n, "command", &c->command, e) < 0)
		return -e->code;
	if (!image && (!c->command.n || !*c->command.v[0])) {
		(void)node_key_error(src->name, n, e, "companion '%.60s' has no command", n->key);
		return err_hint(e, "command: [PROGRAM, ARG...]");
	}
	return 0;
}

static int read_hooks(struct spec *s, const struct source *src, const struct node *n,
		      struct companion_spec *c, struct err *e)
{
	const struct node *hooks = brigyaml_member(n, "post_start_on_primary");

	if (brigyaml_strings(s->arena, src, n, "post_start_on_primary", &c->post_start, e) < 0)
		return -e->code;
	if (!c->post_start.n || companion_is_checked(c))
		return 0;
	(void)node_error(src->name, hooks, e, "post_start_on_primary of '%s' needs a healthcheck",
			 n->key);
	return err_hint(e, "the commands run once the companion is healthy");
}

static int read_one(struct spec *s, const struct source *src, const struct node *n,
		    struct companion_spec *c, struct err *e)
{
	if (!name_valid(n->key)) {
		(void)node_key_error(src->name, n, e, "companion '%.60s' is not a host name",
				     n->key);
		return err_hint(e, "small letters, digits, '-' and '_', at most 63 of them; not "
				   "localhost, brig or " PRIMARY);
	}
	if (brigyaml_want(src, n, NODE_MAP, e) < 0 ||
	    only_keys(src, n, companion_keys, "a companion", e) < 0 ||
	    read_what(s, src, n, c, e) < 0 ||
	    read_env(s, src, brigyaml_member(n, "env"), &c->env, e) < 0 ||
	    read_health(s, src, brigyaml_member(n, "healthcheck"), &c->health, e) < 0 ||
	    read_hooks(s, src, n, c, e) < 0 ||
	    companions_read_limits(src, brigyaml_member(n, "limits"), c, e) < 0 ||
	    read_network(src, brigyaml_member(n, "network"), c, e) < 0 ||
	    read_user(s, src, brigyaml_member(n, "user"), c, e) < 0 ||
	    read_data(s, src, brigyaml_member(n, "data"), c, e) < 0)
		return -e->code;
	c->name = arena_strdup(s->arena, n->key);
	return c->name ? 0 : err_nomem(e);
}

int companions_read(struct spec *s, const struct source *src, const struct node *map, struct err *e)
{
	bool counts;

	if (map->kind != NODE_NULL && brigyaml_want(src, map, NODE_MAP, e) < 0)
		return -e->code;
	if (map->count > COMPANIONS_MAX)
		return node_error(src->name, map, e, "more than %d companions", COMPANIONS_MAX);
	counts = spec_list_begin(s, FIELD_COMPANIONS, src->origin);
	for (const struct node *n = map->first; n; n = n->next) {
		struct companion_spec c = { 0 }, *slot;

		if (read_one(s, src, n, &c, e) < 0)
			return -e->code;
		if (!counts)
			continue;
		slot = ARENA_PUSH(s->arena, s->companions.v, s->companions.n);
		if (!slot)
			return err_nomem(e);
		*slot = c;
	}
	return read_where(s, src, FIELD_COMPANIONS, map, e);
}

/* ---- what they mean for a sandbox ---- */

static int cannot(const struct companion_spec *c, const char *hint, const char *what, struct err *e)
{
	return err_refuse(e, ERR_UNAVAILABLE, ENOTSUP, hint, "companion '%s': %s", c->name, what);
}

int companions_check(const struct spec *s, bool containers, struct err *e)
{
	if (s->companions.n && s->network == NETWORK_HOST)
		return err_refuse(e, ERR_UNAVAILABLE, ENOTSUP, "use network none, proxy or bridge",
				  "a sandbox with companions cannot have the host's own network");
	if (s->companions.n > COMPANIONS_MAX)
		return err_set(e, ERR_CONFIG, E2BIG, "more than %d companions", COMPANIONS_MAX);
	for (size_t i = 0; i < s->companions.n; i++) {
		const struct companion_spec *c = &s->companions.v[i];

		if (c->image && !containers)
			return cannot(c,
				      "name a program of this machine: command: [PROGRAM, ARG...]; "
				      "or use --backend docker",
				      "an image cannot be run on native", e);
		if (c->network == NETWORK_PROXY && s->egress.upstream_login)
			return cannot(c, "use network none or bridge for it",
				      "egress.upstream_login is a credential, and its door has "
				      "none",
				      e);
	}
	return 0;
}

int companions_place(struct spec *s, struct err *e)
{
	s->members = (struct memberlist){ 0 };
	for (size_t i = 0; s->companions.n && i <= s->companions.n; i++) {
		struct member_spec *m = ARENA_PUSH(s->arena, s->members.v, s->members.n);

		if (!m)
			return err_nomem(e);
		m->name = i ? s->companions.v[i - 1].name : PRIMARY;
		m->address = arena_printf(s->arena, MEMBERS_NET "%zu", i + 1);
		if (!m->address)
			return err_nomem(e);
	}
	return 0;
}
