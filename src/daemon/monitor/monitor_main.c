/* SPDX-License-Identifier: Apache-2.0 */
/* daemon/monitor/monitor_main.c - brig-monitor: owns one sandbox, and ends with it.
 *
 * opening (nobody is answered) -> open -> stopping (SIGTERM for all inside, then a while) ->
 * closed. It begins with the sandbox's folder, by which it is locked, and with sockets: one to the
 * daemon that started it, one for the next, and two for its line inside. It needs no daemon to go
 * on. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>

#include "base/files/fd.h"
#include "base/files/folder.h"
#include "base/files/tree.h"
#include "base/sys/clock.h"
#include "base/sys/signals.h"
#include "base/sys/wait.h"
#include "base/text/clean.h"
#include "base/text/str.h"
#include "daemon/monitor/monitor_companions.h"
#include "daemon/monitor/monitor_internal.h"
#include "daemon/shared/sandbox_id.h"
#include "model/dialect/companions.h"
#include "model/files/config.h"
#include "proc/use.h"
#include "sandbox/manager.h"

#define BEGIN_MS 10000
#define SESSION_GRACE_MS 2000
#define SECRET_MAX ((size_t)64 << 10)
#define SECRET_NAME 256 /* of its name, with the end */
#define SPEC_MAX ((size_t)1 << 20)
#define LOG_MAX ((off_t)256 << 10)
#define NOTE_MAX 4000
#define SEALS (F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL)

/* ---- its folder ---- */

int monitor_write(const struct monitor *m, const char *name, const char *p, size_t n)
{
	CLEANUP(fd)
	int fd = openat(m->folder, name, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC,
			0600);

	return fd < 0 ? -errno : fd_write_all(fd, p, n);
}

void monitor_note(const struct monitor *m, const char *text)
{
	CLEANUP(fd)
	int fd = openat(m->folder, MONITOR_LOG,
			O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0600);
	CLEANUP(buf) struct buf line = BUF_INIT((size_t)4 * NOTE_MAX);
	struct stat st;

	clean_put(&line, text, strnlen(text, NOTE_MAX)); /* a name in it may have line ends */
	buf_putc(&line, '\n');
	if (fd >= 0 && fstat(fd, &st) == 0 && st.st_size < LOG_MAX && !line.failed)
		(void)fd_write_all(fd, line.data, line.len);
}

static void monitor_main_on_note(void *arg, const char *text)
{
	monitor_note(arg, text);
}

/* Beside the work: what a power cut may take is the last moments, never half of a file. */
static void make_durable(const struct monitor *m)
{
	static const char *const names[] = { MONITOR_SPEC, MONITOR_FACTS, "." };

	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		CLEANUP(fd) int fd = openat(m->folder, names[i], O_RDONLY | O_CLOEXEC | O_NOFOLLOW);

		if (fd >= 0)
			(void)fsync(fd);
	}
}

/* ---- resting ---- */

void monitor_rest(struct monitor *m)
{
	bool idle = m->stage == MONITOR_IS_OPEN && m->idle_ms && !m->running && !clients_hold(m);

	if (!idle)
		loop_at(m->loop, &m->idle, 0);
	else if (!m->idle.at)
		loop_at(m->loop, &m->idle, clock_us() + m->idle_ms * 1000);
}

static void on_idle(struct loop_timer *t, uint64_t now)
{
	struct monitor *m = CONTAINER_OF(t, struct monitor, idle);

	if (sandbox_living(m->sandbox) >
	    command_living(m) + contexts_living(m)) /* left running by a command */
		loop_at(m->loop, t, now + m->idle_ms * 1000);
	else
		monitor_stop(m, "idle", 0);
}

static void on_life(struct loop_timer *t, uint64_t now UNUSED)
{
	monitor_stop(CONTAINER_OF(t, struct monitor, life), "expired", 0);
}

static void set_times(struct monitor *m, const struct monitor_ask *q)
{
	m->idle_ms = q->idle;
	m->life_ms = q->life;
	loop_at(m->loop, &m->life, q->life ? clock_us() + q->life * 1000 : 0);
	loop_at(m->loop, &m->idle, 0);
	monitor_rest(m);
}

static void on_sandbox(struct loop_watch *w, uint32_t events UNUSED)
{
	struct monitor *m = CONTAINER_OF(w, struct monitor, turns);
	struct monitor_say early = { .says = MONITOR_REFUSED };

	if (brig_sandbox_dispatch(m->sandbox))
		return;
	if (m->stage == MONITOR_IS_OPENING) {
		(void)err_set(&early.err, ERR_UNAVAILABLE, ECHILD,
			      "the sandbox ended (%s) before its companions were ready",
			      outcome_name(sandbox_facts(m->sandbox)->kind));
		monitor_give_up(m, &early);
		return;
	}
	if (m->stage != MONITOR_IS_STOPPING)
		(void)snprintf(m->reason, sizeof(m->reason), "%s",
			       outcome_name(sandbox_facts(m->sandbox)->kind));
	monitor_close(m);
}

/* ---- requests ---- */

static void give_input(struct monitor *m, struct monitor_client *c, const struct monitor_ask *q)
{
	const struct monitor_task *t = task_find(m, q->exec);
	struct monitor_say s = { .says = MONITOR_GIVES };

	memcpy(s.exec, q->exec, sizeof(s.exec));
	client_say(c, &s, t ? t->input : -1);
}

/* All of them or none. */
static int pause_all(struct monitor *m, bool on, struct err *e)
{
	struct err unused;

	if (sandbox_pause(m->sandbox, on, e) < 0)
		return -e->code;
	if (companions_pause(m, on, e) == 0)
		return 0;
	if (on)
		(void)sandbox_pause(m->sandbox, false, &unused);
	return -e->code;
}

static void pause_sandbox(struct monitor *m, bool on)
{
	struct monitor_say s = { .says = on ? MONITOR_PAUSED : MONITOR_CONTINUED };
	enum monitor_stage from = on ? MONITOR_IS_OPEN : MONITOR_IS_PAUSED;

	if (m->stage == from && pause_all(m, on, &s.err) == 0) {
		m->stage = on ? MONITOR_IS_PAUSED : MONITOR_IS_OPEN;
		contexts_rest(m, on);
	}
	monitor_rest(m);
	clients_say(m, &s);
}

static void answer_task(struct monitor *m, const struct monitor_ask *q)
{
	struct monitor_task *t = task_find(m, q->exec);

	if (!t && q->asks == MONITOR_CANCEL)
		task_end_rest(m, q->exec);
	if (!t)
		return;
	if (t->call) { /* whoever runs its code hears SIGINT alone */
		if (q->asks == MONITOR_CANCEL || (q->asks == MONITOR_SIGNAL && q->value == SIGINT))
			contexts_interrupt(t, q->asks == MONITOR_CANCEL);
		return;
	}
	switch ((enum monitor_asks)q->asks) {
	case MONITOR_SIGNAL:
		if (q->value > 0 && q->value <= (uint64_t)SIGRTMAX)
			run_handle_signal(t->run, (int)q->value);
		break;
	case MONITOR_CANCEL:
		brig_request_cancel(t->request);
		break;
	case MONITOR_RESIZE:
		run_handle_resize(t->run, q->rows, q->cols);
		break;
	case MONITOR_INPUT_END:
		t->input = fd_close(t->input);
		break;
	default:
		break;
	}
}

void monitor_answer(struct monitor *m, struct monitor_client *c, const struct monitor_packet *p,
		    size_t order, const int *fds, size_t n)
{
	const struct monitor_ask *q = &p->ask;

	if (q->asks == MONITOR_STOP) {
		monitor_stop(m, "stopped", q->value);
		return;
	}
	if (q->version != MONITOR_VERSION)
		return;
	store_wake(m);
	switch ((enum monitor_asks)q->asks) {
	case MONITOR_EXEC:
	case MONITOR_CODE:
		task_exec(m, q, p->order, order, fds, n);
		break;
	case MONITOR_INPUT:
		give_input(m, c, q);
		break;
	case MONITOR_HOLD:
		c->held = q->value;
		monitor_rest(m);
		break;
	case MONITOR_PAUSE:
	case MONITOR_CONTINUE:
		pause_sandbox(m, q->asks == MONITOR_PAUSE);
		break;
	case MONITOR_TIMES:
		set_times(m, q);
		break;
	case MONITOR_FILES:
		files_ask(m, c, q, fds, n);
		break;
	case MONITOR_FILES_END:
		files_end(m, c, q->value);
		break;
	case MONITOR_ANSWER:
		questions_take(m, q, p->order, order);
		break;
	default:
		answer_task(m, q);
		break;
	}
}

/* ---- opening ---- */

/* A variable that only credentials are looked up in, and that is gone once they were. */
static char *take_secret(int fd)
{
	struct stat st;
	char *text;

	if (fcntl(fd, F_GET_SEALS) != SEALS || fstat(fd, &st) < 0 || st.st_size <= 0 ||
	    (size_t)st.st_size > SECRET_MAX)
		return NULL;
	text = calloc(1, (size_t)st.st_size + 1);
	if (text && pread(fd, text, (size_t)st.st_size, 0) == st.st_size &&
	    text[strcspn(text, "=")] && strcspn(text, "=") < SECRET_NAME &&
	    putenv(text) == 0) /* allow putenv: the process is nobody else's */
		return text;
	free(text);
	return NULL;
}

static void drop_secret(char *text)
{
	char name[SECRET_NAME];

	if (!text)
		return;
	(void)snprintf(name, sizeof(name), "%.*s", (int)strcspn(text, "="), text);
	(void)unsetenv(name); /* allow unsetenv: likewise */
	explicit_bzero(text, strlen(text));
	free(text);
}

static int read_spec(const struct monitor *m, struct spec *s, struct err *e)
{
	CLEANUP(fd) int fd = openat(m->folder, MONITOR_SPEC, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	CLEANUP(mem) char *text = malloc(SPEC_MAX);
	ssize_t n = fd >= 0 && text ? pread(fd, text, SPEC_MAX, 0) : -1;

	if (n < 0)
		return err_sys(e, "cannot read the sandbox's spec");
	return config_read_sent(s, text, (size_t)n, e);
}

static int open_sandbox(struct monitor *m, struct err *e)
{
	brig_manager *manager = brig_manager_new();
	brig_request *q = manager ? brig_request_new(manager) : NULL;
	struct ingress in = { 0 };
	struct brig_error be;
	struct err other;
	int r = q ? read_spec(m, request_spec(q), e) : err_nomem(e);

	if (r == 0)
		r = monitor_name(m, request_spec(q), e);
	if (r == 0) /* what the daemon honours is no matter of the backend */
		request_spec(q)->stays = true;
	if (r == 0)
		r = command_take(m, request_spec(q), e);
	if (r == 0)
		r = companions_place(request_spec(q), e);
	if (r == 0)
		r = monitor_marks(m, request_spec(q), e);
	/* Inherited by what runs inside, whose files the host's programs read: as in a container.
	 * Ours have a mode of their own each. */
	(void)umask(022);
	if (r == 0)
		r = companions_open(m, request_spec(q), e);
	if (r == 0)
		r = copies_take(request_spec(q), &in, e);
	if (r == 0)
		r = store_open(m, request_spec(q), e);
	if (r == 0)
		r = store_layer(m, request_spec(q), e);
	if (r == 0) {
		if (m->companions)
			request_seat(q, m->companions->router.fd, 0);
		request_line(q, MONITOR_FD_LINE, MONITOR_FD_LINE + 1);
		brig_request_on_note(q, monitor_main_on_note, m);
		questions_begin(m, q);
		r = brig_sandbox_open(q, &m->sandbox, &be);
		if (r < 0)
			error_import(&be, e);
	}
	if (companions_opened(m, r == 0 ? e : &other) < 0 && r == 0)
		r = -e->code;
	(void)umask(077);
	if (r == 0)
		r = copies_make(m, &in, e);
	brig_request_free(q);
	brig_manager_free(manager);
	return r;
}

static bool put_first(struct buf *b, brig_sandbox *s)
{
	const struct isolation *i = s ? sandbox_facts(s)->isolation : NULL;
	char text[USE_FIRST_SIZE];

	if (!i || !use_first(i->first, text))
		return false;
	buf_printf(b, "%s%s", b->len ? "," : "", text);
	return true;
}

/* Of containers, whose processes are below none of ours: which they are, for brig-use. */
int monitor_write_first(const struct monitor *m)
{
	const struct companions *all = m->companions;
	CLEANUP(buf) struct buf b = BUF_INIT((size_t)USE_TOPS * USE_FIRST_SIZE);
	size_t found = put_first(&b, m->sandbox);

	static_assert(USE_TOPS == 1 + COMPANIONS_MAX, "each has its place");

	(void)unlinkat(m->folder, MONITOR_FIRST, 0); /* of an earlier start */
	if (!found)
		buf_puts(&b, "-"); /* the sandbox itself is below this process */
	for (size_t i = 0; all && i < all->n; i++)
		found += put_first(&b, all->v[i].sandbox);
	return found && !b.failed ? monitor_write(m, MONITOR_FIRST, b.data, b.len) : 0;
}

static int write_facts(const struct monitor *m, struct err *e)
{
	CLEANUP(buf) struct buf b = BUF_INIT(SPEC_MAX);
	struct json j;
	int r;

	json_init(&j, &b, false);
	outcome_json(sandbox_facts(m->sandbox), &j);
	r = b.failed ? -ENOMEM : monitor_write(m, MONITOR_FACTS, b.data, b.len);
	if (r == 0)
		r = monitor_write_first(m);
	return r < 0 ? err_errno(e, r, "cannot write down what the sandbox is like") : 0;
}

/* What the daemon that started us has to say. It may be gone already: then nobody asked. */
static int hear_begin(struct monitor *m, int fd, char **secrets, struct err *e)
{
	int fds[MONITOR_SECRETS];
	size_t n = MONITOR_SECRETS, taken = 0;
	struct monitor_ask q;

	if (wait_fd(fd, POLLIN, clock_after(BEGIN_MS)) < 0 ||
	    fd_recv(fd, &q, sizeof(q), fds, &n) != (ssize_t)sizeof(q) || q.asks != MONITOR_BEGIN ||
	    q.version != MONITOR_VERSION)
		return err_set(e, ERR_INTERNAL, EPROTO, "nobody said what to open");
	for (size_t i = 0; i < n; i++) {
		secrets[i] = take_secret(fds[i]);
		taken += secrets[i] != NULL;
		(void)fd_close(fds[i]);
	}
	if (taken != n)
		return err_set(e, ERR_INTERNAL, EPROTO, "a secret could not be read");
	m->idle_ms = q.idle;
	m->life_ms = q.life;
	return 0;
}

/* After every turn what is to be said is said: there need only be one. */
static void on_speak(struct loop_timer *t UNUSED, uint64_t now UNUSED)
{
}

static int monitor_main_settle(struct monitor *m, const char *id)
{
	const struct sigaction ignore = { .sa_handler = SIG_IGN };

	(void)prctl(PR_SET_NAME, MONITOR_NAME, 0, 0, 0);
	(void)umask(077);
	signals_ignore_pipe();
	(void)sigaction(SIGXFSZ, &ignore, NULL);
	fd_raise_limit();
	for (int fd = MONITOR_FD_FOLDER; fd < MONITOR_FD_END; fd++)
		if (fcntl(fd, F_SETFD, FD_CLOEXEC) < 0)
			return -errno;
	m->folder = MONITOR_FD_FOLDER;
	m->id = id;
	m->idle.due = on_idle;
	m->life.due = on_life;
	m->grace.due = monitor_on_grace;
	m->speaks.due = on_speak;
	for (size_t i = 0; i < MONITOR_CLIENTS; i++)
		m->clients[i].w.fd = -1;
	return 0;
}

/* ---- the session's end ---- */

static void on_term(struct loop_watch *w, uint32_t events UNUSED)
{
	struct monitor *m = CONTAINER_OF(w, struct monitor, ends);

	(void)loop_want(m->loop, w, 0);
	monitor_stop(m, "host-session-ended", SESSION_GRACE_MS);
}

static int hear_signals(struct monitor *m)
{
	m->ends = (struct loop_watch){ .fd = signals_open((const int[]){ SIGTERM, 0 }),
				       .ready = on_term };
	return m->ends.fd < 0 ? -errno : loop_want(m->loop, &m->ends, EPOLLIN);
}

static int monitor_main_prepare(struct monitor *m, struct err *e)
{
	char *secrets[MONITOR_SECRETS] = { NULL };
	int r = loop_new(&m->loop, e);

	if (r == 0)
		r = hear_begin(m, MONITOR_FD_CLIENT, secrets, e);
	if (r == 0)
		r = tasks_open(m, e);
	if (r == 0)
		r = clients_listen(m, e);
	if (r == 0 && (hear_signals(m) < 0 || clients_take(m, MONITOR_FD_CLIENT) < 0))
		r = err_nomem(e);
	if (r == 0)
		r = open_sandbox(m, e);
	if (r == 0)
		r = companions_start(m, e);
	for (size_t i = 0; i < MONITOR_SECRETS; i++)
		drop_secret(secrets[i]);
	/* Not before: the sandbox's ids are mapped through files of a process that can be looked
	 * into. */
	(void)prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
	return r == 0 ? write_facts(m, e) : r;
}

static void after_turn(void *arg)
{
	struct monitor *m = arg;

	if (m->stage == MONITOR_IS_STOPPING && !m->over && !sandbox_living(m->sandbox) &&
	    !companions_living(m))
		monitor_close(m);
	clients_settle(m);
}

void monitor_opened(struct monitor *m)
{
	const struct monitor_say opened = { .says = MONITOR_OPENED };
	const struct monitor_ask times = { .idle = m->idle_ms, .life = m->life_ms };

	m->stage = MONITOR_IS_OPEN;
	clients_say(m, &opened);
	set_times(m, &times);
}

/* With companions it is open when all of them are ready; with a command, when that has begun. */
static void monitor_main_serve(struct monitor *m)
{
	m->turns = (struct loop_watch){ .fd = brig_sandbox_fd(m->sandbox), .ready = on_sandbox };
	if (m->turns.fd < 0 || loop_want(m->loop, &m->turns, EPOLLIN) < 0) {
		monitor_stop(m, "failed", 0);
		monitor_close(m);
		return;
	}
	if (!m->companions)
		command_begin(m);
	else
		companions_check_all(m);
	make_durable(m);
	loop_run(m->loop, after_turn, m);
}

/* Companions may have filled them with as much as they liked: that is nothing for the daemon. */
static void remove_aside(int folder)
{
	CLEANUP(fd)
	int aside = openat(folder, MONITOR_ASIDE, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	const struct fd_entry *d;
	struct folder f;

	if (aside < 0)
		return;
	folder_begin(&f, aside);
	while ((d = folder_next(&f))) {
		store_release_layer(aside, d->name);
		(void)tree_remove(aside, d->name);
	}
}

static bool note_ended(int fd)
{
	return faccessat(fd, MONITOR_ENDED, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

/* A sandbox whose monitor was killed, if it is one: its notes have what that has left, as those of
 * one that was stopped have. */
static void note_lost(int folder, const char *id)
{
	CLEANUP(fd) int fd = openat(folder, id, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	CLEANUP(spec) struct spec *s = NULL;
	CLEANUP(outcome) struct outcome *o = NULL;
	struct monitor m = { .folder = fd };
	static const char lost[] = "lost";
	struct err e;

	/* Asked before too: who resumes one that was stopped finds its lock free. */
	if (fd < 0 || note_ended(fd) || flock(fd, LOCK_EX | LOCK_NB) < 0 || note_ended(fd))
		return;
	s = spec_new(&e);
	if (!s || read_spec(&m, s, &e) < 0)
		return;
	o = sandbox_told(s);
	monitor_left(&m, o);
	(void)monitor_write(&m, MONITOR_ENDED, lost, strlen(lost));
}

static void note_all_lost(int folder)
{
	/* The daemon reads on from where we would leave off. */
	CLEANUP(fd) int own = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	const struct fd_entry *d;
	struct folder f;

	folder_begin(&f, own);
	while ((d = folder_next(&f)))
		if (id_is(SANDBOX_ID, d->name))
			note_lost(folder, d->name);
}

static int monitor_main_tidy(bool lost)
{
	(void)prctl(PR_SET_NAME, MONITOR_NAME, 0, 0, 0);
	if (lost) {
		sandbox_tidy();
		note_all_lost(MONITOR_FD_FOLDER);
	}
	remove_aside(MONITOR_FD_FOLDER);
	return 0;
}

int monitor_main(int argc, char **argv)
{
	struct monitor_say refused = { .says = MONITOR_REFUSED, .version = MONITOR_VERSION };
	struct monitor *m = calloc(1, sizeof(*m));

	if (argc == 2 && (str_eq(argv[1], MONITOR_TIDIES) || str_eq(argv[1], MONITOR_CLEARS)))
		return monitor_main_tidy(str_eq(argv[1], MONITOR_TIDIES));
	if (!m || argc != 2 || monitor_main_settle(m, argv[1]) < 0)
		return 1;
	if (monitor_main_prepare(m, &refused.err) < 0) {
		brig_sandbox_close(m->sandbox, NULL, &(struct brig_error){ 0 });
		companions_close(m);
		monitor_note(m, refused.err.what);
		memcpy(refused.reason, m->reason, sizeof(refused.reason));
		clients_hide(m);
		/* To the daemon that asked, and to one that came meanwhile. */
		(void)fd_send(MONITOR_FD_CLIENT, &refused, sizeof(refused), NULL, 0);
		return 1;
	}
	monitor_main_serve(m);
	return 0;
}
