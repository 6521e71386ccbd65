/* SPDX-License-Identifier: Apache-2.0 */
/* cli/settings/cmd_cache.c - "cache": the HOMEs that brig keeps for projects, which it shows and
 * clears, and layers, which it shows. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/bytes/json.h"
#include "base/text/buf.h"
#include "base/text/clean.h"
#include "base/text/str.h"
#include "cli/cli.h"
#include "cli/settings/cache_layers.h"
#include "cli/settings/volume_rows.h"
#include "model/settings/paths.h"
#include "sandbox/home/kept_home.h"

#define TEXT_MAX ((size_t)16 << 20)
#define CLEAR_MAX 4096 /* at one go */
#define ID_SHOWN 12

struct cache_asked {
	const char *project; /* as written; NULL: the current folder */
	const char *tool;    /* whose cache; NULL: not said */
	bool clear, all, gone, tools, json, help;
};

static int cmd_cache_parse(int argc, char **argv, struct cache_asked *a, struct err *e)
{
	for (int i = 1; i < argc; i++) {
		if (str_eq(argv[i], "--json"))
			a->json = true;
		else if (str_eq(argv[i], "--help") || str_eq(argv[i], "-h"))
			a->help = true;
		else if (i == 1 && str_eq(argv[i], "list"))
			continue;
		else if (i == 1 && str_eq(argv[i], "clear"))
			a->clear = true;
		else if (a->clear && str_eq(argv[i], "--all"))
			a->all = true;
		else if (a->clear && str_eq(argv[i], "--gone"))
			a->gone = true;
		else if (a->clear && str_eq(argv[i], "--tools"))
			a->tools = true;
		else if (a->clear && str_eq(argv[i], "--tool") && i + 1 < argc)
			a->tool = argv[++i];
		else if (a->clear && argv[i][0] != '-' && !a->project)
			a->project = argv[i];
		else
			return command_refuses(&cmd_cache, argv[i], e);
	}
	if (a->all + a->gone + a->tools + (a->tool != NULL) + (a->project != NULL) > 1)
		return err_refuse(e, ERR_USAGE, EINVAL,
				  "--all, --gone, --tools, --tool NAME or one project",
				  "cache clear takes one of --all, --gone, --tools, --tool and a "
				  "project");
	return 0;
}

/* ---- showing ---- */

struct listing {
	struct buf text;
	struct json json;
	bool as_json, any;
};

static void put_row(struct listing *l, const struct kept_home_row *r, const char *last)
{
	const char *project = r->project ? r->project : "?";

	if (!l->any)
		buf_puts(&l->text,
			 "ID                SIZE  LAST USE              BACKEND  POLICY           "
			 "PROJECT\n");
	buf_printf(&l->text, "%.*s ", ID_SHOWN, r->id);
	volume_put_size(&l->text, r->bytes, r->more);
	buf_printf(&l->text, "  %-20s  %-7.16s  %-15.16s  ", last, r->backend ? r->backend : "?",
		   r->policy ? r->policy : "?");
	clean_put(&l->text, project, strlen(project));
	if (r->image && *r->image) {
		buf_puts(&l->text, "  ");
		clean_put(&l->text, r->image, strlen(r->image));
	}
	if (r->seed) {
		buf_puts(&l->text, "  (of ");
		clean_put(&l->text, r->seed, strlen(r->seed));
		buf_putc(&l->text, ')');
	}
	if (!r->trusted)
		buf_puts(&l->text, "  (untrusted)");
	if (r->leftover)
		buf_puts(&l->text, r->used ? "  (being cleared)"
					   : "  (cleared, and this is left: brig cache clear)");
	else if (r->used)
		buf_puts(&l->text, "  (in use)");
	else if (r->gone)
		buf_puts(&l->text, "  (its folder is gone)");
	buf_putc(&l->text, '\n');
}

static void put_json(struct listing *l, const struct kept_home_row *r, const char *last)
{
	struct json *j = &l->json;

	json_object(j);
	json_kstr(j, "id", r->id);
	json_kstr(j, "project", r->project);
	json_kstr(j, "backend", r->backend);
	json_kstr(j, "policy", r->policy);
	json_kstr(j, "image", r->image && *r->image ? r->image : NULL);
	json_kstr(j, "seed", r->seed);
	json_kbool(j, "trusted", r->trusted);
	json_ku64(j, "bytes", r->bytes);
	json_kbool(j, "more", r->more);
	json_kstr(j, "last_use", r->last ? last : NULL);
	json_kbool(j, "in_use", r->used);
	json_kbool(j, "leftover", r->leftover);
	json_kbool(j, "gone", r->gone);
	json_object_end(j);
}

static int cmd_cache_row(void *arg, const struct kept_home_row *r)
{
	struct listing *l = arg;
	char last[32];

	volume_when(r->last, last);
	(l->as_json ? put_json : put_row)(l, r, last);
	l->any = true;
	return 0;
}

static int cmd_cache_list(const struct cache_asked *a, struct err *e)
{
	struct listing l = { .text = BUF_INIT(TEXT_MAX), .as_json = a->json };
	int r;

	json_init(&l.json, &l.text, true);
	if (a->json) {
		json_object(&l.json);
		json_ku64(&l.json, "schema", 1);
		json_karray(&l.json, "homes");
	}
	r = kept_home_each(cmd_cache_row, &l, e);
	if (a->json) {
		json_array_end(&l.json);
		if (r == 0)
			r = volume_rows_json(VOLUME_CACHES, "tools", &l.json, e);
		if (r == 0)
			r = cache_layers_json(&l.json, e);
		json_object_end(&l.json);
		buf_putc(&l.text, '\n');
	} else if (r == 0) {
		r = volume_rows_text(VOLUME_CACHES, &l.text, e);
		if (r == 0)
			r = cache_layers_text(&l.text, time(NULL), e);
	}
	if (r == 0)
		(void)fputs(l.text.len ? buf_str(&l.text)
				       : "no HOME is kept: brig run --home keep makes one; --cache "
					 "TOOL keeps a cache\n",
			    stdout);
	buf_done(&l.text);
	return r;
}

/* ---- clearing ---- */

struct wanted {
	const char *project, *id; /* NULL both: all */
	bool gone;                /* of these, those without a project */
	char path[SHA256_HEX];    /* the project's */
	char (*ids)[SHA256_HEX];
	size_t n;
	size_t cleared, left;
};

static int pick(void *arg, const struct kept_home_row *r)
{
	struct wanted *w = arg;
	bool all = !w->project && !w->id;

	if (w->n == CLEAR_MAX)
		return 1;
	if (r->leftover) /* all of them go anyway */
		return 0;
	if (w->gone && !r->gone)
		return 0;
	if (all || (w->project && r->path && str_eq(r->path, w->path)) ||
	    (w->id && str_starts(r->id, w->id)))
		memcpy(w->ids[w->n++], r->id, SHA256_HEX);
	return 0;
}

static bool cmd_cache_is_id(const char *text)
{
	size_t n = strlen(text);

	return n >= ID_SHOWN && n < SHA256_HEX && strspn(text, "0123456789abcdef") == n;
}

/* The folder as a run from there would name it, or an id of the list. */
static int cmd_cache_find(const struct cache_asked *a, struct arena *arena, struct wanted *w,
			  struct err *e)
{
	char cwd[PATH_MAX], real[PATH_MAX];

	w->gone = a->gone;
	if (a->all || a->gone || a->tools || a->tool)
		return 0;
	if (a->project && cmd_cache_is_id(a->project)) {
		w->id = a->project;
		return 0;
	}
	if (cli_here(cwd, e) < 0 ||
	    path_resolve(arena, &(struct place){ .cwd = cwd, .home = cli_home() },
			 a->project ? a->project : cwd, &w->project, e) < 0)
		return -e->code;
	if (realpath(w->project, real) && !(w->project = arena_strdup(arena, real)))
		return err_nomem(e);
	kept_home_path(w->project, w->path);
	return 0;
}

/* The first that could not be is told; those that can be are cleared all the same. */
static int remove_all(struct wanted *w, struct err *e)
{
	struct err one = { 0 };
	size_t before = 0;
	int result = 0;

	if (kept_home_tidy(&before, e) < 0)
		result = -e->code;
	w->left = before;
	for (size_t i = 0; i < w->n; i++) {
		if (kept_home_clear(w->ids[i], &one) == 0) {
			w->cleared++;
			continue;
		}
		w->left++;
		if (result == 0)
			*e = one;
		result = -one.code;
	}
	return result;
}

/* Caches of tools, into the same count. */
static int remove_tools(const struct cache_asked *a, struct wanted *w, int before, struct err *e)
{
	const struct volume_pick pick = { .name = a->tool };
	struct volume_removed done = { 0 };
	struct err one = { 0 };
	int r = volume_remove(VOLUME_CACHES, &pick, &done, &one);

	w->cleared += done.cleared;
	w->left += done.left;
	if (before == 0 && r < 0)
		*e = one;
	return before ? before : r;
}

static void say_cleared(const struct cache_asked *a, const struct wanted *w)
{
	CLEANUP(buf) struct buf b = BUF_INIT((size_t)1 << 16);
	struct json j;

	json_init(&j, &b, true);
	if (a->json) {
		json_object(&j);
		json_ku64(&j, "schema", 1);
		json_ku64(&j, "cleared", w->cleared);
		json_ku64(&j, "left", w->left);
		json_object_end(&j);
	} else if (!w->n && !w->left && w->project) {
		buf_puts(&b, "no HOME is kept for ");
		clean_put(&b, w->project, strlen(w->project));
	} else {
		buf_printf(&b, "%zu cleared", w->cleared);
		if (w->left)
			buf_printf(&b, ", %zu left", w->left);
	}
	(void)printf("%s\n", buf_str(&b));
}

static int clear(const struct cache_asked *a, struct err *e)
{
	struct arena *arena = arena_new((size_t)1 << 20);
	struct wanted w = { .ids = calloc(CLEAR_MAX, SHA256_HEX) };
	int r;

	if (!arena || !w.ids)
		r = err_nomem(e);
	else
		r = cmd_cache_find(a, arena, &w, e);
	if (r == 0 && !a->tools && !a->tool)
		r = kept_home_each(pick, &w, e);
	if (r >= 0) {
		r = remove_all(&w, e);
		if (a->all || a->tools || a->tool)
			r = remove_tools(a, &w, r, e);
		say_cleared(a, &w);
	}
	(void)arena_free(arena);
	free(w.ids);
	return r;
}

static int cache(const struct subcommand *c, int argc, char **argv)
{
	struct cache_asked a = { 0 };
	struct err e = { 0 };

	if (cmd_cache_parse(argc, argv, &a, &e) == 0) {
		if (a.help) {
			help_command(c);
			return 0;
		}
		if ((a.clear ? clear : cmd_cache_list)(&a, &e) == 0)
			return 0;
	}
	error_print(&e);
	return EXIT_BRIG;
}

static const char *cmd_cache_word(size_t i)
{
	static const char *const words[] = { "list", "clear" };

	return i < ARRAY_LEN(words) ? words[i] : NULL;
}

static const char *word_behind(const char *before, size_t i)
{
	static const char *const words[] = { "--gone", "--tools", "--tool", "--all" };

	return str_eq(before, "clear") && i < ARRAY_LEN(words) ? words[i] : NULL;
}

const struct subcommand cmd_cache = {
	.name = "cache",
	.minor = true,
	.usage = "[list | clear [PROJECT | --gone | --tools | --tool NAME | --all]] [--json]",
	.help = "show kept HOMEs, caches of tools and layers of overlay runs, or clear them",
	.about =
		"  clear PROJECT     remove those of that folder (or one, by its id); without it,\n"
		"                    of the current folder; refused while a run uses it\n"
		"  clear --gone      remove those of folders that are gone, or were made anew\n"
		"  clear --tools     remove the caches of --cache; --tool npm: that one alone\n"
		"  clear --all       remove all of both; brig discard RUN throws a layer away\n"
		"  --json            as JSON\n",
	.word = cmd_cache_word,
	.word_behind = word_behind,
	.run = cache,
};
