/* SPDX-License-Identifier: Apache-2.0 */
#include "interp/interp.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/bytes/json.h"
#include "base/files/fd.h"

#define PIECE ((size_t)64 << 10)
#define ROUNDS 4                        /* pieces at a time: others wait, too */
#define REQUEST_MAX ((size_t)100 << 20) /* code and arguments, escaped */

struct interp {
	struct loop *loop;
	struct loop_watch to, from;
	struct interp_listener by;
	bool ready, busy, lost;
	uint64_t id;             /* of the last request */
	struct buf unsent, line; /* line: what has come and is not looked at yet */
	size_t sent;
};

static void interp_leave(struct interp *x, struct loop_watch *w)
{
	if (w->events)
		(void)loop_want(x->loop, w, 0);
	w->fd = fd_close(w->fd);
}

static void lose_to(struct interp *x, const char *why, bool gone)
{
	if (x->lost)
		return;
	x->lost = true;
	x->busy = false;
	interp_leave(x, &x->to);
	interp_leave(x, &x->from);
	x->by.lost(x->by.arg, why, gone);
}

static void lose(struct interp *x, const char *why)
{
	lose_to(x, why, false);
}

/* ---- what it says ---- */

static void interp_take_line(struct interp *x, const char *p, size_t n)
{
	CLEANUP(interp_answer) struct interp_answer a = { 0 };
	bool ok = interp_answer_read(p, n, &a);

	if (!ok || (a.type == INTERP_READY) == x->ready ||
	    (x->ready && (!x->busy || a.id != x->id))) {
		lose(x, "it wrote what is no answer");
		return;
	}
	if (a.type == INTERP_READY) {
		x->ready = true;
		return;
	}
	if (a.type == INTERP_DONE)
		x->busy = false;
	x->by.answer(x->by.arg, &a);
}

static void interp_take_lines(struct interp *x)
{
	size_t at = 0;
	const char *end;

	while (!x->lost && (end = memchr(x->line.data + at, '\n', x->line.len - at))) {
		interp_take_line(x, x->line.data + at, (size_t)(end - x->line.data) - at);
		at = (size_t)(end - x->line.data) + 1;
	}
	if (!at)
		return;
	memmove(x->line.data, x->line.data + at, x->line.len - at);
	x->line.len -= at;
}

/* false: there is no more for now. */
static bool take_piece(struct interp *x, char *piece)
{
	ssize_t n = read(x->from.fd, piece, PIECE);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return false;
	if (n <= 0) {
		lose_to(x, "it closed its output", true);
		return false;
	}
	buf_add(&x->line, piece, (size_t)n);
	if (x->line.failed) {
		lose(x, "it wrote a line that is too long");
		return false;
	}
	/* What is behind the last line end was looked through already. */
	if (memchr(piece, '\n', (size_t)n))
		interp_take_lines(x);
	return !x->lost;
}

static void interp_on_said(struct loop_watch *w, uint32_t events UNUSED)
{
	struct interp *x = CONTAINER_OF(w, struct interp, from);
	CLEANUP(mem) char *piece = malloc(PIECE);

	if (!piece)
		lose(x, "there is no memory for what it says");
	for (int i = 0; piece && i < ROUNDS && take_piece(x, piece); i++)
		;
}

/* ---- what it is asked ---- */

static void send_some(struct interp *x)
{
	while (x->sent < x->unsent.len) {
		ssize_t n = write(x->to.fd, x->unsent.data + x->sent, x->unsent.len - x->sent);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			break;
		if (n < 0) {
			lose_to(x, "it closed its input", true);
			return;
		}
		x->sent += (size_t)n;
	}
	if (x->sent == x->unsent.len) {
		buf_done(&x->unsent);
		x->unsent = (struct buf)BUF_INIT(REQUEST_MAX);
		x->sent = 0;
	}
	if (loop_want(x->loop, &x->to, x->unsent.len ? EPOLLOUT : 0) < 0)
		lose(x, "it cannot be followed");
}

static void interp_on_room(struct loop_watch *w, uint32_t events UNUSED)
{
	send_some(CONTAINER_OF(w, struct interp, to));
}

int interp_ask(struct interp *x, const char *code, const char *const *args, struct err *e)
{
	struct json j;

	if (x->lost || x->busy)
		return err_set(e, ERR_INTERNAL, EBUSY, "the context takes no request now");
	json_init(&j, &x->unsent, false);
	json_object(&j);
	json_ku64(&j, "id", ++x->id);
	json_kstr(&j, "code", code);
	json_kstrs(&j, "args", args);
	json_object_end(&j);
	buf_putc(&x->unsent, '\n');
	if (x->unsent.failed)
		return err_nomem(e);
	x->busy = true;
	send_some(x);
	return 0;
}

void interp_interrupt(struct interp *x)
{
	if (!x->busy)
		return;
	buf_printf(&x->unsent, "{\"interrupt\":%llu}\n", (unsigned long long)x->id);
	if (!x->unsent.failed)
		send_some(x);
}

/* ---- life ---- */

static int no_wait(int fd)
{
	int flags = fcntl(fd, F_GETFL);

	return flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0 ? -errno : 0;
}

int interp_new(struct loop *l, int to, int from, const struct interp_listener *by,
	       struct interp **ret, struct err *e)
{
	CLEANUP(interp) struct interp *x = calloc(1, sizeof(*x));

	if (!x) {
		(void)fd_close(to);
		(void)fd_close(from);
		return err_nomem(e);
	}
	*x = (struct interp){ .loop = l,
			      .to = { .fd = to, .ready = interp_on_room },
			      .from = { .fd = from, .ready = interp_on_said },
			      .by = *by,
			      .unsent = BUF_INIT(REQUEST_MAX),
			      .line = BUF_INIT(INTERP_LINE_MAX + PIECE) };
	if (no_wait(to) < 0 || no_wait(from) < 0 || loop_want(l, &x->from, EPOLLIN) < 0)
		return err_sys(e, "a context cannot be followed");
	*ret = TAKE_PTR(x);
	return 0;
}

struct interp *interp_free(struct interp *x)
{
	if (!x)
		return NULL;
	interp_leave(x, &x->to);
	interp_leave(x, &x->from);
	buf_done(&x->unsent);
	buf_done(&x->line);
	free(x);
	return NULL;
}
