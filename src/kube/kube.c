/* SPDX-License-Identifier: Apache-2.0 */
/* kube/kube.c - brig's side of brig-kube: see kube.h and kube_packet.h.
 *
 * The speaker that answers requests is started with the first one and kept, with its connection;
 * one that failed is given up, and the next request starts another. A watch and an attach have one
 * each. brig-kube is killed with the struct kube, and the kernel ends its speakers with it. */
#include "kube/kube.h"

#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "base/bytes/jread.h"
#include "base/files/fd.h"
#include "base/files/home.h"
#include "base/sys/clock.h"
#include "base/sys/wait.h"
#include "base/text/clean.h"
#include "base/text/str.h"
#include "kube/kube_packet.h"
#include "proc/host_find.h"
#include "proc/host_program.h"
#include "proc/spawn.h"

#define PROGRAM "brig-kube"
#define BEGIN_MS 20000
#define SPARE_MS 5000 /* in which a speaker past its deadline can still say so */
#define TEXT_MAX ((size_t)1 << 20)
#define LETTER_MAX (KUBE_BODY_MAX + TEXT_MAX)

struct kube {
	pid_t pid;
	int control; /* to brig-kube */
	int asker;   /* to the speaker of requests; -1: none */
	struct buf text;
	struct kube_place place; /* in text */
};

/* ---- the process ---- */

static int pair_of(int type, int *here, int *there)
{
	int pair[2];

	if (socketpair(AF_UNIX, type | SOCK_CLOEXEC, 0, pair) < 0)
		return -errno;
	*here = pair[0];
	*there = pair[1];
	return 0;
}

/* Where brig's state is: what guests could write is noted there. */
static const char *const passed[] = { "HOME", "XDG_STATE_HOME", "XDG_RUNTIME_DIR" };

static int kube_start_program(struct kube *k, struct err *e)
{
	static const char *const argv[] = { PROGRAM, NULL };
	char program[PATH_MAX], text[ARRAY_LEN(passed)][PATH_MAX];
	const char *env[ARRAY_LEN(passed) + 1] = { NULL };
	CLEANUP(fd) int there = -1;
	size_t n = 0;
	int r;

	if (host_find_own(PROGRAM, program, e) < 0)
		return -e->code;
	for (size_t i = 0; i < ARRAY_LEN(passed); i++) {
		const char *value = getenv(passed[i]);

		if (value && snprintf(text[n], PATH_MAX, "%s=%s", passed[i], value) < PATH_MAX) {
			env[n] = text[n];
			n++;
		}
	}
	r = pair_of(SOCK_SEQPACKET, &k->control, &there);
	if (r < 0)
		return err_errno(e, r, "cannot make a socket pair");
	return host_start(&(struct host_program){ .program = program,
						  .argv = argv,
						  .envp = env,
						  .streams = (const int[]){ there, -1, -1 },
						  .own = true },
			  &k->pid, NULL, e);
}

static int lost(struct err *e, int r)
{
	if (r == -ETIMEDOUT)
		return err_set(e, ERR_UNAVAILABLE, ETIMEDOUT, PROGRAM " does not answer in time");
	if (r == -EPIPE)
		return err_set(e, ERR_UNAVAILABLE, EPIPE, PROGRAM " ended unexpectedly");
	return err_errno(e, r, "cannot speak with " PROGRAM);
}

/* The other side's error becomes ours. */
static int kube_told(const struct kube_packet *p, struct err *e)
{
	if (!p->err.code)
		return 0;
	*e = p->err;
	return -e->code;
}

static int kube_begin_ask(struct kube *k, const struct kube_want *w, struct err *e)
{
	CLEANUP(buf) struct buf out = BUF_INIT(TEXT_MAX);
	char home[PATH_MAX] = "";
	const char *said = getenv("HOME");
	struct kube_begin b = { .kubeconfig = w->kubeconfig,
				.context = w->context,
				.namespace = w->namespace,
				.listed = getenv("KUBECONFIG"),
				.home = said,
				.user = getenv("USER"),
				.service_host = getenv("KUBERNETES_SERVICE_HOST"),
				.service_port = getenv("KUBERNETES_SERVICE_PORT") };
	struct kube_packet p = { 0 };
	struct parcel text = parcel_to(&out, KUBE_BEGIN_MARK);
	int r;

	if ((!said || said[0] != '/') && home_listed(geteuid(), home, sizeof(home)) == 0)
		b.home = home;
	kube_begin_fields(&text, &b);
	if (out.failed)
		return err_nomem(e);
	r = kube_packet_send(k->control, &p, &out);
	if (r == 0)
		r = kube_packet_recv(k->control, clock_us() + BEGIN_MS * 1000ULL, &p, &k->text);
	if (r < 0)
		return lost(e, r);
	if (kube_told(&p, e) < 0)
		return -e->code;
	text = parcel_from(k->text.data, k->text.len, KUBE_PLACE_MARK);
	kube_place_fields(&text, &k->place);
	return parcel_whole(&text) ? 0 : lost(e, -EBADMSG);
}

int kube_open(const struct kube_want *w, struct kube **ret, struct err *e)
{
	static const struct kube_want nothing = { 0 };
	CLEANUP(kube) struct kube *k = calloc(1, sizeof(*k));

	*ret = NULL;
	if (!k)
		return err_nomem(e);
	*k = (struct kube){ .control = -1, .asker = -1, .text = BUF_INIT(TEXT_MAX) };
	if (kube_start_program(k, e) < 0 || kube_begin_ask(k, w ? w : &nothing, e) < 0)
		return -e->code;
	*ret = TAKE_PTR(k);
	return 0;
}

struct kube *kube_free(struct kube *k)
{
	if (!k)
		return NULL;
	(void)fd_close(k->asker);
	(void)fd_close(k->control);
	if (k->pid > 0) {
		(void)kill(k->pid, SIGKILL);
		(void)proc_wait(k->pid);
	}
	buf_done(&k->text);
	free(k);
	return NULL;
}

const struct kube_place *kube_place(const struct kube *k)
{
	return &k->place;
}

/* ---- jobs ---- */

/* The channel's far end and the streams' go to a new speaker, and are closed here. */
static int start_job(struct kube *k, enum kube_job_kind kind, uint32_t streams, int fds[],
		     size_t nfds, int *channel, struct err *e)
{
	struct kube_job j = { .kind = kind, .streams = streams };
	CLEANUP(fd) int here = -1;
	int r = pair_of(SOCK_SEQPACKET, &here, &fds[0]);

	while (r == 0 && (r = fd_send(k->control, &j, sizeof(j), fds, nfds)) == -EAGAIN)
		r = wait_fd(k->control, POLLOUT, 0);
	for (size_t i = 0; i < nfds; i++)
		fds[i] = fd_close(fds[i]);
	if (r < 0)
		return lost(e, r == -ECONNRESET ? -EPIPE : r);
	*channel = TAKE_FD(here);
	return 0;
}

static int send_letter(int channel, struct kube_letter *l, struct err *e)
{
	CLEANUP(buf) struct buf out = BUF_INIT(LETTER_MAX);
	struct parcel text = parcel_to(&out, KUBE_LETTER_MARK);
	struct kube_packet p = { 0 };
	int r;

	if (l->len > KUBE_BODY_MAX)
		return err_set(e, ERR_CONFIG, E2BIG, "%zu bytes are too many for the API server",
			       l->len);
	kube_letter_fields(&text, l);
	if (out.failed)
		return err_nomem(e);
	r = kube_packet_send(channel, &p, &out);
	return r < 0 ? lost(e, r) : 0;
}

static uint64_t deadline_of(unsigned ms)
{
	return clock_us() + ((ms ? ms : KUBE_ASK_MS) + SPARE_MS) * 1000ULL;
}

/* ---- requests ---- */

static int ask_once(struct kube *k, struct kube_letter *l, uint64_t deadline,
		    struct kube_answer *ret, struct err *e)
{
	struct kube_packet p;
	int fds[KUBE_FDS_MAX] = { -1 };
	int r;

	if (k->asker < 0 && start_job(k, KUBE_ASK, 0, fds, 1, &k->asker, e) < 0)
		return -e->code;
	if (send_letter(k->asker, l, e) < 0)
		return -e->code;
	r = kube_packet_recv(k->asker, deadline, &p, &ret->body);
	if (r < 0)
		return lost(e, r);
	ret->status = p.status;
	return kube_told(&p, e);
}

int kube_ask(struct kube *k, const struct kube_request *q, struct kube_answer *ret, struct err *e)
{
	struct kube_letter l = { .method = q->method,
				 .path = q->path,
				 .type = q->type ? q->type : "application/json",
				 .body = q->body,
				 .len = q->body && !q->len ? strlen(q->body) : q->len,
				 .has_body = q->body != NULL,
				 .ms = q->ms ? q->ms : KUBE_ASK_MS,
				 .again = q->again,
				 .label = q->label,
				 .value = q->value };
	int r;

	kube_answer_done(ret);
	*ret = (struct kube_answer){ .body = BUF_INIT(KUBE_ANSWER_MAX) };
	r = ask_once(k, &l, deadline_of(q->ms), ret, e);
	/* What it still has to say must not be taken for the next answer. */
	if (r < 0)
		k->asker = fd_close(k->asker);
	return r;
}

void kube_answer_done(struct kube_answer *a)
{
	buf_done(&a->body);
	a->body = (struct buf){ 0 };
	a->status = 0;
}

void kube_answer_text(const struct kube_answer *a, char *out, size_t n)
{
	CLEANUP(jread) struct jread *root = NULL;
	CLEANUP(buf) struct buf b = BUF_INIT(n);
	struct err ignored;
	const char *said = NULL;

	if (a->body.len && jread_parse(a->body.data, a->body.len, &root, &ignored) == 0)
		said = jread_str(root, "message");
	if (said && said[0])
		clean_put(&b, said, utf8_cut(said, strnlen(said, n - 1)));
	(void)snprintf(out, n, "%s", b.len && !b.failed ? buf_str(&b) : "");
	if (!out[0])
		(void)snprintf(out, n, "the API server answered %d", a->status);
}

/* ---- watches ---- */

int kube_watch(struct kube *k, const char *path, unsigned ms, int *fd, struct err *e)
{
	struct kube_letter l = { .method = "GET", .path = path, .ms = ms ? ms : KUBE_ASK_MS };
	CLEANUP(fd) int channel = -1, events = -1;
	int fds[KUBE_FDS_MAX] = { -1, -1 };
	int r = pair_of(SOCK_STREAM, &events, &fds[1]);

	if (r < 0)
		return err_errno(e, r, "cannot make a socket pair");
	if (start_job(k, KUBE_WATCH, KUBE_OUT, fds, 2, &channel, e) < 0 ||
	    send_letter(channel, &l, e) < 0)
		return -e->code;
	/* From here on the events' own socket tells both sides of the end. */
	if (fcntl(events, F_SETFL, O_NONBLOCK) < 0)
		return err_sys(e, "cannot set up a watch");
	*fd = TAKE_FD(events);
	return 0;
}

/* ---- attach ---- */

void kube_streams_done(struct kube_streams *s)
{
	s->in = fd_close(s->in);
	s->out = fd_close(s->out);
	s->err = fd_close(s->err);
	s->status = fd_close(s->status);
}

static bool asks_for(const char *path, const char *name)
{
	const char *at = strchr(path, '?');
	size_t n = strlen(name);

	for (; at; at = strchr(at, '&')) {
		at++;
		if (strncmp(at, name, n) == 0 && at[n] == '=' &&
		    (str_starts(at + n + 1, "1") || str_starts(at + n + 1, "true")))
			return true;
	}
	return false;
}

/* Pairs of stream sockets, for the three that are wanted; ours do not block. */
static int make_streams(const char *path, struct kube_streams *s, int *fds, size_t *nfds,
			uint32_t *which)
{
	static const struct {
		const char *name;
		uint32_t bit;
	} all[] = { { "stdin", KUBE_IN }, { "stdout", KUBE_OUT }, { "stderr", KUBE_ERR } };
	int *const mine[] = { &s->in, &s->out, &s->err };

	for (size_t i = 0; i < ARRAY_LEN(all); i++) {
		int r;

		if (!asks_for(path, all[i].name) ||
		    (all[i].bit == KUBE_ERR && asks_for(path, "tty")))
			continue;
		r = pair_of(SOCK_STREAM, mine[i], &fds[*nfds]);
		if (r == 0 && fcntl(*mine[i], F_SETFL, O_NONBLOCK) < 0)
			r = -errno;
		*nfds += 1;
		*which |= all[i].bit;
		if (r < 0)
			return r;
	}
	return 0;
}

static int open_streams(struct kube *k, const char *path, unsigned ms, struct kube_streams *s,
			struct err *e)
{
	struct kube_letter l = { .method = "GET", .path = path, .ms = ms ? ms : KUBE_ASK_MS };
	int fds[KUBE_FDS_MAX] = { -1, -1, -1, -1 };
	struct kube_packet p;
	uint32_t which = 0;
	size_t nfds = 1;
	int r = make_streams(path, s, fds, &nfds, &which);

	if (r < 0) {
		for (size_t i = 0; i < nfds; i++)
			(void)fd_close(fds[i]);
		return err_errno(e, r, "cannot make a socket pair");
	}
	if (start_job(k, KUBE_ATTACH, which, fds, nfds, &s->status, e) < 0 ||
	    send_letter(s->status, &l, e) < 0)
		return -e->code;
	r = kube_packet_recv(s->status, deadline_of(ms), &p, NULL);
	if (r < 0)
		return lost(e, r);
	s->version = p.status;
	return kube_told(&p, e);
}

int kube_attach(struct kube *k, const char *path, unsigned ms, struct kube_streams *ret,
		struct err *e)
{
	struct kube_streams s = { .in = -1, .out = -1, .err = -1, .status = -1 };
	int r = open_streams(k, path, ms, &s, e);

	if (r == 0 && fcntl(s.status, F_SETFL, O_NONBLOCK) < 0)
		r = err_sys(e, "cannot set up streams");
	if (r < 0)
		kube_streams_done(&s);
	*ret = s;
	return r;
}
