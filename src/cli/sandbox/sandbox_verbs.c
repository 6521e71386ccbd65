/* SPDX-License-Identifier: Apache-2.0 */
/* cli/sandbox/sandbox_verbs.c - what `brig sandbox` does: one function a verb, each a few calls. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/text/clean.h"
#include "base/files/fd.h"
#include "base/bytes/json.h"
#include "base/text/str.h"
#include "sandbox/manager.h"
#include "cli/sandbox/follow.h"
#include "cli/sandbox/sandbox_cli.h"
#include "daemon/shared/monitor_protocol.h"
#include "daemon/registry/sandboxes.h"
#include "model/outcome/store.h"

#define BODY_MAX ((size_t)4 << 20)
#define EVENT_MAX ((size_t)16 << 20)
#define NOTES_MAX ((size_t)1 << 20) /* a monitor keeps less */

bool sandbox_target(char *out, size_t n, const char *ref, const char *more)
{
	size_t len = strlen(ref);

	if (!len || len > 63 || strspn(ref, "abcdefghijklmnopqrstuvwxyz0123456789._-") != len)
		return false;
	return snprintf(out, n, "/v1/sandboxes/%s%s", ref, more) < (int)n;
}

int sandbox_target_of(char out[256], const char *ref, const char *more, struct err *e)
{
	if (sandbox_target(out, 256, ref, more))
		return 0;
	return err_refuse(e, ERR_USAGE, EINVAL, "brig sandbox list shows them",
			  "'%.60s' is neither an id nor a name", ref);
}

int sandbox_ask(struct daemon_client *d, const char *method, const char *target, struct buf *body,
		struct jread **ret, struct err *e)
{
	struct daemon_question q = { .method = method, .target = target };

	if (body && body->failed)
		return err_set(e, ERR_USAGE, E2BIG, "the request is too large");
	if (body) {
		q.body = buf_str(body);
		q.body_len = body->len;
	}
	return daemon_client_ask(d, &q, ret, NULL, e);
}

void sandbox_print_json(const struct jread *v)
{
	CLEANUP(buf) struct buf b = BUF_INIT((size_t)256 << 20);

	jread_write(v, &b);
	(void)printf("%s\n", buf_str(&b));
}

/* ---- create ---- */

/* K=V in two. */
static int read_label(const char *text, char key[256], const char **value, struct err *e)
{
	const char *equals = strchr(text, '=');

	if (!equals || equals == text || equals - text >= 256)
		return err_refuse(e, ERR_USAGE, EINVAL, "such as --label team=red",
				  "'%.60s' is not KEY=VALUE", text);
	(void)snprintf(key, 256, "%.*s", (int)(equals - text), text);
	*value = equals + 1;
	return 0;
}

static bool said_label(const struct sandbox_asked *a, const char *key)
{
	size_t n = strlen(key);

	for (size_t i = 0; i < a->label_count; i++)
		if (strncmp(a->labels[i], key, n) == 0 && a->labels[i][n] == '=')
			return true;
	return false;
}

/* Those that it has (NULL: it is new) stay; K= takes one away. */
static int put_labels(struct json *j, const struct sandbox_asked *a, const struct jread *has,
		      struct err *e)
{
	json_kobject(j, "labels");
	for (void *it = jread_first(has); it; it = jread_next(has, it))
		if (!said_label(a, jread_key(it)))
			json_kstr(j, jread_key(it), jread_text(jread_value(it)));
	for (size_t i = 0; i < a->label_count; i++) {
		const char *value = NULL;
		char key[256];

		if (read_label(a->labels[i], key, &value, e) < 0)
			return -e->code;
		if (*value || !has)
			json_kstr(j, key, value);
	}
	json_object_end(j);
	return 0;
}

static int put_common(struct json *j, const struct sandbox_asked *a, const struct jread *has,
		      struct err *e)
{
	if (a->name)
		json_kstr(j, "name", a->name);
	if (a->ttl)
		json_kstr(j, "ttl", a->ttl);
	if (a->idle_ttl)
		json_kstr(j, "idle_ttl", a->idle_ttl);
	return a->label_count ? put_labels(j, a, has, e) : 0;
}

/* The variables by which an engine is named are those of the shell that started the daemon: one
 * that is set here, and is advised, came too late. */
static const char *came_too_late(const char *hint)
{
	static const char *const names[] = { "DOCKER_HOST", "CONTAINER_HOST", "DOCKER_CONTEXT" };

	for (size_t i = 0; strstr(hint, names[0]) && i < ARRAY_LEN(names); i++)
		if (getenv(names[i]))
			return names[i];
	return NULL;
}

/* Why a sandbox is not what it should be. */
static int say_failed(const struct jread *v, struct err *e)
{
	const struct jread *error = jread_get(v, "error");
	const char *what = jread_str(error, "what"), *hint = jread_str(error, "hint"),
		   *reason = jread_str(v, "reason"), *late = hint ? came_too_late(hint) : NULL;

	(void)err_set(e, ERR_UNAVAILABLE, ECANCELED, "%s", what && *what ? what : "it has failed");
	if ((!what || !*what) && reason)
		(void)err_wrap(e, "%s", reason);
	if (late)
		(void)err_hint(e,
			       "the daemon was started without this %s: brig daemon stop, and "
			       "create it again; sandboxes go on",
			       late);
	else if (hint && *hint)
		(void)err_hint(e, "%s", hint);
	return -e->code;
}

/* What the user should know of it, as brig run would have said it. It stays on the log as well. */
static void tell_notes(struct daemon_client *d, const char *id, const char *said, const char *only)
{
	CLEANUP(fd) int fd = memfd_create("brig-notes", MFD_CLOEXEC);
	CLEANUP(buf) struct buf text = BUF_INIT(NOTES_MAX + 1);
	struct daemon_question q = { .method = "GET" };
	char target[256], part[4096], *rest, *line;
	struct err unused;
	int64_t length;
	ssize_t n;

	q.target = target;
	if (fd < 0 || sandbox_target_of(target, id, "/logs", &unused) < 0 ||
	    daemon_client_get(d, &q, &length, &unused) < 0 ||
	    daemon_client_save(d, fd, NOTES_MAX, &unused) < 0)
		return;
	while (!text.failed && (n = pread(fd, part, sizeof(part), (off_t)text.len)) > 0)
		buf_add(&text, part, (size_t)n);
	rest = text.len ? text.data : NULL;
	while ((line = strsep(&rest, "\n")))
		if (*line && !(said && str_eq(line, said)) && str_starts(line, only))
			message_print("brig: note", line);
}

void sandbox_tell_notes(struct daemon_client *d, const char *id, const char *said)
{
	tell_notes(d, id, said, "");
}

/* The name of one that has failed is in the error: what is printed can be used. */
static int say_created(struct daemon_client *d, const struct jread *v,
		       const struct sandbox_asked *a, struct err *e)
{
	const char *id = jread_str(v, "id"), *state = jread_str(v, "state");
	bool failed = !a->no_wait && !str_eq(state ? state : "", "ready");

	if (a->json)
		sandbox_print_json(v);
	else if (!failed)
		(void)printf("%s\n", id ? id : "");
	if (!a->json && !a->quiet && !a->no_wait && id)
		sandbox_tell_notes(d, id, jread_str(jread_get(v, "error"), "what"));
	if (!failed)
		return 0;
	(void)say_failed(v, e);
	return err_wrap(e, "sandbox '%.40s'", id ? id : "");
}

int verb_create(struct daemon_client *d, const struct sandbox_asked *a, struct err *e)
{
	CLEANUP(buf) struct buf spec = BUF_INIT(BODY_MAX);
	CLEANUP(buf) struct buf body = BUF_INIT(BODY_MAX);
	CLEANUP(jread) struct jread *v = NULL;
	CLEANUP(sandbox_secrets) struct sandbox_secrets secrets = { .n = 0 };
	struct daemon_question q = { .method = "POST" };
	struct json j;
	const char *restart = a->restart;
	struct sandbox_besides besides = { .agents = false };
	bool local = daemon_client_local(d);
	int rest = 0;

	if (sandbox_spec(&cmd_sandbox, a->rest_count + 1, a->rest - 1, local, &spec, &secrets,
			 &rest, &besides, e) < 0)
		return -e->code;
	if (a->rest[rest - 1])
		return err_refuse(e, ERR_USAGE, EINVAL,
				  "brig sandbox exec ID -- COMMAND runs one in it",
				  "create takes no command");
	json_init(&j, &body, false);
	json_object(&j);
	if (a->cleanup_ttl)
		json_kstr(&j, "cleanup_ttl", a->cleanup_ttl);
	if (put_common(&j, a, NULL, e) < 0)
		return -e->code;
	if (!restart && besides.agents && local)
		restart = "on-failure"; /* as that system does */
	if (restart)
		json_kstr(&j, "restart", restart);
	json_key(&j, "spec");
	buf_add(&body, buf_str(&spec), spec.len);
	j.after_key = j.fresh = false;
	json_object_end(&j);
	if (body.failed)
		return err_set(e, ERR_USAGE, E2BIG, "the request is too large");
	q.target = a->no_wait ? "/v1/sandboxes" : "/v1/sandboxes?wait=true";
	q.body = buf_str(&body);
	q.body_len = body.len;
	q.fds = secrets.fds;
	q.fd_count = secrets.n;
	if (daemon_client_ask(d, &q, &v, NULL, e) < 0)
		return -e->code;
	return say_created(d, v, a, e);
}

/* ---- looking ---- */

void sandbox_put_cell(struct buf *b, const char *text, int width)
{
	CLEANUP(buf) struct buf clean = BUF_INIT(4096);

	clean_put(&clean, text ? text : "-", strlen(text ? text : "-"));
	buf_printf(b, "%-*s", width, buf_str(&clean));
}

static void put_escaped(struct buf *b, const char *text)
{
	for (; *text; text++)
		if (strchr("-_.~", *text) || (*text >= '0' && *text <= '9') ||
		    ((*text | 0x20) >= 'a' && (*text | 0x20) <= 'z'))
			buf_putc(b, *text);
		else
			buf_printf(b, "%%%02X", (unsigned)(unsigned char)*text);
}

static void put_selector(struct buf *b, const struct sandbox_asked *a)
{
	for (size_t i = 0; i < a->label_count; i++) {
		buf_puts(b, "&label=");
		put_escaped(b, a->labels[i]);
	}
	if (a->state) {
		buf_puts(b, "&state=");
		put_escaped(b, a->state);
	}
}

/* A page at a time. */
int sandbox_each(struct daemon_client *d, const struct sandbox_asked *a, sandbox_each_fn *fn,
		 void *arg, struct err *e)
{
	char cursor[SANDBOX_ID_SIZE] = "";
	int r = 0;

	do {
		CLEANUP(buf) struct buf target = BUF_INIT(4096);
		CLEANUP(jread) struct jread *v = NULL;
		const struct jread *list;
		const char *next;

		buf_puts(&target, "/v1/sandboxes?limit=200");
		put_selector(&target, a);
		if (*cursor)
			buf_printf(&target, "&cursor=%s", cursor);
		if (sandbox_ask(d, "GET", buf_str(&target), NULL, &v, e) < 0)
			return -e->code;
		list = jread_get(v, "sandboxes");
		for (size_t i = 0; i < jread_count(list) && r == 0; i++)
			r = fn(arg, jread_at(list, i), e);
		next = jread_str(v, "next");
		(void)snprintf(cursor, sizeof(cursor), "%s", next ? next : "");
	} while (r == 0 && *cursor);
	return r;
}

/* ---- changing ---- */

/* What its commands have left in the workspace, by a connection of its own: after notes one cannot
 * be used again. */
static void tell_left(const char *ref)
{
	CLEANUP(daemon_client) struct daemon_client *d = NULL;
	struct err unused;

	if (daemon_client_open(false, &d, &unused) == 0)
		tell_notes(d, ref, NULL, MONITOR_LEFT);
}

/* What a stop leaves, which is not everything. */
static void tell_stopped(const struct jread *v)
{
	static const char *const words[STORE_PLACES] = { [STORE_HOME] = "HOME",
							 [STORE_TMP] = "/tmp",
							 [STORE_VAR_TMP] = "/var/tmp",
							 [STORE_WORKSPACE] = "the workspace",
							 [STORE_LAYER] = "the writable layer" };
	const struct jread *keeps = jread_get(jread_get(v, "isolation"), "keeps");
	const struct jread *root = jread_get(jread_get(v, "spec"), "read_only_root");
	bool layer = jread_kind(root) == JREAD_BOOL &&
		     !jread_bool(jread_get(v, "spec"), "read_only_root");
	CLEANUP(buf) struct buf text = BUF_INIT(512);

	if (!str_eq(jread_str(v, "state") ? jread_str(v, "state") : "", "stopped"))
		return;
	for (size_t i = 0; i < jread_count(keeps); i++) {
		const char *name = jread_text(jread_at(keeps, i));

		for (int k = 0; name && k < STORE_PLACES; k++)
			if (str_eq(name, store_folders[k].name)) {
				buf_printf(&text, "%s%s", text.len ? ", " : "", words[k]);
				layer &= k != STORE_LAYER;
			}
	}
	if (text.len)
		buf_puts(&text, ": kept for a resume; processes and the rest are gone");
	if (text.len && layer)
		buf_puts(&text, ", what was written to the container's root among it: that is the "
				"image's again");
	message_print("brig: note", text.len ? buf_str(&text)
					     : "processes are gone, and so is what was in memory: "
					       "HOME and /tmp");
}

/* A second delete, or a third, finds what it asks for. */
static int say_gone(const struct sandbox_asked *a, const char *ref)
{
	char text[160];

	(void)snprintf(text, sizeof(text), "there is no sandbox '%.80s': nothing was deleted", ref);
	if (!a->quiet)
		message_print("brig: note", text);
	return 0;
}

static int act_on(struct daemon_client *d, const struct sandbox_asked *a, const char *ref,
		  const char *method, const char *more, struct buf *body, struct err *e)
{
	CLEANUP(jread) struct jread *v = NULL;
	char target[256];

	if (sandbox_target_of(target, ref, more, e) < 0 ||
	    sandbox_ask(d, method, target, body, &v, e) < 0) {
		if (e->code == ENOENT && str_eq(method, "DELETE"))
			return say_gone(a, ref);
		return a->rest_count > 1 ? err_wrap(e, "'%s'", ref) : -e->code;
	}
	if (a->json && v)
		sandbox_print_json(v);
	else if (!a->json && !a->quiet)
		(void)printf("%s\n", ref);
	if (!a->json && !a->quiet && v && str_eq(more, "/stop"))
		tell_stopped(v);
	if (!a->json && !a->quiet && str_eq(more, "/stop"))
		tell_left(ref);
	return 0;
}

/* One that fails keeps none of the others from it; the last failure is the caller's to say. */
static int act(struct daemon_client *d, const struct sandbox_asked *a, const char *method,
	       const char *more, struct buf *body, struct err *e)
{
	int r = 0;

	for (int i = 0; i < a->rest_count; i++) {
		struct err one = { 0 };

		if (act_on(d, a, a->rest[i], method, more, body, &one) == 0)
			continue;
		if (r < 0)
			error_print(e);
		*e = one;
		r = -e->code;
	}
	return r;
}

int verb_pause(struct daemon_client *d, const struct sandbox_asked *a, struct err *e)
{
	return act(d, a, "POST", "/pause", NULL, e);
}

int verb_resume(struct daemon_client *d, const struct sandbox_asked *a, struct err *e)
{
	return act(d, a, "POST", "/resume", NULL, e);
}

int verb_stop(struct daemon_client *d, const struct sandbox_asked *a, struct err *e)
{
	CLEANUP(buf) struct buf body = BUF_INIT(256);
	struct json j;

	json_init(&j, &body, false);
	json_object(&j);
	if (a->grace)
		json_kstr(&j, "grace", a->grace);
	json_object_end(&j);
	return act(d, a, "POST", "/stop", &body, e);
}

/* Its notes go with it: what its commands have left in the workspace is told first. */
static void end_first(struct daemon_client *d, const struct sandbox_asked *a, const char *ref)
{
	CLEANUP(buf) struct buf body = BUF_INIT(16);
	char target[256];
	struct err unused;

	buf_puts(&body, "{}");
	if (a->json || a->quiet || sandbox_target_of(target, ref, "/stop", &unused) < 0)
		return;
	(void)sandbox_ask(d, "POST", target, &body, NULL, &unused);
	tell_left(ref);
}

static int delete_labelled(struct daemon_client *d, const struct sandbox_asked *a, struct err *e)
{
	CLEANUP(buf) struct buf target = BUF_INIT(4096);
	CLEANUP(jread) struct jread *v = NULL;
	const struct jread *ids;

	buf_puts(&target, "/v1/sandboxes?");
	put_selector(&target, a);
	if (sandbox_ask(d, "DELETE", buf_str(&target), NULL, &v, e) < 0)
		return -e->code;
	ids = jread_get(v, "sandboxes");
	if (a->json)
		sandbox_print_json(v);
	for (size_t i = 0; i < jread_count(ids) && !a->json; i++)
		(void)printf("%s\n", jread_text(jread_at(ids, i)));
	if (!jread_count(ids) && !a->json && !a->quiet)
		message_print("brig: note", "no sandbox has these labels: nothing was deleted");
	return 0;
}

int verb_delete(struct daemon_client *d, const struct sandbox_asked *a, struct err *e)
{
	if (a->label_count && a->rest_count)
		return err_refuse(e, ERR_USAGE, EINVAL, "name them, or give their labels",
				  "delete takes ids or --label, not both");
	if (a->label_count)
		return delete_labelled(d, a, e);
	if (!a->rest_count)
		return err_refuse(e, ERR_USAGE, EINVAL, "brig sandbox delete ID...",
				  "which ones are to be deleted was not said");
	for (int i = 0; i < a->rest_count; i++)
		end_first(d, a, a->rest[i]);
	return act(d, a, "DELETE", "", NULL, e);
}

int verb_update(struct daemon_client *d, const struct sandbox_asked *a, struct err *e)
{
	CLEANUP(buf) struct buf body = BUF_INIT(BODY_MAX);
	CLEANUP(jread) struct jread *v = NULL;
	char target[256];
	struct json j;

	if (sandbox_target_of(target, a->rest[0], "", e) < 0 ||
	    (a->label_count && sandbox_ask(d, "GET", target, NULL, &v, e) < 0))
		return -e->code;
	if (!a->name && !a->ttl && !a->idle_ttl && !a->label_count)
		return err_refuse(e, ERR_USAGE, EINVAL, "--name, --label, --ttl or --idle-ttl",
				  "what is to be changed was not said");
	json_init(&j, &body, false);
	json_object(&j);
	if (put_common(&j, a, jread_get(v, "labels"), e) < 0)
		return -e->code;
	json_object_end(&j);
	return act(d, a, "PATCH", "", &body, e);
}

struct pruning {
	struct daemon_client *d;
	const struct sandbox_asked *asked;
	char ids[1024][SANDBOX_ID_SIZE];
	size_t n;
};

static int on_prune(void *arg, const struct jread *v, struct err *e UNUSED)
{
	struct pruning *p = arg;
	const char *state = jread_str(v, "state"), *id = jread_str(v, "id");

	if (id && p->n < ARRAY_LEN(p->ids) && (str_eq(state, "stopped") || str_eq(state, "failed")))
		(void)snprintf(p->ids[p->n++], SANDBOX_ID_SIZE, "%s", id);
	return 0;
}

static void say_pruned(const struct sandbox_asked *a, const char *kind, const char *name)
{
	if (a->json)
		(void)printf("{\"%s\":\"%s\",\"deleted\":%s}\n", kind, name,
			     a->dry_run ? "false" : "true");
	else
		(void)printf("%s\n", name);
}

static void on_pod(void *arg, const char *pod)
{
	say_pruned(arg, "pod", pod);
}

static void on_spool(void *arg, const char *spool)
{
	say_pruned(arg, "spool", spool);
}

int verb_prune(struct daemon_client *d, const struct sandbox_asked *a, struct err *e)
{
	struct pruning *p = calloc(1, sizeof(*p));
	char target[256];
	int r = p ? sandbox_each(d, a, on_prune, p, e) : err_nomem(e);

	for (size_t i = 0; p && r == 0 && i < p->n; i++) {
		if (!a->dry_run && !a->json && !a->quiet)
			tell_left(p->ids[i]);
		if (!a->dry_run && (sandbox_target_of(target, p->ids[i], "", e) < 0 ||
				    sandbox_ask(d, "DELETE", target, NULL, NULL, e) < 0))
			r = -e->code;
		else if (a->json)
			(void)printf("{\"id\":\"%s\",\"deleted\":%s}\n", p->ids[i],
				     a->dry_run ? "false" : "true");
		else
			(void)printf("%s\n", p->ids[i]);
	}
	free(p);
	/* Labels are of sandboxes: a pod that nobody owns is none. */
	if (r == 0 && !a->label_count)
		r = sandbox_prune_pods(a->dry_run, on_pod, (void *)(uintptr_t)a, e);
	if (r == 0 && !a->label_count)
		r = sandbox_prune_spools(a->dry_run, on_spool, (void *)(uintptr_t)a, e);
	return r;
}

/* ---- listening ---- */

struct listening {
	const struct sandbox_asked *asked;
	char box[SANDBOX_ID_SIZE]; /* "": all of them */
	uint64_t last;             /* the last that was heard */
	struct follow from;
};

/* Without a number it begins with now, which is a number as well: the next daemon has it. */
static int events_begin(struct daemon_client *d, struct listening *l, struct err *e)
{
	const struct sandbox_asked *a = l->asked;
	CLEANUP(jread) struct jread *box = NULL, *info = NULL;
	char path[256];

	if (a->rest_count && (sandbox_target_of(path, a->rest[0], "", e) < 0 ||
			      sandbox_ask(d, "GET", path, NULL, &box, e) < 0))
		return -e->code;
	if (box)
		(void)snprintf(l->box, sizeof(l->box), "%s", jread_str(box, "id"));
	if (!a->follow || a->since)
		return 0;
	if (sandbox_ask(d, "GET", "/v1/info", NULL, &info, e) < 0)
		return -e->code;
	l->last = (uint64_t)jread_int(info, "last_event", 0);
	return 0;
}

static void events_target(const struct listening *l, struct buf *target)
{
	const struct sandbox_asked *a = l->asked;

	buf_printf(target, "/v1/events?follow=%s", a->follow ? "true" : "false");
	if (a->since && !l->last)
		buf_printf(target, "&since=%s", a->since);
	else
		buf_printf(target, "&since=%llu", (unsigned long long)l->last);
	if (l->box[0])
		buf_printf(target, "&sandbox=%s", l->box);
}

static int events_again(struct listening *l, struct err *e)
{
	CLEANUP(buf) struct buf target = BUF_INIT(4096);

	if (!e->code)
		(void)err_set(e, ERR_UNAVAILABLE, EPIPE, "the daemon has ended the stream");
	events_target(l, &target);
	return follow_again(&l->from, buf_str(&target), e);
}

static int follow_events(struct listening *l, struct err *e)
{
	int r = 0;

	while (r == 0) {
		r = follow_event(&l->from, 0, e);
		if (r == 0 && (!l->asked->follow || l->from.ended))
			return 0;
		if (r > 0) {
			if (l->from.sse.id)
				l->last = l->from.sse.id;
			(void)printf("%s\n", buf_str(&l->from.sse.data));
			(void)fflush(stdout);
			r = ferror(stdout) ? err_set(e, ERR_INTERNAL, EPIPE, "nobody reads") : 0;
		} else if (l->asked->follow && follow_broken(&l->from, r)) {
			r = events_again(l, e);
		}
	}
	return r;
}

int verb_events(struct daemon_client *d, const struct sandbox_asked *a, struct err *e)
{
	CLEANUP(buf) struct buf target = BUF_INIT(4096);
	struct listening l = { .asked = a };
	struct daemon_question q = { .method = "GET" };
	int r = events_begin(d, &l, e);

	if (r < 0)
		return r;
	events_target(&l, &target);
	q.target = buf_str(&target);
	r = daemon_client_stream(d, &q, e);
	if (r < 0)
		return r;
	follow_begin(&l.from, d, EVENT_MAX);
	r = follow_events(&l, e);
	follow_done(&l.from);
	return r;
}
