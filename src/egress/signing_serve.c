/* SPDX-License-Identifier: Apache-2.0 */
/* egress/signing_serve.c - brig-egress in front of an ssh-agent: takes connections from inside, and
 * makes whole requests of what comes.
 *
 *     a peer: reads -> waits (a request is whole) -> asked (it is with the monitor) -> writes ->
 * reads
 *
 * It holds the sockets that it was given and nothing else: no key, no agent, no file. One request
 * at a time is with the monitor; peers take turns. Who sends half a message keeps a place, of which
 * there are PEERS, and nobody else outside of the sandbox waits for one. */
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/files/fd.h"
#include "base/sys/loop.h"
#include "base/text/cleanup.h"
#include "egress/signing.h"
#include "proc/confine.h"

#define LISTENER 3
#define MONITOR 4
#define PEERS 16

struct sign_peer {
	struct loop_watch w; /* first */
	struct signer *k;
	enum { PEER_READS, PEER_WAITS, PEER_ASKED, PEER_WRITES } state;
	size_t have;
	unsigned char in[AGENTMSG_HEAD + AGENTMSG_REQUEST_MAX];
	unsigned char *out;
	size_t at, n; /* of out */
};

struct signer {
	struct loop_watch w; /* first: the listening socket */
	struct loop_watch monitor;
	struct loop *loop;
	struct sign_peer *peers[PEERS];
	size_t next;             /* whose turn it is */
	struct sign_peer *asked; /* NULL: nobody */
	bool busy;               /* an answer is yet to come, perhaps to one that left */
	bool told;               /* that a request was refused */
};

static void accept_more(struct signer *k)
{
	bool room = false;

	for (size_t i = 0; i < PEERS; i++)
		room |= !k->peers[i];
	(void)loop_want(k->loop, &k->w, room ? EPOLLIN : 0);
}

static void sign_drop(struct sign_peer *p)
{
	struct signer *k = p->k;

	(void)loop_want(k->loop, &p->w, 0);
	(void)fd_close(p->w.fd);
	if (k->asked == p)
		k->asked = NULL;
	for (size_t i = 0; i < PEERS; i++)
		if (k->peers[i] == p)
			k->peers[i] = NULL;
	free(p->out);
	free(p);
	accept_more(k);
}

/* The next request goes to the monitor, once that is free. */
static void sign_ask(struct signer *k)
{
	for (size_t i = 0; i < PEERS && !k->busy; i++) {
		struct sign_peer *p = k->peers[(k->next + i) % PEERS];
		struct signing_ask q = { .what = SIGNING_ASK_LIST };

		if (!p || p->state != PEER_WAITS)
			continue;
		if (p->in[AGENTMSG_HEAD] != AGENTMSG_LIST) {
			q.what = p->in[AGENTMSG_HEAD] == AGENTMSG_SIGN ? SIGNING_ASK_SIGN
								       : SIGNING_ASK_BIND;
			q.n = (uint32_t)(p->have - AGENTMSG_HEAD);
			memcpy(q.request, p->in + AGENTMSG_HEAD, q.n);
		}
		k->next = (k->next + i + 1) % PEERS;
		k->asked = p;
		k->busy = true;
		p->state = PEER_ASKED;
		if (fd_send(MONITOR, &q, sizeof(q), NULL, 0) < 0)
			_exit(1); /* it is gone */
	}
}

/* May free p. */
static void sign_flush(struct sign_peer *p)
{
	ssize_t n = send(p->w.fd, p->out + p->at, p->n - p->at, MSG_DONTWAIT | MSG_NOSIGNAL);

	if (n < 0 && errno != EAGAIN && errno != EINTR) {
		sign_drop(p);
		return;
	}
	p->at += n > 0 ? (size_t)n : 0;
	if (p->at == p->n) {
		free(p->out);
		p->out = NULL;
		p->have = 0;
		p->state = PEER_READS;
	}
	if (loop_want(p->k->loop, &p->w, p->out ? EPOLLOUT : EPOLLIN) < 0)
		sign_drop(p);
}

static void sign_answer(struct sign_peer *p, const unsigned char *m, size_t n)
{
	p->out = malloc(AGENTMSG_HEAD + n);
	if (!p->out) {
		sign_drop(p);
		return;
	}
	agentmsg_put_number(p->out, (uint32_t)n);
	memcpy(p->out + AGENTMSG_HEAD, m, n);
	p->at = 0;
	p->n = AGENTMSG_HEAD + n;
	p->state = PEER_WRITES;
	sign_flush(p);
}

/* The monitor hears of the first: that somebody tries is told, how often is nobody's concern. */
static void sign_refuse(struct sign_peer *p)
{
	const unsigned char failure = AGENTMSG_FAILURE;
	const struct signing_ask q = { .what = SIGNING_WAS_REFUSED };
	struct signer *k = p->k;

	if (!k->told && fd_send(MONITOR, &q, sizeof(q), NULL, 0) < 0)
		_exit(1);
	k->told = true;
	sign_answer(p, &failure, sizeof(failure));
}

static void is_whole(struct sign_peer *p)
{
	const unsigned char *m = p->in + AGENTMSG_HEAD;
	size_t n = p->have - AGENTMSG_HEAD;
	struct agentmsg_sign unused;
	struct agentmsg_bind nor_this;

	if (!(m[0] == AGENTMSG_LIST && n == 1) && !agentmsg_read_sign(m, n, &unused) &&
	    !agentmsg_read_bind(m, n, &nor_this)) {
		sign_refuse(p);
		return;
	}
	p->state = PEER_WAITS;
	(void)loop_want(p->k->loop, &p->w, 0);
	sign_ask(p->k);
}

/* What is read is what is wanted next: the length, then the rest. Descriptors that come along are
 * closed by the kernel. */
static void on_peer(struct loop_watch *w, uint32_t events UNUSED)
{
	struct sign_peer *p = (struct sign_peer *)w;
	size_t want = AGENTMSG_HEAD;
	ssize_t n;

	if (p->state == PEER_WRITES) {
		sign_flush(p);
		return;
	}
	if (p->have >= AGENTMSG_HEAD)
		want += agentmsg_number(p->in);
	n = recv(w->fd, p->in + p->have, want - p->have, MSG_DONTWAIT);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0) {
		sign_drop(p);
		return;
	}
	p->have += (size_t)n;
	if (p->have < want)
		return;
	if (want > AGENTMSG_HEAD)
		is_whole(p);
	else if (!agentmsg_number(p->in) || agentmsg_number(p->in) > AGENTMSG_REQUEST_MAX)
		sign_drop(p); /* where the next message would begin nobody knows */
}

static void on_listener(struct loop_watch *w, uint32_t events UNUSED)
{
	struct signer *k = (struct signer *)w;
	int fd = accept4(w->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	struct sign_peer *p = fd < 0 ? NULL : calloc(1, sizeof(*p));
	size_t i = 0;

	if (!p) {
		(void)fd_close(fd);
		return;
	}
	while (k->peers[i])
		i++;
	k->peers[i] = p;
	p->w = (struct loop_watch){ .fd = fd, .ready = on_peer };
	p->k = k;
	if (loop_want(k->loop, &p->w, EPOLLIN) < 0)
		sign_drop(p);
	else
		accept_more(k);
}

static void on_monitor(struct loop_watch *w, uint32_t events UNUSED)
{
	struct signer *k = CONTAINER_OF(w, struct signer, monitor);
	unsigned char m[AGENTMSG_ANSWER_MAX];
	size_t none = 0;
	ssize_t n = fd_recv(w->fd, m, sizeof(m), NULL, &none);

	if (n == -EAGAIN)
		return;
	if (n <= 0)
		_exit(0); /* it is gone */
	k->busy = false;
	if (k->asked) {
		struct sign_peer *p = k->asked;

		k->asked = NULL;
		sign_answer(p, m, (size_t)n);
	}
	sign_ask(k);
}

int sign_main(void)
{
	struct signer k = { .w = { .fd = LISTENER, .ready = on_listener },
			    .monitor = { .fd = MONITOR, .ready = on_monitor } };
	struct err e;

	if (confine_early(&e) < 0 || loop_new(&k.loop, &e) < 0 ||
	    confine(CONFINE_SIGNER, NULL, &e) < 0 || loop_want(k.loop, &k.monitor, EPOLLIN) < 0)
		return 1;
	accept_more(&k);
	for (;;)
		loop_turn(k.loop, -1);
}
