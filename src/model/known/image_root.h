/* SPDX-License-Identifier: Apache-2.0 */
/* model/known/image_root.h - an image of brig's own store, as a start needs it: layers that make a
 * root, and what the image says of commands in it. Plain data; all of it borrowed. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct image_root {
	const char *id;            /* "sha256:" and the digest of its configuration */
	const char *store;         /* the host folder that has its layers */
	const char *const *layers; /* their names there, the lowest first; NULL-terminated */
	size_t layer_count;
	const char *const *env; /* NAME=VALUE; NULL-terminated, as the following are */
	const char *const *entrypoint, *const *cmd, *const *volumes;
	const char *workdir; /* absolute; NULL: none */
	const char *user;    /* as the image has it; "": none */
	bool has_user;       /* ... and it is other than root: these are its numbers */
	uint32_t uid, gid;
	int stop_signal;            /* 0: none */
	const char *passwd, *group; /* lines of the image's own, for names; "" */
};

enum { IMAGE_LAYERS_MAX = 128 };
