/* SPDX-License-Identifier: Apache-2.0 */
/* kube/api/kube_watching.c - follows a collection for brig, one line of JSON an event (kube.h).
 *
 *   listing -> watching -> watching ... (the server ends a watch after minutes, or we lost it)
 *      ^          |
 *      +--- 410 --+   what it knew of our version is forgotten
 *
 * Lost or refused for the moment: a pause, then the same again from the version that was last seen.
 * Failed for good, or for longer than `ms`: the last line says why. */
#include <errno.h>
#include <string.h>

#include "base/bytes/jread.h"
#include "base/bytes/json.h"
#include "base/files/fd.h"
#include "base/sys/clock.h"
#include "base/sys/wait.h"
#include "base/text/str.h"
#include "base/text/url.h"
#include "kube/api/kube_speaker.h"
#include "kube/kube.h"

#define WATCH_S 240             /* the server ends a watch then; a little more, by chance */
#define SILENCE_US 360000000ULL /* it should have ended it long ago */
#define LIST_US 60000000ULL
#define VERSION_SIZE 128
#define TARGET_MAX 16384

enum watch_turn { TURN_GO_ON, TURN_LIST, TURN_WAIT, TURN_OVER };

struct watching {
	struct speaker *speaker;
	const struct kube_letter *letter;
	char version[VERSION_SIZE]; /* of the last event; "": a list is next */
	uint64_t well;              /* when the server last did as asked */
	struct speaker_result result;
	unsigned tries;
	struct err err;
	struct buf line;
};

/* ---- what brig reads ---- */

/* False: it has closed its end. */
static bool kube_watching_tell(struct watching *w, const struct buf *b)
{
	if (b->failed) {
		(void)err_set(&w->err, ERR_UNAVAILABLE, EMSGSIZE, "an object is too long");
		return false;
	}
	return fd_write_all(w->speaker->out, b->data, b->len) == 0;
}

static bool tell_event(struct watching *w, const char *type, const struct jread *object)
{
	CLEANUP(buf) struct buf b = BUF_INIT(KUBE_EVENT_MAX);

	buf_printf(&b, "{\"type\":\"%s\"", type);
	if (object) {
		buf_puts(&b, ",\"object\":");
		jread_write(object, &b);
	}
	buf_puts(&b, "}\n");
	return kube_watching_tell(w, &b);
}

static void tell_failure(struct watching *w)
{
	CLEANUP(buf) struct buf b = BUF_INIT(4096);
	struct json j;

	json_init(&j, &b, false);
	json_object(&j);
	json_kstr(&j, "type", "FAILED");
	json_ku64(&j, "code", (uint64_t)(w->result.status ? w->result.status : w->err.code));
	json_kstr(&j, "kind", err_kind_name(w->err.kind));
	json_kstr(&j, "message", w->err.what);
	if (w->err.hint[0])
		json_kstr(&j, "hint", w->err.hint);
	json_object_end(&j);
	buf_putc(&b, '\n');
	(void)kube_watching_tell(w, &b);
}

/* ---- answers that are not what was asked for ---- */

static void note_status(struct watching *w, const struct buf *body)
{
	struct kube_answer a = { .status = w->result.status, .body = *body };
	char text[256];

	kube_answer_text(&a, text, sizeof(text));
	(void)err_set(&w->err, ERR_UNAVAILABLE, w->result.status == 404 ? ENOENT : EREMOTEIO, "%s",
		      text);
}

static enum watch_turn kube_watching_judge(struct watching *w)
{
	int status = w->result.status;

	if (status == 410) {
		w->version[0] = '\0';
		return TURN_LIST;
	}
	if (status >= 400 && status < 500 && status != 429 && status != 408)
		return TURN_OVER;
	if (!status &&
	    (w->err.code == EKEYREJECTED || w->err.code == EACCES || w->err.code == EMSGSIZE))
		return TURN_OVER;
	return TURN_WAIT;
}

static uint64_t deadline_of(const struct watching *w)
{
	uint64_t us = w->letter->ms * 1000;

	return clock_us() + (us < LIST_US ? us : LIST_US);
}

/* A whole answer; its body is the caller's. */
static enum watch_turn kube_watching_fetch(struct watching *w, const char *target, struct buf *body)
{
	const struct speaker_call c = { .method = "GET", .target = target };
	uint64_t deadline = deadline_of(w);
	const struct http1_answer *a;

	w->result = (struct speaker_result){ 0 };
	if (speaker_try(w->speaker, &c, deadline, &a, &w->err) < 0)
		return kube_watching_judge(w);
	w->result = (struct speaker_result){ a->status, speaker_retry_after(a) };
	if (client_read_all(w->speaker->client, body, deadline, &w->err) < 0) {
		w->result = (struct speaker_result){ 0 };
		speaker_hang_up(w->speaker);
		return kube_watching_judge(w);
	}
	if (w->result.status == 200)
		return TURN_GO_ON;
	note_status(w, body);
	return kube_watching_judge(w);
}

/* ---- the list ---- */

static void put_target(const struct watching *w, struct buf *b)
{
	const char *path = w->letter->path;

	buf_puts(b, path);
	buf_putc(b, strchr(path, '?') ? '&' : '?');
}

static bool keep_version(struct watching *w, const struct jread *object)
{
	const char *v = jread_str(jread_get(object, "metadata"), "resourceVersion");

	if (!v || !v[0] || strlen(v) >= VERSION_SIZE || str_has_control(v))
		return false;
	memcpy(w->version, v, strlen(v) + 1);
	return true;
}

static enum watch_turn malformed(struct watching *w)
{
	(void)err_set(&w->err, ERR_UNAVAILABLE, EBADMSG, "the API server's answer is not a %s",
		      w->version[0] ? "watch" : "list");
	w->result = (struct speaker_result){ 0 };
	speaker_hang_up(w->speaker);
	return TURN_WAIT;
}

static enum watch_turn tell_items(struct watching *w, const struct jread *list, bool first)
{
	const struct jread *items = jread_get(list, "items");

	if (first && !tell_event(w, "RESET", NULL))
		return TURN_OVER;
	for (size_t i = 0; i < jread_count(items); i++)
		if (!tell_event(w, "ADDED", jread_at(items, i)))
			return TURN_OVER;
	return TURN_GO_ON;
}

static enum watch_turn list_part(struct watching *w, bool first, struct buf *next)
{
	CLEANUP(buf) struct buf target = BUF_INIT(TARGET_MAX);
	CLEANUP(buf) struct buf body = BUF_INIT(KUBE_ANSWER_MAX);
	CLEANUP(jread) struct jread *list = NULL;
	enum watch_turn turn;
	const char *more;

	put_target(w, &target);
	buf_puts(&target, "limit=500");
	if (next->len) {
		buf_puts(&target, "&continue=");
		url_put_escaped(&target, buf_str(next));
	}
	turn = kube_watching_fetch(w, buf_str(&target), &body);
	if (turn != TURN_GO_ON)
		return turn;
	if (jread_parse(body.data, body.len, &list, &w->err) < 0 ||
	    jread_kind(jread_get(list, "metadata")) != JREAD_OBJECT)
		return malformed(w);
	buf_done(next);
	*next = (struct buf)BUF_INIT(TARGET_MAX / 4);
	more = jread_str(jread_get(list, "metadata"), "continue");
	buf_puts(next, more ? more : "");
	if (next->failed || (!next->len && !keep_version(w, list)))
		return malformed(w);
	return tell_items(w, list, first);
}

static enum watch_turn list_all(struct watching *w)
{
	CLEANUP(buf) struct buf next = BUF_INIT(TARGET_MAX / 4);
	enum watch_turn turn;
	bool first = true;

	do {
		turn = list_part(w, first, &next);
		first = false;
		w->well = turn == TURN_GO_ON ? clock_us() : w->well;
	} while (turn == TURN_GO_ON && next.len);
	if (turn != TURN_GO_ON) {
		w->version[0] = '\0';
		return turn;
	}
	w->tries = 0;
	return tell_event(w, "SYNCED", NULL) ? TURN_GO_ON : TURN_OVER;
}

/* ---- the watch ---- */

static enum watch_turn take_error(struct watching *w, const struct jread *status)
{
	CLEANUP(buf) struct buf b = BUF_INIT(KUBE_STATUS_MAX);
	int64_t code = jread_int(status, "code", 500);

	jread_write(status, &b);
	w->result =
		(struct speaker_result){ .status = code >= 400 && code < 600 ? (int)code : 500 };
	note_status(w, &b);
	speaker_hang_up(w->speaker);
	return kube_watching_judge(w);
}

static enum watch_turn kube_watching_take_line(struct watching *w, const char *p, size_t n)
{
	static const char *const told[] = { "ADDED", "MODIFIED", "DELETED" };
	CLEANUP(jread) struct jread *event = NULL;
	const struct jread *object;
	const char *type;

	if (jread_parse(p, n, &event, &w->err) < 0)
		return malformed(w);
	type = jread_str(event, "type");
	object = jread_get(event, "object");
	if (!type || jread_kind(object) != JREAD_OBJECT)
		return malformed(w);
	if (str_eq(type, "ERROR"))
		return take_error(w, object);
	if (!keep_version(w, object))
		return malformed(w);
	w->well = clock_us();
	w->tries = 0;
	for (size_t i = 0; i < ARRAY_LEN(told); i++)
		if (str_eq(type, told[i]))
			return tell_event(w, type, object) ? TURN_GO_ON : TURN_OVER;
	return TURN_GO_ON; /* a bookmark, or news of a later server */
}

/* The lines that are whole; what is left begins the next one. */
static enum watch_turn kube_watching_take_lines(struct watching *w)
{
	size_t from = 0;
	enum watch_turn turn = TURN_GO_ON;

	while (turn == TURN_GO_ON && from < w->line.len) {
		const char *at = w->line.data + from;
		const char *end = memchr(at, '\n', w->line.len - from);

		if (!end)
			break;
		if (end > at)
			turn = kube_watching_take_line(w, at, (size_t)(end - at));
		from += (size_t)(end - at) + 1;
	}
	if (from) {
		memmove(w->line.data, w->line.data + from, w->line.len - from);
		w->line.len -= from;
	}
	return turn;
}

/* Something to read; false: the reader is gone. */
static bool wait_for_news(struct watching *w, uint64_t until)
{
	struct pollfd p[] = { { .fd = client_fd(w->speaker->client), .events = POLLIN },
			      { .fd = w->speaker->out } };

	(void)wait_any(p, 2, until);
	return !p[1].revents;
}

static enum watch_turn lost(struct watching *w, int code, const char *what)
{
	speaker_hang_up(w->speaker);
	w->result = (struct speaker_result){ 0 };
	(void)err_set(&w->err, ERR_UNAVAILABLE, code, "%s", what);
	return code == EMSGSIZE ? TURN_OVER : TURN_WAIT;
}

static enum watch_turn kube_watching_follow(struct watching *w)
{
	uint64_t until = clock_us() + SILENCE_US;
	struct client *c = w->speaker->client;
	char piece[16384];

	for (;;) {
		ssize_t n = client_read(c, piece, sizeof(piece), clock_us(), &w->err);
		enum watch_turn turn;

		if (n == -EAGAIN) {
			if (!wait_for_news(w, until))
				return TURN_OVER;
			if (clock_us() >= until)
				return lost(w, ETIMEDOUT, "the API server has gone silent");
			continue;
		}
		if (n < 0)
			return lost(w, ECONNRESET, "the connection to the API server was lost");
		if (n == 0) /* as the server does it after minutes */
			return TURN_GO_ON;
		buf_add(&w->line, piece, (size_t)n);
		if (w->line.failed)
			return lost(w, EMSGSIZE, "the API server sends an event that is too long");
		turn = kube_watching_take_lines(w);
		if (turn != TURN_GO_ON)
			return turn;
	}
}

static enum watch_turn watch_once(struct watching *w)
{
	CLEANUP(buf) struct buf target = BUF_INIT(TARGET_MAX);
	CLEANUP(buf) struct buf body = BUF_INIT(KUBE_STATUS_MAX);
	struct speaker_call c = { .method = "GET" };
	const struct http1_answer *a;
	uint64_t began = clock_us(), deadline = deadline_of(w);
	enum watch_turn turn;

	put_target(w, &target);
	buf_printf(&target, "watch=1&allowWatchBookmarks=true&timeoutSeconds=%d&resourceVersion=",
		   WATCH_S + (int)(began % 60));
	url_put_escaped(&target, w->version);
	c.target = buf_str(&target);
	w->result = (struct speaker_result){ 0 };
	if (speaker_try(w->speaker, &c, deadline, &a, &w->err) < 0)
		return kube_watching_judge(w);
	w->result = (struct speaker_result){ a->status, speaker_retry_after(a) };
	if (a->status != 200) {
		(void)client_read_all(w->speaker->client, &body, deadline, &w->err);
		note_status(w, &body);
		return kube_watching_judge(w);
	}
	w->well = clock_us();
	w->result = (struct speaker_result){ 0 };
	buf_done(&w->line);
	w->line = (struct buf)BUF_INIT(KUBE_EVENT_MAX);
	turn = kube_watching_follow(w);
	w->well = clock_us(); /* until now it was there */
	/* One that ends at once, again and again, is not to be asked without a pause. */
	return turn == TURN_GO_ON && clock_us() - began < 1000000 ? TURN_WAIT : turn;
}

void speaker_watch(struct speaker *s, const struct kube_letter *l)
{
	struct watching w = { .speaker = s, .letter = l, .well = clock_us() };
	enum watch_turn turn = TURN_LIST;

	while (turn != TURN_OVER) {
		turn = w.version[0] ? watch_once(&w) : list_all(&w);
		if (turn == TURN_WAIT) {
			if (clock_us() - w.well > l->ms * 1000)
				break;
			if (!speaker_sleep(s->out, speaker_pause(w.tries++, &w.result)))
				turn = TURN_OVER;
		} else if (turn == TURN_LIST && w.tries++) {
			/* The first is at once; a server that keeps saying it is not worth more. */
			if (!speaker_sleep(s->out, speaker_pause(w.tries, &w.result)))
				turn = TURN_OVER;
		}
	}
	if (w.err.code)
		tell_failure(&w);
	buf_done(&w.line);
}
