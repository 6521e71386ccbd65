/* SPDX-License-Identifier: Apache-2.0 */
/* daemon/api/route_files.h - what the routes about files share. */
#pragma once

#include "daemon/api/api.h"
#include "daemon/registry/sandbox_files.h"

enum { FILE_PATH_SIZE = 4096 };

struct file_route {
	struct http_call *call;
	struct loop *loop;
	struct file_op *op;
	int status;
	uint64_t size; /* of what is read */
	char path[FILE_PATH_SIZE], to[FILE_PATH_SIZE];
	/* Of a list or a watch: */
	struct loop_watch data; /* fd -1: nothing is awaited */
	struct file_entries entries;
	struct file_entry *all; /* each with its name, as they came */
	struct buf names;
	size_t count;
};

/* A call that is answered later; NULL: it was answered. The path is that of the query, or `path`;
 * the texts of *o are filled in. */
struct file_route *file_route_begin(struct api *a, struct http_call *c, struct file_order *o,
				    const char *path, const char *to,
				    const struct file_listener *by);
/* With a verb and the query's path alone. */
void file_route_plain(struct api *a, struct http_call *c, enum file_verb verb,
		      const struct file_listener *by);
/* The last word of one that has nothing to show. */
void file_route_done(void *arg, enum problem p, const struct file_answer *a, const struct err *e);
void file_route_end(struct file_route *r); /* frees it; the call is answered or gone */
bool file_flag(const struct http_call *c, const char *name);
/* One entry as an object; its name is not NUL-terminated. */
void file_show(struct json *j, const struct file_entry *e, const char *name);
