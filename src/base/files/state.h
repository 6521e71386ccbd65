/* SPDX-License-Identifier: Apache-2.0 */
/* base/files/state.h - brig's own folder for what must survive a run: journals, quarantine, the
 * record, the list of trusted files.
 *
 * $XDG_STATE_HOME/brig, else /var/lib/brig for root and ~/.local/state/brig for others; where that
 * cannot be had, a folder below $XDG_RUNTIME_DIR, which must be this user's alone, and the user is
 * told (state_displaced). Else there is none. Mode 0700, owner checked.
 *
 * What can be had again, such as kept HOMEs, is in the cache folder: $XDG_CACHE_HOME/brig, else
 * /var/cache/brig for root and ~/.cache/brig for others. There is no second place for it. What a
 * sandbox may be shown, such as files of installed bundles, is in the data folder. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/text/err.h"

#define STATE_OF_ROOT "/var/lib/brig"
#define CACHE_OF_ROOT "/var/cache/brig"

enum { STATE_SECOND = 1, STATE_LISTED = 3, STATE_CACHE = 5, STATE_PLACES = 8 };

/* Opens (and makes) the folder `sub` below it; a descriptor or -errno. `path`, unless NULL,
 * receives where that is. */
int state_open(const char *sub, char *path, size_t n, struct err *e);

/* Opens the folder where state_open has made it; a descriptor or -1. `path` as there. */
int state_find(const char *sub, char *path, size_t n);

/* The same in one of these places, as state_place numbers them. */
int state_find_at(int which, const char *listed, const char *sub);

/* The name of a state folder, which is made the first time: several of them may use one engine or
 * cluster, and each has to know what there is its own. `folder` is where state_open(".") led. */
enum { STATE_INSTANCE = 33 };
int state_instance(int folder, char instance[STATE_INSTANCE], struct err *e);

/* The places where this user's state and cache are or may come to be, numbered from 0 to
 * STATE_PLACES: of the state the two that are used, then those that another environment would lead
 * to; then those of the cache. `listed` is the home that the password entry names, or NULL. 0, or
 * -errno where there is no such place. Nothing is made or opened: for guards, which ask for all. */
int state_place(int which, const char *listed, char *path, size_t n);

/* Is the state (which is made) anywhere but in its first place? Then `path` receives where. */
bool state_displaced(char *path, size_t n);

/* Opens (and makes) the folder `sub` of the cache, which nobody else may look into; a descriptor or
 * -errno. `path` receives where that is. */
int cache_open(const char *sub, char *path, size_t n, struct err *e);
/* Opens it where it was made; a descriptor, or -1 and errno. */
int cache_find(const char *sub, char *path, size_t n);

/* Opens (and makes) the folder `sub` of what this user has installed: $XDG_DATA_HOME/brig, else
 * /var/lib/brig-data for root and ~/.local/share/brig for others; a descriptor or -errno. `path`
 * receives where that is. Root's can be entered by others, because root's sandboxes run as such. */
int data_open(const char *sub, char *path, size_t n, struct err *e);
/* Where that is, or would be; 0 or -ENOENT. */
int data_place(const char *sub, char *path, size_t n);
