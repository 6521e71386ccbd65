/* SPDX-License-Identifier: Apache-2.0 */
/* sandbox/layers/layer_internal.h - what the files of this folder share. */
#pragma once

#include <fcntl.h>
#include <string.h>

#include "sandbox/layers/layer.h"

#define LAYER_GONE ".gone-"
#define LAYER_FOLDER (O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)
enum { LAYER_ABOUT_MAX = 32768, LAYER_LOOK_MS = 20 };

/* Whole under another name first, which counts for nothing until it is taken. */
int layer_about_draft(int folder, const struct layer_about *a, char name[33], struct err *e);
int layer_about_take(int folder, const char *name, struct err *e);
/* -ENOENT: there is none, or it is not what brig writes. */
int layer_about_read(int folder, struct layer_about *ret);

/* Takes what is called `name` away by another name, and removes it. */
int layer_remove(int layers, const char *name, struct err *e);
/* That of layers, where it was made; -1 and errno. */
int layer_store_find(char path[PATH_MAX]);
