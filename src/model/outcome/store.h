/* SPDX-License-Identifier: Apache-2.0 */
/* model/outcome/store.h - what a long-lived sandbox keeps on disk from a stop to the next start.
 *
 * A folder of its own below the sandbox's, with one folder for each place inside that can be
 * written to. The monitor makes them, a plan shows them; what is in them was written by hostile
 * code. */
#pragma once

#include <sys/types.h>

enum store_place {
	STORE_HOME,
	STORE_TMP,
	STORE_VAR_TMP,
	STORE_WORKSPACE, /* where there is none of the host's */
	STORE_LAYER,     /* over the system folders, where they can be written to */
	STORE_PLACES
};

struct store_folder {
	const char *name; /* below the store */
	mode_t mode;
};

extern const struct store_folder store_folders[STORE_PLACES];
