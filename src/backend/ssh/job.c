/* SPDX-License-Identifier: Apache-2.0 */
/* backend/ssh/job.c - one run on another host.
 *
 *   connecting -> started -> (signalled) -> ended
 *
 * Connecting: the client has the wrapper's text, what the remote shells print before the wrapper's
 * marks is dropped, the code is on its way. Started: the mark is there; from here on stdout and
 * stdin are the conductor's, stderr passes through the relay. A signal is a second session over the
 * same connection. Ended: the client is gone and the relay is empty. The command's end is what the
 * wrapper said; a client that goes without a word from it has lost the connection. */
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>

#include "backend/ssh/ssh.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/num.h"
#include "base/str.h"
#include "model/code.h"

#define TEXT_MAX ((size_t)32 << 20)
#define ONE_LINE_MAX 3000 /* the longest text that is worth reading byte by byte */
#define READER_ROOM 96
#define SLICE_MS 100
#define START_SLACK_MS 5000
#define KILL_PATIENCE_S 5
#define LOST_PATIENCE_MS 4000
#define ABANDON_PATIENCE_MS 2500
#define NOISE_MAX ((size_t)1 << 20) /* before the first mark */

struct backend_job {
	struct backend_plan *plan; /* borrowed */
	char id[ID_ROOM];
	struct client client, killer, keeper;
	int leash; /* brig's end; a word on it lets the keeper go */
	int events, timer;
	struct relay relay;
	long pid; /* of the wrapper, and of its process group */
	bool marked_out, marked_err, relay_waits;
	bool killing, left;
	bool abandoned; /* it may begin over there, after brig stopped waiting for it */
	bool told;      /* the wrapper said how it ended */
	int status;
	struct buf report; /* of another brig */
};

static struct backend_job *job_free(struct backend_job *j);
DEFINE_CLEANUP(job, struct backend_job *, job_free)

/* Both ends of the client's streams, while they are being set up. */
struct ends {
	int in[2], out[2], err[2], shown[2];
};

static void ends_done(struct ends *p)
{
	int *all[] = { p->in, p->out, p->err, p->shown };

	for (size_t i = 0; i < ARRAY_LEN(all); i++) {
		all[i][0] = fd_close(all[i][0]);
		all[i][1] = fd_close(all[i][1]);
	}
}

static int ends_open(struct ends *p, struct err *e)
{
	if (pipe2(p->in, O_CLOEXEC) < 0 || pipe2(p->out, O_CLOEXEC) < 0 ||
	    pipe2(p->err, O_CLOEXEC) < 0 ||
	    socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, p->shown) < 0)
		return err_sys(e, "cannot make a pipe");
	return 0;
}

/* The text as a client's whole input, and the command line that reads it. */
static int as_input(const struct buf *text, char reader[READER_ROOM], struct err *e)
{
	CLEANUP(fd) int fd = memfd_create("brig-ssh-text", MFD_CLOEXEC);
	int r = fd < 0 ? -errno : fd_write_all(fd, text->data, text->len);

	remote_reader(text->len, text->len <= ONE_LINE_MAX, reader, READER_ROOM);
	if (r == 0 && lseek(fd, 0, SEEK_SET) < 0)
		r = -errno;
	return r < 0 ? (errno = -r, err_sys(e, "cannot keep the text")) : TAKE_FD(fd);
}

/* A second session, for a signal; with a leash it waits for brig's death first. */
static int start_killer(struct backend_job *j, int sig, int leash, bool hurry, struct client *c,
			struct err *e)
{
	static const char *const quick[] = { "-o", "ConnectTimeout=3", "-o", "ControlMaster=no",
					     NULL };
	static const char *const plain[] = { "-o", "ControlMaster=no", NULL };
	CLEANUP(buf) struct buf text = BUF_INIT(TEXT_MAX);
	char reader[READER_ROOM];
	struct client_want w = { .reader = reader,
				 .out = -1,
				 .err = -1,
				 .leash = leash,
				 .more = hurry ? quick : plain };
	CLEANUP(fd) int in = -1;

	remote_signal(j->id, j->pid, sig, leash >= 0, &text);
	in = as_input(&text, reader, e);
	if (in < 0)
		return -e->code;
	w.in = in;
	return client_start(j->plan, &w, c, e);
}

static int start_keeper(struct backend_job *j, struct err *e)
{
	CLEANUP(fd) int theirs = -1;
	int ends[2];

	if (pipe2(ends, O_CLOEXEC) < 0)
		return err_sys(e, "cannot make a pipe");
	theirs = ends[0];
	j->leash = ends[1];
	return start_killer(j, SIGKILL, theirs, false, &j->keeper, e);
}

/* ---- connecting ---- */

/* What goes before the command's own input: the wrapper's text, then the code. */
struct prefix {
	struct buf text;
	const char *code;
	size_t code_size, sent;
};

/* 1 when all of it is on its way, or nobody reads it any more. */
static int send_prefix(struct prefix *x, int fd)
{
	while (x->sent < x->text.len + x->code_size) {
		bool first = x->sent < x->text.len;
		const char *at = first ? x->text.data + x->sent : x->code + (x->sent - x->text.len);
		size_t left =
			first ? x->text.len - x->sent : x->code_size - (x->sent - x->text.len);
		ssize_t n = write(fd, at, left);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return errno == EAGAIN ? 0 : 1;
		x->sent += (size_t)n;
	}
	return 1;
}

/* Drops login noise up to the mark, byte by byte: what follows it is the command's. */
static int find_mark(struct backend_job *j, int fd, size_t *noise, size_t *matched)
{
	size_t want = strlen(j->relay.mark);
	char c;

	for (;;) {
		ssize_t n = read(fd, &c, 1);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 && errno == EAGAIN ? 0 : -EPIPE;
		if (++*noise > NOISE_MAX)
			return -E2BIG;
		if (*matched == want && c == '\n') {
			j->marked_out = true;
			return 0;
		}
		*matched = *matched < want && c == j->relay.mark[*matched] ? *matched + 1
			   : c == MARK                                     ? 1
									   : 0;
	}
}

static int refuse(struct backend_job *j, const char *line, struct err *e)
{
	const struct backend_plan *p = j->plan;
	const char *host = p->spec->ssh.host, *name = p->command[0];

	switch (line[0]) {
	case 'D':
		return err_set(e, ERR_USAGE, ENOENT, "'%.60s' has no folder '%.200s'", host,
			       p->spec->ssh.remote_cwd),
		       err_hint(e, "ssh.remote_cwd is a path on the remote host");
	case 'N':
		if (p->brig)
			return err_set(e, ERR_UNAVAILABLE, ENOENT, "'%.60s' has no brig", host),
			       err_hint(e, "install it there, or use ssh.remote plain, which is "
					   "no sandbox");
		return err_set(e, ERR_NOT_FOUND, ENOENT, "'%.200s': command not found on '%.60s'",
			       name, host);
	case 'X':
		return err_set(e, ERR_NOT_EXECUTABLE, EACCES, "'%.200s': not executable on '%.60s'",
			       name, host);
	case 'V':
		return err_set(e, ERR_UNAVAILABLE, EPROTO, "'%.60s' has '%.40s', this is brig %s",
			       host, line + 2, BRIG_VERSION),
		       err_hint(e, "install the same version there");
	default:
		return err_set(e, ERR_INTERNAL, EPROTO, "'%.60s' said '%.40s'", host, line);
	}
}

/* What the wrapper says before the command runs. 1: it runs. */
static int hear(struct backend_job *j, struct err *e)
{
	while (relay_move(&j->relay) == SAID_LINE) {
		const char *line = buf_str(&j->relay.line) + 1; /* behind the blank */
		uint64_t pid;

		if (line[0] != 'S')
			return refuse(j, line, e);
		if (num_count(line + 2, &pid) < 0 || pid < 2 || pid > INT_MAX)
			return err_set(e, ERR_INTERNAL, EPROTO, "'%.40s' is no process", line);
		j->pid = (long)pid;
		j->marked_err = true;
		j->relay.drop = false;
		return 0;
	}
	return 0;
}

static bool caller_interrupts(void)
{
	sigset_t set;

	return sigpending(&set) == 0 && (sigismember(&set, SIGINT) || sigismember(&set, SIGTERM) ||
					 sigismember(&set, SIGHUP));
}

static int overdue(const struct backend_plan *p, struct err *e)
{
	if (caller_interrupts())
		return err_set(e, ERR_UNAVAILABLE, ECANCELED,
			       "interrupted while connecting to '%.60s'", p->spec->ssh.host);
	return err_set(e, ERR_UNAVAILABLE, ETIMEDOUT, "'%.60s' did not answer in time",
		       p->spec->ssh.host),
	       err_hint(e, "raise ssh.connect_timeout, or try: ssh %.60s true", p->spec->ssh.host);
}

static int connect_all(struct backend_job *j, struct ends *ends, struct prefix *x, struct err *e)
{
	uint64_t until =
		clock_us() + (j->plan->spec->ssh.connect_timeout + START_SLACK_MS) * (uint64_t)1000;
	size_t noise = 0, matched = 0;
	bool sent = false;

	while (!j->marked_out || !j->marked_err || !sent) {
		struct pollfd p[] = { { .fd = j->marked_err ? -1 : j->relay.from,
					.events = POLLIN },
				      { .fd = j->marked_out ? -1 : ends->out[0], .events = POLLIN },
				      { .fd = sent ? -1 : ends->in[1], .events = POLLOUT },
				      { .fd = j->client.pidfd, .events = POLLIN } };

		j->abandoned = clock_us() > until || caller_interrupts();
		if (j->abandoned)
			return overdue(j->plan, e);
		if (poll(p, ARRAY_LEN(p), SLICE_MS) < 0 && errno != EINTR)
			return err_sys(e, "cannot wait for ssh");
		sent = sent || send_prefix(x, ends->in[1]) == 1;
		if (!j->marked_err && hear(j, e) < 0)
			return -e->code;
		if (!j->marked_out && find_mark(j, ends->out[0], &noise, &matched) == -E2BIG)
			return err_set(e, ERR_UNAVAILABLE, EPROTO,
				       "'%.60s' prints more than brig reads when one logs in",
				       j->plan->spec->ssh.host);
		/* Gone before the marks: a short command has set both before it went. */
		if (p[3].revents && (!j->marked_out || !j->marked_err))
			return client_explain(j->plan, &j->client, true, e);
		if (p[3].revents)
			break;
	}
	return 0;
}

static int prepare(struct backend_job *j, struct prefix *x, char reader[READER_ROOM], struct err *e)
{
	const struct spec *s = j->plan->spec;

	x->text = (struct buf)BUF_INIT(TEXT_MAX);
	remote_run(j->plan, j->id, &x->text);
	if (x->text.failed)
		return err_set(e, ERR_USAGE, E2BIG, "the command is too long");
	remote_reader(x->text.len,
		      x->text.len <= ONE_LINE_MAX && memchr(x->text.data, '\n', x->text.len) ==
							     x->text.data + x->text.len - 1,
		      reader, READER_ROOM);
	if (code_is_file(s)) {
		x->code = s->code.text;
		x->code_size = s->code.size;
	}
	return 0;
}

static int add_event(const struct backend_job *j, int fd, uint32_t events)
{
	struct epoll_event ev = { .events = events, .data.fd = fd };

	return epoll_ctl(j->events, EPOLL_CTL_ADD, fd, &ev);
}

static int listen_events(struct backend_job *j, struct err *e)
{
	j->events = epoll_create1(EPOLL_CLOEXEC);
	j->timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	if (j->events < 0 || j->timer < 0 || add_event(j, j->client.pidfd, EPOLLIN) < 0 ||
	    add_event(j, j->timer, EPOLLIN) < 0 ||
	    (j->relay.from >= 0 && add_event(j, j->relay.from, EPOLLIN) < 0))
		return err_sys(e, "cannot listen to ssh");
	return 0;
}

static struct backend_job *job_new(struct backend_plan *p, const char *id)
{
	struct backend_job *j = calloc(1, sizeof(*j));

	if (!j)
		return NULL;
	j->plan = p;
	(void)snprintf(j->id, sizeof(j->id), "%s", id);
	j->client = j->killer = j->keeper = (struct client)CLIENT_NONE;
	j->leash = j->events = j->timer = j->relay.from = j->relay.to = -1;
	j->report = (struct buf)BUF_INIT((size_t)1 << 20);
	return j;
}

static int begin(struct backend_job *j, struct ends *ends, struct err *e)
{
	char reader[READER_ROOM];
	struct client_want w = { .reader = reader, .leash = -1 };
	struct prefix x = { 0 };
	int r;

	if (client_folder(j->plan, e) < 0 || ends_open(ends, e) < 0 || start_keeper(j, e) < 0 ||
	    prepare(j, &x, reader, e) < 0)
		return buf_done(&x.text), -e->code;
	w.in = ends->in[0];
	w.out = ends->out[1];
	w.err = ends->err[1];
	r = client_start(j->plan, &w, &j->client, e);
	ends->in[0] = fd_close(ends->in[0]);
	ends->out[1] = fd_close(ends->out[1]);
	ends->err[1] = fd_close(ends->err[1]);
	relay_init(&j->relay, TAKE_FD(ends->err[0]), TAKE_FD(ends->shown[1]), j->id);
	(void)fcntl(ends->out[0], F_SETFL, O_NONBLOCK);
	(void)fcntl(ends->in[1], F_SETFL, O_NONBLOCK);
	if (r == 0)
		r = connect_all(j, ends, &x, e);
	buf_done(&x.text);
	return r;
}

static int ssh_start(struct backend_plan *p, const struct job_want *w, struct job_io *io,
		     struct backend_job **ret, struct err *e)
{
	CLEANUP(job) struct backend_job *j = job_new(p, w->id);
	struct ends ends = { { -1, -1 }, { -1, -1 }, { -1, -1 }, { -1, -1 } };
	sigset_t pipe, old;
	int r;

	if (!j)
		return err_nomem(e);
	/* A client that dies at once must not take the caller along, nor change its handlers. */
	(void)sigemptyset(&pipe);
	(void)sigaddset(&pipe, SIGPIPE);
	(void)pthread_sigmask(SIG_BLOCK, &pipe, &old);
	r = begin(j, &ends, e);
	while (!sigismember(&old, SIGPIPE) &&
	       sigtimedwait(&pipe, NULL, &(struct timespec){ 0 }) > 0)
		;
	(void)pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (r == 0)
		r = listen_events(j, e);
	if (r == 0) {
		(void)fcntl(ends.out[0], F_SETFL, 0);
		(void)fcntl(ends.in[1], F_SETFL, 0);
		*io = (struct job_io){ .in = w->no_input ? -1 : TAKE_FD(ends.in[1]),
				       .out = TAKE_FD(ends.out[0]),
				       .err = TAKE_FD(ends.shown[0]),
				       .in_peer = -1,
				       .events = j->events,
				       .alarm = -1 };
	}
	ends_done(&ends);
	if (r < 0)
		return r;
	*ret = TAKE_PTR(j);
	return 0;
}

/* ---- running ---- */

static void on_line(struct backend_job *j)
{
	const char *line = buf_str(&j->relay.line) + 1;
	uint64_t v;

	if (line[0] == 'E' && num_count(line + 2, &v) == 0 && v < 256) {
		j->told = true;
		j->status = (int)v;
	} else if (line[0] == 'J') {
		j->told = true;
		buf_add(&j->report, line + 2, strlen(line + 2));
	}
}

/* Listens to the goal of the relay while output waits for it. */
static void follow(struct backend_job *j)
{
	bool waits = !relay_flushed(&j->relay);

	if (waits == j->relay_waits)
		return;
	j->relay_waits = waits;
	if (waits)
		(void)add_event(j, j->relay.to, EPOLLOUT);
	else if (j->relay.to >= 0)
		(void)epoll_ctl(j->events, EPOLL_CTL_DEL, j->relay.to, NULL);
	if (j->relay.from < 0)
		return;
	if (waits)
		(void)epoll_ctl(j->events, EPOLL_CTL_DEL, j->relay.from, NULL);
	else
		(void)add_event(j, j->relay.from, EPOLLIN);
}

/* The other side cannot be told, or does not obey: the connection goes, and the outcome says so. */
static void give_up(struct backend_job *j)
{
	uint64_t ticks;

	if (read(j->timer, &ticks, sizeof(ticks)) != sizeof(ticks))
		return;
	j->left = true;
	(void)syscall(SYS_pidfd_send_signal, j->client.pidfd, SIGKILL, NULL, 0);
}

static enum job_event ssh_event(struct backend_job *j, bool alarm, struct outcome *o)
{
	bool gone = client_ended(&j->client);

	(void)alarm;
	(void)o;
	give_up(j);
	while (relay_move(&j->relay) == SAID_LINE)
		on_line(j);
	follow(j);
	return gone && relay_flushed(&j->relay) ? JOB_ENDED : JOB_NOTHING;
}

static void ssh_signal(struct backend_job *j, int sig)
{
	const struct itimerspec patience = { .it_value.tv_sec = KILL_PATIENCE_S };
	struct err e;

	if (sig == SIGKILL && j->killing)
		return;
	if (sig == SIGKILL) {
		j->killing = true;
		(void)timerfd_settime(j->timer, 0, &patience, NULL);
	}
	client_done(&j->killer);
	if (start_killer(j, sig, -1, false, &j->killer, &e) < 0 && sig == SIGKILL)
		(void)syscall(SYS_pidfd_send_signal, j->client.pidfd, SIGKILL, NULL, 0);
}

/* ---- the end ---- */

/* The connection went while the command ran: once more over a new one, if that can be had soon. */
static void end_remotely(struct backend_job *j)
{
	struct pollfd p = { .events = POLLIN };
	struct err e;

	client_done(&j->killer);
	if (start_killer(j, SIGKILL, -1, true, &j->killer, &e) < 0) {
		j->left = true;
		return;
	}
	p.fd = j->killer.pidfd;
	if (poll(&p, 1, LOST_PATIENCE_MS) <= 0 || client_reap(&j->killer, false) != 0)
		j->left = true;
}

/* A shell calls both "exit 137" and a SIGKILL 137; the second is the likelier one by far. */
static void judge_status(int status, struct outcome *o)
{
	if (status > 128 && status < 128 + 65) {
		o->kind = OUTCOME_SIGNALLED;
		o->signal = status - 128;
	} else {
		o->kind = OUTCOME_EXITED;
		o->exit_code = status;
	}
}

static void judge(struct backend_job *j, struct outcome *o)
{
	struct err e = { 0 };

	/* A report cut short by our own kill is no news. */
	if (j->report.len && report_read(j->report.data, j->report.len, o, &e) < 0 &&
	    o->kind == OUTCOME_FAILED)
		o->error = e;
	if (j->report.len && o->error.code)
		(void)err_wrap(&o->error, "on '%.60s'", j->plan->spec->ssh.host);
	if (o->kind != OUTCOME_FAILED || j->report.len)
		return;
	if (j->told)
		judge_status(j->status, o);
	else
		(void)client_explain(j->plan, &j->client, false, &o->error);
}

static void describe(struct isolation *i)
{
	*i = (struct isolation){ .cgroup = "none",
				 .network = fields[FIELD_NETWORK].words[NETWORK_HOST],
				 .uid_inside = geteuid(),
				 .gid_inside = getegid() };
}

/* A keeper that has work to do outlives a brig that cannot wait for it. */
static void release_keeper(struct backend_job *j)
{
	struct pollfd p = { .fd = j->keeper.pidfd, .events = POLLIN };

	if (j->leash >= 0 && !j->abandoned)
		(void)!write(j->leash, "q", 1);
	if (j->abandoned) {
		j->leash = fd_close(j->leash);
		if (poll(&p, 1, ABANDON_PATIENCE_MS) <= 0)
			j->keeper.pid = -1;
	}
	(void)client_reap(&j->keeper, j->leash < 0 && !j->abandoned);
	client_done(&j->keeper);
	j->leash = fd_close(j->leash);
}

static struct backend_job *job_free(struct backend_job *j)
{
	if (!j)
		return NULL;
	client_done(&j->client);
	client_done(&j->killer);
	release_keeper(j);
	relay_done(&j->relay);
	(void)fd_close(j->events);
	(void)fd_close(j->timer);
	buf_done(&j->report);
	free(j);
	return NULL;
}

static void ssh_finish(struct backend_job *j, struct outcome *o)
{
	(void)client_reap(&j->client, !client_ended(&j->client));
	while (relay_move(&j->relay) == SAID_LINE)
		on_line(j);
	describe(&o->isolation);
	if (!j->told)
		end_remotely(j);
	judge(j, o);
	if (j->left)
		outcome_deny(o, "process", j->plan->spec->ssh.host,
			     "something of the run may still be there: it could not be ended");
	(void)job_free(j);
}

static int ssh_probe(const struct spec *s, struct isolation *ret, struct err *e)
{
	CLEANUP(spec) struct spec *copy = s ? spec_clone(s, e) : spec_new(e);
	CLEANUP(ssh_plan) struct backend_plan *p = NULL;
	CLEANUP(job) struct backend_job *j = NULL;
	const char *const argv[] = { "true", NULL };
	char id[ID_ROOM];
	struct job_want w = { .no_input = true, .id = id };
	struct job_io io;

	if (!copy)
		return -e->code;
	copy->argv = argv;
	copy->code = (struct code_spec){ 0 };
	(void)snprintf(id, sizeof(id), "probe%d", getpid());
	if (ssh_plan(copy, &p, NULL, e) < 0 || ssh_start(p, &w, &io, &j, e) < 0)
		return -e->code;
	(void)fd_close(io.out);
	(void)fd_close(io.err);
	describe(ret);
	return 0;
}

const struct backend backend_ssh = {
	.name = "ssh",
	.kind = BACKEND_SSH,
	.bit = ON_SSH,
	.probe = ssh_probe,
	.plan = ssh_plan,
	.plan_json = ssh_plan_json,
	.plan_free = ssh_plan_free,
	.start = ssh_start,
	.event = ssh_event,
	.signal = ssh_signal,
	.finish = ssh_finish,
};
