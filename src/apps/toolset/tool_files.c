/* SPDX-License-Identifier: Apache-2.0 */
/* apps/toolset/tool_files.c - read_file, write_file, edit_file, list_files.
 *
 * Each is one or several operations of brig-files inside: no path is ever resolved on the host, and
 * no link is followed. A call without `sandbox` opens a box for itself, so that nothing of it stays
 * in the workspace when it has ended. */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "apps/toolset/tools_internal.h"
#include "base/bytes/json.h"
#include "base/files/fd.h"
#include "base/text/str.h"
#include "sandbox/explain.h"
#include "sandbox/manager.h"

#define SHOWN_MAX ((size_t)64 << 10) /* of a file, at once */
#define LIST_MAX 1000

/* By the number alone: nothing that was written inside is repeated. */
static const struct {
	int error;
	const char *text, *hint;
} words[] = {
	{ ENOENT, "there is no '%s'", "list_files shows what there is" },
	{ ELOOP, "'%s' leads through a link, and no link is followed", "name the place itself" },
	{ ENOTDIR, "something in '%s' is no folder",
	  "or it is a protected name, which only the user may change" },
	{ EISDIR, "'%s' is a folder", "" },
	{ EEXIST, "'%s' is there already", "" },
	{ EMEDIUMTYPE, "'%s' is neither a folder nor a regular file",
	  "or it is a protected name, which only the user may change" },
	{ EBUSY, "'%s' is in use, or a name that only the user may change", "" },
	{ EACCES, "'%s' may not be touched in the sandbox",
	  "it is a protected name, or the policy does not show it: only the user can change that" },
	{ EPERM, "'%s' may not be touched in the sandbox",
	  "it is a protected name, or the policy does not show it: only the user can change that" },
	{ EROFS, "'%s' is read-only in the sandbox",
	  "the user can allow it: policy workspace_write, or write: [PATH]; no tool can" },
	{ EFBIG, "'%s' is larger than 8 MiB", "look at parts of it with run_command" },
	{ ENOSPC, "there is no room for '%s'", "" },
	{ EDQUOT, "there is no room for '%s'", "" },
	{ ENAMETOOLONG, "a name in '%s' is too long", "" },
	{ ETIMEDOUT, "nothing of '%s' moved for 30 s", "" },
	{ ECANCELED, "the work on '%s' was ended before it was done", "" },
};

/* In the workspace; NULL: it is not. */
static const char *tool_files_relative(const struct tool_call *c)
{
	const char *top = c->box ? sandbox_facts(c->box->sandbox)->workspace_target : NULL;
	size_t n = top ? strlen(top) : 0;

	if (c->path[0] != '/')
		return c->path;
	return n && str_starts(c->path, top) && c->path[n] == '/' ? c->path + n + 1 : NULL;
}

/* A name that programs on the host obey: whatever its cover is made of, it is one denial. */
static bool tool_files_covered(struct tool_call *c, int error)
{
	static const int covers[] = { EROFS, EBUSY, EACCES, EPERM, ENOTDIR, EMEDIUMTYPE };
	const char *path = c->tool->reads ? NULL : tool_files_relative(c);
	CLEANUP(outcome) struct outcome *o = outcome_new();
	size_t i = 0;

	while (i < ARRAY_LEN(covers) && covers[i] != error)
		i++;
	if (!o || !path || i == ARRAY_LEN(covers) || !explain_protects(path))
		return false;
	outcome_covered(o, path);
	buf_printf(&c->result.text, "Error: '%s' is protected in the workspace", c->path);
	result_denied(c, o);
	c->result.failed = true;
	c->result.json.len = 0;
	call_end(c);
	return true;
}

static void tool_files_fail(struct tool_call *c, int error)
{
	struct err e = { 0 };
	size_t i = 0;

	if (tool_files_covered(c, error))
		return;
	while (i < ARRAY_LEN(words) && words[i].error != error)
		i++;
	if (i < ARRAY_LEN(words)) {
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
		(void)err_refuse(&e, ERR_USAGE, error, words[i].hint, words[i].text, c->path);
#pragma GCC diagnostic pop
	} else {
		(void)err_set(&e, ERR_USAGE, EIO, "'%s' failed in the sandbox (error %d)", c->path,
			      error);
	}
	call_fail(c, &e);
}

static int tool_files_prepare(struct tool_call *c, const struct jread *args, const char *otherwise,
			      struct err *e)
{
	const char *path = NULL;

	if (args_text(args, "path", TOOL_PATH_MAX - 1, &path, e) < 0)
		return -e->code;
	if (!path)
		path = otherwise;
	if (args_path(path, e) < 0)
		return -e->code;
	(void)snprintf(c->path, sizeof(c->path), "%s", path);
	return 0;
}

static int tool_files_enter(struct tool_call *c, const struct jread *args, struct err *e)
{
	if (is_far(c))
		return far_ref(c, args, e);
	if (box_of(c->of, args, &c->box, e) < 0)
		return -e->code;
	if (c->box)
		return 0;
	if (box_open(c->of, c->tool->name, &c->box, e) < 0)
		return -e->code;
	c->own_box = true;
	return 0;
}

static int tool_files_begin(struct tool_call *c, enum file_verb verb, file_next_fn *next,
			    struct err *e)
{
	const struct file_order o = { .verb = verb,
				      .mode = FILE_MODE_SAME,
				      .limit = TOOL_FILE_MAX,
				      .path = c->path,
				      .to = "" };

	return file_begin(c, &o, next, e);
}

/* ---- read_file ---- */

static void on_read(struct tool_call *c, int error)
{
	const struct buf *got = &c->file.got;
	CLEANUP(buf) struct buf shown = BUF_INIT(SHOWN_MAX + 8);
	uint64_t total = 0;
	struct json j;
	struct err e = { 0 };
	bool whole;

	if (error) {
		tool_files_fail(c, error);
		return;
	}
	if (!text_is(buf_str(got), got->len)) {
		(void)err_refuse(&e, ERR_USAGE, EILSEQ,
				 "run_command can look at it: file, xxd, ...",
				 "'%.200s' is not UTF-8 text (%zu bytes)", c->path, got->len);
		call_fail(c, &e);
		return;
	}
	whole = text_lines(buf_str(got), got->len, c->first, c->count, SHOWN_MAX, &shown, &total);
	buf_add(&c->result.text, buf_str(&shown), shown.len);
	if (!whole)
		buf_printf(&c->result.text,
			   "\n[truncated] of %llu lines; give first_line and lines",
			   (unsigned long long)total);
	if (!c->result.text.len && total)
		buf_printf(&c->result.text, "(nothing there: it has %llu lines)",
			   (unsigned long long)total);
	else if (!c->result.text.len)
		buf_puts(&c->result.text, "(empty)");
	json_init(&j, &c->result.json, false);
	json_object(&j);
	json_kstr(&j, "path", c->path);
	json_key(&j, "text");
	json_strn(&j, buf_str(&shown), shown.len);
	json_ku64(&j, "total_lines", total);
	json_ku64(&j, "bytes", got->len);
	json_kbool(&j, "truncated", !whole);
	json_object_end(&j);
	call_end(c);
}

int read_file(struct tool_call *c, const struct jread *args, struct err *e)
{

	c->first = 1;
	if (tool_files_prepare(c, args, "", e) < 0 ||
	    args_number(args, "first_line", 1, UINT32_MAX, &c->first, e) < 0 ||
	    args_number(args, "lines", 1, UINT32_MAX, &c->count, e) < 0 ||
	    tool_files_enter(c, args, e) < 0)
		return -e->code;
	return tool_files_begin(c, FILE_READ, on_read, e);
}

/* ---- write_file ---- */

static void on_written(struct tool_call *c, int error)
{
	struct json j;

	if (error) {
		tool_files_fail(c, error);
		return;
	}
	json_init(&j, &c->result.json, false);
	json_object(&j);
	json_kstr(&j, "path", c->path);
	json_ku64(&j, "bytes", c->body.len);
	json_object_end(&j);
	buf_printf(&c->result.text, "Wrote %zu bytes to %s", c->body.len, c->path);
	call_end(c);
}

static void tool_files_put(struct tool_call *c, int error)
{
	struct err e = { 0 };

	(void)error; /* whatever is wrong with the folder is wrong with the file, too */
	if (tool_files_begin(c, FILE_WRITE, on_written, &e) < 0)
		call_fail(c, &e);
}

/* The folders above it are made as well. */
static int put_below(struct tool_call *c, struct err *e)
{
	const char *slash = strrchr(c->path, '/');
	char folder[TOOL_PATH_MAX];
	struct file_order o = {
		.verb = FILE_MKDIR, .flags = FILE_PARENTS, .mode = 0755, .path = folder, .to = ""
	};

	if (!slash || slash == c->path)
		return tool_files_begin(c, FILE_WRITE, on_written, e);
	(void)snprintf(folder, sizeof(folder), "%.*s", (int)(slash - c->path), c->path);
	return file_begin(c, &o, tool_files_put, e);
}

int write_file(struct tool_call *c, const struct jread *args, struct err *e)
{
	const char *text = NULL, *key = args_there(args, "text") ? "text" : "content";

	if (args_there(args, "text") && args_there(args, "content"))
		return err_set(e, ERR_USAGE, EINVAL, "give 'text' alone");
	if (tool_files_prepare(c, args, "", e) < 0 ||
	    args_text(args, key, TOOL_FILE_MAX, &text, e) < 0 || tool_files_enter(c, args, e) < 0)
		return -e->code;
	buf_puts(&c->body, text);
	return put_below(c, e);
}

/* ---- edit_file ---- */

/* What is to be done stands in `body` until the file was read: a letter, then two texts, each with
 * its NUL. */
enum { EDIT_ONE = '1', EDIT_ALL = 'a', EDIT_INSERT = 'i' };

static int edit(struct tool_call *c, struct buf *out, struct err *e)
{
	const struct buf *got = &c->file.got;
	const char *how = c->body.data, *old = how + 1, *new = old + strlen(old) + 1;
	size_t found;

	if (!text_is(buf_str(got), got->len))
		return err_set(e, ERR_USAGE, EILSEQ, "'%.200s' is not UTF-8 text", c->path);
	if (*how == EDIT_INSERT)
		return text_insert(buf_str(got), got->len, c->first, new, out)
			       ? 0
			       : err_set(e, ERR_USAGE, ERANGE, "'%.200s' has fewer than %llu lines",
					 c->path, (unsigned long long)c->first);
	found = text_replace(buf_str(got), got->len, old, new, *how == EDIT_ALL, out);
	if (!found)
		return err_refuse(e, ERR_USAGE, ENOENT,
				  "read_file shows what is there, blanks and all",
				  "'old_text' is not in '%.200s'", c->path);
	if (found > 1 && *how == EDIT_ONE)
		return err_refuse(e, ERR_USAGE, EEXIST,
				  "give more of its surroundings, or all: true",
				  "'old_text' is %zu times in '%.200s'", found, c->path);
	return 0;
}

static void on_edit(struct tool_call *c, int error)
{
	struct buf out = BUF_INIT(TOOL_FILE_MAX);
	struct err e = { 0 };

	if (error) {
		tool_files_fail(c, error);
		return;
	}
	if (edit(c, &out, &e) == 0 && out.failed)
		(void)err_set(&e, ERR_USAGE, EFBIG, "'%.200s' would be larger than 8 MiB", c->path);
	if (e.code) {
		buf_done(&out);
		call_fail(c, &e);
		return;
	}
	buf_done(&c->body);
	c->body = out;
	tool_files_put(c, 0);
}

static int read_edit(struct tool_call *c, const struct jread *args, struct err *e)
{
	const char *how = NULL, *old = NULL, *new = NULL;
	bool all = false;
	uint64_t line = UINT64_MAX;

	if (args_text(args, "command", 16, &how, e) < 0 ||
	    args_text(args, "new_text", TOOL_FILE_MAX, &new, e) < 0 ||
	    args_text(args, "old_text", TOOL_FILE_MAX, &old, e) < 0 ||
	    args_flag(args, "all", &all, e) < 0 ||
	    args_number(args, "line", 0, UINT32_MAX, &line, e) < 0)
		return -e->code;
	if (str_eq(how, "insert") && line != UINT64_MAX)
		buf_putc(&c->body, EDIT_INSERT);
	else if (str_eq(how, "replace") && old && *old)
		buf_putc(&c->body, all ? EDIT_ALL : EDIT_ONE);
	else
		return err_set(e, ERR_USAGE, EINVAL,
			       "'command' is replace, with old_text, or insert, with line");
	c->first = line;
	buf_add(&c->body, old ? old : "", strlen(old ? old : "") + 1);
	buf_add(&c->body, new, strlen(new) + 1);
	return c->body.failed ? err_set(e, ERR_USAGE, E2BIG, "the texts are too long") : 0;
}

int edit_file(struct tool_call *c, const struct jread *args, struct err *e)
{

	if (tool_files_prepare(c, args, "", e) < 0 || read_edit(c, args, e) < 0 ||
	    tool_files_enter(c, args, e) < 0)
		return -e->code;
	return tool_files_begin(c, FILE_READ, on_edit, e);
}

/* ---- list_files ---- */

/* The node of a socket of mode 0 is brig's own: it holds a name that nobody may make. */
static const char *kind_of(uint32_t mode)
{
	if (S_ISSOCK(mode) && !(mode & 07777))
		return "protected";
	return fd_kind_name(mode);
}

static void tool_files_put_entry(struct tool_call *c, struct json *j, const char *name,
				 const char *kind, uint64_t bytes)
{
	json_object(j);
	json_kstr(j, "name", name);
	json_kstr(j, "kind", kind);
	json_ku64(j, "bytes", bytes);
	json_object_end(j);
	json_quote(&c->result.text, name, strlen(name));
	buf_printf(&c->result.text, " %s %llu\n", kind, (unsigned long long)bytes);
}

/* As the daemon lists them; true: there are more. */
static bool put_far_entries(struct tool_call *c, struct json *j, size_t *n)
{
	CLEANUP(jread) struct jread *v = NULL;
	const struct jread *list;
	struct err unused;

	(void)jread_parse(buf_str(&c->file.got), c->file.got.len, &v, &unused);
	list = jread_get(v, "files");
	for (; *n < LIST_MAX && *n < jread_count(list); ++*n) {
		const char *name = jread_str(jread_at(list, *n), "name"),
			   *kind = jread_str(jread_at(list, *n), "type");

		tool_files_put_entry(c, j, name ? name : "", kind ? kind : "other",
				     (uint64_t)jread_int(jread_at(list, *n), "size", 0));
	}
	return *n < jread_count(list) || jread_bool(v, "truncated");
}

static bool put_entries(struct tool_call *c, struct json *j, size_t *n)
{
	struct file_entries x = { 0 };
	const char *at = buf_str(&c->file.got);
	size_t left = c->file.got.len;

	for (; *n < LIST_MAX && file_entries_take(&x, &at, &left) > 0; ++*n)
		tool_files_put_entry(c, j, x.name, kind_of(x.e.mode), x.e.size);
	return left || c->file.last.more;
}

static void on_list(struct tool_call *c, int error)
{
	struct json j;
	size_t n = 0;
	bool more;

	if (error) {
		tool_files_fail(c, error);
		return;
	}
	json_init(&j, &c->result.json, false);
	json_object(&j);
	json_kstr(&j, "path", c->path);
	json_karray(&j, "entries");
	more = is_far(c) ? put_far_entries(c, &j, &n) : put_entries(c, &j, &n);
	json_array_end(&j);
	json_kbool(&j, "truncated", more);
	json_object_end(&j);
	if (!n)
		buf_puts(&c->result.text, "(empty)");
	call_end(c);
}

int list_files(struct tool_call *c, const struct jread *args, struct err *e)
{

	if (tool_files_prepare(c, args, ".", e) < 0 || tool_files_enter(c, args, e) < 0)
		return -e->code;
	return tool_files_begin(c, FILE_LIST, on_list, e);
}
