/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/settings/config_allow.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "base/bytes/json.h"
#include "base/bytes/sha256.h"
#include "base/files/draft.h"
#include "base/files/fd.h"
#include "base/text/clean.h"
#include "base/text/str.h"
#include "cli/cli.h"
#include "model/files/allow_edit.h"
#include "model/files/config.h"
#include "sandbox/recorder.h"

#define TEXT_MAX ((size_t)4 << 20)

/* The user's file, as it is and as it would be. */
struct own_file {
	const char *path;
	int folder; /* -1: it is not there yet */
	bool there;
	mode_t mode;
	struct buf before, after;
	struct allow_edit edit;
};

static void own_done(struct own_file *f)
{
	(void)fd_close(f->folder);
	buf_done(&f->before);
	buf_done(&f->after);
}

/* A link is refused: what would be replaced is the link. */
static int read_own(struct own_file *f, struct err *e)
{
	CLEANUP(fd) int fd = open(f->path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	CLEANUP(mem) char *real = NULL;
	struct stat st;

	if (fd < 0 && (errno == ENOENT || errno == ENOTDIR))
		return 0;
	if (fd < 0 && errno == ELOOP) {
		real = realpath(f->path, NULL);
		(void)err_set(e, ERR_POLICY, ELOOP, "'%.200s' is a symbolic link", f->path);
		return err_hint(e, "add the rule to '%.100s' by hand", real ? real : "its target");
	}
	if (fd < 0)
		return err_sys(e, "cannot open '%.200s'", f->path);
	if (config_slurp_fd(fd, f->path, &f->before, &st, e) < 0)
		return -e->code;
	if (!S_ISREG(st.st_mode) || st.st_uid != geteuid())
		return err_set(e, ERR_POLICY, EPERM, "'%.200s' is not a file of yours", f->path);
	f->there = true;
	f->mode = st.st_mode & 0777;
	return 0;
}

/* A list of the user's stands in place of the system's. */
static int keep_systems(const struct own_file *f, const struct config_place *at, struct err *e)
{
	CLEANUP(spec) struct spec *s = spec_new(e);
	struct config_place system = *at;
	struct err unread = { 0 };

	if (!s)
		return -e->code;
	system.user_file = "/nonexistent/brig";
	(void)config_load(s, &system, &unread);
	if (f->edit.listed || !s->egress.allow.n)
		return 0;
	return err_refuse(e, ERR_CONFIG, EEXIST, "copy the system's rules into your own file first",
			  "a list in '%.200s' would stand in place of the system's", f->path);
}

/* What a run would make of it. */
static int check_after(const struct own_file *f, const struct config_place *at, struct err *e)
{
	CLEANUP(spec) struct spec *s = spec_new(e);
	const char *slash = strrchr(f->path, '/');
	struct source src = { .name = f->path,
			      .home = at->home,
			      .cwd = at->cwd,
			      .origin = ORIGIN_USER,
			      .trusted = true };
	enum dialect was;

	if (!s)
		return -e->code;
	src.folder = arena_strndup(s->arena, f->path, (size_t)(slash - f->path));
	if (!src.folder)
		return err_nomem(e);
	return config_read_text(s, buf_str(&f->after), f->after.len, DIALECT_BRIG, &src, &was, e);
}

static int config_allow_look(struct own_file *f, const struct config_place *at, const char *rule,
			     struct err *e)
{
	if (read_own(f, e) < 0 ||
	    allow_edit(f->path, buf_str(&f->before), f->before.len, rule, &f->after, &f->edit, e) <
		    0 ||
	    keep_systems(f, at, e) < 0)
		return -e->code;
	return check_after(f, at, e);
}

/* ---- changed ---- */

static int config_allow_make_folder(struct own_file *f, struct err *e)
{
	char path[PATH_MAX], *slash;

	(void)snprintf(path, sizeof(path), "%s", f->path);
	for (char *p = path + 1; (slash = strchr(p, '/')); p = slash + 1) {
		*slash = '\0';
		if (mkdir(path, 0700) < 0 && errno != EEXIST)
			return err_sys(e, "cannot make '%.200s'", path);
		*slash = '/';
	}
	*strrchr(path, '/') = '\0';
	f->folder = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return f->folder < 0 ? err_sys(e, "cannot open '%.200s'", path) : 0;
}

/* One change at a time: two would leave the later one alone. What was looked at before may have
 * changed since. */
static int look_locked(struct own_file *f, const struct config_place *at, const char *rule,
		       struct err *e)
{
	if (config_allow_make_folder(f, e) < 0)
		return -e->code;
	if (flock(f->folder, LOCK_EX) < 0)
		return err_sys(e, "cannot lock the folder of '%.200s'", f->path);
	f->before.len = f->after.len = 0;
	f->there = false;
	return config_allow_look(f, at, rule, e);
}

/* On the record before it counts. */
static int config_allow_change(struct own_file *f, const struct config_place *at, const char *rule,
			       struct err *e)
{
	CLEANUP(spec) struct spec *s = spec_new(e);
	char hex[SHA256_HEX];
	int r;

	if (!s || config_load(s, at, e) < 0)
		return -e->code;
	sha256_of(buf_str(&f->after), f->after.len, hex);
	if (recorder_rule(s, "egress.allow", rule, f->path, hex, e) < 0)
		return -e->code;
	r = draft_write(f->folder, strrchr(f->path, '/') + 1, &f->after, f->there ? f->mode : 0600,
			true);
	return r < 0 ? err_errno(e, r, "cannot write '%.200s'", f->path) : 0;
}

/* ---- said ---- */

static void put_lines(struct buf *command, struct buf *option, const char *rule)
{
	buf_puts(command, "brig config allow ");
	buf_put_word(command, rule);
	buf_puts(option, "brig run --network proxy --allow ");
	buf_put_word(option, rule);
	buf_puts(option, " -- COMMAND");
}

static int config_allow_say(const struct own_file *f, const struct config_allow *a, bool changed,
			    struct err *e)
{
	CLEANUP(buf) struct buf diff = BUF_INIT(TEXT_MAX), command = BUF_INIT(4096);
	CLEANUP(buf) struct buf option = BUF_INIT(4096), out = BUF_INIT(TEXT_MAX);
	struct json j;

	put_lines(&command, &option, a->rule);
	if (allow_edit_diff(f->path, buf_str(&f->after), f->after.len, &f->edit,
			    a->diff ? a->diff : &diff, e) < 0)
		return -e->code;
	if (a->diff && f->edit.there)
		buf_printf(a->diff, "%s: it has this rule already\n", f->path);
	if (a->diff)
		return 0;
	if (!a->json) {
		(void)printf("%s", buf_str(&diff));
		(void)printf("%s: %s\n", f->path,
			     f->edit.there ? "it has this rule already"
			     : changed     ? "changed"
					   : "not changed");
		return 0;
	}
	json_init(&j, &out, false);
	json_object(&j);
	json_kstr(&j, "rule", a->rule);
	json_kstr(&j, "file", f->path);
	json_kstr(&j, "diff", buf_str(&diff));
	json_kstr(&j, "command", buf_str(&command));
	json_kstr(&j, "run_option", buf_str(&option));
	json_kbool(&j, "changed", changed);
	json_object_end(&j);
	(void)printf("%s\n", buf_str(&out));
	return 0;
}

int config_allow(const struct config_allow *a, struct err *e)
{
	char cwd[PATH_MAX];
	const struct config_place at = {
		.cwd = cwd, .home = cli_home(), .environ = environ, .alone = true
	};
	CLEANUP(spec) struct spec *s = spec_new(e);
	struct own_file f = { .folder = -1,
			      .before = BUF_INIT(CONFIG_FILE_MAX),
			      .after = BUF_INIT(CONFIG_FILE_MAX + 4096) };
	bool changes;
	int r;

	if (!s || cli_here(cwd, e) < 0)
		return -e->code;
	f.path = config_user_file(s, &at);
	if (!f.path)
		return err_refuse(e, ERR_CONFIG, ENOENT, "set HOME",
				  "there is no home folder for your settings");
	r = config_allow_look(&f, &at, a->rule, e);
	changes = !a->dry_run && !f.edit.there;
	if (r == 0 && changes) {
		r = look_locked(&f, &at, a->rule, e);
		changes = !f.edit.there;
	}
	if (r == 0 && changes)
		r = config_allow_change(&f, &at, a->rule, e);
	if (r == 0)
		r = config_allow_say(&f, a, changes, e);
	own_done(&f);
	return r;
}
