/* SPDX-License-Identifier: Apache-2.0 */
/* backend/kubernetes/pod_guard_talk.c - the line to brig-pod, and its first words: what was asked
 * for, what must not be reached, what is there. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "backend/kubernetes/pod_guard.h"
#include "base/files/fd.h"
#include "base/sys/clock.h"
#include "base/sys/wait.h"
#include "base/text/str.h"

#define LOOK_MS 250
#define KUBELET 10250

static void add_target(struct pod_want *w, const char *address, uint16_t port, bool node)
{
	struct pod_target t = { .family = strchr(address, ':') ? AF_INET6 : AF_INET,
				.port = port,
				.node = node };

	if (w->targets < POD_TARGETS_MAX && inet_pton(t.family, address, t.address) == 1)
		w->target[w->targets++] = t;
}

/* What a cloud and the world have for whoever gets out. brig-pod adds what it was told of the
 * cluster's own services. */
static void add_targets(const struct pod_guard *g, struct pod_want *w)
{
	static const struct {
		const char *address;
		uint16_t port;
	} fixed[] = { { "169.254.169.254", 80 },
		      { "fd00:ec2::254", 80 },
		      { "1.1.1.1", 443 },
		      { "2606:4700:4700::1111", 443 },
		      { "10.96.0.10", 53 } };
	static const uint16_t of_nodes[] = { KUBELET, 22, 80 };
	static const char of_names[] = "169.254.20.10"; /* where a node answers for names itself */

	for (size_t i = 0; i < ARRAY_LEN(fixed); i++)
		add_target(w, fixed[i].address, fixed[i].port, false);
	for (size_t i = 0; i < ARRAY_LEN(of_nodes); i++)
		add_target(w, g->seen.address, of_nodes[i], true);
	add_target(w, of_names, 53, true);
}

static void fill_want(const struct pod_guard *g, struct pod_want *w)
{
	const struct backend_plan *p = g->plan;

	*w = (struct pod_want){
		.mark = { .magic = POD_MAGIC, .version = POD_VERSION, .size = sizeof(*w) },
		.uid = p->uid,
		.gid = p->gid,
		.files = (uint32_t)p->limits.files,
		.pids = (uint32_t)p->limits.pids,
		.tmp = p->limits.tmp,
		.profile = (uint8_t)p->profile,
		.closed = p->network == NETWORK_NONE,
		.no_links = p->network == NETWORK_NONE && !g->by_policy,
		.read_only_root = p->read_only_root
	};
	if (g->door.answered) {
		w->door = true;
		w->door_port = g->door.answer.port;
		memcpy(w->door_number, g->door.number, sizeof(w->door_number));
	}
	if (w->closed || w->door)
		add_targets(g, w);
}

static int another_version(const struct pod_mark *m, struct err *e)
{
	char version[sizeof(m->version) + 1] = "";

	memcpy(version, m->version, sizeof(m->version));
	pod_guard_clean(version);
	return err_refuse(e, ERR_UNAVAILABLE, EPROTO,
			  "build images/kubernetes of this version, push it, and name it in "
			  "kubernetes.helper_image",
			  "kubernetes.helper_image has brig-pod %s, this is brig %s", version,
			  POD_VERSION);
}

int pod_guard_judge_mark(const struct pod_mark *m, size_t size, struct err *e)
{
	if (memcmp(m->magic, POD_MAGIC, sizeof(POD_MAGIC)) != 0)
		return err_set(e, ERR_UNAVAILABLE, EPROTO,
			       "the pod's first process is not brig-pod");
	if (strncmp(m->version, POD_VERSION, sizeof(m->version)) != 0 || m->size != size)
		return another_version(m, e);
	return 0;
}

int pod_guard_take_words(const struct err *said, struct err *e)
{
	if (!said->code)
		return 0;
	*e = *said;
	e->what[sizeof(e->what) - 1] = e->hint[sizeof(e->hint) - 1] = '\0';
	e->kind = (unsigned)e->kind < ERR_KINDS ? e->kind : ERR_INTERNAL;
	pod_guard_clean(e->what);
	pod_guard_clean(e->hint);
	if (e->code <= 0)
		e->code = EIO;
	return -e->code;
}

static int pod_guard_talk_judge(const struct pod_guard *g, struct err *e)
{
	const struct pod_answer *a = &g->answer;

	if (pod_guard_judge_mark(&a->mark, sizeof(*a), e) < 0 ||
	    pod_guard_take_words(&a->err, e) < 0)
		return -e->code;
	if (!a->seccomp)
		return err_set(e, ERR_UNAVAILABLE, EPERM,
			       "the pod has no system-call filter of its runtime");
	if (a->node && g->plan->kube.node != KUBE_NODE_ACCEPT)
		return err_refuse(e, ERR_POLICY, EPERM, "--set kubernetes.node_reachable=accept",
				  "the pod's network is not closed: its own node answers");
	return 0;
}

static int lost(struct pod_guard *g, struct err *e)
{
	(void)pod_guard_hear_watch(g);
	return err_set(e, ERR_UNAVAILABLE, EPIPE, "the pod ended at once: %s",
		       g->last[0]          ? g->last
		       : g->seen.reason[0] ? g->seen.reason
					   : "nobody says why");
}

/* What brig-pod itself has to say where it cannot speak otherwise. */
static void hear_errors(struct pod_guard *g)
{
	char text[POD_GUARD_REASON];
	ssize_t n = g->streams.err < 0 ? -1 : read(g->streams.err, text, sizeof(text) - 1);

	if (n > 0) {
		text[n] = '\0';
		(void)snprintf(g->last, sizeof(g->last), "%s", text);
		pod_guard_clean(g->last);
	}
	if (n == 0)
		g->streams.err = fd_close(g->streams.err);
}

static int talk(struct pod_guard *g, struct err *e)
{
	static struct pollfd p[FRAMES_POLLS + 2]; /* large, and there is one */
	uint64_t until = clock_us() + (uint64_t)POD_GUARD_TALK_MS * 1000;

	while (!g->answered) {
		size_t n = frames_polls(g->frames, p);

		p[n] = (struct pollfd){ .fd = g->s->control, .events = POLLIN };
		p[n + 1] = (struct pollfd){ .fd = g->streams.err, .events = POLLIN };
		(void)wait_any(p, n + 2, clock_after(LOOK_MS));
		hear_errors(g);
		if (frames_turn(g->frames, p, n) < 0 && !g->answered)
			return lost(g, e);
		if (pod_guard_given_up(g))
			return err_set(e, ERR_INTERNAL, ECANCELED, "the run was given up");
		if (clock_us() > until)
			return err_set(e, ERR_UNAVAILABLE, ETIMEDOUT,
				       "the pod's first process does not answer");
	}
	return pod_guard_talk_judge(g, e);
}

int pod_guard_attach(struct pod_guard *g, const char *container, struct err *e)
{
	struct pod_want w;
	char path[512];

	(void)snprintf(
		path, sizeof(path),
		"/api/v1/namespaces/%s/pods/%s/attach?container=%s&stdin=1&stdout=1&stderr=1",
		g->space, g->name, container);
	if (kube_attach(g->kube, path, POD_GUARD_TALK_MS, &g->streams, e) < 0)
		return err_wrap(e, "cannot attach to the pod");
	if (fcntl(g->streams.in, F_SETFL, O_NONBLOCK) < 0 ||
	    fcntl(g->streams.out, F_SETFL, O_NONBLOCK) < 0 ||
	    fcntl(g->streams.err, F_SETFL, O_NONBLOCK) < 0)
		return err_sys(e, "cannot use the streams of the pod");
	g->frames = frames_new(g->streams.out, g->streams.in, pod_guard_frame, g);
	if (!g->frames)
		return err_nomem(e);
	fill_want(g, &w);
	if (str_eq(container, KUBE_FILLER))
		w.read_only_root = true;
	if (frames_say(g->frames, FRAMES_WANT, 0, &w, sizeof(w)) < 0)
		return err_nomem(e);
	/* The line was opened by the pod's name. A name is one pod's at a time, and no uid comes
	 * twice: if the one that was made has it now, it had it then. */
	return talk(g, e) < 0 ? -e->code : pod_guard_confirm(g, e);
}
