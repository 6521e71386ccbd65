/* SPDX-License-Identifier: Apache-2.0 */
/* apps/bundle/install.h - bundles that this user has: their files in the data folder, their records
 * in the state folder (model/files/bundles.h). */
#pragma once

#include "apps/bundle/fetch.h"
#include "apps/bundle/manifest.h"
#include "base/text/err.h"
#include "model/files/bundles.h"

struct install_want {
	struct sealed *sealed;
	const char *source;     /* the file or reference, as it was given */
	const char *digest;     /* that the archive must have; or NULL */
	const char *verify_key; /* that it must be signed with; or NULL */
};

struct installed {
	struct bundle_record record;
	struct bundle_manifest manifest;
	bool already; /* the same was there */
};

/* Nothing is left of what is refused. */
int bundle_install(const struct install_want *w, struct installed *ret, struct err *e);
void installed_done(struct installed *i);

/* The files; forget: the record, too, and with it the digest. */
int bundle_remove(const char *name, const char *version, bool forget, struct err *e);
