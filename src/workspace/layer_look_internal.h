/* SPDX-License-Identifier: Apache-2.0 */
/* workspace/layer_look_internal.h - what the confined process of layer_look.h is made of. */
#pragma once

#include "workspace/layer_look.h"

/* The path is wanted, or lies on the way to what is, or below it. */
bool look_wants(const struct look_want *w, const char *path);

/* Walks; the list is sorted, folders before what they have. 0 or -errno with *e. */
int look_walk(const struct look_want *w, struct change_list *ret, struct err *e);

/* Opens what a path of a list names, part by part, following no link; -errno. */
int look_open(int top, const char *path, int flags);

/* Counts the lines of a change, and writes its text where `out` is there. */
int look_show(const struct look_want *w, struct change *c, struct buf *out);
