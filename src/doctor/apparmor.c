/* SPDX-License-Identifier: Apache-2.0 */
/* doctor/apparmor.c - the one thing doctor can mend: a profile for brig's own path.
 *
 * Ubuntu takes the capabilities away from an unprivileged program that makes a user namespace,
 * unless a profile grants it `userns`. A profile is bound to a path, so whoever can write to that
 * path inherits the grant: it is given only to a file that root alone can replace. */
#include "doctor/doctor.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/files/fd.h"
#include "base/text/str.h"
#include "proc/host_program.h"
#include "proc/spawn.h"

#define FOLDER "etc/apparmor.d"
#define NAME "brig"
#define FRESH ".brig.new" /* the parser passes over names with a dot in front */
#define PROFILE_MAX 8192
#define MARK "# As brig doctor --fix writes it; changes belong into local/brig.\n"

static const char *const parsers[] = { "/usr/sbin/apparmor_parser", "/sbin/apparmor_parser" };

enum apparmor apparmor_state(const char *root)
{
	CLEANUP(fd) int dir = open(root, O_PATH | O_DIRECTORY | O_CLOEXEC);
	char text[16];

	if (fd_read_file(dir, "sys/module/apparmor/parameters/enabled", text, sizeof(text)) < 1 ||
	    text[0] != 'Y')
		return APPARMOR_OFF;
	if (fd_read_file(dir, "proc/sys/kernel/apparmor_restrict_unprivileged_userns", text,
			 sizeof(text)) < 1)
		return APPARMOR_UNAWARE;
	return text[0] == '0' ? APPARMOR_LENIENT : APPARMOR_RESTRICTS;
}

/* Absolute, no empty, "." or ".." part, and no character that is a pattern, a variable, an escape
 * or a quote in a profile. */
static bool plain_path(const char *path)
{
	size_t n;

	if (path[0] != '/' || strpbrk(path, "*?[]{}^\"\\@") || str_has_control(path))
		return false;
	for (const char *at = path; *at; at += n) {
		n = strcspn(++at, "/");
		if (n == 0 || (n == 1 && at[0] == '.') || (n == 2 && memcmp(at, "..", 2) == 0))
			return false;
	}
	return true;
}

int apparmor_profile(const char *path, struct buf *out)
{
	static const char bare[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
				   "/._-+";
	const char *quote = path[strspn(path, bare)] ? "\"" : "";

	if (!plain_path(path))
		return -EINVAL;
	buf_puts(out, MARK);
	buf_puts(out, "abi <abi/4.0>,\ninclude <tunables/global>\n\n");
	buf_printf(out, "profile " NAME " %s%s%s flags=(unconfined) {\n", quote, path, quote);
	buf_puts(out, "  userns,\n\n  include if exists <local/" NAME ">\n}\n");
	return out->failed ? -ENOMEM : 0;
}

/* May we replace what is there? Nothing, or a file that begins with our mark. */
static int check_old(int dir, struct err *e)
{
	CLEANUP(fd) int fd = openat(dir, NAME, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	char head[sizeof(MARK)] = "";

	if (fd < 0 && errno == ENOENT)
		return 0;
	if (fd >= 0 && read(fd, head, sizeof(head) - 1) == (ssize_t)sizeof(head) - 1 &&
	    str_eq(head, MARK))
		return 0;
	return err_refuse(e, ERR_POLICY, EEXIST,
			  "look at it, move it away, then: sudo brig doctor --fix",
			  "'/" FOLDER "/" NAME "' was not written by brig");
}

static int write_fresh(int dir, const char *text)
{
	CLEANUP(fd) int fd = -1;
	int r;

	(void)unlinkat(dir, FRESH, 0); /* of an earlier try that was cut short */
	fd = openat(dir, FRESH, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
	if (fd < 0)
		return -errno;
	r = fd_write_all(fd, text, strlen(text));
	if (r == 0 && (fchmod(fd, 0644) < 0 || fsync(fd) < 0 ||
		       renameat(dir, FRESH, dir, NAME) < 0 || fsync(dir) < 0))
		r = -errno;
	if (r < 0)
		(void)unlinkat(dir, FRESH, 0);
	return r;
}

static int apparmor_open_folder(const char *root, struct err *e)
{
	CLEANUP(fd) int top = open(root, O_PATH | O_DIRECTORY | O_CLOEXEC);
	int dir;

	if (top < 0)
		return err_sys(e, "cannot open '%s'", root);
	dir = fd_open_nolinks(top, FOLDER, O_RDONLY | O_DIRECTORY, FD_BENEATH);
	if (dir >= 0)
		return dir;
	errno = -dir;
	(void)err_sys(e, "cannot open '/" FOLDER "'");
	return e->code == ENOENT ? err_hint(e, "sudo apt install apparmor") : -e->code;
}

int apparmor_write(const char *root, const char *text, struct err *e)
{
	CLEANUP(fd) int dir = apparmor_open_folder(root, e);
	int r;

	if (dir < 0 || check_old(dir, e) < 0)
		return -e->code;
	r = write_fresh(dir, text);
	return r < 0 ? err_errno(e, r, "cannot write '/" FOLDER "/" NAME "'") : 0;
}

static void remove_profile(const char *root)
{
	struct err ignored = { 0 };
	CLEANUP(fd) int dir = apparmor_open_folder(root, &ignored);

	if (dir >= 0)
		(void)unlinkat(dir, NAME, 0);
}

/* What the parser has to say goes to stderr: stdout may be carrying JSON. */
static int apparmor_load(const char *root, const char *parser, struct err *e)
{
	static const char *const envp[] = { "PATH=/usr/sbin:/usr/bin:/sbin:/bin", NULL };
	char path[PATH_MAX];
	const char *const argv[] = { parser, "-r", path, NULL };
	const struct host_program h = {
		.program = parser, .argv = argv, .envp = envp, .streams = (const int[]){ -1, 2, 2 }
	};
	int status;
	pid_t pid;

	(void)snprintf(path, sizeof(path), "%s/" FOLDER "/" NAME, str_eq(root, "/") ? "" : root);
	if (host_start(&h, &pid, NULL, e) < 0)
		return -e->code;
	status = proc_wait(pid);
	if (status < 0)
		return err_errno(e, status, "cannot wait for '%s'", parser);
	if (status != 0)
		return err_set(e, ERR_UNAVAILABLE, EINVAL, "'%s' refused the profile", parser);
	return 0;
}

int apparmor_install(const char *root, const char *program, const char *parser, struct err *e)
{
	CLEANUP(buf) struct buf text = BUF_INIT(PROFILE_MAX);
	int r = apparmor_profile(program, &text);

	if (r == -EINVAL)
		return err_refuse(e, ERR_CONFIG, EINVAL,
				  "install brig at a plain path: sudo make install",
				  "a profile cannot name '%s': it holds a character that AppArmor "
				  "gives a meaning",
				  program);
	if (r < 0)
		return err_nomem(e);
	if (apparmor_write(root, buf_str(&text), e) < 0)
		return -e->code;
	if (apparmor_load(root, parser, e) == 0)
		return 0;
	remove_profile(root);
	return -e->code;
}

/* One step of the way to the program: may anybody but root (and the caller) change it? */
static int check_step(const char *path, bool strict, struct err *e)
{
	CLEANUP(fd) int fd = fd_open_nolinks(AT_FDCWD, path, O_PATH, 0);
	mode_t writable = 022;
	struct stat st;

	if (fd < 0)
		return err_errno(e, fd, "cannot look at '%s'", path);
	if (fstat(fd, &st) < 0)
		return err_sys(e, "cannot look at '%s'", path);
	if (st.st_uid != 0 && (strict || st.st_uid != geteuid()))
		return err_refuse(e, ERR_POLICY, EPERM,
				  "install brig below folders of root's or your own: sudo make "
				  "install",
				  "'%s' belongs to uid %u", path, st.st_uid);
	if (!strict && S_ISDIR(st.st_mode) && (st.st_mode & S_ISVTX))
		writable = 0; /* others may add names there, not replace this one */
	else if (!strict && st.st_gid == getegid())
		writable = 002;
	if (st.st_mode & writable) {
		(void)err_set(e, ERR_POLICY, EPERM, "others may write to '%s'", path);
		return err_hint(e, "chmod go-w '%s'", path);
	}
	return 0;
}

int path_guarded(const char *path, bool strict, struct err *e)
{
	char part[PATH_MAX];
	size_t n = strlen(path);

	if (path[0] != '/' || n >= sizeof(part))
		return err_set(e, ERR_INTERNAL, EINVAL, "'%s' is not absolute", path);
	if (check_step("/", strict, e) < 0)
		return -e->code;
	for (size_t at = 1; at <= n; at++) {
		if (path[at] != '/' && path[at] != '\0')
			continue;
		memcpy(part, path, at);
		part[at] = '\0';
		if (check_step(part, strict, e) < 0)
			return -e->code;
	}
	return 0;
}

int own_path(char *path, size_t n, struct err *e)
{
	ssize_t len = readlink("/proc/self/exe", path, n - 1);
	struct stat running, there;

	if (len < 0 || stat("/proc/self/exe", &running) < 0)
		return err_sys(e, "cannot find the running program");
	path[len] = '\0';
	if (lstat(path, &there) < 0 || there.st_dev != running.st_dev ||
	    there.st_ino != running.st_ino)
		return err_refuse(e, ERR_UNAVAILABLE, ESTALE, "start the installed one again",
				  "the running brig is no longer the file at '%s'", path);
	return 0;
}

static const char *find_parser(struct err *e)
{
	for (size_t i = 0; i < ARRAY_LEN(parsers); i++)
		if (path_guarded(parsers[i], true, e) == 0)
			return parsers[i];
	(void)err_wrap(e, "no apparmor_parser that root alone can replace");
	(void)err_hint(e, "sudo apt install apparmor");
	return NULL;
}

static int install_for(const char *program, struct err *e)
{
	const char *parser;

	if (geteuid() != 0) {
		(void)err_set(e, ERR_PERMISSION, EPERM,
			      "only root can install an AppArmor profile");
		return err_hint(e, "sudo '%s' doctor --fix", program);
	}
	if (path_guarded(program, true, e) < 0) {
		(void)err_wrap(e, "a profile is bound to a program that root alone can replace");
		return err_hint(e, "install it first: sudo make install, then: sudo "
				   "/usr/local/bin/brig doctor --fix");
	}
	parser = find_parser(e);
	return parser ? apparmor_install("/", program, parser, e) : -e->code;
}

int doctor_fix(char *done, size_t n, struct err *e)
{
	static const char *const nothing[] = {
		[APPARMOR_OFF] = "AppArmor is not enabled on this machine",
		[APPARMOR_UNAWARE] = "AppArmor does not restrict user namespaces here",
	};
	enum apparmor state = apparmor_state("/");
	char program[PATH_MAX];

	if (state == APPARMOR_OFF || state == APPARMOR_UNAWARE) {
		(void)snprintf(done, n, "nothing to fix: %s", nothing[state]);
		return 0;
	}
	if (own_path(program, sizeof(program), e) < 0 || install_for(program, e) < 0)
		return err_wrap(e, "nothing was installed");
	(void)snprintf(done, n, "'/" FOLDER "/" NAME "' lets '%s' make user namespaces", program);
	return 0;
}
