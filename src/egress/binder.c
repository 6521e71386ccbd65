/* SPDX-License-Identifier: Apache-2.0 */
#include "egress/binder.h"

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/files/fd.h"
#include "egress/ssh/proof.h"
#include "egress/worker_start.h"
#include "model/known/ssh_pins.h"

#define PINS_BYTES ((size_t)1 << 20)

struct bound_session {
	unsigned char session[AGENTMSG_SESSION_MAX];
	size_t n;
	const struct ssh_pin *pin;
	const struct known_key *key;
};

struct binder {
	struct arena *arena;
	struct ssh_pins pins;
	struct bound_session sessions[BINDER_SESSIONS];
	size_t next; /* of them is taken */
	struct bound_session asked;
	pid_t pid; /* -1: not started */
	int pidfd, line;
	bool waits; /* for an answer */
};

int binder_new(const struct spec *s, struct binder **ret, struct err *e)
{
	CLEANUP(binder) struct binder *b = calloc(1, sizeof(*b));

	*ret = NULL;
	if (!b)
		return err_nomem(e);
	b->pid = b->pidfd = b->line = -1;
	b->arena = arena_new_on(s->arena, PINS_BYTES);
	if (!b->arena)
		return err_nomem(e);
	if (ssh_pins_find(b->arena, s, &b->pins, e) < 0)
		return -e->code;
	if (b->pins.n)
		*ret = TAKE_PTR(b);
	return 0;
}

struct binder *binder_free(struct binder *b)
{
	if (!b)
		return NULL;
	worker_stop(b->pid, b->pidfd);
	(void)fd_close(b->line);
	(void)arena_free(b->arena);
	free(b);
	return NULL;
}

static bool find_pin(const struct binder *b, const struct agentmsg_bytes *key,
		     struct bound_session *ret)
{
	for (size_t i = 0; i < b->pins.n; i++)
		for (size_t k = 0; k < b->pins.v[i].keys.n; k++) {
			const struct known_key *one = &b->pins.v[i].keys.v[k];

			if (one->n != key->n || memcmp(one->blob, key->p, key->n) != 0)
				continue;
			ret->pin = &b->pins.v[i];
			ret->key = one;
			return true;
		}
	return false;
}

bool binder_knows(const struct binder *b, const struct agentmsg_bytes *key)
{
	struct bound_session unused;

	return find_pin(b, key, &unused);
}

static int start_process(struct binder *b)
{
	int pair[2] = { -1, -1 };
	struct err unused;

	if (b->line >= 0)
		return 0;
	if (b->pid > 0 || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return -1;
	if (worker_start(PROOF_WORD, (const int[]){ pair[1] }, 1, &b->pid, &b->pidfd, &unused) == 0)
		b->line = TAKE_FD(pair[0]);
	(void)fd_close(pair[0]);
	(void)fd_close(pair[1]);
	return b->line < 0 ? -1 : 0;
}

int binder_ask(struct binder *b, const struct agentmsg_bind *m)
{
	struct proof_ask q = { .key_n = (uint32_t)m->host_key.n,
			       .session_n = (uint32_t)m->session.n,
			       .proof_n = (uint32_t)m->proof.n };

	/* An answer that came too late would be taken for that to the next question. */
	if (b->waits)
		b->line = fd_close(b->line);
	if (m->host_key.n > sizeof(q.key) || m->proof.n > sizeof(q.proof) ||
	    m->session.n > sizeof(q.session) || !find_pin(b, &m->host_key, &b->asked) ||
	    start_process(b) < 0)
		return -1;
	memcpy(q.key, m->host_key.p, m->host_key.n);
	memcpy(q.session, m->session.p, m->session.n);
	memcpy(q.proof, m->proof.p, m->proof.n);
	memcpy(b->asked.session, m->session.p, m->session.n);
	b->asked.n = m->session.n;
	if (fd_send(b->line, &q, sizeof(q), NULL, 0) < 0) {
		b->line = fd_close(b->line);
		return -1;
	}
	b->waits = true;
	return b->line;
}

bool binder_take(struct binder *b)
{
	unsigned char said = PROOF_BAD;

	b->waits = false;
	/* What is gone is not started again: a command that breaks it has broken its logins. */
	if (recv(b->line, &said, 1, MSG_DONTWAIT) != 1)
		b->line = fd_close(b->line);
	if (said != PROOF_GOOD)
		return false;
	b->sessions[b->next++ % BINDER_SESSIONS] = b->asked;
	return true;
}

const char *binder_host(const struct binder *b, const struct agentmsg_login *l)
{
	for (size_t i = 0; i < BINDER_SESSIONS; i++) {
		const struct bound_session *one = &b->sessions[i];

		if (!one->pin || one->n != l->session.n ||
		    memcmp(one->session, l->session.p, one->n) != 0)
			continue;
		if (l->host_key.p && (l->host_key.n != one->key->n ||
				      memcmp(l->host_key.p, one->key->blob, one->key->n) != 0))
			continue;
		return one->pin->host;
	}
	return NULL;
}
