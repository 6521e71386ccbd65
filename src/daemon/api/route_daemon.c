/* SPDX-License-Identifier: Apache-2.0 */
/* daemon/api/route_daemon.c - routes about the daemon itself. */
#include <unistd.h>

#include "base/sys/clock.h"
#include "base/text/str.h"
#include "daemon/api/api.h"

#define DOCUMENT_MAX ((size_t)4 << 20)
#define STOP_GRACE 5000 /* milliseconds */

static void route_daemon_say(struct http_call *c, bool yes)
{
	http_answer(c, yes ? 200 : 503, NULL, "text/plain", yes ? "ok\n" : "no\n", 3);
}

void serve_health(struct api *a UNUSED, struct http_call *c, const struct jread *body UNUSED)
{
	route_daemon_say(c, true);
}

void serve_ready(struct api *a, struct http_call *c, const struct jread *body UNUSED)
{
	route_daemon_say(c, a->ready);
}

static const char *counted(const struct http_call *c)
{
	return c->caller->local || api_is_owner(c) ? NULL : c->caller->tenant;
}

static void gauge(struct buf *b, const char *name, const char *label, size_t v)
{
	buf_printf(b, "%s%s %zu\n", name, label, v);
}

void serve_metrics(struct api *a, struct http_call *c, const struct jread *body UNUSED)
{
	CLEANUP(buf) struct buf b = BUF_INIT((size_t)64 << 10);
	struct sandbox_count n;

	sandboxes_count(a->boxes, counted(c), &n);
	buf_puts(&b, "# HELP brig_sandboxes Sandboxes by state.\n# TYPE brig_sandboxes gauge\n");
	gauge(&b, "brig_sandboxes", "{state=\"pending\"}", n.pending);
	gauge(&b, "brig_sandboxes", "{state=\"ready\"}", n.ready);
	gauge(&b, "brig_sandboxes", "{state=\"paused\"}", n.paused);
	gauge(&b, "brig_sandboxes", "{state=\"stopped\"}", n.stopped);
	gauge(&b, "brig_sandboxes", "{state=\"failed\"}", n.failed);
	buf_puts(&b, "# HELP brig_execs_running Commands that run now.\n"
		     "# TYPE brig_execs_running gauge\n");
	gauge(&b, "brig_execs_running", "", n.execs_running);
	if (c->caller->local) {
		buf_puts(&b, "# HELP brig_daemon_connections Connections to the daemon.\n"
			     "# TYPE brig_daemon_connections gauge\n");
		gauge(&b, "brig_daemon_connections", "", http_connections(a->http));
		buf_puts(&b, "# HELP brig_daemon_requests_total Requests served.\n"
			     "# TYPE brig_daemon_requests_total counter\n");
		gauge(&b, "brig_daemon_requests_total", "", http_served(a->http));
		buf_puts(&b, "# HELP brig_daemon_events_total Events so far.\n"
			     "# TYPE brig_daemon_events_total counter\n");
		gauge(&b, "brig_daemon_events_total", "", events_last(a->events));
	}
	http_answer(c, 200, NULL, "text/plain; version=0.0.4", buf_str(&b), b.len);
}

void serve_openapi(struct api *a UNUSED, struct http_call *c, const struct jread *body UNUSED)
{
	CLEANUP(buf) struct buf b = BUF_INIT(DOCUMENT_MAX);
	struct json j;

	json_init(&j, &b, false);
	api_openapi(&j);
	api_answer_json(c, 200, &b);
}

void serve_info(struct api *a, struct http_call *c, const struct jread *body UNUSED)
{
	CLEANUP(buf) struct buf b = BUF_INIT((size_t)16 << 10);
	struct sandbox_count n;
	struct json j;

	sandboxes_count(a->boxes, counted(c), &n);
	json_init(&j, &b, false);
	json_object(&j);
	json_kstr(&j, "version", BRIG_VERSION);
	json_ku64(&j, "schema", 1);
	if (c->caller->local)
		json_ku64(&j, "pid", (uint64_t)getpid());
	json_ku64(&j, "uptime_ms", (clock_us() - a->began) / 1000);
	json_ku64(&j, "sandboxes", n.pending + n.ready + n.paused + n.stopped + n.failed);
	json_ku64(&j, "execs_running", n.execs_running);
	if (c->caller->local)
		json_ku64(&j, "connections", http_connections(a->http));
	json_ku64(&j, "last_event", events_last(a->events));
	json_object_end(&j);
	api_answer_json(c, 200, &b);
}

/* `brig daemon stop --all`: the daemon ends once they have. */
struct last_orders {
	struct api *api;
	size_t left;
};

static void one_less(void *arg, enum problem p UNUSED, const struct err *e UNUSED)
{
	struct last_orders *o = arg;

	if (--o->left)
		return;
	o->api->stop(o->api->stop_arg);
	free(o);
}

static void stop_one(void *arg, const char *id)
{
	struct last_orders *o = arg;
	struct err e;

	o->left++;
	if (sandboxes_do(o->api->boxes, "", id, SANDBOX_STOP, STOP_GRACE, one_less, o, &e) !=
	    PROBLEM_NONE)
		o->left--;
}

void serve_stop(struct api *a, struct http_call *c, const struct jread *body)
{
	struct last_orders *o;
	struct err e;

	if (!c->caller->local) {
		(void)problem_say(PROBLEM_FORBIDDEN, &e, "the daemon is ended over its own socket");
		http_problem(c, PROBLEM_FORBIDDEN, &e);
		return;
	}
	o = calloc(1, sizeof(*o));
	if (!o) {
		(void)err_nomem(&e);
		http_problem(c, PROBLEM_INTERNAL, &e);
		return;
	}
	*o = (struct last_orders){ .api = a, .left = 1 };
	http_last(c);
	http_answer(c, 202, NULL, "application/json", "{}", 2);
	if (jread_bool(body, "all"))
		sandboxes_each(a->boxes, &(struct sandbox_list){ .tenant = "" }, stop_one, o);
	one_less(o, PROBLEM_NONE, NULL);
}
