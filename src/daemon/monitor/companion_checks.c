/* SPDX-License-Identifier: Apache-2.0 */
/* daemon/monitor/companion_checks.c - is a companion healthy? And what is done in the sandbox once
 * it is.
 *
 *     check → (failed: wait, check again, or too often) → healthy → hook, hook... → ready
 *
 * A check is a command in the companion, a hook one in the sandbox. What a check writes is kept to
 * its last 4 KiB, for who asks why. A companion that was healthy once is not checked again until it
 * has ended, and was begun anew: its end is what is noticed. */
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>

#include "base/sys/clock.h"
#include "base/text/str.h"
#include "daemon/monitor/monitor_companions.h"
#include "sandbox/manager.h"

#define INTERVAL_MS 1000
#define TIMEOUT_MS 5000
#define RETRIES 30
#define TEST_MAX 64 /* words */
#define BEGINS_US ((uint64_t)5 * 1000)
#define PAUSED_US ((uint64_t)1000 * 1000)

static struct companion *of_asks(struct loop_watch *w)
{
	return CONTAINER_OF(w, struct companion, asks);
}

static void companion_on_answer(void *arg, int stream UNUSED, const char *data, size_t n)
{
	struct companion *c = arg;

	companion_hear(&c->answer, data, n);
}

static void on_asked(struct loop_watch *w, uint32_t events);

/* Begins a command beside the service; of what, says nothing. */
static int companion_begin(struct companion *c, brig_sandbox *where, const char *const *argv,
			   uint64_t ms, struct brig_error *e)
{
	const struct brig_limits limits = { .timeout_ms = ms ? ms : 1 };
	brig_request *q = brig_sandbox_command(where);

	c->aside_request = q;
	c->answer.n = 0;
	if (!q || brig_request_argv(q, argv, e) < 0 || brig_request_limits(q, &limits, e) < 0)
		return -1;
	brig_request_on_output(q, companion_on_answer, c);
	request_tell(q);
	if (brig_sandbox_exec(where, q, &c->aside, e) < 0)
		return -1;
	c->asks = (struct loop_watch){ .fd = brig_run_fd(c->aside), .ready = on_asked };
	return c->asks.fd < 0 || loop_want(c->m->loop, &c->asks, EPOLLIN) < 0 ? -1 : 0;
}

/* Its exit status; -1: it did not end by itself, or never ran. */
static int companion_finish(struct companion *c)
{
	struct brig_error unused;
	brig_result *r = NULL;
	int status = -1;

	if (c->asks.fd >= 0)
		(void)loop_want(c->m->loop, &c->asks, 0);
	if (c->aside)
		(void)brig_run_finish(c->aside, &r, &unused);
	if (r && str_eq(brig_result_outcome(r), "exited"))
		status = brig_result_exit_code(r);
	brig_result_free(r);
	brig_request_free(c->aside_request);
	c->aside = NULL;
	c->aside_request = NULL;
	c->asks.fd = -1;
	return status;
}

void companion_check_end(struct companion *c)
{
	loop_at(c->m->loop, &c->next, 0);
	(void)companion_finish(c);
}

/* ---- hooks ---- */

static void next_hook(struct companion *c)
{
	const struct strlist *hooks = &c->spec->post_start;
	const char *argv[] = { "/bin/sh", "-lc", NULL, NULL };
	uint64_t bound = c->m->companions->bound.at, now = clock_us();
	struct brig_error e = { .what = "no memory" };
	char what[256];

	if (c->hooks == hooks->n) {
		companion_becomes(c, COMPANION_READY, NULL);
		return;
	}
	argv[2] = hooks->v[c->hooks];
	if (companion_begin(c, c->m->sandbox, argv, bound > now ? (bound - now) / 1000 : 1, &e) ==
	    0)
		return;
	(void)companion_finish(c);
	(void)snprintf(what, sizeof(what),
		       "command %zu of post_start_on_primary cannot run: %.150s", c->hooks + 1,
		       e.what);
	companion_spoils(c, "post-start-failed", what);
}

static void hook_ended(struct companion *c, int status)
{
	char what[128];

	if (status == 0) {
		c->hooks++;
		next_hook(c);
		return;
	}
	if (status < 0)
		(void)snprintf(what, sizeof(what), "command %zu of post_start_on_primary was ended",
			       c->hooks + 1);
	else
		(void)snprintf(what, sizeof(what),
			       "command %zu of post_start_on_primary ended with status %d",
			       c->hooks + 1, status);
	companion_spoils(c, "post-start-failed", what);
}

/* ---- checks ---- */

static void check_ended(struct companion *c, int status)
{
	const struct health_spec *h = &c->spec->health;
	uint64_t now = clock_us(), wait = h->interval ? h->interval : INTERVAL_MS;
	bool early = now < c->since + h->start_period * 1000;
	char what[128];

	/* Commands begin side by side: without a check of its own the service is ready once it is
	 * executed, which `true` may have been before it. */
	if (status == 0 && !h->test.n && c->run && !run_handle_began(c->run)) {
		loop_at(c->m->loop, &c->next, now + BEGINS_US);
		return;
	}
	if (status == 0) {
		c->healthy = true;
		next_hook(c);
		return;
	}
	c->failures += !early;
	if (c->failures >= (h->retries ? h->retries : RETRIES)) {
		(void)snprintf(what, sizeof(what), "its health check failed %llu times",
			       (unsigned long long)c->failures);
		companion_spoils(c, "companion-unhealthy", what);
		return;
	}
	if (early && h->start_interval)
		wait = h->start_interval;
	loop_at(c->m->loop, &c->next, now + wait * 1000);
}

static void on_asked(struct loop_watch *w, uint32_t events UNUSED)
{
	struct companion *c = of_asks(w);
	int status;

	if (brig_run_dispatch(c->aside))
		return;
	status = companion_finish(c);
	if (!companion_is_awaited(c))
		return;
	if (c->healthy)
		hook_ended(c, status);
	else
		check_ended(c, status);
}

static void on_next(struct loop_timer *t, uint64_t now)
{
	struct companion *c = CONTAINER_OF(t, struct companion, next);
	const struct strlist *test = &c->spec->health.test;
	const char *shell[] = { "/bin/sh", "-c", test->n > 1 ? test->v[1] : "", NULL };
	/* Without a check: the sandbox can run something. */
	const char *words[TEST_MAX + 1] = { "true" };
	bool line = test->n && str_eq(test->v[0], "CMD-SHELL");
	uint64_t ms = c->spec->health.timeout ? c->spec->health.timeout : TIMEOUT_MS;
	struct brig_error e;

	if (!companion_is_awaited(c))
		return;
	if (c->m->stage == MONITOR_IS_PAUSED) {
		loop_at(c->m->loop, t, now + PAUSED_US);
		return;
	}
	for (size_t i = 1; i < test->n && i <= TEST_MAX; i++)
		words[i - 1] = test->v[i];
	if (companion_begin(c, c->sandbox, line ? shell : words, ms, &e) == 0)
		return;
	(void)companion_finish(c);
	check_ended(c, -1);
}

void companion_check(struct companion *c)
{
	c->next.due = on_next;
	c->asks.fd = -1;
	loop_at(c->m->loop, &c->next, clock_us());
}
