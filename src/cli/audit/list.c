/* SPDX-License-Identifier: Apache-2.0 */
/* cli/audit/list.c - "list", "security-events", "export" and "show". */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "audit/read/story.h"
#include "base/files/fd.h"
#include "base/files/output.h"
#include "base/text/str.h"
#include "cli/audit/asked.h"
#include "cli/cli.h"

#define OUT_MAX ((size_t)16 << 20)
#define OUT_FLUSH ((size_t)64 << 10)

int flush_to(int fd, struct buf *b, bool all, struct err *e)
{
	int r;

	if (b->failed)
		return err_nomem(e);
	if (!b->len || (!all && b->len < OUT_FLUSH))
		return 0;
	r = fd_write_all(fd, b->data, b->len);
	b->len = 0;
	return r < 0 ? err_errno(e, r, "cannot write what was found") : 0;
}

struct list_sink {
	int fd;
	struct buf out;
	struct exporter exporter;
	struct story story;
	struct err *e;
};

static int list_put_entry(void *data, const struct entry *en)
{
	struct list_sink *s = data;

	export_entry(&s->exporter, en);
	return flush_to(s->fd, &s->out, false, s->e);
}

static int tell_entry(void *data, const struct entry *en)
{
	struct list_sink *s = data;

	story_entry(&s->story, en);
	return flush_to(s->fd, &s->out, false, s->e);
}

int asked_query(const struct asked *a, int *dirfd, struct query **q, struct err *e)
{
	char path[PATH_MAX];

	*dirfd = asked_open_dir(a, path, e);
	if (*dirfd < 0)
		return *dirfd;
	return query_open(*dirfd, path, !a->no_index, q, e);
}

/* Without the index it works, and takes longer: that is worth a word when somebody waits for it. */
static void say_unindexed(const struct asked *a, const struct query *q)
{
	const char *why = q && !a->no_index ? query_unindexed(q) : NULL;

	if (why && isatty(STDERR_FILENO))
		message_print("brig: note", why);
}

static int write_found(const struct asked *a, struct query *q, struct list_sink *s, struct err *e)
{
	int r = 0;

	export_begin(&s->exporter, a->format, &s->out);
	s->exporter.terminal = isatty(s->fd);
	if (q)
		r = query_run(q, &a->filter, list_put_entry, s, e);
	if (r < 0)
		return r;
	export_end(&s->exporter);
	return flush_to(s->fd, &s->out, true, e);
}

int audit_list(const struct asked *a, struct err *e)
{
	CLEANUP(fd) int dirfd = -1;
	CLEANUP(query) struct query *q = NULL;
	struct output to = { .fd = -1, .folder = -1 };
	struct list_sink s = { .fd = STDOUT_FILENO, .out = BUF_INIT(OUT_MAX), .e = e };
	int r = asked_query(a, &dirfd, &q, e);

	if (r < 0 && (r != -ENOENT || a->dir))
		return r;
	err_clear(e);
	if (a->output) {
		if (output_open(a->output, 0600, &to, e) < 0)
			return -e->code;
		s.fd = to.fd;
	}
	say_unindexed(a, q);
	r = write_found(a, q, &s, e);
	if (r == 0 && a->output)
		r = output_keep(&to, e);
	output_drop(&to);
	if (r == 0 && !s.exporter.some && a->format == FORMAT_TEXT && !a->output)
		message_print("brig: note", q ? "no record matches" : "there is no record yet");
	buf_done(&s.out);
	return r;
}

static int list_tell(struct query *q, const struct filter *f, struct list_sink *s, struct err *e)
{
	int r;

	story_begin(&s->story, &s->out);
	r = query_run(q, f, tell_entry, s, e);
	story_end(&s->story);
	return r < 0 ? r : flush_to(s->fd, &s->out, true, e);
}

int audit_show(const struct asked *a, struct err *e)
{
	CLEANUP(fd) int dirfd = -1;
	CLEANUP(query) struct query *q = NULL;
	struct list_sink s = { .fd = STDOUT_FILENO, .out = BUF_INIT(OUT_MAX), .e = e };
	struct asked all = *a;
	char id[33];
	int r;

	if (asked_query(a, &dirfd, &q, e) < 0 || query_resolve_run(q, a->word, id, e) < 0)
		return -e->code;
	all.filter.run = id;
	r = a->format == FORMAT_TEXT ? list_tell(q, &all.filter, &s, e)
				     : write_found(&all, q, &s, e);
	buf_done(&s.out);
	return r;
}
