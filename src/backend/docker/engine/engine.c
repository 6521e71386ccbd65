/* SPDX-License-Identifier: Apache-2.0 */
/* backend/docker/engine/engine.c - one engine behind one socket: version, requests, answers. */
#include "backend/docker/engine/engine.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/bytes/base64.h"
#include "base/files/exposed.h"
#include "base/sys/clock.h"
#include "base/text/num.h"
#include "base/text/str.h"

#define ANSWER_MAX ((size_t)8 << 20)
#define TARGET_MAX 4096
#define REFUSAL_MAX 65536

static uint64_t in_ms(unsigned ms)
{
	return clock_us() + (uint64_t)ms * 1000;
}

int engine_connect(const struct engine *g, unsigned ms, struct client **ret, struct err *e)
{
	struct transport t;

	if (transport_unix(g->path, in_ms(ms), &t, e) < 0)
		return -e->code;
	*ret = client_new(t, "docker", e);
	return *ret ? 0 : -e->code;
}

void engine_done(struct engine *g)
{
	g->client = client_free(g->client);
}

void engine_escape(struct buf *b, const char *text)
{
	for (; *text; text++) {
		unsigned char c = (unsigned char)*text;

		if ((c >= '0' && c <= '9') || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z') ||
		    strchr("-._~", c))
			buf_putc(b, (char)c);
		else
			buf_printf(b, "%%%02X", c);
	}
}

void engine_message(const struct jread *json, char *out, size_t n)
{
	const char *text = jread_str(json, "message");

	if (!text)
		text = jread_str(json, "cause");
	(void)snprintf(out, n, "%s", text ? text : "");
	for (char *p = out; *p; p++)
		if ((unsigned char)*p < 0x20 || *p == 0x7f)
			*p = ' ';
	for (size_t len = strlen(out); len && out[len - 1] == ' '; len--)
		out[len - 1] = '\0';
}

void engine_refusal(struct client *c, char *out, size_t n)
{
	CLEANUP(buf) struct buf b = BUF_INIT(REFUSAL_MAX);
	CLEANUP(jread) struct jread *v = NULL;
	struct err ignored;

	(void)client_read_all(c, &b, in_ms(ENGINE_CALL_MS), &ignored);
	(void)jread_parse(b.data, b.len, &v, &ignored);
	engine_message(v, out, n);
}

int engine_send(const struct engine *g, struct client *c, const struct engine_call *q,
		const char *upgrade, uint64_t deadline, struct err *e)
{
	char target[TARGET_MAX];
	struct client_request r = {
		.method = q->method, .target = target, .fields = q->fields, .upgrade = upgrade
	};
	int n = g->api ? snprintf(target, sizeof(target), "/v1.%u%s", g->api, q->path)
		       : snprintf(target, sizeof(target), "%s", q->path);

	if (n >= (int)sizeof(target))
		return err_set(e, ERR_INTERNAL, EMSGSIZE, "a request to the engine is too long");
	if (q->body) {
		r.type = q->tar ? "application/x-tar" : "application/json";
		r.body = q->body;
		r.body_len = q->tar ? q->tar : strlen(q->body);
	}
	return client_send(c, &r, deadline, e);
}

/* What the engine tells of a file in a container comes as JSON in a field. */
static void read_mode(const struct http1_answer *a, struct engine_answer *ret)
{
	struct http1_text field = http1_field(a, "X-Docker-Container-Path-Stat");
	CLEANUP(jread) struct jread *v = NULL;
	char text[8192];
	struct err e;
	ssize_t n = field.p ? base64_read(field.p, field.n, text, sizeof(text)) : -1;

	if (n < 0 || jread_parse(text, (size_t)n, &v, &e) < 0 || jread_int(v, "mode", -1) < 0)
		return;
	ret->mode = (uint64_t)jread_int(v, "mode", 0);
	ret->has_mode = true;
}

static int engine_read_answer(struct client *c, uint64_t deadline, struct engine_answer *ret,
			      struct err *e)
{
	CLEANUP(buf) struct buf b = BUF_INIT(ANSWER_MAX);
	const struct http1_answer *a;
	struct err not_json;

	if (client_answer(c, deadline, &a, e) < 0)
		return -e->code;
	ret->status = a->status;
	read_mode(a, ret);
	if (client_read_all(c, &b, deadline, e) < 0)
		return -e->code;
	if (b.len)
		(void)jread_parse(b.data, b.len, &ret->json, &not_json);
	if (a->status >= 400)
		engine_message(ret->json, ret->message, sizeof(ret->message));
	return 0;
}

static int ask_once(struct engine *g, const struct engine_call *q, struct engine_answer *ret,
		    struct err *e)
{
	unsigned ms = q->ms ? q->ms : ENGINE_CALL_MS;
	uint64_t deadline = in_ms(ms);
	int r;

	if (!g->client && engine_connect(g, ms, &g->client, e) < 0)
		return -e->code;
	r = engine_send(g, g->client, q, NULL, deadline, e);
	if (r == 0)
		r = engine_read_answer(g->client, deadline, ret, e);
	if (r < 0 || !client_reusable(g->client))
		g->client = client_free(g->client);
	return r;
}

int engine_ask(struct engine *g, const struct engine_call *q, struct engine_answer *ret,
	       struct err *e)
{
	bool kept = g->client;
	int r;

	*ret = (struct engine_answer){ 0 };
	r = ask_once(g, q, ret, e);
	/* An idle connection may have been closed meanwhile. Only what changes nothing, or can be
	 * done twice, is asked again. */
	if (r == -ECONNRESET && kept && !ret->status && !str_eq(q->method, "POST"))
		r = ask_once(g, q, ret, e);
	return r < 0 ? err_wrap(e, "engine at '%s'", g->path) : 0;
}

void engine_answer_done(struct engine_answer *a)
{
	a->json = jread_free(a->json);
}

/* ---- opening ---- */

static int agree(struct engine *g, struct http1_text version, struct err *e)
{
	char text[16] = "";
	uint64_t minor = 0;

	if (version.n && version.n < sizeof(text))
		memcpy(text, version.p, version.n);
	if (!str_starts(text, "1.") || num_count(text + 2, &minor) < 0)
		return err_refuse(e, ERR_UNAVAILABLE, EPROTO,
				  "name an engine's socket in DOCKER_HOST",
				  "what answers at '%s' is not a Docker engine", g->path);
	if (minor < ENGINE_API_MIN)
		return err_refuse(e, ERR_UNAVAILABLE, EPROTONOSUPPORT,
				  "upgrade it to Docker 20.10 or Podman 4",
				  "the engine at '%s' is too old: API 1.%u, brig needs 1.%d",
				  g->path, (unsigned)minor, ENGINE_API_MIN);
	g->api = minor < ENGINE_API_MAX ? (unsigned)minor : ENGINE_API_MAX;
	return 0;
}

static int ping(struct engine *g, uint64_t deadline, struct err *e)
{
	const struct engine_call q = { .method = "GET", .path = "/_ping" };
	CLEANUP(buf) struct buf b = BUF_INIT(4096);
	const struct http1_answer *a;

	if (engine_send(g, g->client, &q, NULL, deadline, e) < 0 ||
	    client_answer(g->client, deadline, &a, e) < 0)
		return -e->code;
	g->podman = http1_field(a, "Libpod-Api-Version").p;
	if (agree(g, http1_field(a, "Api-Version"), e) < 0)
		return -e->code;
	return client_read_all(g->client, &b, deadline, e);
}

/* What kept us from it becomes a sentence with a remedy. */
static int unavailable(const char *path, struct err *e)
{
	int code = e->code;

	switch (code) {
	case EACCES:
	case EPERM:
		return err_refuse(e, ERR_UNAVAILABLE, code,
				  "sudo usermod -aG docker $USER and log in again, or run a "
				  "rootless engine",
				  "Docker is not available: you may not use its socket '%s'", path);
	case ENOENT:
	case ENOTDIR:
		return err_refuse(e, ERR_UNAVAILABLE, code,
				  "install an engine (apt install docker.io, or podman), or name "
				  "its socket in DOCKER_HOST",
				  "Docker is not available: there is no socket '%s'", path);
	case ECONNREFUSED:
		return err_refuse(e, ERR_UNAVAILABLE, code, "start it: sudo systemctl start docker",
				  "Docker is not available: its daemon is down (socket '%s')",
				  path);
	case ETIMEDOUT:
		return err_refuse(
			e, ERR_UNAVAILABLE, code, "restart it: sudo systemctl restart docker",
			"Docker is not available: docker check timed out (socket '%s')", path);
	default:
		if (e->kind == ERR_UNAVAILABLE)
			return -code;
		e->kind = ERR_UNAVAILABLE;
		return err_wrap(e, "Docker is not available");
	}
}

/* It is told what is shown, and the passwords of registries; a guest that plays it says what it
 * likes of the sandbox. One that is not there may be when it is dialled. */
static int check_guests(const char *path, struct err *e)
{
	struct err why = { 0 };

	if (!exposed_path(path, NULL, EXPOSED_REACHED, &why))
		return 0;
	if (access(path, F_OK) < 0) {
		(void)err_sys(e, "there is no socket");
		return unavailable(path, e);
	}
	(void)err_set(e, ERR_POLICY, EPERM, "socket '%.107s' is not taken for an engine's: %.200s",
		      path, why.what);
	exposed_hint("let DOCKER_HOST name the engine's own: unix:///var/run/docker.sock", &why, e);
	return -e->code;
}

static int open_in(const char *path, unsigned ms, struct engine *ret, struct err *e)
{
	CLEANUP(engine) struct engine g = { 0 };
	uint64_t deadline = in_ms(ms);
	struct stat st;

	if (strlen(path) >= sizeof(g.path))
		return err_refuse(e, ERR_CONFIG, ENAMETOOLONG,
				  "at most 107 bytes: a link with a shorter name helps",
				  "the path of socket '%s' is too long", path);
	memcpy(g.path, path, strlen(path) + 1);
	if (check_guests(path, e) < 0)
		return -e->code;
	if (engine_connect(&g, ms, &g.client, e) < 0 || ping(&g, deadline, e) < 0)
		return unavailable(path, e);
	g.rootless = stat(path, &st) == 0 && st.st_uid != 0;
	if (!client_reusable(g.client))
		g.client = client_free(g.client);
	*ret = g;
	g.client = NULL;
	return 0;
}

int engine_open_at(const char *path, struct engine *ret, struct err *e)
{
	return open_in(path, ENGINE_QUICK_MS, ret, e);
}

static bool is_worse(int code, int than)
{
	return !than || than == ENOENT || code == EPERM || (than == ECONNREFUSED && code == EACCES);
}

/* Places where something lies; the others cost no time. */
static unsigned how_many(const struct engine_places *at)
{
	unsigned n = 0;

	for (size_t i = 0; i < at->n; i++)
		n += access(at->path[i], F_OK) == 0;
	return n ? n : 1;
}

/* All of it within total ms, or each place with its own time. */
static int open_first(unsigned ms, bool total, struct engine *ret, struct err *e)
{
	CLEANUP(arena) struct arena *a = arena_new((size_t)1 << 20);
	struct engine_places at = { 0 };
	struct err worst = { 0 };

	if (!a)
		return err_nomem(e);
	if (engine_places(a, &at, e) < 0)
		return -e->code;
	if (total)
		ms /= how_many(&at);
	for (size_t i = 0; i < at.n; i++) {
		struct err now = { 0 };

		if (open_in(at.path[i], ms, ret, &now) == 0)
			return 0;
		if (is_worse(now.code, worst.code))
			worst = now;
	}
	*e = worst;
	if (worst.code == ENOENT && !at.named)
		return err_refuse(e, ERR_UNAVAILABLE, ENOENT,
				  "install one (apt install docker.io, or podman), or name its "
				  "socket in DOCKER_HOST",
				  "Docker is not available: no engine's socket was found");
	return -e->code;
}

int engine_open(struct engine *ret, struct err *e)
{
	return open_first(ENGINE_QUICK_MS, false, ret, e);
}

int engine_open_within(unsigned ms, struct engine *ret, struct err *e)
{
	return open_first(ms, true, ret, e);
}
