/* SPDX-License-Identifier: Apache-2.0 */
/* egress/rules/allow_internal.h - the rules of a run as allow_compile.c makes them and allow.c
 * reads them. */
#ifndef BRIG_EGRESS_RULES_ALLOW_INTERNAL_H
#define BRIG_EGRESS_RULES_ALLOW_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/text/arena.h"
#include "base/text/str.h"
#include "egress/rules/allow.h"
#include "egress/rules/field_list.h"
#include "model/settings/rule.h"

struct rulelist {
	struct rule *v;
	size_t n;
};

struct pin {
	struct host host;
	struct addr addr;
	uint16_t port; /* 0: that of the connection */
};

struct egress_rules {
	struct arena *arena;
	struct rulelist allow, deny;
	struct pin *pins;
	size_t n_pins;
	uint32_t *pin_at; /* by hash: number + 1, 0 is free; at most half full */
	size_t pin_slots; /* a power of two */
	struct strlist passthrough;
	struct field_list fields; /* that pass beside the common ones */
	bool https_only, inspect;
	bool learn;
	bool any_ssh; /* of allow */
	uint16_t host_service;
};

/* The slot that has this name, or the free one where it would be. */
uint32_t *allow_pin_slot(const struct egress_rules *r, const struct host *h);

/* Does the rule speak of this port? `any`: a rule without ports speaks of all. */
bool allow_has_port(const struct rule *rule, uint16_t port, bool any);

#endif
