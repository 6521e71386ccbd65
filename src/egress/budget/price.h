/* SPDX-License-Identifier: Apache-2.0 */
/* egress/budget/price.h - what a call costs, by the name of its model: the user's own prices before
 * those that brig knows.
 *
 * A name is a model's when it is the same, or goes on with a date or as "-latest" or "-preview":
 * one that goes on otherwise is another model, of which nothing is known. What stands before a "/"
 * is somebody's who passes it on. */
#pragma once

#include "base/text/arena.h"
#include "base/text/err.h"
#include "egress/budget/usage.h"
#include "model/known/model_prices.h"
#include "model/settings/spec.h"

struct price_list {
	struct model_price *v;
	size_t n;
};

/* MODEL IN OUT [CACHED [WRITTEN]], in USD for a million tokens. */
int price_list_read(struct arena *a, const struct strlist *texts, struct price_list *ret,
		    struct err *e);

const struct model_price *price_find(const struct price_list *own, const char *model);

/* In thousand-millionth parts of a USD. */
uint64_t price_of(const struct model_price *p, const struct usage_sum *s);
