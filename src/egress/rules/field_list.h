/* SPDX-License-Identifier: Apache-2.0 */
/* egress/rules/field_list.h - a field or parameter at certain hosts, as a setting names it:
 *
 *     HOST NAME       a field of the head, in any case
 *     HOST PREFIX*    every field whose name begins so
 *     HOST ?NAME      a parameter of the query
 *
 * HOST is that of a rule: a name, or "*.name" for what lies below it. Pure. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/text/arena.h"
#include "base/text/err.h"
#include "egress/rules/host.h"
#include "model/settings/spec.h"

struct listed_field {
	const char *host, *name;
	bool query, prefix;
};

struct field_list {
	struct listed_field *v;
	size_t n;
};

/* The texts are checked and copied. `parameters`: "?NAME" is one of them. */
int field_list_read(struct arena *a, const struct strlist *texts, bool parameters,
		    struct field_list *ret, struct err *e);
bool field_list_has(const struct field_list *p, const struct host *host, struct egress_text name,
		    bool query);
