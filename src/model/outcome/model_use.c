/* SPDX-License-Identifier: Apache-2.0 */
#include "model/outcome/model_use.h"

#include <stdio.h>
#include <string.h>

#include "base/text/str.h"
#include "model/outcome/outcome.h"

#define ROWS_MAX 64

static struct model_use *model_use_row(struct outcome *o, const char *host, const char *model)
{
	struct model_use *row;
	size_t i = 0;

	while (i < o->model_count &&
	       !(str_eq(o->models[i].host, host) && str_eq(o->models[i].model, model)))
		i++;
	if (i < o->model_count)
		return &o->models[i];
	if (o->model_count >= ROWS_MAX - 1 && (*host || *model))
		return model_use_row(o, "", "");
	row = ARENA_PUSH(o->arena, o->models, o->model_count);
	if (!row)
		return o->model_count ? &o->models[o->model_count - 1] : NULL;
	*row = (struct model_use){ .host = arena_strdup(o->arena, host),
				   .model = arena_strdup(o->arena, model) };
	if (!row->host || !row->model)
		row->host = row->model = "";
	return row;
}

void outcome_use(struct outcome *o, const struct model_use *u)
{
	struct model_use *row = model_use_row(o, u->host, u->model);

	if (!row)
		return;
	row->calls += u->calls;
	row->estimated += u->estimated;
	row->uncounted += u->uncounted;
	row->in += u->in;
	row->cached += u->cached;
	row->out += u->out;
	row->cost += u->cost;
	row->unpriced += u->unpriced;
}

void model_cost_text(uint64_t cost, char out[MODEL_COST_SIZE])
{
	uint64_t micro = cost / 1000 + (cost % 1000 > 0);

	(void)snprintf(out, MODEL_COST_SIZE, "%llu.%06llu", (unsigned long long)(micro / 1000000),
		       (unsigned long long)(micro % 1000000));
}

static void model_use_numbers(const struct model_use *u, struct json *j)
{
	char cost[MODEL_COST_SIZE];

	json_ku64(j, "calls", u->calls);
	json_ku64(j, "tokens_in", u->in);
	json_ku64(j, "tokens_cached", u->cached);
	json_ku64(j, "tokens_out", u->out);
	json_key(j, "cost_usd");
	model_cost_text(u->cost, cost);
	json_raw(j, cost, strlen(cost));
	json_ku64(j, "unpriced", u->unpriced);
	json_ku64(j, "estimated", u->estimated);
	json_ku64(j, "uncounted", u->uncounted);
}

void model_use_json(const struct outcome *o, struct json *j)
{
	struct model_use all = { 0 };

	if (!o->model_count)
		return;
	json_karray(j, "models");
	for (size_t i = 0; i < o->model_count; i++) {
		const struct model_use *u = &o->models[i];

		json_object(j);
		json_kstr(j, "host", *u->host ? u->host : NULL);
		json_kstr(j, "model", *u->model ? u->model : NULL);
		model_use_numbers(u, j);
		json_object_end(j);
		all.calls += u->calls;
		all.in += u->in;
		all.cached += u->cached;
		all.out += u->out;
		all.cost += u->cost;
		all.unpriced += u->unpriced;
		all.estimated += u->estimated;
		all.uncounted += u->uncounted;
	}
	json_array_end(j);
	json_kobject(j, "used");
	model_use_numbers(&all, j);
	json_object_end(j);
}
