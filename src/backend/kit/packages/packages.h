/* SPDX-License-Identifier: Apache-2.0 */
/* backend/kit/packages/packages.h - brig's copy of what installed packages ship below /etc and
 * /var/lib.
 *
 * A file is copied if its text is still the one that its package came with: nobody has written
 * anything into it, so it says nothing about this machine or its users. It must be root's and
 * readable by everybody, with every folder above it. The copy is in the caller's cache folder,
 * which no sandbox is shown or may write to; it is made anew when the database of the packages has
 * changed, and, looked at once a minute, when a file has. Beside it are trees that packages' own
 * scripts make for everybody, which are shown as they are. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/text/arena.h"

#define PACKAGES_FOLDER ".links-"   /* before the name of a folder of links in the copy */
#define PACKAGES_PLACE "/.packages" /* of the copy, inside */

struct package_entry {
	const char *place;    /* in the copy, inside */
	const char *path;     /* /etc/NAME, /var/lib/NAME; of a live tree its whole path */
	const char *packages; /* that it is from, separated by blanks; "": made by their scripts */
	bool terminal;        /* only for a person at one */
	bool whole;           /* all that the host has there is in the copy */
	bool live;            /* shown as it is; otherwise it is in the copy, at the same path */
};

enum { PACKAGES_ID = 16 };

struct packages {
	const char *id, *tree; /* of the copy; its folder on the host, by a path without links */
	struct package_entry *v;
	size_t n;
};

/* The copy that holds. Everything is of the arena. false: there is none. */
bool packages_find(struct arena *a, struct packages *ret);
/* Makes it, which takes some 100 ms; no sandbox may be able to write to the cache. false: there is
 * nothing to show, be it for want of a package manager, a cache folder or memory. */
bool packages_renew(struct arena *a, struct packages *ret);

struct package_link {
	const char *name, *to;
};

/* Is there a folder of links in the copy, that was made for this name? */
bool packages_has_folder(struct arena *a, const struct packages *p, const char *name);
/* Makes it as a whole; no sandbox may be able to write to the cache. false: it cannot be had. */
bool packages_make_folder(const struct packages *p, const char *name, const struct package_link *v,
			  size_t n);

/* The list of a copy, as text, without its tree; false: it is none, or not of this stamp. It can
 * name nothing but entries of the copy, and trees that are shown as they are anyway. */
bool packages_read(struct arena *a, const char *text, const char *stamp, struct packages *ret);
