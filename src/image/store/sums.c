/* SPDX-License-Identifier: Apache-2.0 */
/* image/store/sums.c - see sums.h.
 *
 * KIND MODE SIZE SUM MARK NAME [TARGET], what is no plain letter of a name as \xHH. */
#include "image/store/sums.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/bytes/sha256.h"
#include "base/files/fd.h"
#include "base/files/folder.h"
#include "base/text/buf.h"
#include "base/text/str.h"
#include "proc/confine.h"
#include "proc/forked.h"

#define LINE_MOST ((size_t)48 << 10)
#define FLUSH_AT ((size_t)64 << 10)
#define DEPTH_MOST 200

struct sums_walk {
	struct buf out;
	char path[PATH_MAX * 2];
	int to;
};

struct sums_names {
	char **v;
	size_t n, most;
};

static void sums_escape(struct buf *b, const char *text)
{
	for (; *text; text++)
		if (*text > 0x20 && *text < 0x7f && *text != '\\')
			buf_putc(b, *text);
		else
			buf_printf(b, "\\x%02x", (unsigned char)*text);
}

static int sums_flush(struct sums_walk *s)
{
	int r = s->out.failed ? -ENOMEM : fd_write_all(s->to, buf_str(&s->out), s->out.len);

	s->out.len = 0;
	return r;
}

static int sums_file(int folder, const char *name, char hex[SHA256_HEX])
{
	CLEANUP(fd) int fd = openat(folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	unsigned char sum[SHA256_SIZE];
	char piece[65536];
	struct sha256 h;
	ssize_t n;

	if (fd < 0)
		return -errno;
	sha256_init(&h);
	while ((n = read(fd, piece, sizeof(piece))) > 0)
		sha256_add(&h, piece, (size_t)n);
	if (n < 0)
		return -errno;
	sha256_end(&h, sum);
	sha256_hex(sum, hex);
	return 0;
}

static int sums_names_read(int folder, struct sums_names *l)
{
	const struct fd_entry *en;
	struct folder d;

	folder_begin(&d, folder);
	while ((en = folder_next(&d))) {
		if (l->n == l->most) {
			size_t more = l->most ? 2 * l->most : 64;
			void *v = realloc(l->v, more * sizeof(*l->v));

			if (!v)
				return -ENOMEM;
			l->v = v;
			l->most = more;
		}
		l->v[l->n] = strdup(en->name);
		if (!l->v[l->n++])
			return -ENOMEM;
	}
	return -d.error;
}

static int by_bytes(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static void sums_names_done(struct sums_names *l)
{
	for (size_t i = 0; i < l->n; i++)
		free(l->v[i]);
	free(l->v);
}

static int sums_folder(struct sums_walk *s, int folder, size_t at, unsigned depth);

static int sums_line(struct sums_walk *s, char kind, const struct stat *st, const char *sum,
		     char mark, const char *target)
{
	buf_printf(&s->out, "%c %o %llu %s %c ", kind, st->st_mode & 07777,
		   kind == 'f' ? (unsigned long long)st->st_size : 0ULL, sum, mark);
	sums_escape(&s->out, s->path + 1);
	if (target) {
		buf_putc(&s->out, ' ');
		sums_escape(&s->out, target);
	}
	buf_putc(&s->out, '\n');
	return s->out.len > FLUSH_AT ? sums_flush(s) : 0;
}

static int sums_below(struct sums_walk *s, int folder, const char *name, const struct stat *st,
		      size_t at, unsigned depth)
{
	CLEANUP(fd) int fd = openat(folder, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	char mark;
	int r;

	if (fd < 0)
		return -errno;
	if (depth >= DEPTH_MOST)
		return -ENAMETOOLONG;
	r = sums_line(s, 'd', st, "-",
		      fgetxattr(fd, "user.overlay.opaque", &mark, 1) > 0 ? 'o' : '-', NULL);
	return r < 0 ? r : sums_folder(s, fd, at, depth + 1);
}

static int sums_one(struct sums_walk *s, int folder, const char *name, size_t at, unsigned depth)
{
	char target[PATH_MAX], hex[SHA256_HEX] = "-";
	struct stat st;
	ssize_t n;
	int r;

	if (fstatat(folder, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	if (S_ISDIR(st.st_mode))
		return sums_below(s, folder, name, &st, at, depth);
	if (S_ISLNK(st.st_mode)) {
		n = readlinkat(folder, name, target, sizeof(target) - 1);
		if (n < 0)
			return -errno;
		target[n] = '\0';
		return sums_line(s, 'l', &st, "-", '-', target);
	}
	if (!S_ISREG(st.st_mode))
		return sums_line(s, S_ISCHR(st.st_mode) && st.st_rdev == 0 ? 'w' : '?', &st, "-",
				 '-', NULL);
	r = sums_file(folder, name, hex);
	return r < 0 ? r : sums_line(s, 'f', &st, hex, '-', NULL);
}

static int sums_folder(struct sums_walk *s, int folder, size_t at, unsigned depth)
{
	struct sums_names l = { 0 };
	int r = sums_names_read(folder, &l);

	if (l.n)
		qsort(l.v, l.n, sizeof(*l.v), by_bytes);
	for (size_t i = 0; r == 0 && i < l.n; i++) {
		size_t n = strlen(l.v[i]);

		if (at + n + 2 >= sizeof(s->path)) {
			r = -ENAMETOOLONG;
			break;
		}
		s->path[at] = '/';
		memcpy(s->path + at + 1, l.v[i], n + 1);
		r = sums_one(s, folder, l.v[i], at + 1 + n, depth);
		s->path[at] = '\0';
	}
	sums_names_done(&l);
	return r;
}

/* ---- in a process of its own ---- */

struct sums_job {
	int tree, to;
};

static int sums_run(void *arg, int line)
{
	CLEANUP(mem) struct sums_walk *s = calloc(1, sizeof(*s));
	const struct sums_job *j = arg;
	const int keep[] = { j->tree, j->to, line };
	const struct confine_want rest = {
		.folder = -1, .looks = &j->tree, .look_count = 1, .bytes = (uint64_t)4 << 30
	};
	struct err e = { 0 };
	int r = 0;

	if (!s)
		(void)err_nomem(&e);
	else if (fd_close_except(3, keep, ARRAY_LEN(keep)) < 0)
		(void)err_set(&e, ERR_INTERNAL, EIO, "cannot close descriptors");
	else if (confine(CONFINE_WALKER, &rest, &e) == 0) {
		s->out = (struct buf)BUF_INIT(FLUSH_AT + LINE_MOST);
		s->to = j->to;
		r = sums_folder(s, j->tree, 0, 0);
		r = r < 0 ? r : sums_flush(s);
		if (r < 0)
			(void)err_errno(&e, r, "cannot sum up the layer at '%.150s'", s->path);
		buf_done(&s->out);
	}
	(void)forked_tell(line, &e);
	return 0;
}

int sums_write(int tree, int to, struct err *e)
{
	struct sums_job j = { tree, to };
	const struct forked_want w = { .name = "brig-look",
				       .what = "the process that sums a layer up",
				       .line = FORKED_BYTES,
				       .run = sums_run,
				       .arg = &j };
	CLEANUP(fd) int line = -1;
	struct err said = { 0 };
	pid_t pid;
	int r;

	if (lseek(tree, 0, SEEK_SET) < 0)
		return err_sys(e, "cannot read the layer");
	pid = forked_start(&w, &line, e);
	if (pid < 0)
		return (int)pid;
	r = forked_hear(line, &said);
	if (r < 0)
		(void)kill(pid, SIGKILL);
	(void)forked_wait(pid);
	if (r < 0)
		return err_set(e, ERR_POLICY, EPROTO,
			       "the layer is refused: it ended the process that summed it up");
	if (said.code)
		*e = said;
	return -said.code;
}

/* The name in a line, as it was escaped. */
static void sums_name_of(const char *line, char *out, size_t room)
{
	for (int field = 0; field < 5; field++) {
		line += strcspn(line, " \n");
		line += *line == ' ';
	}
	(void)snprintf(out, room, "%.*s", (int)strcspn(line, " \n"), line);
}

static int sums_differ(const char *line, struct err *e)
{
	char name[256];

	sums_name_of(line, name, sizeof(name));
	return err_refuse(e, ERR_POLICY, EBADMSG,
			  "remove the image and import it again: brig image rm",
			  "a layer is damaged: '%.150s' is not what it was", name);
}

static int sums_compare_files(FILE *now, FILE *was, struct err *e)
{
	CLEANUP(mem) char *a = NULL;
	CLEANUP(mem) char *b = NULL;
	size_t an = 0, bn = 0;

	for (;;) {
		ssize_t x = getline(&a, &an, now), y = getline(&b, &bn, was);

		if (x < 0 && y < 0)
			return 0;
		if (x < 0 || y < 0 || !str_eq(a, b))
			return sums_differ(y < 0 || (x >= 0 && strcmp(a, b) < 0) ? a : b, e);
	}
}

int sums_compare(int tree, int names, struct err *e)
{
	int made = memfd_create("brig-sums", MFD_CLOEXEC), copy = -1, r;
	FILE *now = NULL, *was = NULL;

	if (made < 0)
		return err_sys(e, "no memory file");
	r = sums_write(tree, made, e);
	if (r == 0 && (lseek(made, 0, SEEK_SET) < 0 || lseek(names, 0, SEEK_SET) < 0 ||
		       (copy = fcntl(names, F_DUPFD_CLOEXEC, 3)) < 0))
		r = err_sys(e, "cannot read what was summed up");
	if (r == 0) {
		now = fdopen(made, "r");
		was = fdopen(copy, "r");
		r = now && was ? sums_compare_files(now, was, e) : err_nomem(e);
	}
	if (now)
		(void)fclose(now);
	else
		(void)fd_close(made);
	if (was)
		(void)fclose(was);
	else
		(void)fd_close(copy);
	return r;
}
