/* SPDX-License-Identifier: Apache-2.0 */
/* apps/batch/batch.c - hands lines to workers, writes what they give, and tries again.
 *
 * A line is fresh, running, waiting for another attempt, or ended. What ends in one turn of the
 * loop is written together, before anything new is handed out. */
#include "apps/batch/batch.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/signalfd.h>
#include <sys/wait.h>

#include "apps/batch/batch_internal.h"
#include "base/bytes/json.h"
#include "base/files/fd.h"
#include "base/sys/clock.h"
#include "base/sys/loop.h"
#include "base/text/buf.h"
#include "base/text/str.h"
#include "model/outcome/outcome.h"
#include "sandbox/run_array.h"

#define FIRST_WAIT_US ((uint64_t)500 * 1000)
#define LAST_WAIT_US ((uint64_t)30 * 1000 * 1000)
#define PROGRESS_US ((uint64_t)200 * 1000)
#define HOPELESS 16 /* ends, none of which ran */

static const char *const class_names[] = {
	[BATCH_OK] = "ok",
	[BATCH_EXIT] = "exit",
	[BATCH_SIGNAL] = "signal",
	[BATCH_TIMEOUT] = "timeout",
	[BATCH_OOM] = "oom",
	[BATCH_LIMIT] = "limit",
	[BATCH_UNAVAILABLE] = "unavailable",
	[BATCH_LOST] = "lost",
	[BATCH_REFUSED] = "refused",
	[BATCH_CANCELLED] = "cancelled",
};

struct batch;

struct batch_hand {
	struct loop_watch w; /* first; fd -1: none is there */
	struct batch *b;
	pid_t pid;
	bool busy;
	struct batch_job job;
};

/* A line that waits for another attempt. */
struct batch_later {
	struct loop_timer t; /* first */
	struct batch *b;
	struct batch_job job;
	struct batch_later *next, **link; /* of all that wait; or, once due, in their order */
};

struct batch {
	const struct batch_options *o;
	struct batch_lines lines;
	struct batch_known *known;
	struct batch_ledger ledger;
	struct batch_count count;
	struct run_array *array; /* NULL: each line is started by itself */
	struct loop *loop;
	struct loop_watch signals;
	struct loop_timer shows;
	struct batch_hand *workers;
	struct batch_later *sleeping, *due, **due_end;
	uint64_t fresh, waiting; /* the next line that was never handed out; attempts to come */
	uint64_t hopeless;
	unsigned interrupts;
	bool stopped;
	struct err *e; /* code 0 while nothing has failed */
};

const char *batch_class_name(enum batch_class c)
{
	return class_names[c];
}

int batch_classes_read(const char *text, unsigned *ret, struct err *e)
{
	*ret = 0;
	for (size_t n; *text; text += n + (text[n] == ',')) {
		unsigned bit = 0;

		n = strcspn(text, ",");
		for (unsigned i = BATCH_EXIT; i < BATCH_REFUSED; i++)
			if (strlen(class_names[i]) == n && memcmp(text, class_names[i], n) == 0)
				bit = 1U << i;
		if (!bit)
			return err_refuse(e, ERR_USAGE, EINVAL,
					  "any of exit, signal, timeout, oom, limit, unavailable "
					  "and lost, with commas",
					  "'%.*s' is no class of failures", (int)(n < 40 ? n : 40),
					  text);
		*ret |= bit;
	}
	return 0;
}

/* ---- the end of an attempt ---- */

static void batch_stop(struct batch *b)
{
	b->stopped = true;
}

static void batch_fail(struct batch *b, const struct err *e)
{
	if (!b->e->code)
		*b->e = *e;
	batch_stop(b);
}

static void on_due(struct loop_timer *t, uint64_t now UNUSED)
{
	struct batch_later *l = (struct batch_later *)t;

	*l->link = l->next;
	if (l->next)
		l->next->link = l->link;
	l->next = NULL;
	*l->b->due_end = l;
	l->b->due_end = &l->next;
}

static bool again(struct batch *b, const struct batch_job *job, enum batch_class c)
{
	uint64_t wait = FIRST_WAIT_US << (job->attempt < 8 ? job->attempt - 1 : 7);
	struct batch_later *l;

	if (b->stopped || job->attempt > b->o->retries || !(b->o->retry_on & 1U << c))
		return false;
	l = calloc(1, sizeof(*l));
	if (!l)
		return false;
	*l = (struct batch_later){ .t = { .due = on_due }, .b = b, .job = *job };
	l->job.attempt++;
	/* What its task gave is known; only a worker's death leaves that open. */
	l->job.submitted &= c == BATCH_LOST;
	l->next = b->sleeping;
	l->link = &b->sleeping;
	if (l->next)
		l->next->link = &l->next;
	b->sleeping = l;
	b->waiting++;
	b->count.retries++;
	loop_at(b->loop, &l->t, clock_us() + (wait < LAST_WAIT_US ? wait : LAST_WAIT_US));
	return true;
}

static void write_result(struct batch *b, const struct batch_job *job, const char *class,
			 const char *object, size_t n, struct buf *out)
{
	const struct batch_place *at = b->lines.v ? &b->lines.v[job->index] : NULL;
	CLEANUP(jread) struct jread *line = NULL;
	CLEANUP(mem) char *meta = NULL;
	struct err unused = { 0 };
	struct json j;

	if (at && batch_line_read(b->lines.text + at->at, at->size, &line, &unused) == 0 &&
	    jread_get(line, "meta"))
		meta = jread_dump(jread_get(line, "meta"));
	json_init(&j, out, false);
	json_object(&j);
	json_ku64(&j, at ? "line" : "index", at ? at->number : job->index);
	if (at)
		json_kstr(&j, "id", jread_str(line, "id"));
	json_ku64(&j, "attempt", job->attempt);
	json_kstr(&j, "class", class);
	if (meta) {
		json_key(&j, "meta");
		json_raw(&j, meta, strlen(meta));
	}
	json_key(&j, "result");
	json_raw(&j, object, n);
	json_object_end(&j);
}

static void settle_end(struct batch *b, enum batch_class c)
{
	b->count.by[c]++;
	b->count.done++;
	b->count.failed += c != BATCH_OK;
	b->hopeless = c == BATCH_REFUSED || c == BATCH_UNAVAILABLE || c == BATCH_LOST
			      ? b->hopeless + 1
			      : 0;
	if (b->o->max_failures
		    ? b->count.failed >= b->o->max_failures
		    : b->hopeless >= HOPELESS && b->hopeless == b->count.done - b->count.before)
		batch_stop(b);
}

/* Most results have no such word. */
static bool was_taken(const char *object, size_t n)
{
	static const char kind[] = "\"protected-path\"";
	CLEANUP(jread) struct jread *v = NULL;
	const struct jread *denials;
	struct err unused;
	bool taken = false;

	if (!memmem(object, n, kind, strlen(kind)) || jread_parse(object, n, &v, &unused) < 0)
		return false;
	denials = jread_get(v, "denials");
	for (size_t i = 0; i < jread_count(denials); i++) {
		const char *why = jread_str(jread_at(denials, i), "reason");

		taken |= why && strstr(why, OUTCOME_MOVED);
	}
	return taken;
}

static void ended(struct batch *b, const struct batch_job *job, enum batch_class c,
		  const char *outcome, const char *object, size_t n)
{
	CLEANUP(buf) struct buf line = BUF_INIT(BATCH_RESULT_MAX);

	b->count.running--;
	b->count.taken += was_taken(object, n);
	if (c == BATCH_CANCELLED || again(b, job, c))
		return;
	write_result(b, job, class_names[c], object, n, &line);
	if (line.failed) {
		struct err e = { 0 };

		(void)err_nomem(&e);
		batch_fail(b, &e);
		return;
	}
	batch_ledger_end(&b->ledger, job->index, job->attempt, outcome, c != BATCH_OK, &line);
	settle_end(b, c);
}

/* ---- workers ---- */

static void lose(struct batch_hand *w)
{
	static const char object[] =
		"{\"outcome\":\"failed\",\"error\":{\"code\":\"internal\",\"what\":\"the process "
		"that ran this line has died\"}}";

	(void)loop_want(w->b->loop, &w->w, 0);
	w->w.fd = fd_close(w->w.fd);
	(void)kill(w->pid, SIGKILL);
	while (waitpid(w->pid, NULL, 0) < 0 && errno == EINTR)
		;
	w->pid = 0;
	if (w->busy)
		ended(w->b, &w->job, w->b->interrupts ? BATCH_CANCELLED : BATCH_LOST, "failed",
		      object, sizeof(object) - 1);
	w->busy = false;
}

static void take_result(struct batch_hand *w, const struct batch_answer *a, int fd)
{
	struct stat st;
	void *text = fstat(fd, &st) == 0 && st.st_size > 0
			     ? mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0)
			     : MAP_FAILED;

	if (text == MAP_FAILED) {
		lose(w);
		return;
	}
	w->busy = false;
	ended(w->b, &w->job, (enum batch_class)a->class, a->outcome, text, (size_t)st.st_size);
	(void)munmap(text, (size_t)st.st_size);
}

static void on_worker(struct loop_watch *watch, uint32_t events UNUSED)
{
	struct batch_hand *w = (struct batch_hand *)watch;
	struct batch_answer a;
	CLEANUP(fd) int fd = -1;
	size_t n = 1;
	ssize_t r = fd_recv(watch->fd, &a, sizeof(a), &fd, &n);

	if (r == -EAGAIN)
		return;
	if (r != (ssize_t)sizeof(a) || n != 1 || !w->busy || a.index != w->job.index ||
	    a.class >= BATCH_CLASSES)
		lose(w);
	else
		take_result(w, &a, fd);
}

static int revive(struct batch_hand *w, struct err *e)
{
	int fd;

	if (w->w.fd >= 0)
		return 0;
	w->pid = batch_worker_start(&w->b->lines, w->b->o->spec, &fd, e);
	if (w->pid < 0)
		return (int)w->pid;
	w->w = (struct loop_watch){ .fd = fd, .ready = on_worker };
	return loop_want(w->b->loop, &w->w, EPOLLIN) < 0 ? err_nomem(e) : 0;
}

/* ---- arrays ---- */

static int put_down(struct batch *b, uint64_t index)
{
	brig_request *q = NULL;
	struct err unused = { 0 }; /* whoever starts it says why it cannot be */
	int r = batch_lines_request(&b->lines, b->o->spec, index, &q, &unused);

	if (r == 0)
		r = run_array_put(b->array, q, index, &unused);
	brig_request_free(q);
	return r;
}

static void without_array(struct batch *b, const struct err *e)
{
	char text[600];

	run_array_close(b->array);
	b->array = NULL;
	(void)snprintf(text, sizeof(text), "each line is started by itself: %s", e->what);
	if (b->o->note)
		b->o->note(b->o->arg, text);
}

static void submit_wave(struct batch *b, uint64_t first)
{
	struct err e = { 0 };
	uint64_t most = 0, n = 0;
	int r = run_array_begin(b->array, first, &most, &e);

	for (; r == 0 && n < most && first + n < b->lines.n; n++)
		if (!b->known[first + n].ended)
			(void)put_down(b, first + n);
	if (r == 0)
		r = run_array_submit(b->array, n, b->o->jobs, &e);
	if (r == -EXDEV)
		without_array(b, &e);
	else if (r < 0)
		batch_fail(b, &e);
}

/* Behind the end of a wave comes the next one, when nothing of the last runs: no more than --jobs
 * at a time. */
static bool ready_for(struct batch *b, uint64_t index)
{
	if (!b->array || index < run_array_end(b->array))
		return true;
	if (b->count.running)
		return false;
	submit_wave(b, index);
	return !b->stopped;
}

static void place_job(const struct batch *b, struct batch_job *job)
{
	struct slurm_spec at = { 0 };

	if (!b->array || !run_array_find(b->array, job->index, &at) ||
	    snprintf(job->spool, sizeof(job->spool), "%s", at.spool) >= (int)sizeof(job->spool))
		return;
	job->submitted = true;
	job->array = at.array;
	job->task = at.task;
	job->limits = at.holds;
	/* One that an earlier process had begun to wait for is the same attempt. */
	if (job->attempt > 1)
		job->attempt--;
}

static int open_array(struct batch *b, struct err *e)
{
	return b->lines.n > 1 ? run_array_open(b->o->spec, b->ledger.id, &b->array, e) : 0;
}

/* ---- handing out ---- */

static bool next_job(struct batch *b, struct batch_job *ret)
{
	struct batch_later *l = b->due;

	if (l) {
		*ret = l->job;
		b->due = l->next;
		if (!b->due)
			b->due_end = &b->due;
		b->waiting--;
		free(l);
		return true;
	}
	while (b->fresh < b->lines.n && b->known[b->fresh].ended)
		b->fresh++;
	if (b->fresh >= b->lines.n || !ready_for(b, b->fresh))
		return false;
	*ret = (struct batch_job){ .index = b->fresh, .attempt = b->known[b->fresh].attempts + 1 };
	place_job(b, ret);
	b->fresh++;
	return true;
}

/* Those who have nothing to do get something; they begin once that is on the disk. */
static size_t batch_choose(struct batch *b, struct batch_hand **chosen, struct err *e)
{
	size_t n = 0;

	for (unsigned i = 0; i < b->o->jobs && !b->stopped; i++) {
		struct batch_hand *w = &b->workers[i];

		if (w->busy)
			continue;
		if (!next_job(b, &w->job))
			break;
		w->busy = true;
		b->count.running++;
		batch_ledger_start(&b->ledger, w->job.index, w->job.attempt);
		chosen[n++] = w;
		if (revive(w, e) < 0)
			batch_fail(b, e);
	}
	return n;
}

static void batch_settle(void *arg)
{
	struct batch_hand *chosen[BATCH_JOBS_MAX];
	struct batch *b = arg;
	struct err e = { 0 };
	size_t n = batch_choose(b, chosen, &e);

	if (batch_ledger_commit(&b->ledger, &e) < 0)
		batch_fail(b, &e);
	for (size_t i = 0; i < n; i++)
		if (b->stopped || chosen[i]->w.fd < 0) {
			/* It was not begun after all; the next attempt has the next number. */
			chosen[i]->busy = false;
			b->count.running--;
		} else { /* one that is gone is lost, which its watch will tell */
			(void)fd_send(chosen[i]->w.fd, &chosen[i]->job, sizeof(chosen[i]->job),
				      NULL, 0);
		}
	if (!b->count.running && (b->stopped || (b->fresh >= b->lines.n && !b->waiting)))
		loop_stop(b->loop);
}

static void on_show(struct loop_timer *t, uint64_t now)
{
	struct batch *b = CONTAINER_OF(t, struct batch, shows);

	if (b->o->progress)
		b->o->progress(b->o->arg, &b->count);
	loop_at(b->loop, t, now + PROGRESS_US);
}

/* Once: what runs is cancelled. Twice: it is not waited for. */
static void batch_on_signal(struct loop_watch *w, uint32_t events UNUSED)
{
	struct batch *b = CONTAINER_OF(w, struct batch, signals);
	struct signalfd_siginfo s;

	if (read(w->fd, &s, sizeof(s)) != (ssize_t)sizeof(s))
		return;
	b->interrupts++;
	batch_stop(b);
	if (b->interrupts == 1) /* else what waits would begin in the place of what ends */
		run_array_cancel(b->array);
	for (unsigned i = 0; i < b->o->jobs; i++)
		if (b->workers[i].busy && b->workers[i].pid > 0)
			(void)kill(b->workers[i].pid, b->interrupts > 1 ? SIGKILL : SIGTERM);
}

/* ---- all of it ---- */

static int batch_prepare(struct batch *b, struct err *e)
{
	const struct batch_options *o = b->o;

	if (o->argv)
		b->lines = (struct batch_lines){ .n = o->repeat, .argv = o->argv };
	else if (batch_lines_find(o->text, o->size, &b->lines, e) < 0)
		return -e->code;
	if (!b->lines.n)
		return err_refuse(e, ERR_USAGE, EINVAL, "a JSON object a line",
				  "the file has no lines");
	b->known = calloc(b->lines.n, sizeof(*b->known));
	b->workers = calloc(o->jobs, sizeof(*b->workers));
	if (!b->known || !b->workers || loop_new(&b->loop, e) < 0)
		return e->code ? -e->code : err_nomem(e);
	for (unsigned i = 0; i < o->jobs; i++)
		b->workers[i] = (struct batch_hand){ .w.fd = -1, .b = b };
	if (batch_ledger_open(o, b->lines.n, b->known, &b->ledger, e) < 0)
		return -e->code;
	b->count = (struct batch_count){ .lines = b->lines.n, .since_us = clock_us() };
	for (size_t i = 0; i < b->lines.n; i++) {
		b->count.done += b->known[i].ended;
		b->count.failed += b->known[i].failed;
	}
	b->count.before = b->count.done;
	if (open_array(b, e) < 0)
		return -e->code;
	b->signals = (struct loop_watch){ .fd = o->signals, .ready = batch_on_signal };
	if (loop_want(b->loop, &b->signals, EPOLLIN) < 0)
		return err_nomem(e);
	b->shows.due = on_show;
	loop_at(b->loop, &b->shows, clock_us() + PROGRESS_US);
	return 0;
}

static void batch_drop(struct batch_later *l)
{
	while (l) {
		struct batch_later *next = l->next;

		free(l);
		l = next;
	}
}

static void done(struct batch *b)
{
	for (unsigned i = 0; b->workers && b->loop && i < b->o->jobs; i++)
		if (b->workers[i].w.fd >= 0) {
			(void)loop_want(b->loop, &b->workers[i].w, 0);
			(void)fd_close(b->workers[i].w.fd); /* that is its end */
			while (waitpid(b->workers[i].pid, NULL, 0) < 0 && errno == EINTR)
				;
		}
	if (b->stopped)
		run_array_cancel(b->array);
	run_array_close(b->array);
	batch_ledger_done(&b->ledger);
	batch_lines_done(&b->lines);
	(void)loop_free(b->loop);
	batch_drop(b->sleeping);
	batch_drop(b->due);
	free(b->workers);
	free(b->known);
}

int batch_run(const struct batch_options *o, struct batch_count *ret, enum batch_end *how,
	      struct err *e)
{
	struct batch b = { .o = o, .e = e, .ledger = { .ledger = -1, .results = -1 } };

	b.due_end = &b.due;
	if (batch_prepare(&b, e) == 0) {
		batch_settle(&b); /* the first ones */
		if (b.count.running || b.waiting)
			loop_run(b.loop, batch_settle, &b);
	}
	if (o->progress)
		o->progress(o->arg, &b.count);
	*ret = b.count;
	*how = b.interrupts ? BATCH_INTERRUPTED : b.stopped ? BATCH_STOPPED : BATCH_ENDED;
	done(&b);
	return -e->code;
}
