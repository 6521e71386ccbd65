/* SPDX-License-Identifier: Apache-2.0 */
/* backend/docker/image_build.c - has the engine build an image from one Dockerfile.
 *
 * The archive that is sent holds that file and nothing else: no folder of the host's is a part of
 * the build. The engine ends it when the connection ends. */
#include <stdio.h>
#include <string.h>

#include "backend/backend.h"
#include "backend/docker/docker.h"
#include "base/tar/tar.h"
#include "base/sys/clock.h"
#include "base/text/str.h"
#include "model/known/image_name.h"

#define ARCHIVE_MAX ((size_t)256 << 10)
#define TOLD_MAX 160
#define QUERY_MAX ((size_t)4 << 10)

struct building {
	void (*note)(void *arg, const char *text);
	void *arg;
	char failed[512];
	char step[128]; /* what it is about */
	char last[128]; /* line that a command of it wrote: one that fails says why there */
};

static int image_build_put(void *arg, const void *p, size_t n)
{
	struct buf *b = arg;

	buf_add(b, p, n);
	return b->failed ? -ENOMEM : 0;
}

static int archive(const char *text, struct buf *out, struct err *e)
{
	static const char zeros[TAR_BLOCK];
	CLEANUP(mem) struct tar_entry *t = calloc(1, sizeof(*t));
	size_t n = strlen(text);

	if (!t)
		return err_nomem(e);
	t->type = TAR_FILE;
	t->mode = 0644;
	t->size = n;
	(void)snprintf(t->name, sizeof(t->name), "Dockerfile");
	if (tar_put_entry(image_build_put, out, t) < 0 || image_build_put(out, text, n) < 0 ||
	    image_build_put(out, zeros, (TAR_BLOCK - n % TAR_BLOCK) % TAR_BLOCK) < 0 ||
	    tar_pack_end(image_build_put, out) < 0)
		return err_nomem(e);
	return 0;
}

/* One line of what was said, without what a terminal would obey: the engine colours errors. */
static void keep_line(char *to, size_t n, const char *text)
{
	size_t at = 0;

	for (; *text && !strchr("\r\n", *text) && at + 1 < n; text++) {
		if (text[0] == '\033' && text[1] == '[')
			text += strcspn(text, "m\n");
		else
			to[at++] =
				(char)((unsigned char)*text < 0x20 || *text == 0x7f ? ' ' : *text);
		if (!*text)
			break;
	}
	to[utf8_cut(to, at)] = '\0';
}

/* The engine's own words on how it goes, in contrast to those of a command. */
static bool is_progress(const char *text)
{
	static const char *const heads[] = { "Step ",     "STEP ",        " --->", "--> ",
					     "Removing ", "Successfully", "COMMIT" };

	for (size_t i = 0; i < ARRAY_LEN(heads); i++)
		if (str_starts(text, heads[i]))
			return true;
	return false;
}

static void build_line(void *arg, const char *line, size_t n)
{
	CLEANUP(jread) struct jread *v = NULL;
	struct building *b = arg;
	const char *text;
	struct err e;

	if (jread_parse(line, n, &v, &e) < 0)
		return;
	if ((text = jread_str(v, "error")))
		keep_line(b->failed, sizeof(b->failed), text);
	text = jread_str(v, "stream");
	if (!text)
		text = jread_str(v, "status");
	if (!text || !text[strspn(text, " \r\n")])
		return;
	if (is_progress(text)) {
		keep_line(b->step, sizeof(b->step), text);
		if (b->note && str_starts_nocase(text, "step "))
			b->note(b->arg, b->step);
		return;
	}
	keep_line(b->last, sizeof(b->last), text);
	if (b->note)
		b->note(b->arg, b->last);
}

static bool build_tick(void *arg UNUSED)
{
	return false;
}

static void build_path(const struct image_recipe *r, struct buf *out)
{
	CLEANUP(buf) struct buf arguments = BUF_INIT(QUERY_MAX);
	struct json j;

	buf_puts(out, "/build?rm=1&forcerm=1&t=");
	engine_escape(out, r->ref);
	if (!r->base)
		return;
	json_init(&j, &arguments, false);
	json_object(&j);
	json_kstr(&j, "BASE", r->base);
	json_object_end(&j);
	buf_puts(out, "&buildargs=");
	engine_escape(out, buf_str(&arguments));
}

static int build_failed(const struct image_recipe *r, const char *text, const char *last,
			struct err *e)
{
	size_t n = strlen(text);

	/* It quotes the whole command first, and says at the end what became of it. */
	(void)err_set(e, ERR_UNAVAILABLE, EIO, "image '%.80s' was not built: %s%s", r->ref,
		      n > TOLD_MAX ? "..." : "", n > TOLD_MAX ? text + n - TOLD_MAX : text);
	return err_hint(e, "%s%s%s--base REF builds on an image that you have",
			last[0] ? "the last that was said: " : "", last, last[0] ? "; " : "");
}

static int image_build_refused(struct client *c, const struct image_recipe *r, struct err *e)
{
	char text[256];

	engine_refusal(c, text, sizeof(text));
	return build_failed(r, text, "", e);
}

static int build(const struct engine *g, const struct image_recipe *r, struct building *b,
		 struct err *e)
{
	CLEANUP(client) struct client *c = NULL;
	CLEANUP(buf) struct buf path = BUF_INIT(QUERY_MAX), tar = BUF_INIT(ARCHIVE_MAX);
	const struct engine_lines l = { .line = build_line, .tick = build_tick, .arg = b };
	uint64_t deadline = clock_us() + (uint64_t)ENGINE_QUIET_MS * 1000;
	struct engine_call q = { .method = "POST" };
	const struct http1_answer *a;
	int status;

	build_path(r, &path);
	if (archive(r->text, &tar, e) < 0)
		return -e->code;
	q.path = buf_str(&path);
	q.body = tar.data;
	q.tar = tar.len;
	if (engine_connect(g, ENGINE_CALL_MS, &c, e) < 0 ||
	    engine_send(g, c, &q, NULL, deadline, e) < 0 || client_answer(c, deadline, &a, e) < 0)
		return err_wrap(e, "image '%.80s'", r->ref);
	if (a->status != 200)
		return image_build_refused(c, r, e);
	status = engine_follow(c, &l, e);
	if (status == -ETIMEDOUT)
		return err_refuse(e, ERR_UNAVAILABLE, ETIMEDOUT, "see what the engine is doing",
				  "image '%.80s': the engine has gone silent", r->ref);
	if (status < 0)
		return status;
	return b->failed[0] ? build_failed(r, b->failed, b->last, e) : 0;
}

int docker_build(const struct image_recipe *r, void (*note)(void *arg, const char *text), void *arg,
		 struct err *e)
{
	CLEANUP(engine) struct engine g = { 0 };
	struct building b = { .note = note, .arg = arg };

	if (!image_valid(r->ref) || (r->base && !image_valid(r->base)))
		return err_refuse(e, ERR_USAGE, EINVAL, "such as debian:12-slim",
				  "'%.100s' is not the name of an image",
				  image_valid(r->ref) ? r->base : r->ref);
	return engine_open(&g, e) < 0 ? -e->code : build(&g, r, &b, e);
}
