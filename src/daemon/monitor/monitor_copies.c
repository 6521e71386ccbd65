/* SPDX-License-Identifier: Apache-2.0 */
/* daemon/monitor/monitor_copies.c - `copies`: files and folders of the host's, copied in before
 * anybody runs.
 *
 * Read here, by descriptor and without following a link; written by a process inside
 * (proc/files/files.h), so that the files are the user's in there and no path leads out. Patterns
 * leave names out, and what they leave out is not looked at. A link that stays within what is
 * copied is copied as a link; one that leads out of it is an error: it would mean something else
 * inside. */
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/files/fd.h"
#include "base/sys/clock.h"
#include "base/sys/wait.h"
#include "base/tar/tar.h"
#include "base/text/str.h"
#include "daemon/monitor/monitor_internal.h"
#include "model/outcome/outcome.h"
#include "model/outcome/store.h"
#include "model/settings/paths.h"
#include "proc/files/files.h"
#include "sandbox/manager.h"

#define COPIED "copied" /* in the sandbox's folder: that it was done, into what is kept */
#define OPEN_SOURCE (O_RDONLY | O_NONBLOCK | O_NOCTTY)

struct copying {
	const struct copy_spec *c;
	struct ident own[2]; /* brig's own folders, of sandboxes and of all: never copied */
	int data;            /* to the process inside */
	char out[256];       /* a link that leads out of what is copied; "": none */
};

/* ---- which names ---- */

static bool is_excluded(const struct strlist *patterns, const char *path)
{
	const char *base = strrchr(path, '/');

	for (size_t i = 0; i < patterns->n; i++)
		if (fnmatch(patterns->v[i], path, FNM_PATHNAME) == 0 ||
		    fnmatch(patterns->v[i], base ? base + 1 : path, FNM_PATHNAME) == 0)
			return true;
	return false;
}

static size_t depth_of(const char *path)
{
	size_t n = 0;

	for (; *path; path++)
		n += *path == '/';
	return n;
}

/* By its text alone, from the folder that it lies in. */
static bool copy_leads_out(const char *path, const char *target)
{
	size_t depth = depth_of(path);

	if (*target == '/')
		return true;
	while (*target) {
		size_t len = strcspn(target, "/");

		if (len == 2 && target[0] == '.' && target[1] == '.') {
			if (!depth)
				return true;
			depth--;
		} else if (len && !(len == 1 && *target == '.')) {
			depth++;
		}
		target += len + (target[len] == '/');
	}
	return false;
}

/* tar_look_fn */
static int monitor_copy_look(void *arg, int folder, const char *name, const char *path)
{
	struct copying *x = arg;
	char target[TAR_NAME_MAX];
	struct ident id;
	struct stat st;
	ssize_t n;

	if (is_excluded(&x->c->exclude, path))
		return 1;
	if (fstatat(folder, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return 0;
	id = ident_of(&st);
	if (S_ISDIR(st.st_mode))
		return ident_same(&id, &x->own[0]) || ident_same(&id, &x->own[1]);
	if (!S_ISLNK(st.st_mode))
		return 0;
	n = readlinkat(folder, name, target, sizeof(target) - 1);
	if (n < 0)
		return 0;
	target[n] = '\0';
	if (!copy_leads_out(path, target))
		return 0;
	(void)snprintf(x->out, sizeof(x->out), "%.250s", path);
	return -EXDEV;
}

/* ---- to the process inside ---- */

static int monitor_copy_put(void *arg, const void *p, size_t n)
{
	const struct copying *x = arg;
	const char *at = p;

	while (n) {
		ssize_t r = write(x->data, at, n);

		if (r > 0) {
			at += r;
			n -= (size_t)r;
		} else if (r < 0 && errno != EAGAIN && errno != EINTR) {
			return -errno;
		} else if (wait_fd(x->data, POLLOUT, clock_after(FILE_PATIENCE_MS)) < 0) {
			return -ETIMEDOUT;
		}
	}
	return 0;
}

/* The word that ends it, or the first; -errno of what it says. */
static int monitor_copy_hear(int answers, enum file_says until)
{
	struct file_answer a;

	do {
		if (wait_fd(answers, POLLIN, clock_after(FILE_PATIENCE_MS)) < 0)
			return -ETIMEDOUT;
		if (read(answers, &a, sizeof(a)) != (ssize_t)sizeof(a))
			return -EPIPE;
	} while (a.says != FILE_DONE && a.says != until);
	return a.says == FILE_DONE && a.error > 0 ? -a.error : 0;
}

/* Three pipes; `here` are our ends, in the same order. */
static int monitor_copy_begin(struct monitor *m, const struct file_order *o, int here[FILE_ENDS],
			      struct err *e)
{
	int there[FILE_ENDS], pair[2], r = 0;
	struct file_words w;
	uint32_t number;

	for (int i = 0; i < FILE_ENDS; i++)
		here[i] = there[i] = -1;
	for (int i = 0; r == 0 && i < FILE_ENDS; i++) {
		bool to_us = i == FILE_END_ANSWERS;

		if (pipe2(pair, O_CLOEXEC) < 0) {
			r = -errno;
			break;
		}
		here[i] = pair[!to_us];
		there[i] = pair[to_us];
		if (i == FILE_END_DATA && fcntl(here[i], F_SETFL, O_NONBLOCK) < 0)
			r = -errno;
	}
	file_order_words(o, &w);
	if (r < 0)
		(void)err_errno(e, r, "cannot make a pipe");
	else
		r = sandbox_files(m->sandbox, w.argv, there, &number, e);
	for (int i = 0; i < FILE_ENDS; i++)
		(void)fd_close(there[i]);
	return r;
}

static void close_ends(int here[FILE_ENDS])
{
	for (int i = 0; i < FILE_ENDS; i++)
		here[i] = fd_close(here[i]);
}

/* The word that this was all, unless something failed before; then the end of it. */
static int sent(int here[FILE_ENDS], int r)
{
	here[FILE_END_DATA] = fd_close(here[FILE_END_DATA]);
	if (r == 0)
		r = write(here[FILE_END_WORD], "", 1) == 1 ? 0 : -errno;
	if (r == 0)
		r = monitor_copy_hear(here[FILE_END_ANSWERS], FILE_DONE);
	close_ends(here);
	return r;
}

#define WRITABLE                                                                                   \
	"a target lies where the user inside can write: HOME, /tmp, the workspace, or all of it "  \
	"with read_only_root: false"

static int monitor_copy_make_folder(struct monitor *m, const char *path, struct err *e)
{
	const struct file_order o = {
		.verb = FILE_MKDIR, .flags = FILE_PARENTS, .mode = 0755, .path = path, .to = ""
	};
	int here[FILE_ENDS], r = monitor_copy_begin(m, &o, here, e);

	if (r == 0) {
		r = monitor_copy_hear(here[FILE_END_ANSWERS], FILE_DONE);
		if (r < 0)
			(void)err_errno(e, r, "cannot make '%.200s' inside", path);
		if (r == -EACCES || r == -EROFS || r == -EPERM)
			(void)err_hint(e, WRITABLE);
	}
	close_ends(here);
	return r;
}

/* ---- one of them ---- */

static int send_tree(struct copying *x, int source, uint64_t *left_out)
{
	struct tar_limits l = { .bytes = FILE_BYTES_MAX,
				.entries = FILE_TREE_MAX,
				.links = true,
				.look = monitor_copy_look };
	int r = tar_pack(source, &l, monitor_copy_put, NULL, x);

	*left_out = l.left_out;
	return r < 0 ? r : tar_pack_end(monitor_copy_put, x);
}

static int send_file(struct copying *x, int source)
{
	char data[32768];
	ssize_t n;
	int r = 0;

	while (r == 0 && (n = read(source, data, sizeof(data))) != 0) {
		if (n < 0 && errno == EINTR)
			continue;
		r = n < 0 ? -errno : monitor_copy_put(x, data, (size_t)n);
	}
	return r;
}

static int monitor_copy_explain(const struct copying *x, int r, struct err *e)
{
	if (*x->out)
		return err_refuse(
			e, ERR_POLICY, EXDEV, "name it under 'exclude', or copy what it leads to",
			"copies: the link '%.250s' leads out of '%.200s'", x->out, x->c->source);
	(void)err_errno(e, r, "cannot copy '%.200s' to '%.200s' inside", x->c->source,
			x->c->target);
	return err_hint(e, WRITABLE);
}

static int carry_over(struct monitor *m, struct copying *x, int source, const struct stat *st,
		      struct err *e)
{
	bool folder = S_ISDIR(st->st_mode);
	const struct file_order o = { .verb = folder ? FILE_UNPACK : FILE_WRITE,
				      .mode = st->st_mode & 0777,
				      .limit = FILE_BYTES_MAX,
				      .path = x->c->target,
				      .to = "" };
	int here[FILE_ENDS], r = monitor_copy_begin(m, &o, here, e), n;
	uint64_t left_out = 0;
	char line[512];

	x->data = here[FILE_END_DATA];
	if (r == 0)
		r = monitor_copy_hear(here[FILE_END_ANSWERS], FILE_HAS);
	if (r == 0)
		r = folder ? send_tree(x, source, &left_out) : send_file(x, source);
	r = sent(here, r);
	if (r < 0)
		return e->code ? -e->code : monitor_copy_explain(x, r, e);
	n = snprintf(line, sizeof(line), "copied '%.200s' to '%.200s'", x->c->source, x->c->target);
	if (left_out)
		(void)snprintf(line + n, sizeof(line) - (size_t)n,
			       "; %llu things were left out, which are no files",
			       (unsigned long long)left_out);
	monitor_note(m, line);
	return 0;
}

int copies_text(struct monitor *m, const char *target, const char *text, size_t n, struct err *e)
{
	const struct copy_spec c = { .source = "a login", .target = target };
	struct copying x = { .c = &c };
	const struct file_order o = {
		.verb = FILE_WRITE, .mode = 0600, .limit = FILE_BYTES_MAX, .path = target, .to = ""
	};
	const char *slash = strrchr(target, '/');
	int here[FILE_ENDS], r;
	char above[4096];

	(void)snprintf(above, sizeof(above), "%.*s", (int)(slash - target), target);
	if (monitor_copy_make_folder(m, above, e) < 0 || monitor_copy_begin(m, &o, here, e) < 0)
		return -e->code;
	x.data = here[FILE_END_DATA];
	r = monitor_copy_hear(here[FILE_END_ANSWERS], FILE_HAS);
	if (r == 0)
		r = monitor_copy_put(&x, text, n);
	r = sent(here, r);
	return r < 0 ? monitor_copy_explain(&x, r, e) : 0;
}

static int open_source(const char *path, struct stat *st, struct err *e)
{
	CLEANUP(fd) int fd = -1;

	if (str_eq(path, "/"))
		return err_refuse(e, ERR_POLICY, EPERM, "name the folders that are needed",
				  "copies: '/' is everything there is");
	fd = fd_open_nolinks(AT_FDCWD, path, OPEN_SOURCE, 0);
	if (fd == -ELOOP)
		return err_refuse(e, ERR_POLICY, ELOOP, "name the real path",
				  "copies: '%.200s' is, or passes through, a symbolic link", path);
	if (fd < 0 || fstat(fd, st) < 0)
		return err_errno(e, fd < 0 ? fd : -errno, "copies: cannot open '%.200s'", path);
	if (!S_ISREG(st->st_mode) && !S_ISDIR(st->st_mode))
		return err_refuse(e, ERR_POLICY, EPERM, "put what it gives into a file",
				  "copies: '%.200s' is neither a file nor a folder", path);
	return TAKE_FD(fd);
}

/* Is a folder, or one above it, brig's own? What is below one that is not is looked at on the way.
 */
static int monitor_copy_is_own(const struct copying *x, int folder)
{
	CLEANUP(fd) int at = openat(folder, ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
	struct ident id = { 0 };
	struct stat st;

	while (at >= 0 && fstat(at, &st) == 0) {
		struct ident here = ident_of(&st);
		int up;

		if (ident_same(&here, &x->own[0]) || ident_same(&here, &x->own[1]))
			return 1;
		if (ident_same(&here, &id)) /* of the root the folder above is itself */
			return 0;
		id = here;
		up = openat(at, "..", O_PATH | O_DIRECTORY | O_CLOEXEC);
		(void)fd_close(at);
		at = up;
	}
	return -errno;
}

/* No sandbox gets brig's state: keys, the record, what other sandboxes are and keep. */
static int check_own(const struct copying *x, int source, bool folder, struct err *e)
{
	const char *path = x->c->source, *slash = strrchr(path, '/');
	char above[4096];
	CLEANUP(fd) int parent = -1;
	int r;

	if (!folder) {
		(void)snprintf(above, sizeof(above), "%.*s", (int)(slash - path) + 1, path);
		parent = fd_open_nolinks(AT_FDCWD, above, O_PATH | O_DIRECTORY, 0);
		if (parent < 0)
			return err_errno(e, parent, "copies: cannot open '%.200s'", above);
	}
	r = monitor_copy_is_own(x, folder ? source : parent);
	if (r > 0)
		return err_refuse(e, ERR_POLICY, EPERM, "leave it out",
				  "copies: '%.200s' is part of brig's own state", path);
	return r < 0 ? err_errno(e, r, "copies: cannot tell what lies above '%.200s'", path) : 0;
}

static int copy_one(struct monitor *m, struct copying *x, struct err *e)
{
	const char *slash = strrchr(x->c->target, '/');
	char above[4096];
	struct stat st;
	CLEANUP(fd) int source = open_source(x->c->source, &st, e);

	if (source < 0 || check_own(x, source, S_ISDIR(st.st_mode), e) < 0)
		return -e->code;
	if (snprintf(above, sizeof(above), "%.*s",
		     S_ISDIR(st.st_mode) ? (int)strlen(x->c->target) : (int)(slash - x->c->target),
		     x->c->target) >= (int)sizeof(above))
		return err_set(e, ERR_USAGE, ENAMETOOLONG, "copies: the target is too long");
	if (*above && monitor_copy_make_folder(m, above, e) < 0)
		return err_wrap(e, "copies");
	return carry_over(m, x, source, &st, e);
}

/* Does what is copied there outlive a stop? In trees of the host's everything does. */
static bool monitor_copy_is_kept(const struct ingress *in, unsigned keeps, const char *target)
{
	const struct {
		const char *path;
		enum store_place place;
	} all[] = { { in->home, STORE_HOME },
		    { "/tmp", STORE_TMP },
		    { "/var/tmp", STORE_VAR_TMP } };
	const struct spec *s = in->spec;

	for (size_t i = 0; i < s->mounts.n; i++)
		if (path_under(target, s->mounts.v[i].target))
			return true;
	for (size_t i = 0; i < s->write.n; i++)
		if (path_under(target, s->write.v[i]))
			return true;
	if (s->inside && path_under(target, s->inside))
		return keeps & 1U << STORE_WORKSPACE || !(s->private_workspace || s->no_workspace);
	for (size_t i = 0; i < ARRAY_LEN(all); i++)
		if (path_under(target, all[i].path))
			return keeps & 1U << all[i].place;
	return keeps & 1U << STORE_LAYER;
}

/* Into what is kept they are copied once: what was changed inside since stays. */
static bool was_done(const struct monitor *m)
{
	return m->store >= 0 && faccessat(m->folder, COPIED, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

int copies_make(struct monitor *m, const struct ingress *in, struct err *e)
{
	const struct copylist *l = &in->copies;
	/* From the sandbox's: that of all sandboxes, and the state folder. */
	static const char *const above[] = { "..", "../../.." };
	const struct isolation *of = sandbox_facts(m->sandbox)->isolation;
	unsigned keeps = of ? of->keeps : 0;
	struct copying x = { .data = -1 };
	bool done = was_done(m);
	struct stat st;

	if (!l->n && !in->tools.n)
		return 0;
	for (size_t i = 0; i < ARRAY_LEN(above); i++) {
		if (fstatat(m->folder, above[i], &st, AT_SYMLINK_NOFOLLOW) < 0)
			return err_sys(e, "cannot look at brig's own folder");
		x.own[i] = ident_of(&st);
	}
	for (size_t i = 0; i < l->n; i++) {
		x.c = &l->v[i];
		if (done && monitor_copy_is_kept(in, keeps, x.c->target))
			continue;
		if (copy_one(m, &x, e) < 0)
			return -e->code;
	}
	if (!(done && monitor_copy_is_kept(in, keeps, in->home)) &&
	    tools_make(m, &in->tools, in->home, e) < 0)
		return -e->code;
	return monitor_write(m, COPIED, "", 0);
}

int copies_take(struct spec *s, struct ingress *ret, struct err *e)
{
	*ret = (struct ingress){ .copies = s->copies, .tools = s->builtin_tools, .spec = s };
	ret->home = arena_printf(s->arena, "/home/%s", s->user_name);
	s->copies = (struct copylist){ 0 };
	s->builtin_tools = (struct strlist){ 0 };
	s->origin[FIELD_COPIES] = s->origin[FIELD_BUILTIN_TOOLS] = ORIGIN_DEFAULT;
	return ret->home ? 0 : err_nomem(e);
}
