/* SPDX-License-Identifier: Apache-2.0 */
/* daemon/monitor/monitor_tasks.c - the commands of a monitor's sandbox, and what is kept of them.
 *
 * Whatever a command writes is in its file before anybody hears of it. All files together have a
 * bound: those of the oldest commands that have ended make room, and where there is none left,
 * what comes is counted and dropped. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>

#include "audit/record.h"
#include "base/bytes/json.h"
#include "base/files/fd.h"
#include "base/files/folder.h"
#include "base/sys/clock.h"
#include "daemon/monitor/monitor_internal.h"
#include "daemon/shared/sandbox_id.h"
#include "proc/order.h"
#include "sandbox/manager.h"

#define KEPT_BYTES_MAX ((uint64_t)64 << 20)
#define BEGIN_JSON_MAX ((size_t)256 << 10)
#define HUSH_US 2000

struct monitor_task *task_find(struct monitor *m, const char *id)
{
	struct monitor_task *t = m->tasks;

	while (t && strcmp(t->id, id) != 0)
		t = t->next;
	return t && task_runs(t) ? t : NULL;
}

bool task_runs(const struct monitor_task *t)
{
	return t->run || t->call;
}

void task_news(struct monitor_task *t, enum task_news what)
{
	for (size_t i = 0; i < MONITOR_CLIENTS; i++)
		if (t->m->clients[i].w.fd >= 0)
			t->news[i] |= (unsigned char)what;
}

/* ---- room ---- */

static void forget_oldest(struct monitor *m)
{
	const struct monitor_past *p = &m->past[m->past_first];

	(void)unlinkat(m->execs, p->id, 0);
	m->kept_bytes -= p->size;
	m->past_first = (m->past_first + 1) % MONITOR_PAST;
	m->past_count--;
}

static void monitor_tasks_remember(struct monitor *m, const char *id, uint64_t size,
				   uint32_t number)
{
	struct monitor_past *p;

	if (m->past_count == MONITOR_PAST)
		forget_oldest(m);
	p = &m->past[(m->past_first + m->past_count++) % MONITOR_PAST];
	(void)snprintf(p->id, sizeof(p->id), "%s", id);
	p->size = size;
	p->number = number;
}

/* Room for the next one is made once everybody has been told of the last: nobody waits for it. */
void tasks_trim(struct monitor *m)
{
	if (m->past_count == MONITOR_PAST)
		forget_oldest(m);
}

static bool has_room(struct monitor *m, size_t n)
{
	while (m->kept_bytes + n > KEPT_BYTES_MAX && m->past_count)
		forget_oldest(m);
	return m->kept_bytes + n <= KEPT_BYTES_MAX;
}

void task_keep(struct monitor_task *t, enum kept_kind kind, const void *p, size_t n)
{
	uint64_t before = t->kept.size;

	/* How it ended is always kept. */
	if ((kind != KEPT_END && !has_room(t->m, n)) || kept_add(&t->kept, kind, p, n) < 0)
		t->lost = true;
	else if (kind == KEPT_OUTPUT || kind == KEPT_ERRORS ||
		 kind == KEPT_SHOWN) /* the others have words of their own */
		task_news(t, NEWS_GREW);
	t->m->kept_bytes += t->kept.size - before;
}

static void monitor_tasks_on_output(void *arg, int stream, const char *data, size_t n)
{
	task_keep(arg, stream == 2 ? KEPT_ERRORS : KEPT_OUTPUT, data, n);
}

static int by_id(const void *a, const void *b)
{
	return strcmp(((const struct monitor_past *)a)->id, ((const struct monitor_past *)b)->id);
}

/* Those that an earlier monitor of this sandbox has left. */
static void find_past(struct monitor *m)
{
	struct folder f;
	const struct fd_entry *d;
	struct stat st;

	folder_begin(&f, m->execs);
	while ((d = folder_next(&f))) {
		if (!id_is(EXEC_ID, d->name) || m->past_count == MONITOR_PAST ||
		    fstatat(m->execs, d->name, &st, AT_SYMLINK_NOFOLLOW) < 0)
			continue;
		monitor_tasks_remember(m, d->name, (uint64_t)st.st_size, 0);
		m->kept_bytes += (uint64_t)st.st_size;
	}
	qsort(m->past, m->past_count, sizeof(m->past[0]), by_id);
}

int tasks_open(struct monitor *m, struct err *e)
{
	if (mkdirat(m->folder, MONITOR_EXECS, 0700) < 0 && errno != EEXIST)
		return err_sys(e, "cannot make a folder for commands");
	m->execs =
		openat(m->folder, MONITOR_EXECS, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (m->execs < 0)
		return err_sys(e, "cannot open the folder of commands");
	find_past(m);
	return 0;
}

/* ---- the end of one ---- */

static void keep_end(struct monitor_task *t, brig_result *r)
{
	CLEANUP(buf) struct buf b = BUF_INIT(KEPT_FRAME_MAX);
	struct json j;

	json_init(&j, &b, false);
	if (r)
		outcome_json(result_outcome(r), &j);
	(void)snprintf(t->outcome, sizeof(t->outcome), "%s", r ? brig_result_outcome(r) : "failed");
	t->status = r ? brig_result_exit_code(r) : 125;
	if (!r || b.failed)
		task_keep(t, KEPT_END, "{}", 2);
	else
		task_keep(t, KEPT_END, b.data, b.len);
	brig_result_free(r);
	task_news(t, NEWS_DONE);
}

static void monitor_tasks_let_go(struct monitor_task *t)
{
	brig_request_free(t->request);
	t->request = NULL;
	free(t->denied);
	t->denied = NULL;
	t->read_end = fd_close(t->read_end);
	t->input = fd_close(t->input);
	if (t->kept.fd >= 0)
		monitor_tasks_remember(t->m, t->id, t->kept.size, t->number);
	kept_close(&t->kept);
}

/* The door and the names are the sandbox's: what it was denied meanwhile was this one's, or that of
 * another command that ran beside it. What stands under a protected name is found at its end. */
static void tell_denied(struct monitor_task *t, brig_result *r)
{
	brig_result *box = NULL;

	if (t->last)
		box = monitor_end(t->m, "stopped");
	if (r && box)
		outcome_ends_with(result_outcome(r), result_outcome(box), t->denied);
	else if (r && t->m->sandbox)
		outcome_deny_since(result_outcome(r), sandbox_facts(t->m->sandbox), t->denied);
	brig_result_free(box);
}

void task_finish(struct monitor_task *t)
{
	brig_result *r = NULL;
	struct brig_error unused;

	(void)loop_want(t->m->loop, &t->w, 0);
	t->number = run_handle_number(t->run);
	(void)brig_run_finish(t->run, &r, &unused);
	t->run = NULL;
	task_over(t, r);
}

void task_over(struct monitor_task *t, brig_result *r)
{
	t->m->running--;
	if (r && t->lost)
		result_outcome(r)->out.truncated = result_outcome(r)->err.truncated = true;
	tell_denied(t, r);
	if (r && !t->last && t->m->stage == MONITOR_IS_STOPPING)
		monitor_left(t->m, result_outcome(r));
	keep_end(t, r);
	monitor_tasks_let_go(t);
	if (t->last)
		monitor_close(t->m);
	else
		monitor_rest(t->m);
}

void tasks_forget(struct monitor *m)
{
	struct monitor_task **at = &m->tasks;

	while (*at) {
		struct monitor_task *t = *at;
		bool told = !task_runs(t);

		for (size_t i = 0; told && i < MONITOR_CLIENTS; i++)
			told = !t->news[i];
		if (!told) {
			at = &t->next;
			continue;
		}
		*at = t->next;
		free(t);
	}
}

void task_end_rest(struct monitor *m, const char *id)
{
	for (size_t i = 0; m->sandbox && i < m->past_count; i++) {
		const struct monitor_past *p = &m->past[(m->past_first + i) % MONITOR_PAST];

		if (strcmp(p->id, id) == 0)
			sandbox_end_command(m->sandbox, p->number);
	}
}

static void monitor_tasks_on_ready(struct loop_watch *w, uint32_t events UNUSED)
{
	struct monitor_task *t = (struct monitor_task *)w;

	if (!brig_run_dispatch(t->run))
		task_finish(t);
}

/* ---- the beginning ---- */

static void keep_begin(struct monitor_task *t, const struct order *o, const struct monitor_ask *q)
{
	CLEANUP(buf) struct buf b = BUF_INIT(BEGIN_JSON_MAX);
	char when[RECORD_TIME_SIZE];
	struct json j;

	record_time(clock_wall_us(), when);
	json_init(&j, &b, false);
	json_object(&j);
	json_kstr(&j, "started", when);
	if (q->asks == MONITOR_CODE)
		json_kstr(&j, "context", o->argv[0]);
	else
		json_kstrs(&j, "argv", o->argv);
	json_kstr(&j, "cwd", *o->cwd ? o->cwd : NULL);
	json_kbool(&j, "tty", q->tty);
	json_object_end(&j);
	if (b.failed) /* too long to be shown; it runs nevertheless */
		task_keep(t, KEPT_BEGIN, "{}", 2);
	else
		task_keep(t, KEPT_BEGIN, b.data, b.len);
}

static int set_limits(brig_request *c, const struct monitor_ask *q, struct brig_error *e)
{
	const struct brig_limits l = { .timeout_ms = q->timeout, .max_output_bytes = q->output };

	return brig_request_limits(c, &l, e);
}

static int monitor_tasks_fill(struct monitor_task *t, const struct order *o,
			      const struct monitor_ask *q, struct brig_error *e)
{
	brig_request *c = t->request;

	if (request_order(c, o, e) < 0 || set_limits(c, q, e) < 0)
		return -e->errnum;
	brig_request_stdio(c, t->read_end, -1, -1);
	brig_request_on_output(c, monitor_tasks_on_output, t);
	request_tell(c);
	if (q->tty)
		request_terminal(c, q->rows, q->cols);
	return 0;
}

static brig_result *monitor_tasks_refused(const struct brig_error *e)
{
	struct outcome *o = outcome_new();
	brig_result *r = o ? result_new(o) : NULL;

	if (!o)
		return NULL;
	o->kind = OUTCOME_REFUSED;
	error_import(e, &o->error);
	if (!r)
		(void)outcome_free(o);
	return r;
}

static int begin_call(struct monitor_task *t, const struct order *o, const struct monitor_ask *q,
		      struct brig_error *e)
{
	const struct command_limits limits = sandbox_limits(t->m->sandbox, t->request);
	struct err own = { 0 };

	if (contexts_call(t, o, q->value, &limits, &own) < 0) {
		error_export(&own, e);
		return -1;
	}
	t->m->running++;
	return 0;
}

/* 1: it runs, and cannot be followed. */
static int monitor_tasks_begin(struct monitor_task *t, const struct order *o,
			       const struct monitor_ask *q, struct brig_error *e)
{
	struct monitor *m = t->m;

	t->request = brig_sandbox_command(m->sandbox);
	if (t->request && q->asks == MONITOR_CODE)
		return set_limits(t->request, q, e) < 0 ? -1 : begin_call(t, o, q, e);
	if (!t->request || monitor_tasks_fill(t, o, q, e) < 0)
		return -1;
	if (brig_sandbox_exec(m->sandbox, t->request, &t->run, e) < 0)
		return -1;
	m->running++;
	t->w = (struct loop_watch){ .fd = brig_run_fd(t->run), .ready = monitor_tasks_on_ready };
	if (t->w.fd >= 0 && loop_want(m->loop, &t->w, EPOLLIN) == 0)
		return 0;
	brig_request_cancel(t->request); /* nobody would hear of it */
	return 1;
}

/* Its texts are in *data. */
static int read_order(const char *data, size_t size, struct order *o, const char ***words)
{
	size_t count = size ? order_words(data, size) : 0;

	*words = count ? calloc(count, sizeof(**words)) : NULL;
	return *words && order_read(data, size, *words, o) ? 0 : -EBADMSG;
}

static void monitor_tasks_carry_out(struct monitor_task *t, const struct monitor_ask *q,
				    const char *data, size_t size, const int *fds, size_t n)
{
	struct brig_error e = { .errnum = EPROTO,
				.code = "usage",
				.what = "the command could not be read" };
	const char **words = NULL;
	struct order o = { 0 };
	int r = read_order(data, size, &o, &words);

	if (n > 1) {
		t->read_end = fcntl(fds[0], F_DUPFD_CLOEXEC, 3);
		t->input = fcntl(fds[1], F_DUPFD_CLOEXEC, 3);
	}
	if (r == 0 && t->m->stage == MONITOR_IS_OPEN)
		t->denied = outcome_mark(sandbox_facts(t->m->sandbox));
	if (r == 0 && t->m->stage == MONITOR_IS_OPEN)
		r = monitor_tasks_begin(t, &o, q, &e);
	else if (r == 0)
		r = -1, (void)snprintf(e.what, sizeof(e.what), "the sandbox takes no commands now");
	/* It runs meanwhile. */
	if (kept_create(t->m->execs, t->id, &t->kept) == 0)
		t->m->kept_bytes += t->kept.size;
	if (o.argv)
		keep_begin(t, &o, q);
	if (r < 0) {
		keep_end(t, monitor_tasks_refused(&e));
		monitor_tasks_let_go(t);
	} else {
		contexts_began(t);
		t->hush = clock_us() + HUSH_US;
		task_news(t, NEWS_RUNS);
	}
	if (r > 0)
		task_finish(t);
	free(words);
}

void task_exec(struct monitor *m, const struct monitor_ask *q, const char *order, size_t size,
	       const int *fds, size_t n)
{
	struct monitor_task *t = id_is(EXEC_ID, q->exec) ? calloc(1, sizeof(*t)) : NULL;
	const char *map = NULL;

	if (!t)
		return;
	t->m = m;
	t->read_end = t->input = t->kept.fd = -1;
	memcpy(t->id, q->exec, sizeof(t->id));
	t->last = q->asks == MONITOR_EXEC && q->value;
	t->next = m->tasks;
	m->tasks = t;
	if (!size && n && order_map(fds[0], &map, &size)) {
		monitor_tasks_carry_out(t, q, map, size, fds + 1, n - 1);
		(void)munmap((void *)(uintptr_t)map, size);
	} else {
		monitor_tasks_carry_out(t, q, order, size, fds, n);
	}
	monitor_rest(m);
}
