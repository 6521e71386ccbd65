/* SPDX-License-Identifier: Apache-2.0 */
/* cli/workspace/cmd_apply.c - "apply": puts what a run with an overlay workspace wrote into the
 * folder, all of it or nothing, and undoes that. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <termios.h>

#include "base/bytes/json.h"
#include "base/text/clean.h"
#include "base/text/str.h"
#include "cli/workspace/changes_cli.h"

#define TOLD_MAX 40

struct apply_words {
	struct changes_asked what;
	bool interactive, force, undo, json, help;
};

static int cmd_apply_parse(int argc, char **argv, struct apply_words *a, struct err *e)
{
	bool words = false;

	for (int i = 1; i < argc; i++) {
		if (words || argv[i][0] != '-') {
			if (changes_word(&a->what, argv[i], e) < 0)
				return -e->code;
		} else if (str_eq(argv[i], "--")) {
			words = true;
		} else if (str_eq(argv[i], "--interactive") || str_eq(argv[i], "-i")) {
			a->interactive = true;
		} else if (str_eq(argv[i], "--force")) {
			a->force = true;
		} else if (str_eq(argv[i], "--undo")) {
			a->undo = true;
		} else if (str_eq(argv[i], "--json")) {
			a->json = true;
		} else if (str_eq(argv[i], "--help") || str_eq(argv[i], "-h")) {
			a->help = true;
		} else {
			return command_refuses(&cmd_apply, argv[i], e);
		}
	}
	if (a->undo && (a->interactive || a->what.run || a->what.path_count))
		return err_refuse(e, ERR_USAGE, EINVAL, "brig apply --undo, in the workspace",
				  "--undo takes back the whole last apply of this folder");
	if (a->interactive && (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO) || a->json))
		return err_refuse(e, ERR_USAGE, ENOTTY, "name the paths instead",
				  "--interactive needs a terminal");
	return 0;
}

/* ---- what is told ---- */

static void put_left(struct buf *b, const struct apply *a, enum apply_verdict v)
{
	const struct change_list *l = apply_changes(a);
	size_t told = 0;

	for (size_t i = 0; i < l->n; i++) {
		if (apply_verdict_of(a, i) != v)
			continue;
		if (told++ < TOLD_MAX) {
			buf_puts(b, "  left out: ");
			changes_put_line(b, &l->v[i]);
		}
	}
	if (told > TOLD_MAX)
		buf_printf(b, "  and %zu more\n", told - TOLD_MAX);
}

/* What came with it and is worth a look. */
static void put_looks(struct buf *b, const struct apply *a)
{
	const struct change_list *l = apply_changes(a);
	size_t told = 0, copies = 0;

	for (size_t i = 0; i < l->n; i++) {
		const struct change *c = &l->v[i];

		if (apply_verdict_of(a, i) != VERDICT_TAKE)
			continue;
		copies += c->more_names;
		if ((guard_change(c).reported || change_leads_out(c->path, c->link)) &&
		    told++ < TOLD_MAX) {
			buf_puts(b, "  ");
			changes_put_line(b, c);
		}
	}
	if (copies > 1)
		buf_puts(b, "  hard links among the changed files have become copies\n");
}

static void put_result(const struct apply_words *w, const struct apply *a, const struct layer *l,
		       size_t done)
{
	CLEANUP(buf) struct buf b = BUF_INIT((size_t)64 << 20);
	const struct change_list *list = apply_changes(a);
	struct json j;

	if (!w->json) {
		buf_printf(&b, "%zu %s applied to ", done, done == 1 ? "change" : "changes");
		clean_put(&b, l->about.workspace, strlen(l->about.workspace));
		buf_puts(&b, done ? "; brig apply --undo takes them back\n" : "\n");
		put_looks(&b, a);
		put_left(&b, a, VERDICT_GUARDED);
		put_left(&b, a, VERDICT_NEVER);
		(void)fputs(buf_str(&b), stdout);
		return;
	}
	json_init(&j, &b, true);
	json_object(&j);
	json_ku64(&j, "schema", 1);
	json_kstr(&j, "run", l->about.id);
	json_ku64(&j, "applied", done);
	json_karray(&j, "left");
	for (size_t i = 0; i < list->n; i++) {
		enum apply_verdict v = apply_verdict_of(a, i);

		if (v != VERDICT_GUARDED && v != VERDICT_NEVER)
			continue;
		json_object(&j);
		json_kstr(&j, "path", list->v[i].path);
		json_kstr(&j, "reason",
			  v == VERDICT_GUARDED ? apply_guard_of(a, i).reason
					       : change_type_word(list->v[i].now.mode));
		json_object_end(&j);
	}
	json_array_end(&j);
	json_object_end(&j);
	(void)printf("%s\n", buf_str(&b));
}

/* What the host obeys is shown before it is there. */
static int show_named(const struct apply *a, struct err *e)
{
	const struct change_list *l = apply_changes(a);
	const char *paths[CHANGES_PATHS_MAX];
	struct look_want w = apply_look(a);

	w.paths = paths;
	for (size_t i = 0; i < l->n && w.path_count < CHANGES_PATHS_MAX; i++)
		if (apply_verdict_of(a, i) == VERDICT_TAKE && apply_guard_of(a, i).at)
			paths[w.path_count++] = l->v[i].path;
	return w.path_count ? changes_print_text(&w, e) : 0;
}

/* ---- one after another ---- */

static bool is_asked(const struct change_list *l, size_t i)
{
	const struct change *c = &l->v[i];

	if (c->kind == CHANGE_OTHER)
		return false;
	/* A new folder comes with what is taken of it. */
	return !S_ISDIR(c->now.mode) || c->kind == CHANGE_MODE || i + 1 == l->n ||
	       !change_path_below(l->v[i + 1].path, c->path);
}

static char answer(const struct change *c)
{
	CLEANUP(buf) struct buf b = BUF_INIT(4 * PATH_MAX);
	char line[64];

	changes_put_line(&b, c);
	for (;;) {
		/* What was typed before, or what a text made the terminal say, is no answer. */
		(void)tcflush(STDIN_FILENO, TCIFLUSH);
		(void)printf("%sApply this change [y,n,a,d,q,?]? ", buf_str(&b));
		(void)fflush(stdout);
		if (!fgets(line, sizeof(line), stdin))
			return 'q';
		if (strchr("ynadq", line[0]) && (line[1] == '\n' || !line[1]))
			return line[0];
		(void)printf("y - apply it\nn - do not apply it\na - apply it and all that "
			     "follow, but for what is applied only by name\nd - apply neither "
			     "it nor any that follow\nq - the same; what was taken so far is "
			     "applied\n");
	}
}

static int ask_each(const struct apply *a, struct changes_asked *taken, struct err *e)
{
	const struct change_list *l = apply_changes(a);
	bool all = false;

	(void)setvbuf(stdin, NULL, _IONBF, 0);
	for (size_t i = 0; i < l->n; i++) {
		const char *path[] = { l->v[i].path };
		struct look_want w = apply_look(a);
		bool by_name = apply_guard_of(a, i).at != 0;
		char say = 'y';

		if (!is_asked(l, i) || apply_verdict_of(a, i) == VERDICT_NOT_ASKED)
			continue;
		if (!all || by_name) {
			w.paths = path;
			w.path_count = 1;
			if (changes_print_text(&w, e) < 0)
				return -e->code;
			say = answer(&l->v[i]);
		}
		if (say == 'q' || say == 'd')
			break;
		all |= say == 'a';
		if (say == 'n')
			continue;
		if (taken->path_count == CHANGES_PATHS_MAX)
			return err_refuse(e, ERR_USAGE, E2BIG, "name folders instead",
					  "more than %d changes were taken one by one",
					  CHANGES_PATHS_MAX);
		taken->paths[taken->path_count++] = path[0];
	}
	return 0;
}

/* ---- the command ---- */

static int apply_undone(const struct apply_words *w, struct err *e)
{
	char here[PATH_MAX];
	CLEANUP(fd) int fd = -1;
	size_t done = 0;
	int r;

	if (cli_here(here, e) < 0)
		return -e->code;
	for (;;) {
		char *slash = strrchr(here, '/');

		(void)fd_close(fd);
		fd = fd_open_nolinks(AT_FDCWD, here[0] ? here : "/", O_RDONLY | O_DIRECTORY, 0);
		r = fd < 0 ? err_errno(e, fd, "cannot open '%.200s'", here)
			   : apply_undo(fd, w->force, &done, e);
		if (r != -ENOENT || !slash || slash == here)
			break;
		*slash = '\0';
	}
	if (r == 0 && w->json)
		(void)printf("{\"schema\": 1, \"undone\": %zu}\n", done);
	else if (r == 0)
		(void)printf("%zu %s taken back; the layer has them again\n", done,
			     done == 1 ? "change was" : "changes were");
	return r;
}

static int apply_one(const struct apply_words *w, struct layer *l, struct err *e)
{
	struct apply_asked asked = { w->what.paths, w->what.path_count, w->force };
	struct changes_asked taken = { 0 };
	CLEANUP(apply) struct apply *a = NULL;
	size_t done = 0;

	if (apply_begin(l, &a, e) < 0 || apply_judge(a, &asked, e) < 0)
		return -e->code;
	if (w->interactive) {
		if (ask_each(a, &taken, e) < 0)
			return -e->code;
		if (!taken.path_count) {
			(void)printf("nothing was applied\n");
			return 0;
		}
		asked = (struct apply_asked){ taken.paths, taken.path_count, w->force };
		if (apply_judge(a, &asked, e) < 0)
			return -e->code;
	} else if (!w->json && show_named(a, e) < 0) {
		return -e->code;
	}
	if (apply_commit(a, &done, e) < 0)
		return -e->code;
	put_result(w, a, l, done);
	return 0;
}

static int apply_run(const struct apply_words *w, struct err *e)
{
	struct layer l = LAYER_NONE;
	int workspace = -1, r = changes_open(&w->what, LAYER_ALONE, &l, &workspace, e);

	(void)fd_close(workspace);
	if (r == 0)
		r = apply_one(w, &l, e);
	layer_done(&l);
	return r;
}

static int cmd_apply_main(const struct subcommand *c, int argc, char **argv)
{
	struct apply_words w = { 0 };
	struct err e = { 0 };

	if (cmd_apply_parse(argc, argv, &w, &e) == 0) {
		if (w.help) {
			help_command(c);
			return 0;
		}
		if ((w.undo ? apply_undone : apply_run)(&w, &e) == 0)
			return 0;
	}
	error_print(&e);
	return EXIT_BRIG;
}

static const char *cmd_apply_word(size_t i)
{
	return i == 0 ? "last" : NULL;
}

const struct subcommand cmd_apply = {
	.name = "apply",
	.usage = "[-i | --interactive] [--force] [--json] [RUN | last] [PATH...] | --undo",
	.help = "put what a run with --workspace overlay wrote into the folder",
	.about = "  RUN               a run's id, or the beginning of it; else the last run\n"
		 "                    of this folder, or of one above\n"
		 "  PATH              only these, from the workspace's top, and what is below;\n"
		 "                    what programs on the host obey is applied only by its\n"
		 "                    path, and shown first\n"
		 "  -i, --interactive asks for each change\n"
		 "  --force           with paths: also over what you have changed since; with\n"
		 "                    --undo: also where something was changed since\n"
		 "  --undo            take back the last apply in this folder: until the\n"
		 "                    next one, or 7 days\n"
		 "  --json            the result as JSON\n",
	.exits = "0, or 125 if it failed: then nothing was applied",
	.word = cmd_apply_word,
	.run = cmd_apply_main,
};
