/* SPDX-License-Identifier: Apache-2.0 */
/* cli/workspace/cmd_diff.c - "diff": what a run with an overlay workspace would change. */
#include <stdio.h>
#include <string.h>

#include "base/bytes/json.h"
#include "base/text/clean.h"
#include "base/text/str.h"
#include "cli/workspace/changes_cli.h"

#define PATCH_MAX ((size_t)1 << 20)
#define LIST_MAX ((size_t)256 << 20)

struct diff_asked {
	struct changes_asked what;
	bool stat, names, json, text, help;
};

static int cmd_diff_parse(int argc, char **argv, struct diff_asked *a, struct err *e)
{
	bool words = false;

	for (int i = 1; i < argc; i++) {
		if (words || argv[i][0] != '-') {
			if (changes_word(&a->what, argv[i], e) < 0)
				return -e->code;
		} else if (str_eq(argv[i], "--")) {
			words = true;
		} else if (str_eq(argv[i], "--stat")) {
			a->stat = true;
		} else if (str_eq(argv[i], "--names")) {
			a->names = true;
		} else if (str_eq(argv[i], "--json")) {
			a->json = true;
		} else if (str_eq(argv[i], "--text")) {
			a->text = a->json = true;
		} else if (str_eq(argv[i], "--help") || str_eq(argv[i], "-h")) {
			a->help = true;
		} else {
			return command_refuses(&cmd_diff, argv[i], e);
		}
	}
	return 0;
}

/* ---- one change ---- */

static void put_json(struct json *j, const struct change *c)
{
	const struct guard_says says = guard_change(c);
	static const char *const texts[] = { [CHANGE_UNCOUNTED] = NULL,
					     [CHANGE_COUNTED] = "text",
					     [CHANGE_BINARY] = "binary",
					     [CHANGE_LARGE] = "large" };
	char mode[8];

	json_object(j);
	json_kstr(j, "path", c->path);
	json_kstr(j, "change", change_word(c->kind));
	json_kstr(j, "type",
		  change_type_word(c->kind == CHANGE_DELETED ? c->was.mode : c->now.mode));
	if (c->now.mode) {
		(void)snprintf(mode, sizeof(mode), "%04o", (unsigned)(c->now.mode & 07777));
		json_kstr(j, "mode", mode);
		json_ku64(j, "size", c->now.size);
	}
	if (c->link[0]) {
		json_kstr(j, "link", c->link);
		json_kbool(j, "leads_out", change_leads_out(c->path, c->link));
	}
	if (c->text != CHANGE_UNCOUNTED) {
		json_kstr(j, "text", texts[c->text]);
		json_ku64(j, "added", c->added);
		json_ku64(j, "removed", c->removed);
	}
	if (c->conflict != CONFLICT_NONE)
		json_kstr(j, "conflict", change_conflict_text(c->conflict));
	if (says.at)
		json_kstr(j, "by_name", says.reason);
	if (says.reported)
		json_kstr(j, "look", says.reported);
	json_object_end(j);
}

static void put_stat(struct buf *b, const struct change *c)
{
	clean_put(b, c->path, strlen(c->path));
	if (c->text == CHANGE_COUNTED)
		buf_printf(b, " | +%llu -%llu\n", (unsigned long long)c->added,
			   (unsigned long long)c->removed);
	else
		buf_printf(b, " | %s\n",
			   c->text == CHANGE_BINARY  ? "binary"
			   : c->text == CHANGE_LARGE ? "large"
						     : change_word(c->kind));
}

/* ---- all of them ---- */

struct diff_patch {
	struct buf text;
	bool cut;
};

static int keep_patch(void *arg, const char *data, size_t n)
{
	struct diff_patch *p = arg;
	size_t room = p->text.max - p->text.len;

	p->cut = n > room;
	buf_add(&p->text, data, p->cut ? room : n);
	return p->cut ? -EPIPE : 0;
}

/* The patch as a text of the object: as much as a page shows. */
static int put_patch(struct json *j, const struct look_want *w, struct err *e)
{
	struct diff_patch p = { .text = BUF_INIT(PATCH_MAX) };
	int r = look_text(w, keep_patch, &p, e);

	if (r == 0 || p.cut) {
		json_key(j, "text");
		json_strn(j, buf_str(&p.text), p.text.len);
		json_kbool(j, "text_cut", p.cut);
		r = 0;
	}
	buf_done(&p.text);
	return r;
}

static int diff_json(const struct layer *l, const struct change_list *list,
		     const struct look_want *text, struct buf *b, struct err *e)
{
	struct json j;
	int r = 0;

	json_init(&j, b, true);
	json_object(&j);
	json_ku64(&j, "schema", 1);
	json_kstr(&j, "run", l->about.id);
	json_kstr(&j, "workspace", l->about.workspace);
	json_kbool(&j, "finished", l->about.finished);
	json_karray(&j, "changes");
	for (size_t i = 0; i < list->n; i++)
		put_json(&j, &list->v[i]);
	json_array_end(&j);
	if (text)
		r = put_patch(&j, text, e);
	json_object_end(&j);
	buf_putc(b, '\n');
	return r;
}

static void diff_stat(const struct change_list *list, struct buf *b)
{
	unsigned long long added = 0, removed = 0;

	for (size_t i = 0; i < list->n; i++) {
		put_stat(b, &list->v[i]);
		added += list->v[i].added;
		removed += list->v[i].removed;
	}
	buf_printf(b, "%zu %s, %llu %s added, %llu removed\n", list->n,
		   list->n == 1 ? "change" : "changes", added, added == 1 ? "line" : "lines",
		   removed);
}

/* The text alone says nothing of a path that was not changed, as one that does not exist. */
static int diff_text(const struct diff_asked *a, struct look_want *w, struct err *e)
{
	CLEANUP(change_list) struct change_list list = { 0 };

	if (a->what.path_count) {
		if (look_list(w, &list, e) < 0)
			return -e->code;
		changes_tell_unchanged(&a->what, &list);
	}
	return changes_print_text(w, e);
}

static int diff_list(const struct diff_asked *a, const struct layer *l, struct look_want *w,
		     struct err *e)
{
	CLEANUP(change_list) struct change_list list = { 0 };
	CLEANUP(buf) struct buf b = BUF_INIT(LIST_MAX);

	w->count = a->stat;
	if (look_list(w, &list, e) < 0)
		return -e->code;
	guard_obeyed(l->about.workspace, &list);
	changes_tell_unchanged(&a->what, &list);
	if (a->json && diff_json(l, &list, a->text ? w : NULL, &b, e) < 0)
		return -e->code;
	if (!a->json && a->stat)
		diff_stat(&list, &b);
	if (!a->json && !a->stat)
		for (size_t i = 0; i < list.n; i++)
			changes_put_line(&b, &list.v[i]);
	if (b.failed)
		return err_nomem(e);
	(void)fwrite(buf_str(&b), 1, b.len, stdout);
	return 0;
}

static int diff_of(const struct diff_asked *a, const struct layer *l, int workspace, struct err *e)
{
	struct look_known *known = NULL, *own = NULL;
	struct look_want w = { .upper = l->upper,
			       .workspace = workspace,
			       .about = &l->about,
			       .paths = a->what.paths,
			       .path_count = a->what.path_count };
	int r;

	(void)apply_known(workspace, &known, &w.known_count);
	w.known = known;
	(void)apply_own(l, &own, &w.own_count);
	w.own = own;
	if (!l->about.finished && !l->still)
		message_print("brig: note", "the layer is damaged: its run did not end, and it can "
					    "only be looked at and discarded");
	r = a->stat || a->names || a->json ? diff_list(a, l, &w, e) : diff_text(a, &w, e);
	free(known);
	free(own);
	return r;
}

static int diff(const struct subcommand *c, int argc, char **argv)
{
	struct diff_asked a = { 0 };
	struct layer l = LAYER_NONE;
	struct err e = { 0 };
	int workspace = -1, r = cmd_diff_parse(argc, argv, &a, &e);

	if (r == 0 && a.help) {
		help_command(c);
		return 0;
	}
	if (r == 0)
		r = changes_open(&a.what, LAYER_SHARED, &l, &workspace, &e);
	if (r == 0)
		r = diff_of(&a, &l, workspace, &e);
	(void)fd_close(workspace);
	layer_done(&l);
	if (r == 0)
		return 0;
	error_print(&e);
	return EXIT_BRIG;
}

static const char *cmd_diff_word(size_t i)
{
	return i == 0 ? "last" : NULL;
}

const struct subcommand cmd_diff = {
	.name = "diff",
	.usage = "[--stat | --names] [--json [--text]] [RUN | last] [PATH...]",
	.help = "show what a run with --workspace overlay would change",
	.about = "  RUN               a run's id, or the beginning of it; else the last run\n"
		 "                    of this folder, or of one above\n"
		 "  PATH              only these, from the workspace's top, and what is below\n"
		 "  --stat            lines added and removed, by file\n"
		 "  --names           a line a change, with conflicts and what is applied\n"
		 "                    only by name\n"
		 "  --json            the list as JSON; with --stat the counts, too\n"
		 "  --text            with --json: the patch, too, up to 1 MiB\n",
	.exits = "0, or 125 if it failed",
	.word = cmd_diff_word,
	.run = diff,
};
