/* SPDX-License-Identifier: Apache-2.0 */
/* backend/kubernetes/pod_guard_door.c - the door of a pod, seen from the guard: its Secret, its
 * line, and its decisions on their way to brig.
 *
 * The decisions are brig's to read: here they are bytes. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>

#include "backend/kubernetes/pod_guard.h"
#include "base/bytes/base64.h"
#include "base/files/fd.h"
#include "base/sys/clock.h"
#include "base/sys/wait.h"

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

int pod_guard_door_secret(struct pod_guard *g, const struct pod_run *r, struct err *e)
{
	CLEANUP(buf) struct buf text = BUF_INIT(SECRET_MAX);
	CLEANUP(buf) struct buf body = BUF_INIT(SECRET_MAX);
	CLEANUP(kube_answer) struct kube_answer a = { 0 };
	const struct pod_policy w = { .name = g->name, .uid = g->seen.uid };
	char path[128];
	struct json j;
	int code;

	if (g->plan->network != NETWORK_PROXY)
		return 0;
	if (!g->s->there)
		return err_set(e, ERR_INTERNAL, EINVAL, "nobody said what the door has to know");
	if (encode(g->s->there->plan, &text, g->door.plan, e) < 0)
		return -e->code;
	json_init(&j, &body, false);
	pod_secret_body(g->plan, r, &w, buf_str(&text), &j);
	(void)snprintf(path, sizeof(path), "/api/v1/namespaces/%s/secrets", g->space);
	code = pod_guard_post(g, path, &body, "a Secret for the door", &a, e);
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
	struct pod_guard_door *o = arg;

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
static int open_channels(struct pod_guard *g)
{
	struct frames_command *k = frames_begin(g->door.frames, POD_DOOR_COMMAND);
	int in = fcntl(g->s->there->line, F_DUPFD_CLOEXEC, 3);
	int out = fcntl(g->s->there->line, F_DUPFD_CLOEXEC, 3);

	if (!k || in < 0 || out < 0)
		return -ENOMEM;
	(void)fd_close(g->s->there->line);
	return frames_open(k, 0, in, true) < 0 || frames_open(k, 1, out, false) < 0 ? -EIO : 0;
}

static int send_want(struct pod_guard *g, struct err *e)
{
	struct pod_door_want w = {
		.mark = { .magic = POD_MAGIC, .version = POD_VERSION, .size = sizeof(w) },
		.door = g->plan->door
	};
	char piece[FRAMES_PIECE];
	int roots = g->s->there->roots, r;
	struct stat st;
	off_t at = 0;
	ssize_t n;

	if (fstat(roots, &st) < 0 || st.st_size > POD_ROOTS_MAX)
		return err_set(e, ERR_UNAVAILABLE, E2BIG,
			       "there are too many certificates for the door");
	if (getrandom(g->door.number, sizeof(g->door.number), 0) != (ssize_t)sizeof(g->door.number))
		return err_sys(e, "cannot choose a number");
	memcpy(w.number, g->door.number, sizeof(w.number));
	memcpy(w.plan, g->door.plan, sizeof(w.plan));
	w.roots = (uint32_t)st.st_size;
	r = frames_say(g->door.frames, FRAMES_WANT, 0, &w, sizeof(w));
	while (r == 0 && (n = pread(roots, piece, sizeof(piece), at)) > 0) {
		r = frames_say(g->door.frames, FRAMES_ORDER, 0, piece, (size_t)n);
		at += n;
	}
	return r < 0 ? err_errno(e, r, "cannot tell the door what is wanted") : 0;
}

static int talk(struct pod_guard *g, struct err *e)
{
	static struct pollfd p[FRAMES_POLLS + 1]; /* large, and there is one */
	uint64_t until = clock_us() + (uint64_t)POD_GUARD_TALK_MS * 1000;

	while (!g->door.answered) {
		size_t n = frames_polls(g->door.frames, p);

		p[n] = (struct pollfd){ .fd = g->s->control, .events = POLLIN };
		(void)wait_any(p, n + 1, clock_after(LOOK_MS));
		if (frames_turn(g->door.frames, p, n) < 0 && !g->door.answered)
			return err_refuse(e, ERR_UNAVAILABLE, EPIPE,
					  "kubernetes.helper_image must have brig-pod of this "
					  "version",
					  "the door's container ended at once");
		if (pod_guard_given_up(g))
			return err_set(e, ERR_INTERNAL, ECANCELED, "the run was given up");
		if (clock_us() > until)
			return err_set(e, ERR_UNAVAILABLE, ETIMEDOUT,
				       "the door's container does not answer");
	}
	return pod_guard_judge_mark(&g->door.answer.mark, sizeof(g->door.answer), e) < 0
		       ? -e->code
		       : pod_guard_take_words(&g->door.answer.err, e);
}

int pod_guard_door_open(struct pod_guard *g, struct err *e)
{
	struct kube_streams *s = &g->door.streams;
	char path[512];

	if (g->plan->network != NETWORK_PROXY)
		return 0;
	if (pod_guard_wait(g, KUBE_DOOR, e) < 0)
		return -e->code;
	(void)snprintf(path, sizeof(path),
		       "/api/v1/namespaces/%s/pods/%s/attach?container=" KUBE_DOOR
		       "&stdin=1&stdout=1&stderr=1",
		       g->space, g->name);
	if (kube_attach(g->kube, path, POD_GUARD_TALK_MS, s, e) < 0)
		return err_wrap(e, "cannot attach to the door's container");
	if (fcntl(s->in, F_SETFL, O_NONBLOCK) < 0 || fcntl(s->out, F_SETFL, O_NONBLOCK) < 0 ||
	    fcntl(s->err, F_SETFL, O_NONBLOCK) < 0)
		return err_sys(e, "cannot use the streams of the pod");
	g->door.frames = frames_new(s->out, s->in, on_frame, &g->door);
	if (!g->door.frames || open_channels(g) < 0)
		return err_nomem(e);
	if (send_want(g, e) < 0 || talk(g, e) < 0)
		return err_wrap(e, "network proxy");
	/* As with the command's own line: it was opened by the pod's name. */
	return pod_guard_confirm(g, e);
}

/* The door has read it, and nobody needs it any more: if all of brig is killed, the pod's object
 * stays behind until the next one comes by, and what it owns with it. */
static void forget_secret(struct pod_guard *g)
{
	CLEANUP(kube_answer) struct kube_answer a = { 0 };
	char path[512], note[sizeof(((struct err *)0)->what) + 80];
	const struct kube_request q = { .method = "DELETE", .path = path, .ms = FORGET_MS };
	struct err e = { 0 };

	(void)snprintf(path, sizeof(path), "/api/v1/namespaces/%s/secrets/%s", g->space, g->name);
	if (kube_ask(g->kube, &q, &a, &e) == 0) {
		if (a.status < 300 || a.status == 404)
			return;
		(void)pod_guard_refused(&a, "that the door's Secret is removed", &e);
	}
	(void)snprintf(note, sizeof(note), "%s; it stays until the pod is removed", e.what);
	(void)pod_guard_note(g, note);
}

void pod_guard_door_seen(struct pod_guard *g)
{
	const uint32_t seen = POD_DOOR_SEEN;

	if (!g->door.frames)
		return;
	(void)frames_say(g->door.frames, FRAMES_SIGNAL, 0, &seen, sizeof(seen));
	forget_secret(g);
}

/* ---- while commands run ---- */

/* A run's door is asked for the rest by brig, when the run has ended. */
uint32_t pod_guard_door_ask(struct pod_guard *g)
{
	if (!g->door.frames || !g->s->open)
		return 0;
	g->door.asked += g->door.asked == UINT32_MAX ? 2 : 1; /* never POD_DOOR_SEEN */
	return frames_say(g->door.frames, FRAMES_SIGNAL, 0, &g->door.asked, sizeof(g->door.asked)) <
			       0
		       ? 0
		       : g->door.asked;
}

bool pod_guard_door_settled(const struct pod_guard *g, uint32_t number)
{
	const struct frames_command *k =
		g->door.frames ? frames_find(g->door.frames, POD_DOOR_COMMAND) : NULL;

	if (!number || !k)
		return true;
	return (int32_t)(g->door.settled - number) >= 0 && frames_flushed(k);
}

size_t pod_guard_door_polls(struct pod_guard *g, struct pollfd *p)
{
	return g->door.frames ? frames_polls(g->door.frames, p) : 0;
}

/* Without its line the channels close, and brig hears that the door is gone. */
void pod_guard_door_turn(struct pod_guard *g, const struct pollfd *p, size_t n)
{
	struct frames_command *k;

	if (!g->door.frames)
		return;
	if (frames_turn(g->door.frames, p, n) < 0) {
		pod_guard_door_leave(g);
		return;
	}
	k = frames_find(g->door.frames, POD_DOOR_COMMAND);
	if (k && k->channels[1].w.fd < 0) /* no more decisions will come */
		frames_end(k);
}

void pod_guard_door_leave(struct pod_guard *g)
{
	g->door.frames = frames_free(g->door.frames);
	kube_streams_done(&g->door.streams);
	g->door.streams = (struct kube_streams){ -1, -1, -1, -1, 0 };
}
