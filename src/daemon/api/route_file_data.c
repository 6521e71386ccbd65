/* SPDX-License-Identifier: Apache-2.0 */
/* daemon/api/route_file_data.c - files of a sandbox: what is copied, and what is watched. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/bytes/base64.h"
#include "daemon/api/route_files.h"
#include "daemon/shared/left_out.h"

/* ---- out ---- */

static void on_failed(void *arg, enum problem p, const struct file_answer *a UNUSED,
		      const struct err *e)
{
	struct file_route *r = arg;
	struct http_call *c = r->call;

	file_route_end(r);
	http_problem(c, p, e);
}

/* Every byte that was promised has come. */
static bool end_read(void *arg)
{
	file_route_end(arg);
	return true;
}

/* What is not in the archive. */
static void tell_left(const struct file_route *r, uint32_t count)
{
	CLEANUP(buf) struct buf b = BUF_INIT(4 * FILE_LEFT_MAX);
	size_t n;
	const char *names = file_op_left(r->op, &n);

	if (count)
		left_out_put(&b, count, names, n);
	if (count && !b.failed)
		http_trail(r->call, LEFT_OUT_FIELD, buf_str(&b));
}

static bool end_pack(void *arg)
{
	struct file_route *r = arg;
	struct file_answer a;
	struct err e;
	bool whole = file_op_result(r->op, &a, &e) == PROBLEM_NONE;

	if (whole)
		tell_left(r, a.more);
	file_route_end(r);
	return whole;
}

static void route_file_data_give(struct file_route *r, int64_t length, const char *type,
				 bool (*end)(void *))
{
	struct http_call *c = r->call;

	file_op_quiet(r->op);
	if (!http_give(c, length < 0 ? "Trailer: " LEFT_OUT_FIELD "\r\n" : "", type, length,
		       file_op_data(r->op), end))
		file_route_end(r);
}

static void on_read(void *arg, const struct file_answer *a)
{
	struct file_route *r = arg;

	if (a->size <= FILE_BYTES_MAX) {
		route_file_data_give(r, (int64_t)a->size, "application/octet-stream", end_read);
	} else {
		struct http_call *c = r->call;
		struct err e;

		(void)problem_say(PROBLEM_TOO_LARGE, &e, "the file is larger than what may pass");
		file_route_end(r);
		http_problem(c, PROBLEM_TOO_LARGE, &e);
	}
}

static void on_pack(void *arg, const struct file_answer *a UNUSED)
{
	route_file_data_give(arg, -1, "application/x-tar", end_pack);
}

void serve_file_read(struct api *a, struct http_call *c, const struct jread *body UNUSED)
{
	static const struct file_listener by = { .has = on_read, .done = on_failed };

	file_route_plain(a, c, FILE_READ, &by);
}

void serve_pack(struct api *a, struct http_call *c, const struct jread *body UNUSED)
{
	static const struct file_listener by = { .has = on_pack, .done = on_failed };

	file_route_plain(a, c, FILE_PACK, &by);
}

/* ---- in ---- */

/* If nobody read on, its last word says why, and is on its way. */
static void on_whole(void *arg, bool ok)
{
	struct file_route *r = arg;

	if (ok)
		file_op_whole(r->op);
}

static void route_file_data_on_ready(void *arg, const struct file_answer *a UNUSED)
{
	struct file_route *r = arg;

	http_take(r->call, file_op_data(r->op), on_whole);
}

/* Whatever it says: without the word that this was all, nothing has its name. */
static const struct file_listener takes = { .has = route_file_data_on_ready,
					    .done = file_route_done };

static enum problem read_mode(const struct http_call *c, unsigned *ret, struct err *e)
{
	char text[8], *end = text;
	int n = http_param(c, "mode", text, sizeof(text));

	*ret = FILE_MODE_SAME;
	if (n == -ENOENT)
		return PROBLEM_NONE;
	if (n > 0)
		*ret = (unsigned)strtoul(text, &end, 8);
	if (n <= 0 || end == text || *end || *ret > 0777 || text[0] == '-' || text[0] == '+')
		return problem_say(PROBLEM_INVALID, e, "'mode' must be octal, at most 777");
	return PROBLEM_NONE;
}

void serve_file_write(struct api *a, struct http_call *c, const struct jread *body UNUSED)
{
	struct file_order o = { .verb = FILE_WRITE };
	struct err e = { 0 };

	if (read_mode(c, &o.mode, &e) != PROBLEM_NONE)
		http_problem(c, PROBLEM_INVALID, &e);
	else
		(void)file_route_begin(a, c, &o, NULL, NULL, &takes);
}

void serve_unpack(struct api *a, struct http_call *c, const struct jread *body UNUSED)
{
	file_route_plain(a, c, FILE_UNPACK, &takes);
}

/* ---- watching ---- */

static void route_file_data_tell(struct file_route *r)
{
	static const struct {
		enum file_change bit;
		const char *word;
	} rows[] = { { CHANGE_MADE, "created" },
		     { CHANGE_WRITTEN, "changed" },
		     { CHANGE_GONE, "removed" },
		     { CHANGE_MISSED, "missed" } };
	CLEANUP(buf) struct buf b = BUF_INIT(8192);
	const struct file_entry *e = &r->entries.e;
	struct json j;

	json_init(&j, &b, false);
	json_object(&j);
	json_key(&j, "name");
	json_strn(&j, r->entries.name, e->length);
	json_karray(&j, "changes");
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		if (e->mode & rows[i].bit)
			json_str(&j, rows[i].word);
	json_array_end(&j);
	json_object_end(&j);
	if (!b.failed)
		http_event(r->call, "change", 0, b.data, b.len);
}

static void end_watch(struct file_route *r)
{
	struct http_call *c = r->call;

	file_route_end(r);
	http_stream_end(c);
}

/* What the listener has no room for stays in the pipe. */
static void on_changes(struct loop_watch *w, uint32_t events UNUSED)
{
	struct file_route *r = CONTAINER_OF(w, struct file_route, data);
	char data[4096];
	ssize_t n = http_room(r->call) ? read(w->fd, data, sizeof(data)) : -EAGAIN;
	size_t left = n > 0 ? (size_t)n : 0;
	const char *at = data;
	int got = 0;

	if (!http_room(r->call)) {
		(void)loop_want(r->loop, w, 0);
		return;
	}
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	while ((got = file_entries_take(&r->entries, &at, &left)) > 0)
		route_file_data_tell(r);
	if (n <= 0 || got < 0)
		end_watch(r);
}

static void route_file_data_on_room(void *arg)
{
	struct file_route *r = arg;

	if (loop_want(r->loop, &r->data, EPOLLIN) < 0)
		end_watch(r);
}

static void on_watch(void *arg, const struct file_answer *a UNUSED)
{
	struct file_route *r = arg;
	struct http_call *c = r->call;

	file_op_quiet(r->op);
	r->data = (struct loop_watch){ .fd = file_op_data(r->op), .ready = on_changes };
	if (!http_stream(c, NULL)) {
		file_route_end(r);
		return;
	}
	c->room = route_file_data_on_room;
	http_event(c, "watching", 0, "{}", 2);
}

void serve_file_watch(struct api *a, struct http_call *c, const struct jread *body UNUSED)
{
	static const struct file_listener by = { .has = on_watch, .done = on_failed };
	struct file_order o = { .verb = FILE_WATCH };

	(void)file_route_begin(a, c, &o, NULL, NULL, &by);
}
