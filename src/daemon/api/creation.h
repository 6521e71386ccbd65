/* SPDX-License-Identifier: Apache-2.0 */
/* daemon/api/creation.h - wait until a new sandbox is ready, or never will be. */
#pragma once

#include "daemon/api/api.h"

typedef void creation_fn(struct api *a, struct http_call *c, const char *id);

struct creation_end {
	creation_fn *settled; /* to be answered */
	creation_fn *gone;    /* the caller has left before that */
};

/* Events up to `before` are of no interest: where the log ended when the sandbox was not there yet,
 * so that none of them is read. Exactly one of *end is called, and not from within this
 * call. -ENOMEM: nobody waits. */
int creation_wait(struct api *a, struct http_call *c, const char *id,
		  const struct events_cursor *before, const struct creation_end *end);
