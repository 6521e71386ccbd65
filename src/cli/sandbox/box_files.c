/* SPDX-License-Identifier: Apache-2.0 */
/* cli/sandbox/box_files.c - "sandbox files": one operation on files of a sandbox. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/text/clean.h"
#include "base/bytes/json.h"
#include "base/text/str.h"
#include "base/text/url.h"
#include "cli/sandbox/sandbox_cli.h"
#include "cli/sandbox/box_path.h"

#define EVENT_MAX ((size_t)64 << 10)

int box_path_target(struct buf *out, const struct box_path *p, const char *route, const char *more,
		    struct err *e)
{
	char base[128];

	out->len = 0;
	if (!sandbox_target(base, sizeof(base), p->ref, route))
		return err_refuse(e, ERR_USAGE, EINVAL, "brig sandbox list shows them",
				  "'%.60s' is no id and no name", p->ref);
	buf_printf(out, "%s?path=", base);
	url_put_escaped(out, *p->path ? p->path : ".");
	buf_puts(out, more);
	return out->failed ? err_set(e, ERR_USAGE, ENAMETOOLONG, "the path is too long") : 0;
}

int box_path_ask(struct daemon_client *d, const char *method, const struct box_path *p,
		 const char *route, const char *more, struct jread **ret, char *code, struct err *e)
{
	CLEANUP(buf) struct buf target = BUF_INIT(BOX_TARGET_MAX);
	struct daemon_question q = { .method = method };

	if (box_path_target(&target, p, route, more, e) < 0)
		return -e->code;
	q.target = buf_str(&target);
	return daemon_client_ask(d, &q, ret, code, e);
}

int box_path_post(struct daemon_client *d, const struct box_path *p, const char *verb,
		  const char *to, bool flag, struct err *e)
{
	CLEANUP(buf) struct buf body = BUF_INIT(BOX_TARGET_MAX);
	char target[160], below[32];
	struct daemon_question q = { .method = "POST", .target = target };
	struct json j;

	(void)snprintf(below, sizeof(below), "/files/%s", verb);
	if (!sandbox_target(target, sizeof(target), p->ref, below))
		return err_refuse(e, ERR_USAGE, EINVAL, "brig sandbox list shows them",
				  "'%.60s' is no id and no name", p->ref);
	json_init(&j, &body, false);
	json_object(&j);
	json_kstr(&j, to ? "from" : "path", p->path);
	if (to)
		json_kstr(&j, "to", to);
	json_kbool(&j, to ? "replace" : "parents", flag);
	json_object_end(&j);
	q.body = buf_str(&body);
	q.body_len = body.len;
	return daemon_client_ask(d, &q, NULL, NULL, e);
}

/* ---- showing ---- */

static void print_row(const struct jread *v)
{
	CLEANUP(buf) struct buf name = BUF_INIT((size_t)16 << 10);
	const char *text = jread_str(v, "name");

	clean_put(&name, text ? text : "", strlen(text ? text : ""));
	(void)printf("%-6s  %4s  %12lld  %s  %s\n", jread_str(v, "type"), jread_str(v, "mode"),
		     (long long)jread_int(v, "size", 0), jread_str(v, "modified"), buf_str(&name));
}

static int box_files_show(struct daemon_client *d, const struct box_path *p, bool list, bool json,
			  struct err *e)
{
	CLEANUP(jread) struct jread *v = NULL;
	const struct jread *files;

	if (box_path_ask(d, "GET", p, list ? "/files/list" : "/files/stat", "", &v, NULL, e) < 0)
		return -e->code;
	if (json) {
		CLEANUP(buf) struct buf b = BUF_INIT((size_t)256 << 20);

		jread_write(v, &b);
		(void)printf("%s\n", buf_str(&b));
		return 0;
	}
	files = jread_get(v, "files");
	for (size_t i = 0; list && i < jread_count(files); i++)
		print_row(jread_at(files, i));
	if (!list)
		print_row(v);
	if (list && jread_bool(v, "truncated"))
		(void)fprintf(stderr, "brig: there are more than 10,000\n");
	return 0;
}

static int watch(struct daemon_client *d, const struct box_path *p, struct err *e)
{
	CLEANUP(buf) struct buf target = BUF_INIT(BOX_TARGET_MAX);
	struct daemon_question q = { .method = "GET" };
	struct sse s = SSE_INIT(EVENT_MAX);
	int r;

	if (box_path_target(&target, p, "/files/watch", "", e) < 0)
		return -e->code;
	q.target = buf_str(&target);
	r = daemon_client_stream(d, &q, e);
	while (r >= 0 && (r = daemon_client_event(d, &s, 0, e)) == 1)
		if (str_eq(s.type, "change")) {
			(void)printf("%s\n", buf_str(&s.data));
			(void)fflush(stdout);
		}
	sse_done(&s);
	return r;
}

/* ---- verbs ---- */

int verb_files(struct daemon_client *d, const struct sandbox_asked *a, struct err *e)
{
	const char *verb = a->rest[0], *to = a->rest_count > 2 ? a->rest[2] : NULL;
	struct box_path p, other;
	bool two = str_eq(verb, "move");

	if (box_path_parse(a->rest[1], &p) <= 0)
		return err_refuse(e, ERR_USAGE, EINVAL, "such as sb_...:/tmp/file, or NAME:file",
				  "'%.100s' is not ID:PATH", a->rest[1]);
	if (to && box_path_parse(to, &other)) {
		if (!str_eq(other.ref, p.ref))
			return err_set(e, ERR_USAGE, EINVAL, "move stays in one sandbox");
		to = other.path;
	}
	if (two != (to != NULL))
		return err_set(e, ERR_USAGE, EINVAL,
			       two ? "move needs a path to move to" : "one place is enough");
	if (str_eq(verb, "list") || str_eq(verb, "stat"))
		return box_files_show(d, &p, str_eq(verb, "list"), a->json, e);
	if (str_eq(verb, "mkdir"))
		return box_path_post(d, &p, "mkdir", NULL, a->recursive, e);
	if (two)
		return box_path_post(d, &p, "move", to, a->force, e);
	if (str_eq(verb, "remove"))
		return box_path_ask(d, "DELETE", &p, "/files",
				    a->recursive ? "&recursive=true" : "", NULL, NULL, e);
	if (str_eq(verb, "watch"))
		return watch(d, &p, e);
	return err_refuse(e, ERR_USAGE, EINVAL, "list, stat, mkdir, move, remove or watch",
			  "sandbox files takes no '%.60s'", verb);
}
