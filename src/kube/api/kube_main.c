/* SPDX-License-Identifier: Apache-2.0 */
/* kube/api/kube_main.c - brig-kube: reads the kubeconfig, keeps credentials fresh, forks speakers.
 *
 * Descriptor 0 leads to brig, who says first who is wanted, then gives one job after the other; its
 * end is ours. No byte of the network's is read here: that is for the speakers, which the kernel
 * ends with us. */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "base/files/fd.h"
#include "base/sys/clock.h"
#include "base/sys/wait.h"
#include "kube/api/kube_secret.h"
#include "kube/api/kube_speaker.h"
#include "kube/kube.h"
#include "proc/forked.h"

#define CONTROL 0
#define TEXT_MAX ((size_t)1 << 20)
#define ARENA_MAX ((size_t)64 << 20)
#define SECRET_MAX ((size_t)4 << 20)

struct kube_running {
	pid_t pid;
	int line; /* to the speaker, who asks for credentials; -1: no such one */
};

struct kube_main {
	struct arena *arena;
	struct buf text;
	struct kube_begin begin; /* in text */
	struct kube_config config;
	struct kube_keeper *keeper;
	struct kube_running v[KUBE_JOBS_MAX];
};

/* ---- the beginning ---- */

static void answer_place(const struct kube_main *m, const struct err *e)
{
	CLEANUP(buf) struct buf out = BUF_INIT(TEXT_MAX);
	struct parcel text = parcel_to(&out, KUBE_PLACE_MARK);
	struct kube_place place = { .server = m->config.server,
				    .context = m->config.context,
				    .cluster = m->config.cluster,
				    .namespace = m->config.namespace,
				    .user = m->config.user };
	struct kube_packet p = { .err = *e };

	kube_place_fields(&text, &place);
	(void)kube_packet_send(CONTROL, &p, e->code || out.failed ? NULL : &out);
}

static int kube_main_begin(struct kube_main *m)
{
	struct kube_packet packet;
	struct parcel p;
	struct err e = { 0 };

	if (kube_packet_recv(CONTROL, 0, &packet, &m->text) < 0)
		return -EPIPE;
	p = parcel_from(m->text.data, m->text.len, KUBE_BEGIN_MARK);
	kube_begin_fields(&p, &m->begin);
	m->arena = arena_new(ARENA_MAX);
	if (!m->arena || !parcel_whole(&p))
		(void)err_set(&e, ERR_INTERNAL, EINVAL, "brig-kube was not told who is wanted");
	else if (kubeconfig_load(m->arena, &m->begin, &m->config, &e) == 0) {
		err_clear(&e); /* of what could be done without */
		m->keeper = kube_keeper_new(&m->config, &m->begin);
		if (!m->keeper)
			(void)err_nomem(&e);
	}
	answer_place(m, &e);
	return -e.code;
}

/* ---- speakers ---- */

static struct kube_running *free_place(struct kube_main *m)
{
	for (size_t i = 0; i < KUBE_JOBS_MAX; i++)
		if (m->v[i].line < 0)
			return &m->v[i];
	return NULL;
}

static size_t count_bits(uint32_t v)
{
	return (size_t)__builtin_popcount(v);
}

struct speaker_start {
	const struct kube_main *main;
	const struct kube_job *job;
	const int *fds;
};

/* In the child: everything of ours but its own four is closed. */
static int become_speaker(void *arg, int line)
{
	const struct speaker_start *start = arg;
	const struct kube_main *m = start->main;
	const struct kube_job *j = start->job;
	const int *fds = start->fds;
	struct speaker s = { .channel = fds[0], .keeper = line, .in = -1, .out = -1, .err = -1 };
	int keep[KUBE_FDS_MAX + 1] = { line, fds[0] };
	struct url server;
	size_t n = 1;
	struct err e;

	s.port = url_parse(m->config.server, &server, &e) == 0 ? server.port : 0;
	s.in = j->streams & KUBE_IN ? fds[n++] : -1;
	s.out = j->streams & KUBE_OUT ? fds[n++] : -1;
	s.err = j->streams & KUBE_ERR ? fds[n++] : -1;
	for (size_t i = 1; i < n; i++)
		keep[i + 1] = fds[i];
	(void)prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
	(void)fd_close(CONTROL);
	if (fd_close_except(3, keep, n + 1) < 0)
		return 1;
	return speaker_run(&s, (enum kube_job_kind)j->kind);
}

static void start_speaker(struct kube_main *m, const struct kube_job *j, const int *fds)
{
	struct kube_running *r = free_place(m);
	struct speaker_start start = { .main = m, .job = j, .fds = fds };
	const struct forked_want w = { .name = "brig-speaker",
				       .what = "a conversation with the cluster",
				       .line = FORKED_PACKETS,
				       .run = become_speaker,
				       .arg = &start };
	struct kube_packet full = { 0 };

	if (!r)
		(void)err_refuse(&full.err, ERR_UNAVAILABLE, EBUSY, "close some of them first",
				 "there are %d streams of one cluster already", KUBE_JOBS_MAX);
	else
		r->pid = forked_start(&w, &r->line, &full.err);
	if (full.err.code)
		(void)kube_packet_send(fds[0], &full, NULL);
}

/* False: brig has gone. */
static bool take_job(struct kube_main *m)
{
	int fds[KUBE_FDS_MAX] = { -1, -1, -1, -1 };
	size_t n = KUBE_FDS_MAX;
	struct kube_job j;
	ssize_t got = fd_recv(CONTROL, &j, sizeof(j), fds, &n);

	if (got == -EAGAIN)
		return true;
	if (got == sizeof(j) && j.kind < KUBE_JOB_KINDS && j.streams < 8 &&
	    n == 1 + count_bits(j.streams))
		start_speaker(m, &j, fds);
	else
		got = 0;
	for (size_t i = 0; i < n; i++)
		(void)fd_close(fds[i]);
	return got > 0;
}

/* ---- credentials ---- */

static void give_secret(struct kube_main *m, int line, const struct kube_packet *asked)
{
	CLEANUP(buf) struct buf out = BUF_INIT(SECRET_MAX);
	struct parcel text = parcel_to(&out, KUBE_SECRET_MARK);
	uint64_t refused = asked->flags & KUBE_REFUSED ? asked->serial : 0;
	struct kube_packet p = { 0 };
	const struct kube_secret *s;
	struct kube_secret copy;

	if (kube_keeper_get(m->keeper, refused, &s, &p.serial, &p.err) == 0 &&
	    p.serial != asked->serial) {
		copy = *s;
		kube_secret_fields(&text, &copy);
		if (out.failed)
			(void)err_nomem(&p.err);
		(void)kube_packet_send(line, &p, out.failed ? NULL : &out);
		return;
	}
	(void)kube_packet_send(line, &p, NULL);
}

static void kube_main_hear(struct kube_main *m, struct kube_running *r)
{
	struct kube_packet asked;

	if (kube_packet_recv(r->line, clock_us(), &asked, NULL) == 0) {
		give_secret(m, r->line, &asked);
		return;
	}
	/* It has ended, or speaks out of turn. */
	(void)kill(r->pid, SIGKILL);
	(void)waitpid(r->pid, NULL, 0);
	r->line = fd_close(r->line);
}

static void kube_main_serve(struct kube_main *m)
{
	struct pollfd p[KUBE_JOBS_MAX + 1];

	for (;;) {
		for (size_t i = 0; i < KUBE_JOBS_MAX; i++)
			p[i] = (struct pollfd){ .fd = m->v[i].line, .events = POLLIN };
		p[KUBE_JOBS_MAX] = (struct pollfd){ .fd = CONTROL, .events = POLLIN };
		if (wait_any(p, KUBE_JOBS_MAX + 1, 0) < 0)
			return;
		if (p[KUBE_JOBS_MAX].revents && !take_job(m))
			return;
		for (size_t i = 0; i < KUBE_JOBS_MAX; i++)
			if (p[i].fd >= 0 && p[i].revents)
				kube_main_hear(m, &m->v[i]);
	}
}

/* Secrets are in memory: no core, no tracer. */
static void shut(void)
{
	const struct sigaction ignore = { .sa_handler = SIG_IGN };
	const struct rlimit none = { 0, 0 };

	(void)prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
	(void)setrlimit(RLIMIT_CORE, &none);
	(void)sigaction(SIGPIPE, &ignore, NULL);
}

int main(int argc, char **argv)
{
	struct kube_main m = { .text = BUF_INIT(TEXT_MAX) };
	struct stat st;
	int r;

	if (argc > 1 || fstat(CONTROL, &st) < 0 || !S_ISSOCK(st.st_mode)) {
		(void)fprintf(stderr, "usage: %s\nIt is started by brig.\n", argv[0]);
		return 2;
	}
	shut();
	for (size_t i = 0; i < KUBE_JOBS_MAX; i++)
		m.v[i].line = -1;
	r = kube_main_begin(&m);
	if (r == 0)
		kube_main_serve(&m);
	for (size_t i = 0; i < KUBE_JOBS_MAX; i++)
		if (m.v[i].line >= 0) {
			(void)kill(m.v[i].pid, SIGKILL);
			(void)waitpid(m.v[i].pid, NULL, 0);
		}
	(void)kube_keeper_free(m.keeper);
	(void)arena_free(m.arena);
	buf_done(&m.text);
	return r == 0 ? 0 : 1;
}
