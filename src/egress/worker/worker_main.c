/* SPDX-License-Identifier: Apache-2.0 */
/* egress/worker/worker_main.c - brig-egress: the process that reads what the sandbox sends, and
 * beside it those that keep its certificate authority and unpack.
 *
 * Started by a monitor with three descriptors: 3, a SEQPACKET socket (the configuration comes
 * first, then the door's sockets; decisions go back), 4, a pipe for the authority's certificate,
 * and 5, a pipe with one byte in it: the worker takes it before it reads anything of a guest's. The
 * monitor takes it instead when the run has ended before that, and then need not wait to be told
 * that nothing happened. Started because something came (egress/authority/prepared.h), 6 is the
 * authority.
 *
 *     start -> fork keeper and unpacker -> take configuration and sockets -> read files, compile
 *           -> lock down -> serve
 *
 * What takes long is done while the sandbox's program starts, not while somebody waits for it: the
 * sockets come when the sandbox is ready. Nothing hostile is read before the lockdown. The
 * monitor's end of the socket closing is the end.
 */
#include <fcntl.h>
#include <ifaddrs.h>
#include <linux/netlink.h>
#include <malloc.h>
#include <netinet/in.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "base/files/fd.h"
#include "base/sys/sanitized.h"
#include "base/sys/wait.h"
#include "egress/authority/keeper.h"
#include "egress/members_named.h"
#include "egress/resolving.h"
#include "egress/ssh/proof.h"
#include "egress/oauth/oauth.h"
#include "egress/signing.h"
#include "egress/unresolved.h"
#include "egress/worker/worker.h"
#include "egress/worker_start.h"
#include "proc/confine.h"
#include "proc/forked.h"

#define TICK_US 250000
#define CONTROL 3
#define AUTHORITY 4
#define TURN 5
#define RECORD 6 /* with WORKER_HAS_AUTHORITY */
#define PLAN_MAX ((size_t)16 << 20)
#define ACCEPT_AT_ONCE 64

/* ---- before the lockdown ---- */

static int keep_authority(void *arg, int line)
{
	const enum keeper_way *way = arg;
	struct err e = { 0 };

	(void)close(CONTROL);
	(void)close(TURN);
	return confine_early(&e) < 0 ? 1 : keeper_main(*way, line, AUTHORITY, RECORD);
}

static int start_keeper(enum keeper_way way, int *sock, struct err *e)
{
	const struct forked_want w = { .name = "brig-keeper",
				       .what = "the keeper",
				       .line = FORKED_PACKETS,
				       .run = keep_authority,
				       .arg = &way };
	pid_t pid = forked_start(&w, sock, e);

	if (pid < 0)
		return (int)pid;
	(void)close(AUTHORITY);
	if (way == KEEPER_TAKES)
		(void)close(RECORD);
	return 0;
}

static ssize_t receive(void *p, size_t n, int *fds, size_t *nfds)
{
	int r = wait_fd(CONTROL, POLLIN, 0);

	return r < 0 ? r : fd_recv(CONTROL, p, n, fds, nfds);
}

/* The configuration as a file, and the version of who wrote it: ours, or it is not to be read. */
static int take_plan(int *fd, struct err *e)
{
	char version[64] = "";
	size_t n = 1;
	ssize_t got = receive(version, sizeof(version) - 1, fd, &n);

	if (got <= 0 || n != 1)
		return err_set(e, ERR_INTERNAL, EPIPE, "no configuration came");
	if (strcmp(version, BRIG_VERSION) != 0)
		return err_refuse(e, ERR_UNAVAILABLE, EPROTO,
				  "install brig and brig-egress from one build",
				  "brig-egress is of version " BRIG_VERSION ", brig is of another");
	return 0;
}

static int read_plan(struct worker *k, struct err *e)
{
	CLEANUP(fd) int fd = -1;
	struct stat st;
	void *text;
	int r;

	if (take_plan(&fd, e) < 0)
		return -e->code;
	if (fstat(fd, &st) < 0 || st.st_size <= 0 || (size_t)st.st_size > PLAN_MAX)
		return err_set(e, ERR_INTERNAL, EBADMSG,
			       "the configuration has an unexpected size");
	text = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	if (text == MAP_FAILED)
		return err_sys(e, "cannot read the configuration");
	r = egress_plan_read(text, (size_t)st.st_size, &k->plan, e);
	(void)munmap(text, (size_t)st.st_size);
	return r;
}

static int add_own(struct worker *k, const struct addr *a, struct err *e)
{
	struct addr *more;

	/* What is not public is closed whoever has it. */
	if (!a->family || addr_class(a) != ADDR_PUBLIC)
		return 0;
	more = reallocarray(k->own, k->n_own + 1, sizeof(*more));
	if (!more)
		return err_nomem(e);
	k->own = more;
	k->own[k->n_own++] = *a;
	return 0;
}

/* Of a container's node, which has another network. */
static int add_told(struct worker *k, struct err *e)
{
	const char *text = getenv(WORKER_OWN_ADDRESS);
	struct addr a = { 0 };

	if (!text || !*text)
		return 0;
	if (addr_parse(text, strlen(text), &a) < 0)
		return err_set(e, ERR_UNAVAILABLE, EINVAL, "'%.50s' is no address", text);
	return add_own(k, &a, e);
}

/* All of them, or there is no door: one that is not known could be reached by a name. */
static int read_own(struct worker *k, struct err *e)
{
	struct ifaddrs *list = NULL;
	int r = add_told(k, e);

	k->routes = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
	if (k->routes < 0 || getifaddrs(&list) < 0)
		return err_sys(e, "cannot read the addresses of this machine");
	for (struct ifaddrs *i = list; i && r == 0; i = i->ifa_next) {
		struct addr a = { 0 };

		if (!i->ifa_addr)
			continue;
		if (i->ifa_addr->sa_family == AF_INET) {
			a.family = 4;
			memcpy(a.b, &((struct sockaddr_in *)i->ifa_addr)->sin_addr, 4);
		} else if (i->ifa_addr->sa_family == AF_INET6) {
			a.family = 6;
			memcpy(a.b, &((struct sockaddr_in6 *)i->ifa_addr)->sin6_addr, 16);
		}
		r = add_own(k, &a, e);
	}
	freeifaddrs(list);
	return r;
}

/* A leak that was let pass, or taken out, is evidence too; a block is the denial it becomes. */
static void on_hit(void *context, const struct scan_hit *hit)
{
	char kind[128];

	if (hit->action == LEAK_BLOCK)
		return;
	(void)snprintf(kind, sizeof(kind), "%s%s%s", hit->kind, hit->name ? " " : "",
		       hit->name ? hit->name : "");
	report_leak(context, kind, hit->action == LEAK_REDACT);
}

static int worker_main_compile(struct worker *k, struct err *e)
{
	const struct egress_plan *p = k->plan;
	struct scan_options o = { .leaks = &p->leaks,
				  .secrets = p->secrets,
				  .n_secrets = p->credentials.n,
				  .redact_json = p->redact_json,
				  .report = on_hit,
				  .context = k };
	bool delayed = false;
	int r = 0;

	if (p->egress.ask && !(k->questions = calloc(1, sizeof(*k->questions))))
		return err_nomem(e);
	for (size_t i = 0; i < p->members.n; i++)
		(void)member_names_add(&k->members, p->members.v[i].value, p->members.v[i].name);
	if (egress_rules_new(&p->egress, &k->rules, e) < 0 ||
	    chain_parse(p->egress.upstream_proxy, &k->chain, e) < 0 ||
	    direct_new(&p->egress.direct, &k->direct, e) < 0 ||
	    rate_new(&p->egress.rate, &k->rate, e) < 0 || budget_new(&p->egress, &k->budget, e) < 0)
		r = -e->code;
	if (r == 0 && p->leaks.scan)
		r = scanner_new(&o, &k->scanner, e);
	if (r == 0 && (p->credentials.n || p->bind_names))
		r = creds_new(&p->credentials, p->secrets, p->bind_names, &k->creds, e);
	if (r == 0 && k->creds) {
		creds_lacking(k->creds, &p->lacking);
		r = creds_other_keys(k->creds, &p->egress.other_keys, e);
	}
	if (r == 0 && k->creds)
		r = oauth_new(&p->credentials, p->secrets, k->creds, &k->oauth, e);
	for (size_t i = 0; i < p->credentials.n; i++)
		delayed |= p->credentials.v[i].delayed;
	if (r == 0 && p->credentials.n)
		r = scrubber_new(p->secrets, p->credentials.n, delayed, &k->scrubber, e);
	return r;
}

/* ---- memory ---- */

#if !SANITIZED
/* Pages of data and stack: the sixth number the kernel gives. 0: it gives none. */
static unsigned long long own_size(void)
{
	char text[128] = "", *at = text;
	unsigned long long n = 0;

	if (fd_read_file(AT_FDCWD, "/proc/self/statm", text, sizeof(text)) <= 0)
		return 0;
	for (int i = 0; i < 6; i++)
		n = strtoull(at, &at, 10);
	return n;
}
#endif

/* The budget is also a limit of the kernel's, which leaves a connection without memory and not the
 * machine. */
static int bound_memory(struct worker *k, struct err *e UNUSED)
{
#if !SANITIZED
	unsigned long long data = own_size();
	struct rlimit l;

	if (!data)
		return err_set(e, ERR_UNAVAILABLE, EIO, "cannot read the door's own size");
	l.rlim_cur = l.rlim_max = data * (unsigned long long)getpagesize() + k->plan->memory;
	if (setrlimit(RLIMIT_DATA, &l) < 0)
		return err_sys(e, "cannot bound the door's memory");
#endif
	k->base = mallinfo2().uordblks + mallinfo2().hblkhd;
	return 0;
}

/* ---- serving ---- */

static void on_listener(struct loop_watch *w, uint32_t events UNUSED)
{
	struct listener *l = (struct listener *)w;

	if (l->kind == DOOR_DNS_PACKET) {
		names_packet(l);
		return;
	}
	for (int i = 0; i < ACCEPT_AT_ONCE; i++) {
		int fd;

		if (worker_is_short(l->k)) {
			(void)loop_want(l->k->loop, w, 0);
			return;
		}
		fd = accept4(w->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

		/* Out of descriptors: whoever knocks waits until the next tick. */
		if (fd < 0 && errno != EAGAIN && errno != EINTR && errno != ECONNABORTED)
			(void)loop_want(l->k->loop, w, 0);
		if (fd < 0)
			return;
		if (fd >= l->k->most)
			session_refuse(l, fd);
		else if (l->kind == DOOR_DNS_STREAM)
			names_stream(l, fd);
		else
			session_open(l, fd);
	}
}

static void on_monitor(struct loop_watch *w, uint32_t events UNUSED)
{
	struct worker *k = CONTAINER_OF(w, struct worker, monitor);
	struct egress_answer a;
	ssize_t n = recv(w->fd, &a, sizeof(a), MSG_DONTWAIT);

	if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
		loop_stop(k->loop);
	else if (n == (ssize_t)sizeof(a) && k->questions)
		asked_answer(k, &a);
}

/* Deadlines here are for peers that hang: they are looked at a few times a second, and only while
 * there is one. */
static void on_tick(struct loop_timer *t, uint64_t now)
{
	struct worker *k = CONTAINER_OF(t, struct worker, tick);

	report_leaks(k);
	resolver_tick(k->resolver, now);
	asked_tick(k, now);
	session_tick(k, now);
	names_tick(k, now);
	upstream_tick(k, now);
	for (size_t i = 0; i < k->n_listeners; i++)
		(void)loop_want(k->loop, &k->listeners[i].w, EPOLLIN);
}

static bool has_deadlines(const struct worker *k)
{
	for (size_t i = 0; i < k->n_listeners; i++)
		if (!k->listeners[i].w.events)
			return true;
	return k->sessions || k->streams || k->idle || resolver_busy(k->resolver);
}

static void on_settle(void *arg)
{
	struct worker *k = arg;

	session_settle(k);
	if (!k->tick.at && has_deadlines(k))
		loop_at(k->loop, &k->tick, loop_now(k->loop) + TICK_US);
}

static bool is_six(int fd)
{
	struct sockaddr_storage a = { 0 };
	socklen_t n = sizeof(a);

	return getsockname(fd, (struct sockaddr *)&a, &n) == 0 && a.ss_family == AF_INET6;
}

static int take_sockets(struct worker *k, struct err *e)
{
	struct egress_sockets m = { 0 };
	int fds[DOOR_SOCKETS_MAX];
	size_t n = ARRAY_LEN(fds);

	if (receive(&m, sizeof(m), fds, &n) != (ssize_t)sizeof(m) || n != m.n || !n)
		return err_set(e, ERR_INTERNAL, EPIPE, "no sockets came");
	for (size_t i = 0; i < n; i++) {
		struct listener *l = &k->listeners[k->n_listeners++];

		*l = (struct listener){ .w = { .fd = fds[i], .ready = on_listener },
					.k = k,
					.kind = (enum door_kind)m.kinds[i],
					.port = (uint16_t)m.ports[i] };
		k->six |= is_six(fds[i]);
		if (loop_want(k->loop, &l->w, EPOLLIN) < 0)
			return err_set(e, ERR_INTERNAL, EBADF, "a socket cannot be listened to");
	}
	return 0;
}

static int worker_main_prepare(struct worker *k, int keeper, struct err *e)
{
	k->synth = synth_new();
	if (!k->synth)
		return err_nomem(e);
	if (loop_new(&k->loop, e) < 0 || read_plan(k, e) < 0 || take_sockets(k, e) < 0)
		return -e->code;
	if (OPENSSL_init_ssl(OPENSSL_INIT_NO_LOAD_CONFIG, NULL) != 1)
		return err_set(e, ERR_INTERNAL, EIO, "OpenSSL cannot be used");
	if (resolver_new(k->loop, &k->resolver, e) < 0 ||
	    roots_new(&k->plan->egress.roots, &k->roots, e) < 0 || worker_main_compile(k, e) < 0)
		return -e->code;
	if (read_own(k, e) < 0)
		return -e->code;
	if (mint_new(keeper, &k->mint, e) < 0)
		return -e->code;
	return client_certs_new(&k->plan->client_certs, k->mint, &k->certs, e);
}

static int worker_main_serve(struct worker *k, struct err *e)
{
	struct rlimit files;
	char turn;

	k->monitor = (struct loop_watch){ .fd = CONTROL, .ready = on_monitor };
	if (getrlimit(RLIMIT_NOFILE, &files) < 0)
		return err_sys(e, "cannot read a limit");
	/* The lockdown raises the limit to the highest there may be. */
	k->most = (int)((files.rlim_max < CONFINE_FILES ? files.rlim_max : CONFINE_FILES) / 2);
	if (bound_memory(k, e) < 0)
		return -e->code;
	if (confine(CONFINE_WORKER, NULL, e) < 0)
		return -e->code;
	if (loop_want(k->loop, &k->monitor, EPOLLIN) < 0)
		return err_sys(e, "cannot listen to the monitor");
	if (read(TURN, &turn, 1) != 1) /* the run is over */
		return 0;
	(void)close(TURN);
	report_state(CONTROL, EGRESS_EVENT_READY, NULL);
	k->tick.due = on_tick;
	loop_run(k->loop, on_settle, k);
	return 0;
}

static void worker_done(struct worker *k)
{
	while (k->sessions)
		(void)session_free(k->sessions);
	/* What was still under way is told; then the monitor need not wait for the rest. */
	if (k->monitor.fd == CONTROL) {
		report_leaks(k);
		report_last(k);
	}
	while (k->idle)
		(void)upstream_free(k->idle);
	link_pool_done(&k->links);
	names_tick(k, UINT64_MAX);
	(void)resolver_free(k->resolver);
	(void)client_certs_free(k->certs);
	(void)mint_free(k->mint);
	(void)unpack_free(k->unpack);
	(void)roots_free(k->roots);
	(void)scrubber_free(k->scrubber);
	(void)oauth_free(k->oauth);
	(void)creds_free(k->creds);
	(void)scanner_free(k->scanner);
	(void)rate_free(k->rate);
	(void)budget_free(k->budget);
	(void)egress_rules_free(k->rules);
	(void)direct_free(k->direct);
	(void)egress_plan_free(k->plan);
	(void)synth_free(k->synth);
	(void)loop_free(k->loop);
	buf_done(&k->piece);
	free(k->questions);
	free(k->own);
	(void)fd_close(k->routes);
}

static enum keeper_way way_of(const char *word)
{
	if (word && strcmp(word, WORKER_HAS_AUTHORITY) == 0)
		return KEEPER_TAKES;
	return word && strcmp(word, WORKER_MAKES_AHEAD) == 0 ? KEEPER_MAKES_TWO : KEEPER_MAKES;
}

int main(int argc, char **argv)
{
	static struct worker k = { .routes = -1 };
	struct err e = { 0 };
	const struct sigaction ignore = { .sa_handler = SIG_IGN };
	int keeper = -1, r;

	(void)sigaction(SIGPIPE, &ignore, NULL);
	if (argc == 2 && strcmp(argv[1], UNRESOLVED_WORD) == 0)
		_exit(refuse_main());
	if (argc == 2 && strcmp(argv[1], RESOLVING_WORD) == 0)
		_exit(answer_main());
	if (argc == 2 && strcmp(argv[1], MEMBERS_WORD) == 0)
		_exit(members_main());
	if (argc == 2 && strcmp(argv[1], SIGNING_WORD) == 0)
		_exit(sign_main());
	if (argc == 2 && strcmp(argv[1], PROOF_WORD) == 0)
		_exit(proof_main());
	r = confine_early(&e);
	if (r == 0)
		r = start_keeper(way_of(argc == 2 ? argv[1] : NULL), &keeper, &e);
	if (r == 0)
		r = unpack_start(&k.unpack, &e);
	if (r == 0)
		r = worker_main_prepare(&k, keeper, &e);
	if (r == 0)
		r = worker_main_serve(&k, &e);
	if (r < 0)
		report_state(CONTROL, EGRESS_EVENT_FAILED, &e);
	worker_done(&k);
	_exit(r < 0 ? 1 : 0); /* what libraries and sanitizers do at an exit the lockdown forbids */
}
