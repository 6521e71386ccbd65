/* SPDX-License-Identifier: Apache-2.0 */
/* egress/oauth/token_json.c - JSON, read into a tree and written anew. */
#include <errno.h>
#include <string.h>

#include "base/bytes/jread.h"
#include "base/bytes/json.h"
#include "egress/oauth/oauth_internal.h"

#define DEPTH_MAX 16
#define VALUES_MAX 2000

struct sealing {
	struct oauth *t;
	int endpoint;
	int64_t until;
	struct json out;
	struct oauth_news *news;
	struct err *e;
};

static int read_tree(struct egress_text body, struct jread **ret, struct err *e)
{
	if (!jread_within(body.p, body.n, DEPTH_MAX, VALUES_MAX))
		return err_set(e, ERR_UNAVAILABLE, EBADMSG, "JSON that is too deep or too long");
	return jread_parse(body.p, body.n, ret, e);
}

static void put_other(struct json *j, const struct jread *v)
{
	CLEANUP(mem) char *text = jread_dump(v);

	if (text)
		json_raw(j, text, strlen(text));
	else
		j->out->failed = true;
}

static int put_text(struct sealing *s, const char *name, const char *text)
{
	const char *instead = NULL;

	if (token_seal(s->t, s->endpoint, egress_text(name, strlen(name)),
		       egress_text(text, strlen(text)), s->until, &instead, s->news, s->e) < 0)
		return -s->e->code;
	json_str(&s->out, instead ? instead : text);
	return 0;
}

/* What is in a list goes by the list's name. The tree is no deeper than DEPTH_MAX. */
static int put_value(struct sealing *s, const char *name,
		     const struct jread *v) // NOLINT(misc-no-recursion)
{
	int r = 0;

	switch (jread_kind(v)) {
	case JREAD_STRING:
		return put_text(s, name, jread_text(v));
	case JREAD_ARRAY:
		json_array(&s->out);
		for (size_t i = 0; r == 0 && i < jread_count(v); i++)
			r = put_value(s, name, jread_at(v, i));
		json_array_end(&s->out);
		return r;
	case JREAD_OBJECT:
		json_object(&s->out);
		for (void *it = jread_first(v); r == 0 && it; it = jread_next(v, it)) {
			json_key(&s->out, jread_key(it));
			r = put_value(s, jread_key(it), jread_value(it));
		}
		json_object_end(&s->out);
		return r;
	default:
		put_other(&s->out, v);
		return 0;
	}
}

int token_json_answer(struct oauth *t, int endpoint, struct egress_text body, struct buf *out,
		      struct oauth_news *news, struct err *e)
{
	CLEANUP(jread) struct jread *v = NULL;
	struct sealing s = { .t = t, .endpoint = endpoint, .news = news, .e = e };
	int64_t life;

	if (read_tree(body, &v, e) < 0)
		return -e->code;
	life = jread_int(v, "expires_in", 0);
	s.until = life > 0 && life < INT32_MAX ? t->now + life : 0;
	json_init(&s.out, out, false);
	return put_value(&s, "", v);
}

/* --- a request --- */

static void put_member(struct json *sent, struct json *said, const char *name,
		       const struct jread *v, const struct secret *s)
{
	json_key(sent, name);
	json_key(said, name);
	if (s) {
		json_strn(sent, s->value, s->len);
		json_str(said, "");
	} else {
		put_other(sent, v);
		put_other(said, v);
	}
}

int token_json_body(const struct oauth *t, int endpoint, struct egress_text body, struct buf *sent,
		    struct buf *said, uint64_t *used)
{
	CLEANUP(jread) struct jread *v = NULL;
	struct json a, b;
	struct err e = { 0 };

	if (read_tree(body, &v, &e) < 0)
		return -e.code;
	json_init(&a, sent, false);
	json_init(&b, said, false);
	json_object(&a);
	json_object(&b);
	for (void *it = jread_first(v); it; it = jread_next(v, it)) {
		const char *name = jread_key(it), *text = jread_text(jread_value(it));
		const struct secret *s =
			text && token_field(egress_text(name, strlen(name)))
				? oauth_value(t, endpoint, egress_text(text, strlen(text)), used)
				: NULL;

		put_member(&a, &b, name, jread_value(it), s);
	}
	json_object_end(&a);
	json_object_end(&b);
	return 0;
}
