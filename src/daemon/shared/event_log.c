/* SPDX-License-Identifier: Apache-2.0 */
/* daemon/shared/event_log.c - see event_log.h.
 *
 * Segments of about 1 MiB, each named by the number of its first event; the oldest go. A line is
 *
 *	SEQ TAB TENANT TAB SANDBOX TAB TYPE TAB {the object of the API}
 *
 * in one write, and once more in the tenant's own log (tenants/NAME), which is like the first and
 * shorter: there it stays however much others write. Readers share one page of what was read last:
 *those who follow all stand at the same place. Written is not synced: a daemon that is killed loses
 *nothing, a machine without power may lose the last seconds. */
#include "daemon/shared/event_log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/bytes/json.h"
#include "base/files/fd.h"
#include "base/files/folder.h"
#include "base/files/tree.h"
#include "base/text/buf.h"
#include "base/text/num.h"
#include "base/text/str.h"

#define SEGMENT_MAX ((off_t)1 << 20)
#define SEGMENTS 64
#define TENANT_SEGMENTS 8
#define TENANTS "tenants"
#define TENANT_NAME 64
#define TENANTS_OPEN 32 /* logs of tenants that have descriptors at a time */
#define LINE_MAX_BYTES ((size_t)64 << 10)
#define PAGE ((size_t)128 << 10)

struct events_segment {
	uint64_t first;
	off_t size;
};

struct events {
	int dir, fd; /* fd: the last segment, -1: none */
	struct events_segment segments[SEGMENTS];
	size_t n, most;
	struct events *tenants, *next; /* logs of tenants, of the one that has all events */
	char tenant[TENANT_NAME];      /* whose it is; "": everybody's */
	uint64_t used; /* when it was, among them; of the first: how often any was */
	uint64_t lost; /* of a tenant's log: what is older may be missing; 0: nothing is */
	bool torn;     /* half a line stands behind the last segment's end */
	uint64_t last;
	struct events_listener *listeners;
	struct buf line;
	char type[64];
	uint64_t page_segment; /* 0: nothing is in the page */
	off_t page_at;
	size_t page_len;
	char page[PAGE];
};

static void segment_name(uint64_t first, char out[32])
{
	(void)snprintf(out, 32, "%020llu.log", (unsigned long long)first);
}

/* ---- opening ---- */

static int by_first(const void *a, const void *b)
{
	uint64_t x = ((const struct events_segment *)a)->first;
	uint64_t y = ((const struct events_segment *)b)->first;

	return x < y ? -1 : x > y;
}

static void drop_oldest(struct events *ev)
{
	char name[32];

	segment_name(ev->segments[0].first, name);
	(void)unlinkat(ev->dir, name, 0);
	memmove(ev->segments, ev->segments + 1, --ev->n * sizeof(*ev->segments));
	if (ev->n)
		ev->lost = ev->segments[0].first;
}

static bool parse_name(const char *name, uint64_t *first)
{
	char digits[21];

	if (strlen(name) != 24 || !str_eq(name + 20, ".log"))
		return false;
	memcpy(digits, name, 20);
	digits[20] = '\0';
	return num_count(digits, first) == 0 && *first > 0;
}

static int list_segments(struct events *ev, struct err *e)
{
	const struct fd_entry *at;
	struct folder f;
	struct stat st;
	uint64_t first;

	folder_begin(&f, ev->dir);
	while ((at = folder_next(&f))) {
		if (!parse_name(at->name, &first) ||
		    fstatat(ev->dir, at->name, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
		    !S_ISREG(st.st_mode))
			continue;
		if (ev->n == ev->most)
			return err_set(e, ERR_INTERNAL, EOVERFLOW, "too many files of events");
		ev->segments[ev->n++] = (struct events_segment){ first, st.st_size };
	}
	qsort(ev->segments, ev->n, sizeof(*ev->segments), by_first);
	return f.error ? err_errno(e, f.error, "cannot read the events") : 0;
}

/* The number at the front of a line, which ends in a tab. */
static uint64_t line_seq(const char *p, size_t n)
{
	uint64_t v = 0;
	size_t i = 0;

	for (; i < n && i < 19 && p[i] >= '0' && p[i] <= '9'; i++)
		v = v * 10 + (uint64_t)(p[i] - '0');
	return i && i < n && p[i] == '\t' ? v : 0;
}

/* Cuts off what has no line end, and finds the last number. */
static int mend_last(struct events *ev, struct err *e)
{
	struct events_segment *s = &ev->segments[ev->n - 1];
	size_t tail = s->size < (off_t)PAGE ? (size_t)s->size : PAGE;
	off_t from = s->size - (off_t)tail;
	const char *end, *start;
	char name[32];

	segment_name(s->first, name);
	ev->fd = openat(ev->dir, name, O_RDWR | O_APPEND | O_CLOEXEC | O_NOFOLLOW);
	if (ev->fd < 0 || pread(ev->fd, ev->page, tail, from) != (ssize_t)tail)
		return err_sys(e, "cannot read the events");
	ev->last = s->first - 1;
	end = tail ? memrchr(ev->page, '\n', tail) : NULL;
	s->size = end ? from + (end - ev->page) + 1 : from;
	if (ftruncate(ev->fd, s->size) < 0)
		return err_sys(e, "cannot mend the events");
	if (!end)
		return 0;
	start = memrchr(ev->page, '\n', (size_t)(end - ev->page));
	start = start ? start + 1 : ev->page;
	ev->last = line_seq(start, (size_t)(end - start));
	buf_add(&ev->line, start, (size_t)(end - start) + 1);
	return ev->last ? 0 : err_set(e, ERR_INTERNAL, EBADMSG, "the events are damaged");
}

static int event_log_open_folder(int above, const char *name, struct err *e)
{
	int fd;

	if (mkdirat(above, name, 0700) < 0 && errno != EEXIST)
		return err_sys(e, "cannot make a folder for events");
	fd = openat(above, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	return fd < 0 ? err_sys(e, "cannot open the folder of events") : fd;
}

/* One log: all events, or those of a tenant. */
static int open_log(int above, const char *name, size_t most, struct events **ret, struct err *e)
{
	CLEANUP(events) struct events *ev = calloc(1, sizeof(*ev));

	if (!ev)
		return err_nomem(e);
	ev->fd = -1;
	ev->most = most;
	ev->line = (struct buf)BUF_INIT(LINE_MAX_BYTES);
	ev->dir = event_log_open_folder(above, name, e);
	if (ev->dir < 0 || list_segments(ev, e) < 0 || (ev->n && mend_last(ev, e) < 0))
		return -e->code;
	if (ev->n == ev->most) /* only once there were more */
		ev->lost = ev->segments[0].first;
	*ret = TAKE_PTR(ev);
	return 0;
}

static struct events *find_log(const struct events *ev, const char *tenant)
{
	struct events *l = ev->tenants;

	while (l && !str_eq(l->tenant, tenant))
		l = l->next;
	return l;
}

/* There is a tenant for each project that brig mcp serves: only the logs used last are open. */
static void event_log_make_room(struct events *ev)
{
	struct events *idlest = NULL;
	size_t n = 0;

	for (struct events *l = ev->tenants; l; l = l->next)
		if (l->dir >= 0) {
			n++;
			idlest = !idlest || l->used < idlest->used ? l : idlest;
		}
	if (n < TENANTS_OPEN)
		return;
	idlest->dir = fd_close(idlest->dir);
	idlest->fd = fd_close(idlest->fd);
}

static int event_log_wake(struct events *ev, struct events *l)
{
	CLEANUP(fd) int folder = -1, dir = -1;
	char name[32];
	struct err e;

	l->used = ++ev->used;
	if (l->dir >= 0)
		return 0;
	event_log_make_room(ev);
	folder = event_log_open_folder(ev->dir, TENANTS, &e);
	dir = folder < 0 ? folder : event_log_open_folder(folder, l->tenant, &e);
	if (dir < 0)
		return -e.code;
	if (l->n) {
		segment_name(l->segments[l->n - 1].first, name);
		l->fd = openat(dir, name, O_RDWR | O_APPEND | O_CLOEXEC | O_NOFOLLOW);
		if (l->fd < 0)
			return -errno;
	}
	l->dir = TAKE_FD(dir);
	return 0;
}

/* NULL: it cannot be opened. */
static struct events *log_of(struct events *ev, const char *tenant)
{
	struct events *l = find_log(ev, tenant);
	CLEANUP(fd) int folder = -1;
	struct err e;

	if (l || strlen(tenant) >= TENANT_NAME || tenant[0] == '.' || strchr(tenant, '/'))
		return l;
	event_log_make_room(ev);
	folder = event_log_open_folder(ev->dir, TENANTS, &e);
	if (folder < 0 || open_log(folder, tenant, TENANT_SEGMENTS, &l, &e) < 0)
		return NULL;
	(void)snprintf(l->tenant, sizeof(l->tenant), "%s", tenant);
	l->used = ++ev->used;
	l->next = ev->tenants;
	ev->tenants = l;
	return l;
}

static int event_log_append(struct events *ev, const struct buf *line, uint64_t seq);

/* A daemon that was killed may have written the last line into the first log alone. */
static void mend_tenant(struct events *ev)
{
	const char *from = ev->line.len ? memchr(ev->line.data, '\t', ev->line.len) : NULL;
	const char *to =
		from ? memchr(from + 1, '\t', ev->line.len - (size_t)(from + 1 - ev->line.data))
		     : NULL;
	char tenant[TENANT_NAME];
	struct events *l;

	if (!to || to == from + 1 || (size_t)(to - from) > sizeof(tenant))
		return;
	(void)snprintf(tenant, sizeof(tenant), "%.*s", (int)(to - from - 1), from + 1);
	l = log_of(ev, tenant);
	if (l && l->last < ev->last && event_log_wake(ev, l) == 0)
		(void)event_log_append(l, &ev->line, ev->last);
}

static int open_tenants(struct events *ev, struct err *e)
{
	CLEANUP(fd) int folder = event_log_open_folder(ev->dir, TENANTS, e);
	const struct fd_entry *at;
	struct folder f;

	if (folder < 0)
		return -e->code;
	folder_begin(&f, folder);
	while ((at = folder_next(&f)))
		if (at->name[0] != '.' && !log_of(ev, at->name))
			return err_set(e, ERR_INTERNAL, EIO, "cannot read the events of '%.60s'",
				       at->name);
	for (const struct events *l = ev->tenants; l; l = l->next)
		if (l->last > ev->last)
			ev->last = l->last;
	return f.error ? err_errno(e, f.error, "cannot read the events") : 0;
}

int events_open(int state_dir, struct events **ret, struct err *e)
{
	CLEANUP(events) struct events *ev = NULL;

	if (open_log(state_dir, "events", SEGMENTS, &ev, e) < 0 || open_tenants(ev, e) < 0)
		return -e->code;
	mend_tenant(ev);
	*ret = TAKE_PTR(ev);
	return 0;
}

static void free_log(struct events *l)
{
	(void)fd_close(l->fd);
	(void)fd_close(l->dir);
	buf_done(&l->line);
	free(l);
}

/* Seconds since the last event; 0: it is not known. */
static uint64_t idle_of(int folder, const struct events *l)
{
	char path[TENANT_NAME + 40], name[32];
	time_t now = time(NULL);
	struct stat st;

	if (!l->n)
		return UINT64_MAX;
	segment_name(l->segments[l->n - 1].first, name);
	(void)snprintf(path, sizeof(path), "%s/%s", l->tenant, name);
	if (fstatat(folder, path, &st, AT_SYMLINK_NOFOLLOW) < 0 || st.st_mtime > now)
		return 0;
	return (uint64_t)(now - st.st_mtime);
}

void events_forget(struct events *ev, tenant_gone_fn *gone, void *arg)
{
	struct err e;
	CLEANUP(fd) int folder = event_log_open_folder(ev->dir, TENANTS, &e);
	struct events **at = &ev->tenants;

	while (folder >= 0 && *at) {
		struct events *l = *at;

		/* What cannot be removed is known further on, and tried again. */
		if (!gone(arg, l->tenant, idle_of(folder, l)) ||
		    tree_remove(folder, l->tenant) < 0) {
			at = &l->next;
			continue;
		}
		*at = l->next;
		free_log(l);
	}
}

struct events *events_free(struct events *ev)
{
	if (!ev)
		return NULL;
	while (ev->tenants) {
		struct events *l = ev->tenants;

		ev->tenants = l->next;
		free_log(l);
	}
	(void)fd_close(ev->fd);
	(void)fd_close(ev->dir);
	buf_done(&ev->line);
	free(ev);
	return NULL;
}

uint64_t events_last(const struct events *ev)
{
	return ev->last;
}

static uint64_t oldest(const struct events *ev)
{
	return ev->n && ev->last >= ev->segments[0].first ? ev->segments[0].first : ev->last + 1;
}

uint64_t events_oldest(const struct events *ev, const char *tenant)
{
	const struct events *l = *tenant ? find_log(ev, tenant) : ev;

	return !l || (*tenant && !l->lost) ? 1 : oldest(l);
}

/* ---- adding ---- */

static void event_log_put_time(struct json *j)
{
	struct timespec now;
	struct tm tm;
	char text[40], whole[48];

	(void)clock_gettime(CLOCK_REALTIME, &now);
	if (!gmtime_r(&now.tv_sec, &tm) || !strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%S", &tm))
		text[0] = '\0';
	(void)snprintf(whole, sizeof(whole), "%s.%03ldZ", text, now.tv_nsec / 1000000);
	json_kstr(j, "time", whole);
}

static void put_if(struct json *j, const char *key, const char *text)
{
	if (text)
		json_kstr(j, key, text);
}

static void event_log_put_line(struct events *ev, const struct event_note *n)
{
	struct buf *b = &ev->line;
	struct json j;

	b->len = 0;
	b->failed = false;
	buf_printf(b, "%llu\t%s\t%s\t%s\t", (unsigned long long)ev->last + 1, n->tenant,
		   n->sandbox ? n->sandbox : "", n->type);
	json_init(&j, b, false);
	json_object(&j);
	json_ku64(&j, "seq", ev->last + 1);
	event_log_put_time(&j);
	json_kstr(&j, "type", n->type);
	put_if(&j, "sandbox", n->sandbox);
	put_if(&j, "exec", n->exec);
	put_if(&j, "companion", n->companion);
	put_if(&j, "reason", n->reason);
	json_key(&j, "data");
	for (const char *p = n->data && *n->data ? n->data : "{}"; *p; p++)
		buf_putc(b, *p == '\n' ? ' ' : *p); /* between the values: a string has none */
	j.fresh = j.after_key = false;
	json_object_end(&j);
	buf_putc(b, '\n');
}

static int begin_segment(struct events *ev, uint64_t seq)
{
	char name[32];
	int fd;

	segment_name(seq, name);
	fd = openat(ev->dir, name, O_RDWR | O_APPEND | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW,
		    0600);
	if (fd < 0)
		return -errno;
	(void)fd_close(ev->fd);
	ev->fd = fd;
	ev->torn = false;
	if (ev->n == ev->most)
		drop_oldest(ev);
	ev->segments[ev->n++] = (struct events_segment){ .first = seq };
	return 0;
}

static int event_log_append(struct events *ev, const struct buf *line, uint64_t seq)
{
	struct events_segment *s;
	ssize_t w;

	if (!ev->n || ev->torn || ev->segments[ev->n - 1].size >= SEGMENT_MAX) {
		int r = begin_segment(ev, seq);

		if (r < 0)
			return r;
	}
	s = &ev->segments[ev->n - 1];
	w = write(ev->fd, line->data, line->len);
	if (w != (ssize_t)line->len) {
		ev->torn = w > 0 && ftruncate(ev->fd, s->size) < 0;
		return -EIO;
	}
	s->size += w;
	ev->last = seq;
	return 0;
}

/* What cannot be kept for a tenant is missing for it, which it will be told. */
static void add_for(struct events *ev, const char *tenant)
{
	struct events *l = log_of(ev, tenant);

	if (l && (event_log_wake(ev, l) < 0 || event_log_append(l, &ev->line, ev->last) < 0))
		l->lost = ev->last + 1;
}

uint64_t events_add(struct events *ev, const struct event_note *n)
{
	event_log_put_line(ev, n);
	if (ev->line.failed || event_log_append(ev, &ev->line, ev->last + 1) < 0)
		return 0;
	if (*n->tenant)
		add_for(ev, n->tenant);
	for (struct events_listener *l = ev->listeners, *next; l; l = next) {
		next = l->next;
		l->news(l);
	}
	return ev->last;
}

/* ---- reading ---- */

static const struct events_segment *segment_at(const struct events *ev, uint64_t first)
{
	for (size_t i = 0; i < ev->n; i++)
		if (ev->segments[i].first == first)
			return &ev->segments[i];
	return NULL;
}

static int load_page(struct events *ev, const struct events_segment *s, off_t at)
{
	char name[32];
	CLEANUP(fd) int fd = -1;
	size_t want = s->size - at < (off_t)PAGE ? (size_t)(s->size - at) : PAGE;
	ssize_t n;

	segment_name(s->first, name);
	ev->page_segment = 0;
	fd = openat(ev->dir, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0)
		return -errno;
	n = pread(fd, ev->page, want, at);
	if (n <= 0)
		return n < 0 ? -errno : -EBADMSG;
	ev->page_segment = s->first;
	ev->page_at = at;
	ev->page_len = (size_t)n;
	return 0;
}

/* The line that begins there, without its end. */
static int line_at(struct events *ev, const struct events_segment *s, off_t at, const char **line,
		   size_t *n)
{
	for (int again = 0; again < 2; again++) {
		bool in = ev->page_segment == s->first && at >= ev->page_at &&
			  at < ev->page_at + (off_t)ev->page_len;
		const char *p = in ? ev->page + (at - ev->page_at) : NULL;
		const char *end =
			in ? memchr(p, '\n', ev->page_len - (size_t)(p - ev->page)) : NULL;
		int r;

		if (end) {
			*line = p;
			*n = (size_t)(end - p);
			return 0;
		}
		r = again ? -EBADMSG : load_page(ev, s, at);
		if (r < 0)
			return r;
	}
	return -EBADMSG;
}

/* The segment that a reader stands in, or begins in. */
static int event_log_place(const struct events *ev, struct events_cursor *c,
			   const struct events_segment **s)
{
	if (c->seq + 1 < (ev->tenant[0] ? ev->lost : oldest(ev)))
		return -ESTALE;
	*s = c->segment ? segment_at(ev, c->segment) : NULL;
	if (*s && c->at >= (*s)->size && *s < &ev->segments[ev->n - 1]) {
		(*s)++;
		c->segment = (*s)->first;
		c->at = 0;
	}
	if (*s)
		return 0;
	for (size_t i = ev->n; i-- > 0;)
		if (ev->segments[i].first <= c->seq + 1) {
			*s = &ev->segments[i];
			c->segment = (*s)->first;
			c->at = 0;
			return 0;
		}
	if (!ev->tenant[0] || !ev->n)
		return -ESTALE;
	*s = &ev->segments[0]; /* it begins with a later one, and nothing was before */
	c->segment = (*s)->first;
	c->at = 0;
	return 0;
}

void events_end(const struct events *ev, const char *tenant, struct events_cursor *ret)
{
	const struct events *log;
	const struct events_segment *s;

	*ret = (struct events_cursor){ .seq = ev->last };
	log = *tenant ? find_log(ev, tenant) : ev;
	s = log && log->n ? &log->segments[log->n - 1] : NULL;
	if (s) {
		ret->segment = s->first;
		ret->at = s->size;
	}
}

/* Splits SEQ TAB TENANT TAB SANDBOX TAB TYPE TAB OBJECT; false: it is for somebody else. */
static bool event_log_take(struct events *ev, const char *p, size_t n, const char *tenant,
			   const char *sandbox, struct event_text *ret)
{
	const char *part[4], *end = p + n;
	size_t len[4];

	ret->seq = line_seq(p, n);
	for (size_t i = 0; i < 4; i++) {
		const char *tab = memchr(p, '\t', (size_t)(end - p));

		if (!tab)
			return false;
		part[i] = p;
		len[i] = (size_t)(tab - p);
		p = tab + 1;
	}
	if (*tenant && (strlen(tenant) != len[1] || memcmp(tenant, part[1], len[1]) != 0))
		return false;
	if (sandbox && (strlen(sandbox) != len[2] || memcmp(sandbox, part[2], len[2]) != 0))
		return false;
	if (len[3] >= sizeof(ev->type))
		return false;
	memcpy(ev->type, part[3], len[3]);
	ev->type[len[3]] = '\0';
	ret->type = ev->type;
	ret->json = p;
	ret->n = (size_t)(end - p);
	return true;
}

int events_next(struct events *ev, struct events_cursor *at, const char *tenant,
		const char *sandbox, struct event_text *ret)
{
	struct events *all = ev;

	if (*tenant && !(ev = find_log(all, tenant)))
		return 0;
	if (*tenant && at->seq < ev->last && event_log_wake(all, ev) < 0)
		return -EIO;
	while (at->seq < ev->last) {
		const struct events_segment *s;
		const char *line = NULL;
		size_t n = 0;
		int r = event_log_place(ev, at, &s);

		if (r == 0)
			r = line_at(ev, s, at->at, &line, &n);
		if (r < 0)
			return r;
		at->at += (off_t)n + 1;
		if (line_seq(line, n) <= at->seq)
			continue;
		at->seq = line_seq(line, n);
		if (event_log_take(ev, line, n, tenant, sandbox, ret))
			return 1;
	}
	return 0;
}

bool events_heard(const struct events *ev)
{
	return ev->listeners != NULL;
}

void events_listen(struct events *ev, struct events_listener *l)
{
	l->next = ev->listeners;
	l->link = &ev->listeners;
	if (l->next)
		l->next->link = &l->next;
	ev->listeners = l;
}

void events_unlisten(struct events_listener *l)
{
	if (!l->link)
		return;
	*l->link = l->next;
	if (l->next)
		l->next->link = l->link;
	l->link = NULL;
}
