/* SPDX-License-Identifier: Apache-2.0 */
/* daemon/api/route_sandboxes.c - routes about sandboxes as wholes. */
#include <stdio.h>
#include <string.h>

#include "base/text/num.h"
#include "base/text/str.h"
#include "daemon/api/api.h"
#include "daemon/api/creation.h"
#include "daemon/shared/sandbox_id.h"
#include "model/settings/spec.h"

#define MINUTE_MS ((uint64_t)60 * 1000)
#define GRACE 5000
#define LABELS_MAX 64
#define LABEL_SIZE 256
#define ANSWER_MAX ((size_t)64 << 20)
#define SPEC_MAX ((size_t)2 << 20)

static void route_sandbox_fail(struct http_call *c, enum problem p, const struct err *e)
{
	http_problem(c, p, e);
}

/* The sandbox as it is now. */
static void answer_sandbox(struct api *a, struct http_call *c, int status, const char *ref)
{
	CLEANUP(buf) struct buf b = BUF_INIT(ANSWER_MAX);
	struct err e = { 0 };
	enum problem p;
	struct json j;

	json_init(&j, &b, false);
	p = sandboxes_show(a->boxes, c->caller->tenant, ref, api_redacted(c), &j, &e);
	if (p != PROBLEM_NONE)
		route_sandbox_fail(c, p, &e);
	else
		api_answer_json(c, status, &b);
}

/* ---- labels ---- */

static enum problem read_labels(const struct jread *v, struct label *out, size_t *n, struct err *e)
{
	*n = 0;
	for (void *it = jread_first(v); it; it = jread_next(v, it)) {
		if (*n == LABELS_MAX)
			return problem_say(PROBLEM_INVALID, e, "more than %d labels", LABELS_MAX);
		if (!*jread_key(it) ||
		    strlen(jread_key(it)) + strlen(jread_text(jread_value(it))) > LABEL_SIZE - 2)
			return problem_say(PROBLEM_INVALID, e, "a label is empty or too long");
		out[*n].key = jread_key(it);
		out[(*n)++].value = jread_text(jread_value(it));
	}
	return PROBLEM_NONE;
}

struct selector {
	char text[LABELS_MAX][LABEL_SIZE];
	struct label labels[LABELS_MAX];
	size_t n;
};

/* ?label=KEY=VALUE, any number of them. */
static enum problem read_selector(const struct http_call *c, struct selector *s, struct err *e)
{
	for (s->n = 0;; s->n++) {
		char probe[2], *equals;
		int r;

		if (s->n == LABELS_MAX)
			return http_param_nth(c, "label", s->n, probe, sizeof(probe)) == -ENOENT
				       ? PROBLEM_NONE
				       : problem_say(PROBLEM_INVALID, e, "too many labels");
		r = http_param_nth(c, "label", s->n, s->text[s->n], LABEL_SIZE);
		if (r == -ENOENT)
			return PROBLEM_NONE;
		equals = r < 0 ? NULL : strchr(s->text[s->n], '=');
		if (!equals || equals == s->text[s->n])
			return problem_say(PROBLEM_INVALID, e, "label '%.60s' is not KEY=VALUE",
					   r < 0 ? "" : s->text[s->n]);
		*equals = '\0';
		s->labels[s->n] = (struct label){ s->text[s->n], equals + 1 };
	}
}

/* ---- create ---- */

/* With the same key the caller is told which sandbox was made for it. */
static void left(struct api *a, struct http_call *c, const char *id)
{
	CLEANUP(buf) struct buf b = BUF_INIT(ANSWER_MAX);
	struct json j;
	struct err e;

	json_init(&j, &b, false);
	if (c->answered && sandboxes_show(a->boxes, c->caller->tenant, id, api_redacted(c), &j,
					  &e) == PROBLEM_NONE) {
		c->answered(c, 202, buf_str(&b), b.len);
		c->answered = NULL;
	}
}

static void made(struct api *a, struct http_call *c, const char *id)
{
	answer_sandbox(a, c, 201, id);
}

static void route_sandbox_wait_for(struct api *a, struct http_call *c, const char *id,
				   const struct events_cursor *before)
{
	static const struct creation_end end = { .settled = made, .gone = left };

	if (creation_wait(a, c, id, before, &end) < 0)
		answer_sandbox(a, c, 202, id);
}

/* Below the ceiling of a token: its own, else the daemon's. */
static enum problem route_sandbox_below(struct api *a, const struct token *t,
					const struct buf *asked, struct buf *out, struct spec **ret,
					struct err *e)
{
	CLEANUP(ceiling) struct ceiling *own = NULL;

	if (t && t->ceiling && ceiling_open(t->ceiling, &own, e) < 0)
		return problem_say(PROBLEM_INTERNAL, e, "the ceiling of this token is not there");
	return ceiling_apply(own ? own : a->ceiling, buf_str(asked), asked->len, out, ret, e);
}

/* The owner has no ceiling. */
static enum problem resolve_spec(struct api *a, const struct http_call *c, const struct jread *spec,
				 struct buf *asked, struct buf *out, struct spec **ret,
				 struct err *e)
{
	const char *path = jread_str(jread_get(spec, "workspace"), "path");

	if (spec)
		jread_write(spec, asked);
	else
		buf_puts(asked, "{}");
	if (asked->failed)
		return problem_say(PROBLEM_TOO_LARGE, e, "the spec is too large");
	/* The daemon stands in "/", its caller somewhere else. */
	if (path && path[0] != '/') {
		(void)problem_say(PROBLEM_INVALID, e, "'workspace.path' is not an absolute path");
		(void)err_hint(e, "the daemon does not know where its caller stands");
		return PROBLEM_INVALID;
	}
	if (c->caller->local)
		return ceiling_apply(NULL, buf_str(asked), asked->len, out, ret, e);
	return route_sandbox_below(a, c->caller->token, asked, out, ret, e);
}

static enum problem within_quota(struct api *a, const struct http_call *c, struct err *e)
{
	unsigned most = tokens_sandboxes(a->tokens, c->caller->tenant);
	struct sandbox_count n;

	if (!c->caller->tenant[0])
		return PROBLEM_NONE;
	sandboxes_count(a->boxes, c->caller->tenant, &n);
	if (n.pending + n.ready + n.paused + n.stopped + n.failed < most)
		return PROBLEM_NONE;
	(void)problem_say(PROBLEM_QUOTA, e, "this tenant has %u sandboxes, as many as it may have",
			  most);
	(void)err_hint(e, "delete some that are no longer needed");
	return PROBLEM_QUOTA;
}

/* A tenant's sandbox is made anew below the ceiling of then, which a caller must be there for. */
static enum problem read_restart(const struct http_call *c, const struct jread *body, bool *ret,
				 struct err *e)
{
	const char *word = jread_str(body, "restart");

	*ret = word && str_eq(word, "on-failure");
	if (word && !*ret && !str_eq(word, "no"))
		return problem_say(PROBLEM_INVALID, e, "'restart' is no or on-failure");
	if (*ret && !c->caller->local)
		return problem_say(PROBLEM_UNSUPPORTED, e,
				   "'restart' is for sandboxes of the daemon's owner alone");
	return PROBLEM_NONE;
}

/* What is read for a creation, which borrows it. */
struct making {
	struct buf asked, spec;
	struct spec *settled; /* the same as `spec` */
	struct label labels[LABELS_MAX];
};

static struct making *making_new(void)
{
	struct making *k = calloc(1, sizeof(*k));

	if (k)
		k->asked = k->spec = (struct buf)BUF_INIT(SPEC_MAX);
	return k;
}

static struct making *making_free(struct making *k)
{
	if (!k)
		return NULL;
	buf_done(&k->asked);
	buf_done(&k->spec);
	(void)spec_free(k->settled);
	free(k);
	return NULL;
}
DEFINE_CLEANUP(making, struct making *, making_free)

/* Those of the settings as well; the call's own win. */
static enum problem add_labels(struct sandbox_create *x, struct making *k, struct err *e)
{
	const struct envlist *l = &k->settled->labels;
	size_t said = x->label_count;

	for (size_t i = 0; i < l->n; i++) {
		size_t at = 0;

		while (at < said && !str_eq(k->labels[at].key, l->v[i].name))
			at++;
		if (at < said)
			continue;
		if (x->label_count == LABELS_MAX)
			return problem_say(PROBLEM_INVALID, e, "more than %d labels", LABELS_MAX);
		if (strlen(l->v[i].name) + strlen(l->v[i].value) > LABEL_SIZE - 2)
			return problem_say(PROBLEM_INVALID, e, "a label is too long");
		k->labels[x->label_count++] = (struct label){ l->v[i].name, l->v[i].value };
	}
	return PROBLEM_NONE;
}

/* How long it may idle, and stay once it has stopped: the call's own word, else the settings'. */
static enum problem read_times(const struct jread *body, struct sandbox_create *x,
			       const struct making *k, struct err *e)
{
	const struct spec *s = k->settled;
	enum problem p = api_time(body, "idle_ttl", s->idle_ttl, &x->idle_ttl, e);

	if (p == PROBLEM_NONE)
		p = api_time(body, "ttl", 0, &x->ttl, e);
	return p == PROBLEM_NONE ? api_time(body, "cleanup_ttl", s->cleanup_ttl, &x->cleanup_ttl, e)
				 : p;
}

static enum problem read_create(struct api *a, const struct http_call *c, const struct jread *body,
				struct sandbox_create *x, struct making *k, struct err *e)
{
	enum problem p = k ? within_quota(a, c, e) : PROBLEM_INTERNAL;

	if (p != PROBLEM_NONE)
		return p;
	*x = (struct sandbox_create){ .tenant = c->caller->tenant,
				      .name = jread_str(body, "name"),
				      .labels = k->labels };
	p = read_labels(jread_get(body, "labels"), k->labels, &x->label_count, e);
	if (p == PROBLEM_NONE)
		p = read_restart(c, body, &x->restart, e);
	if (p == PROBLEM_NONE)
		p = resolve_spec(a, c, jread_get(body, "spec"), &k->asked, &k->spec, &k->settled,
				 e);
	if (p == PROBLEM_NONE)
		p = read_times(body, x, k, e);
	if (p == PROBLEM_NONE)
		p = add_labels(x, k, e);
	x->spec = buf_str(&k->spec);
	x->spec_size = k->spec.len;
	if (!c->caller->local) {
		x->asked = buf_str(&k->asked);
		x->asked_size = k->asked.len;
	}
	return p;
}

/* A parameter that is true or false; *ret stays where it is not there. */
static enum problem flag(const struct http_call *c, const char *name, bool *ret, struct err *e)
{
	char text[8];
	int r = http_param(c, name, text, sizeof(text));

	if (r == -ENOENT)
		return PROBLEM_NONE;
	*ret = r >= 0 && str_eq(text, "true");
	if (*ret || (r >= 0 && str_eq(text, "false")))
		return PROBLEM_NONE;
	return problem_say(PROBLEM_INVALID, e, "'%s' is not true or false", name);
}

/* The values of its credentials came along, as files without a name: they are in no body, in no
 * memory of this process and on no disk. */
static enum problem route_sandbox_make(struct api *a, struct http_call *c, struct sandbox_create *x,
				       char id[SANDBOX_ID_SIZE], struct err *e)
{
	int secrets[HTTP_HANDED];
	enum problem p;

	x->secret_count = http_handed(c, secrets);
	x->secrets = secrets;
	p = sandboxes_create(a->boxes, x, id, e);
	x->secrets = NULL;
	return p;
}

void serve_create(struct api *a, struct http_call *c, const struct jread *body)
{
	CLEANUP(making) struct making *k = making_new();
	struct sandbox_create x;
	char id[SANDBOX_ID_SIZE];
	struct err e = { 0 };
	bool wait = false;
	struct events_cursor before;
	enum problem p = flag(c, "wait", &wait, &e);

	events_end(a->events, "", &before);
	if (p == PROBLEM_NONE)
		p = read_create(a, c, body, &x, k, &e);
	if (p == PROBLEM_NONE)
		p = route_sandbox_make(a, c, &x, id, &e);
	if (p != PROBLEM_NONE)
		route_sandbox_fail(c, p, &e);
	else if (wait)
		route_sandbox_wait_for(a, c, id, &before);
	else
		answer_sandbox(a, c, 202, id);
}

/* For one command: it has no name, and is looked after by whoever awaits that. */
enum problem sandbox_begin(struct api *a, struct http_call *c, const struct jread *body,
			   char id[SANDBOX_ID_SIZE], struct err *e)
{
	CLEANUP(making) struct making *k = making_new();
	struct sandbox_create x;
	enum problem p = read_create(a, c, body, &x, k, e);

	if (p != PROBLEM_NONE)
		return p;
	x.cleanup_ttl = MINUTE_MS; /* of a daemon that was killed before it could delete it */
	return route_sandbox_make(a, c, &x, id, e);
}

/* ---- one ---- */

void serve_show(struct api *a, struct http_call *c, const struct jread *body UNUSED)
{
	answer_sandbox(a, c, 200, c->parts[0]);
}

/* ---- hosts ---- */

/* The spec with fewer hosts: what is not among those that it has is refused. */
static enum problem narrowed(const struct buf *spec, const struct buf *by, struct buf *out,
			     struct err *e)
{
	CLEANUP(ceiling) struct ceiling *top = NULL;

	if (ceiling_of(buf_str(spec), spec->len, &top, e) < 0)
		return problem_say(PROBLEM_INTERNAL, e, "the sandbox's spec cannot be read");
	return ceiling_apply(top, buf_str(by), by->len, out, NULL, e);
}

static enum problem narrow_hosts(struct api *a, const struct http_call *c,
				 const struct jread *hosts, struct err *e)
{
	CLEANUP(buf) struct buf spec = BUF_INIT(SPEC_MAX);
	CLEANUP(buf) struct buf by = BUF_INIT(SPEC_MAX);
	CLEANUP(buf) struct buf out = BUF_INIT(SPEC_MAX);
	enum problem p = api_check(api_schema("Narrowing"), hosts, e);

	buf_puts(&by, "{\"egress\":");
	if (p == PROBLEM_NONE)
		jread_write(hosts, &by);
	buf_puts(&by, "}");
	if (p == PROBLEM_NONE)
		p = sandboxes_spec(a->boxes, c->caller->tenant, c->parts[0], &spec, e);
	if (p == PROBLEM_NONE)
		p = narrowed(&spec, &by, &out, e);
	/* First what the next resume goes by: a daemon that is killed in between has narrowed. */
	if (p == PROBLEM_NONE)
		p = sandboxes_narrow(a->boxes, c->caller->tenant, c->parts[0], buf_str(&by), by.len,
				     e);
	if (p == PROBLEM_NONE)
		p = sandboxes_respec(a->boxes, c->caller->tenant, c->parts[0], buf_str(&out),
				     out.len, e);
	return p;
}

/* A tenant's sandbox that starts anew is made from what was asked for, below the ceiling as it is
 * now: of the token that asks, as a tenant may have several; for the owner, of the tenant's first.
 */
static enum problem look_again(struct api *a, const struct http_call *c, struct err *e)
{
	CLEANUP(buf) struct buf asked = BUF_INIT(SPEC_MAX);
	CLEANUP(buf) struct buf by = BUF_INIT(SPEC_MAX);
	CLEANUP(buf) struct buf spec = BUF_INIT(SPEC_MAX);
	CLEANUP(buf) struct buf out = BUF_INIT(SPEC_MAX);
	const struct token *t = c->caller->token;
	char whose[TENANT_SIZE];
	enum problem p =
		sandboxes_asked(a->boxes, c->caller->tenant, c->parts[0], whose, &asked, &by, e);

	/* Those that run hold to what they began with; others cannot be resumed, which is said. */
	if (p == PROBLEM_CONFLICT || (p == PROBLEM_NONE && !asked.len))
		return PROBLEM_NONE;
	if (c->caller->local)
		t = a->tokens && p == PROBLEM_NONE ? tokens_of(a->tokens, whose) : NULL;
	if (p == PROBLEM_NONE)
		p = route_sandbox_below(a, t, &asked, &spec, NULL, e);
	if (p == PROBLEM_NONE && by.len)
		p = narrowed(&spec, &by, &out, e);
	if (p == PROBLEM_NONE)
		p = sandboxes_respec(a->boxes, c->caller->tenant, c->parts[0],
				     buf_str(by.len ? &out : &spec), by.len ? out.len : spec.len,
				     e);
	return p;
}

void serve_logs(struct api *a, struct http_call *c, const struct jread *body UNUSED)
{
	CLEANUP(buf) struct buf b = BUF_INIT(SPEC_MAX);
	struct err e = { 0 };
	enum problem p = sandboxes_log(a->boxes, c->caller->tenant, c->parts[0], &b, &e);

	if (p != PROBLEM_NONE)
		route_sandbox_fail(c, p, &e);
	else
		http_answer(c, 200, NULL, "text/plain; charset=utf-8", buf_str(&b), b.len);
}

void serve_update(struct api *a, struct http_call *c, const struct jread *body)
{
	const struct jread *labels = jread_get(body, "labels");
	struct label room[LABELS_MAX];
	struct sandbox_change x = { .name = jread_str(body, "name"),
				    .has_idle_ttl =
					    jread_kind(jread_get(body, "idle_ttl")) > JREAD_NULL,
				    .has_ttl = jread_kind(jread_get(body, "ttl")) > JREAD_NULL };
	struct err e = { 0 };
	enum problem p = read_labels(labels, room, &x.label_count, &e);

	if (jread_kind(labels) == JREAD_OBJECT)
		x.labels = room;
	if (p == PROBLEM_NONE)
		p = api_time(body, "idle_ttl", 0, &x.idle_ttl, &e);
	if (p == PROBLEM_NONE)
		p = api_time(body, "ttl", 0, &x.ttl, &e);
	if (p == PROBLEM_NONE && jread_kind(jread_get(body, "egress")) == JREAD_OBJECT)
		p = narrow_hosts(a, c, jread_get(body, "egress"), &e);
	if (p == PROBLEM_NONE)
		p = sandboxes_update(a->boxes, c->caller->tenant, c->parts[0], &x, &e);
	if (p != PROBLEM_NONE)
		route_sandbox_fail(c, p, &e);
	else
		answer_sandbox(a, c, 200, x.name ? x.name : c->parts[0]);
}

/* ---- verbs ---- */

struct doing {
	struct api *api;
	struct http_call *call; /* NULL: the caller has left */
	enum sandbox_verb verb;
	char ref[TENANT_SIZE];
};

static void doing_gone(void *arg)
{
	((struct doing *)arg)->call = NULL;
}

static void doing_done(void *arg, enum problem p, const struct err *e)
{
	struct doing *d = arg;

	if (d->call && p != PROBLEM_NONE)
		route_sandbox_fail(d->call, p, e);
	else if (d->call && d->verb == SANDBOX_DELETE)
		http_answer(d->call, 204, NULL, NULL, "", 0);
	else if (d->call)
		answer_sandbox(d->api, d->call, 200, d->ref);
	free(d);
}

/* Begun, and answered at once: the rest comes as events. */
static void act_later(struct api *a, struct http_call *c, enum sandbox_verb verb, uint64_t grace)
{
	struct err e = { 0 };
	enum problem p =
		sandboxes_do(a->boxes, c->caller->tenant, c->parts[0], verb, grace, NULL, NULL, &e);

	if (p != PROBLEM_NONE)
		route_sandbox_fail(c, p, &e);
	else if (verb == SANDBOX_DELETE)
		http_answer(c, 202, NULL, NULL, "", 0);
	else
		answer_sandbox(a, c, 202, c->parts[0]);
}

static void act(struct api *a, struct http_call *c, enum sandbox_verb verb, uint64_t grace)
{
	struct err e = { 0 };
	bool wait = true;
	enum problem p = flag(c, "wait", &wait, &e);
	struct doing *d;

	if (p != PROBLEM_NONE) {
		route_sandbox_fail(c, p, &e);
		return;
	}
	if (!wait) {
		act_later(a, c, verb, grace);
		return;
	}
	d = calloc(1, sizeof(*d));
	if (!d) {
		(void)err_nomem(&e);
		route_sandbox_fail(c, PROBLEM_INTERNAL, &e);
		return;
	}
	*d = (struct doing){ .api = a, .call = c, .verb = verb };
	(void)snprintf(d->ref, sizeof(d->ref), "%s", c->parts[0]);
	c->gone = doing_gone;
	c->arg = d;
	p = sandboxes_do(a->boxes, c->caller->tenant, c->parts[0], verb, grace, doing_done, d, &e);
	if (p == PROBLEM_NONE)
		return;
	c->gone = NULL;
	free(d);
	route_sandbox_fail(c, p, &e);
}

void serve_delete(struct api *a, struct http_call *c, const struct jread *body UNUSED)
{
	act(a, c, SANDBOX_DELETE, GRACE);
}

void serve_pause(struct api *a, struct http_call *c, const struct jread *body UNUSED)
{
	act(a, c, SANDBOX_PAUSE, 0);
}

void serve_resume(struct api *a, struct http_call *c, const struct jread *body UNUSED)
{
	struct err e = { 0 };
	enum problem p = look_again(a, c, &e);

	if (p != PROBLEM_NONE)
		route_sandbox_fail(c, p, &e);
	else
		act(a, c, SANDBOX_RESUME, 0);
}

void serve_halt(struct api *a, struct http_call *c, const struct jread *body)
{
	struct err e = { 0 };
	uint64_t grace;

	if (api_time(body, "grace", GRACE, &grace, &e) != PROBLEM_NONE)
		route_sandbox_fail(c, PROBLEM_INVALID, &e);
	else
		act(a, c, SANDBOX_STOP, grace);
}

/* ---- many ---- */

static enum problem read_list(const struct http_call *c, struct sandbox_list *l, char *state,
			      char *cursor, struct err *e)
{
	char limit[16];
	uint64_t n = API_PAGE;
	int r = http_param(c, "limit", limit, sizeof(limit));

	if ((r != -ENOENT && (r < 0 || num_count(limit, &n) < 0)) || !n || n > API_PAGE_MAX)
		return problem_say(PROBLEM_INVALID, e, "'limit' is not 1 to %d", API_PAGE_MAX);
	l->limit = (size_t)n;
	r = http_param(c, "state", state, SANDBOX_ID_SIZE);
	if (r >= 0)
		l->state = state;
	if (r != -ENOENT && (r < 0 || !sandboxes_state_is(state))) {
		(void)problem_say(PROBLEM_INVALID, e, "there is no state '%.20s'",
				  r < 0 ? "" : state);
		(void)err_hint(e, "pending, ready, failed, paused, stopped or deleting");
		return PROBLEM_INVALID;
	}
	r = http_param(c, "cursor", cursor, SANDBOX_ID_SIZE);
	if (r >= 0)
		l->after = cursor;
	if (r != -ENOENT && (r < 0 || !id_is(SANDBOX_ID, cursor)))
		return problem_say(PROBLEM_INVALID, e, "'cursor' is not the 'next' of a page");
	return PROBLEM_NONE;
}

void serve_list(struct api *a, struct http_call *c, const struct jread *body UNUSED)
{
	CLEANUP(buf) struct buf b = BUF_INIT(ANSWER_MAX);
	char state[SANDBOX_ID_SIZE], cursor[SANDBOX_ID_SIZE], next[SANDBOX_ID_SIZE] = "";
	struct sandbox_list l = { .tenant = c->caller->tenant, .redacted = api_redacted(c) };
	struct selector *s = calloc(1, sizeof(*s));
	struct err e = { 0 };
	enum problem p = s ? read_selector(c, s, &e) : PROBLEM_INTERNAL;
	struct json j;

	if (p == PROBLEM_NONE)
		p = read_list(c, &l, state, cursor, &e);
	if (p != PROBLEM_NONE) {
		free(s);
		route_sandbox_fail(c, p, &e);
		return;
	}
	l.labels = s->labels;
	l.label_count = s->n;
	json_init(&j, &b, false);
	json_object(&j);
	json_key(&j, "sandboxes");
	sandboxes_list(a->boxes, &l, &j, next);
	json_kstr(&j, "next", *next ? next : NULL);
	json_object_end(&j);
	api_answer_json(c, 200, &b);
	free(s);
}

struct deletion {
	struct api *api;
	const char *tenant;
	struct json *ids;
};

/* What is being deleted is no longer listed, or passed over. */
static void delete_one(void *arg, const char *id)
{
	const struct deletion *d = arg;
	struct err e;

	if (sandboxes_do(d->api->boxes, d->tenant, id, SANDBOX_DELETE, GRACE, NULL, NULL, &e) ==
	    PROBLEM_NONE)
		json_str(d->ids, id);
}

void serve_delete_many(struct api *a, struct http_call *c, const struct jread *body UNUSED)
{
	CLEANUP(buf) struct buf b = BUF_INIT(ANSWER_MAX);
	struct selector *s = calloc(1, sizeof(*s));
	struct err e = { 0 };
	enum problem p = s ? read_selector(c, s, &e) : PROBLEM_INTERNAL;
	struct json j;
	struct deletion d = { .api = a, .tenant = c->caller->tenant, .ids = &j };

	if (p == PROBLEM_NONE && !s->n) {
		p = problem_say(PROBLEM_INVALID, &e, "no label says which ones");
		(void)err_hint(&e, "add ?label=KEY=VALUE");
	}
	if (p == PROBLEM_NONE) {
		json_init(&j, &b, false);
		json_object(&j);
		json_karray(&j, "sandboxes");
		sandboxes_each(a->boxes,
			       &(struct sandbox_list){ .tenant = d.tenant,
						       .labels = s->labels,
						       .label_count = s->n },
			       delete_one, &d);
		json_array_end(&j);
		json_object_end(&j);
		api_answer_json(c, 202, &b);
	} else {
		route_sandbox_fail(c, p, &e);
	}
	free(s);
}
