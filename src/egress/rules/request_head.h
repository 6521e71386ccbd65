/* SPDX-License-Identifier: Apache-2.0 */
/* egress/rules/request_head.h - a request head as the deciding half sees it: no framing, only names
 * and values.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/text/arena.h"
#include "egress/rules/host.h"

#define HEAD_FIELDS_MAX 128

struct egress_field {
	struct egress_text name, value;
	bool hashed; /* 64 hexadecimal digits in its value are a hash, which belongs there */
};

/* The texts are borrowed; what cred_apply and scan_head replace is allocated in the arena. */
struct egress_head {
	struct arena *arena;
	struct egress_text method, target; /* target in origin form: path and query */
	struct egress_field fields[HEAD_FIELDS_MAX];
	size_t n_fields;
};

bool egress_text_is(struct egress_text t, const char *word); /* in any case */

bool egress_method_valid(struct egress_text m); /* capitals and hyphens */

/* The first field of that name in any case; NULL: none. */
struct egress_field *head_field(struct egress_head *h, const char *name);
