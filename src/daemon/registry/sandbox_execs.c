/* SPDX-License-Identifier: Apache-2.0 */
/* daemon/registry/sandbox_execs.c - commands in sandboxes: started, heard of, shown. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/bytes/jread.h"
#include "base/files/fd.h"
#include "base/files/folder.h"
#include "base/sys/clock.h"
#include "base/text/str.h"
#include "daemon/registry/sandboxes_internal.h"
#include "daemon/shared/sandbox_id.h"
#include "proc/order.h"

#define RESULT_UNKNOWN                                                                             \
	"{\"schema\":1,\"outcome\":\"failed\",\"exit_code\":125,\"error\":{\"code\":\"internal\"," \
	"\"what\":\"how it ended is not known: its sandbox was lost, or the disk was full\","      \
	"\"hint\":null}}"

/* ---- finding ---- */

struct exec_entry *execs_find(struct sandbox_entry *b, const char *id)
{
	struct exec_entry *x = b->execs;

	while (x && !str_eq(x->id, id))
		x = x->next;
	return x;
}

enum problem execs_none(const char *id, struct err *e)
{
	(void)problem_say(PROBLEM_NOT_FOUND, e, "there is no command '%.80s'", id);
	(void)err_hint(e, "brig sandbox execs ID shows those that there are");
	return PROBLEM_NOT_FOUND;
}

static struct exec_entry *box_exec_add(struct sandbox_entry *b, const char *id)
{
	struct exec_entry *x = calloc(1, sizeof(*x));

	if (!x)
		return NULL;
	x->input = -1;
	(void)snprintf(x->id, sizeof(x->id), "%s", id);
	x->next = b->execs;
	b->execs = x;
	b->exec_count++;
	return x;
}

static void box_exec_forget(struct sandbox_entry *b, struct exec_entry *x)
{
	struct exec_entry **at = &b->execs;

	while (*at && *at != x)
		at = &(*at)->next;
	if (*at)
		*at = x->next;
	b->exec_count--;
	(void)fd_close(x->input);
	free(x);
}

/* ---- telling ---- */

static void box_exec_tell(const struct sandbox_entry *b, const char *id, const char *type,
			  const char *reason, const char *data)
{
	const struct event_note n = { .type = type,
				      .tenant = b->tenant,
				      .sandbox = b->id,
				      .exec = id,
				      .reason = reason,
				      .data = data };

	(void)events_add(b->s->events, &n);
}

static void tell_end(const struct sandbox_entry *b, const char *id, const char *outcome, int status)
{
	char path[EXEC_PATH_SIZE];
	bool failed =
		str_eq(outcome, "failed") || str_eq(outcome, "refused") || str_eq(outcome, "lost");
	const char *type = failed                         ? "exec.failed"
			   : str_eq(outcome, "cancelled") ? "exec.cancelled"
							  : "exec.finished";
	char data[96];

	(void)snprintf(data, sizeof(data), "{\"outcome\":\"%.24s\",\"exit_code\":%d}", outcome,
		       status);
	box_exec_tell(b, id, type, str_eq(outcome, "exited") ? NULL : outcome, data);
	if (!str_eq(outcome, "lost"))
		watches_heard(b, id, status);
	entry_path(b, id, path);
	kept_tell(b->s->folder, path);
}

/* The file is there once the monitor has heard of the command. */
int execs_open(const struct sandbox_entry *b, const char *id, int *ret)
{
	char path[EXEC_PATH_SIZE];

	entry_path(b, id, path);
	return kept_open(b->s->folder, path, ret);
}

/* ---- what the monitor says ---- */

/* It ended between the greeting of the monitor and our look at what is kept. */
static bool was_told(const struct sandbox_entry *b, const char *id)
{
	CLEANUP(fd) int fd = -1;

	return execs_open(b, id, &fd) == 0 && kept_told(fd);
}

static void say_started(const struct sandbox_entry *b, struct exec_entry *x)
{
	if (!x->runs && x->ours)
		box_exec_tell(b, x->id, "exec.started", NULL, NULL);
	x->runs = true;
}

void execs_heard(struct sandbox_entry *b, const struct monitor_say *m, int *fd)
{
	struct exec_entry *x = id_is(EXEC_ID, m->exec) ? execs_find(b, m->exec) : NULL;

	if (!x &&
	    (m->says == MONITOR_RUNS || (m->says == MONITOR_DONE && m->value & MONITOR_RAN)) &&
	    id_is(EXEC_ID, m->exec) && !was_told(b, m->exec))
		x = box_exec_add(b, m->exec); /* an earlier daemon's */
	if (!x)
		return;
	watches_open(b, x->id);
	switch ((enum monitor_says)m->says) {
	case MONITOR_RUNS:
		say_started(b, x);
		break;
	case MONITOR_GIVES:
		(void)fd_close(x->input);
		/* Its end may have been given meanwhile. */
		x->input = x->takes ? TAKE_FD(*fd) : -1;
		x->takes = x->input >= 0;
		if (x->input >= 0)
			(void)fcntl(x->input, F_SETFL, O_WRONLY | O_NONBLOCK);
		break;
	case MONITOR_DONE:
		if (m->value & MONITOR_RAN)
			say_started(b, x);
		tell_end(b, x->id, *m->reason ? m->reason : "failed", (int)m->value);
		box_exec_forget(b, x);
		watches_news(b, m->exec);
		return;
	default:
		break;
	}
	watches_news(b, x->id);
}

/* ---- what happened while nobody listened ---- */

/* Nothing more comes of it. */
static void over(struct sandbox_entry *b, const char *id, const char *outcome, int status)
{
	struct exec_entry *x = execs_find(b, id);

	if (x && x->ours && !x->runs && !str_eq(outcome, "lost"))
		box_exec_tell(b, id, "exec.started", NULL, NULL);
	tell_end(b, id, outcome, status);
	watches_open(b, id);
	if (x)
		box_exec_forget(b, x);
}

static void recover_one(struct sandbox_entry *b, int execs, const char *id)
{
	CLEANUP(fd) int fd = -1;
	CLEANUP(mem) char *text = NULL;
	CLEANUP(jread) struct jread *v = NULL;
	const char *outcome = "lost";
	struct exec_entry *x;
	int status = 125;
	struct err e;
	size_t n;

	if (kept_open(execs, id, &fd) < 0 || kept_told(fd))
		return;
	text = kept_text(fd, KEPT_END, &n);
	if (!text && b->link.fd >= 0) {
		x = execs_find(b, id);
		if (x)
			x->doubt = false;
		else
			(void)box_exec_add(b, id);
		return;
	}
	if (text && jread_parse(text, n, &v, &e) == 0 && jread_str(v, "outcome")) {
		outcome = jread_str(v, "outcome");
		status = (int)jread_int(v, "exit_code", status);
	}
	over(b, id, outcome, status);
}

void execs_recover(struct sandbox_entry *b)
{
	CLEANUP(fd) int execs = entry_execs(b);
	struct folder f;
	const struct fd_entry *d;

	if (execs >= 0) {
		folder_begin(&f, execs);
		while ((d = folder_next(&f)))
			if (id_is(EXEC_ID, d->name))
				recover_one(b, execs, d->name);
	}
	for (struct exec_entry *x = b->execs, *next; x; x = next) {
		next = x->next;
		if (x->doubt)
			over(b, x->id, "lost", 125);
	}
	watches_news(b, NULL);
	watches_hold(b);
}

void execs_doubt(struct sandbox_entry *b)
{
	for (struct exec_entry *x = b->execs; x; x = x->next) {
		x->doubt = true;
		x->asked &= x->input >= 0;
	}
}

/* A monitor says the end of each command before its own, unless it is killed. */
void execs_lost(struct sandbox_entry *b)
{
	while (b->execs) {
		struct exec_entry *x = b->execs;

		tell_end(b, x->id, "lost", 125);
		watches_open(b, x->id);
		box_exec_forget(b, x);
	}
	watches_news(b, NULL);
}

void execs_free(struct sandbox_entry *b)
{
	while (b->execs)
		box_exec_forget(b, b->execs);
	watches_leave(b);
}

/* ---- starting ---- */

static enum problem is_stopped(const struct sandbox_entry *b, struct err *e)
{
	const struct err *why = &b->error;

	(void)problem_say(PROBLEM_SANDBOX_NOT_READY, e, "sandbox '%s' is stopped: %s", b->id,
			  why->code ? why->what : "resume it");
	(void)err_hint(e, "%s%sbrig sandbox resume %s", why->hint, *why->hint ? "; " : "", b->id);
	return PROBLEM_SANDBOX_NOT_READY;
}

static enum problem may_exec(const struct sandbox_entry *b, struct err *e)
{
	if (b->state == STATE_PAUSED) {
		(void)problem_say(PROBLEM_SANDBOX_PAUSED, e, "sandbox '%s' is paused: resume it",
				  b->id);
		(void)err_hint(e, "brig sandbox resume %s", b->id);
		return PROBLEM_SANDBOX_PAUSED;
	}
	if (b->state == STATE_STOPPED && !b->stopping && !b->opening)
		return is_stopped(b, e);
	if (b->state == STATE_FAILED) {
		(void)problem_say(PROBLEM_SANDBOX_NOT_READY, e, "sandbox '%s' has failed", b->id);
		(void)err_hint(e, "brig sandbox get %s says why", b->id);
		return PROBLEM_SANDBOX_NOT_READY;
	}
	if (b->state != STATE_READY || b->link.fd < 0 || b->stopping || b->opening)
		return problem_say(PROBLEM_SANDBOX_NOT_READY, e, "sandbox '%s' is %s", b->id,
				   b->stopping ? "stopping" : state_word(b->state));
	if (b->strange)
		return problem_say(PROBLEM_UNSUPPORTED, e,
				   "the monitor of sandbox '%s' is of another version: it can only "
				   "be stopped",
				   b->id);
	if (b->exec_count >= SANDBOX_EXECS)
		return problem_say(PROBLEM_QUOTA, e, "a sandbox has at most %d commands at a time",
				   SANDBOX_EXECS);
	return PROBLEM_NONE;
}

static enum problem check_start(const struct exec_start *x, struct err *e)
{
	const struct order *o = &x->order;

	if (!o->argv || !o->argv[0] || !*o->argv[0])
		return problem_say(PROBLEM_INVALID, e, "no command was given");
	if (o->cwd && o->cwd[0] != '/')
		return problem_say(PROBLEM_INVALID, e,
				   "the folder must be named from the root on: '%.100s'", o->cwd);
	return PROBLEM_NONE;
}

/* Behind the request if there is room for it, else in a file of its own. */
static int pack(const struct order *o, struct monitor_packet *p, size_t *n, int *file,
		struct err *e)
{
	CLEANUP(buf) struct buf b = BUF_INIT(MONITOR_ORDER);
	struct err unused;

	*n = 0;
	if (order_write(o, &b, &unused) < 0)
		return order_make(o, file, e);
	memcpy(p->order, b.data, b.len);
	*n = b.len;
	return 0;
}

static enum problem box_exec_say(struct sandbox_entry *b, struct monitor_packet *p, size_t order,
				 const int *fds, size_t n, struct err *e)
{
	int r = link_ask_long(b, p, order, fds, n);

	if (r == -EAGAIN)
		return problem_say(PROBLEM_QUOTA, e, "sandbox '%s' has too much to do", b->id);
	return r < 0 ? problem_say(PROBLEM_SANDBOX_NOT_READY, e, "sandbox '%s' does not answer",
				   b->id)
		     : PROBLEM_NONE;
}

static enum problem send(struct sandbox_entry *b, const struct exec_start *x,
			 struct exec_entry *entry, struct err *e)
{
	static const char *const none[] = { NULL };
	const struct order o = { .argv = x->order.argv,
				 .envp = x->order.envp ? x->order.envp : none,
				 .path = "",
				 .cwd = x->order.cwd ? x->order.cwd : "" };
	struct monitor_packet q = { .ask = { .asks = x->code ? MONITOR_CODE : MONITOR_EXEC,
					     .value = x->code ? x->again : x->last,
					     .tty = x->tty,
					     .rows = x->rows,
					     .cols = x->cols,
					     .timeout = x->timeout,
					     .output = x->output } };
	CLEANUP(fd) int order = -1, reads = -1;
	int ends[2], fds[3];
	size_t size, n = 0;
	enum problem p;

	if (pack(&o, &q, &size, &order, e) < 0)
		return problem_of(e);
	if (x->stdin_open) {
		if (pipe2(ends, O_CLOEXEC) < 0)
			return err_sys(e, "cannot make a pipe"), PROBLEM_INTERNAL;
		reads = ends[0];
		entry->input = ends[1];
		entry->takes = true;
	}
	(void)snprintf(q.ask.exec, sizeof(q.ask.exec), "%s", entry->id);
	if (order >= 0)
		fds[n++] = order;
	if (x->stdin_open) {
		fds[n++] = reads;
		fds[n++] = entry->input;
	}
	p = box_exec_say(b, &q, size, fds, n, e);
	if (p == PROBLEM_NONE && entry->input >= 0)
		(void)fcntl(entry->input, F_SETFL, O_WRONLY | O_NONBLOCK);
	return p;
}

enum problem sandboxes_exec(struct sandboxes *s, const char *tenant, const char *ref,
			    const struct exec_start *x, char id[EXEC_ID_SIZE], struct err *e)
{
	struct sandbox_entry *b = entry_find(s, tenant, ref);
	struct exec_entry *entry;
	enum problem p;

	if (!b)
		return entry_missing(ref, e);
	p = may_exec(b, e);
	if (p == PROBLEM_NONE)
		p = check_start(x, e);
	if (p != PROBLEM_NONE)
		return p;
	if (id_make(EXEC_ID, id, e) < 0)
		return PROBLEM_INTERNAL;
	entry = box_exec_add(b, id);
	if (!entry)
		return problem_nomem(e);
	entry->ours = true;
	p = send(b, x, entry, e);
	if (p != PROBLEM_NONE)
		box_exec_forget(b, entry);
	return p;
}

/* ---- while it runs ---- */

static enum problem box_exec_running(struct sandboxes *s, const char *tenant, const char *ref,
				     const char *exec, struct sandbox_entry **b,
				     struct exec_entry **x, struct err *e)
{
	CLEANUP(fd) int fd = -1;

	*b = entry_find(s, tenant, ref);
	if (!*b)
		return entry_missing(ref, e);
	*x = id_is(EXEC_ID, exec) ? execs_find(*b, exec) : NULL;
	if (*x)
		return PROBLEM_NONE;
	if (!id_is(EXEC_ID, exec) || execs_open(*b, exec, &fd) < 0)
		return execs_none(exec, e);
	if ((*b)->unsure) { /* its monitor has not said yet which of them run */
		(void)problem_say(PROBLEM_SANDBOX_NOT_READY, e,
				  "sandbox '%s' is only being found again", (*b)->id);
		(void)err_hint(e, "try again");
		return PROBLEM_SANDBOX_NOT_READY;
	}
	return problem_say(PROBLEM_EXEC_ENDED, e, "command '%s' has ended", exec);
}

static enum problem box_exec_ask(struct sandboxes *s, const char *tenant, const char *ref,
				 const char *exec, struct monitor_ask *q, struct err *e)
{
	struct sandbox_entry *b;
	struct exec_entry *x;
	enum problem p = box_exec_running(s, tenant, ref, exec, &b, &x, e);

	if (p != PROBLEM_NONE)
		return p;
	(void)snprintf(q->exec, sizeof(q->exec), "%s", exec);
	if (link_ask(b, q, NULL, 0) < 0)
		return problem_say(PROBLEM_SANDBOX_NOT_READY, e, "sandbox '%s' does not answer",
				   b->id);
	return PROBLEM_NONE;
}

enum problem exec_signal(struct sandboxes *s, const char *tenant, const char *ref, const char *exec,
			 int sig, struct err *e)
{
	if (sig < 1 || sig > 64)
		return problem_say(PROBLEM_INVALID, e, "there is no signal %d", sig);
	return box_exec_ask(s, tenant, ref, exec,
			    &(struct monitor_ask){ .asks = MONITOR_SIGNAL, .value = (uint64_t)sig },
			    e);
}

enum problem exec_cancel(struct sandboxes *s, const char *tenant, const char *ref, const char *exec,
			 struct err *e)
{
	struct monitor_ask q = { .asks = MONITOR_CANCEL };
	enum problem p = box_exec_ask(s, tenant, ref, exec, &q, e);
	struct sandbox_entry *b = p == PROBLEM_EXEC_ENDED ? entry_find(s, tenant, ref) : NULL;

	/* What it has left running is still its own. */
	if (!b || b->link.fd < 0 || b->strange)
		return p;
	(void)snprintf(q.exec, sizeof(q.exec), "%s", exec);
	return link_ask(b, &q, NULL, 0) < 0 ? p : PROBLEM_NONE;
}

enum problem exec_resize(struct sandboxes *s, const char *tenant, const char *ref, const char *exec,
			 unsigned short rows, unsigned short cols, struct err *e)
{
	return box_exec_ask(
		s, tenant, ref, exec,
		&(struct monitor_ask){ .asks = MONITOR_RESIZE, .rows = rows, .cols = cols }, e);
}

static enum problem end_input(struct sandbox_entry *b, struct exec_entry *x)
{
	struct monitor_ask q = { .asks = MONITOR_INPUT_END };

	x->input = fd_close(x->input);
	x->takes = false;
	(void)snprintf(q.exec, sizeof(q.exec), "%s", x->id);
	(void)link_ask(b, &q, NULL, 0);
	return PROBLEM_NONE;
}

bool exec_unsure(struct sandboxes *s, const char *tenant, const char *ref, const char *exec)
{
	struct sandbox_entry *b = entry_find(s, tenant, ref);

	return b && b->unsure && id_is(EXEC_ID, exec) && !execs_find(b, exec);
}

enum problem exec_write(struct sandboxes *s, const char *tenant, const char *ref, const char *exec,
			const void *data, size_t n, size_t *took, struct err *e)
{
	struct sandbox_entry *b;
	struct exec_entry *x;
	enum problem p = box_exec_running(s, tenant, ref, exec, &b, &x, e);
	ssize_t w;

	*took = 0;
	if (p != PROBLEM_NONE)
		return p;
	if (!n && x->input < 0 && b->found) { /* the monitor has it, and ends it */
		x->asked = true;
		return end_input(b, x);
	}
	if (x->input < 0 && b->found && !x->asked) { /* an earlier daemon had it */
		struct monitor_ask q = { .asks = MONITOR_INPUT };

		x->asked = x->takes = true;
		(void)snprintf(q.exec, sizeof(q.exec), "%s", x->id);
		(void)link_ask(b, &q, NULL, 0);
	}
	if (!x->takes)
		return problem_say(PROBLEM_CONFLICT, e,
				   "command '%s' has no input, or its end was "
				   "given",
				   exec);
	if (x->input < 0)
		return PROBLEM_NONE; /* it is on its way */
	if (!n)
		return end_input(b, x);
	w = write(x->input, data, n);
	if (w < 0 && errno != EAGAIN && errno != EINTR)
		return problem_say(PROBLEM_CONFLICT, e, "command '%s' reads no more input", exec);
	*took = w > 0 ? (size_t)w : 0;
	return PROBLEM_NONE;
}

/* ---- showing ---- */

static void box_exec_show(const struct sandbox_entry *b, const char *id, int fd, bool runs,
			  struct json *j)
{
	size_t n = 0;
	CLEANUP(mem) char *begin = fd >= 0 ? kept_text(fd, KEPT_BEGIN, &n) : NULL;
	CLEANUP(mem) char *end = NULL;
	CLEANUP(jread) struct jread *v = NULL;
	struct err e;

	if (begin)
		(void)jread_parse(begin, n, &v, &e);
	end = fd >= 0 && !runs ? kept_text(fd, KEPT_END, &n) : NULL;
	json_object(j);
	json_kstr(j, "id", id);
	json_kstr(j, "sandbox", b->id);
	json_kstr(j, "state", runs ? "running" : "ended");
	json_kvalue(j, "started", jread_get(v, "started"));
	json_kvalue(j, "argv", jread_get(v, "argv"));
	json_kvalue(j, "context", jread_get(v, "context"));
	json_kvalue(j, "cwd", jread_get(v, "cwd"));
	json_kvalue(j, "tty", jread_get(v, "tty"));
	json_key(j, "result");
	if (end)
		json_raw(j, end, n);
	else if (runs)
		json_null(j);
	else
		json_raw(j, RESULT_UNKNOWN, strlen(RESULT_UNKNOWN));
	json_object_end(j);
}

enum problem exec_show(struct sandboxes *s, const char *tenant, const char *ref, const char *exec,
		       struct json *j, struct err *e)
{
	struct sandbox_entry *b = entry_find(s, tenant, ref);
	CLEANUP(fd) int fd = -1;
	bool runs;

	if (!b)
		return entry_missing(ref, e);
	runs = id_is(EXEC_ID, exec) && execs_find(b, exec);
	if (!id_is(EXEC_ID, exec) || (execs_open(b, exec, &fd) < 0 && !runs))
		return execs_none(exec, e);
	box_exec_show(b, exec, fd, runs, j);
	return PROBLEM_NONE;
}

static int by_text(const void *a, const void *b)
{
	return strcmp(a, b);
}

enum { LISTED_MAX = 2048 };

/* Those with a file, and those that were started so recently that they have none yet; sorted. */
static size_t ids_of(const struct sandbox_entry *b, int execs, char (*ids)[EXEC_ID_SIZE])
{
	const struct fd_entry *d;
	struct folder f;
	size_t n = 0;

	if (execs >= 0) {
		folder_begin(&f, execs);
		while (n < LISTED_MAX && (d = folder_next(&f)))
			if (id_is(EXEC_ID, d->name))
				(void)snprintf(ids[n++], sizeof(*ids), "%s", d->name);
	}
	for (const struct exec_entry *x = b->execs; x && n < LISTED_MAX; x = x->next)
		(void)snprintf(ids[n++], sizeof(*ids), "%s", x->id);
	qsort(ids, n, sizeof(*ids), by_text);
	return n;
}

enum problem exec_list(struct sandboxes *s, const char *tenant, const char *ref, struct json *j,
		       struct err *e)
{
	struct sandbox_entry *b = entry_find(s, tenant, ref);
	CLEANUP(fd) int execs = b ? entry_execs(b) : -1;
	CLEANUP(mem) char(*ids)[EXEC_ID_SIZE] = calloc(LISTED_MAX, sizeof(*ids));
	size_t n;

	if (!b)
		return entry_missing(ref, e);
	if (!ids)
		return problem_nomem(e);
	n = ids_of(b, execs, ids);
	json_array(j);
	for (size_t i = 0; i < n; i++) {
		CLEANUP(fd) int fd = -1;
		bool runs = execs_find(b, ids[i]) != NULL;

		if (i && str_eq(ids[i], ids[i - 1]))
			continue;
		if ((execs >= 0 && kept_open(execs, ids[i], &fd) == 0) || runs)
			box_exec_show(b, ids[i], fd, runs, j);
	}
	json_array_end(j);
	return PROBLEM_NONE;
}
