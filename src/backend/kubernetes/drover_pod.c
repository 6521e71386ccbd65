/* SPDX-License-Identifier: Apache-2.0 */
/* backend/kubernetes/drover_pod.c - makes the pod, waits for it, removes it.
 *
 *     note ─▶ pod ─▶ its closed policy ─▶ watch: placed, fetched, init containers, runs ─▶ compared
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "backend/kubernetes/drover.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/str.h"

#define BODY_MAX ((size_t)2 << 20)
#define LOOK_MS 250
#define USER_NS_MINOR 33 /* of Kubernetes 1: on without being asked for */

static void pods_path(const struct drover *d, const char *rest, char *out, size_t n)
{
	(void)snprintf(out, n, "/api/v1/namespaces/%s/pods%s", d->space, rest);
}

/* ---- making it ---- */

static int otherwise(const struct drover *d, struct err *e)
{
	return err_refuse(e, ERR_UNAVAILABLE, EPERM,
			  "the cluster changes pods as it takes them in: have its admission leave "
			  "brig's namespace out",
			  "the pod was made otherwise than asked for: %s", d->differs);
}

static int refused(const struct kube_answer *a, const char *what, struct err *e)
{
	char text[200];

	kube_answer_text(a, text, sizeof(text));
	(void)err_set(e, ERR_UNAVAILABLE, a->status == 403 ? EACCES : EIO,
		      "the cluster does not take %s: %s", what, text);
	if (strcasestr(text, "PodSecurity"))
		return err_hint(
			e, "the pod's network is closed with NET_ADMIN, and SYS_ADMIN for a door: "
			   "kubectl label namespace NAME "
			   "pod-security.kubernetes.io/enforce=privileged");
	if (a->status == 403)
		return err_hint(e, "brig doctor --backend kubernetes names the rights that are "
				   "missing; deploy/kubernetes has a Role with them");
	if (a->status == 404)
		return err_hint(e, "is there such a namespace? kubernetes.namespace names it");
	return -e->code;
}

/* What pods can have here. A cluster that does not say has no more than the least. */
static bool has_user_ns(struct drover *d)
{
	CLEANUP(kube_answer) struct kube_answer a = { 0 };
	CLEANUP(jread) struct jread *v = NULL;
	const struct kube_request q = { .method = "GET", .path = "/version" };
	const char *minor;
	struct err e;

	if (kube_ask(d->kube, &q, &a, &e) < 0 || a.status != 200 ||
	    jread_parse(buf_str(&a.body), a.body.len, &v, &e) < 0)
		return false;
	minor = jread_str(v, "minor");
	return minor && strtoul(minor, NULL, 10) >= USER_NS_MINOR;
}

int drover_post(struct drover *d, const char *path, const struct buf *body, const char *what,
		struct kube_answer *a, struct err *e)
{
	const struct kube_request q = { .method = "POST",
					.path = path,
					.body = buf_str(body),
					.len = body->len,
					.label = KUBE_LABEL,
					.value = d->s->id };

	if (body->failed)
		return err_nomem(e);
	if (kube_ask(d->kube, &q, a, e) < 0)
		return -e->code;
	return a->status >= 300 ? refused(a, what, e) : 0;
}

static int make_pod(struct drover *d, const struct pod_run *r, struct err *e)
{
	CLEANUP(buf) struct buf body = BUF_INIT(BODY_MAX);
	CLEANUP(kube_answer) struct kube_answer a = { 0 };
	CLEANUP(jread) struct jread *v = NULL;
	char path[128];
	struct json j;

	json_init(&j, &body, false);
	pod_body(d->plan, r, &j);
	pods_path(d, "", path, sizeof(path));
	if (body.failed || jread_parse(buf_str(&body), body.len, &d->asked, e) < 0)
		return err_nomem(e);
	d->made = true;
	if (drover_post(d, path, &body, "the pod", &a, e) < 0)
		return -e->code;
	if (jread_parse(buf_str(&a.body), a.body.len, &v, e) < 0)
		return err_wrap(e, "the pod that the cluster made");
	pod_look(v, &d->seen);
	if (!d->seen.uid[0])
		return err_set(e, ERR_UNAVAILABLE, EPROTO,
			       "the cluster does not say which pod it made");
	/* Before anything of it runs: on a network of the node's "close" would do harm. */
	return pod_differs(d->asked, v, d->differs, sizeof(d->differs)) ? otherwise(d, e) : 0;
}

/* It stands beside the closed network and is not what closes it: without the right to make one the
 * run goes on. */
static void make_policy(struct drover *d, const struct pod_run *r)
{
	CLEANUP(buf) struct buf body = BUF_INIT(BODY_MAX);
	CLEANUP(kube_answer) struct kube_answer a = { 0 };
	char path[160], note[sizeof(((struct err *)0)->what) + 64];
	struct err e = { 0 };
	struct json j;

	json_init(&j, &body, false);
	pod_closed_body(d->plan, r, d->seen.uid, &j);
	(void)snprintf(path, sizeof(path),
		       "/apis/networking.k8s.io/v1/namespaces/%s/networkpolicies", d->space);
	if (drover_post(d, path, &body, "a NetworkPolicy", &a, &e) == 0)
		return;
	(void)snprintf(note, sizeof(note), "%s; %s", e.what,
		       d->plan->network == NETWORK_PROXY
			       ? "a policy of the namespace may hold the door up"
			       : "the pod's network devices are down all the same");
	(void)drover_note(d, note);
}

/* ---- waiting for it ---- */

/* Each time that something is told of it: whoever may can add a container to a pod that runs. */
static void compare(struct drover *d, const struct jread *pod)
{
	if (!pod_differs(d->asked, pod, d->differs, sizeof(d->differs))) {
		d->compared = true;
		return;
	}
	d->compared = false;
	d->seen.over = true;
}

static int on_pod(struct drover *d, const struct jread *event)
{
	const struct jread *pod = jread_get(event, "object");
	const char *type = jread_str(event, "type"), *uid;

	if (!type || str_eq(type, "RESET") || str_eq(type, "SYNCED"))
		return 0;
	if (str_eq(type, "FAILED"))
		return -EIO;
	uid = jread_str(jread_get(pod, "metadata"), "uid");
	if (!uid || !str_eq(uid, d->seen.uid)) /* another one, of the same name */
		return 0;
	if (str_eq(type, "DELETED")) {
		d->seen.gone = d->seen.over = true;
		return 0;
	}
	pod_look(pod, &d->seen);
	if (!d->differs[0])
		compare(d, pod);
	return 0;
}

static int on_line(struct drover *d, const char *line, size_t n)
{
	CLEANUP(jread) struct jread *v = NULL;
	struct err e;

	return jread_parse(line, n, &v, &e) < 0 ? -EBADMSG : on_pod(d, v);
}

int drover_hear_watch(struct drover *d)
{
	char piece[16384];
	ssize_t n;
	int r = 0;

	while (r == 0 && (n = read(d->watch, piece, sizeof(piece))) > 0) {
		char *end;

		buf_add(&d->line, piece, (size_t)n);
		if (d->line.failed)
			return -EMSGSIZE;
		while (r == 0 && d->line.len && (end = memchr(d->line.data, '\n', d->line.len))) {
			size_t used = (size_t)(end - d->line.data) + 1;

			r = on_line(d, d->line.data, used - 1);
			memmove(d->line.data, d->line.data + used, d->line.len - used);
			d->line.len -= used;
		}
	}
	if (r < 0)
		return r;
	return n < 0 && (errno == EAGAIN || errno == EINTR) ? 0 : n == 0 ? -EPIPE : -errno;
}

static int will_not_run(const struct drover *d, struct err *e)
{
	const char *reason = d->seen.reason;

	if (d->differs[0])
		return otherwise(d, e);
	if (d->seen.gone)
		return err_set(e, ERR_UNAVAILABLE, ESTALE, "the pod was removed by somebody else");
	(void)err_set(e, ERR_UNAVAILABLE, EIO, "the pod does not run: %s", reason);
	if (strstr(reason, "'close'"))
		return err_hint(e,
				"the init container that closes the network failed: kubectl logs "
				"says why; a runtime with a network of its own cannot do it");
	if (strcasestr(reason, "image"))
		return err_hint(e, "is the name right, and may the node fetch it? "
				   "kubernetes.image_pull_secrets names logins");
	return -e->code;
}

int drover_wait(struct drover *d, const char *container, struct err *e)
{
	const bool *runs = str_eq(container, KUBE_CONTAINER) ? &d->seen.running
			   : str_eq(container, KUBE_DOOR)    ? &d->seen.door
							     : &d->seen.filling;
	uint64_t until = clock_us() + (uint64_t)DROVER_START_MS * 1000;
	char told[DROVER_REASON] = "";

	while (!d->compared || !*runs || d->seen.over) {
		struct pollfd p[] = { { .fd = d->watch, .events = POLLIN },
				      { .fd = d->s->control, .events = POLLIN } };

		if (d->seen.over || d->seen.reason[0])
			return will_not_run(d, e);
		if (clock_us() > until)
			return err_set(e, ERR_UNAVAILABLE, ETIMEDOUT,
				       "the pod did not run within %d s: %s",
				       DROVER_START_MS / 1000, d->seen.waits);
		(void)poll(p, ARRAY_LEN(p), LOOK_MS);
		if (drover_given_up(d))
			return err_set(e, ERR_INTERNAL, ECANCELED, "the run was given up");
		if (drover_hear_watch(d) < 0)
			return err_set(e, ERR_UNAVAILABLE, EIO,
				       "the cluster does not tell what becomes of the pod");
		if (d->seen.waits[0] && !str_eq(told, d->seen.waits)) {
			(void)snprintf(told, sizeof(told), "%s", d->seen.waits);
			(void)drover_note(d, told);
		}
	}
	return 0;
}

static int begin_watch(struct drover *d, struct err *e)
{
	char path[256], rest[128];

	(void)snprintf(rest, sizeof(rest), "?fieldSelector=metadata.name%%3D%s", d->name);
	pods_path(d, rest, path, sizeof(path));
	d->line.max = KUBE_EVENT_MAX + (size_t)65536;
	if (kube_watch(d->kube, path, DROVER_START_MS, &d->watch, e) < 0)
		return -e->code;
	return fcntl(d->watch, F_SETFL, O_NONBLOCK) < 0 ? err_sys(e, "cannot follow the pod") : 0;
}

int drover_make(struct drover *d, struct err *e)
{
	const struct kube_want w = { .kubeconfig = d->plan->kube.config,
				     .context = d->plan->kube.context,
				     .namespace = d->plan->kube.name_space };
	struct pod_run r = { .id = d->s->id, .instance = d->instance, .inside = d->inside };

	if (kube_open(&w, &d->kube, e) < 0)
		return -e->code;
	d->space = kube_place(d->kube)->namespace;
	if (!kube_is_name(d->space, 63))
		return err_set(e, ERR_CONFIG, EINVAL, "'%.80s' is not the name of a namespace",
			       d->space);
	r.user_ns = has_user_ns(d);
	if (kube_note_write(d, e) < 0 || make_pod(d, &r, e) < 0)
		return -e->code;
	if (drover_door_secret(d, &r, e) < 0)
		return -e->code;
	make_policy(d, &r);
	return begin_watch(d, e);
}

int drover_confirm(struct drover *d, struct err *e)
{
	CLEANUP(kube_answer) struct kube_answer a = { 0 };
	CLEANUP(jread) struct jread *v = NULL;
	struct kube_request q = { .method = "GET" };
	char path[192], rest[80];
	const char *uid;

	(void)snprintf(rest, sizeof(rest), "/%s", d->name);
	pods_path(d, rest, path, sizeof(path));
	q.path = path;
	if (kube_ask(d->kube, &q, &a, e) < 0)
		return -e->code;
	if (a.status != 200)
		return refused(&a, "a question for the pod", e);
	if (jread_parse(buf_str(&a.body), a.body.len, &v, e) < 0)
		return err_wrap(e, "the pod that the cluster has");
	uid = jread_str(jread_get(v, "metadata"), "uid");
	if (!uid || !str_eq(uid, d->seen.uid))
		return err_set(
			e, ERR_UNAVAILABLE, ESTALE,
			"the pod was removed by somebody else, and another one has its name");
	return pod_differs(d->asked, v, d->differs, sizeof(d->differs)) ? otherwise(d, e) : 0;
}

/* ---- removing it ---- */

bool drover_remove(struct drover *d)
{
	CLEANUP(kube_answer) struct kube_answer a = { 0 };
	struct kube_request q = { .method = "DELETE", .ms = DROVER_REMOVE_MS };
	char path[192], rest[80], body[160];
	struct err e;

	if (!d->made)
		return true;
	(void)snprintf(rest, sizeof(rest), "/%s", d->name);
	pods_path(d, rest, path, sizeof(path));
	q.path = path;
	if (d->seen.uid[0] && kube_is_name(d->seen.uid, sizeof(d->seen.uid))) {
		(void)snprintf(body, sizeof(body), "{\"preconditions\":{\"uid\":\"%.60s\"}}",
			       d->seen.uid);
		q.body = body;
	}
	if (kube_ask(d->kube, &q, &a, &e) < 0)
		return false;
	return a.status < 300 || a.status == 404 || a.status == 409;
}
