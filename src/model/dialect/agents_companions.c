/* SPDX-License-Identifier: Apache-2.0 */
/* model/dialect/agents_companions.c - the services beside an agents-sandbox, with their health
 * checks. */
#include <string.h>
#include <strings.h>

#include "base/text/str.h"
#include "model/dialect/agents.h"
#include "model/dialect/companions.h"
#include "model/dialect/foreign.h"

#define NAME_MAX_BYTES 63 /* it is a host name inside */
#define RETRIES_MAX 1000000

static bool name_valid(const char *name)
{
	static const char inner[] =
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-";
	size_t n = strlen(name);

	return n && n <= NAME_MAX_BYTES && strspn(name, inner) == n && !strchr("_-", name[0]) &&
	       !strchr("_-", name[n - 1]) && strcasecmp(name, "localhost") != 0;
}

static int read_health(struct spec *s, const struct source *src, const struct node *map,
		       struct health_spec *h, struct err *e)
{
	static const char *const keys[] = { "test",         "interval",       "timeout", "retries",
					    "start_period", "start_interval", NULL };
	const struct {
		const char *key;
		uint64_t *at;
	} times[] = { { "interval", &h->interval },
		      { "timeout", &h->timeout },
		      { "start_period", &h->start_period },
		      { "start_interval", &h->start_interval } };
	const struct node *test = node_get(map, "test"), *retries = node_get(map, "retries"), *n;

	if (read_only_keys(src, map, keys, "healthcheck", e) < 0)
		return -e->code;
	if (!test)
		return node_error(src->name, map, e, "healthcheck: 'test' is missing");
	if (foreign_strings(s, src, test, &h->test, e) < 0 ||
	    companion_check_test(src, test, &h->test, e) < 0)
		return -e->code;
	for (size_t i = 0; i < ARRAY_LEN(times); i++)
		if ((n = node_get(map, times[i].key)) &&
		    agents_duration(src, n, times[i].at, e) < 0)
			return -e->code;
	if (retries && retries->kind != NODE_NULL)
		return foreign_whole(src, retries, 0, RETRIES_MAX, "times", &h->retries, e);
	return 0;
}

static int read_limits_agents(const struct source *src, const struct node *map,
			      struct companion_spec *c, struct err *e)
{
	const struct node *cpus = node_get(map, "cpu_limit"),
			  *memory = node_get(map, "memory_limit"),
			  *disk = node_get(map, "disk_limit");

	if (cpus && agents_cpus(src, cpus, &c->cpus, e) < 0)
		return -e->code;
	if (memory && agents_size(src, memory, &c->memory, e) < 0)
		return -e->code;
	return disk ? agents_size(src, disk, &c->disk, e) : 0;
}

static int read_commands(struct spec *s, const struct source *src, const struct node *map,
			 struct companion_spec *c, struct err *e)
{
	const struct node *command = node_get(map, "command"),
			  *hooks = node_get(map, "post_start_on_primary");

	if (command && agents_command(s, src, command, &c->command, e) < 0)
		return -e->code;
	if (!hooks)
		return 0;
	if (foreign_strings(s, src, hooks, &c->post_start, e) < 0)
		return -e->code;
	if (c->post_start.n && !companion_is_checked(c)) {
		(void)node_error(src->name, hooks, e,
				 "post_start_on_primary of '%s' needs a healthcheck", c->name);
		return err_hint(e, "the commands run once the companion is healthy");
	}
	return 0;
}

static int read_companion(struct spec *s, const struct source *src, const struct node *n,
			  struct companion_spec *c, struct err *e)
{
	static const char *const keys[] = { "image",      "envs",         "healthcheck",
					    "command",    "cpu_limit",    "post_start_on_primary",
					    "disk_limit", "memory_limit", NULL };
	const struct node *image = node_get(n, "image"), *health = node_get(n, "healthcheck"),
			  *envs = node_get(n, "envs");

	if (!name_valid(n->key)) {
		(void)node_key_error(src->name, n, e, "companion '%.60s' is not a host name",
				     n->key);
		return err_hint(e, "letters, digits, '-' and '_', at most 63 of them");
	}
	if (read_only_keys(src, n, keys, n->key, e) < 0)
		return -e->code;
	if (!image || image->kind == NODE_NULL)
		return node_key_error(src->name, n, e, "companion '%.60s' has no image", n->key);
	if (foreign_image(src, image, e) < 0)
		return -e->code;
	c->name = arena_strdup(s->arena, n->key);
	c->image = arena_strdup(s->arena, image->text);
	c->network = NETWORK_BRIDGE; /* as that page has it */
	if (!c->name || !c->image)
		return err_nomem(e);
	if (envs && agents_envs(s, src, envs, &c->env, e) < 0)
		return -e->code;
	if (health && health->kind != NODE_NULL && read_health(s, src, health, &c->health, e) < 0)
		return -e->code;
	return read_limits_agents(src, n, c, e) < 0 ? -e->code : read_commands(s, src, n, c, e);
}

/* The file's keys are unique; names are not, where only the case differs. */
static int check_twin(const struct source *src, const struct node *map, const struct node *n,
		      struct err *e)
{
	for (const struct node *m = map->first; m != n; m = m->next)
		if (strcasecmp(m->key, n->key) == 0)
			return node_key_error(src->name, n, e,
					      "companions '%.60s' and '%.60s' are one name", m->key,
					      n->key);
	return 0;
}

int agents_companions(struct spec *s, const struct source *src, const struct node *map,
		      struct err *e)
{
	bool ours;

	if (map->kind != NODE_MAP && map->kind != NODE_NULL)
		return node_error(src->name, map, e, "companion_containers: expected a map, not %s",
				  node_kind_name(map->kind));
	if (map->count > COMPANIONS_MAX)
		return node_error(src->name, map, e, "more than %d companions", COMPANIONS_MAX);
	ours = spec_list_begin(s, FIELD_COMPANIONS, src->origin);
	for (const struct node *n = map->first; n; n = n->next) {
		struct companion_spec c = { 0 }, *slot;

		if (check_twin(src, map, n, e) < 0 || read_companion(s, src, n, &c, e) < 0)
			return -e->code;
		if (!ours)
			continue;
		slot = ARENA_PUSH(s->arena, s->companions.v, s->companions.n);
		if (!slot)
			return err_nomem(e);
		*slot = c;
	}
	return read_where(s, src, FIELD_COMPANIONS, map, e);
}
