/* SPDX-License-Identifier: Apache-2.0 */
/* cli/settings/config_allow.h - "config allow": one more host in the user's own file. */
#pragma once

#include <stdbool.h>

#include "base/text/buf.h"
#include "base/text/err.h"

struct config_allow {
	const char *rule;
	bool dry_run, json;
	struct buf *diff; /* gets the difference instead of standard output; NULL: that does */
};

/* The exit status, or negative and *e. */
int config_allow(const struct config_allow *a, struct err *e);
