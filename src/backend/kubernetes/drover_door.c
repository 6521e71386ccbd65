/* SPDX-License-Identifier: Apache-2.0 */
/* backend/kubernetes/drover_door.c - the door of a pod, seen from the drover: its Secret, its line,
 * and its decisions on their way to brig.
 *
 * The decisions are brig's to read: here they are bytes. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>

#include "backend/kubernetes/drover.h"
#include "base/bytes/base64.h"
#include "base/files/fd.h"
#include "base/sys/clock.h"

#define LOOK_MS 250
#define FORGET_MS 5000
#define PLAN_MAX ((off_t)1000000) /* an API server takes no Secret much larger */
#define SECRET_MAX ((size_t)2 << 20)

/* ---- the Secret ---- */

static int encode(int plan, struct buf *out, unsigned char digest[SHA256_SIZE], struct err *e)
{
	struct sha256 h;
	struct stat st;
	void *text;

	if (fstat(plan, &st) < 0 || st.st_size <= 0)
		return err_set(e, ERR_INTERNAL, EBADMSG, "the door has no rules");
	if (st.st_size > PLAN_MAX)
		return err_refuse(e, ERR_UNAVAILABLE, E2BIG,
				  "fewer rules or smaller credentials: they go into one Secret",
				  "what the door has to know is too much for a cluster: %lld bytes",
				  (long long)st.st_size);
	text = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, plan, 0);
	if (text == MAP_FAILED)
		return err_sys(e, "cannot read the door's rules");
	base64_put(out, text, (size_t)st.st_size);
	sha256_init(&h);
	sha256_add(&h, text, (size_t)st.st_size);
	sha256_end(&h, digest);
	(void)munmap(text, (size_t)st.st_size);
	return out->failed ? err_nomem(e) : 0;
}

static void wipe(struct buf *b)
{
	if (b->data)
		explicit_bzero(b->data, b->len);
}

int drover_door_secret(struct drover *d, const struct pod_run *r, struct err *e)
{
	CLEANUP(buf) struct buf text = BUF_INIT(SECRET_MAX);
	CLEANUP(buf) struct buf body = BUF_INIT(SECRET_MAX);
	CLEANUP(kube_answer) struct kube_answer a = { 0 };
	const struct pod_policy w = { .name = d->name, .uid = d->seen.uid };
	char path[128];
	struct json j;
	int code;

	if (d->plan->network != NETWORK_PROXY)
		return 0;
	if (!d->s->there)
		return err_set(e, ERR_INTERNAL, EINVAL, "nobody said what the door has to know");
	if (encode(d->s->there->plan, &text, d->door.plan, e) < 0)
		return -e->code;
	json_init(&j, &body, false);
	pod_secret_body(d->plan, r, &w, buf_str(&text), &j);
	(void)snprintf(path, sizeof(path), "/api/v1/namespaces/%s/secrets", d->space);
	code = drover_post(d, path, &body, "a Secret for the door", &a, e);
	wipe(&text);
	wipe(&body);
	wipe(&a.body);
	/* Asked for twice, the first answer being lost, and not ours to read: the door knows by its
	 * digest whether it is the one that was written. */
	if (a.status != 409)
		return code;
	*e = (struct err){ 0 };
	return 0;
}

/* ---- the line ---- */

static int on_frame(void *arg, const struct frames_head *h, const void *payload)
{
	struct drover_door *o = arg;

	if (h->kind == FRAMES_SIGNAL && o->answered && h->size == sizeof(o->settled)) {
		memcpy(&o->settled, payload, sizeof(o->settled));
		return 0;
	}
	if (h->kind != FRAMES_ANSWER || o->answered || h->size < sizeof(struct pod_mark))
		return -EPROTO;
	memcpy(&o->answer, payload, h->size < sizeof(o->answer) ? h->size : sizeof(o->answer));
	o->answered = true;
	return 0;
}

/* Both directions of the one socket that brig hears the door by. */
static int open_channels(struct drover *d)
{
	struct frames_command *k = frames_begin(d->door.frames, POD_DOOR_COMMAND);
	int in = fcntl(d->s->there->line, F_DUPFD_CLOEXEC, 3);
	int out = fcntl(d->s->there->line, F_DUPFD_CLOEXEC, 3);

	if (!k || in < 0 || out < 0)
		return -ENOMEM;
	(void)fd_close(d->s->there->line);
	return frames_open(k, 0, in, true) < 0 || frames_open(k, 1, out, false) < 0 ? -EIO : 0;
}

static int send_want(struct drover *d, struct err *e)
{
	struct pod_door_want w = {
		.mark = { .magic = POD_MAGIC, .version = POD_VERSION, .size = sizeof(w) },
		.door = d->plan->door
	};
	char piece[FRAMES_PIECE];
	int roots = d->s->there->roots, r;
	struct stat st;
	off_t at = 0;
	ssize_t n;

	if (fstat(roots, &st) < 0 || st.st_size > POD_ROOTS_MAX)
		return err_set(e, ERR_UNAVAILABLE, E2BIG,
			       "there are too many certificates for the door");
	if (getrandom(d->door.number, sizeof(d->door.number), 0) != (ssize_t)sizeof(d->door.number))
		return err_sys(e, "cannot choose a number");
	memcpy(w.number, d->door.number, sizeof(w.number));
	memcpy(w.plan, d->door.plan, sizeof(w.plan));
	w.roots = (uint32_t)st.st_size;
	r = frames_say(d->door.frames, FRAMES_WANT, 0, &w, sizeof(w));
	while (r == 0 && (n = pread(roots, piece, sizeof(piece), at)) > 0) {
		r = frames_say(d->door.frames, FRAMES_ORDER, 0, piece, (size_t)n);
		at += n;
	}
	return r < 0 ? err_errno(e, r, "cannot tell the door what is wanted") : 0;
}

static int talk(struct drover *d, struct err *e)
{
	static struct pollfd p[FRAMES_POLLS + 1]; /* large, and there is one */
	uint64_t until = clock_us() + (uint64_t)DROVER_TALK_MS * 1000;

	while (!d->door.answered) {
		size_t n = frames_polls(d->door.frames, p);

		p[n] = (struct pollfd){ .fd = d->s->control, .events = POLLIN };
		(void)poll(p, n + 1, LOOK_MS);
		if (frames_turn(d->door.frames, p, n) < 0 && !d->door.answered)
			return err_refuse(e, ERR_UNAVAILABLE, EPIPE,
					  "kubernetes.helper_image must have brig-pod of this "
					  "version",
					  "the door's container ended at once");
		if (drover_given_up(d))
			return err_set(e, ERR_INTERNAL, ECANCELED, "the run was given up");
		if (clock_us() > until)
			return err_set(e, ERR_UNAVAILABLE, ETIMEDOUT,
				       "the door's container does not answer");
	}
	return drover_judge_mark(&d->door.answer.mark, sizeof(d->door.answer), e) < 0
		       ? -e->code
		       : drover_take_words(&d->door.answer.err, e);
}

int drover_door_open(struct drover *d, struct err *e)
{
	struct kube_streams *s = &d->door.streams;
	char path[512];

	if (d->plan->network != NETWORK_PROXY)
		return 0;
	if (drover_wait(d, KUBE_DOOR, e) < 0)
		return -e->code;
	(void)snprintf(path, sizeof(path),
		       "/api/v1/namespaces/%s/pods/%s/attach?container=" KUBE_DOOR
		       "&stdin=1&stdout=1&stderr=1",
		       d->space, d->name);
	if (kube_attach(d->kube, path, DROVER_TALK_MS, s, e) < 0)
		return err_wrap(e, "cannot attach to the door's container");
	if (fcntl(s->in, F_SETFL, O_NONBLOCK) < 0 || fcntl(s->out, F_SETFL, O_NONBLOCK) < 0 ||
	    fcntl(s->err, F_SETFL, O_NONBLOCK) < 0)
		return err_sys(e, "cannot use the streams of the pod");
	d->door.frames = frames_new(s->out, s->in, on_frame, &d->door);
	if (!d->door.frames || open_channels(d) < 0)
		return err_nomem(e);
	if (send_want(d, e) < 0 || talk(d, e) < 0)
		return err_wrap(e, "network proxy");
	/* As with the command's own line: it was opened by the pod's name. */
	return drover_confirm(d, e);
}

/* The door has read it, and nobody needs it any more: if all of brig is killed, the pod's object
 * stays behind until the next one comes by, and what it owns with it. */
static void forget_secret(struct drover *d)
{
	CLEANUP(kube_answer) struct kube_answer a = { 0 };
	char path[512], note[sizeof(((struct err *)0)->what) + 80];
	const struct kube_request q = { .method = "DELETE", .path = path, .ms = FORGET_MS };
	struct err e = { 0 };

	(void)snprintf(path, sizeof(path), "/api/v1/namespaces/%s/secrets/%s", d->space, d->name);
	if (kube_ask(d->kube, &q, &a, &e) == 0) {
		if (a.status < 300 || a.status == 404)
			return;
		(void)drover_refused(&a, "that the door's Secret is removed", &e);
	}
	(void)snprintf(note, sizeof(note), "%s; it stays until the pod is removed", e.what);
	(void)drover_note(d, note);
}

void drover_door_seen(struct drover *d)
{
	const uint32_t seen = POD_DOOR_SEEN;

	if (!d->door.frames)
		return;
	(void)frames_say(d->door.frames, FRAMES_SIGNAL, 0, &seen, sizeof(seen));
	forget_secret(d);
}

/* ---- while commands run ---- */

/* A run's door is asked for the rest by brig, when the run has ended. */
uint32_t drover_door_ask(struct drover *d)
{
	if (!d->door.frames || !d->s->open)
		return 0;
	d->door.asked += d->door.asked == UINT32_MAX ? 2 : 1; /* never POD_DOOR_SEEN */
	return frames_say(d->door.frames, FRAMES_SIGNAL, 0, &d->door.asked, sizeof(d->door.asked)) <
			       0
		       ? 0
		       : d->door.asked;
}

bool drover_door_settled(const struct drover *d, uint32_t number)
{
	const struct frames_command *k =
		d->door.frames ? frames_find(d->door.frames, POD_DOOR_COMMAND) : NULL;

	if (!number || !k)
		return true;
	return (int32_t)(d->door.settled - number) >= 0 && frames_flushed(k);
}

size_t drover_door_polls(struct drover *d, struct pollfd *p)
{
	return d->door.frames ? frames_polls(d->door.frames, p) : 0;
}

/* Without its line the channels close, and brig hears that the door is gone. */
void drover_door_turn(struct drover *d, const struct pollfd *p, size_t n)
{
	struct frames_command *k;

	if (!d->door.frames)
		return;
	if (frames_turn(d->door.frames, p, n) < 0) {
		drover_door_leave(d);
		return;
	}
	k = frames_find(d->door.frames, POD_DOOR_COMMAND);
	if (k && k->channels[1].w.fd < 0) /* no more decisions will come */
		frames_end(k);
}

void drover_door_leave(struct drover *d)
{
	d->door.frames = frames_free(d->door.frames);
	kube_streams_done(&d->door.streams);
	d->door.streams = (struct kube_streams){ -1, -1, -1, -1, 0 };
}
