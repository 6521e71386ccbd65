/* SPDX-License-Identifier: Apache-2.0 */
/* cli/sandbox/box_path.h - a path in a sandbox, as it is typed: ID:PATH. */
#pragma once

#include "cli/sandbox/sandbox_cli.h"

#define BOX_TARGET_MAX ((size_t)16 << 10)

struct box_path {
	char ref[64];
	const char *path; /* borrowed; relative paths lead from the workspace */
};

/* 1: it is one; 0: it is a path of the host, such as ./a:b or a. */
int box_path_parse(const char *word, struct box_path *ret);
int box_path_target(struct buf *out, const struct box_path *p, const char *route, const char *more,
		    struct err *e);
/* As daemon_client_ask. */
int box_path_ask(struct daemon_client *d, const char *method, const struct box_path *p,
		 const char *route, const char *more, struct jread **ret, char *code,
		 struct err *e);
/* mkdir, or move with `to`. */
int box_path_post(struct daemon_client *d, const struct box_path *p, const char *verb,
		  const char *to, bool flag, struct err *e);
