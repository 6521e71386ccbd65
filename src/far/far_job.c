/* SPDX-License-Identifier: Apache-2.0 */
#include "far/far_job.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/bytes/jread.h"
#include "base/sys/clock.h"
#include "base/sys/signals.h"

#define FACTS_MAX ((size_t)1 << 20)
#define REPORTS_MAX ((size_t)2 * FAR_REPORT_MAX) /* of all that are open */

enum { FAR_NAME_ROOM = 128 };

/* A command, or in the first place the sandbox. */
struct far_word {
	bool used, began, ended, told;
	uint32_t number;
	int news;
	struct buf report;
};

struct far_job {
	struct frames *frames;
	uint64_t heard;
	size_t reports; /* bytes of all of them */
	bool ready;
	int over;
	char host[FAR_NAME_ROOM], job[FAR_NAME_ROOM];
	struct buf facts;
	struct far_word all[COMMANDS_MAX + 1];
};

static const struct far_word *find(const struct far_job *j, uint32_t number)
{
	for (size_t i = 0; i < ARRAY_LEN(j->all); i++)
		if (j->all[i].used && j->all[i].number == number)
			return &j->all[i];
	return NULL;
}

/* ---- what the other side says ---- */

/* One word, which may stand in a message. */
static void copy_word(const struct jread *v, const char *key, char out[FAR_NAME_ROOM])
{
	const char *text = jread_str(v, key);
	size_t n = 0;

	for (; text && *text && n + 1 < FAR_NAME_ROOM; text++)
		if (*text > ' ' && *text < 127 && *text != '\'')
			out[n++] = *text;
	out[n] = '\0';
}

static int on_ready(struct far_job *j, const void *p, size_t n)
{
	CLEANUP(jread) struct jread *v = NULL;
	struct err unused = { 0 };

	if (j->ready || jread_parse(p, n, &v, &unused) < 0)
		return -EPROTO;
	copy_word(v, "host", j->host);
	copy_word(v, "job", j->job);
	j->ready = true;
	return 0;
}

static int on_report(struct far_job *j, struct far_word *k, const void *p, size_t n)
{
	if (k->ended || n > REPORTS_MAX - j->reports)
		return -EPROTO;
	j->reports += n;
	buf_add(&k->report, p, n);
	return k->report.failed ? -EPROTO : 0;
}

/* What was said of a sandbox so far is what it is like. */
static int on_began(struct far_job *j, struct far_word *k)
{
	if (k->began || k->ended)
		return -EPROTO;
	k->began = true;
	if (k->number)
		return 0;
	buf_add(&j->facts, k->report.data, k->report.len);
	j->reports -= k->report.len;
	buf_done(&k->report);
	return j->facts.failed ? -EPROTO : 0;
}

static int far_job_hear(void *arg, const struct frames_head *h, const void *payload)
{
	struct far_job *j = arg;
	struct far_word *k = (struct far_word *)(uintptr_t)find(j, h->command);

	j->heard = clock_us();
	switch (h->kind) {
	case FRAMES_READY:
		return on_ready(j, payload, h->size);
	case FRAMES_PING:
		return 0;
	case FRAMES_REPORT: /* of one that was left, it is dropped */
		return k ? on_report(j, k, payload, h->size) : 0;
	case FRAMES_BEGAN:
		return k ? on_began(j, k) : 0;
	case FRAMES_ENDED:
		if (k)
			k->ended = true;
		return 0;
	default:
		return -EPROTO;
	}
}

/* ---- the line ---- */

int far_job_new(const struct frames_line *l, struct far_job **ret, struct err *e)
{
	struct far_job *j = calloc(1, sizeof(*j));

	if (!j)
		return err_nomem(e);
	j->heard = clock_us();
	j->facts = (struct buf)BUF_INIT(FACTS_MAX);
	for (size_t i = 0; i < ARRAY_LEN(j->all); i++)
		j->all[i] =
			(struct far_word){ .news = -1, .report = BUF_INIT((size_t)FAR_REPORT_MAX) };
	j->frames = frames_on(l, far_job_hear, j);
	if (!j->frames) {
		free(j);
		return err_nomem(e);
	}
	*ret = j;
	return 0;
}

static void far_job_forget(struct far_job *j, struct far_word *k)
{
	struct frames_command *c = frames_find(j->frames, k->number);

	if (c)
		frames_end(c);
	j->reports -= k->report.len;
	buf_done(&k->report);
	(void)fd_close(k->news);
	*k = (struct far_word){ .news = -1, .report = BUF_INIT((size_t)FAR_REPORT_MAX) };
}

struct far_job *far_job_free(struct far_job *j)
{
	for (size_t i = 0; j && i < ARRAY_LEN(j->all); i++)
		if (j->all[i].used)
			far_job_forget(j, &j->all[i]);
	if (j) {
		(void)frames_free(j->frames);
		buf_done(&j->facts);
	}
	free(j);
	return NULL;
}

struct frames *far_job_frames(struct far_job *j)
{
	return j->frames;
}

/* ---- commands ---- */

static int far_job_open(struct far_job *j, uint32_t number, int *in, int *out, int *err)
{
	const struct {
		int *fd;
		bool sends;
	} ends[FRAMES_CHANNELS] = { { out, false }, { err, false }, { in, true } };
	struct frames_command *c = frames_begin(j->frames, number);

	if (!c)
		return -EAGAIN;
	for (size_t i = 0; i < FRAMES_CHANNELS; i++) {
		int fd = *ends[i].fd, r;

		*ends[i].fd = -1;
		r = fd < 0 ? 0 : frames_open(c, i, fd, ends[i].sends);
		if (r < 0)
			return r;
	}
	return 0;
}

int far_job_add(struct far_job *j, uint32_t number, int in, int out, int err, struct err *e)
{
	CLEANUP(fd) int own_in = in, own_out = out, own_err = err;
	struct far_word *k = NULL;
	int r = 0;

	for (size_t i = number ? 1 : 0; i < ARRAY_LEN(j->all) && !k; i++)
		if (!j->all[i].used)
			k = &j->all[i];
	if (!k || find(j, number))
		return err_refuse(e, ERR_POLICY, EAGAIN, "end one first",
				  "a sandbox has at most %d commands at a time", COMMANDS_MAX);
	k->used = true;
	k->number = number;
	k->news = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (k->news < 0)
		r = -errno;
	if (r == 0 && number)
		r = far_job_open(j, number, &own_in, &own_out, &own_err);
	if (r == 0)
		return 0;
	far_job_forget(j, k);
	return err_errno(e, r, "cannot carry the command's streams");
}

int far_job_exec(struct far_job *j, uint32_t number, const struct far_exec *x, struct err *e)
{
	const struct frames_command *c = frames_find(j->frames, number);
	CLEANUP(buf) struct buf order = BUF_INIT((size_t)ORDER_MAX);
	struct frames_exec q = { .channels = FRAMES_CHANNELS,
				 .inwards = c && c->channels[2].w.fd >= 0 ? 1U << 2 : 0,
				 .tty = x->tty,
				 .rows = x->rows,
				 .cols = x->cols,
				 .timeout = x->timeout };
	int r;

	if (order_write(x->order, &order, e) < 0)
		return -e->code;
	r = c ? frames_say_all(j->frames, FRAMES_ORDER, number, order.data, order.len) : -ESRCH;
	if (r == 0)
		r = frames_say(j->frames, FRAMES_EXEC, number, &q, sizeof(q));
	return r < 0 ? err_errno(e, r, "cannot bring the command there") : 0;
}

void far_job_leave(struct far_job *j, uint32_t number)
{
	struct far_word *k = (struct far_word *)(uintptr_t)find(j, number);

	if (k)
		far_job_forget(j, k);
}

void far_job_signal(struct far_job *j, uint32_t number, int sig)
{
	const uint32_t v = (uint32_t)sig;

	(void)frames_say(j->frames, FRAMES_SIGNAL, number, &v, sizeof(v));
}

void far_job_resize(struct far_job *j, uint32_t number, unsigned short rows, unsigned short cols)
{
	const uint16_t both[] = { rows, cols };

	(void)frames_say(j->frames, FRAMES_RESIZE, number, both, sizeof(both));
}

void far_job_ping(struct far_job *j)
{
	(void)frames_say(j->frames, FRAMES_PING, 0, NULL, 0);
}

/* ---- turning ---- */

int far_job_turn(struct far_job *j)
{
	const uint64_t one = 1;
	sigset_t before;

	signals_hold_pipe(&before);
	j->over = frames_turn(j->frames, NULL, 0);
	signals_release_pipe(&before);
	for (size_t i = 0; i < ARRAY_LEN(j->all); i++) {
		struct far_word *k = &j->all[i];

		if (!k->used || k->told || (!far_job_ended(j, k->number) && !j->over))
			continue;
		k->told = true;
		(void)!write(k->news, &one, sizeof(one));
	}
	return j->over;
}

/* ---- what was said ---- */

bool far_job_ready(const struct far_job *j, const char **host, const char **job)
{
	if (host)
		*host = j->host;
	if (job)
		*job = j->job;
	return j->ready;
}

bool far_job_began(const struct far_job *j, uint32_t number)
{
	const struct far_word *k = find(j, number);

	return k && k->began;
}

bool far_job_ended(const struct far_job *j, uint32_t number)
{
	const struct far_word *k = find(j, number);
	const struct frames_command *c = number ? frames_find(j->frames, number) : NULL;

	return k && k->ended && (!c || frames_flushed(c));
}

bool far_job_waits(const struct far_job *j)
{
	for (size_t i = 0; i < ARRAY_LEN(j->all); i++) {
		const struct frames_command *c = j->all[i].used && j->all[i].number
							 ? frames_find(j->frames, j->all[i].number)
							 : NULL;

		if (c && !frames_flushed(c))
			return true;
	}
	return false;
}

const struct buf *far_job_report(const struct far_job *j, uint32_t number)
{
	const struct far_word *k = find(j, number);

	return k && k->ended ? &k->report : NULL;
}

const struct buf *far_job_facts(const struct far_job *j)
{
	const struct far_word *k = find(j, 0);

	return k && k->began ? &j->facts : NULL;
}

int far_job_news(const struct far_job *j, uint32_t number)
{
	const struct far_word *k = find(j, number);

	return k ? k->news : -1;
}

uint64_t far_job_heard(const struct far_job *j)
{
	return j->heard;
}
