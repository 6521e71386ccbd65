/* SPDX-License-Identifier: Apache-2.0 */
#include "audit/anchor.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "base/files/exposed.h"
#include "base/files/fd.h"
#include "base/text/cleanup.h"
#include "base/text/str.h"
#include "telemetry/send.h"

#define SYSLOG_SOCKET "/dev/log"
#define AUDIT_INFO "<110>" /* facility 13 (audit), severity 6 (info) */
#define WORD "brig-head "
#define SENDERS_WAIT_MS 2000
#define FILE_MAX ((off_t)1 << 30)

static bool is_address(const char *name)
{
	return str_starts_nocase(name, "https://") || str_starts_nocase(name, "http://");
}

static int to_file(const char *path, const char *line, size_t n, struct err *e)
{
	CLEANUP(fd) int fd = -1;
	int r;

	if (exposed_check("the file", path, NULL, EXPOSED_SHARED, e) < 0)
		return -e->code;
	fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY | O_NOFOLLOW, 0600);
	r = fd < 0 ? -errno : fd_write_all(fd, line, n);
	return r < 0 ? err_errno(e, r, "cannot write to '%.200s'", path) : 0;
}

static int to_syslog(const char *line, size_t n, struct err *e)
{
	struct sockaddr_un to = { .sun_family = AF_UNIX, .sun_path = SYSLOG_SOCKET };
	CLEANUP(fd) int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	char text[HEAD_SLOT + 32];
	int len = snprintf(text, sizeof(text), AUDIT_INFO "brig: %.*s", (int)(n - 1), line);

	if (fd < 0 || connect(fd, (const struct sockaddr *)&to, sizeof(to)) < 0 ||
	    send(fd, text, (size_t)len, MSG_NOSIGNAL) != len)
		return err_sys(e, "the system log at " SYSLOG_SOCKET " does not take it");
	return 0;
}

static int to_address(const char *url, const char *line, size_t n, struct err *e)
{
	static const char *const headers[] = { "Content-Type: text/plain", NULL };

	return send_detached(&(struct send){ .url = url,
					     .headers = headers,
					     .body = line,
					     .len = n,
					     .wait_ms = SENDERS_WAIT_MS },
			     e);
}

int anchor_send(const char *const *names, const struct head *h, const struct audit_key *k,
		struct err *e)
{
	char line[HEAD_SLOT];
	size_t n = HEAD_SLOT - 1;
	int r = 0;

	if (!names || !names[0])
		return 0;
	head_format(h, k, line);
	while (n && line[n - 1] == ' ')
		n--;
	line[n++] = '\n';
	for (; r == 0 && *names; names++) {
		if (is_address(*names))
			r = to_address(*names, line, n, e);
		else
			r = str_eq(*names, "syslog") ? to_syslog(line, n, e)
						     : to_file(*names, line, n, e);
		if (r == 0)
			continue;
		e->kind = ERR_UNAVAILABLE;
		r = err_wrap(e, "audit.anchor");
		if (!e->hint[0])
			(void)err_hint(e, "mend it, or take '%.150s' out of audit.anchor", *names);
	}
	return r;
}

/* --- reading them back --- */

struct anchor_lines {
	struct anchor_line *v;
	size_t n, room;
};

static int add_line(struct anchor_lines *l, const struct anchor_line *a)
{
	if (l->n == l->room) {
		size_t room = l->room ? 2 * l->room : 256;
		struct anchor_line *more = realloc(l->v, room * sizeof(*more));

		if (!more)
			return -ENOMEM;
		l->v = more;
		l->room = room;
	}
	l->v[l->n++] = *a;
	return 0;
}

static int anchor_read_whole(const char *path, char **ret, size_t *n, struct err *e)
{
	CLEANUP(fd) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	CLEANUP(mem) char *text = NULL;
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0)
		return err_sys(e, "cannot open the anchor '%.200s'", path);
	if (!S_ISREG(st.st_mode) || st.st_size > FILE_MAX)
		return err_set(e, ERR_USAGE, EFBIG, "the anchor '%.200s' is not a file of lines",
			       path);
	text = malloc((size_t)st.st_size + 1);
	if (!text)
		return err_nomem(e);
	for (*n = 0; *n < (size_t)st.st_size;) {
		ssize_t got = pread(fd, text + *n, (size_t)st.st_size - *n, (off_t)*n);

		if (got < 0)
			return err_sys(e, "cannot read the anchor '%.200s'", path);
		if (got == 0)
			break;
		*n += (size_t)got;
	}
	*ret = TAKE_PTR(text);
	return 0;
}

static int anchor_take_lines(const char *text, size_t n, const struct audit_key *k, unsigned source,
			     struct verify_anchor *about, struct anchor_lines *out)
{
	struct anchor_line a = { .source = source };

	for (const char *p = text, *end = text + n; p < end; a.line++) {
		const char *stop = memchr(p, '\n', (size_t)(end - p)), *at;

		stop = stop ? stop : end;
		at = memmem(p, (size_t)(stop - p), WORD, sizeof(WORD) - 1);
		p = stop + 1;
		if (!at)
			continue;
		while (stop > at && (stop[-1] == ' ' || stop[-1] == '\r'))
			stop--;
		if (head_parse_line(at, (size_t)(stop - at), k, &a.head) < 0) {
			about->ignored++;
			continue;
		}
		about->lines++;
		if (a.head.seq > about->seq)
			about->seq = a.head.seq;
		a.line++;
		if (add_line(out, &a) < 0)
			return -ENOMEM;
		a.line--;
	}
	return 0;
}

static int by_seq(const void *a, const void *b)
{
	const struct anchor_line *x = a, *y = b;

	return (x->head.seq > y->head.seq) - (x->head.seq < y->head.seq);
}

int anchor_read(const char *const *files, const struct audit_key *k, struct verify_anchor *about,
		unsigned *count, struct anchor_line **ret, size_t *n, struct err *e)
{
	struct anchor_lines l = { 0 };
	int r = 0;

	for (*count = 0; files && files[*count] && r == 0; (*count)++) {
		CLEANUP(mem) char *text = NULL;
		size_t len = 0;

		if (*count == VERIFY_ANCHORS_MAX) {
			r = err_set(e, ERR_USAGE, E2BIG, "more than %d anchors",
				    VERIFY_ANCHORS_MAX);
			break;
		}
		(void)snprintf(about[*count].name, sizeof(about->name), "%.127s", files[*count]);
		r = anchor_read_whole(files[*count], &text, &len, e);
		if (r == 0 && anchor_take_lines(text, len, k, *count, &about[*count], &l) < 0)
			r = err_nomem(e);
	}
	if (r < 0) {
		free(l.v);
		return r;
	}
	if (l.n)
		qsort(l.v, l.n, sizeof(*l.v), by_seq);
	*ret = l.v;
	*n = l.n;
	return 0;
}
