/* SPDX-License-Identifier: Apache-2.0 */
/* egress/names/synth.h - the address a name gets inside, and the name behind an address.
 *
 * A name keeps its address for the whole run; nothing is forgotten, so the number of names is
 * bounded. */
#pragma once

#include <stdbool.h>

#include "egress/rules/addr.h"
#include "egress/rules/host.h"

enum { SYNTH_MAX = 65536 };

struct synth;

struct synth *synth_new(void); /* NULL without memory */
struct synth *synth_free(struct synth *s);

/* The IPv4 address of a name; its IPv6 twin by `six`. false: too many names, or no memory. */
bool synth_address(struct synth *s, const struct host *h, bool six, struct addr *ret);
const struct host *synth_name(const struct synth *s,
			      const struct addr *a); /* NULL: not one of ours */
