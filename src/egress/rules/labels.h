/* SPDX-License-Identifier: Apache-2.0 */
/* egress/rules/labels.h - do the labels below an allowed wildcard carry data?
 *
 * Whoever answers for the names below `example.com` sees each name that is looked up or dialled, so
 * `*.example.com` is a way out for as much as fits into a name. Pure. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "egress/rules/host.h"

/* The part of the name that the wildcard of the rule stands for; 0 where the rule names the host.
 */
size_t labels_below(const char *rule, const struct host *h);

/* Is it shaped like packed data? NULL: no; else what about it is, for a sentence "it has ...". */
const char *labels_packed(const char *p, size_t n);
