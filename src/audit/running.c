/* SPDX-License-Identifier: Apache-2.0 */
#include "audit/running.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "audit/dir.h"
#include "base/sys/clock.h"
#include "base/text/num.h"
#include "base/text/str.h"

#define SLOTS_MAX 4096
#define SLOTS_FEW 96 /* as many fit on the stack */
#define LOOK_AT 8    /* used slots that a start tries, while it finds none of a dead owner */
#define ARGV0_MAX 64
#define WORD "run "

/* A slot as text: WORD, id, policy, backend, segment, offset and time of its beginning, argv0, a
 * tab, the agent. */
struct running_entry {
	char run[33], policy[17], backend[17], argv0[ARGV0_MAX + 1], agent[RUNNING_AGENT_MAX + 1];
	uint32_t segment;
	uint64_t offset, time_us;
};

static int lock_slot(int fd, uint64_t offset)
{
	struct flock f = { .l_type = F_WRLCK,
			   .l_whence = SEEK_SET,
			   .l_start = (off_t)offset,
			   .l_len = RUNNING_SLOT };

	return fcntl(fd, F_OFD_SETLK, &f) < 0 ? -errno : 0;
}

static void unlock_slot(int fd, uint64_t offset)
{
	struct flock f = { .l_type = F_UNLCK,
			   .l_whence = SEEK_SET,
			   .l_start = (off_t)offset,
			   .l_len = RUNNING_SLOT };

	(void)fcntl(fd, F_OFD_SETLK, &f);
}

static int clear_slot(int fd, uint64_t offset)
{
	char blank[RUNNING_SLOT];

	memset(blank, ' ', sizeof(blank));
	blank[RUNNING_SLOT - 1] = '\n';
	return pwrite(fd, blank, sizeof(blank), (off_t)offset) == RUNNING_SLOT ? 0 : -errno;
}

static const char *or_dash(const char *s)
{
	return s && *s ? s : "-";
}

static int fill_slot(int fd, uint64_t offset, const struct run_info *i, const struct head *h)
{
	char text[RUNNING_SLOT + 1];
	int n = snprintf(text, sizeof(text),
			 WORD "%.32s %.16s %.16s %" PRIu32 " %" PRIu64 " %" PRIu64 " %.*s",
			 or_dash(i->run), or_dash(i->policy), or_dash(i->backend), h->segment,
			 h->offset, clock_wall_us(), ARGV0_MAX, or_dash(i->argv0));

	for (int at = 0; at < n; at++)
		if (text[at] == '\n' || text[at] == '\t')
			text[at] = '?';
	n += snprintf(text + n, sizeof(text) - (size_t)n, "\t%.*s", RUNNING_AGENT_MAX,
		      i->agent ? i->agent : "");
	memset(text + n, ' ', (size_t)(RUNNING_SLOT - n));
	text[RUNNING_SLOT - 1] = '\n';
	return pwrite(fd, text, RUNNING_SLOT, (off_t)offset) == RUNNING_SLOT ? 0 : -errno;
}

/* The next word of *p, which must be shorter than n; an empty one when it is not. */
static void running_take_word(char **p, char *out, size_t n)
{
	size_t len = strcspn(*p, " ");

	(void)snprintf(out, n, "%.*s", len < n ? (int)len : 0, *p);
	*p += len + ((*p)[len] == ' ');
}

static bool take_number(char **p, uint64_t *ret)
{
	char word[24];

	running_take_word(p, word, sizeof(word));
	return num_count(word, ret) == 0;
}

static bool parse_slot(const char slot[RUNNING_SLOT], struct running_entry *t)
{
	char text[RUNNING_SLOT], *p = text + sizeof(WORD) - 1;
	size_t n = RUNNING_SLOT - 1;
	uint64_t segment;

	memcpy(text, slot, n);
	while (n && text[n - 1] == ' ')
		n--;
	text[n] = '\0';
	if (!str_starts(text, WORD))
		return false;
	running_take_word(&p, t->run, sizeof(t->run));
	running_take_word(&p, t->policy, sizeof(t->policy));
	running_take_word(&p, t->backend, sizeof(t->backend));
	if (strspn(t->run, "0123456789abcdef") != 32 || !take_number(&p, &segment) ||
	    segment > UINT32_MAX || !take_number(&p, &t->offset) || !take_number(&p, &t->time_us))
		return false;
	t->segment = (uint32_t)segment;
	n = strcspn(p, "\t");
	(void)snprintf(t->argv0, sizeof(t->argv0), "%.*s", (int)n, p);
	(void)snprintf(t->agent, sizeof(t->agent), "%s", p[n] ? p + n + 1 : "");
	return true;
}

/* --- has this run an end on the record? --- */

struct seen {
	bool create, exec;
};

static void look_in(int fd, uint64_t from, uint64_t to, const char *create, const char *exec,
		    struct seen *s)
{
	enum { CHUNK = 32 << 10, OVERLAP = 128 };
	char text[CHUNK];
	ssize_t n;

	while (from < to && (n = pread(fd, text, CHUNK, (off_t)from)) > 0) {
		s->create |= memmem(text, (size_t)n, create, strlen(create)) != NULL;
		s->exec |= memmem(text, (size_t)n, exec, strlen(exec)) != NULL;
		from += n > OVERLAP ? (uint64_t)n - OVERLAP : (uint64_t)n;
		if (n < CHUNK)
			break;
	}
}

static struct seen look_for(struct log *l, const struct running_entry *t)
{
	struct head h = log_head_locked(l);
	struct seen s = { 0 };
	char create[96], exec[96];
	uint64_t from = t->offset;

	(void)snprintf(create, sizeof(create), "\"type\":\"sandbox.create\",\"run\":\"%s\"",
		       t->run);
	(void)snprintf(exec, sizeof(exec), "\"type\":\"sandbox.exec\",\"run\":\"%s\"", t->run);
	for (uint32_t i = t->segment; i && i <= h.segment; i++, from = 0) {
		CLEANUP(fd) int fd = audit_segment_open(log_dirfd(l), i, O_RDONLY);
		off_t size = fd < 0 ? 0 : lseek(fd, 0, SEEK_END);

		if (fd < 0)
			continue;
		if ((uint64_t)size < from) /* retention has shortened it */
			from = 0;
		look_in(fd, from, (uint64_t)size, create, exec, &s);
	}
	return s;
}

static int put_crashed(struct log *l, const struct running_entry *t, const char *principal,
		       struct err *e)
{
	uint64_t now = clock_wall_us();
	struct record r;

	record_init(&r, EVENT_SANDBOX_EXEC);
	r.run = t->run;
	r.policy = t->policy[0] == '-' ? NULL : t->policy;
	r.principal = principal;
	r.agent = t->agent[0] ? t->agent : NULL;
	record_text(&r, "backend", t->backend);
	record_text(&r, "argv0", t->argv0);
	record_number(&r, "rc", 125);
	record_micros(&r, "duration_ms", now > t->time_us ? now - t->time_us : 0);
	record_text(&r, "outcome", "crashed");
	record_text(&r, "reason",
		    "brig ended before it recorded the end; found by a later start, so the "
		    "duration is a bound");
	return log_append_locked(l, &r, 1, e);
}

/* A slot whose owner is gone: locked by us, read again because the owner may have tidied up between
 * our look and our lock. */
static int bury(struct log *l, int fd, uint64_t offset, const char *principal, struct err *e)
{
	char slot[RUNNING_SLOT];
	struct running_entry t;
	struct seen s;

	if (pread(fd, slot, sizeof(slot), (off_t)offset) != RUNNING_SLOT || !parse_slot(slot, &t))
		return 0;
	s = look_for(l, &t);
	if (s.create && !s.exec && put_crashed(l, &t, principal, e) < 0)
		return -e->code;
	return clear_slot(fd, offset) < 0 ? err_sys(e, "cannot write '%.200s/running'", log_dir(l))
					  : 0;
}

static bool used(const char *slot)
{
	return memcmp(slot, WORD, sizeof(WORD) - 1) == 0;
}

/* Some slots of the file, as they were read. */
struct slots {
	char *text;
	size_t first, n; /* which ones */
	size_t all;      /* that the file has */
	char *own;       /* the text, if it is not on somebody's stack */
	char few[SLOTS_FEW * RUNNING_SLOT];
};

static void cleanup_slots(struct slots *s)
{
	free(s->own);
}

static uint64_t place_of(const struct slots *s, size_t at)
{
	return (uint64_t)(s->first + at) * RUNNING_SLOT;
}

static int read_slots(struct slots *s, int fd, size_t first, size_t n)
{
	ssize_t got = pread(fd, s->text, n * RUNNING_SLOT, (off_t)(first * RUNNING_SLOT));

	s->first = first;
	s->n = got > 0 ? (size_t)got / RUNNING_SLOT : 0;
	return got < 0 ? -errno : 0;
}

/* To read all of them would cost more with every run at once: so many, from where the clock points,
 * which is each as often as the others. */
static int read_few(struct slots *s, int fd)
{
	struct stat st;
	size_t at, last;

	if (fstat(fd, &st) < 0)
		return -errno;
	s->text = s->few;
	s->all = (size_t)st.st_size / RUNNING_SLOT;
	last = s->all > SLOTS_FEW ? s->all - SLOTS_FEW : 0;
	at = clock_wall_us() % (s->all + SLOTS_FEW);
	at = at > SLOTS_FEW ? at - SLOTS_FEW : 0;
	return read_slots(s, fd, at < last ? at : last, SLOTS_FEW);
}

static int read_all(struct slots *s, int fd)
{
	if (!s->own && !(s->own = malloc((size_t)SLOTS_MAX * RUNNING_SLOT)))
		return -ENOMEM;
	s->text = s->own;
	return read_slots(s, fd, 0, SLOTS_MAX);
}

/* Tries `left` used slots, and all of them once the owner of one is dead. 1: it was. */
static int bury_dead(struct log *l, int fd, struct slots *s, size_t left, const char *principal,
		     struct err *e)
{
	size_t at = s->n ? clock_wall_us() % s->n : 0;
	int found = 0;

	for (size_t i = 0; i < s->n && left; i++) {
		char *slot = s->text + at * RUNNING_SLOT;
		uint64_t offset = place_of(s, at);

		at = at + 1 < s->n ? at + 1 : 0;
		if (!used(slot))
			continue;
		left--;
		if (lock_slot(fd, offset) < 0)
			continue;
		if (bury(l, fd, offset, principal, e) < 0)
			return -e->code;
		unlock_slot(fd, offset);
		*slot = ' ';
		left = s->n;
		found = 1;
	}
	return found;
}

/* The first slot that nobody has, locked; UINT64_MAX: none. */
static uint64_t lock_free(int fd, const struct slots *s)
{
	for (size_t at = 0; at < s->n; at++)
		if (!used(s->text + at * RUNNING_SLOT) && lock_slot(fd, place_of(s, at)) == 0)
			return place_of(s, at);
	return UINT64_MAX;
}

/* Among those that were read, among the last, or behind all of them; when there can be no more,
 * among all. */
static int lock_one(struct slots *s, int fd, uint64_t *offset)
{
	int r = 0;

	*offset = lock_free(fd, s);
	if (*offset == UINT64_MAX && s->n < s->all) {
		r = s->all < SLOTS_MAX ? read_slots(s, fd, s->all - SLOTS_FEW, SLOTS_FEW)
				       : read_all(s, fd);
		*offset = r < 0 ? UINT64_MAX : lock_free(fd, s);
	}
	if (r < 0 || *offset != UINT64_MAX)
		return r;
	*offset = (uint64_t)s->all * RUNNING_SLOT;
	return s->all >= SLOTS_MAX ? -EUSERS : lock_slot(fd, *offset);
}

static int look_for_dead(struct log *l, int fd, struct slots *s, const char *principal,
			 struct err *e)
{
	int r = read_few(s, fd);

	if (r < 0)
		return err_errno(e, r, "cannot read '%.200s/running'", log_dir(l));
	r = bury_dead(l, fd, s, LOOK_AT, principal, e);
	if (r <= 0 || s->n == s->all)
		return r;
	r = read_all(s, fd);
	if (r < 0)
		return err_errno(e, r, "cannot read '%.200s/running'", log_dir(l));
	return bury_dead(l, fd, s, s->n, principal, e);
}

static int claim(struct log *l, int fd, const struct run_info *i, const char *principal,
		 uint64_t *offset, struct err *e)
{
	CLEANUP(slots) struct slots s = { .n = 0 };
	struct head h;
	int r = look_for_dead(l, fd, &s, principal, e);

	if (r >= 0) {
		r = lock_one(&s, fd, offset);
		if (r == -EUSERS)
			(void)err_set(e, ERR_UNAVAILABLE, EUSERS, "more than %d runs at once",
				      SLOTS_MAX);
		else if (r < 0)
			(void)err_errno(e, r, "cannot lock '%.200s/running'", log_dir(l));
	}
	if (r < 0)
		return -e->code;
	h = log_head_locked(l);
	r = fill_slot(fd, *offset, i, &h);
	return r < 0 ? err_errno(e, r, "cannot write '%.200s/running'", log_dir(l)) : 0;
}

int running_begin(struct log *l, const struct run_info *i, const char *principal,
		  struct running *ret, struct err *e)
{
	CLEANUP(fd) int fd = audit_file_open(log_dirfd(l), "running", O_RDWR | O_CREAT);

	if (fd < 0)
		return err_errno(e, fd, "cannot open '%.200s/running'", log_dir(l));
	if (claim(l, fd, i, principal, &ret->offset, e) < 0)
		return -e->code;
	ret->fd = TAKE_FD(fd);
	return 0;
}

void running_abandon(struct running *r)
{
	r->fd = fd_close(r->fd);
}

void running_end(struct running *r)
{
	if (r->fd < 0)
		return;
	(void)clear_slot(r->fd, r->offset);
	r->fd = fd_close(r->fd);
}

/* --- for readers --- */

static bool is_held(int fd, uint64_t offset)
{
	struct flock f = { .l_type = F_WRLCK,
			   .l_whence = SEEK_SET,
			   .l_start = (off_t)offset,
			   .l_len = RUNNING_SLOT };

	return fcntl(fd, F_OFD_GETLK, &f) == 0 && f.l_type != F_UNLCK;
}

size_t running_live(int dirfd, char (*ids)[33], size_t room)
{
	CLEANUP(fd) int fd = audit_file_open(dirfd, "running", O_RDONLY);
	char slot[RUNNING_SLOT];
	size_t n = 0;

	for (uint64_t at = 0; fd >= 0 && n < room && at < (uint64_t)SLOTS_MAX * RUNNING_SLOT;
	     at += RUNNING_SLOT) {
		struct running_entry t;

		if (pread(fd, slot, sizeof(slot), (off_t)at) != RUNNING_SLOT)
			break;
		if (used(slot) && parse_slot(slot, &t) && is_held(fd, at))
			memcpy(ids[n++], t.run, sizeof(t.run));
	}
	return n;
}
