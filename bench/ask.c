/* SPDX-License-Identifier: Apache-2.0 */
/* bench/ask.c - a client of the daemon that asks over and over, for the rows of long-lived
 *sandboxes.
 *
 *	ask exec SOCKET N ID              `true` in that sandbox, N times in a row on one connection
 *	ask mcp PORT N TOKEN              the same in the sandbox "bench", by a tool of brig mcp
 *--http ask create SOCKET N SPEC          make a sandbox until it is ready, then delete it (not
 *timed) ask burst SOCKET N ID...          N connections at once, a `true` on each ask fan SOCKET
 *SUBS RATE SECONDS ID   SUBS streams of events while RATE events happen a second
 *
 * One thread. Prints JSON, times in nanoseconds: a sample is the time from the first byte of a
 * request to the last of its answer; of `fan` from the request that makes an event until a
 * subscriber has read it, each subscriber being one sample of it. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

enum { ANSWER_MAX = 1 << 16, CONNECTIONS_MAX = 4000 };

#define TRUE_BODY "{\"argv\":[\"true\"]}"

struct samples {
	uint64_t *v;
	size_t n, failed;
	uint64_t began;
};

struct answer {
	char text[ANSWER_MAX];
	size_t n;
};

static _Noreturn void die(const char *what)
{
	(void)fprintf(stderr, "ask: %s: %s\n", what, strerror(errno));
	exit(1);
}

static uint64_t now(void)
{
	struct timespec t;

	(void)clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static void *need(size_t n, size_t size)
{
	void *p = calloc(n, size);

	if (!p)
		die("no memory");
	return p;
}

/* ---- what is reported ---- */

static int by_value(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

static uint64_t percentile(const struct samples *s, size_t p)
{
	return s->n ? s->v[(s->n * p + 99) / 100 - 1] : 0;
}

static void report(struct samples *s)
{
	uint64_t elapsed = now() - s->began;

	qsort(s->v, s->n, sizeof(*s->v), by_value);
	(void)printf("{\"n\": %zu, \"failed\": %zu, \"min\": %" PRIu64 ", \"p50\": %" PRIu64
		     ", \"p95\": %" PRIu64 ", \"p99\": %" PRIu64 ", \"max\": %" PRIu64
		     ", \"elapsed\": %" PRIu64 "}\n",
		     s->n, s->failed, s->n ? s->v[0] : 0, percentile(s, 50), percentile(s, 95),
		     percentile(s, 99), s->n ? s->v[s->n - 1] : 0, elapsed);
}

/* ---- one call ---- */

static int dial(const char *path)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	(void)snprintf(a.sun_path, sizeof(a.sun_path), "%s", path);
	while (fd >= 0 && connect(fd, (struct sockaddr *)&a, sizeof(a)) < 0)
		if (errno != EAGAIN && errno != EINTR)
			die(path);
	if (fd < 0)
		die("socket");
	return fd;
}

static void ask(int fd, const char *method, const char *target, const char *body)
{
	char text[8192];
	int n = snprintf(text, sizeof(text),
			 "%s %s HTTP/1.1\r\nHost: brig\r\nContent-Type: application/json\r\n"
			 "Content-Length: %zu\r\n\r\n%s",
			 method, target, strlen(body), body);

	if (n < 0 || (size_t)n >= sizeof(text) || write(fd, text, (size_t)n) != n)
		die("request");
}

/* A call of the tool run_command, as the era of 2026-07-28 has it. */
static void call_tool(int fd, const char *port, const char *token)
{
	static const char body[] =
		"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/"
		"call\",\"params\":{\"name\":\"run_"
		"command\",\"arguments\":{\"sandbox\":\"bench\",\"argv\":[\"true\"]},\"_meta\":{"
		"\"io."
		"modelcontextprotocol/protocolVersion\":\"2026-07-28\",\"io.modelcontextprotocol/"
		"clientCapabilities\":{}}}}";
	char text[8192];
	int n = snprintf(text, sizeof(text),
			 "POST /mcp HTTP/1.1\r\nHost: 127.0.0.1:%s\r\nAuthorization: Bearer %s\r\n"
			 "Accept: application/json, text/event-stream\r\nMcp-Method: tools/call\r\n"
			 "Mcp-Name: run_command\r\nMCP-Protocol-Version: 2026-07-28\r\n"
			 "Content-Type: application/json\r\nContent-Length: %zu\r\n\r\n%s",
			 port, token, strlen(body), body);

	if (n < 0 || (size_t)n >= sizeof(text) || write(fd, text, (size_t)n) != n)
		die("request");
}

/* Is all of it there? */
static bool whole(const struct answer *a)
{
	const char *end = memmem(a->text, a->n, "\r\n\r\n", 4);
	const char *length =
		end ? memmem(a->text, (size_t)(end - a->text), "Content-Length: ", 16) : NULL;
	size_t head = end ? (size_t)(end - a->text) + 4 : 0;

	return end && a->n >= head + (length ? strtoul(length + 16, NULL, 10) : 0);
}

static bool hear(int fd, struct answer *a)
{
	a->n = 0;
	do {
		ssize_t n = read(fd, a->text + a->n, sizeof(a->text) - 1 - a->n);

		if (n <= 0)
			return false;
		a->n += (size_t)n;
		a->text[a->n] = '\0';
	} while (!whole(a));
	return true;
}

static bool ran(const struct answer *a)
{
	return strncmp(a->text, "HTTP/1.1 200", 12) == 0 && strstr(a->text, "\"exit_code\":0");
}

/* ---- one after another ---- */

static void take(struct samples *s, bool good, uint64_t since)
{
	if (good)
		s->v[s->n++] = now() - since;
	else
		s->failed++;
}

static void execs(const char *socket, long n, const char *id)
{
	struct samples s = { .v = need((size_t)n, sizeof(uint64_t)) };
	struct answer *a = need(1, sizeof(*a));
	char target[128];
	int fd = dial(socket);

	(void)snprintf(target, sizeof(target), "/v1/sandboxes/%s/exec", id);
	s.began = now();
	for (long i = 0; i < n; i++) {
		uint64_t since = now();

		ask(fd, "POST", target, TRUE_BODY);
		take(&s, hear(fd, a) && ran(a), since);
	}
	report(&s);
}

static void tool_calls(const char *port, long n, const char *token)
{
	struct samples s = { .v = need((size_t)n, sizeof(uint64_t)) };
	struct answer *a = need(1, sizeof(*a));
	struct sockaddr_in at = { .sin_family = AF_INET,
				  .sin_port = htons((uint16_t)atoi(port)),
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int one = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0 || connect(fd, (struct sockaddr *)&at, sizeof(at)) < 0)
		die(port);
	(void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	s.began = now();
	for (long i = 0; i < n; i++) {
		uint64_t since = now();

		call_tool(fd, port, token);
		take(&s, hear(fd, a) && ran(a), since);
	}
	report(&s);
}

static void creates(const char *socket, long n, const char *spec)
{
	struct samples s = { .v = need((size_t)n, sizeof(uint64_t)) };
	struct answer *a = need(1, sizeof(*a));
	char body[4096], target[128];
	int fd = dial(socket);

	(void)snprintf(body, sizeof(body), "{\"spec\":%s}", spec);
	s.began = now();
	for (long i = 0; i < n; i++) {
		uint64_t since = now();
		const char *id;
		bool good;

		ask(fd, "POST", "/v1/sandboxes?wait=true", body);
		good = hear(fd, a) && strstr(a->text, "\"state\":\"ready\"");
		take(&s, good, since);
		id = strstr(a->text, "\"id\":\"");
		if (!id) {
			(void)fprintf(stderr, "ask: %s\n", a->text);
			exit(1);
		}
		(void)snprintf(target, sizeof(target), "/v1/sandboxes/%.29s", id + 6);
		ask(fd, "DELETE", target, "");
		(void)hear(fd, a);
	}
	report(&s);
}

/* ---- many at once ---- */

static void raise_files(void)
{
	struct rlimit r;

	if (getrlimit(RLIMIT_NOFILE, &r) == 0) {
		r.rlim_cur = r.rlim_max;
		(void)setrlimit(RLIMIT_NOFILE, &r);
	}
}

struct flow {
	int fd;
	uint64_t since;
	struct answer *a;     /* burst */
	size_t seen, matched; /* fan: events; bytes of the word that begins one */
};

static int watch(int poll, struct flow *f)
{
	struct epoll_event ev = { .events = EPOLLIN, .data.ptr = f };

	return epoll_ctl(poll, EPOLL_CTL_ADD, f->fd, &ev);
}

/* True: it is at its end. */
static bool more(struct flow *f, struct samples *s)
{
	ssize_t n = read(f->fd, f->a->text + f->a->n, sizeof(f->a->text) - 1 - f->a->n);

	if (n > 0) {
		f->a->n += (size_t)n;
		f->a->text[f->a->n] = '\0';
		if (!whole(f->a))
			return false;
	}
	take(s, n > 0 && ran(f->a), f->since);
	(void)close(f->fd);
	return true;
}

static void burst(const char *socket, long n, char **ids, int count)
{
	struct samples s = { .v = need((size_t)n, sizeof(uint64_t)) };
	struct flow *all = need((size_t)n, sizeof(*all));
	int poll = epoll_create1(EPOLL_CLOEXEC);
	char target[128];

	s.began = now();
	for (long i = 0; i < n; i++) {
		all[i] = (struct flow){ .fd = dial(socket), .a = need(1, sizeof(struct answer)) };
		if (watch(poll, &all[i]) < 0)
			die("epoll");
	}
	for (long i = 0; i < n; i++) {
		(void)snprintf(target, sizeof(target), "/v1/sandboxes/%s/exec", ids[i % count]);
		all[i].since = now();
		ask(all[i].fd, "POST", target, TRUE_BODY);
	}
	for (long left = n; left > 0;) {
		struct epoll_event ev[64];
		int k = epoll_wait(poll, ev, 64, 60000);

		if (k == 0) {
			s.failed += (size_t)left;
			break;
		}
		for (int i = 0; i < k; i++)
			left -= more(ev[i].data.ptr, &s);
	}
	report(&s);
}

/* ---- events ---- */

struct fan {
	struct samples s;
	uint64_t *sent;
	size_t events, most;
};

/* Counts the lines that carry an event, whatever the pieces they come in. */
static void count_events(struct fan *x, struct flow *f, const char *p, size_t n)
{
	static const char word[] = "\ndata: ";

	for (size_t i = 0; i < n; i++) {
		f->matched = p[i] == word[f->matched] ? f->matched + 1 : p[i] == '\n';
		if (f->matched < sizeof(word) - 1)
			continue;
		f->matched = 0;
		if (f->seen < x->events && x->s.n < x->most)
			x->s.v[x->s.n++] = now() - x->sent[f->seen];
		f->seen++;
	}
}

static void subscribe(const char *socket, struct flow *f)
{
	char head[1024];
	size_t n = 0;

	f->fd = dial(socket);
	ask(f->fd, "GET", "/v1/events", "");
	/* The head alone: what follows is counted. */
	while (n < 4 || memcmp(head + n - 4, "\r\n\r\n", 4) != 0)
		if (n == sizeof(head) || read(f->fd, head + n++, 1) != 1)
			die("events");
	f->matched = 0;
}

static size_t turn(struct fan *x, int poll, int wait)
{
	static char piece[1 << 18];
	struct epoll_event ev[64];
	int k = epoll_wait(poll, ev, 64, wait);
	size_t ended = 0;

	for (int i = 0; i < k; i++) {
		struct flow *f = ev[i].data.ptr;
		ssize_t n = read(f->fd, piece, sizeof(piece));

		if (n > 0 && f->since == 0)
			count_events(x, f, piece, (size_t)n);
		else if (n <= 0) {
			(void)close(f->fd);
			ended++;
		}
	}
	return ended;
}

static void fan(const char *socket, long subs, long rate, long seconds, const char *id)
{
	size_t want = (size_t)(rate * seconds), got = 0, cut = 0;
	struct fan x = { .sent = need(want, sizeof(uint64_t)), .most = want * (size_t)subs };
	struct flow *all = need((size_t)subs + 1, sizeof(*all));
	int poll = epoll_create1(EPOLL_CLOEXEC);
	char target[128];
	uint64_t end;

	x.s.v = need(x.most, sizeof(uint64_t));
	for (long i = 0; i < subs; i++) {
		subscribe(socket, &all[i]);
		(void)watch(poll, &all[i]);
	}
	all[subs] = (struct flow){ .fd = dial(socket), .since = 1 };
	(void)watch(poll, &all[subs]);
	(void)snprintf(target, sizeof(target), "/v1/sandboxes/%s", id);
	x.s.began = now();
	while (x.events < want) {
		uint64_t due = x.s.began + x.events * (uint64_t)(1000000000 / rate), at = now();

		if (at >= due) {
			x.sent[x.events++] = now();
			ask(all[subs].fd, "PATCH", target, "{\"labels\":{\"n\":\"1\"}}");
		}
		cut += turn(&x, poll, at >= due || due - at < 1000000 ? 0 : 1);
	}
	for (end = now() + 10ull * 1000000000; x.s.n < x.most && now() < end;)
		cut += turn(&x, poll, 100);
	for (long i = 0; i < subs; i++)
		got += all[i].seen;
	x.s.failed = x.most - (got < x.most ? got : x.most) + cut;
	report(&x.s);
}

static long number(const char *text, long most)
{
	long n = strtol(text, NULL, 10);

	if (n < 1 || n > most) {
		errno = ERANGE;
		die(text);
	}
	return n;
}

int main(int argc, char **argv)
{
	raise_files();
	if (argc == 5 && strcmp(argv[1], "exec") == 0)
		execs(argv[2], number(argv[3], 1000000), argv[4]);
	else if (argc == 5 && strcmp(argv[1], "mcp") == 0)
		tool_calls(argv[2], number(argv[3], 1000000), argv[4]);
	else if (argc == 5 && strcmp(argv[1], "create") == 0)
		creates(argv[2], number(argv[3], 100000), argv[4]);
	else if (argc >= 5 && strcmp(argv[1], "burst") == 0)
		burst(argv[2], number(argv[3], CONNECTIONS_MAX), argv + 4, argc - 4);
	else if (argc == 7 && strcmp(argv[1], "fan") == 0)
		fan(argv[2], number(argv[3], CONNECTIONS_MAX), number(argv[4], 100000),
		    number(argv[5], 60), argv[6]);
	else {
		(void)fprintf(stderr, "ask exec|mcp|create|burst|fan ...\n");
		return 2;
	}
	return 0;
}
