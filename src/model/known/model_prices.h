/* SPDX-License-Identifier: Apache-2.0 */
/* model/known/model_prices.h - APIs of language models: their hosts, which of their paths answer
 * with a count of tokens, and what a token costs.
 *
 * Data alone. Vendors change their prices, so a table has a date; egress.prices says others. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define MODEL_PRICES_DATE "2026-05"

/* Thousandths of a USD for a million tokens, of a vendor's ordinary tier. */
struct model_price {
	const char *model; /* as the API calls it, without its date; NULL: the last */
	uint32_t in, cached, written, out;
	bool longer; /* past 200,000 tokens of a request twice for them, and half more for the rest
		      */
};

extern const struct model_price model_prices[];

/* With one "*", which stands for anything. Ended by NULL. */
extern const char *const model_hosts[];

/* Ends of paths. Of a free one no tokens are counted: nothing is made there. */
enum model_path { MODEL_PATH_OTHER, MODEL_PATH_COUNTED, MODEL_PATH_FREE };
struct model_ending {
	const char *text; /* NULL: the last */
	enum model_path is;
};
extern const struct model_ending model_endings[];
