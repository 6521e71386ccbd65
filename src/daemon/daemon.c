/* SPDX-License-Identifier: Apache-2.0 */
/* daemon/daemon.c - see daemon.h: puts the parts together, in this order: lock, state, sandboxes,
 * listeners. Whoever can connect finds a daemon that knows its sandboxes. */
#include "daemon/daemon.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "base/files/exposed.h"
#include "base/files/fd.h"
#include "base/files/state.h"
#include "base/sys/clock.h"
#include "base/sys/signals.h"
#include "base/text/str.h"
#include "daemon/api/api.h"
#include "daemon/api/subprocess.h"
#include "daemon/service.h"
#include "daemon/tls_front.h"
#include "http/tcp_listen.h"

#define BACKLOG 512
#define PRUNE_US ((uint64_t)3600 * 1000000)
#define TENANT_LIFE_S ((uint64_t)30 * 24 * 3600)
#define REVOKE_US ((uint64_t)1000 * 1000)
#define TLS_AGAIN_US ((uint64_t)1000 * 1000)

struct brigd {
	struct loop_watch signals; /* first */
	struct loop_timer prune, revoke, tls_again;
	struct loop_watch tls_word; /* of one that has not said whether it began; -1: none */
	struct tls_front tls;
	int state, lock, signal_fd, tls_fd; /* tls_fd: what brig-tls listens on */
	char socket[sizeof(((struct sockaddr_un *)0)->sun_path)]; /* ours to remove; "" if not */
	struct api api;
	char where[96]; /* that TCP is listened on; "": it is not */
	void (*listens)(const char *where);
};

static void daemon_stop(void *arg)
{
	loop_stop(((struct brigd *)arg)->api.loop);
}

static void daemon_on_signal(struct loop_watch *w, uint32_t events UNUSED)
{
	daemon_stop((struct brigd *)w);
}

/* Whoever has a sandbox is there. A name with '@' is of the owner's making and has no token, and
 * where there is no file of tokens nobody knows which are left: those go by their age alone. */
static bool daemon_is_gone(void *arg, const char *tenant, uint64_t idle_s)
{
	const struct api *a = arg;
	struct sandbox_count n;

	sandboxes_count(a->boxes, tenant, &n);
	if (n.pending + n.ready + n.failed + n.paused + n.stopped)
		return false;
	return idle_s > TENANT_LIFE_S ||
	       (tenant[0] != '@' && a->tokens && tokens_lacks(a->tokens, tenant));
}

/* Soon again while somebody writes to the file of tokens. */
static void forget_tenants(struct brigd *d, uint64_t now)
{
	struct api *a = &d->api;

	events_forget(a->events, daemon_is_gone, a);
	loop_at(a->loop, &d->prune,
		now + (a->tokens && !tokens_settled(a->tokens) ? REVOKE_US : PRUNE_US));
}

static void on_prune(struct loop_timer *t, uint64_t now)
{
	struct brigd *d = CONTAINER_OF(t, struct brigd, prune);

	once_prune(d->api.once);
	forget_tenants(d, now);
}

static void on_revoke(struct loop_timer *t, uint64_t now)
{
	struct brigd *d = CONTAINER_OF(t, struct brigd, revoke);

	api_revoke(&d->api);
	loop_at(d->api.loop, t, now + REVOKE_US);
}

static void daemon_settle(void *arg)
{
	http_settle(arg);
}

/* ---- beginning ---- */

static int take_signals(struct brigd *d, struct err *e)
{
	const struct sigaction ignore = { .sa_handler = SIG_IGN };

	signals_ignore_pipe();
	(void)sigaction(SIGXFSZ, &ignore, NULL);
	d->signal_fd = signals_open(SIGNALS_END);
	if (d->signal_fd < 0)
		return err_sys(e, "cannot listen to signals");
	d->signals = (struct loop_watch){ .fd = d->signal_fd, .ready = daemon_on_signal };
	return loop_want(d->api.loop, &d->signals, EPOLLIN) < 0
		       ? err_set(e, ERR_INTERNAL, EIO, "cannot listen to signals")
		       : 0;
}

static int take_lock(struct brigd *d, struct err *e)
{
	struct flock whole = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
	char path[PATH_MAX];

	if (exposed_check_own(e) < 0)
		return -e->code;
	d->state = state_open("daemon", path, sizeof(path), e);
	if (d->state < 0)
		return d->state;
	d->lock = openat(d->state, "lock", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (d->lock < 0)
		return err_sys(e, "cannot open '%.200s/lock'", path);
	/* A lock of this process and of no copy: a monitor that is being started does not hold it.
	 */
	if (fcntl(d->lock, F_SETLK, &whole) < 0)
		return err_refuse(e, ERR_USAGE, EBUSY, "brig daemon status; brig daemon stop",
				  "a daemon runs already for '%.200s'", path);
	return 0;
}

/* ---- listening ---- */

static int unix_address(const char *path, struct sockaddr_un *a, struct err *e)
{
	*a = (struct sockaddr_un){ .sun_family = AF_UNIX };
	if (strlen(path) >= sizeof(a->sun_path))
		return err_refuse(e, ERR_CONFIG, ENAMETOOLONG, "BRIG_HOST=unix:///SHORTER/PATH",
				  "the path of socket '%.200s' is too long", path);
	memcpy(a->sun_path, path, strlen(path) + 1);
	return 0;
}

/* Removes a socket that nobody listens to; one that answers belongs to somebody. */
static int clear_socket(const struct sockaddr_un *a, struct err *e)
{
	CLEANUP(fd) int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct stat st;

	if (fd < 0)
		return err_sys(e, "cannot make a socket");
	if (lstat(a->sun_path, &st) < 0)
		return 0;
	if (!S_ISSOCK(st.st_mode))
		return err_set(e, ERR_CONFIG, EEXIST, "'%.100s' is there, and is not a socket",
			       a->sun_path);
	if (connect(fd, (const struct sockaddr *)a, sizeof(*a)) == 0 || errno == EAGAIN)
		return err_refuse(e, ERR_USAGE, EBUSY, "brig daemon status says which",
				  "another daemon listens on '%.100s'", a->sun_path);
	return unlink(a->sun_path) < 0 ? err_sys(e, "cannot remove '%.100s'", a->sun_path) : 0;
}

/* The socket exists with its mode from the first moment on: umask is 077. */
static int listen_local(struct brigd *d, const char *path, struct err *e)
{
	CLEANUP(fd) int fd = service_socket();
	struct sockaddr_un a;

	if (fd >= 0)
		return http_listen(d->api.http, TAKE_FD(fd), true, "", e);
	if (unix_address(path, &a, e) < 0 || clear_socket(&a, e) < 0)
		return -e->code;
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0 || bind(fd, (const struct sockaddr *)&a, sizeof(a)) < 0 ||
	    listen(fd, BACKLOG) < 0)
		return err_sys(e, "cannot listen on '%.100s'", path);
	(void)snprintf(d->socket, sizeof(d->socket), "%s", path);
	return http_listen(d->api.http, TAKE_FD(fd), true, "", e);
}

/* ---- brig-tls ----
 *
 *     serving → lost → begun, not heard of → serving
 *
 * It ended, by whatever it was sent or by hand, to read a new certificate: the next one begins, and
 * is tried again where it cannot. Nobody else is kept waiting for it. What was open is closed. */

static void on_tls_lost(void *arg)
{
	struct brigd *d = arg;

	tls_front_end(&d->tls);
	loop_at(d->api.loop, &d->tls_again, clock_us() + TLS_AGAIN_US);
}

static void tls_failed(struct brigd *d, const struct err *e)
{
	if (d->listens)
		d->listens(e->what);
	on_tls_lost(d);
}

/* The channel of one that was begun, or -1. */
static int tls_take(struct brigd *d)
{
	int channel = d->tls_word.fd;

	if (channel >= 0)
		(void)loop_want(d->api.loop, &d->tls_word, 0);
	d->tls_word.fd = -1;
	return channel;
}

static void on_tls_word(struct loop_watch *w, uint32_t events UNUSED)
{
	struct brigd *d = CONTAINER_OF(w, struct brigd, tls_word);
	CLEANUP(fd) int channel = tls_take(d);
	struct err e = { 0 };

	loop_at(d->api.loop, &d->tls_again, 0);
	if (tls_front_word(channel, &e) < 0 ||
	    http_listen_passed(d->api.http, TAKE_FD(channel), on_tls_lost, d, &e) < 0)
		tls_failed(d, &e);
}

static void on_tls_again(struct loop_timer *t, uint64_t now)
{
	struct brigd *d = CONTAINER_OF(t, struct brigd, tls_again);
	CLEANUP(fd) int late = tls_take(d);
	struct err e = { 0 };
	int channel;

	if (late >= 0) {
		(void)tls_front_late(&e);
		tls_failed(d, &e);
		return;
	}
	if (tls_front_begin(&d->tls, &channel, &e) < 0) {
		tls_failed(d, &e);
		return;
	}
	d->tls_word = (struct loop_watch){ .fd = channel, .ready = on_tls_word };
	loop_at(d->api.loop, t, now + (uint64_t)TLS_PATIENCE_MS * 1000);
	if (loop_want(d->api.loop, &d->tls_word, EPOLLIN) < 0)
		loop_at(d->api.loop, t, now); /* late at once */
}

/* At the start everybody waits: who can connect finds all of it. */
static int tls_begin(struct brigd *d, struct err *e)
{
	int channel;

	if (tls_front_start(&d->tls, &channel, e) < 0)
		return -e->code;
	return http_listen_passed(d->api.http, channel, on_tls_lost, d, e);
}

static int listen_tcp(struct brigd *d, const char *text, struct err *e)
{
	CLEANUP(fd) int fd = -1;
	char authority[TCP_AUTHORITY];

	fd = tcp_listen(text,
			d->tls.key ? NULL
				   : "--tls-cert FILE --tls-key FILE; or listen on 127.0.0.1 and "
				     "use ssh -L",
			authority, e);
	if (fd < 0)
		return fd;
	(void)snprintf(d->where, sizeof(d->where), "%s://%s", d->tls.key ? "https" : "http",
		       authority);
	if (d->tls.key) {
		d->tls.listener = d->tls_fd = TAKE_FD(fd);
		d->tls.state = d->state;
		d->tls_again.due = on_tls_again;
		return tls_begin(d, e);
	}
	return http_listen(d->api.http, TAKE_FD(fd), false, authority, e);
}

/* ---- all of it ---- */

static int open_parts(struct brigd *d, const struct daemon_options *o, struct err *e)
{
	struct http_service by;
	struct api *a = &d->api;

	if (o->listen && !o->token_file)
		return err_refuse(e, ERR_USAGE, EINVAL,
				  "brig daemon token add NAME --scope run makes one",
				  "--listen needs --token-file");
	if (!o->tls_cert != !o->tls_key || (o->tls_key && !o->listen))
		return err_refuse(e, ERR_USAGE, EINVAL,
				  "--listen ADDR:PORT --tls-cert FILE --tls-key FILE",
				  "TLS needs an address, a certificate and its key");
	if (o->token_file && tokens_open(o->token_file, &a->tokens, e) < 0)
		return -e->code;
	if (ceiling_open(o->ceiling, &a->ceiling, e) < 0)
		return err_wrap(e, o->ceiling ? "--ceiling" : "daemon.ceiling");
	if (take_lock(d, e) < 0 || loop_new(&a->loop, e) < 0 || take_signals(d, e) < 0)
		return -e->code;
	if (chdir("/") < 0)
		return err_sys(e, "cannot change to '/'");
	api_service(a, &by);
	a->began = clock_us();
	a->stop = daemon_stop;
	a->stop_arg = d;
	if (events_open(d->state, &a->events, e) < 0 || once_open(d->state, &a->once, e) < 0 ||
	    http_new(a->loop, &by, &a->http, e) < 0)
		return -e->code;
	return 0;
}

/* Nobody is let in before the loop runs. What can be refused comes first: a daemon that will not
 * serve says nothing of listening, has no socket and has touched no sandbox. */
static int open_doors(struct brigd *d, const struct daemon_options *o, struct err *e)
{
	struct api *a = &d->api;
	char path[PATH_MAX];

	if ((o->listen && listen_tcp(d, o->listen, e) < 0) ||
	    (!o->socket && daemon_socket_path(path, sizeof(path), true, e) < 0) ||
	    sandboxes_new(d->state, a->loop, a->events, &a->boxes, e) < 0 ||
	    listen_local(d, o->socket ? o->socket : path, e) < 0)
		return -e->code;
	if (d->listens && d->socket[0])
		d->listens(d->socket);
	if (d->listens && d->where[0])
		d->listens(d->where);
	return 0;
}

static void say_ready(struct brigd *d, const struct daemon_options *o)
{
	d->api.ready = true;
	service_notify("READY=1");
	if (o->ready_fd >= 0)
		(void)fd_write_all(o->ready_fd, "1", 1);
	d->prune.due = on_prune;
	forget_tenants(d, clock_us());
	d->revoke.due = on_revoke;
	if (d->api.tokens)
		loop_at(d->api.loop, &d->revoke, clock_us() + REVOKE_US);
}

static void daemon_close_all(struct brigd *d)
{
	struct api *a = &d->api;

	if (d->socket[0])
		(void)unlink(d->socket);
	subprocess_end_all(a);
	(void)http_free(a->http);
	(void)fd_close(tls_take(d));
	tls_front_end(&d->tls);
	(void)sandboxes_free(a->boxes);
	(void)once_free(a->once);
	(void)events_free(a->events);
	(void)ceiling_free(a->ceiling);
	(void)tokens_free(a->tokens);
	free(a->sessions);
	(void)loop_free(a->loop);
	(void)fd_close(d->tls_fd);
	(void)fd_close(d->signal_fd);
	(void)fd_close(d->lock);
	(void)fd_close(d->state);
}

int daemon_run(const struct daemon_options *o, struct err *e)
{
	struct brigd d = { .state = -1,
			   .lock = -1,
			   .signal_fd = -1,
			   .tls_fd = -1,
			   .tls_word = { .fd = -1 },
			   .tls = { .cert = o->tls_cert, .key = o->tls_key },
			   .listens = o->listens };
	int r;

	(void)umask(077);
	(void)prctl(PR_SET_NAME, "brigd");
	fd_raise_limit();
	r = open_parts(&d, o, e);
	if (r == 0)
		r = open_doors(&d, o, e);
	if (r == 0) {
		say_ready(&d, o);
		loop_run(d.api.loop, daemon_settle, d.api.http);
		service_notify("STOPPING=1");
	}
	daemon_close_all(&d);
	return r;
}
