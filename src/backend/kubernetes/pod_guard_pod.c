/* SPDX-License-Identifier: Apache-2.0 */
/* backend/kubernetes/pod_guard_pod.c - makes the pod, waits for it, removes it.
 *
 *     note ─▶ pod ─▶ its closed policy ─▶ watch: placed, fetched, init containers, runs ─▶ compared
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "backend/kubernetes/pod_guard.h"
#include "base/bytes/json.h"
#include "base/files/fd.h"
#include "base/sys/clock.h"
#include "base/sys/wait.h"
#include "base/text/str.h"

#define BODY_MAX ((size_t)2 << 20)
#define LOOK_MS 250
#define CLAIM_MS 3000
#define USER_NS_MINOR 33 /* of Kubernetes 1: on without being asked for */

static void pods_path(const struct pod_guard *g, const char *rest, char *out, size_t n)
{
	(void)snprintf(out, n, "/api/v1/namespaces/%s/pods%s", g->space, rest);
}

/* ---- making it ---- */

static int otherwise(const struct pod_guard *g, struct err *e)
{
	if (g->owner.kind == OWNER_CLAIM)
		return err_refuse(e, ERR_POLICY, EPERM,
				  "brig plan --backend kubernetes, with the same settings, prints "
				  "a template that does",
				  "the pod of SandboxTemplate '%.80s' does not keep what was asked "
				  "for: %s",
				  g->plan->kube.template, g->differs);
	return err_refuse(e, ERR_UNAVAILABLE, EPERM,
			  "the cluster changes pods as it takes them in: have its admission leave "
			  "brig's namespace out",
			  "the pod was made otherwise than asked for: %s", g->differs);
}

static bool differs(struct pod_guard *g, const struct jread *pod)
{
	return (g->owner.kind == OWNER_CLAIM ? pod_breaks_promise : pod_differs)(
		g->asked, pod, g->differs, sizeof(g->differs));
}

/* EACCES: by its rights or its admission, which says 400 where a webhook has named no status. */
int pod_guard_refused(const struct kube_answer *a, const char *what, struct err *e)
{
	bool not_let_in = a->status == 400 || a->status == 403 || a->status == 422;
	char text[200];

	kube_answer_text(a, text, sizeof(text));
	(void)err_set(e, ERR_UNAVAILABLE, not_let_in ? EACCES : EIO,
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
static bool has_user_ns(struct pod_guard *g)
{
	CLEANUP(kube_answer) struct kube_answer a = { 0 };
	CLEANUP(jread) struct jread *v = NULL;
	const struct kube_request q = { .method = "GET", .path = "/version" };
	const char *minor;
	struct err e;

	if (kube_ask(g->kube, &q, &a, &e) < 0 || a.status != 200 ||
	    jread_parse(buf_str(&a.body), a.body.len, &v, &e) < 0)
		return false;
	minor = jread_str(v, "minor");
	return minor && strtoul(minor, NULL, 10) >= USER_NS_MINOR;
}

int pod_guard_post(struct pod_guard *g, const char *path, const struct buf *body, const char *what,
		   struct kube_answer *a, struct err *e)
{
	const struct kube_request q = { .method = "POST",
					.path = path,
					.body = buf_str(body),
					.len = body->len,
					.label = KUBE_LABEL,
					.value = g->s->id };

	if (body->failed)
		return err_nomem(e);
	if (kube_ask(g->kube, &q, a, e) < 0)
		return -e->code;
	return a->status >= 300 ? pod_guard_refused(a, what, e) : 0;
}

static int make_policy(struct pod_guard *g, const struct pod_run *r, const struct jread *pod,
		       struct err *ret);

int pod_guard_has_pod(struct pod_guard *g, const struct pod_run *r, const struct jread *pod,
		      struct err *e)
{
	pod_look(pod, &g->seen);
	if (!g->seen.uid[0])
		return err_set(e, ERR_UNAVAILABLE, EPROTO,
			       "the cluster does not say which pod it made");
	/* Before anything of it runs: on a network of the node's "close" would do harm. */
	if (differs(g, pod))
		return otherwise(g, e);
	return pod_guard_door_secret(g, r, e) < 0 ? -e->code : make_policy(g, r, pod, e);
}

static int make_pod(struct pod_guard *g, const struct pod_run *r, struct err *e)
{
	CLEANUP(buf) struct buf body = BUF_INIT(BODY_MAX);
	CLEANUP(kube_answer) struct kube_answer a = { 0 };
	CLEANUP(jread) struct jread *v = NULL;
	char path[128];
	struct json j;

	json_init(&j, &body, false);
	pod_body(g->plan, r, &j);
	pods_path(g, "", path, sizeof(path));
	g->asked = jread_free(g->asked);
	if (body.failed || jread_parse(buf_str(&body), body.len, &g->asked, e) < 0)
		return err_nomem(e);
	g->made = true;
	if (pod_guard_post(g, path, &body, "the pod", &a, e) < 0)
		return -e->code;
	if (jread_parse(buf_str(&a.body), a.body.len, &v, e) < 0)
		return err_wrap(e, "the pod that the cluster made");
	return pod_guard_has_pod(g, r, v, e);
}

/* Likewise, and it is not made: for one that somebody else makes, who would not say. */
static int try_pod(struct pod_guard *g, const struct pod_run *r, struct err *e)
{
	CLEANUP(buf) struct buf body = BUF_INIT(BODY_MAX);
	CLEANUP(kube_answer) struct kube_answer a = { 0 };
	struct kube_request q = { .method = "POST" };
	char path[128];
	struct json j;

	json_init(&j, &body, false);
	pod_body(g->plan, r, &j);
	if (body.failed)
		return err_nomem(e);
	pods_path(g, "?dryRun=All", path, sizeof(path));
	q.path = path;
	q.body = buf_str(&body);
	q.len = body.len;
	if (kube_ask(g->kube, &q, &a, e) < 0)
		return -e->code;
	return a.status >= 300 ? pod_guard_refused(&a, "the pod", e) : 0;
}

/* Where nothing may have NET_ADMIN the network is closed by a policy alone, and tried from inside.
 * Who has said no, and why, is not read out of its words: the same pod without NET_ADMIN is taken,
 * or is not. */
static int with_or_without(struct pod_guard *g, struct pod_run *r,
			   int (*make)(struct pod_guard *g, const struct pod_run *r, struct err *e),
			   struct err *e)
{
	struct err first;

	if (make(g, r, e) == 0)
		return 0;
	if (e->code != EACCES || g->seen.uid[0] || g->plan->network != NETWORK_NONE)
		return -e->code;
	first = *e;
	r->by_policy = g->by_policy = true;
	*e = (struct err){ 0 };
	if (make(g, r, e) == 0)
		return 0;
	if (e->code == EACCES && !g->seen.uid[0])
		*e = first;
	return -e->code;
}

/* A template says itself what its pod has, and is held to it. */
static int make_it(struct pod_guard *g, struct pod_run *r, struct err *e)
{
	if (g->owner.kind == OWNER_NONE)
		return with_or_without(g, r, make_pod, e);
	if (g->owner.kind == OWNER_SANDBOX && with_or_without(g, r, try_pod, e) < 0)
		return -e->code;
	return pod_guard_owner_make(g, r, e);
}

/* Beside a network that the pod has closed itself it is not what closes it: without the right to
 * make one the run goes on. */
static int make_policy(struct pod_guard *g, const struct pod_run *r, const struct jread *pod,
		       struct err *ret)
{
	CLEANUP(buf) struct buf body = BUF_INIT(BODY_MAX);
	CLEANUP(kube_answer) struct kube_answer a = { 0 };
	const struct jread *labels = jread_get(jread_get(pod, "metadata"), "labels");
	struct pod_policy w = { .name = g->name, .uid = g->seen.uid };
	char path[160], note[sizeof(((struct err *)0)->what) + 64];
	struct err e = { 0 };
	struct json j;

	/* A template's pod has none of the run's labels. */
	w.value = g->owner.kind == OWNER_CLAIM ? jread_str(labels, OWNER_NAME_HASH) : NULL;
	w.label = w.value && kube_is_label(w.value) ? OWNER_NAME_HASH : NULL;
	json_init(&j, &body, false);
	pod_closed_body(g->plan, r, &w, &j);
	(void)snprintf(path, sizeof(path),
		       "/apis/networking.k8s.io/v1/namespaces/%s/networkpolicies", g->space);
	if (pod_guard_post(g, path, &body, "a NetworkPolicy", &a, &e) == 0) {
		if (g->by_policy)
			(void)pod_guard_note(g, "no container may have NET_ADMIN here: a "
						"NetworkPolicy alone closes the pod's network");
		return 0;
	}
	if (g->by_policy) {
		*ret = e;
		return err_hint(ret, "no container may have NET_ADMIN here, so a policy has to "
				     "close the network: deploy/kubernetes has a Role for it");
	}
	(void)snprintf(note, sizeof(note), "%s; %s", e.what,
		       g->plan->network == NETWORK_PROXY
			       ? "a policy of the namespace may hold the door up"
			       : "the pod's network devices are down all the same");
	(void)pod_guard_note(g, note);
	return 0;
}

/* ---- waiting for it ---- */

/* Each time that something is told of it: whoever may can add a container to a pod that runs. */
static void pod_guard_pod_compare(struct pod_guard *g, const struct jread *pod)
{
	if (!differs(g, pod)) {
		g->compared = true;
		return;
	}
	g->compared = false;
	g->seen.over = true;
}

static int on_pod(struct pod_guard *g, const struct jread *event)
{
	const struct jread *pod = jread_get(event, "object");
	const char *type = jread_str(event, "type"), *uid;

	if (!type || str_eq(type, "RESET") || str_eq(type, "SYNCED"))
		return 0;
	if (str_eq(type, "FAILED"))
		return -EIO;
	uid = jread_str(jread_get(pod, "metadata"), "uid");
	if (!uid || !str_eq(uid, g->seen.uid)) /* another one, of the same name */
		return 0;
	if (str_eq(type, "DELETED")) {
		g->seen.gone = g->seen.over = true;
		return 0;
	}
	pod_look(pod, &g->seen);
	if (!g->differs[0])
		pod_guard_pod_compare(g, pod);
	return 0;
}

int pod_guard_hear_lines(struct pod_guard *g, int watch, struct buf *line,
			 int (*on)(struct pod_guard *g, const struct jread *event))
{
	char piece[16384];
	ssize_t n;
	int r = 0;

	while (r == 0 && (n = read(watch, piece, sizeof(piece))) > 0) {
		char *end;

		buf_add(line, piece, (size_t)n);
		if (line->failed)
			return -EMSGSIZE;
		while (r == 0 && line->len && (end = memchr(line->data, '\n', line->len))) {
			CLEANUP(jread) struct jread *v = NULL;
			size_t used = (size_t)(end - line->data) + 1;
			struct err e;

			r = jread_parse(line->data, used - 1, &v, &e) < 0 ? -EBADMSG : on(g, v);
			memmove(line->data, line->data + used, line->len - used);
			line->len -= used;
		}
	}
	if (r < 0)
		return r;
	return n < 0 && (errno == EAGAIN || errno == EINTR) ? 0 : n == 0 ? -EPIPE : -errno;
}

int pod_guard_hear_watch(struct pod_guard *g)
{
	return pod_guard_hear_lines(g, g->watch, &g->line, on_pod);
}

static int will_not_run(const struct pod_guard *g, struct err *e)
{
	const char *reason = g->seen.reason;

	if (g->differs[0])
		return otherwise(g, e);
	if (g->seen.gone || (g->seen.leaving && !reason[0]))
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

/* A scheduler may not have heard of a claim that was just made; then it is waited for in vain. */
static bool lacks_claim(const struct pod_guard *g, uint64_t *since)
{
	if (!g->seen.no_claim)
		*since = 0;
	else if (!*since)
		*since = clock_us();
	return *since && clock_us() > *since + (uint64_t)CLAIM_MS * 1000;
}

int pod_guard_wait(struct pod_guard *g, const char *container, struct err *e)
{
	const bool *runs = str_eq(container, KUBE_CONTAINER) ? &g->seen.running
			   : str_eq(container, KUBE_DOOR)    ? &g->seen.door
							     : &g->seen.filling;
	uint64_t until = clock_us() + (uint64_t)POD_GUARD_START_MS * 1000;
	uint64_t lacks = 0;
	char told[POD_GUARD_REASON] = "";

	while (!g->compared || !*runs || g->seen.over) {
		struct pollfd p[] = { { .fd = g->watch, .events = POLLIN },
				      { .fd = g->s->control, .events = POLLIN } };

		if (g->seen.over || g->seen.leaving || g->seen.reason[0])
			return will_not_run(g, e);
		if (lacks_claim(g, &lacks))
			return err_refuse(e, ERR_UNAVAILABLE, ENOENT,
					  "kubernetes.claim names a PersistentVolumeClaim of the "
					  "same namespace: kubectl get pvc",
					  "the pod does not run: %s", g->seen.waits);
		if (clock_us() > until)
			return err_set(e, ERR_UNAVAILABLE, ETIMEDOUT,
				       "the pod did not run within %d s: %s",
				       POD_GUARD_START_MS / 1000, g->seen.waits);
		(void)wait_any(p, ARRAY_LEN(p), clock_after(LOOK_MS));
		if (pod_guard_given_up(g))
			return err_set(e, ERR_INTERNAL, ECANCELED, "the run was given up");
		if (pod_guard_hear_watch(g) < 0)
			return err_set(e, ERR_UNAVAILABLE, EIO,
				       "the cluster does not tell what becomes of the pod");
		if (g->seen.waits[0] && !str_eq(told, g->seen.waits)) {
			(void)snprintf(told, sizeof(told), "%s", g->seen.waits);
			(void)pod_guard_note(g, told);
		}
	}
	return 0;
}

int pod_guard_follow(struct pod_guard *g, const char *path, int *watch, struct buf *line,
		     struct err *e)
{
	line->max = KUBE_EVENT_MAX + (size_t)65536;
	if (kube_watch(g->kube, path, POD_GUARD_START_MS, watch, e) < 0)
		return -e->code;
	return fcntl(*watch, F_SETFL, O_NONBLOCK) < 0 ? err_sys(e, "cannot follow the pod") : 0;
}

static int begin_watch(struct pod_guard *g, struct err *e)
{
	char path[512], rest[320];

	(void)snprintf(rest, sizeof(rest), "?fieldSelector=metadata.name%%3D%s", g->name);
	pods_path(g, rest, path, sizeof(path));
	return pod_guard_follow(g, path, &g->watch, &g->line, e);
}

int pod_guard_make(struct pod_guard *g, struct err *e)
{
	const struct kube_want w = { .kubeconfig = g->plan->kube.config,
				     .context = g->plan->kube.context,
				     .namespace = g->plan->kube.name_space };
	struct pod_run r = { .id = g->s->id, .instance = g->instance, .inside = g->inside };

	if (kube_open(&w, &g->kube, e) < 0)
		return -e->code;
	g->space = kube_place(g->kube)->namespace;
	if (!kube_is_name(g->space, 63))
		return err_set(e, ERR_CONFIG, EINVAL, "'%.80s' is not the name of a namespace",
			       g->space);
	r.user_ns = has_user_ns(g);
	if (pod_guard_owner_choose(g, e) < 0 || kube_note_write(g, e) < 0 || make_it(g, &r, e) < 0)
		return -e->code;
	return begin_watch(g, e);
}

int pod_guard_confirm(struct pod_guard *g, struct err *e)
{
	CLEANUP(kube_answer) struct kube_answer a = { 0 };
	CLEANUP(jread) struct jread *v = NULL;
	struct kube_request q = { .method = "GET" };
	char path[400], rest[OWNER_NAME + 1];
	const char *uid;

	(void)snprintf(rest, sizeof(rest), "/%s", g->name);
	pods_path(g, rest, path, sizeof(path));
	q.path = path;
	if (kube_ask(g->kube, &q, &a, e) < 0)
		return -e->code;
	if (a.status != 200)
		return pod_guard_refused(&a, "a question for the pod", e);
	if (jread_parse(buf_str(&a.body), a.body.len, &v, e) < 0)
		return err_wrap(e, "the pod that the cluster has");
	uid = jread_str(jread_get(v, "metadata"), "uid");
	if (!uid || !str_eq(uid, g->seen.uid))
		return err_set(
			e, ERR_UNAVAILABLE, ESTALE,
			"the pod was removed by somebody else, and another one has its name");
	return differs(g, v) ? otherwise(g, e) : 0;
}

/* ---- removing it ---- */

bool pod_guard_remove(struct pod_guard *g)
{
	CLEANUP(kube_answer) struct kube_answer a = { 0 };
	struct kube_request q = { .method = "DELETE", .ms = POD_GUARD_REMOVE_MS };
	const char *uid = g->owner.kind == OWNER_NONE ? g->seen.uid : g->owner.uid;
	char path[400], rest[OWNER_NAME + 1], body[160];
	struct err e;

	if (!g->made)
		return true;
	(void)snprintf(rest, sizeof(rest), "/%s", g->name);
	pods_path(g, rest, path, sizeof(path));
	if (g->owner.kind != OWNER_NONE) /* the pod goes with it */
		pod_guard_owner_path(g, g->owner.name, path, sizeof(path));
	q.path = path;
	if (uid[0] && kube_is_name(uid, sizeof(g->seen.uid))) {
		(void)snprintf(body, sizeof(body), "{\"preconditions\":{\"uid\":\"%.60s\"}}", uid);
		q.body = body;
	}
	if (kube_ask(g->kube, &q, &a, &e) < 0)
		return false;
	return a.status < 300 || a.status == 404 || a.status == 409;
}
