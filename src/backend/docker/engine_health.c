/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/engine_health.h"

#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "backend/docker/docker.h"
#include "base/sys/clock.h"
#include "model/known/image_name.h"

/* Before this nobody made images: builds that want to be repeatable say 1970. */
#define FIRST_YEAR 2013

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

static enum engine_state state_of(const struct err *e)
{
	if (e->kind == ERR_CONFIG)
		return ENGINE_MISNAMED;
	switch (e->code) {
	case EACCES:
	case EPERM:
		return ENGINE_DENIED;
	case ENOENT:
	case ENOTDIR:
		return ENGINE_ABSENT;
	case ETIMEDOUT:
		return ENGINE_LATE;
	default:
		return ENGINE_DOWN;
	}
}

static unsigned ms_until(uint64_t until)
{
	uint64_t now = clock_us();

	return now < until ? (unsigned)((until - now + 999) / 1000) : 1;
}

static int engine_health_look(uint64_t until, struct engine_health *h, struct err *e)
{
	CLEANUP(engine) struct engine g = { 0 };
	CLEANUP(engine_answer) struct engine_answer a = { 0 };
	struct engine_call q = { .method = "GET", .path = "/version" };
	const char *version;

	if (engine_open_within(ms_until(until), &g, e) < 0)
		return -e->code;
	q.ms = ms_until(until);
	if (engine_ask(&g, &q, &a, e) < 0)
		return -e->code;
	version = a.status == 200 ? jread_str(a.json, "Version") : NULL;
	if (!version)
		return err_set(e, ERR_UNAVAILABLE, EPROTO,
			       "what answers at '%s' is not a Docker engine", g.path);
	(void)snprintf(h->socket, sizeof(h->socket), "%s", g.path);
	(void)snprintf(h->version, sizeof(h->version), "%s", version);
	return 0;
}

static void engine_health_say(struct engine_health *h)
{
	static const char *const words[] = { [ENGINE_ABSENT] = "docker CLI not found",
					     [ENGINE_DENIED] = "docker daemon unavailable",
					     [ENGINE_DOWN] = "docker daemon unavailable",
					     [ENGINE_LATE] = "docker check timed out",
					     [ENGINE_MISNAMED] = "docker daemon unavailable" };

	if (h->state == ENGINE_READY)
		(void)snprintf(h->detail, sizeof(h->detail), "docker daemon ready (server %s)",
			       h->version);
	else
		(void)snprintf(h->detail, sizeof(h->detail), "%s", words[h->state]);
}

void engine_health(unsigned ms, struct engine_health *ret)
{
	struct err e = { 0 };
	bool cli;

	*ret = (struct engine_health){ .state = ENGINE_READY };
	cli = find_program("docker", ret->cli, sizeof(ret->cli));
	if (engine_health_look(clock_us() + (uint64_t)ms * 1000, ret, &e) < 0) {
		ret->state = state_of(&e);
		(void)snprintf(ret->hint, sizeof(ret->hint), "%s", e.hint);
		if (ret->state == ENGINE_ABSENT && cli)
			ret->state = ENGINE_DOWN;
	}
	engine_health_say(ret);
}

int docker_health(unsigned ms, char *detail, size_t n)
{
	struct engine_health h;

	engine_health(ms, &h);
	(void)snprintf(detail, n, "%s", h.detail);
	return h.state == ENGINE_READY ? 0 : h.state == ENGINE_LATE ? -ETIMEDOUT : -ENOTCONN;
}

static int engine_health_ask(const struct engine_health *h, const char *path, unsigned ms,
			     struct engine_answer *ret)
{
	CLEANUP(engine) struct engine g = { 0 };
	uint64_t until = clock_us() + (uint64_t)ms * 1000;
	struct engine_call q = { .method = "GET", .path = path };
	struct err e = { 0 };

	if (h->state != ENGINE_READY)
		return -ENOTCONN;
	if (engine_open_at(h->socket, &g, &e) < 0)
		return -e.code;
	q.ms = ms_until(until);
	return engine_ask(&g, &q, ret, &e) < 0 ? -e.code : 0;
}

/* Seconds since an RFC 3339 time, or -1. */
static int64_t engine_age(const char *created, int64_t now)
{
	struct tm t = { 0 };
	time_t then;

	if (!created || !strptime(created, "%Y-%m-%dT%H:%M:%S", &t) ||
	    t.tm_year + 1900 < FIRST_YEAR)
		return -1;
	then = timegm(&t); /* a zone behind it is hours: nobody counts those here */
	return then < now ? now - then : 0;
}

int engine_has_image(const struct engine_health *h, const char *image, unsigned ms, int64_t *age)
{
	CLEANUP(engine_answer) struct engine_answer a = { 0 };
	char path[600];
	int r;

	if (!image_valid(image) ||
	    snprintf(path, sizeof(path), "/images/%s/json", image) >= (int)sizeof(path))
		return h->state == ENGINE_READY ? 0 : -ENOTCONN;
	r = engine_health_ask(h, path, ms, &a);
	if (r < 0)
		return r;
	if (age)
		*age = engine_age(jread_str(a.json, "Created"), (int64_t)time(NULL));
	return a.status == 200 ? 1 : a.status == 404 ? 0 : -EPROTO;
}

int engine_runtimes(struct engine_health *h, unsigned ms)
{
	CLEANUP(engine_answer) struct engine_answer a = { 0 };
	const struct jread *all;
	int r = engine_health_ask(h, "/info", ms, &a);

	h->runtimes[0] = '\0';
	if (r < 0 || a.status != 200)
		return r < 0 ? r : -EPROTO;
	all = jread_get(a.json, "Runtimes");
	for (void *it = jread_first(all); it; it = jread_next(all, it)) {
		size_t at = strlen(h->runtimes);

		(void)snprintf(h->runtimes + at, sizeof(h->runtimes) - at, "%s%s", at ? ", " : "",
			       jread_key(it));
	}
	return 0;
}
