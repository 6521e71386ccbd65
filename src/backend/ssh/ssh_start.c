/* SPDX-License-Identifier: Apache-2.0 */
/* backend/ssh/ssh_start.c - from a plan to a command that runs on the other side.
 *
 * The client gets the wrapper's text; what the remote shells print before the wrapper's marks is
 * dropped; the code is sent on. All of it has a time limit, and a signal for the caller ends it. */
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/timerfd.h>

#include "backend/kit/process/ends.h"
#include "backend/ssh/ssh_job.h"
#include "base/bytes/random.h"
#include "base/files/fd.h"
#include "base/sys/clock.h"
#include "base/sys/signals.h"
#include "base/sys/wait.h"
#include "base/text/num.h"
#include "base/text/str.h"

#define TEXT_MAX ((size_t)32 << 20)
#define ONE_LINE_MAX 3000 /* the longest text that is worth reading byte by byte */
#define READER_ROOM 96
#define SLICE_MS 100
#define START_SLACK_MS 5000
#define NOISE_MAX ((size_t)1 << 20) /* before the first mark */

/* The client always has all three streams. What it says on stderr passes the relay, and what is
 * left of it reaches the conductor through `control`: a stream here, with room of its own. */
static int open_ends(struct ends *p, struct err *e)
{
	if (pipe2(p->in, O_CLOEXEC) < 0 || pipe2(p->out, O_CLOEXEC) < 0 ||
	    pipe2(p->err, O_CLOEXEC) < 0 ||
	    socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, p->control) < 0)
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
	if (r < 0)
		return err_errno(e, r, "cannot keep the text");
	return TAKE_FD(fd);
}

static int ssh_job_say(struct backend_job *j, const struct buf *text, int leash, bool hurry,
		       struct ssh_client *c, struct err *e)
{
	static const char *const quick[] = { "-o", "ConnectTimeout=3", "-o", "ControlMaster=no",
					     NULL };
	static const char *const plain[] = { "-o", "ControlMaster=no", NULL };
	char reader[READER_ROOM];
	struct client_want w = { .reader = reader,
				 .out = -1,
				 .err = -1,
				 .leash = leash,
				 .more = hurry ? quick : plain };
	CLEANUP(fd) int in = -1;

	w.in = in = as_input(text, reader, e);
	return in < 0 ? -e->code : client_start(j->plan, &w, c, e);
}

int ssh_job_signal(struct backend_job *j, int sig, int leash, bool hurry, struct ssh_client *c,
		   struct err *e)
{
	CLEANUP(buf) struct buf text = BUF_INIT(TEXT_MAX);
	const struct remote_goal g = { .id = j->id, .pid = j->pid, .keeps = j->plan->keeps };

	remote_signal(&g, sig, leash >= 0, &text);
	return ssh_job_say(j, &text, leash, hurry, c, e);
}

static int start_keeper(struct backend_job *j, struct err *e)
{
	CLEANUP(fd) int theirs = -1;
	int ends[2];

	if (pipe2(ends, O_CLOEXEC) < 0)
		return err_sys(e, "cannot make a pipe");
	theirs = ends[0];
	j->leash = ends[1];
	return ssh_job_signal(j, SIGKILL, theirs, false, &j->keeper, e);
}

/* What goes before the command's own input: the wrapper's text, then the code. */
struct prefix {
	struct buf text;
	const char *code;
	size_t code_size, sent;
};

/* 1 when all of it is on its way, or its reader is gone. */
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
	const char mark = MARK, *nonce = j->nonces.begin;
	size_t want = 1 + strlen(nonce);
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
		*matched = *matched && *matched < want && c == nonce[*matched - 1] ? *matched + 1
			   : c == mark                                             ? 1
										   : 0;
	}
}

static int ssh_start_refuse(struct backend_job *j, const char *line, struct err *e)
{
	const struct backend_plan *p = j->plan;
	const char *host = p->ssh.host, *name = p->command[0];

	switch (line[0]) {
	case 'D':
		return err_refuse(e, ERR_USAGE, ENOENT,
				  "ssh.remote_cwd is a path on the remote host",
				  "'%.60s' has no folder '%.200s'", host, p->cwd);
	case 'N':
		if (p->brig)
			return err_refuse(e, ERR_UNAVAILABLE, ENOENT,
					  "install it there, or use ssh.remote plain, which is "
					  "no sandbox",
					  "'%.60s' has no brig", host);
		return err_refuse(e, ERR_NOT_FOUND, ENOENT,
				  "correct the name, or the PATH of a login there",
				  "'%.200s': command not found on '%.60s'", name, host);
	case 'X':
		return err_refuse(e, ERR_NOT_EXECUTABLE, EACCES,
				  "it must be a file that may be executed: chmod +x, or name its "
				  "interpreter in front",
				  "'%.200s': not executable on '%.60s'", name, host);
	case 'V':
		return err_refuse(e, ERR_UNAVAILABLE, EPROTO, "install the same version there",
				  "'%.60s' has '%.40s', this is brig %s", host, line + 2,
				  BRIG_VERSION);
	default:
		return err_set(e, ERR_INTERNAL, EPROTO, "'%.60s' said '%.40s'", host, line);
	}
}

/* What the wrapper says before the command runs. 1: it runs. */
static int ssh_start_hear(struct backend_job *j, struct err *e)
{
	while (relay_move(&j->relay) == SAID_LINE) {
		const char *line = buf_str(&j->relay.line) + 1; /* behind the blank */
		uint64_t pid;

		if (line[0] != 'S')
			return ssh_start_refuse(j, line, e);
		if (num_count(line + 2, &pid) < 0 || pid < 2 || pid > INT_MAX)
			return err_set(e, ERR_INTERNAL, EPROTO, "'%.40s' is no process", line);
		j->pid = (long)pid;
		j->marked_err = true;
		if (j->outcome)
			j->outcome->started = true;
		relay_expect_end(&j->relay, j->nonces.end, j->plan->brig && !j->plan->keeps);
		return 0;
	}
	return 0;
}

bool ssh_interrupted(void)
{
	sigset_t set;

	return sigpending(&set) == 0 && (sigismember(&set, SIGINT) || sigismember(&set, SIGTERM) ||
					 sigismember(&set, SIGHUP));
}

int ssh_overdue(const struct backend_plan *p, struct err *e)
{
	if (ssh_interrupted())
		return err_set(e, ERR_UNAVAILABLE, ECANCELED,
			       "interrupted while connecting to '%.60s'", p->ssh.host);
	(void)err_set(e, ERR_UNAVAILABLE, ETIMEDOUT, "'%.60s' did not answer in time", p->ssh.host);
	return err_hint(e, "raise ssh.connect_timeout, or try: ssh %.60s true", p->ssh.host);
}

static int connect_all(struct backend_job *j, struct ends *ends, struct prefix *x, struct err *e)
{
	uint64_t until =
		clock_us() + (j->plan->ssh.connect_timeout + START_SLACK_MS) * (uint64_t)1000;
	size_t noise = 0, matched = 0;
	bool sent = false;

	while (!j->marked_out || !j->marked_err || !sent) {
		struct pollfd p[] = { { .fd = j->marked_err ? -1 : j->relay.from,
					.events = POLLIN },
				      { .fd = j->marked_out ? -1 : ends->out[0], .events = POLLIN },
				      { .fd = sent ? -1 : ends->in[1], .events = POLLOUT },
				      { .fd = j->client.pidfd, .events = POLLIN } };

		j->abandoned = clock_us() > until || ssh_interrupted();
		if (j->abandoned)
			return ssh_overdue(j->plan, e);
		if (wait_any(p, ARRAY_LEN(p), clock_after(SLICE_MS)) < 0)
			return err_sys(e, "cannot wait for ssh");
		sent = sent || send_prefix(x, ends->in[1]) == 1;
		if (!j->marked_err && ssh_start_hear(j, e) < 0)
			return -e->code;
		if (!j->marked_out && find_mark(j, ends->out[0], &noise, &matched) == -E2BIG)
			return err_set(e, ERR_UNAVAILABLE, EPROTO,
				       "'%.60s' prints more than brig reads when one logs in",
				       j->plan->ssh.host);
		/* Gone before the marks: a short command has set both before it went. */
		if (p[3].revents && (!j->marked_out || !j->marked_err))
			return client_explain(j->plan, &j->client, true, e);
		if (p[3].revents)
			break;
	}
	return 0;
}

static int ssh_start_prepare(struct backend_job *j, struct prefix *x, char reader[READER_ROOM],
			     struct err *e)
{
	x->text = (struct buf)BUF_INIT(TEXT_MAX);
	remote_run(j->plan, j->id, &j->nonces, &x->text);
	if (x->text.failed)
		return err_set(e, ERR_USAGE, E2BIG, "the command is too long");
	remote_reader(x->text.len,
		      x->text.len <= ONE_LINE_MAX && memchr(x->text.data, '\n', x->text.len) ==
							     x->text.data + x->text.len - 1,
		      reader, READER_ROOM);
	if (j->plan->code) {
		x->code = j->plan->code;
		x->code_size = j->plan->code_size;
	}
	return 0;
}

int ssh_job_listen(const struct backend_job *j, int fd, uint32_t events)
{
	struct epoll_event ev = { .events = events, .data.fd = fd };

	return epoll_ctl(j->events, EPOLL_CTL_ADD, fd, &ev);
}

static int listen_events(struct backend_job *j, struct err *e)
{
	j->events = epoll_create1(EPOLL_CLOEXEC);
	j->timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	if (j->events < 0 || j->timer < 0 || ssh_job_listen(j, j->client.pidfd, EPOLLIN) < 0 ||
	    ssh_job_listen(j, j->timer, EPOLLIN) < 0 ||
	    (j->relay.from >= 0 && ssh_job_listen(j, j->relay.from, EPOLLIN) < 0))
		return err_sys(e, "cannot listen to ssh");
	return 0;
}

struct backend_job *ssh_job_new(struct backend_plan *p, const char *id)
{
	struct backend_job *j = calloc(1, sizeof(*j));

	if (!j)
		return NULL;
	j->plan = p;
	(void)snprintf(j->id, sizeof(j->id), "%s", id);
	j->client = j->killer = j->keeper = (struct ssh_client)CLIENT_NONE;
	j->leash = j->events = j->timer = j->relay.from = j->relay.to = -1;
	j->report = (struct buf)BUF_INIT((size_t)REPORT_MAX);
	return j;
}

/* ssh goes on without it and tries other keys. */
static int check_identity(const struct ssh_spec *s, struct err *e)
{
	if (!s->identity_file || access(s->identity_file, R_OK) == 0)
		return 0;
	(void)err_sys(e, "cannot read ssh.identity_file '%.200s'", s->identity_file);
	e->kind = ERR_CONFIG;
	return err_hint(e, "name the file of the private key, or leave it to ~/.ssh/config");
}

static int ssh_start_begin(struct backend_job *j, struct ends *ends, struct err *e)
{
	char reader[READER_ROOM];
	struct client_want w = { .reader = reader, .leash = -1 };
	struct prefix x = { 0 };
	int r;

	if (random_hex(j->nonces.begin, sizeof(j->nonces.begin), e) < 0 ||
	    random_hex(j->nonces.end, sizeof(j->nonces.end), e) < 0 ||
	    check_identity(&j->plan->ssh, e) < 0 || client_folder(j->plan, e) < 0 ||
	    open_ends(ends, e) < 0 || start_keeper(j, e) < 0 ||
	    ssh_start_prepare(j, &x, reader, e) < 0)
		return buf_done(&x.text), -e->code;
	w.in = ends->in[0];
	w.out = ends->out[1];
	w.err = ends->err[1];
	r = client_start(j->plan, &w, &j->client, e);
	ends->in[0] = fd_close(ends->in[0]);
	ends->out[1] = fd_close(ends->out[1]);
	ends->err[1] = fd_close(ends->err[1]);
	relay_init(&j->relay, TAKE_FD(ends->err[0]), TAKE_FD(ends->control[1]), j->nonces.begin);
	(void)fcntl(ends->out[0], F_SETFL, O_NONBLOCK);
	(void)fcntl(ends->in[1], F_SETFL, O_NONBLOCK);
	if (r == 0)
		r = connect_all(j, ends, &x, e);
	buf_done(&x.text);
	return r;
}

int ssh_job_start(struct backend_plan *p, const struct job_want *w, struct job_io *io,
		  struct backend_job **ret, struct err *e)
{
	CLEANUP(ssh_job) struct backend_job *j = ssh_job_new(p, w->id);
	struct ends ends = ENDS_NONE;
	sigset_t before;
	int r;

	if (!j)
		return err_nomem(e);
	if (!p->command)
		return err_set(e, ERR_USAGE, EINVAL, "no command given");
	j->outcome = w->outcome;
	j->isolation = w->isolation;
	/* A client that dies at once must not take the caller along, nor change its handlers. */
	signals_hold_pipe(&before);
	r = ssh_start_begin(j, &ends, e);
	signals_release_pipe(&before);
	if (r == 0)
		r = listen_events(j, e);
	if (r == 0) {
		(void)fcntl(ends.out[0], F_SETFL, 0);
		(void)fcntl(ends.in[1], F_SETFL, 0);
		io->in = w->no_input ? -1 : ends.in[1];
		ends.in[1] = w->no_input ? ends.in[1] : -1;
		io->out = TAKE_FD(ends.out[0]);
		io->err = TAKE_FD(ends.control[0]);
		io->events = j->events;
		io->in_peer = io->alarm = io->names = io->agent = -1;
	}
	ends_done(&ends);
	if (r < 0)
		return r;
	*ret = TAKE_PTR(j);
	return 0;
}
