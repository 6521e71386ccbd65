/* SPDX-License-Identifier: Apache-2.0 */
/* cli/audit/tail.c - "tail": the newest records, then each new one as it comes.
 *
 * What is there is counted first and shown from the index; the same reader then goes on where the
 * counting ended, so that nothing is missed or shown twice in between. */
#include <inttypes.h>
#include <sys/inotify.h>

#include "audit/read/segments.h"
#include "base/sys/clock.h"
#include "base/sys/wait.h"
#include "cli/audit/asked.h"

enum { LOOK_MS = 1000 }; /* where no notice comes: a network file system */

#define OUT_MAX ((size_t)4 << 20)

struct tail {
	const struct asked *asked;
	int dirfd, fd, notify;
	uint64_t segment; /* that fd is; 0: none yet */
	struct lines *lines;
	uint64_t seen; /* highest number counted before the start */
	struct buf out;
	struct exporter exporter;
	struct err *e;
};

static int tail_enter(struct tail *t, uint64_t number)
{
	struct lines *l;
	int fd = segment_open(t->dirfd, number);

	if (fd < 0)
		return err_errno(t->e, fd, "cannot open segment %06" PRIu64, number);
	l = lines_new(fd, 0);
	if (!l) {
		(void)fd_close(fd);
		return err_nomem(t->e);
	}
	t->lines = lines_free(t->lines);
	(void)fd_close(t->fd);
	t->fd = fd;
	t->lines = l;
	t->segment = number;
	return 0;
}

/* The next record of this segment: 1, or 0 for now. */
static int next_here(struct tail *t, struct entry *en)
{
	const char *p;
	size_t n;
	int r = 0;

	while (t->lines && (r = lines_next(t->lines, &p, &n)) > 0)
		if (p && entry_read(p, n, en) == 0)
			return 1;
	return r < 0 ? err_errno(t->e, r, "cannot read segment %06" PRIu64, t->segment) : 0;
}

/* 1: a record; 0: none for now. */
static int next(struct tail *t, struct entry *en)
{
	CLEANUP(segments) struct segments list = { 0 };
	uint64_t number;
	int r;

	r = next_here(t, en);
	if (r)
		return r;
	if (segments_list(t->dirfd, &list, t->e) < 0)
		return -t->e->code;
	while (segments_next(&list, t->segment, &number)) {
		/* There is a later one, so this one is final: what came in between is read first.
		 */
		r = next_here(t, en);
		if (r)
			return r;
		if (tail_enter(t, number) < 0)
			return -t->e->code;
	}
	return next_here(t, en);
}

static int tail_put(void *data, const struct entry *en)
{
	struct tail *t = data;

	if (t->seen && en->seq > t->seen)
		return 0;
	export_entry(&t->exporter, en);
	return flush_to(STDOUT_FILENO, &t->out, false, t->e);
}

/* To the end of what is there, from the segment before the newest: that may be empty. */
static int tail_count(struct tail *t)
{
	CLEANUP(segments) struct segments list = { 0 };
	struct entry en = { 0 };
	int r;

	if (segments_list(t->dirfd, &list, t->e) < 0)
		return -t->e->code;
	if (!list.count)
		return 0;
	if (tail_enter(t, list.numbers[list.count > 1 ? list.count - 2 : 0]) < 0)
		return -t->e->code;
	while ((r = next(t, &en)) > 0)
		t->seen = en.seq;
	return r;
}

static int show_newest(struct tail *t, const char *path)
{
	CLEANUP(query) struct query *q = NULL;
	struct filter f = t->asked->filter;

	if (!t->seen)
		return 0;
	if (f.since && !t->asked->limited)
		f.limit = 0;
	if (query_open(t->dirfd, path, !t->asked->no_index, &q, t->e) < 0 ||
	    query_run(q, &f, tail_put, t, t->e) < 0)
		return -t->e->code;
	return flush_to(STDOUT_FILENO, &t->out, true, t->e);
}

/* Until the folder changes or a second is over; 1 when nobody reads what is written any more. */
static int tail_rest(struct tail *t)
{
	struct pollfd p[] = { { .fd = t->notify, .events = POLLIN }, { .fd = STDOUT_FILENO } };
	char events[4096];

	if (wait_any(p, 2, clock_after(LOOK_MS)) < 0)
		return err_sys(t->e, "cannot wait for records");
	if (p[1].revents & (POLLERR | POLLHUP | POLLNVAL))
		return 1;
	if (p[0].revents & POLLIN)
		while (read(t->notify, events, sizeof(events)) > 0)
			continue;
	return 0;
}

static int tail_follow(struct tail *t)
{
	struct entry en = { 0 };
	int r;

	t->seen = 0;
	for (;;) {
		while ((r = next(t, &en)) > 0)
			if (filter_match(&t->asked->filter, &en) && tail_put(t, &en) < 0)
				return -t->e->code;
		if (r < 0 || flush_to(STDOUT_FILENO, &t->out, true, t->e) < 0)
			return -t->e->code;
		r = tail_rest(t);
		if (r)
			return r < 0 ? r : 0;
	}
}

int audit_tail(const struct asked *a, struct err *e)
{
	char path[PATH_MAX];
	CLEANUP(fd) int dirfd = asked_open_dir(a, path, e);
	CLEANUP(fd) int notify = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
	struct tail t = { .asked = a,
			  .dirfd = dirfd,
			  .fd = -1,
			  .notify = notify,
			  .e = e,
			  .out = BUF_INIT(OUT_MAX) };
	int r;

	if (dirfd < 0)
		return -e->code;
	/* Without notices it still looks once a second. */
	if (notify >= 0)
		(void)inotify_add_watch(notify, path, IN_MODIFY | IN_CREATE | IN_MOVED_TO);
	export_begin(&t.exporter, a->format, &t.out);
	r = tail_count(&t);
	if (r == 0)
		r = show_newest(&t, path);
	if (r == 0)
		r = tail_follow(&t);
	t.lines = lines_free(t.lines);
	(void)fd_close(t.fd);
	buf_done(&t.out);
	return r;
}
