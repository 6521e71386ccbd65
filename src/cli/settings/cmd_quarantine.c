/* SPDX-License-Identifier: Apache-2.0 */
/* cli/settings/cmd_quarantine.c - "quarantine": what runs left under protected names; shows it,
 * puts it back or removes it. Nothing of it is executed or followed, and nothing is shown that a
 * terminal obeys.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/bytes/json.h"
#include "base/files/folder.h"
#include "base/files/taken.h"
#include "base/text/buf.h"
#include "base/text/clean.h"
#include "base/text/num.h"
#include "base/text/str.h"
#include "cli/cli.h"

#define TEXT_MAX ((size_t)16 << 20)
#define SHOWN_MAX ((size_t)64 << 10) /* bytes of a file */
#define NAMES_MAX 200                /* of a folder */

enum verb { LIST, SHOW, RESTORE, CLEAR };
static const char *const verbs[] = { "list", "show", "restore", "clear" };

struct quarantine_asked {
	enum verb verb;
	char **ids;
	int count;
	const char *older; /* than this, as written; NULL: not said */
	uint64_t age;      /* the same in milliseconds */
	bool all, json, help;
};

static int cmd_quarantine_parse(int argc, char **argv, struct quarantine_asked *a, struct err *e)
{
	int first = 1;

	for (size_t v = 0; argc > 1 && v < ARRAY_LEN(verbs); v++)
		if (str_eq(argv[1], verbs[v])) {
			a->verb = (enum verb)v;
			first = 2;
		}
	a->ids = argv + argc;
	for (int i = first; i < argc; i++) {
		if (str_eq(argv[i], "--json") && a->verb == LIST)
			a->json = true;
		else if (str_eq(argv[i], "--help") || str_eq(argv[i], "-h"))
			a->help = true;
		else if (str_eq(argv[i], "--all") && a->verb == CLEAR)
			a->all = true;
		else if (str_eq(argv[i], "--older") && a->verb == CLEAR && i + 1 < argc)
			a->older = argv[++i];
		else if (a->verb == LIST || argv[i][0] == '-')
			return command_refuses(&cmd_quarantine, argv[i], e);
		else if (!a->count++)
			a->ids = argv + i;
		else if (a->ids + a->count - 1 != argv + i)
			return command_refuses(&cmd_quarantine, argv[i], e);
	}
	if (a->older && num_duration(a->older, &a->age) < 0)
		return err_refuse(e, ERR_USAGE, EINVAL, "for example 30d, 12h or 2w",
				  "--older does not take '%.60s'", a->older);
	if (a->older && (a->count || a->all))
		return err_refuse(e, ERR_USAGE, EINVAL, "brig quarantine clear --older 30d",
				  "--older goes with neither an id nor --all");
	if (a->help || a->verb == LIST || a->count || a->all || a->older)
		return 0;
	return err_refuse(e, ERR_USAGE, EINVAL, "brig quarantine lists the ids",
			  "quarantine %s takes an id%s", verbs[a->verb],
			  a->verb == CLEAR ? ", --all or --older" : "");
}

/* ---- list ---- */

struct taken_list {
	struct buf text;
	struct json json;
	bool as_json, any;
};

static void when(int64_t t, char out[32])
{
	const time_t at = (time_t)t;
	struct tm tm;

	if (!gmtime_r(&at, &tm) || !strftime(out, 32, "%Y-%m-%dT%H:%M:%SZ", &tm))
		(void)snprintf(out, 32, "-");
}

static void cmd_quarantine_put_text(struct buf *b, const char *text)
{
	clean_put(b, text ? text : "?", strlen(text ? text : "?"));
}

static int cmd_quarantine_row(void *arg, const struct taken_row *r)
{
	struct taken_list *l = arg;
	char at[32];

	when(r->when, at);
	if (l->as_json) {
		json_object(&l->json);
		json_kstr(&l->json, "id", r->id);
		json_kstr(&l->json, "kind", fd_kind_name(r->mode));
		json_kstr(&l->json, "when", at);
		json_kstr(&l->json, "from", r->from);
		json_kstr(&l->json, "why", r->why);
		json_object_end(&l->json);
	} else {
		cmd_quarantine_put_text(&l->text, r->id);
		buf_printf(&l->text, "  %-20s  %-6s  ", at, fd_kind_name(r->mode));
		cmd_quarantine_put_text(&l->text, r->from);
		buf_puts(&l->text, "  (");
		cmd_quarantine_put_text(&l->text, r->why);
		buf_puts(&l->text, ")\n");
	}
	l->any = true;
	return 0;
}

static int cmd_quarantine_list(const struct quarantine_asked *a, struct err *e)
{
	struct taken_list l = { .text = BUF_INIT(TEXT_MAX), .as_json = a->json };
	int r;

	json_init(&l.json, &l.text, true);
	if (a->json) {
		json_object(&l.json);
		json_ku64(&l.json, "schema", 1);
		json_karray(&l.json, "quarantine");
	}
	r = taken_each(cmd_quarantine_row, &l, e);
	if (a->json) {
		json_array_end(&l.json);
		json_object_end(&l.json);
		buf_putc(&l.text, '\n');
	}
	if (r == 0)
		(void)fputs(l.any || a->json ? buf_str(&l.text) : "nothing is in quarantine\n",
			    stdout);
	buf_done(&l.text);
	return r;
}

/* ---- show ---- */

static void show_file(const struct taken_row *r, struct buf *b)
{
	CLEANUP(fd)
	int fd = openat(r->folder, r->name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	CLEANUP(mem) char *text = calloc(1, SHOWN_MAX + 1);
	ssize_t n = fd >= 0 && text ? read(fd, text, SHOWN_MAX) : -1;

	for (ssize_t at = 0; at < n; at++) {
		size_t len = strcspn(text + at, "\t\n");

		clean_put(b, text + at, len);
		at += (ssize_t)len;
		if (at < n)
			buf_putc(b, text[at] ? text[at] : '?');
	}
	if (n == (ssize_t)SHOWN_MAX)
		buf_puts(b, "...\n");
}

/* Closed, but for as long as it is looked at. */
static void show_folder(const struct taken_row *r, struct buf *b)
{
	CLEANUP(fd) int fd = -1;
	const struct fd_entry *d;
	struct folder f;
	int n = 0;
	bool open = fchmodat(r->folder, r->name, 0500, 0) == 0;

	fd = openat(r->folder, r->name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	folder_begin(&f, fd);
	while (fd >= 0 && n++ < NAMES_MAX && (d = folder_next(&f))) {
		clean_put(b, d->name, strlen(d->name));
		buf_putc(b, '\n');
	}
	if (n > NAMES_MAX)
		buf_puts(b, "...\n");
	if (open && fd >= 0)
		(void)fchmod(fd, 0);
}

static void show_link(const struct taken_row *r, struct buf *b)
{
	char to[PATH_MAX];
	ssize_t n = readlinkat(r->folder, r->name, to, sizeof(to));

	buf_puts(b, "-> ");
	clean_put(b, to, n > 0 ? (size_t)n : 0);
	buf_putc(b, '\n');
}

struct taken_shown {
	const char *id;
	bool found;
};

static int show_one(void *arg, const struct taken_row *r)
{
	struct taken_list l = { .text = BUF_INIT(TEXT_MAX) };
	struct taken_shown *s = arg;

	if (!str_eq(r->id, s->id))
		return 0;
	s->found = true;
	(void)cmd_quarantine_row(&l, r);
	if (S_ISREG(r->mode))
		show_file(r, &l.text);
	else if (S_ISDIR(r->mode))
		show_folder(r, &l.text);
	else if (S_ISLNK(r->mode))
		show_link(r, &l.text);
	(void)fputs(buf_str(&l.text), stdout);
	buf_done(&l.text);
	return 0;
}

static int cmd_quarantine_show(const char *id, struct err *e)
{
	struct taken_shown s = { .id = id };

	if (taken_each(show_one, &s, e) < 0)
		return -e->code;
	return s.found ? 0
		       : err_refuse(e, ERR_USAGE, ENOENT, "brig quarantine lists what there is",
				    "there is no '%.80s' in quarantine", id);
}

/* ---- the command ---- */

struct every {
	struct err *e;
	int64_t until; /* nothing younger; seconds */
	size_t n;
};

static int clear_one(void *arg, const struct taken_row *r)
{
	struct every *a = arg;

	if (r->when > a->until)
		return 0;
	if (taken_clear(r->id, a->e) < 0)
		return -a->e->code;
	a->n++;
	return 0;
}

static int each_id(const struct quarantine_asked *a, struct err *e)
{
	struct every all = { .e = e,
			     .until = a->older ? (int64_t)time(NULL) - (int64_t)(a->age / 1000)
					       : INT64_MAX };
	int r = a->all || a->older ? taken_each(clear_one, &all, e) : 0;

	for (int i = 0; r == 0 && i < a->count; i++) {
		r = a->verb == SHOW      ? cmd_quarantine_show(a->ids[i], e)
		    : a->verb == RESTORE ? taken_restore(a->ids[i], e)
					 : taken_clear(a->ids[i], e);
		all.n += r == 0;
	}
	if (r == 0 && a->verb != SHOW)
		(void)printf("%zu %s\n", all.n, a->verb == RESTORE ? "put back" : "removed");
	return r;
}

static int quarantine(const struct subcommand *c, int argc, char **argv)
{
	struct quarantine_asked a = { 0 };
	struct err e = { 0 };

	if (cmd_quarantine_parse(argc, argv, &a, &e) == 0) {
		if (a.help) {
			help_command(c);
			return 0;
		}
		if ((a.verb == LIST ? cmd_quarantine_list : each_id)(&a, &e) == 0)
			return 0;
	}
	error_print(&e);
	return EXIT_BRIG;
}

static const char *cmd_quarantine_word(size_t i)
{
	return i < ARRAY_LEN(verbs) ? verbs[i] : NULL;
}

const struct subcommand cmd_quarantine = {
	.name = "quarantine",
	.minor = true,
	.usage = "[list [--json] | show ID... | restore ID... | clear (ID... | --all | --older "
		 "AGE)]",
	.help = "show, put back or remove what runs left under protected names",
	.about =
		"  show ID           what it is; of a file its text, of a folder its names\n"
		"  restore ID        put it back where it was, where nothing is now: from then\n"
		"                    on it is yours, and programs on the host obey it\n"
		"  clear ID          remove it for good; with --all everything, with --older what\n"
		"                    has been there for longer than AGE: 30d, 12h\n"
		"  --json            the list as JSON\n",
	.word = cmd_quarantine_word,
	.run = quarantine,
};
