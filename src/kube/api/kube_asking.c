/* SPDX-License-Identifier: Apache-2.0 */
/* kube/api/kube_asking.c - one request, tried until there is an answer that is worth telling.
 *
 * Trying -> told, or waiting -> trying ... -> time is over: the last answer, or why there is none.
 * kube.h says what is tried again. */
#include <errno.h>
#include <string.h>

#include "base/bytes/jread.h"
#include "base/sys/clock.h"
#include "base/text/str.h"
#include "base/text/url.h"
#include "kube/api/kube_speaker.h"
#include "kube/kube.h"

struct asking {
	struct speaker *speaker;
	const struct kube_letter *letter;
	uint64_t deadline;
	struct speaker_result result;
	struct buf body;
};

static bool is_harmless(const struct kube_letter *l)
{
	return !str_eq(l->method, "POST") || l->again || l->label[0];
}

static int try_once(struct asking *a, const struct speaker_call *c, struct err *e)
{
	const struct http1_answer *answer;

	a->result = (struct speaker_result){ 0 };
	buf_done(&a->body);
	a->body = (struct buf)BUF_INIT(KUBE_ANSWER_MAX);
	if (speaker_try(a->speaker, c, a->deadline, &answer, e) < 0)
		return -e->code;
	if (client_read_all(a->speaker->client, &a->body, a->deadline, e) < 0) {
		speaker_hang_up(a->speaker);
		return err_wrap(e, "API server '%.100s'", a->speaker->url.authority);
	}
	a->result.status = answer->status;
	a->result.retry_after = speaker_retry_after(answer);
	return 0;
}

static bool may_repeat(const struct asking *a, const struct err *e)
{
	int status = a->result.status;

	if (status)
		return status == 429 || ((status == 500 || (status >= 502 && status <= 504)) &&
					 is_harmless(a->letter));
	/* Nothing of these gets better by asking again. */
	if (e->code == EKEYREJECTED || e->code == EACCES || e->code == EMSGSIZE ||
	    e->code == EBADMSG || e->code == E2BIG || e->code == EINVAL)
		return false;
	return !a->speaker->sent || is_harmless(a->letter);
}

/* 0: there is an answer in `result`. */
static int kube_asking_ask(struct asking *a, const struct speaker_call *c, struct err *e)
{
	for (unsigned tries = 0;; tries++) {
		uint64_t pause;
		int r = try_once(a, c, e);

		if (r == 0 && !may_repeat(a, e))
			return 0;
		pause = speaker_pause(tries, &a->result);
		if ((r < 0 && !may_repeat(a, e)) || clock_us() + pause >= a->deadline)
			return r;
		if (!speaker_sleep(a->speaker->channel, pause))
			return err_set(e, ERR_INTERNAL, ECANCELED, "nobody waits any more");
	}
}

/* ---- an object that is there already ---- */

static bool kube_asking_is_ours(const struct kube_letter *l, const struct buf *body)
{
	CLEANUP(jread) struct jread *root = NULL;
	struct err ignored;
	const char *value = NULL;

	if (jread_parse(body->data, body->len, &root, &ignored) == 0)
		value = jread_str(jread_get(jread_get(root, "metadata"), "labels"), l->label);
	return value && str_eq(value, l->value);
}

static bool exists_already(const struct buf *body)
{
	CLEANUP(jread) struct jread *root = NULL;
	struct err ignored;
	const char *reason = NULL;

	if (jread_parse(body->data, body->len, &root, &ignored) == 0)
		reason = jread_str(root, "reason");
	return reason && str_eq(reason, "AlreadyExists");
}

/* Where the object of the letter's body is, by its own name. */
static int kube_asking_path_of(const struct kube_letter *l, struct buf *path)
{
	CLEANUP(jread) struct jread *root = NULL;
	struct err ignored;
	const char *name;

	if (jread_parse(l->body, l->len, &root, &ignored) < 0)
		return -EBADMSG;
	name = jread_str(jread_get(root, "metadata"), "name");
	if (!name || !name[0] || strchr(name, '/'))
		return -EBADMSG;
	buf_add(path, l->path, strcspn(l->path, "?"));
	buf_putc(path, '/');
	url_put_escaped(path, name);
	return path->failed ? -ENOMEM : 0;
}

/* What was answered stays, unless the object has our label. */
static void recognise(struct asking *a)
{
	CLEANUP(buf) struct buf path = BUF_INIT(8192);
	struct asking look = { .speaker = a->speaker,
			       .letter = &(struct kube_letter){ .method = "GET", .label = "" },
			       .deadline = a->deadline };
	struct speaker_call c = { .method = "GET" };
	struct err ignored = { 0 };

	if (!exists_already(&a->body) || kube_asking_path_of(a->letter, &path) < 0)
		return;
	c.target = buf_str(&path);
	if (kube_asking_ask(&look, &c, &ignored) == 0 && look.result.status == 200 &&
	    kube_asking_is_ours(a->letter, &look.body)) {
		buf_done(&a->body);
		a->body = look.body;
		a->result.status = 200;
		return;
	}
	buf_done(&look.body);
}

void speaker_ask(struct speaker *s, const struct kube_letter *l)
{
	struct asking a = { .speaker = s,
			    .letter = l,
			    .deadline = clock_us() + l->ms * 1000,
			    .body = BUF_INIT(KUBE_ANSWER_MAX) };
	const struct speaker_call c = { .method = l->method,
					.target = l->path,
					.type = l->type,
					.body = l->has_body ? l->body : NULL,
					.len = l->len };
	struct kube_packet p = { 0 };
	struct err e = { 0 };

	if (kube_asking_ask(&a, &c, &e) == 0) {
		if (a.result.status == 409 && l->label[0] && str_eq(l->method, "POST"))
			recognise(&a);
		p.status = a.result.status;
		(void)kube_packet_send(s->channel, &p, &a.body);
	} else {
		speaker_fail(s, &e);
	}
	buf_done(&a.body);
}
