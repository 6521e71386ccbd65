/* SPDX-License-Identifier: Apache-2.0 */
/* audit/log.c - one writer for all threads of a process, by group commit.
 *
 * Submitted records wait in `pending`. The first thread that waits for a ticket becomes the writer:
 * it takes everything pending, appends it as one piece under the lock of the record and wakes the
 * others, whose tickets are then done, too; meanwhile new records gather for the next piece. So the
 * cost of a lock and of a sync is shared by however many came in the meantime, and a process with
 * one thread pays for one append and nothing else. */
#include "audit/log.h"

#include <pthread.h>
#include <string.h>

#include "audit/anchor.h"
#include "audit/chain.h"
#include "base/sys/clock.h"

/* Past this the one who submits writes first. */
#define PENDING_MAX ((size_t)4 << 20)
#define FAILURES_MAX 16
#define ANCHOR_EVERY_US 1000000

/* Tickets that were not written, and why. */
struct failure {
	uint64_t from, to;
	struct err e;
};

struct log {
	pthread_mutex_t mutex; /* of everything here but the chain */
	pthread_cond_t changed;
	bool writing;   /* some thread has the chain */
	size_t sharers; /* owners but one */
	struct bodies pending, active;
	uint64_t submitted, done;
	struct failure failure, *more; /* the first, and the others when there are any */
	size_t failed;
	struct head head; /* a copy for others */
	const char *const *anchors;
	uint64_t anchored, anchored_at; /* number and time of the last head sent */
	struct chain chain;
};

int log_open(const struct log_options *o, struct log **ret, struct err *e)
{
	CLEANUP(log) struct log *l = calloc(1, sizeof(*l));

	if (!l)
		return err_nomem(e);
	(void)pthread_mutex_init(&l->mutex, NULL);
	(void)pthread_cond_init(&l->changed, NULL);
	l->chain.segment_bytes = o->segment_bytes ? o->segment_bytes : LOG_SEGMENT_BYTES;
	l->chain.sync = o->sync;
	l->anchors = o->anchors;
	if (chain_open(&l->chain, o->dir, e) < 0)
		return -e->code;
	*ret = TAKE_PTR(l);
	return 0;
}

struct log *log_share(struct log *l)
{
	(void)pthread_mutex_lock(&l->mutex);
	l->sharers++;
	(void)pthread_mutex_unlock(&l->mutex);
	return l;
}

static bool is_shared(struct log *l)
{
	bool shared;

	(void)pthread_mutex_lock(&l->mutex);
	shared = l->sharers > 0;
	l->sharers -= shared;
	(void)pthread_mutex_unlock(&l->mutex);
	return shared;
}

struct log *log_free(struct log *l)
{
	if (!l || is_shared(l))
		return NULL;
	chain_done(&l->chain);
	bodies_done(&l->pending);
	bodies_done(&l->active);
	free(l->more);
	(void)pthread_cond_destroy(&l->changed);
	(void)pthread_mutex_destroy(&l->mutex);
	free(l);
	return NULL;
}

/* --- with the mutex --- */

static void take_chain(struct log *l)
{
	while (l->writing)
		(void)pthread_cond_wait(&l->changed, &l->mutex);
	l->writing = true;
}

static void give_chain(struct log *l)
{
	l->writing = false;
	l->head = l->chain.state.head;
	(void)pthread_cond_broadcast(&l->changed);
}

static struct failure *failure_at(struct log *l, size_t i)
{
	return i ? &l->more[i - 1] : &l->failure;
}

/* A full table, or no memory for it, makes the last entry longer: tickets in between are then
 * called failed although they were written, never the other way round. */
static void note_failure(struct log *l, uint64_t from, uint64_t to, const struct err *e)
{
	struct failure *f;

	if (l->failed == 1 && !l->more)
		l->more = calloc(FAILURES_MAX - 1, sizeof(*l->more));
	if (!l->failed || (l->more && l->failed < FAILURES_MAX)) {
		f = failure_at(l, l->failed++);
		f->from = from;
	} else {
		f = failure_at(l, l->failed - 1);
	}
	f->to = to;
	f->e = *e;
}

static const struct err *failure_of(struct log *l, uint64_t ticket)
{
	for (size_t i = 0; i < l->failed; i++) {
		const struct failure *f = failure_at(l, i);

		if (ticket >= f->from && ticket <= f->to)
			return &f->e;
	}
	return NULL;
}

/* --- with the chain --- */

static int send_head(struct log *l, bool now, struct err *e)
{
	const struct head *h = &l->chain.state.head;
	uint64_t at = clock_us();

	if (!l->anchors || h->seq == l->anchored ||
	    (!now && l->anchored && at - l->anchored_at < ANCHOR_EVERY_US))
		return 0;
	if (anchor_send(l->anchors, h, &l->chain.key, e) < 0)
		return -e->code;
	l->anchored = h->seq;
	l->anchored_at = at;
	return 0;
}

/* Writes what is pending. Called with the mutex and the chain; the mutex is free while it writes.
 */
static void write_pending(struct log *l)
{
	uint64_t from = l->done + 1, to = l->submitted;
	struct bodies b = l->pending;
	struct err e = { 0 };
	int r;

	l->pending = l->active;
	l->active = b;
	(void)pthread_mutex_unlock(&l->mutex);
	r = chain_lock(&l->chain, &e);
	if (r == 0) {
		r = chain_append(&l->chain, &l->active, &e);
		chain_unlock(&l->chain);
	}
	if (r == 0)
		r = send_head(l, false, &e);
	bodies_clear(&l->active);
	(void)pthread_mutex_lock(&l->mutex);
	if (r < 0)
		note_failure(l, from, to, &e);
	l->done = to;
}

/* --- public --- */

int log_submit(struct log *l, const struct record *r, size_t n, uint64_t *ticket, struct err *e)
{
	size_t had, len;
	int failed = 0;

	(void)pthread_mutex_lock(&l->mutex);
	while (l->pending.text.len > PENDING_MAX) {
		take_chain(l);
		if (l->pending.n)
			write_pending(l);
		give_chain(l);
	}
	had = l->pending.n;
	len = l->pending.text.len;
	for (size_t i = 0; i < n && !failed; i++)
		failed = bodies_add(&l->pending, &r[i], &l->chain.key);
	if (failed) {
		l->pending.n = had;
		l->pending.text.len = len;
		l->pending.text.failed = false;
	} else {
		*ticket = ++l->submitted;
	}
	(void)pthread_mutex_unlock(&l->mutex);
	return failed ? err_nomem(e) : 0;
}

int log_wait(struct log *l, uint64_t ticket, struct err *e)
{
	const struct err *failed;

	(void)pthread_mutex_lock(&l->mutex);
	while (l->done < ticket) {
		take_chain(l);
		if (l->done < ticket)
			write_pending(l);
		give_chain(l);
	}
	failed = failure_of(l, ticket);
	if (failed)
		*e = *failed;
	(void)pthread_mutex_unlock(&l->mutex);
	return failed ? -e->code : 0;
}

int log_append(struct log *l, const struct record *r, size_t n, struct err *e)
{
	uint64_t ticket = 0;

	return log_submit(l, r, n, &ticket, e) < 0 ? -e->code : log_wait(l, ticket, e);
}

int log_anchor(struct log *l, struct err *e)
{
	int r;

	(void)pthread_mutex_lock(&l->mutex);
	take_chain(l);
	(void)pthread_mutex_unlock(&l->mutex);
	r = send_head(l, true, e);
	(void)pthread_mutex_lock(&l->mutex);
	give_chain(l);
	(void)pthread_mutex_unlock(&l->mutex);
	return r;
}

const struct audit_key *log_key(const struct log *l)
{
	return &l->chain.key;
}

int log_dirfd(const struct log *l)
{
	return l->chain.dir;
}

const char *log_dir(const struct log *l)
{
	return l->chain.path;
}

struct head log_head(struct log *l)
{
	struct head h;

	(void)pthread_mutex_lock(&l->mutex);
	h = l->head;
	(void)pthread_mutex_unlock(&l->mutex);
	return h;
}

int log_lock(struct log *l, struct err *e)
{
	int r;

	(void)pthread_mutex_lock(&l->mutex);
	take_chain(l);
	(void)pthread_mutex_unlock(&l->mutex);
	r = chain_lock(&l->chain, e);
	if (r == 0)
		return 0;
	(void)pthread_mutex_lock(&l->mutex);
	give_chain(l);
	(void)pthread_mutex_unlock(&l->mutex);
	return r;
}

void log_unlock(struct log *l)
{
	chain_unlock(&l->chain);
	(void)pthread_mutex_lock(&l->mutex);
	give_chain(l);
	(void)pthread_mutex_unlock(&l->mutex);
}

int log_append_locked(struct log *l, const struct record *r, size_t n, struct err *e)
{
	struct bodies b = { 0 };
	int failed = 0;

	for (size_t i = 0; i < n && !failed; i++)
		failed = bodies_add(&b, &r[i], &l->chain.key);
	failed = failed ? err_nomem(e) : chain_append(&l->chain, &b, e);
	bodies_done(&b);
	return failed;
}

struct head log_head_locked(const struct log *l)
{
	return l->chain.state.head;
}

int log_rotate_locked(struct log *l, struct err *e)
{
	return chain_rotate(&l->chain, e);
}
