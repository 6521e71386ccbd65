/* SPDX-License-Identifier: Apache-2.0 */
/* model/outcome/model_use.h - what a run used of language models, as its result tells it: a row for
 * each host and model. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes/json.h"

struct outcome;

struct model_use {
	const char *host, *model; /* "": it said none */
	uint64_t calls, estimated, uncounted;
	uint64_t in, cached, out; /* tokens */
	uint64_t cost;            /* thousand-millionth parts of a USD, of those with a price */
	uint64_t unpriced;        /* calls whose price is not known */
};

/* Adds one; its texts are copied. Beyond a number of rows all are in one without names. */
void outcome_use(struct outcome *o, const struct model_use *u);

/* The members of "egress" that tell it; none when there was no call. */
void model_use_json(const struct outcome *o, struct json *j);

/* A cost as people write it: 1.250000. */
enum { MODEL_COST_SIZE = 32 };
void model_cost_text(uint64_t cost, char out[MODEL_COST_SIZE]);
