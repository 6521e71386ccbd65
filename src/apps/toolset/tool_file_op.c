/* SPDX-License-Identifier: Apache-2.0 */
/* apps/toolset/tool_file_op.c - one operation of brig-files (proc/files/files.h) in a call's box.
 *
 * What comes out of the pipes was written inside: sizes are bounded here, and an answer counts only
 * as a number. */
#include <errno.h>
#include <fcntl.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "apps/toolset/tools_internal.h"
#include "base/sys/clock.h"
#include "sandbox/manager.h"

#define PATIENCE_US ((uint64_t)FILE_PATIENCE_MS * 1000)

static struct tool_call *call_of(struct tool_file *f)
{
	return CONTAINER_OF(f, struct tool_call, file);
}

static void close_watch(struct loop *l, struct loop_watch *w)
{
	if (w->fd < 0)
		return;
	if (w->events)
		(void)loop_want(l, w, 0);
	w->fd = fd_close(w->fd);
}

static void tool_file_op_rest(struct tool_file *f, struct loop *l)
{
	loop_at(l, &f->late, 0);
	close_watch(l, &f->answers);
	close_watch(l, &f->data);
	f->word = fd_close(f->word);
}

void file_done(struct tool_file *f, struct loop *l)
{
	tool_file_op_rest(f, l);
	buf_done(&f->got);
}

static void tool_file_op_finish(struct tool_file *f, int error)
{
	struct tool_call *c = call_of(f);

	tool_file_op_rest(f, c->of->loop);
	f->number = 0;
	f->next(c, error);
}

static void tool_file_op_give_up(struct tool_file *f)
{
	struct tool_call *c = call_of(f);

	if (f->number && c->box && !c->box->ended)
		sandbox_end_command(c->box->sandbox, f->number);
}

void file_cancel(struct tool_call *c)
{
	tool_file_op_give_up(&c->file);
	tool_file_op_rest(&c->file, c->of->loop);
}

static void tool_file_op_on_late(struct loop_timer *t, uint64_t now UNUSED)
{
	struct tool_file *f = CONTAINER_OF(t, struct tool_file, late);

	tool_file_op_give_up(f);
	tool_file_op_finish(f, ETIMEDOUT);
}

/* ---- data ---- */

static void on_out(struct tool_file *f)
{
	struct loop *l = call_of(f)->of->loop;
	char part[65536];
	ssize_t n = read(f->data.fd, part, sizeof(part));

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n > 0) {
		buf_add(&f->got, part, (size_t)n);
		loop_at(l, &f->late, clock_us() + PATIENCE_US);
	}
	if (n <= 0)
		close_watch(l, &f->data);
	if (f->got.failed) {
		tool_file_op_give_up(f);
		tool_file_op_finish(f, EFBIG);
	}
}

static void on_in(struct tool_file *f)
{
	struct loop *l = call_of(f)->of->loop;
	ssize_t n = f->given < f->give_len
			    ? write(f->data.fd, f->give + f->given, f->give_len - f->given)
			    : 0;

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n > 0)
		f->given += (size_t)n;
	if (n >= 0 && f->given < f->give_len)
		return;
	/* Without the word nothing gets its name. */
	if (n >= 0)
		(void)!write(f->word, "", 1);
	f->word = fd_close(f->word);
	close_watch(l, &f->data);
}

static void on_data(struct loop_watch *w, uint32_t events UNUSED)
{
	struct tool_file *f = CONTAINER_OF(w, struct tool_file, data);

	if (file_takes(f->verb))
		on_in(f);
	else
		on_out(f);
}

/* ---- answers ---- */

static void tool_file_op_on_answer(struct loop_watch *w, uint32_t events UNUSED)
{
	struct tool_file *f = CONTAINER_OF(w, struct tool_file, answers);
	struct loop *l = call_of(f)->of->loop;
	struct file_answer a;
	ssize_t n = read(w->fd, &a, sizeof(a));

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n != (ssize_t)sizeof(a)) {
		tool_file_op_finish(f, ECANCELED);
		return;
	}
	f->last = a;
	if (a.says == FILE_HAS && !f->has) {
		f->has = true;
		if (file_takes(f->verb) && loop_want(l, &f->data, EPOLLOUT) < 0)
			tool_file_op_finish(f, ENOMEM);
		return;
	}
	if (a.says != FILE_DONE) {
		tool_file_op_finish(f, EPROTO);
		return;
	}
	/* What was written before it is in the pipe. */
	while (!a.error && f->data.fd >= 0 && !file_takes(f->verb) && f->next && !f->got.failed) {
		ssize_t before = (ssize_t)f->got.len;

		on_out(f);
		if (f->data.fd >= 0 && (ssize_t)f->got.len == before)
			break;
	}
	if (f->answers.fd >= 0)
		tool_file_op_finish(f, (int)(a.error & 0xfff));
}

/* ---- beginning ---- */

static bool make_pipe(int *ours, int *theirs, bool to_us)
{
	int ends[2];

	if (pipe2(ends, O_CLOEXEC) < 0)
		return false;
	*ours = ends[!to_us];
	*theirs = ends[to_us];
	return fcntl(*ours, F_SETFL, O_NONBLOCK) == 0;
}

static int open_ends(struct tool_file *f, bool takes, int *data, int *answers, int *word,
		     struct err *e)
{
	if (!make_pipe(&f->data.fd, data, !takes) || !make_pipe(&f->answers.fd, answers, true) ||
	    (takes && !make_pipe(&f->word, word, false)))
		return err_sys(e, "cannot make a pipe");
	return 0;
}

int file_begin(struct tool_call *c, const struct file_order *o, file_next_fn *next, struct err *e)
{
	CLEANUP(fd) int data = -1, answers = -1, word = -1;
	struct tool_file *f = &c->file;
	struct loop *l = c->of->loop;
	struct file_words w;
	const bool takes = file_takes(o->verb);

	if (is_far(c))
		return far_file(c, o, next, e);
	/* Between two operations of one call the box may have been deleted by another. */
	if (!c->box)
		return err_set(e, ERR_USAGE, ECANCELED, "the sandbox was deleted meanwhile");
	file_done(f, l);
	*f = (struct tool_file){ .answers = { .fd = -1, .ready = tool_file_op_on_answer },
				 .data = { .fd = -1, .ready = on_data },
				 .late.due = tool_file_op_on_late,
				 .verb = o->verb,
				 .word = -1,
				 .got = BUF_INIT(TOOL_FILE_MAX),
				 .give = buf_str(&c->body),
				 .give_len = c->body.len,
				 .next = next };
	file_order_words(o, &w);
	if (open_ends(f, takes, &data, &answers, &word, e) < 0)
		return -e->code;
	if (sandbox_files(c->box->sandbox, w.argv, (const int[]){ data, answers, word }, &f->number,
			  e) < 0)
		return e->code ? -e->code
			       : err_set(e, ERR_UNAVAILABLE, ENOTSUP,
					 "files are for native, bwrap and docker");
	if (loop_want(l, &f->answers, EPOLLIN) < 0 ||
	    (!takes && loop_want(l, &f->data, EPOLLIN) < 0))
		return err_nomem(e);
	loop_at(l, &f->late, clock_us() + PATIENCE_US);
	return 0;
}
