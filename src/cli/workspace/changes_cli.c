/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/workspace/changes_cli.h"

#include <stdio.h>
#include <string.h>

#include "base/text/clean.h"
#include "base/text/str.h"
#include "sandbox/streams/vtfilter.h"

enum { RUN_LEAST = 4 };

static bool is_run(const char *word)
{
	size_t n = strspn(word, "0123456789abcdef");

	return str_eq(word, "last") || (n >= RUN_LEAST && n <= CLAIM_ID && !word[n]);
}

int changes_word(struct changes_asked *a, char *word, struct err *e)
{
	size_t n;

	if (!a->run && !a->path_count && is_run(word)) {
		a->run = word;
		return 0;
	}
	while (str_starts(word, "./"))
		word += 2;
	for (n = strlen(word); n && word[n - 1] == '/'; n--)
		word[n - 1] = '\0';
	if (!change_path_ok(word))
		return err_refuse(e, ERR_USAGE, EINVAL,
				  "paths lead from the workspace's top, without '..'",
				  "'%.200s' is no path of the workspace", word);
	if (a->path_count == CHANGES_PATHS_MAX)
		return err_set(e, ERR_USAGE, E2BIG, "more than %d paths", CHANGES_PATHS_MAX);
	a->paths[a->path_count++] = word;
	return 0;
}

/* The youngest layer of this folder, or of one above. */
static int open_last(enum layer_hold hold, struct layer *l, struct err *e)
{
	struct err above;
	char here[PATH_MAX];
	int r;

	if (cli_here(here, e) < 0)
		return -e->code;
	r = layer_open("last", here, hold, l, e);
	for (char *slash = strrchr(here, '/'); r == -ENOENT && slash && slash != here;
	     slash = strrchr(here, '/')) {
		*slash = '\0';
		r = layer_open("last", here, hold, l, &above);
		if (r != -ENOENT && r < 0)
			*e = above;
	}
	return r;
}

static int open_layer(const struct changes_asked *a, enum layer_hold hold, struct layer *l,
		      struct err *e)
{
	int r = a->run && !str_eq(a->run, "last") ? layer_open(a->run, NULL, hold, l, e)
						  : open_last(hold, l, e);

	/* A folder may be called `cafe`. */
	if (r == -ENOENT && a->run && access(a->run, F_OK) == 0)
		(void)err_hint(e, "for the path of that name: ./%.40s", a->run);
	if (r == -EBUSY)
		(void)err_hint(e, "pause or wait: what a run still writes would be seen in halves");
	return r;
}

int changes_open(const struct changes_asked *a, enum layer_hold hold, struct layer *l,
		 int *workspace, struct err *e)
{
	if (open_layer(a, hold, l, e) < 0)
		return -e->code;
	if (layer_workspace(l, workspace, e) < 0) {
		layer_done(l);
		return -e->code;
	}
	/* The layer itself may be what the killed one took files from. */
	layer_done(l);
	if (apply_recover(*workspace, e) < 0 || open_layer(a, hold, l, e) < 0) {
		*workspace = fd_close(*workspace);
		return -e->code;
	}
	return 0;
}

/* ---- texts ---- */

struct shown_text {
	struct vtfilter filter;
	bool terminal;
};

static int show_piece(void *arg, const char *data, size_t n)
{
	struct shown_text *t = arg;
	char out[4096 + VTFILTER_SLACK];

	for (size_t at = 0; t->terminal && at < n; at += 4096) {
		size_t piece = n - at < 4096 ? n - at : 4096;
		size_t len = vtfilter_run(&t->filter, data + at, piece, out);

		if (fwrite(out, 1, len, stdout) != len)
			return -EPIPE;
	}
	return t->terminal || fwrite(data, 1, n, stdout) == n ? 0 : -EPIPE;
}

int changes_print_text(const struct look_want *w, struct err *e)
{
	struct shown_text t = { .terminal = isatty(STDOUT_FILENO) };
	char out[VTFILTER_SLACK];
	size_t n = 0;
	int r;

	vtfilter_init(&t.filter);
	r = look_text(w, show_piece, &t, e);
	if (t.terminal)
		n = vtfilter_flush(&t.filter, out);
	(void)fwrite(out, 1, n, stdout);
	(void)fflush(stdout);
	return r == -EPIPE ? 0 : r;
}

void changes_put_line(struct buf *b, const struct change *c)
{
	const struct guard_says says = guard_change(c);

	buf_printf(b, "%-7s  ", change_word(c->kind));
	clean_put(b, c->path, strlen(c->path));
	if (S_ISDIR(c->kind == CHANGE_DELETED ? c->was.mode : c->now.mode))
		buf_putc(b, '/');
	if (c->link[0]) {
		buf_puts(b, " -> ");
		clean_put(b, c->link, strlen(c->link));
		if (change_leads_out(c->path, c->link))
			buf_puts(b, " (leads out of the workspace)");
	}
	if (c->kind == CHANGE_OTHER)
		buf_printf(b, " (%s: never applied)",
			   S_ISREG(c->now.mode) || S_ISDIR(c->now.mode)
				   ? "it cannot be read"
				   : change_type_word(c->now.mode));
	if (c->conflict != CONFLICT_NONE)
		buf_printf(b, " (conflict: %s)", change_conflict_text(c->conflict));
	if (says.at)
		buf_printf(b, " (only by name: %s)", says.reason);
	else if (says.reported)
		buf_printf(b, " (look at it: %s)", says.reported);
	buf_putc(b, '\n');
}
