/* SPDX-License-Identifier: Apache-2.0 */
/* egress/rules/direct.h - what this machine reaches without its proxy (`egress.direct`). Pure.
 *
 *     wiki.corp.example     that name
 *     *.corp.example        names below it, never the apex
 *     10.0.0.0/8            private addresses that such a name may have
 *
 * Stricter than NO_PROXY, of which every program has its own reading: a name is never a suffix, and
 * a prefix opens nothing for a name that is not listed as well. Whether the command may reach a
 * name is for the rules to say, here as elsewhere. */
#pragma once

#include <stdbool.h>

#include "base/text/cleanup.h"
#include "base/text/err.h"
#include "egress/rules/addr.h"
#include "egress/rules/host.h"
#include "model/settings/spec_lists.h"

struct direct;

int direct_new(const struct strlist *texts, struct direct **ret, struct err *e); /* borrows texts */
struct direct *direct_free(struct direct *d);
DEFINE_CLEANUP(direct, struct direct *, direct_free)

bool direct_has(const struct direct *d, const struct host *name);
/* May a listed name have this address, although it is not public? */
bool direct_opens(const struct direct *d, const struct addr *a);
