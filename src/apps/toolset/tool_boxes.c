/* SPDX-License-Identifier: Apache-2.0 */
/* apps/toolset/tool_boxes.c - sandboxes that stay: create_sandbox, list_sandboxes, delete_sandbox.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#include "apps/toolset/tools_internal.h"
#include "base/bytes/json.h"
#include "base/sys/clock.h"
#include "base/sys/wait.h"
#include "base/text/str.h"
#include "sandbox/manager.h"

#define TURN_MS 100

static void on_box(struct loop_watch *w, uint32_t events UNUSED)
{
	struct tool_box *b = (struct tool_box *)w;

	if (brig_sandbox_dispatch(b->sandbox))
		return;
	b->ended = true;
	(void)loop_want(b->of->loop, w, 0);
}

int box_open(struct tools *t, const char *name, struct tool_box **ret, struct err *e)
{
	struct tool_box *b = calloc(1, sizeof(*b));
	struct brig_error be;

	if (!b)
		return err_nomem(e);
	b->of = t;
	b->request = request_from(t->spec);
	b->asker.sandbox = &b->sandbox;
	if (b->request) {
		struct spec *s = request_spec(b->request);

		s->audit.name = name ? arena_strdup(s->arena, name) : NULL;
		asker_begin(&b->asker, t, b->request);
	}
	if (!b->request) {
		(void)err_nomem(e);
	} else if (brig_sandbox_open(b->request, &b->sandbox, &be) < 0) {
		error_import(&be, e);
	} else {
		(void)snprintf(b->id, sizeof(b->id), "%s", brig_sandbox_id(b->sandbox));
		b->w = (struct loop_watch){ .fd = brig_sandbox_fd(b->sandbox), .ready = on_box };
		if (b->w.fd >= 0 && loop_want(t->loop, &b->w, EPOLLIN) == 0) {
			*ret = b;
			return 0;
		}
		(void)err_set(e, ERR_INTERNAL, EIO, "the sandbox cannot be followed");
	}
	box_close(b, NULL);
	return -e->code;
}

static void unlist(struct tool_box *b)
{
	struct tool_box **at = &b->of->boxes;

	while (*at && *at != b)
		at = &(*at)->next;
	if (!*at)
		return;
	*at = b->next;
	b->of->box_count--;
}

void box_begin_call(struct tool_call *c)
{
	free(c->denied);
	c->denied = outcome_mark(sandbox_facts(c->box->sandbox));
}

void box_end_call(struct tool_call *c, struct outcome *o)
{
	const struct outcome *facts = sandbox_facts(c->box->sandbox);

	outcome_deny_since(o, facts, c->denied);
	free(c->box->told);
	c->box->told = outcome_mark(facts);
}

void box_close(struct tool_box *b, struct outcome *o)
{
	brig_result *r = NULL;
	struct brig_error unused;

	if (!b)
		return;
	contexts_leave(b->of, b);
	unlist(b);
	for (struct tool_call *c = b->of->calls; c; c = c->next)
		if (c->box == b)
			c->box = NULL;
	if (b->w.events)
		(void)loop_want(b->of->loop, &b->w, 0);
	if (b->sandbox)
		(void)brig_sandbox_close(b->sandbox, &r, &unused);
	if (r && o)
		outcome_deny_since(o, result_outcome(r), b->told);
	brig_result_free(r);
	brig_request_free(b->request);
	free(b->told);
	free(b);
}

void box_end_run(struct tool_box *b, brig_request *q, brig_run *run, brig_result **ret)
{
	struct brig_error unused;

	brig_request_cancel(q);
	while (brig_run_dispatch(run)) {
		struct pollfd p[] = { { .fd = brig_run_fd(run), .events = POLLIN },
				      { .fd = brig_sandbox_fd(b->sandbox), .events = POLLIN } };

		sandbox_end_command(b->sandbox, run_handle_number(run));
		run_handle_drop(run); /* nobody reads it any more */
		if (!brig_sandbox_dispatch(b->sandbox))
			break;
		(void)wait_any(p, ARRAY_LEN(p), clock_after(TURN_MS));
	}
	(void)brig_run_finish(run, ret, &unused);
}

static struct tool_box *box_find(struct tools *t, const char *ref)
{
	for (struct tool_box *b = t->boxes; b; b = b->next)
		if (str_eq(b->id, ref) || (b->name[0] && str_eq(b->name, ref)))
			return b;
	return NULL;
}

int box_of(struct tools *t, const struct jread *args, struct tool_box **ret, struct err *e)
{
	const char *ref = NULL;

	*ret = NULL;
	if (args_text(args, "sandbox", 256, &ref, e) < 0)
		return -e->code;
	if (!ref)
		return 0;
	*ret = box_find(t, ref);
	if (!*ret)
		return err_refuse(e, ERR_USAGE, ENOENT, "list_sandboxes shows those there are",
				  "there is no sandbox '%.80s'", ref);
	if ((*ret)->ended)
		return err_refuse(e, ERR_USAGE, ECHILD, "delete it and create another",
				  "sandbox '%.80s' has ended (%s)", ref,
				  outcome_name(sandbox_facts((*ret)->sandbox)->kind));
	return 0;
}

/* ---- the tools ---- */

static void put_box(struct json *j, const struct tool_box *b)
{
	json_object(j);
	json_kstr(j, "sandbox", b->id);
	if (b->name[0])
		json_kstr(j, "name", b->name);
	json_kstr(j, "state", b->ended ? "ended" : "ready");
	json_object_end(j);
}

bool box_name_ok(const char *s)
{
	static const char rest[] = "abcdefghijklmnopqrstuvwxyz0123456789._-";

	return strlen(s) < 64 && s[0] != '.' && s[0] != '_' && s[0] != '-' && *s &&
	       s[strspn(s, rest)] == '\0';
}

int create_sandbox(struct tool_call *c, const struct jread *args, struct err *e)
{
	struct tools *t = c->of;
	const char *name = NULL;
	struct tool_box *b;
	struct json j;

	if (args_text(args, "name", 63, &name, e) < 0)
		return -e->code;
	if (name && !box_name_ok(name))
		return err_set(e, ERR_USAGE, EINVAL,
			       "a name has lower-case letters, digits, '.', '_' and '-'");
	if (is_far(c))
		return far_create(c, name, e);
	if (name && box_find(t, name))
		return err_set(e, ERR_USAGE, EEXIST, "there is a sandbox '%s' already", name);
	if (t->box_count >= TOOLS_BOXES_MAX)
		return err_refuse(e, ERR_USAGE, EAGAIN, "delete_sandbox makes room",
				  "there are %d sandboxes already", TOOLS_BOXES_MAX);
	if (box_open(t, name, &b, e) < 0)
		return -e->code;
	(void)snprintf(b->name, sizeof(b->name), "%s", name ? name : "");
	b->next = t->boxes;
	t->boxes = b;
	t->box_count++;
	json_init(&j, &c->result.json, false);
	put_box(&j, b);
	buf_printf(&c->result.text,
		   "Sandbox %s is ready. Pass it as `sandbox`; it ends with delete_sandbox or with "
		   "this server.",
		   name ? name : b->id);
	call_end(c);
	return 0;
}

int list_sandboxes(struct tool_call *c, const struct jread *args UNUSED, struct err *e)
{
	struct json j;

	if (is_far(c))
		return far_list(c, e);
	json_init(&j, &c->result.json, false);
	json_object(&j);
	json_karray(&j, "sandboxes");
	for (const struct tool_box *b = c->of->boxes; b; b = b->next) {
		put_box(&j, b);
		buf_printf(&c->result.text, "%s%s%s%s\n", b->id, b->name[0] ? " " : "", b->name,
			   b->ended ? " (ended)" : "");
	}
	json_array_end(&j);
	json_object_end(&j);
	if (!c->result.text.len)
		buf_puts(&c->result.text, "(none)");
	call_end(c);
	return 0;
}

int delete_sandbox(struct tool_call *c, const struct jread *args, struct err *e)
{
	const char *ref = NULL;
	struct tool_box *b;
	CLEANUP(outcome) struct outcome *left = outcome_new();
	struct json j;

	if (is_far(c))
		return far_delete(c, args, e);
	if (args_text(args, "sandbox", 256, &ref, e) < 0)
		return -e->code;
	b = box_find(c->of, ref);
	if (!b)
		return err_refuse(e, ERR_USAGE, ENOENT, "list_sandboxes shows those there are",
				  "there is no sandbox '%.80s'", ref);
	json_init(&j, &c->result.json, false);
	json_object(&j);
	json_kstr(&j, "deleted", b->id);
	json_object_end(&j);
	buf_puts(&c->result.text, "Deleted, with everything that ran in it.");
	box_close(b, left);
	if (left)
		result_denied(c, left);
	call_end(c);
	return 0;
}
