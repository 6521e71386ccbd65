/* SPDX-License-Identifier: Apache-2.0 */
/* apps/setup/setup_text.h - the text of a project's .brig.yaml, with a reason beside each setting.
 * Pure.
 */
#pragma once

#include "apps/setup/setup_project.h"
#include "base/text/buf.h"
#include "model/settings/spec.h"

enum setup_network {
	SETUP_NETWORK_NONE,
	SETUP_NETWORK_PACKAGES, /* the hosts of the groups that were found, to read */
	SETUP_NETWORK_HOSTS,    /* those that the caller names, besides */
};

struct setup_answers {
	const char *backend; /* NULL: whichever a run takes by itself */
	const char *image;   /* NULL: none */
	enum setup_network network;
	struct strlist allow;  /* rules of the caller's own, checked */
	struct strlist why;    /* a remark for each of the first of them; brig learn's */
	struct strlist fields; /* egress.fields, likewise */
	bool keep_home;
	bool overlay;      /* the workspace is seen through a layer */
	const char *agent; /* of `brig wrap`; NULL: none */
};

/* Does it do more than tighten what holds without any file? */
bool setup_loosens(const struct setup_answers *a);
void setup_text(const struct setup_answers *a, const struct project_found *f, struct buf *out);
