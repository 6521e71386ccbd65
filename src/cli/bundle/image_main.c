/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/bundle/image_main.h"

#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/bytes/json.h"
#include "base/files/exposed.h"
#include "base/text/buf.h"
#include "base/text/clean.h"
#include "base/text/str.h"
#include "cli/bundle/bundle_show.h"
#include "cli/cli.h"
#include "image/store/import.h"

#define OUT_MAX ((size_t)8 << 20)
#define ID_SHOWN 12

struct image_words {
	const char *rest, *name;
	bool json, all, progress;
	struct json *j; /* of a list */
	struct buf *out;
	unsigned count, wrong;
};

/* ---- what is shown ---- */

static void put_bytes(struct buf *b, uint64_t bytes)
{
	static const char units[] = "KMGT";
	uint64_t tenths = bytes * 10 / 1024;
	char text[40];
	size_t u = 0;

	for (; tenths >= 10240 && units[u + 1]; u++)
		tenths /= 1024;
	(void)snprintf(text, sizeof(text), "%llu.%llu%c", (unsigned long long)tenths / 10,
		       (unsigned long long)tenths % 10, units[u]);
	buf_printf(b, "%9s", text);
}

static void put_time(uint64_t t, char out[32])
{
	time_t at = (time_t)t;
	struct tm tm;

	if (!gmtime_r(&at, &tm) || !strftime(out, 32, "%Y-%m-%dT%H:%M:%SZ", &tm))
		(void)snprintf(out, 32, "-");
}

static void json_image(struct json *j, const char *name, const struct image_record *r)
{
	char when[32];

	put_time(r->imported, when);
	json_kstr(j, "name", *name ? image_short(name) : NULL);
	json_kstr(j, "id", r->root.id);
	json_kstr(j, "digest", *r->manifest ? r->manifest : NULL);
	json_kstr(j, "platform", r->architecture);
	json_ku64(j, "layers", r->root.layer_count);
	json_ku64(j, "bytes", r->bytes);
	json_kstr(j, "imported", when);
}

static int print_buf(const struct buf *b, struct err *e)
{
	if (b->failed)
		return err_nomem(e);
	return fwrite(buf_str(b), 1, b->len, stdout) == b->len ? 0 : err_sys(e, "cannot print");
}

/* ---- import ---- */

static void import_progress(void *arg, size_t layer, size_t of, uint64_t bytes)
{
	const struct image_words *w = arg;

	if (!w->progress)
		return;
	if (bytes == UINT64_MAX)
		(void)fprintf(stderr, "\r\033[Klayer %zu of %zu", layer, of);
	else
		(void)fprintf(stderr, "\r\033[Klayer %zu of %zu, %llu KiB", layer, of,
			      (unsigned long long)(bytes >> 10));
}

static void import_clear(const struct image_words *w)
{
	if (w->progress)
		(void)fputs("\r\033[K", stderr);
}

static int import_added(void *arg, const char *name, const struct image_record *r, size_t left_out)
{
	struct image_words *w = arg;
	char text[200];

	import_clear(w);
	w->count++;
	if (left_out) {
		(void)snprintf(text, sizeof(text),
			       "%zu device%s or pipe%s of the image %s left out", left_out,
			       left_out == 1 ? "" : "s", left_out == 1 ? "" : "s",
			       left_out == 1 ? "was" : "were");
		message_print("brig: note", text);
	}
	if (r->dropped) {
		(void)snprintf(
			text, sizeof(text),
			"%llu program%s lost set-id bits or capabilities: su, sudo and their "
			"like do not work in it",
			(unsigned long long)r->dropped, r->dropped == 1 ? "" : "s");
		message_print("brig: note", text);
	}
	if (r->root.user[0] && !r->root.has_user && !str_eq(r->root.user, "root") &&
	    !str_eq(r->root.user, "0")) {
		(void)snprintf(text, sizeof(text),
			       "its user '%.60s' is root, or not in its /etc/passwd", r->root.user);
		message_print("brig: note", text);
	}
	if (w->json) {
		json_object(w->j);
		json_image(w->j, name, r);
		json_object_end(w->j);
	} else {
		clean_put(w->out, *name ? image_short(name) : r->root.id,
			  strlen(*name ? image_short(name) : r->root.id));
		buf_putc(w->out, '\n');
	}
	return 0;
}

static int do_import(struct image_words *w, struct err *e)
{
	const struct import_want want = {
		.name = w->name, .progress = import_progress, .added = import_added, .arg = w
	};
	int r = image_import(w->rest, &want, e);

	import_clear(w);
	return r;
}

/* ---- list, inspect ---- */

static int list_row(void *arg, const struct image_row *row)
{
	struct image_words *w = arg;
	const char *name = row->name[0] ? image_short(row->name) : "-";
	char when[32];

	w->count++;
	if (w->json) {
		json_object(w->j);
		json_image(w->j, row->name, row->record);
		json_kbool(w->j, "in_use", row->used);
		json_object_end(w->j);
		return 0;
	}
	if (w->count == 1)
		buf_puts(w->out, "ID                SIZE  IMPORTED              NAME\n");
	put_time(row->record->imported, when);
	buf_printf(w->out, "%.*s ", ID_SHOWN, row->record->root.id + strlen("sha256:"));
	put_bytes(w->out, row->record->bytes);
	buf_printf(w->out, "  %-20s  ", when);
	clean_put(w->out, name, strlen(name));
	buf_puts(w->out, row->used ? "  (in use)\n" : "\n");
	return 0;
}

static int do_list(struct image_words *w, struct err *e)
{
	return image_list(list_row, w, e);
}

static void inspect_words(const char *what, const char *const *v)
{
	CLEANUP(buf) struct buf b = BUF_INIT((size_t)64 << 10);

	for (; *v; v++) {
		if (b.len)
			buf_putc(&b, ' ');
		buf_put_word(&b, *v);
	}
	show_line(what, buf_str(&b));
}

static void inspect_text(const struct image_record *r)
{
	char user[64] = "";

	show_line("id", r->root.id);
	show_line("digest", r->manifest);
	show_line("platform", r->architecture);
	show_number("layers", r->root.layer_count);
	show_number("bytes", r->bytes);
	inspect_words("entry point", r->root.entrypoint);
	inspect_words("command", r->root.cmd);
	inspect_words("variables", r->root.env);
	show_line("folder", r->root.workdir);
	if (r->root.has_user)
		(void)snprintf(user, sizeof(user), " (%u:%u)", r->root.uid, r->root.gid);
	if (r->root.user[0])
		(void)printf("%-12s %.200s%s\n", "user", r->root.user, user);
	inspect_words("volumes", r->root.volumes);
	inspect_words("ports", r->ports);
}

static void inspect_json(struct json *j, const struct image_record *r)
{
	json_object(j);
	json_image(j, "", r);
	json_kstrs(j, "entrypoint", r->root.entrypoint);
	json_kstrs(j, "cmd", r->root.cmd);
	json_kstrs(j, "env", r->root.env);
	json_kstr(j, "workdir", r->root.workdir);
	json_kstr(j, "user", r->root.user[0] ? r->root.user : NULL);
	if (r->root.has_user) {
		json_ku64(j, "uid", r->root.uid);
		json_ku64(j, "gid", r->root.gid);
	}
	json_kstrs(j, "volumes", r->root.volumes);
	json_kstrs(j, "ports", r->ports);
	json_kstrs(j, "diff_ids", r->diffs);
	json_object_end(j);
}

static int do_inspect(struct image_words *w, struct err *e)
{
	CLEANUP(arena) struct arena *a = arena_new(IMAGE_ARENA_MAX);
	struct image_held h = IMAGE_HELD_NONE;

	if (!a)
		return err_nomem(e);
	if (image_hold(w->rest, a, &h, e) < 0)
		return -e->code;
	if (w->json)
		inspect_json(w->j, &h.record);
	else
		inspect_text(&h.record);
	image_let_go(&h);
	return 0;
}

/* ---- what goes, and what is looked at ---- */

static void tell_freed(struct image_words *w, unsigned images, uint64_t freed)
{
	if (w->json) {
		json_object(w->j);
		json_ku64(w->j, "images", images);
		json_ku64(w->j, "freed", freed);
		json_object_end(w->j);
		return;
	}
	if (images)
		buf_printf(w->out, "%u image%s, ", images, images == 1 ? "" : "s");
	buf_printf(w->out, "%llu MiB freed\n", (unsigned long long)(freed >> 20));
}

static int do_rm(struct image_words *w, struct err *e)
{
	uint64_t freed = 0;

	if (image_remove(w->rest, &freed, e) < 0)
		return -e->code;
	tell_freed(w, 0, freed);
	return 0;
}

static int do_prune(struct image_words *w, struct err *e)
{
	uint64_t freed;
	unsigned images;

	if (image_prune(w->all, &freed, &images, e) < 0)
		return -e->code;
	tell_freed(w, images, freed);
	return 0;
}

static int verify_row(void *arg, const char *name, const struct image_record *r,
		      const struct err *wrong)
{
	struct image_words *w = arg;
	const char *called = *name ? image_short(name) : r->root.id;

	w->count++;
	w->wrong += wrong->code != 0;
	if (w->json) {
		json_object(w->j);
		json_kstr(w->j, "name", called);
		json_kbool(w->j, "whole", !wrong->code);
		json_kstr(w->j, "wrong", wrong->code ? wrong->what : NULL);
		json_object_end(w->j);
		return 0;
	}
	clean_put(w->out, called, strlen(called));
	buf_puts(w->out, wrong->code ? ": " : ": whole");
	clean_put(w->out, wrong->what, wrong->code ? strlen(wrong->what) : 0);
	buf_putc(w->out, '\n');
	return 0;
}

static int do_verify(struct image_words *w, struct err *e)
{
	return image_verify(verify_row, w, e);
}

/* ---- words ---- */

static const struct verb {
	const char *name, *usage;
	int (*run)(struct image_words *w, struct err *e);
	bool takes, named, all, list;
} verbs[] = {
	{ "import", "FILE|FOLDER [--name NAME] [--json]", do_import, true, true, false, true },
	{ "list", "[--json]", do_list, false, false, false, true },
	{ "inspect", "REF [--json]", do_inspect, true, false, false, false },
	{ "rm", "REF [--json]", do_rm, true, false, false, false },
	{ "prune", "[--all] [--json]", do_prune, false, false, true, false },
	{ "verify", "[--json]", do_verify, false, false, false, true },
};

static int image_usage(const struct verb *v, struct err *e)
{
	(void)err_set(e, ERR_USAGE, EINVAL, "image %s is missing something, or has too much",
		      v->name);
	return err_hint(e, "usage: brig image %s %s", v->name, v->usage);
}

static int image_parse(const struct verb *v, int argc, char **argv, struct image_words *w,
		       struct err *e)
{
	for (int i = 2; i < argc; i++) {
		if (str_eq(argv[i], "--json"))
			w->json = true;
		else if (v->all && str_eq(argv[i], "--all"))
			w->all = true;
		else if (v->named && str_eq(argv[i], "--name") && i + 1 < argc)
			w->name = argv[++i];
		else if (v->named && str_starts(argv[i], "--name="))
			w->name = argv[i] + strlen("--name=");
		else if (argv[i][0] == '-' || w->rest || !v->takes)
			return image_usage(v, e);
		else
			w->rest = argv[i];
	}
	return v->takes && !w->rest ? image_usage(v, e) : 0;
}

static int image_run(const struct verb *v, struct image_words *w, struct err *e)
{
	int r;

	w->progress = isatty(STDERR_FILENO) && !w->json;
	if (w->json && v->list)
		json_array(w->j);
	r = v->run(w, e);
	if (w->json && v->list)
		json_array_end(w->j);
	if (r < 0)
		return r;
	if (w->json)
		buf_putc(w->out, '\n');
	if (print_buf(w->out, e) < 0)
		return -e->code;
	return w->wrong
		       ? err_refuse(e, ERR_POLICY, EBADMSG,
				    "brig image rm takes one away, brig image import adds it again",
				    "%u of %u images %s damaged", w->wrong, w->count,
				    w->wrong == 1 ? "is" : "are")
		       : 0;
}

static int image_find(int argc, char **argv, struct err *e)
{
	CLEANUP(buf) struct buf out = BUF_INIT(OUT_MAX);
	struct json j;
	struct image_words w = { .out = &out, .j = &j };

	json_init(&j, &out, true);
	for (size_t i = 0; argc > 1 && i < ARRAY_LEN(verbs); i++)
		if (str_eq(argv[1], verbs[i].name))
			return image_parse(&verbs[i], argc, argv, &w, e) < 0
				       ? -e->code
				       : image_run(&verbs[i], &w, e);
	return err_refuse(e, ERR_USAGE, EINVAL, "brig image --help", "image needs a command");
}

int image_main(int argc, char **argv)
{
	struct err e = { 0 };

	if (exposed_check_own(&e) == 0 && image_find(argc, argv, &e) == 0 && fflush(stdout) == 0)
		return 0;
	if (!e.code)
		(void)err_sys(&e, "cannot print");
	error_print(&e);
	return EXIT_BRIG;
}
