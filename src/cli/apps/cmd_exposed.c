/* SPDX-License-Identifier: Apache-2.0 */
/* cli/apps/cmd_exposed.c - "exposed": the places that commands in sandboxes could write to; lists
 * them, and takes one back for its owner.
 *
 * What lies in such a place is believed no more (base/files/exposed.h). Only a person can say that
 * it is theirs: there is no call for it in the library, the daemon or the tools of a model, a
 * sandbox has a state of its own, and nothing is taken back that a living command could still write
 * to. */
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/bytes/json.h"
#include "base/files/exposed.h"
#include "base/files/exposed_notes.h"
#include "base/files/fd.h"
#include "base/files/folder.h"
#include "base/files/home.h"
#include "base/files/state.h"
#include "base/files/taken.h"
#include "base/text/buf.h"
#include "base/text/clean.h"
#include "base/text/str.h"
#include "cli/apps/init_cli.h"
#include "cli/cli.h"
#include "model/files/config.h"
#include "model/settings/paths.h"
#include "sandbox/manager.h"
#include "sandbox/recorder.h"

#define TEXT_MAX ((size_t)64 << 20)
#define ASIDE ".brig-quarantine-" /* what could not be moved to the state lies beside */

struct exposed_asked {
	const char *path; /* of forget */
	bool forget, yes, json, help;
};

static int cmd_exposed_parse(int argc, char **argv, struct exposed_asked *a, struct err *e)
{
	for (int i = 1; i < argc; i++) {
		if (str_eq(argv[i], "--json"))
			a->json = true;
		else if (str_eq(argv[i], "--help") || str_eq(argv[i], "-h"))
			a->help = true;
		else if (i == 1 && str_eq(argv[i], "list"))
			continue;
		else if (i == 1 && str_eq(argv[i], "forget"))
			a->forget = true;
		else if (a->forget && str_eq(argv[i], "--yes"))
			a->yes = true;
		else if (a->forget && argv[i][0] != '-' && !a->path)
			a->path = argv[i];
		else
			return command_refuses(&cmd_exposed, argv[i], e);
	}
	if (a->forget && !a->path && !a->help)
		return err_refuse(e, ERR_USAGE, EINVAL, "brig exposed lists them",
				  "exposed forget takes one place");
	return 0;
}

/* ---- the list ---- */

struct exposed_list {
	struct buf text;
	struct json json;
	bool as_json;
	size_t shown, gone;
	const char *only; /* NULL: all */
};

static void when(int64_t t, char out[32])
{
	const time_t at = (time_t)t;
	struct tm tm;

	if (!gmtime_r(&at, &tm) || !strftime(out, 32, "%Y-%m-%dT%H:%M:%SZ", &tm))
		(void)snprintf(out, 32, "-");
}

static void put_json(struct exposed_list *l, const struct exposed_row *r, const char *since)
{
	struct json *j = &l->json;

	json_object(j);
	json_kstr(j, "path", r->path);
	json_karray(j, "as");
	for (const char *c = r->as; *c; c++)
		if (exposed_as_word(*c))
			json_str(j, exposed_as_word(*c));
	json_array_end(j);
	json_kstr(j, "since", since);
	json_kbool(j, "there", r->there);
	json_kbool(j, "same", r->same);
	json_kstr(j, "state", r->state);
	json_object_end(j);
}

static void put_row(struct exposed_list *l, const struct exposed_row *r, const char *since)
{
	bool any = false;

	buf_printf(&l->text, "%-20s  ", since);
	clean_put(&l->text, r->path, strlen(r->path));
	for (const char *c = r->as; *c; c++)
		if (exposed_as_word(*c)) {
			buf_printf(&l->text, "%s%s", any ? ", " : "  (", exposed_as_word(*c));
			any = true;
		}
	if (any)
		buf_putc(&l->text, ')');
	if (!r->same)
		buf_puts(&l->text, "  (another thing by now)");
	if (!r->used) {
		buf_puts(&l->text, "  (noted in ");
		clean_put(&l->text, r->state, strlen(r->state));
		buf_putc(&l->text, ')');
	}
	buf_putc(&l->text, '\n');
}

static int cmd_exposed_row(void *arg, const struct exposed_row *r)
{
	struct exposed_list *l = arg;
	char since[32];

	if (l->only && (!str_eq(l->only, r->path) || !r->used))
		return 0;
	when(r->since, since);
	if (l->as_json)
		put_json(l, r, since);
	else if (r->there || l->only)
		put_row(l, r, since);
	l->shown += r->there || l->as_json;
	l->gone += !r->there;
	return 0;
}

static int cmd_exposed_list(const struct exposed_asked *a, struct err *e)
{
	struct exposed_list l = { .text = BUF_INIT(TEXT_MAX), .as_json = a->json };
	int r;

	json_init(&l.json, &l.text, true);
	if (a->json) {
		json_object(&l.json);
		json_ku64(&l.json, "schema", 1);
		json_karray(&l.json, "exposed");
	}
	r = exposed_each(cmd_exposed_row, &l, e);
	if (a->json) {
		json_array_end(&l.json);
		json_object_end(&l.json);
		buf_putc(&l.text, '\n');
	} else if (l.gone) {
		buf_printf(&l.text, "%zu more that are not there now (--json has them)\n", l.gone);
	}
	if (r == 0)
		(void)fputs(l.text.len ? buf_str(&l.text)
				       : "no command in a sandbox could write anywhere yet\n",
			    stdout);
	buf_done(&l.text);
	return r;
}

/* ---- taking one back ---- */

/* Absolute and without links, as it was noted. A link that a command may have made leads where the
 * command wants. */
static int find_place(const char *word, struct arena *arena, char real[PATH_MAX], struct err *e)
{
	const char *path;
	struct err why = { 0 };
	char cwd[PATH_MAX];

	if (cli_here(cwd, e) < 0 ||
	    path_resolve(arena, &(struct place){ .cwd = cwd, .home = cli_home() }, word, &path, e) <
		    0)
		return -e->code;
	if (!realpath(path, real)) {
		if (errno != ENOENT && errno != ENOTDIR)
			return err_sys(e, "cannot look at '%.200s'", path);
		return snprintf(real, PATH_MAX, "%s", path) < PATH_MAX
			       ? 0
			       : err_set(e, ERR_USAGE, ENAMETOOLONG, "the path is too long");
	}
	if (str_eq(path, real) || !exposed_path(path, NULL, EXPOSED_LINKS, &why))
		return 0;
	(void)err_set(e, ERR_POLICY, ELOOP, "'%.120s' leads elsewhere by a link: %.200s", path,
		      why.what);
	return err_hint(e, "name what it leads to: %.200s", real);
}

/* Kept HOMEs and stores are a guest's by their nature, and brig goes by its state. */
static int check_own(const char *path, struct err *e)
{
	char home[PATH_MAX], own[PATH_MAX];
	const char *listed = home_listed(geteuid(), home, sizeof(home)) == 0 ? home : NULL;

	for (int i = 0; i < STATE_PLACES; i++)
		if (state_place(i, listed, own, sizeof(own)) == 0 && path_under(path, own))
			return err_refuse(e, ERR_POLICY, EPERM,
					  "brig cache clear and brig sandbox delete remove such",
					  "'%.200s' is a folder of brig's own, for what sandboxes "
					  "keep",
					  path);
	return 0;
}

struct taken_here {
	const char *path;
	size_t n;
	char id[64];
};

static int count_taken(void *arg, const struct taken_row *r)
{
	struct taken_here *t = arg;

	if (!r->from || !path_under(r->from, t->path))
		return 0;
	if (!t->n++)
		(void)snprintf(t->id, sizeof(t->id), "%s", r->id);
	return 0;
}

/* Was put aside in the tree itself: the state is on another file system. */
static bool has_aside(const char *path, char name[NAME_MAX + 1])
{
	CLEANUP(fd) int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	struct folder f;

	folder_begin(&f, fd);
	for (const struct fd_entry *one; fd >= 0 && (one = folder_next(&f));)
		if (str_starts(one->name, ASIDE)) {
			(void)snprintf(name, NAME_MAX + 1, "%s", one->name);
			return true;
		}
	return false;
}

/* What was taken from there would come back to a place that is believed. */
static int check_taken(const char *path, struct err *e)
{
	struct taken_here t = { .path = path };
	char name[NAME_MAX + 1];

	if (taken_each(count_taken, &t, e) < 0)
		return -e->code;
	if (t.n)
		return err_refuse(
			e, ERR_POLICY, EBUSY,
			"look at it first: brig quarantine, then brig quarantine clear "
			"or restore",
			"of what runs left in '%.150s' %zu %s in quarantine, '%.60s' first", path,
			t.n, t.n == 1 ? "thing is" : "things are", t.id);
	if (!has_aside(path, name))
		return 0;
	return err_refuse(e, ERR_POLICY, EBUSY, "look at it, then remove it or give it a name",
			  "'%.150s' has '%.100s', which runs left under a protected name", path,
			  name);
}

/* What is not there may have been moved: a list of names alone does not say where to. */
static int check_there(const char *path, struct err *e)
{
	if (access(path, F_OK) == 0 || (errno != ENOENT && errno != ENOTDIR))
		return 0;
	return err_refuse(e, ERR_USAGE, ENOENT,
			  "where it was moved, name it by where it is now; where it was removed, "
			  "its note does no harm",
			  "'%.200s' is not there", path);
}

static int check_noted(const char *path, struct exposed_list *l, struct err *e)
{
	struct err why = { 0 };
	char was[PATH_MAX];

	l->only = path;
	if (exposed_each(cmd_exposed_row, l, e) < 0)
		return -e->code;
	if (!(l->shown + l->gone) && exposed_was(path, was)) {
		l->only = was;
		if (exposed_each(cmd_exposed_row, l, e) < 0)
			return -e->code;
	}
	if (l->shown + l->gone)
		return 0;
	if (!exposed_path(path, NULL, EXPOSED_SHARED, &why))
		return err_refuse(e, ERR_USAGE, ENOENT, "brig exposed lists the places that are",
				  "'%.200s' is not noted: no command in a sandbox could write it",
				  path);
	(void)err_set(e, ERR_USAGE, ENOENT, "'%.150s' itself is not noted: %.200s", path, why.what);
	exposed_hint("brig exposed lists the places that are", &why, e);
	return -e->code;
}

static int agree(const struct exposed_asked *a, const struct exposed_list *l, struct err *e)
{
	static const char means[] =
		"Taken back, it and all that lies in it counts as your own: brig, and git, agents\n"
		"and credential helpers that it starts, believe the settings, programs, logins "
		"and\n"
		"keys there, also those that a command in a sandbox has put there. Look through "
		"it\n"
		"first. Places in it that have a note of their own keep it, and so do those that "
		"it\n"
		"lies in. The next run that may write there notes it again.\n";
	int r;

	if (!a->json)
		(void)printf("%s%s", buf_str(&l->text), means);
	if (a->yes)
		return 0;
	if (a->json || !isatty(STDIN_FILENO))
		return err_refuse(e, ERR_USAGE, ECANCELED,
				  "--yes says so without being asked, when you have looked",
				  "nobody is there to say yes");
	r = init_confirm("Take it back?", false, e);
	if (r > 0)
		return 0;
	return err_refuse(e, ERR_USAGE, ECANCELED, "y takes it back", "nothing was changed");
}

/* Nobody lives who could write there, and all is judged: a lock, which keeps runs from beginning,
 * or a refusal. */
static int lock_place(const char *path, struct err *e)
{
	CLEANUP(fd) int lock = -1;

	sandbox_tidy();
	lock = exposed_lock(e);
	if (lock < 0 || sandbox_judged(path, e) < 0 || check_taken(path, e) < 0)
		return -e->code;
	return TAKE_FD(lock);
}

/* On the record before it counts. `runs`: what began since was not there to be looked at. */
static int forget_locked(const char *path, uint64_t runs, struct err *e)
{
	char cwd[PATH_MAX];
	const struct config_place at = {
		.cwd = cwd, .home = cli_home(), .environ = environ, .alone = true
	};
	CLEANUP(spec) struct spec *s = spec_new(e);
	CLEANUP(fd) int lock = -1;
	struct err unread = { 0 };

	if (!s || cli_here(cwd, e) < 0)
		return -e->code;
	(void)config_load(s, &at, &unread); /* where the record is, if they can be read */
	lock = lock_place(path, e);
	if (lock >= 0 && exposed_runs(lock) != runs)
		return err_refuse(e, ERR_UNAVAILABLE, EBUSY, "look at it again, then once more",
				  "a run began while you were asked; '%.200s' was not taken back",
				  path);
	if (lock < 0 || recorder_policy(s, "forget", path, NULL, e) < 0 ||
	    exposed_forget(path, e) < 0)
		return -e->code;
	return 0;
}

static void say_done(const struct exposed_asked *a, const char *path)
{
	CLEANUP(buf) struct buf b = BUF_INIT((size_t)1 << 16);
	struct err why = { 0 };
	bool still = exposed_path(path, NULL, EXPOSED_SHARED, &why);
	struct json j;

	json_init(&j, &b, true);
	if (a->json) {
		json_object(&j);
		json_ku64(&j, "schema", 1);
		json_kstr(&j, "path", path);
		json_kbool(&j, "forgotten", true);
		json_kstr(&j, "still", still ? why.what : NULL);
		json_object_end(&j);
	} else {
		clean_put(&b, path, strlen(path));
		buf_puts(&b, still ? ": no note of its own any more, but " : ": yours again");
		if (still)
			clean_put(&b, why.what, strlen(why.what));
	}
	(void)printf("%s\n", buf_str(&b));
	if (still && !a->json && why.hint[0])
		message_print("hint", why.hint);
}

static int cmd_exposed_forget(const struct exposed_asked *a, struct err *e)
{
	CLEANUP(arena) struct arena *arena = arena_new((size_t)1 << 20);
	struct exposed_list l = { .text = BUF_INIT(TEXT_MAX) };
	char path[PATH_MAX];
	uint64_t runs = 0;
	int r, lock = -1;

	if (!arena)
		return err_nomem(e);
	if (exposed_check_own(e) < 0 || find_place(a->path, arena, path, e) < 0 ||
	    check_own(path, e) < 0 || check_noted(path, &l, e) < 0 || check_there(path, e) < 0 ||
	    (lock = lock_place(path, e)) < 0)
		r = -e->code;
	else
		r = 0;
	if (r == 0)
		runs = exposed_runs(lock);
	(void)fd_close(lock); /* whoever reads it keeps nobody waiting */
	if (r == 0)
		r = agree(a, &l, e);
	if (r == 0)
		r = forget_locked(path, runs, e);
	buf_done(&l.text);
	if (r == 0)
		say_done(a, path);
	return r;
}

static int exposed(const struct subcommand *c, int argc, char **argv)
{
	struct exposed_asked a = { 0 };
	struct err e = { 0 };

	if (cmd_exposed_parse(argc, argv, &a, &e) == 0) {
		if (a.help) {
			help_command(c);
			return 0;
		}
		if ((a.forget ? cmd_exposed_forget : cmd_exposed_list)(&a, &e) == 0)
			return 0;
	}
	error_print(&e);
	return EXIT_BRIG;
}

static const char *cmd_exposed_word(size_t i)
{
	static const char *const words[] = { "list", "forget" };

	return i < ARRAY_LEN(words) ? words[i] : NULL;
}

const struct subcommand cmd_exposed = {
	.name = "exposed",
	.minor = true,
	.usage = "[list | forget PLACE [--yes]] [--json]",
	.help = "list the places that sandboxes could write to, or take one back as yours",
	.about = "  forget PLACE      what lies there is your own from now on; says what that\n"
		 "                    means, and asks; not while a run or sandbox of yours lives\n"
		 "  --yes             do not ask\n"
		 "  --json            as JSON\n",
	.word = cmd_exposed_word,
	.run = exposed,
};
