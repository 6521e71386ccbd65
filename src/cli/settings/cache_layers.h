/* SPDX-License-Identifier: Apache-2.0 */
/* cli/settings/cache_layers.h - layers of overlay runs, in the list of `brig cache`. */
#pragma once

#include "base/bytes/json.h"
#include "base/text/buf.h"
#include "base/text/err.h"

/* As a table behind what `b` has, with a head of its own; nothing where there is none. */
int cache_layers_text(struct buf *b, int64_t now, struct err *e);
/* As the array `layers`. */
int cache_layers_json(struct json *j, struct err *e);
