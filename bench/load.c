/* SPDX-License-Identifier: Apache-2.0 */
/* bench/load.c - a client that asks for one thing over and over, for the rows of the egress door.
 *
 *   bench-load [OPTION...] HOST:PORT
 *
 *   -x           HOST:PORT is a proxy: CONNECT first
 *   -n NAME[:P]  whom to ask, and for which port; a '#' becomes the number of the connection
 *   -r FILE      the root to trust, alone
 *   -u PATH      what to ask for                 -H LINE      a further field
 *   -c N         connections at once             -s SECONDS   how long (default 2), after -w
 * SECONDS -1           one request a connection: handshakes are part of the sample -i           one
 * request each, then say "ready" and hold the connections until stdin ends -q N         stop after
 * N samples
 *
 * One thread, TLS 1.3 or 1.2 with OpenSSL's own choice of cipher, every certificate verified.
 * Prints JSON, times in nanoseconds: a sample is the time from asking (with -1: from dialling) to
 * the last byte of the answer, which must be a 200. It is made of brig's own parser and links, and
 * the same for all that are measured. */
#include <arpa/inet.h>
#include <inttypes.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <openssl/ssl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/text/cleanup.h"
#include "wire/http1.h"
#include "wire/link.h"

enum { SAMPLES_MAX = 4000000, CONNECTIONS_MAX = 16000 };

enum stage { DIALLING, TUNNELLING, SHAKING, ASKED, IN_BODY, RESTING };

struct client {
	struct link link; /* first */
	enum stage stage;
	unsigned number;
	uint64_t asked;
	struct http1_body body;
	char name[256];
};

struct options {
	struct sockaddr_storage to;
	socklen_t to_len;
	const char *name, *path, *field, *root;
	unsigned port;
	long connections, seconds, warmup, samples;
	bool proxy, once, hold;
};

/* One run; at file scope because a watch knows nothing but itself. */
static struct {
	struct options o;
	struct loop *loop;
	SSL_CTX *ctx;
	struct client *clients;
	uint64_t from, end;
	uint32_t *samples;
	size_t n, all, failed, resting;
	uint64_t bytes;
	unsigned numbers;
	char why[200];
	struct loop_timer over;
} run = { .o = { .path = "/", .connections = 1, .seconds = 2, .port = 443 } };

static uint64_t now(void)
{
	struct timespec t;

	(void)clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static _Noreturn void die(const char *what)
{
	(void)fprintf(stderr, "bench-load: %s\n", what);
	exit(1);
}

/* ---- one connection ---- */

static void ready(struct loop_watch *w, uint32_t events);
static void dial(struct client *c);

static void ask(struct client *c)
{
	char head[4096], port[16] = "";
	int n;

	if (run.o.port != 443)
		(void)snprintf(port, sizeof(port), ":%u", run.o.port);
	n = snprintf(
		head, sizeof(head),
		"GET %s HTTP/1.1\r\nHost: %s%s\r\nUser-Agent: bench\r\nAccept: */*\r\n%s%s\r\n",
		run.o.path, c->name, port, run.o.field ? run.o.field : "",
		run.o.field ? "\r\n" : "");
	(void)link_add(&c->link, head, (size_t)n);
	if (!run.o.once)
		c->asked = now();
	c->stage = ASKED;
}

static void count(struct client *c)
{
	uint64_t t = now();

	run.all++;
	if (c->asked >= run.from && run.n < SAMPLES_MAX)
		run.samples[run.n++] =
			(uint32_t)(t - c->asked > UINT32_MAX ? UINT32_MAX : t - c->asked);
	if (t >= run.end || (run.o.samples && run.n >= (size_t)run.o.samples))
		loop_stop(run.loop);
}

static void again(struct client *c)
{
	count(c);
	if (run.o.hold) {
		c->stage = RESTING;
		if (++run.resting == (size_t)run.o.connections)
			loop_stop(run.loop);
	} else if (run.o.once) {
		dial(c);
	} else {
		ask(c);
	}
}

static void broken(struct client *c, const char *why)
{
	run.failed++;
	(void)snprintf(run.why, sizeof(run.why), "%.190s", why);
	if (run.failed > 100)
		loop_stop(run.loop);
	else
		dial(c);
}

static void begin_tls(struct client *c)
{
	SSL *ssl = SSL_new(run.ctx);

	if (!ssl || SSL_set1_host(ssl, c->name) != 1 || SSL_set_tlsext_host_name(ssl, c->name) != 1)
		die("no memory");
	SSL_set_connect_state(ssl);
	if (link_tls(&c->link, ssl) < 0)
		die("no memory");
	c->stage = SHAKING;
}

static void connected(struct client *c)
{
	char head[600];

	if (!run.o.proxy) {
		begin_tls(c);
		return;
	}
	(void)snprintf(head, sizeof(head), "CONNECT %s:%u HTTP/1.1\r\nHost: %s:%u\r\n\r\n", c->name,
		       run.o.port, c->name, run.o.port);
	(void)link_add(&c->link, head, strlen(head));
	c->stage = TUNNELLING;
}

static void name_it(struct client *c)
{
	const char *mark = strchr(run.o.name, '#');

	c->number = run.numbers++;
	if (mark)
		(void)snprintf(c->name, sizeof(c->name), "%.*s%u%s", (int)(mark - run.o.name),
			       run.o.name, c->number, mark + 1);
	else
		(void)snprintf(c->name, sizeof(c->name), "%s", run.o.name);
}

static void dial(struct client *c)
{
	int on = 1, fd;

	link_done(run.loop, &c->link);
	name_it(c);
	fd = socket(run.o.to.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		die("no socket");
	(void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	link_init(&c->link, fd, ready);
	c->asked = now();
	if (connect(fd, (struct sockaddr *)&run.o.to, run.o.to_len) < 0 && errno != EINPROGRESS)
		die("cannot connect");
	c->stage = DIALLING;
	if (loop_want(run.loop, &c->link.w, EPOLLOUT) < 0)
		die("cannot wait");
}

/* The head of an answer, once it is there: 0 not yet, 1 read, -1 not what it should be. */
static int read_head(struct client *c)
{
	static struct http1_answer a;
	struct err e = { 0 };
	ssize_t n = c->link.in.len ? http1_read_answer(link_data(&c->link), c->link.in.len,
						       HTTP1_ASKED_PLAIN, &a, &e)
				   : 0;

	if (n == 0)
		return link_fill(&c->link) ? read_head(c) : 0;
	if (n < 0 || a.status != 200)
		return broken(c, n < 0 ? e.what : "the answer is not 200"), -1;
	link_take(&c->link, (size_t)n);
	http1_body_init(&c->body, &a);
	return 1;
}

/* true: the answer is whole. */
static bool read_body(struct client *c)
{
	while (c->stage == IN_BODY && !http1_body_done(&c->body)) {
		struct http1_text data;
		ssize_t n;

		if (!c->link.in.len && !link_fill(&c->link))
			return false;
		n = http1_body_read(&c->body, link_data(&c->link), c->link.in.len, &data);
		if (n < 0)
			return broken(c, "a body that breaks its framing"), false;
		run.bytes += data.n;
		link_take(&c->link, (size_t)n);
	}
	return true;
}

static bool step(struct client *c)
{
	enum stage was = c->stage;
	socklen_t n = sizeof(int);
	int code = 0;

	switch (c->stage) {
	case DIALLING:
		if (getsockopt(c->link.fd, SOL_SOCKET, SO_ERROR, &code, &n) < 0 || code)
			broken(c, "the connection was refused");
		else
			connected(c);
		break;
	case TUNNELLING:
		/* A CONNECT is answered without a body, whatever the parser would make of it. */
		if (!c->link.in.len && !link_fill(&c->link))
			break;
		if (c->link.in.len < 12 || memcmp(link_data(&c->link) + 9, "200", 3) != 0) {
			broken(c, "the proxy refuses");
		} else if (memmem(link_data(&c->link), c->link.in.len, "\r\n\r\n", 4)) {
			link_take(&c->link, c->link.in.len);
			begin_tls(c);
		}
		break;
	case SHAKING:
		code = link_handshake(&c->link);
		if (code > 0)
			ask(c);
		else if (code < 0)
			broken(c, "the handshake failed");
		break;
	case ASKED:
		if (read_head(c) > 0)
			c->stage = IN_BODY;
		break;
	case IN_BODY:
		if (read_body(c))
			again(c);
		break;
	case RESTING:
		break;
	}
	return c->stage != was;
}

static void ready(struct loop_watch *w, uint32_t events)
{
	struct client *c = (struct client *)w;
	bool moved;

	(void)events;
	do {
		moved = step(c);
		if (c->stage != DIALLING && c->stage != SHAKING)
			moved |= link_flush(&c->link) > 0;
	} while (moved && c->stage != DIALLING);
	if (c->stage == DIALLING)
		return;
	if (c->link.broken || c->link.eof)
		broken(c, "the connection ended");
	else if (link_wait(run.loop, &c->link, true) < 0)
		die("cannot wait");
}

/* ---- the run ---- */

static void time_is_up(struct loop_timer *t, uint64_t now_us)
{
	(void)t;
	(void)now_us;
	loop_stop(run.loop);
}

static int compare(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return x < y ? -1 : x > y;
}

static uint32_t rank(double p)
{
	size_t i = (size_t)(p * (double)run.n);

	return run.n ? run.samples[i < run.n ? i : run.n - 1] : 0;
}

static void tell(uint64_t elapsed)
{
	qsort(run.samples, run.n, sizeof(*run.samples), compare);
	(void)printf(
		"{\"n\": %zu, \"all\": %zu, \"failed\": %zu, \"why\": \"%s\", \"elapsed\": %" PRIu64
		", \"bytes\": %" PRIu64 ", \"p50\": %u, \"p95\": %u, \"p99\": %u, \"held\": %zu}\n",
		run.n, run.all, run.failed, run.why, elapsed, run.bytes, rank(0.5), rank(0.95),
		rank(0.99), run.resting);
}

static void read_address(char *text)
{
	char *colon = strrchr(text, ':');
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM }, *list = NULL;

	if (!colon)
		die("HOST:PORT is missing");
	*colon = '\0';
	if (getaddrinfo(text, colon + 1, &hints, &list) != 0)
		die("HOST is unknown");
	memcpy(&run.o.to, list->ai_addr, list->ai_addrlen);
	run.o.to_len = list->ai_addrlen;
	freeaddrinfo(list);
}

static void read_name(char *text)
{
	char *colon = strchr(text, ':');

	run.o.name = text;
	if (colon) {
		*colon = '\0';
		run.o.port = (unsigned)strtoul(colon + 1, NULL, 10);
	}
}

static void read_options(int argc, char **argv)
{
	int c;

	while ((c = getopt(argc, argv, "xn:r:u:H:c:s:w:q:1i")) != -1)
		switch (c) {
		case 'x':
			run.o.proxy = true;
			break;
		case 'n':
			read_name(optarg);
			break;
		case 'r':
			run.o.root = optarg;
			break;
		case 'u':
			run.o.path = optarg;
			break;
		case 'H':
			run.o.field = optarg;
			break;
		case 'c':
			run.o.connections = strtol(optarg, NULL, 10);
			break;
		case 's':
			run.o.seconds = strtol(optarg, NULL, 10);
			break;
		case 'w':
			run.o.warmup = strtol(optarg, NULL, 10);
			break;
		case 'q':
			run.o.samples = strtol(optarg, NULL, 10);
			break;
		case '1':
			run.o.once = true;
			break;
		case 'i':
			run.o.hold = true;
			break;
		default:
			die("see the top of bench/load.c");
		}
	if (optind != argc - 1 || !run.o.name || !run.o.root || run.o.connections < 1 ||
	    run.o.connections > CONNECTIONS_MAX)
		die("see the top of bench/load.c");
	read_address(argv[optind]);
}

static void prepare(void)
{
	struct err e = { 0 };
	struct rlimit l;

	if (getrlimit(RLIMIT_NOFILE, &l) == 0) {
		l.rlim_cur = l.rlim_max;
		(void)setrlimit(RLIMIT_NOFILE, &l);
	}
	run.ctx = tls_context(false);
	run.samples = malloc(SAMPLES_MAX * sizeof(*run.samples));
	run.clients = calloc((size_t)run.o.connections, sizeof(*run.clients));
	if (!run.ctx || !run.samples || !run.clients || loop_new(&run.loop, &e) < 0)
		die("no memory");
	if (SSL_CTX_load_verify_locations(run.ctx, run.o.root, NULL) != 1)
		die("the root cannot be read");
	(void)SSL_CTX_set_session_cache_mode(run.ctx, SSL_SESS_CACHE_OFF);
}

int main(int argc, char **argv)
{
	const uint64_t second = 1000000000;
	uint64_t start;
	char c;

	read_options(argc, argv);
	prepare();
	start = now();
	run.from = start + (uint64_t)run.o.warmup * second;
	run.end = run.from + (uint64_t)run.o.seconds * second;
	for (long i = 0; i < run.o.connections; i++) {
		link_init(&run.clients[i].link, -1, ready);
		dial(&run.clients[i]);
	}
	run.over.due = time_is_up;
	loop_at(run.loop, &run.over, run.end / 1000);
	loop_run(run.loop, NULL, NULL);
	tell(now() - run.from);
	(void)fflush(stdout);
	while (run.o.hold && read(STDIN_FILENO, &c, 1) > 0)
		;
	for (long i = 0; i < run.o.connections; i++)
		link_done(run.loop, &run.clients[i].link);
	SSL_CTX_free(run.ctx);
	(void)loop_free(run.loop);
	free(run.clients);
	free(run.samples);
	return 0;
}
