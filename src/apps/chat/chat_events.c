/* SPDX-License-Identifier: Apache-2.0 */
#include "apps/chat/chat_events.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/bytes/jread.h"
#include "base/text/clean.h"
#include "base/text/str.h"

#define TOKENS_MAX ((int64_t)1 << 32)

void chat_answer_done(struct chat_answer *a)
{
	buf_done(&a->text);
	for (size_t i = 0; i < a->n_calls; i++)
		buf_done(&a->calls[i].args);
	*a = (struct chat_answer){ 0 };
}

void chat_events_init(struct chat_events *x, bool plain, struct chat_answer *to, chat_text_fn *text,
		      void *arg)
{
	*x = (struct chat_events){ .to = to,
				   .text = text,
				   .arg = arg,
				   .line = BUF_INIT(CHAT_EVENT_MAX),
				   .data = BUF_INIT(CHAT_EVENT_MAX),
				   .plain = plain };
	to->text = (struct buf)BUF_INIT(CHAT_TEXT_MAX);
}

void chat_events_done(struct chat_events *x)
{
	buf_done(&x->line);
	buf_done(&x->data);
}

static int too_long(const char *what, struct err *e)
{
	return err_set(e, ERR_UNAVAILABLE, EMSGSIZE, "the model's answer is too long: %s", what);
}

void chat_error_text(const char *p, size_t n, char *out, size_t room)
{
	CLEANUP(jread) struct jread *root = NULL;
	CLEANUP(buf) struct buf b = BUF_INIT(4096);
	const struct jread *error;
	const char *text;
	struct err unused;

	out[0] = '\0';
	if (!n || jread_parse(p, n, &root, &unused) < 0)
		return;
	error = jread_get(root, "error");
	text = jread_text(error) ? jread_text(error) : jread_str(error, "message");
	if (!text)
		text = jread_str(root, "message");
	if (!text || !*text)
		return;
	n = strlen(text);
	clean_put(&b, text, n < room ? n : utf8_cut(text, room - 1));
	(void)snprintf(out, room, "%s", buf_str(&b));
}

/* ---- what a chunk says ---- */

static int chat_events_take_text(struct chat_events *x, const char *text, struct err *e)
{
	size_t n = text ? strlen(text) : 0;

	if (!n)
		return 0;
	buf_add(&x->to->text, text, n);
	if (x->to->text.failed)
		return too_long("its text", e);
	if (x->text)
		x->text(x->arg, text, n);
	return 0;
}

/* The call that a piece belongs to: by its number, by a new id, or the last one. */
static struct chat_call *call_of(struct chat_answer *a, const struct jread *piece, struct err *e)
{
	const char *id = jread_str(piece, "id");
	int64_t at = jread_int(piece, "index", -1);

	if (at < 0)
		at = id && *id ? (int64_t)a->n_calls : (int64_t)a->n_calls - 1;
	if (at < 0 || at > (int64_t)a->n_calls || at >= CHAT_CALLS_MAX) {
		(void)(at >= CHAT_CALLS_MAX
			       ? too_long("it calls more than 64 tools", e)
			       : err_set(e, ERR_UNAVAILABLE, EBADMSG,
					 "the model's answer is broken: a piece of no call"));
		return NULL;
	}
	if (at == (int64_t)a->n_calls) {
		a->n_calls++;
		a->calls[at].args = (struct buf)BUF_INIT(CHAT_ARGS_MAX);
	}
	return &a->calls[at];
}

/* The first word counts; a server that repeats it in every piece says nothing new. */
static bool chat_events_take_word(char *to, size_t room, const char *word)
{
	if (!word || to[0])
		return true;
	return (size_t)snprintf(to, room, "%s", word) < room;
}

static int take_call(struct chat_answer *a, const struct jread *piece, struct err *e)
{
	const struct jread *f = jread_get(piece, "function");
	const char *args = jread_str(f, "arguments");
	struct chat_call *c = call_of(a, piece, e);

	if (!c)
		return -e->code;
	if (!chat_events_take_word(c->id, sizeof(c->id), jread_str(piece, "id")) ||
	    !chat_events_take_word(c->name, sizeof(c->name), jread_str(f, "name")))
		return too_long("a tool's name or id", e);
	if (args) {
		buf_puts(&c->args, args);
		a->args_len += strlen(args);
	}
	return c->args.failed || a->args_len > CHAT_ARGS_MAX ? too_long("arguments", e) : 0;
}

static uint64_t tokens(const struct jread *usage, const char *key)
{
	int64_t n = jread_int(usage, key, 0);

	return n < 0 ? 0 : n > TOKENS_MAX ? (uint64_t)TOKENS_MAX : (uint64_t)n;
}

static void take_usage(struct chat_answer *a, const struct jread *usage)
{
	if (jread_kind(usage) != JREAD_OBJECT)
		return;
	a->counted = true;
	a->in_tokens = tokens(usage, "prompt_tokens");
	a->out_tokens = tokens(usage, "completion_tokens");
}

static int take_message(struct chat_events *x, const struct jread *m, struct err *e)
{
	const struct jread *calls = jread_get(m, "tool_calls");

	if (chat_events_take_text(x, jread_str(m, "content"), e) < 0)
		return -e->code;
	for (size_t i = 0; i < jread_count(calls); i++)
		if (take_call(x->to, jread_at(calls, i), e) < 0)
			return -e->code;
	return 0;
}

static int take_chunk(struct chat_events *x, const char *p, size_t n, struct err *e)
{
	CLEANUP(jread) struct jread *root = NULL;
	const struct jread *choice, *m;
	const char *finish;
	char text[256];

	if (jread_parse(p, n, &root, e) < 0 || jread_kind(root) != JREAD_OBJECT)
		return err_set(e, ERR_UNAVAILABLE, EBADMSG,
			       "the model's answer is broken: no object of JSON");
	if (jread_get(root, "error") && jread_kind(jread_get(root, "error")) != JREAD_NULL) {
		chat_error_text(p, n, text, sizeof(text));
		return err_set(e, ERR_UNAVAILABLE, EREMOTEIO, "the model's server: %s",
			       text[0] ? text : "an error without words");
	}
	take_usage(x->to, jread_get(root, "usage"));
	choice = jread_at(jread_get(root, "choices"), 0);
	m = jread_get(choice, x->plain ? "message" : "delta");
	finish = jread_str(choice, "finish_reason");
	if (finish)
		(void)snprintf(x->to->finish, sizeof(x->to->finish), "%s", finish);
	return m ? take_message(x, m, e) : 0;
}

/* ---- the stream ---- */

static int end_event(struct chat_events *x, struct err *e)
{
	int r = 0;

	if (!x->data.len)
		return 0;
	if (str_eq(buf_str(&x->data), "[DONE]"))
		x->over = true;
	else
		r = take_chunk(x, x->data.data, x->data.len, e);
	x->data.len = 0;
	return r;
}

/* "data: TEXT"; other fields, and comments, say nothing that is needed. */
static int end_line(struct chat_events *x, struct err *e)
{
	const char *line = buf_str(&x->line);
	size_t n = x->line.len;

	x->line.len = 0;
	if (!n)
		return end_event(x, e);
	if (n < 5 || memcmp(line, "data:", 5) != 0)
		return 0;
	line += 5;
	n -= 5;
	if (n && *line == ' ')
		line++, n--;
	if (x->data.len)
		buf_putc(&x->data, '\n');
	buf_add(&x->data, line, n);
	return x->data.failed ? too_long("one event", e) : 0;
}

static int feed_line(struct chat_events *x, const char *p, size_t n, size_t *took, struct err *e)
{
	size_t len = 0;

	if (x->after_cr && p[0] == '\n') {
		x->after_cr = false;
		*took = 1;
		return 0;
	}
	x->after_cr = false;
	while (len < n && p[len] != '\n' && p[len] != '\r')
		len++;
	buf_add(&x->line, p, len);
	if (x->line.failed)
		return too_long("one line", e);
	*took = len;
	if (len == n)
		return 0;
	x->after_cr = p[len] == '\r';
	*took = len + 1;
	return end_line(x, e);
}

int chat_events_feed(struct chat_events *x, const char *p, size_t n, struct err *e)
{
	x->seen += n;
	if (x->seen > CHAT_STREAM_MAX)
		return too_long("its stream", e);
	if (x->plain) {
		buf_add(&x->data, p, n);
		return x->data.failed ? too_long("it is one object", e) : 0;
	}
	while (n && !x->over) {
		size_t took = 0;

		if (feed_line(x, p, n, &took, e) < 0)
			return -e->code;
		p += took;
		n -= took;
	}
	return 0;
}

int chat_events_end(struct chat_events *x, struct err *e)
{
	if (x->plain && take_chunk(x, buf_str(&x->data), x->data.len, e) < 0)
		return -e->code;
	if (!x->plain && !x->over && (end_line(x, e) < 0 || end_event(x, e) < 0))
		return -e->code;
	/* Some servers end without [DONE]; none that works ends without a reason. */
	if (!x->plain && !x->over && !x->to->finish[0])
		return err_set(e, ERR_UNAVAILABLE, EBADMSG, "the model's answer broke off");
	for (size_t i = 0; i < x->to->n_calls; i++)
		if (!x->to->calls[i].name[0])
			return err_set(e, ERR_UNAVAILABLE, EBADMSG,
				       "the model's answer is broken: a call without a name");
	return 0;
}
