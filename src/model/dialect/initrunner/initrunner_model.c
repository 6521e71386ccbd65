/* SPDX-License-Identifier: Apache-2.0 */
/* model/dialect/initrunner/initrunner_model.c - spec.model, spec.role and spec.guardrails of a
 * role: who is talked to, with which words first, and how much of it there may be. */
#include <stdio.h>
#include <string.h>

#include "base/text/num.h"
#include "base/text/str.h"
#include "model/dialect/initrunner/initrunner.h"

#define COUNT_MAX ((uint64_t)1 << 40)
#define TEXT_MAX ((size_t)1 << 20)

static const struct role_bounds any = { 1, COUNT_MAX }, calls = { 0, COUNT_MAX };

static int read_decimal(const struct role_reader *r, const struct node *map, const char *key,
			uint64_t max, uint64_t *ret, struct err *e)
{
	const struct node *n = node_get(map, key);
	const char *text = NULL;
	uint64_t v;

	if (n && read_text(r->src, n, &text, e) < 0)
		return -e->code;
	if (!text)
		return 0;
	if (num_milli(text, &v) < 0 || v > max)
		return node_error(r->src->name, n, e, "%s '%.40s' is not a number from 0 to %llu",
				  key, text, (unsigned long long)max / 1000);
	*ret = v;
	return 0;
}

/* "provider:model" in one word is as good as two. */
static int split_name(struct role_reader *r, struct chat_spec *c, struct err *e)
{
	const char *colon = c->name && !c->provider ? strchr(c->name, ':') : NULL;

	if (!colon)
		return 0;
	c->provider = arena_strndup(r->s->arena, c->name, (size_t)(colon - c->name));
	c->name = colon + 1;
	return c->provider ? 0 : err_nomem(e);
}

/* A role without a slip is other commands' affair; only who talks to the model is kept from it. */
static int note_slip(struct role_reader *r, const struct node *map, const char *const *keys,
		     const char *in, struct chat_spec *c, struct err *e)
{
	struct err slip = { 0 };

	if (c->slip || role_near_keys(r, map, keys, in, &slip) == 0)
		return 0;
	c->slip = arena_printf(r->s->arena, "%s (%s)", slip.what, slip.hint);
	return c->slip ? 0 : err_nomem(e);
}

static int read_model(struct role_reader *r, const struct node *model, struct chat_spec *c,
		      struct err *e)
{
	static const char *const keys[] = { "provider",    "name",       "base_url", "api_key_env",
					    "temperature", "max_tokens", NULL };
	static const struct role_bounds tokens = { 1, 128000 };

	if (!model || model->kind == NODE_NULL)
		return 0;
	if (model->kind != NODE_MAP)
		return node_error(r->src->name, model, e, "model: expected a map, not %s",
				  node_kind_name(model->kind));
	if (note_slip(r, model, keys, "model", c, e) < 0 ||
	    role_read_string(r, model, "provider", &c->provider, e) < 0 ||
	    role_read_string(r, model, "name", &c->name, e) < 0 ||
	    role_read_string(r, model, "base_url", &c->base_url, e) < 0 ||
	    role_read_string(r, model, "api_key_env", &c->key, e) < 0 ||
	    read_decimal(r, model, "temperature", 2000, &c->temperature, e) < 0 ||
	    role_read_number(r, model, "max_tokens", &tokens, &c->answer_tokens, e) < 0)
		return -e->code;
	return split_name(r, c, e);
}

static int read_guardrails(struct role_reader *r, const struct node *g, struct chat_spec *c,
			   struct err *e)
{
	static const char *const keys[] = { "max_tokens_per_run", "max_tool_calls",
					    "timeout_seconds",    "max_request_limit",
					    "input_tokens_limit", "total_tokens_limit",
					    "cost_limit",         NULL };
	uint64_t seconds = c->timeout / 1000;

	if (!g || g->kind != NODE_MAP)
		return 0;
	if (note_slip(r, g, keys, "guardrails", c, e) < 0 ||
	    role_read_number(r, g, "max_tokens_per_run", &any, &c->out_tokens, e) < 0 ||
	    role_read_number(r, g, "max_tool_calls", &calls, &c->calls, e) < 0 ||
	    role_read_number(r, g, "timeout_seconds", &any, &seconds, e) < 0 ||
	    role_read_number(r, g, "max_request_limit", &any, &c->requests, e) < 0 ||
	    role_read_number(r, g, "input_tokens_limit", &any, &c->in_tokens, e) < 0 ||
	    role_read_number(r, g, "total_tokens_limit", &any, &c->tokens, e) < 0 ||
	    read_decimal(r, g, "cost_limit", COUNT_MAX, &c->cost, e) < 0)
		return -e->code;
	c->timeout = seconds * 1000;
	return 0;
}

/* What the role says to its model may have lines. */
static int read_words(struct role_reader *r, const struct node *n, struct chat_spec *c,
		      struct err *e)
{
	const char *text = NULL;

	if (n && read_text(r->src, n, &text, e) < 0)
		return -e->code;
	if (!text || !*text)
		return 0;
	if (strlen(text) > TEXT_MAX)
		return node_error(r->src->name, n, e, "role: longer than 1 MiB");
	c->prompt = arena_strdup(r->s->arena, text);
	return c->prompt ? 0 : err_nomem(e);
}

int role_read_model(struct role_reader *r, const struct node *spec, struct err *e)
{
	struct chat_spec c = { .temperature = 100,
			       .answer_tokens = 4096,
			       .out_tokens = 50000,
			       .calls = 20,
			       .timeout = 300000 };

	if (read_model(r, node_get(spec, "model"), &c, e) < 0 ||
	    read_words(r, node_get(spec, "role"), &c, e) < 0 ||
	    read_guardrails(r, node_get(spec, "guardrails"), &c, e) < 0)
		return -e->code;
	if (!c.requests)
		c.requests = c.calls + 10 > 30 ? c.calls + 10 : 30;
	c.prompt_chars = r->role->preset->prompt_max;
	r->s->chat = c;
	return 0;
}
