/* SPDX-License-Identifier: Apache-2.0 */
/* daemon/api/route_files.c - files of a sandbox: what is answered in a word or a list. */
#include "daemon/api/route_files.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "audit/record.h"
#include "base/bytes/base64.h"
#include "base/files/fd.h"
#include "base/text/str.h"

#define NAMES_MAX ((size_t)FILE_ENTRIES_MAX * 256)
#define LIST_MAX ((size_t)64 << 20)

/* ---- a call ---- */

void file_route_end(struct file_route *r)
{
	if (r->data.fd >= 0)
		(void)loop_want(r->loop, &r->data, 0);
	(void)file_op_free(r->op);
	r->call->gone = r->call->room = NULL;
	free(r->all);
	buf_done(&r->names);
	free(r);
}

static void route_files_gone(void *arg)
{
	file_route_end(arg);
}

static void route_files_refuse(struct file_route *r, enum problem p, const struct err *e)
{
	struct http_call *c = r->call;

	file_route_end(r);
	http_problem(c, p, e);
}

static enum problem read_path(const struct http_call *c, const char *path, char out[FILE_PATH_SIZE],
			      struct err *e)
{
	int n = path ? snprintf(out, FILE_PATH_SIZE, "%s", path)
		     : http_param(c, "path", out, FILE_PATH_SIZE);

	if (n == -ENOENT)
		return problem_say(PROBLEM_INVALID, e, "'path' is missing");
	if (n < 0 || n >= FILE_PATH_SIZE)
		return problem_say(PROBLEM_INVALID, e, "the path is malformed or too long");
	/* A slash at the end says nothing that is not found out anyway. */
	while (n > 1 && out[n - 1] == '/')
		out[--n] = '\0';
	return file_path_check(out, e);
}

struct file_route *file_route_begin(struct api *a, struct http_call *c, struct file_order *o,
				    const char *path, const char *to,
				    const struct file_listener *by)
{
	struct file_route *r = calloc(1, sizeof(*r));
	struct file_listener own = *by;
	struct err e = { 0 };
	enum problem p = r ? PROBLEM_NONE : PROBLEM_INTERNAL;

	if (!r) {
		(void)err_nomem(&e);
		http_problem(c, p, &e);
		return NULL;
	}
	*r = (struct file_route){ .call = c,
				  .loop = a->loop,
				  .status = ((const struct api_route *)c->route)->status,
				  .data = { .fd = -1 },
				  .names = BUF_INIT(NAMES_MAX) };
	own.arg = r;
	p = read_path(c, path, r->path, &e);
	if (p == PROBLEM_NONE && to)
		p = read_path(c, to, r->to, &e);
	o->path = r->path;
	o->to = r->to;
	if (!o->limit)
		o->limit = FILE_BYTES_MAX;
	if (p == PROBLEM_NONE)
		p = file_op_new(a->boxes, c->caller->tenant, c->parts[0], o, &own, &r->op, &e);
	if (p != PROBLEM_NONE) {
		route_files_refuse(r, p, &e);
		return NULL;
	}
	c->arg = r;
	c->gone = route_files_gone;
	return r;
}

bool file_flag(const struct http_call *c, const char *name)
{
	char text[8];

	return http_param(c, name, text, sizeof(text)) >= 0 && str_eq(text, "true");
}

/* ---- done, and nothing to show ---- */

void file_route_plain(struct api *a, struct http_call *c, enum file_verb verb,
		      const struct file_listener *by)
{
	struct file_order o = { .verb = verb };

	(void)file_route_begin(a, c, &o, NULL, NULL, by);
}

void file_route_done(void *arg, enum problem p, const struct file_answer *a UNUSED,
		     const struct err *e)
{
	struct file_route *r = arg;
	struct http_call *c = r->call;
	int status = r->status;

	file_route_end(r);
	if (p != PROBLEM_NONE)
		http_problem(c, p, e);
	else
		http_answer(c, status, NULL, NULL, NULL, 0);
}

static const struct file_listener plain = { .done = file_route_done };

void serve_file_remove(struct api *a, struct http_call *c, const struct jread *body UNUSED)
{
	struct file_order o = { .verb = FILE_REMOVE,
				.flags = file_flag(c, "recursive") ? FILE_ALL : 0 };

	(void)file_route_begin(a, c, &o, NULL, NULL, &plain);
}

void serve_file_mkdir(struct api *a, struct http_call *c, const struct jread *body)
{
	struct file_order o = { .verb = FILE_MKDIR,
				.flags = jread_bool(body, "parents") ? FILE_PARENTS : 0 };

	(void)file_route_begin(a, c, &o, jread_str(body, "path"), NULL, &plain);
}

void serve_file_move(struct api *a, struct http_call *c, const struct jread *body)
{
	struct file_order o = { .verb = FILE_MOVE,
				.flags = jread_bool(body, "replace") ? FILE_OVER : 0 };

	(void)file_route_begin(a, c, &o, jread_str(body, "from"), jread_str(body, "to"), &plain);
}

/* ---- one ---- */

/* The node of a socket of mode 0 is brig's own: it holds a name that nobody may make. */
static const char *type_of(uint32_t mode)
{
	if (S_ISSOCK(mode) && !(mode & 07777))
		return "protected";
	return fd_kind_name(mode);
}

static bool is_utf8(const char *p, size_t n)
{
	for (size_t i = 0, len; i < n; i += len)
		if (!(len = utf8_len(p + i, n - i)))
			return false;
	return true;
}

void file_show(struct json *j, const struct file_entry *e, const char *name)
{
	CLEANUP(buf) struct buf b = BUF_INIT(512);
	char when[RECORD_TIME_SIZE], mode[8];

	json_object(j);
	json_key(j, "name");
	json_strn(j, name, e->length);
	if (!is_utf8(name, e->length)) {
		base64_put(&b, name, e->length);
		json_kstr(j, "name_base64", buf_str(&b));
	}
	json_kstr(j, "type", type_of(e->mode));
	json_ku64(j, "size", e->size);
	(void)snprintf(mode, sizeof(mode), "%03o", e->mode & 07777);
	json_kstr(j, "mode", mode);
	record_time(e->mtime > 0 ? (uint64_t)e->mtime : 0, when);
	json_kstr(j, "modified", when);
	json_object_end(j);
}

static void on_stat(void *arg, const struct file_answer *a)
{
	CLEANUP(buf) struct buf b = BUF_INIT((size_t)64 << 10);
	struct file_route *r = arg;
	struct http_call *c = r->call;
	const char *slash = strrchr(r->path, '/'), *name = slash && slash[1] ? slash + 1 : r->path;
	const struct file_entry e = { .size = a->size,
				      .mtime = a->mtime,
				      .mode = a->mode,
				      .length = (uint32_t)strlen(name) };
	struct json j;

	json_init(&j, &b, false);
	file_show(&j, &e, name);
	file_route_end(r);
	api_answer_json(c, 200, &b);
}

void serve_file_stat(struct api *a, struct http_call *c, const struct jread *body UNUSED)
{
	static const struct file_listener by = { .has = on_stat, .done = file_route_done };

	file_route_plain(a, c, FILE_STAT, &by);
}

/* ---- many ---- */

/* The names stand one behind the other, each with a NUL; an entry's size of name is where. */
struct row {
	const struct file_entry *e;
	const char *name;
};

static int by_name(const void *a, const void *b)
{
	return strcmp(((const struct row *)a)->name, ((const struct row *)b)->name);
}

static void answer_list(struct file_route *r, bool more)
{
	CLEANUP(buf) struct buf b = BUF_INIT(LIST_MAX);
	CLEANUP(mem) struct row *rows = calloc(r->count + 1, sizeof(*rows));
	struct http_call *c = r->call;
	const char *name = buf_str(&r->names);
	struct json j;

	for (size_t i = 0; rows && i < r->count; name += strlen(name) + 1, i++)
		rows[i] = (struct row){ &r->all[i], name };
	if (rows)
		qsort(rows, r->count, sizeof(*rows), by_name);
	json_init(&j, &b, false);
	json_object(&j);
	json_karray(&j, "files");
	for (size_t i = 0; rows && i < r->count; i++)
		file_show(&j, rows[i].e, rows[i].name);
	json_array_end(&j);
	json_kbool(&j, "truncated", more);
	json_object_end(&j);
	b.failed |= !rows || r->names.failed;
	file_route_end(r);
	api_answer_json(c, 200, &b);
}

/* false: it wants more than there can be. */
static bool keep_entry(struct file_route *r)
{
	if (r->count == FILE_ENTRIES_MAX)
		return false;
	if (!r->all && !(r->all = calloc(FILE_ENTRIES_MAX, sizeof(*r->all))))
		return false;
	r->all[r->count++] = r->entries.e;
	buf_add(&r->names, r->entries.name, r->entries.e.length + 1);
	return true;
}

static void end_list(struct file_route *r, bool malformed)
{
	struct file_answer a;
	struct err e = { 0 };
	enum problem p = file_op_result(r->op, &a, &e);

	if (malformed && p == PROBLEM_NONE)
		p = problem_say(PROBLEM_CONFLICT, &e, "what came out of the sandbox is no list");
	if (p != PROBLEM_NONE)
		route_files_refuse(r, p, &e);
	else
		answer_list(r, a.more);
}

static void on_entries(struct loop_watch *w, uint32_t events UNUSED)
{
	struct file_route *r = CONTAINER_OF(w, struct file_route, data);
	char data[16384];
	ssize_t n = read(w->fd, data, sizeof(data));
	size_t left = n > 0 ? (size_t)n : 0;
	const char *at = data;
	int got;

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	while ((got = file_entries_take(&r->entries, &at, &left)) > 0)
		if (!keep_entry(r)) {
			got = -EBADMSG;
			break;
		}
	if (n <= 0 || got < 0)
		end_list(r, got < 0 || r->entries.have);
}

static void on_list(void *arg, const struct file_answer *a UNUSED)
{
	struct file_route *r = arg;

	file_op_quiet(r->op);
	r->data = (struct loop_watch){ .fd = file_op_data(r->op), .ready = on_entries };
	if (loop_want(r->loop, &r->data, EPOLLIN) < 0)
		end_list(r, true);
}

void serve_file_list(struct api *a, struct http_call *c, const struct jread *body UNUSED)
{
	static const struct file_listener by = { .has = on_list, .done = file_route_done };

	file_route_plain(a, c, FILE_LIST, &by);
}
