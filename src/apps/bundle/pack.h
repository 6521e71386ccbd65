/* SPDX-License-Identifier: Apache-2.0 */
/* apps/bundle/pack.h - a role and its files become an archive. The files are the caller's own. */
#pragma once

#include <stdint.h>

#include "base/text/buf.h"
#include "base/text/err.h"

struct pack_want {
	const char *path;           /* a folder with role.yaml in it, or the file of a role */
	const char *name, *version; /* in place of what the role says; or NULL */
	int64_t created;            /* seconds since 1970 */
};

struct packed {
	uint64_t left_out;  /* links, hidden names and the like below a folder */
	uint64_t elsewhere; /* what the role names by an absolute path: it stays on this host */
};

/* Writes the archive to fd, which is empty and can be read, and has it read as an installation
 * would. */
int bundle_pack(const struct pack_want *w, int fd, struct packed *ret, struct err *e);
