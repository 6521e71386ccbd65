/* SPDX-License-Identifier: Apache-2.0 */
/* cli/sandbox/sandbox_cp.c - "sandbox cp": files and folders into a sandbox, and out of it.
 *
 * As cp -r does: into a folder that is there under the source's own name, else under the name that
 * is given. What comes out was written by a guest: it is followed through no link, made anew, and
 * has a limit. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/bytes/json.h"
#include "base/files/draft.h"
#include "base/files/exposed.h"
#include "base/files/exposed_notes.h"
#include "base/files/fd.h"
#include "base/tar/tar.h"
#include "base/text/clean.h"
#include "base/text/num.h"
#include "base/text/str.h"
#include "cli/progress.h"
#include "cli/sandbox/box_path.h"
#include "cli/sandbox/unpack_child.h"

#define LIMIT_BYTES ((uint64_t)16 << 30)
#define ENTRIES_MAX 1000000
#define PIECE ((size_t)64 << 10)
#define NAMES_MAX ((size_t)64 << 10)
#define NAMES_SAID 5

int box_path_parse(const char *word, struct box_path *ret)
{
	size_t n = strcspn(word, ":/");

	if (!n || word[n] != ':' || n >= sizeof(ret->ref))
		return 0;
	memcpy(ret->ref, word, n);
	ret->ref[n] = '\0';
	ret->path = word + n + 1;
	return 1;
}

/* ---- what stays behind ---- */

/* Links, devices and the like; neither way anything is made of them on the host. */
struct left_out {
	uint64_t count;
	struct buf
		names; /* the first of them, each with its NUL, as whoever made them wrote them */
};

static const char *name_after(const struct buf *b, const char *name)
{
	if (!b->len || b->failed)
		return NULL;
	name = name ? name + strlen(name) + 1 : b->data;
	return name < b->data + b->len ? name : NULL;
}

static void left_as_json(const struct left_out *l)
{
	CLEANUP(buf) struct buf b = BUF_INIT((size_t)256 << 10);
	const char *name = NULL;
	struct json j;

	json_init(&j, &b, false);
	json_object(&j);
	json_ku64(&j, "left_out", l->count);
	json_karray(&j, "left_names");
	while ((name = name_after(&l->names, name)))
		json_str(&j, name);
	json_array_end(&j);
	json_object_end(&j);
	(void)printf("%s\n", buf_str(&b));
}

static void left_as_text(const struct left_out *l)
{
	CLEANUP(buf) struct buf b = BUF_INIT((size_t)256 << 10);
	const char *name = NULL;
	unsigned said = 0;

	buf_printf(&b, "%llu thing%s left out, which %s neither a folder nor a readable file",
		   (unsigned long long)l->count, l->count == 1 ? " was" : "s were",
		   l->count == 1 ? "is" : "are");
	while (said < NAMES_SAID && (name = name_after(&l->names, name))) {
		buf_puts(&b, said++ ? ", " : ": ");
		clean_put(&b, name, strlen(name));
	}
	if (said && l->count > said)
		buf_puts(&b, ", ...");
	message_print("brig: note", buf_str(&b));
}

/* An archive on standard output leaves no place there for anything else. */
static void tell_left(const struct sandbox_asked *a, const struct left_out *l)
{
	if (a->json && !str_eq(a->rest[1], "-"))
		left_as_json(l);
	else if (l->count && (a->json || !a->quiet))
		left_as_text(l);
}

/* The last part of a path that is not "", "." or ".."; false: it has none. */
static bool last_part(const char *path, char out[256])
{
	size_t n = strlen(path), from;

	while (n && path[n - 1] == '/')
		n--;
	for (from = n; from && path[from - 1] != '/';)
		from--;
	if (n == from || n - from > 255 ||
	    (n - from <= 2 && strncmp(path + from, "..", n - from) == 0))
		return false;
	memcpy(out, path + from, n - from);
	out[n - from] = '\0';
	return true;
}

static int no_name(const char *path, struct err *e)
{
	return err_refuse(e, ERR_USAGE, EINVAL, "name it, as in ID:/tmp/name",
			  "'%.100s' has no name of its own to be copied under", path);
}

/* ---- in ---- */

struct putting {
	struct daemon_client *d;
	struct left_out *left;
};

static int put_piece(void *arg, const void *p, size_t n)
{
	const struct putting *x = arg;
	struct err e;
	int r = daemon_client_write(x->d, p, n, &e);

	return r > 0 ? -EPIPE : r;
}

static void keep_left(void *arg, const char *path)
{
	const struct putting *x = arg;

	if (x->left->count++ < NAMES_SAID)
		buf_add(&x->left->names, path, strlen(path) + 1);
}

static int begin_archive(struct daemon_client *d, const struct box_path *to, struct err *e)
{
	CLEANUP(buf) struct buf target = BUF_INIT(BOX_TARGET_MAX);
	struct daemon_question q = { .method = "PUT" };

	if (box_path_target(&target, to, "/archive", "", e) < 0)
		return -e->code;
	q.target = buf_str(&target);
	return daemon_client_begin(d, &q, "application/x-tar", -1, e);
}

static int put_stdin(struct daemon_client *d, const struct box_path *to, struct err *e)
{
	char data[PIECE];
	ssize_t n;
	int r = begin_archive(d, to, e);

	while (r == 0 && (n = read(STDIN_FILENO, data, sizeof(data))) != 0) {
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return err_sys(e, "cannot read the archive");
		r = daemon_client_write(d, data, (size_t)n, e);
	}
	return r < 0 ? r : daemon_client_written(d, e);
}

static int put_folder(struct daemon_client *d, int folder, const char *from,
		      const struct box_path *to, struct left_out *left, struct err *e)
{
	struct tar_limits l = {
		.bytes = UINT64_MAX, .entries = ENTRIES_MAX, .links = true, .left = keep_left
	};
	struct putting x = { .d = d, .left = left };
	int r;

	if (box_path_post(d, to, "mkdir", NULL, true, e) < 0 || begin_archive(d, to, e) < 0)
		return -e->code;
	r = tar_pack(folder, &l, put_piece, NULL, &x);
	if (r == 0)
		r = tar_pack_end(put_piece, &x);
	/* A broken pipe is a daemon that has answered: it says more. */
	if (r < 0 && r != -EPIPE)
		return err_errno(e, r, "cannot copy '%.100s'", from);
	return daemon_client_written(d, e);
}

static int sandbox_cp_put_file(struct daemon_client *d, int file, const struct stat *st,
			       const struct box_path *to, struct err *e)
{
	CLEANUP(buf) struct buf target = BUF_INIT(BOX_TARGET_MAX);
	struct daemon_question q = { .method = "PUT" };
	char mode[16];

	(void)snprintf(mode, sizeof(mode), "&mode=%o", st->st_mode & 0777);
	if (box_path_target(&target, to, "/files", mode, e) < 0)
		return -e->code;
	q.target = buf_str(&target);
	if (daemon_client_begin(d, &q, "application/octet-stream", st->st_size, e) < 0 ||
	    daemon_client_write_file(d, file, (uint64_t)st->st_size, e) < 0)
		return -e->code;
	return daemon_client_written(d, e);
}

/* Into a folder that is there under its own name; `full` holds the path then. */
static int settle_inside(struct daemon_client *d, struct box_path *to, const char *from,
			 struct buf *full, struct err *e)
{
	CLEANUP(jread) struct jread *v = NULL;
	char name[256], code[32] = "";
	int r = box_path_ask(d, "GET", to, "/files/stat", "", &v, code, e);

	if (r < 0 && !str_eq(code, "not-found"))
		return r;
	/* The sandbox itself may be what is not there: that is found out by what follows. */
	if (r < 0 || !str_eq(jread_str(v, "type"), "folder"))
		return 0;
	if (!last_part(from, name))
		return no_name(from, e);
	buf_printf(full, "%s/%s", *to->path ? to->path : ".", name);
	to->path = buf_str(full);
	return full->failed ? err_set(e, ERR_USAGE, ENAMETOOLONG, "the path is too long") : 0;
}

static void on_passed(void *arg, uint64_t bytes)
{
	progress_add(arg, bytes);
}

static int copy_in(struct daemon_client *d, const char *from, struct box_path *to,
		   struct progress *p, struct left_out *left, struct err *e)
{
	CLEANUP(buf) struct buf full = BUF_INIT((size_t)8192);
	CLEANUP(fd) int fd = -1;
	struct stat st;

	if (str_eq(from, "-"))
		return put_stdin(d, to, e);
	fd = exposed_open(from, O_RDONLY, e);
	if (fd < 0)
		return -e->code;
	if (fstat(fd, &st) < 0)
		return err_sys(e, "cannot look at '%.200s'", from);
	if (!S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode))
		return err_set(e, ERR_USAGE, EINVAL, "'%.200s' is neither a file nor a folder",
			       from);
	if (settle_inside(d, to, from, &full, e) < 0)
		return -e->code;
	if (S_ISREG(st.st_mode))
		p->all = (uint64_t)st.st_size;
	return S_ISDIR(st.st_mode) ? put_folder(d, fd, from, to, left, e)
				   : sandbox_cp_put_file(d, fd, &st, to, e);
}

/* ---- out ---- */

static int get_bytes(struct daemon_client *d, const struct box_path *from, const char *route,
		     int fd, uint64_t most, struct err *e)
{
	CLEANUP(buf) struct buf target = BUF_INIT(BOX_TARGET_MAX);
	struct daemon_question q = { .method = "GET" };
	int64_t length;

	if (box_path_target(&target, from, route, "", e) < 0)
		return -e->code;
	q.target = buf_str(&target);
	if (daemon_client_get(d, &q, &length, e) < 0)
		return -e->code;
	return daemon_client_save(d, fd, most, e);
}

/* Where it goes on the host: a folder that is open, and a name in it. */
static int settle_outside(const char *to, const char *from, bool folder, int *above, char name[256],
			  struct err *e)
{
	char path[PATH_MAX];
	struct stat st;
	size_t n;

	if (stat(to, &st) == 0 && S_ISDIR(st.st_mode)) {
		*above = exposed_open(to, O_RDONLY | O_DIRECTORY, e);
		/* All of a folder without a name goes into the one that is there. */
		if (!last_part(from, name) && !folder)
			return no_name(from, e);
		if (!last_part(from, name))
			(void)snprintf(name, 256, ".");
	} else {
		if (!last_part(to, name) ||
		    snprintf(path, sizeof(path), "%s", to) >= (int)sizeof(path))
			return no_name(to, e);
		for (n = strlen(path); n && path[n - 1] == '/';)
			n--;
		path[n - strlen(name)] = '\0';
		*above = exposed_open(*path ? path : ".", O_RDONLY | O_DIRECTORY, e);
	}
	return *above < 0 ? err_wrap(e, "'%.150s'", to) : 0;
}

/* What came out is a guest's, wherever it lies now: no file of it is obeyed as the user's own. */
static int note_guests(int above, const char *name, struct err *e)
{
	char path[300];

	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d/%s", above, name);
	return exposed_note(path, EXPOSED_AS_COPY, e);
}

static int get_file(struct daemon_client *d, const struct box_path *from, int above,
		    const char *name, mode_t mode, uint64_t most, struct err *e)
{
	mode_t mask = umask(077);
	struct draft to;
	int r = draft_open(above, &to);

	(void)umask(mask);
	if (r < 0)
		return err_errno(e, r, "cannot write '%.100s'", name);
	r = get_bytes(d, from, "/files", to.fd, most, e);
	if (r == 0)
		r = exposed_note_first(to.fd, above, name, EXPOSED_AS_COPY, e);
	if (r < 0) {
		draft_drop(&to);
		return r;
	}
	r = draft_keep(&to, name, mode & 0777 & ~mask);
	return r < 0 ? err_errno(e, r, "cannot write '%.100s'", name) : 0;
}

static int get_folder(struct daemon_client *d, const struct box_path *from, int above,
		      const char *name, uint64_t most, struct err *e)
{
	CLEANUP(fd) int folder = -1;
	struct unpack_child u;
	struct err why = { 0 };
	int r;

	if (mkdirat(above, name, 0777) < 0 && errno != EEXIST)
		return err_sys(e, "cannot make folder '%.100s'", name);
	folder = openat(above, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (folder < 0)
		return err_sys(e, "cannot open folder '%.100s'", name);
	if (note_guests(above, name, e) < 0 || unpack_child_start(folder, most, &u, e) < 0)
		return -e->code;
	/* With what an archive is besides its files. */
	r = get_bytes(d, from, "/archive", u.line, most + most / 2 + ((uint64_t)1 << 30), e);
	if (unpack_child_end(&u, &why) < 0 && (r == 0 || e->code == EPIPE)) {
		*e = why;
		return -e->code;
	}
	return r;
}

static int copy_out(struct daemon_client *d, const struct box_path *from, const char *to,
		    uint64_t most, struct err *e)
{
	CLEANUP(jread) struct jread *v = NULL;
	CLEANUP(fd) int above = -1;
	const char *type, *mode;
	char name[256];

	if (str_eq(to, "-"))
		return get_bytes(d, from, "/archive", STDOUT_FILENO, UINT64_MAX, e);
	if (box_path_ask(d, "GET", from, "/files/stat", "", &v, NULL, e) < 0)
		return -e->code;
	type = jread_str(v, "type");
	mode = jread_str(v, "mode");
	if (!type || !mode || (!str_eq(type, "file") && !str_eq(type, "folder")))
		return err_set(e, ERR_USAGE, EINVAL, "'%.200s' is neither a file nor a folder",
			       from->path);
	if (settle_outside(to, from->path, str_eq(type, "folder"), &above, name, e) < 0)
		return -e->code;
	if (str_eq(type, "folder"))
		return get_folder(d, from, above, name, most, e);
	return get_file(d, from, above, name, (mode_t)strtoul(mode, NULL, 8), most, e);
}

int verb_cp(struct daemon_client *d, const struct sandbox_asked *a, struct err *e)
{
	const struct sigaction ignore = { .sa_handler = SIG_IGN };
	const char *from = a->rest[0], *to = a->rest[1];
	struct box_path at_from, at_to;
	bool out = box_path_parse(from, &at_from), in = box_path_parse(to, &at_to);
	uint64_t most = LIMIT_BYTES;
	struct left_out left = { .names = BUF_INIT(NAMES_MAX) };
	struct progress p;
	int r;

	if (a->limit && num_size(a->limit, &most) < 0)
		return err_set(e, ERR_USAGE, EINVAL, "--limit needs a size such as 20g");
	if (in == out)
		return err_refuse(e, ERR_USAGE, EINVAL,
				  "such as brig sandbox cp file ID:/tmp, or cp ID:/tmp/file .",
				  in ? "both places are in a sandbox"
				     : "neither place is in a sandbox");
	(void)sigaction(SIGPIPE, &ignore, NULL);
	progress_begin(&p, "copying", 0, a->quiet);
	daemon_client_on_passed(d, on_passed, &p);
	r = in ? copy_in(d, from, &at_to, &p, &left, e) : copy_out(d, &at_from, to, most, e);
	daemon_client_on_passed(d, NULL, NULL);
	progress_end(&p);
	if (out)
		left.count = daemon_client_left(d, &left.names);
	if (r == 0)
		tell_left(a, &left);
	buf_done(&left.names);
	return r;
}
