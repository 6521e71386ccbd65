/* SPDX-License-Identifier: Apache-2.0 */
/* apps/chat/chat_internal.h - what the files of a line share. */
#pragma once

#include "apps/chat/chat_endpoint.h"
#include "apps/chat/chat_line.h"

const char *chat_line_field(const struct chat_line *l); /* with the placeholder of the key; or "" */
const struct chat_endpoint *chat_line_to(const struct chat_line *l);
int chat_line_place(const struct chat_line *l); /* the door's socket, opened as a path */
