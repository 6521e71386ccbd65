/* SPDX-License-Identifier: Apache-2.0 */
/* daemon/registry/exec_watch.c - those who listen to commands.
 *
 * What a command wrote is read from the file that its monitor keeps, so that the daemon holds none
 * of it: a listener has a place in that file and is served as far as it takes. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/files/fd.h"
#include "base/text/str.h"
#include "daemon/registry/sandboxes_internal.h"
#include "daemon/shared/sandbox_id.h"

#define CHUNK ((size_t)64 << 10)
#define AT_ONCE ((size_t)1 << 20) /* bytes for one listener at a turn, */
#define FRAMES_AT_ONCE 1024       /* and frames, which a command may make as small as it likes */
#define RESULT_LOST                                                                                \
	"{\"schema\":1,\"outcome\":\"failed\",\"exit_code\":125,\"error\":{\"code\":\"internal\"," \
	"\"what\":\"the sandbox was lost while the command ran\",\"hint\":null}}"
#define RESULT_UNHEARD                                                                             \
	"{\"schema\":1,\"outcome\":\"failed\",\"exit_code\":125,\"error\":{\"code\":\"internal\"," \
	"\"what\":\"the way to the sandbox was lost before anything was heard of the command\","   \
	"\"hint\":\"run it again\"}}"

struct exec_watch {
	struct loop_timer soon; /* first */
	struct exec_watch *next;
	struct sandbox_entry *of; /* NULL: the sandbox is gone */
	struct loop *loop;
	struct exec_listener by;
	char exec[EXEC_ID_SIZE];
	uint64_t from;
	int fd;
	struct kept_at at;
	bool busy, gone, full, ended;
	bool heard; /* the monitor has told of its end, with this status: it ought to be kept */
	int status;
};

void watches_heard(const struct sandbox_entry *b, const char *id, int status)
{
	for (struct exec_watch *w = b->watches; w; w = w->next)
		if (str_eq(w->exec, id)) {
			w->heard = true;
			w->status = status;
		}
}

/* A command that runs needs no listener to keep its sandbox from being idle. */
void watches_hold(struct sandbox_entry *b)
{
	struct monitor_ask q = { .asks = MONITOR_HOLD };

	for (const struct exec_watch *w = b->watches; w; w = w->next)
		q.value += !w->ended && !execs_find(b, w->exec);
	if (q.value != b->held && link_ask(b, &q, NULL, 0) == 0)
		b->held = q.value;
}

static void soon(struct exec_watch *w)
{
	loop_at(w->loop, &w->soon, 1);
}

static void exec_watch_say_end(struct exec_watch *w, const char *text, size_t n)
{
	w->ended = true;
	if (w->of)
		watches_hold(w->of);
	w->by.end(w->by.arg, text, n);
}

/* The disk is full: it has ended, and what it wrote is not there. That is a failure of ours,
 * however it ended. */
static void say_unkept(struct exec_watch *w)
{
	char text[512];
	int n = snprintf(
		text, sizeof(text),
		"{\"schema\":1,\"outcome\":\"failed\",\"exit_code\":125,\"error\":{"
		"\"code\":\"internal\",\"what\":\"the command has ended with status %d, and "
		"what it wrote could not be kept\",\"hint\":\"is the disk full that has "
		"brig's state folder?\"}}",
		w->status);

	exec_watch_say_end(w, text, (size_t)n);
}

static void give_end(struct exec_watch *w, const struct kept_frame *f)
{
	size_t n = (size_t)f->size;
	CLEANUP(mem) char *text = malloc(n + 1);

	if (text && kept_read(w->fd, &w->at, f, text, n) == (ssize_t)n)
		exec_watch_say_end(w, text, n);
	else
		exec_watch_say_end(w, RESULT_LOST, strlen(RESULT_LOST));
}

/* Bytes that were taken; 0: it takes none now, or there are none. */
static size_t exec_watch_give(struct exec_watch *w, const struct kept_frame *f)
{
	char data[CHUNK];
	uint64_t skip = w->at.seq < w->from ? w->from - w->at.seq : 0;
	ssize_t n;
	size_t took;

	if (skip) {
		skip = skip < f->size ? skip : f->size;
		kept_step(&w->at, f, skip);
		return (size_t)skip;
	}
	n = kept_read(w->fd, &w->at, f, data, sizeof(data));
	took = n > 0 ? w->by.output(w->by.arg, f->kind == KEPT_ERRORS ? 2 : 1, w->at.seq, data,
				    (size_t)n)
		     : 0;
	w->full = n <= 0 || took < (size_t)n;
	kept_step(&w->at, f, took);
	return took;
}

/* Who goes on behind a byte that came later has had it. */
static size_t give_shown(struct exec_watch *w, const struct kept_frame *f)
{
	size_t n = (size_t)f->size;
	CLEANUP(mem) char *text = malloc(n + 1);

	if (w->at.seq >= w->from && text && kept_read(w->fd, &w->at, f, text, n) == (ssize_t)n &&
	    !w->by.shown(w->by.arg, text, n)) {
		w->full = true;
		return 0;
	}
	kept_step(&w->at, f, n);
	return n;
}

static bool is_running(struct exec_watch *w)
{
	return w->of && (w->of->unsure || (w->of->link.fd >= 0 && execs_find(w->of, w->exec)));
}

static void exec_watch_serve(struct exec_watch *w)
{
	struct kept_frame f;
	size_t given = 0, frames = 0;
	int r;

	w->full = false;
	while (!w->gone && !w->ended && !w->full && given < AT_ONCE && frames++ < FRAMES_AT_ONCE) {
		r = w->fd < 0 ? 0 : kept_look(w->fd, &w->at, &f); /* no file yet: nothing in it */
		if (r == 0 && is_running(w))
			return;
		if (r <= 0 && w->heard)
			say_unkept(w);
		else if (r <= 0 && w->fd < 0)
			exec_watch_say_end(w, RESULT_UNHEARD, strlen(RESULT_UNHEARD));
		else if (r <= 0)
			exec_watch_say_end(w, RESULT_LOST, strlen(RESULT_LOST));
		else if (f.kind == KEPT_END)
			give_end(w, &f);
		else if (f.kind == KEPT_BEGIN || !f.size)
			kept_step(&w->at, &f, f.size);
		else if (f.kind == KEPT_SHOWN)
			given += give_shown(w, &f);
		else
			given += exec_watch_give(w, &f);
	}
	if (!w->gone && !w->ended && !w->full)
		soon(w);
}

static void watch_free(struct exec_watch *w)
{
	loop_at(w->loop, &w->soon, 0);
	(void)fd_close(w->fd);
	free(w);
}

static void on_soon(struct loop_timer *t, uint64_t now UNUSED)
{
	struct exec_watch *w = (struct exec_watch *)t;

	w->busy = true;
	exec_watch_serve(w);
	w->busy = false;
	if (w->gone)
		watch_free(w);
	else if (w->of)
		watches_hold(w->of);
}

void exec_more(struct exec_watch *w)
{
	if (!w->ended && w->fd >= 0) /* else nothing was kept of it yet */
		soon(w);
}

struct exec_watch *exec_unwatch(struct exec_watch *w)
{
	struct exec_watch **at = w && w->of ? &w->of->watches : NULL;

	if (!w)
		return NULL;
	while (at && *at && *at != w)
		at = &(*at)->next;
	if (at && *at)
		*at = w->next;
	if (w->of)
		watches_hold(w->of);
	w->of = NULL;
	w->gone = true;
	if (!w->busy)
		watch_free(w);
	return NULL;
}

void watches_news(struct sandbox_entry *b, const char *id)
{
	for (struct exec_watch *w = b->watches; w; w = w->next)
		if (!id || str_eq(w->exec, id))
			soon(w);
}

enum problem exec_listen(struct sandboxes *s, const char *tenant, const char *ref, const char *exec,
			 uint64_t from, const struct exec_listener *by, struct exec_watch **ret,
			 struct err *e)
{
	struct sandbox_entry *b = entry_find(s, tenant, ref);
	const struct exec_entry *x;
	struct exec_watch *w;
	int fd = -1;

	if (!b)
		return entry_missing(ref, e);
	x = id_is(EXEC_ID, exec) ? execs_find(b, exec) : NULL;
	if (!x || x->runs) { /* else there is no file yet */
		if (!id_is(EXEC_ID, exec) || (execs_open(b, exec, &fd) < 0 && !x))
			return execs_none(exec, e);
	}
	w = calloc(1, sizeof(*w));
	if (!w) {
		(void)fd_close(fd);
		return problem_nomem(e);
	}
	*w = (struct exec_watch){ .soon.due = on_soon,
				  .next = b->watches,
				  .of = b,
				  .loop = s->loop,
				  .by = *by,
				  .from = from,
				  .fd = fd };
	(void)snprintf(w->exec, sizeof(w->exec), "%s", exec);
	kept_begin(&w->at);
	b->watches = w;
	watches_hold(b);
	if (fd >= 0)
		soon(w);
	*ret = w;
	return PROBLEM_NONE;
}

void watches_open(struct sandbox_entry *b, const char *id)
{
	for (struct exec_watch *w = b->watches; w; w = w->next)
		if (w->fd < 0 && str_eq(w->exec, id))
			(void)execs_open(b, id, &w->fd);
}

void watches_leave(struct sandbox_entry *b)
{
	while (b->watches) {
		struct exec_watch *w = b->watches;

		b->watches = w->next;
		w->of = NULL;
		w->next = NULL;
		soon(w); /* it has the file open, and is told what is in there */
	}
}
