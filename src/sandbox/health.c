/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox/health.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/jread.h"
#include "base/num.h"
#include "base/str.h"

#define ANSWER_MAX ((size_t)1 << 20)
#define PLACES_MAX 8

/* ---- one question ---- */

static int wait_for(int fd, short events, uint64_t until)
{
	uint64_t now = clock_us();
	struct pollfd p = { .fd = fd, .events = events };
	int n;

	if (now >= until)
		return -ETIMEDOUT;
	n = poll(&p, 1, (int)((until - now + 999) / 1000));
	if (n < 0)
		return errno == EINTR ? wait_for(fd, events, until) : -errno;
	return n == 0 ? -ETIMEDOUT : 0;
}

static int dial(const char *path, uint64_t until)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	CLEANUP(fd) int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd < 0)
		return -errno;
	(void)snprintf(a.sun_path, sizeof(a.sun_path), "%s", path);
	/* A full backlog of a Unix socket says so at once instead of making us wait. */
	while (connect(fd, (struct sockaddr *)&a, sizeof(a)) < 0) {
		if (errno != EAGAIN)
			return -errno;
		(void)poll(NULL, 0, 20);
		if (clock_us() >= until)
			return -ETIMEDOUT;
	}
	return TAKE_FD(fd);
}

/* Three digits behind the version. */
static int status_of(const char *text)
{
	char digits[4] = "";
	uint64_t status;

	(void)snprintf(digits, sizeof(digits), "%.3s", text);
	return num_count(digits, &status) < 0 ? -EPROTO : (int)status;
}

/* The body of the answer to a GET; its status, or -errno. HTTP/1.0: the answer ends with the
 * connection, so there is nothing to parse but the head. */
static int get(const char *socket_path, const char *target, uint64_t until, struct buf *body)
{
	CLEANUP(fd) int fd = dial(socket_path, until);
	CLEANUP(buf) struct buf all = BUF_INIT(ANSWER_MAX);
	char text[4096];
	const char *head;
	ssize_t n;
	int r;

	if (fd < 0)
		return fd;
	r = snprintf(text, sizeof(text), "GET %s HTTP/1.0\r\nHost: engine\r\n\r\n", target);
	if (r >= (int)sizeof(text) || write(fd, text, (size_t)r) != r)
		return -EIO;
	do {
		r = wait_for(fd, POLLIN, until);
		n = r < 0 ? -1 : read(fd, text, sizeof(text));
		if (n > 0)
			buf_add(&all, text, (size_t)n);
	} while (n > 0);
	if (r < 0 || n < 0)
		return r < 0 ? r : -errno;
	head = strstr(buf_str(&all), "\r\n\r\n");
	if (all.failed || !head || strncmp(buf_str(&all), "HTTP/1.", 7) != 0)
		return -EPROTO;
	buf_puts(body, head + 4);
	return status_of(buf_str(&all) + strlen("HTTP/1.x "));
}

static struct jread *get_json(const char *socket_path, const char *target, unsigned ms)
{
	CLEANUP(buf) struct buf body = BUF_INIT(ANSWER_MAX);
	int status = get(socket_path, target, clock_us() + (uint64_t)ms * 1000, &body);
	struct jread *answer;
	struct err e;

	if (status != 200) {
		errno = status < 0 ? -status : EPROTO;
		return NULL;
	}
	errno = EPROTO;
	return jread_parse(buf_str(&body), body.len, &answer, &e) < 0 ? NULL : answer;
}

/* ---- engines ---- */

static bool find_program(const char *name, char *out, size_t n)
{
	for (const char *path = getenv("PATH"); path && *path;) {
		size_t len = strcspn(path, ":");

		if (path[0] == '/' && snprintf(out, n, "%.*s/%s", (int)len, path, name) < (int)n &&
		    access(out, X_OK) == 0)
			return true;
		path += len + (path[len] == ':');
	}
	out[0] = '\0';
	return false;
}

struct places {
	char path[PLACES_MAX][108];
	size_t n;
};

static void add(struct places *p, const char *folder, const char *rest)
{
	if (folder && folder[0] == '/' && p->n < PLACES_MAX &&
	    snprintf(p->path[p->n], sizeof(p->path[0]), "%s%s", folder, rest) <
		    (int)sizeof(p->path[0]))
		p->n++;
}

/* What the user named alone, else the usual places. */
static void list_places(struct places *p)
{
	const char *host = getenv("DOCKER_HOST");

	p->n = 0;
	if (host && host[0]) {
		add(p, str_starts(host, "unix://") ? host + strlen("unix://") : NULL, "");
		return;
	}
	add(p, getenv("XDG_RUNTIME_DIR"), "/docker.sock");
	add(p, "/var/run/docker.sock", "");
	add(p, getenv("HOME"), "/.docker/run/docker.sock");
	add(p, getenv("XDG_RUNTIME_DIR"), "/podman/podman.sock");
	add(p, "/run/podman/podman.sock", "");
}

static enum engine_state state_of(int error)
{
	return error == EACCES || error == EPERM ? ENGINE_DENIED
	       : error == ETIMEDOUT              ? ENGINE_LATE
						 : ENGINE_DOWN;
}

static bool try_place(const char *path, unsigned ms, struct engine_health *h)
{
	CLEANUP(jread) struct jread *answer = NULL;
	const char *version;

	if (access(path, F_OK) < 0)
		return false;
	(void)snprintf(h->socket, sizeof(h->socket), "%s", path);
	answer = get_json(path, "/version", ms);
	version = jread_str(answer, "Version");
	h->state = version ? ENGINE_READY : state_of(errno);
	if (version)
		(void)snprintf(h->version, sizeof(h->version), "%s", version);
	return h->state == ENGINE_READY;
}

static void say(struct engine_health *h)
{
	switch (h->state) {
	case ENGINE_READY:
		(void)snprintf(h->detail, sizeof(h->detail), "docker daemon ready (server %s)",
			       h->version);
		break;
	case ENGINE_ABSENT:
		(void)snprintf(h->detail, sizeof(h->detail), "docker CLI not found");
		break;
	case ENGINE_DENIED:
	case ENGINE_DOWN:
		(void)snprintf(h->detail, sizeof(h->detail), "docker daemon unavailable");
		break;
	case ENGINE_LATE:
		(void)snprintf(h->detail, sizeof(h->detail), "docker check timed out");
		break;
	}
}

void engine_health(unsigned ms, struct engine_health *ret)
{
	struct places p;
	bool cli;

	*ret = (struct engine_health){ .state = ENGINE_ABSENT };
	cli = find_program("docker", ret->cli, sizeof(ret->cli));
	list_places(&p);
	for (size_t i = 0; i < p.n; i++)
		if (try_place(p.path[i], ms / (unsigned)(p.n ? p.n : 1), ret))
			break;
	if (ret->state == ENGINE_ABSENT && cli)
		ret->state = ENGINE_DOWN;
	say(ret);
}

/* A reference has no byte that a request line could not hold; anything else names no image. */
static bool reference_valid(const char *image)
{
	return image[0] &&
	       !image[strspn(image, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
				    "0123456789._-/:@")];
}

int engine_has_image(const struct engine_health *h, const char *image, unsigned ms)
{
	CLEANUP(buf) struct buf body = BUF_INIT(ANSWER_MAX);
	char target[512];
	int status;

	if (h->state != ENGINE_READY)
		return -ENOTCONN;
	if (!reference_valid(image) ||
	    snprintf(target, sizeof(target), "/images/%s/json", image) >= (int)sizeof(target))
		return 0;
	status = get(h->socket, target, clock_us() + (uint64_t)ms * 1000, &body);
	return status == 200 ? 1 : status == 404 ? 0 : status < 0 ? status : -EPROTO;
}

int engine_runtimes(struct engine_health *h, unsigned ms)
{
	CLEANUP(jread)
	struct jread *info = h->state == ENGINE_READY ? get_json(h->socket, "/info", ms) : NULL;
	const struct jread *all = jread_get(info, "Runtimes");

	h->runtimes[0] = '\0';
	if (!info)
		return h->state == ENGINE_READY ? -errno : -ENOTCONN;
	for (void *it = jread_first(all); it; it = jread_next(all, it)) {
		size_t at = strlen(h->runtimes);

		(void)snprintf(h->runtimes + at, sizeof(h->runtimes) - at, "%s%s", at ? ", " : "",
			       jread_key(it));
	}
	return 0;
}

/* ---- any backend ---- */

struct verdict {
	int result;
	char detail[512];
};

static _Noreturn void probe_in_child(const struct backend *b, const struct spec *s, int out)
{
	struct isolation got = { 0 };
	struct verdict v = { 0 };
	struct err e = { 0 };

	v.result = b->probe(s, &got, &e);
	if (v.result == 0)
		(void)snprintf(v.detail, sizeof(v.detail), "backend '%s' is ready", b->name);
	else
		(void)snprintf(v.detail, sizeof(v.detail), "%s", e.what);
	_exit(fd_write_all(out, &v, sizeof(v)) < 0);
}

static int failed(char *detail, size_t n, int code, const char *what, const char *name)
{
	(void)snprintf(detail, n, "%s '%s'", what, name);
	return -code;
}

int backend_health(const struct backend *b, const struct spec *s, unsigned ms, char *detail,
		   size_t n)
{
	uint64_t until = clock_us() + (uint64_t)ms * 1000;
	struct verdict v;
	int ends[2], r;
	ssize_t got;
	pid_t pid;

	if (pipe2(ends, O_CLOEXEC) < 0)
		return failed(detail, n, errno, "no pipe for a look at backend", b->name);
	pid = fork();
	if (pid == 0)
		probe_in_child(b, s, ends[1]);
	(void)fd_close(ends[1]);
	r = pid < 0 ? -errno : wait_for(ends[0], POLLIN, until);
	got = r < 0 ? -1 : read(ends[0], &v, sizeof(v));
	(void)fd_close(ends[0]);
	if (pid > 0) {
		(void)kill(pid, SIGKILL);
		while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
			;
	}
	if (r == -ETIMEDOUT)
		return failed(detail, n, ETIMEDOUT, "no answer in time from backend", b->name);
	if (got != (ssize_t)sizeof(v))
		return failed(detail, n, EIO, "no answer from backend", b->name);
	(void)snprintf(detail, n, "%s", v.detail);
	return v.result;
}
