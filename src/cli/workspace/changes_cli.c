/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/workspace/changes_cli.h"

#include <stdio.h>
#include <string.h>

#include "base/text/clean.h"
#include "base/text/str.h"
#include "daemon/shared/sandbox_id.h"

enum { RUN_LEAST = 4 };

static bool is_run(const char *word)
{
	size_t n = strspn(word, "0123456789abcdef");

	return str_eq(word, "last") || id_is(SANDBOX_ID, word) ||
	       (n >= RUN_LEAST && n <= CLAIM_ID && !word[n]);
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
	if (r == -EBUSY && a->run && id_is(SANDBOX_ID, a->run))
		(void)err_hint(e,
			       "brig sandbox diff and brig sandbox apply have it paused meanwhile");
	else if (r == -EBUSY)
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
	if (l->passed)
		message_print("brig: note", "a run that began later has not ended: these are the "
					    "changes of the one before it");
	return 0;
}

static bool is_at(const char *path, const char *at)
{
	size_t n = strlen(at);

	return strncmp(path, at, n) == 0 && (!path[n] || path[n] == '/');
}

void changes_tell_unchanged(const struct changes_asked *a, const struct change_list *list)
{
	for (size_t i = 0; i < a->path_count; i++) {
		char line[PATH_MAX + 64];
		size_t k = 0;

		while (k < list->n && !is_at(list->v[k].path, a->paths[i]))
			k++;
		if (k < list->n)
			continue;
		(void)snprintf(line, sizeof(line),
			       "nothing was changed at '%.1024s'; brig diff --names lists what was",
			       a->paths[i]);
		message_print("brig: note", line);
	}
}

/* ---- texts ---- */

struct shown_text {
	bool terminal;
	struct buf line; /* what came of one that has not ended */
};

/* On a terminal nothing but letters: what moves its cursor or erases would hide what was written. A
 * tab stays, and the end of a line as DOS has it. */
static void put_shown(struct buf *out, const char *p, size_t n)
{
	size_t from = 0, end = n >= 2 && p[n - 2] == '\r' && p[n - 1] == '\n' ? n - 2 : n;

	for (size_t i = 0; i < end; i++) {
		unsigned char c = (unsigned char)p[i];

		if (c >= 0x20 && c != 0x7f)
			continue;
		clean_put(out, p + from, i - from);
		from = i + 1;
		if (c == '\t' || c == '\n')
			buf_putc(out, (char)c);
		else
			buf_printf(out, "^%c", c ^ 0x40);
	}
	clean_put(out, p + from, end - from);
	buf_add(out, p + end, n - end);
}

/* Whole lines, so that no character is cut in two. */
static int show_lines(struct shown_text *t, bool all)
{
	CLEANUP(buf) struct buf out = BUF_INIT((size_t)64 << 20);
	const char *line = buf_str(&t->line);
	size_t at = 0;

	if (t->line.failed)
		return -ENOMEM;
	while (at < t->line.len) {
		const char *end = memchr(line + at, '\n', t->line.len - at);
		size_t n = end ? (size_t)(end - (line + at)) + 1 : t->line.len - at;

		if (!end && !all)
			break;
		put_shown(&out, line + at, n);
		at += n;
	}
	if (out.failed)
		return -ENOMEM;
	if (fwrite(buf_str(&out), 1, out.len, stdout) != out.len)
		return -EPIPE;
	if (at)
		memmove(t->line.data, t->line.data + at, t->line.len - at);
	t->line.len -= at;
	return 0;
}

static int show_piece(void *arg, const char *data, size_t n)
{
	struct shown_text *t = arg;

	if (!t->terminal)
		return fwrite(data, 1, n, stdout) == n ? 0 : -EPIPE;
	buf_add(&t->line, data, n);
	return memchr(data, '\n', n) || t->line.failed ? show_lines(t, false) : 0;
}

int changes_print_text(const struct look_want *w, struct err *e)
{
	struct shown_text t = { .terminal = isatty(STDOUT_FILENO),
				.line = BUF_INIT((size_t)16 << 20) };
	int r = look_text(w, show_piece, &t, e);

	if (r == 0)
		r = show_lines(&t, true);
	buf_done(&t.line);
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
