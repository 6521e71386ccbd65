/* SPDX-License-Identifier: Apache-2.0 */
#include "interp/interp_answer.h"

#include <assert.h>
#include <string.h>

#include "base/bytes/base64.h"
#include "base/text/str.h"

enum { DEPTH_MAX = 2, VALUES_MAX = 24, MAGIC_MAX = 8 };

static const struct mime {
	const char *name;
	size_t magic_len;
	char magic[MAGIC_MAX];
} mimes[] = {
	[MIME_PLAIN] = { "text/plain" },
	[MIME_HTML] = { "text/html" },
	[MIME_MARKDOWN] = { "text/markdown" },
	[MIME_LATEX] = { "text/latex" },
	[MIME_SVG] = { "image/svg+xml" },
	[MIME_JSON] = { "application/json" },
	[MIME_PNG] = { "image/png", 8, { '\x89', 'P', 'N', 'G', '\r', '\n', '\x1a', '\n' } },
	[MIME_JPEG] = { "image/jpeg", 3, { '\xff', '\xd8', '\xff' } },
};
static_assert(ARRAY_LEN(mimes) == MIME_COUNT, "a row for each");

const char *interp_mime_name(enum interp_mime m)
{
	return mimes[m].name;
}

/* ---- members ---- */

/* Which of `words` a member is; -1: none. */
static int word_of(const struct jread *v, const char *key, const char *const *words)
{
	const char *text = jread_str(v, key);

	for (int i = 0; text && words[i]; i++)
		if (str_eq(words[i], text))
			return i;
	return -1;
}

static bool interp_answer_text_of(const struct jread *v, const char *key, const char **ret)
{
	*ret = jread_str(v, key);
	return *ret != NULL;
}

static bool has_only(const struct jread *v, size_t members)
{
	size_t n = 0;

	for (void *it = jread_first(v); it; it = jread_next(v, it))
		n++;
	return n == members;
}

/* ---- what there is to look at ---- */

static bool is_image(const struct mime *m, const char *text)
{
	size_t n = strlen(text);
	CLEANUP(mem) char *bytes = malloc(n + 1);
	ssize_t len = bytes ? base64_read(text, n, bytes, n + 1) : -1;

	return bytes && len >= (ssize_t)m->magic_len && memcmp(bytes, m->magic, m->magic_len) == 0;
}

static bool read_data(const struct jread *data, struct interp_answer *a)
{
	if (jread_kind(data) != JREAD_OBJECT)
		return false;
	for (void *it = jread_first(data); it; it = jread_next(data, it)) {
		const char *text = jread_text(jread_value(it));
		size_t m = 0;

		while (m < MIME_COUNT && !str_eq(mimes[m].name, jread_key(it)))
			m++;
		if (m == MIME_COUNT || !text || (mimes[m].magic_len && !is_image(&mimes[m], text)))
			return false;
		a->data[m] = text;
	}
	return true;
}

/* ---- by type: type, id and these ---- */

static bool read_ready(const struct jread *v, struct interp_answer *a)
{
	return has_only(v, 2) && a->id == 0;
}

static bool read_out(const struct jread *v, struct interp_answer *a)
{
	static const char *const streams[] = { "stdout", "stderr", NULL };

	a->stream = word_of(v, "stream", streams) + 1;
	return has_only(v, 4) && a->stream && interp_answer_text_of(v, "text", &a->text);
}

static bool read_show(const struct jread *v, struct interp_answer *a)
{
	a->value = jread_bool(v, "value");
	return has_only(v, 4) && jread_kind(jread_get(v, "value")) == JREAD_BOOL &&
	       read_data(jread_get(v, "data"), a);
}

static bool read_fail(const struct jread *v, struct interp_answer *a)
{
	return has_only(v, 5) && interp_answer_text_of(v, "name", &a->name) &&
	       interp_answer_text_of(v, "message", &a->message) &&
	       interp_answer_text_of(v, "trace", &a->text);
}

static bool read_done(const struct jread *v, struct interp_answer *a)
{
	static const char *const ends[] = {
		[INTERP_OK] = "ok",
		[INTERP_ERROR] = "error",
		[INTERP_EXIT] = "exit",
		[INTERP_INTERRUPTED] = "interrupted",
		NULL,
	};
	int end = word_of(v, "end", ends);
	int64_t code = jread_int(v, "code", -1);

	a->end = (enum interp_end)end;
	a->code = (int)code;
	return has_only(v, 4) && end >= 0 && code >= 0 && code <= 255;
}

bool interp_answer_read(const char *p, size_t n, struct interp_answer *ret)
{
	static const char *const types[] = {
		[INTERP_READY] = "ready", [INTERP_OUT] = "out",   [INTERP_SHOW] = "show",
		[INTERP_FAIL] = "fail",   [INTERP_DONE] = "done", NULL,
	};
	static bool (*const read[])(const struct jread *, struct interp_answer *) = {
		[INTERP_READY] = read_ready, [INTERP_OUT] = read_out,   [INTERP_SHOW] = read_show,
		[INTERP_FAIL] = read_fail,   [INTERP_DONE] = read_done,
	};
	struct err unused;
	int64_t id;
	int type;

	*ret = (struct interp_answer){ 0 };
	if (n > INTERP_LINE_MAX || !jread_within(p, n, DEPTH_MAX, VALUES_MAX) ||
	    jread_parse(p, n, &ret->root, &unused) < 0)
		return false;
	type = word_of(ret->root, "type", types);
	id = jread_int(ret->root, "id", -1);
	ret->type = (enum interp_type)type;
	ret->id = (uint64_t)id;
	if (type >= 0 && id >= 0 && read[type](ret->root, ret))
		return true;
	interp_answer_done(ret);
	return false;
}

void interp_answer_done(struct interp_answer *a)
{
	(void)jread_free(a->root);
	*a = (struct interp_answer){ 0 };
}
