/* SPDX-License-Identifier: Apache-2.0 */
/* apps/toolset/tool_diff.c - workspace_diff: what a command, or a sandbox that stays, has changed
 * in its overlay workspace. It shows, and applies nothing: that is the user's, by `brig apply`. */
#include <stdio.h>
#include <string.h>

#include "apps/toolset/tools_internal.h"
#include "base/bytes/json.h"
#include "sandbox/manager.h"

#define SHOWN_MAX ((size_t)64 << 10)

struct diff_text {
	struct buf text;
	bool cut;
};

/* -EPIPE ends it: more than is shown is not made. */
static int tool_diff_put(void *arg, const char *data, size_t n)
{
	struct diff_text *t = arg;
	size_t room = SHOWN_MAX - t->text.len;

	t->cut = n > room;
	buf_add(&t->text, data, t->cut ? room : n);
	return t->cut ? -EPIPE : 0;
}

static int changes_of(const struct tool_call *c, const struct tool_box *b, const char *run,
		      struct diff_text *t, struct err *e)
{
	int r = b ? sandbox_changes(b->sandbox, tool_diff_put, t, e)
		  : sandbox_changes_of(c->of->spec, run, tool_diff_put, t, e);

	return r < 0 && !t->cut ? r : 0;
}

int workspace_diff(struct tool_call *c, const struct jread *args, struct err *e)
{
	struct diff_text t = { .text = BUF_INIT(SHOWN_MAX + 1) };
	const char *run = NULL;
	struct tool_box *b = NULL;
	struct json j;
	int r;

	if (is_far(c))
		return err_refuse(e, ERR_UNAVAILABLE, ENOTSUP,
				  "the user can see it: brig sandbox diff ID",
				  "sandboxes are the daemon's here, and their layers the user's");
	if (args_text(args, "run", TOOL_ID_SIZE - 1, &run, e) < 0 || box_of(c->of, args, &b, e) < 0)
		return -e->code;
	if (b && run)
		return err_set(e, ERR_USAGE, EINVAL, "give 'sandbox' or 'run', not both");
	r = changes_of(c, b, run, &t, e);
	if (r == 0) {
		buf_add(&c->result.text, buf_str(&t.text), t.text.len);
		if (!t.text.len)
			buf_puts(&c->result.text, "(no changes)");
		if (t.cut)
			buf_puts(&c->result.text,
				 "\n(cut here: the user sees all of it by brig diff)");
		json_init(&j, &c->result.json, false);
		json_object(&j);
		json_key(&j, "diff");
		json_strn(&j, buf_str(&t.text), t.text.len);
		json_kbool(&j, "truncated", t.cut);
		json_object_end(&j);
	}
	buf_done(&t.text);
	if (r == 0)
		call_end(c);
	return r;
}
