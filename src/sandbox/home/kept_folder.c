/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox/home/kept_folder.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include "base/bytes/jread.h"
#include "base/bytes/json.h"
#include "base/bytes/random.h"
#include "base/files/claim.h"
#include "base/files/fd.h"
#include "base/files/folder.h"
#include "base/files/state.h"
#include "base/files/tree.h"
#include "base/text/str.h"

#define ABOUT "about"
#define GONE ".gone-"
#define ABOUT_MAX 16384
#define TRIES 64
#define LOOK_MS 20 /* of another brig, which holds a folder for a moment; a run holds it longer */
#define COUNT_MOST ((uint64_t)1 << 40) /* of a listing */
#define FOLDER (O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)

int kept_folder_parent(const struct kept_folder_kind *k, bool make, struct err *e)
{
	char path[PATH_MAX];
	int fd;

	if (make)
		return (k->in_state ? state_open : cache_open)(k->folder, path, sizeof(path), e);
	fd = (k->in_state ? state_find : cache_find)(k->folder, path, sizeof(path));
	if (fd >= 0)
		return fd;
	/* The state has several places, and the last one's errno says nothing of the others. */
	return k->in_state || errno == ENOENT
		       ? -ENOENT
		       : err_sys(e, "cannot open brig's folder of %ss", k->noun);
}

void kept_folder_add_text(struct sha256 *h, const char *text)
{
	char line[32];
	int n = snprintf(line, sizeof(line), "%zu ", strlen(text));

	sha256_add(h, line, (size_t)n);
	sha256_add(h, text, strlen(text));
}

static const char *image_of(const struct spec *s)
{
	return s->image ? s->image : s->docker.image ? s->docker.image : "";
}

void kept_folder_add_trust(struct sha256 *h, const struct spec *s, const char *backend)
{
	kept_folder_add_text(h, fields[FIELD_POLICY].words[s->policy]);
	kept_folder_add_text(h, backend);
	kept_folder_add_text(h, image_of(s));
	kept_folder_add_text(h, s->strangers ? "untrusted" : "trusted");
}

void kept_folder_put_trust(struct json *j, const struct spec *s, const char *backend)
{
	json_kstr(j, "backend", backend);
	json_kstr(j, "policy", fields[FIELD_POLICY].words[s->policy]);
	json_kstr(j, "image", image_of(s));
	json_kbool(j, "trusted", !s->strangers);
}

/* An inode's number comes again when its folder is gone; the time when it was made does not. */
bool kept_folder_project_fd(int fd, char line[KEPT_FOLDER_PROJECT])
{
	struct statx st;
	bool dated;

	if (statx(fd, "", AT_EMPTY_PATH, STATX_INO | STATX_BTIME, &st) < 0)
		return false;
	dated = st.stx_mask & STATX_BTIME;
	(void)snprintf(line, KEPT_FOLDER_PROJECT, "%u:%u %llu %lld.%09u\n", st.stx_dev_major,
		       st.stx_dev_minor, (unsigned long long)st.stx_ino,
		       dated ? (long long)st.stx_btime.tv_sec : 0LL,
		       dated ? st.stx_btime.tv_nsec : 0U);
	return true;
}

int kept_folder_project(const struct spec *s, char line[KEPT_FOLDER_PROJECT], struct err *e)
{
	CLEANUP(fd) int fd = fd_open_nolinks(AT_FDCWD, s->workdir, O_PATH | O_DIRECTORY, 0);

	if (fd >= 0 && kept_folder_project_fd(fd, line))
		return 0;
	return err_errno(e, fd < 0 ? fd : -errno, "cannot look at the workspace '%.200s'",
			 s->workdir);
}

/* --- one of them --- */

static bool ours(const struct stat *st)
{
	return S_ISDIR(st->st_mode) && st->st_uid == geteuid();
}

static int not_ours(const struct kept_folder_kind *k, const char *id, struct err *e)
{
	return err_refuse(e, ERR_POLICY, EPERM, "remove it, and run it again",
			  "'%s/%.64s' in brig's %s folder is not what brig made", k->folder, id,
			  k->in_state ? "state" : "cache");
}

/* Is what is locked still at its name? A clear may have moved it away meanwhile. */
static bool still_there(int parent, const char *id, const struct stat *st)
{
	struct ident was = ident_of(st), now;
	struct stat again;

	if (fstatat(parent, id, &again, AT_SYMLINK_NOFOLLOW) < 0)
		return false;
	now = ident_of(&again);
	return ident_same(&was, &now);
}

int kept_folder_lock(const struct kept_folder_kind *k, int parent, const char *id, struct err *e)
{
	for (int i = 0; i < TRIES; i++) {
		CLEANUP(fd) int fd = -1;
		struct stat st;

		if (mkdirat(parent, id, 0700) < 0 && errno != EEXIST)
			return err_sys(e, "cannot make a %s", k->noun);
		fd = openat(parent, id, FOLDER);
		if (fd < 0 && errno == ENOENT)
			continue;
		if (fd < 0 || fstat(fd, &st) < 0 || !ours(&st) || (st.st_mode & 077))
			return not_ours(k, id, e);
		while (flock(fd, LOCK_SH) < 0)
			if (errno != EINTR)
				return err_sys(e, "cannot lock the %s", k->noun);
		if (still_there(parent, id, &st))
			return TAKE_FD(fd);
	}
	return err_set(e, ERR_UNAVAILABLE, EBUSY, "the %s is being cleared all the time", k->noun);
}

/* The command owns the folder, and may have closed it to itself; where it runs, it may do so again
 * and again. */
int kept_folder_open(const struct kept_folder_kind *k, int folder, const char *id, struct err *e)
{
	int fd = -1;

	for (int i = 0; i < TRIES && fd < 0; i++) {
		struct stat st;

		if (fstatat(folder, k->shown, &st, AT_SYMLINK_NOFOLLOW) < 0)
			return err_sys(e, "there is no %s in '%.16s'", k->noun, id);
		if (!ours(&st))
			return not_ours(k, id, e);
		if ((st.st_mode & 07777) != 0700 && fchmodat(folder, k->shown, 0700, 0) < 0)
			return err_sys(e, "cannot open the %s to its owner", k->noun);
		fd = openat(folder, k->shown, FOLDER);
		if (fd < 0 && errno != EACCES)
			break;
	}
	return fd < 0 ? err_sys(e, "cannot open the %s", k->noun) : fd;
}

int kept_folder_make(const struct kept_folder_kind *k, int folder, const char *id, struct err *e)
{
	if (mkdirat(folder, k->shown, 0700) < 0 && errno != EEXIST)
		return err_sys(e, "cannot make a %s", k->noun);
	return kept_folder_open(k, folder, id, e);
}

int kept_folder_place(const struct kept_folder_kind *k, int shown, char path[PATH_MAX],
		      struct err *e)
{
	char link[32];
	ssize_t n;

	(void)snprintf(link, sizeof(link), "/proc/self/fd/%d", shown);
	n = readlink(link, path, PATH_MAX - 1);
	if (n <= 0)
		return err_sys(e, "cannot tell where the %s is", k->noun);
	path[n] = '\0';
	return 0;
}

int kept_folder_find(const struct kept_folder_kind *k, const char *id, char path[PATH_MAX])
{
	char below[SHA256_HEX + 32];
	struct err e;
	CLEANUP(fd) int parent = kept_folder_parent(k, false, &e), fd = -1;

	(void)snprintf(below, sizeof(below), "%s/%s", id, k->shown);
	fd = parent < 0 ? -1 : fd_open_nolinks(parent, below, O_PATH | O_DIRECTORY, FD_BENEATH);
	return fd < 0 || kept_folder_place(k, fd, path, &e) < 0 ? -ENOENT : 0;
}

/* Written once, whole; afterwards its time alone changes. */
int kept_folder_note_use(const struct kept_folder_kind *k, int folder,
			 void (*text)(const void *arg, struct buf *b), const void *arg,
			 struct err *e)
{
	CLEANUP(buf) struct buf b = BUF_INIT(ABOUT_MAX);
	CLEANUP(fd) int fd = -1;
	char name[33];
	int r;

	if (utimensat(folder, ABOUT, NULL, AT_SYMLINK_NOFOLLOW) == 0)
		return 0;
	if (random_hex(name, sizeof(name), e) < 0)
		return -e->code;
	text(arg, &b);
	fd = openat(folder, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0)
		return err_sys(e, "cannot record what the %s is", k->noun);
	r = b.failed ? -ENOMEM : fd_write_all(fd, buf_str(&b), b.len);
	if (r == 0 && renameat(folder, name, folder, ABOUT) < 0)
		r = -errno;
	if (r < 0)
		(void)unlinkat(folder, name, 0);
	return r < 0 ? err_errno(e, r, "cannot record what the %s is", k->noun) : 0;
}

static int no_look(const struct kept_folder_kind *k, int code, const char *whose, struct err *e)
{
	(void)err_errno(e, code, "cannot look through the %s %.200s", k->noun, whose);
	switch (-code) {
	case EMFILE:
		return err_hint(e,
				"more files must be open than 'ulimit -n' allows: raise it, or "
				"%s",
				k->clear);
	case EACCES:
		return err_hint(e, "another run may be closing its folders: end it, or %s",
				k->clear);
	case EPERM:
		return err_hint(e, "there are somebody else's files in it: %s tells what is left",
				k->clear);
	default:
		return -code;
	}
}

int kept_folder_check_size(const struct kept_folder_kind *k, int shown, uint64_t most,
			   const char *whose, const char *limit, struct err *e)
{
	uint64_t bytes = 0;
	int r = tree_size(shown, most, &bytes);

	if (r == -ELOOP) {
		(void)err_set(e, ERR_POLICY, ELOOP, "the %s %.200s has folders more than %d deep",
			      k->noun, whose, TREE_DEPTH);
		return err_hint(e, "%s empties it", k->clear);
	}
	if (r < 0)
		return no_look(k, r, whose, e);
	if (bytes <= most)
		return 0;
	(void)err_set(e, ERR_POLICY, EDQUOT, "the %s %.200s holds more than %s, %llu MiB", k->noun,
		      whose, limit, (unsigned long long)(most >> 20));
	return err_hint(e, "brig cache shows it, %s empties it; or raise %s", k->clear, limit);
}

int kept_folder_check_disk(const struct kept_folder_kind *k, int shown, struct err *e)
{
	struct statfs fs;

	if (fstatfs(shown, &fs) == 0 && fs.f_type != TMPFS_MAGIC)
		return 0;
	(void)err_set(e, ERR_UNAVAILABLE, ENOTSUP,
		      "limits.disk cannot count what is written to a %s in memory", k->noun);
	return err_hint(e, "set %s to a folder on a disk, or leave --disk out",
			k->in_state ? "XDG_STATE_HOME" : "XDG_CACHE_HOME");
}

/* --- all of them --- */

static bool kept_folder_is_id(const char *name)
{
	return strlen(name) == SHA256_HEX - 1 && strspn(name, "0123456789abcdef") == SHA256_HEX - 1;
}

static bool kept_folder_is_gone(const char *name)
{
	return str_starts(name, GONE);
}

static int one_row(const struct kept_folder_kind *k, int parent, const char *id,
		   int (*each)(void *arg, const struct kept_folder_row *row), void *arg)
{
	CLEANUP(fd) int folder = openat(parent, id, FOLDER), shown = -1;
	CLEANUP(jread) struct jread *about = NULL;
	struct kept_folder_row row = { .id = id, .leftover = kept_folder_is_gone(id) };
	char text[ABOUT_MAX];
	struct stat st = { 0 };
	struct err e;
	ssize_t n;

	if (folder < 0)
		return 0;
	n = fd_read_file(folder, ABOUT, text, sizeof(text));
	if (n <= 0 || jread_parse(text, (size_t)n, &about, &e) < 0)
		about = NULL;
	row.about = about;
	row.used = !claim_lock(folder, LOOK_MS);
	(void)flock(folder, LOCK_UN);
	if (fstatat(folder, ABOUT, &st, AT_SYMLINK_NOFOLLOW) == 0)
		row.last = st.st_mtim.tv_sec;
	shown = kept_folder_open(k, folder, id, &e);
	row.more = shown < 0
			   ? shown != -ENOENT
			   : tree_size(shown, COUNT_MOST, &row.bytes) < 0 || row.bytes > COUNT_MOST;
	return each(arg, &row);
}

int kept_folder_each(const struct kept_folder_kind *k,
		     int (*each)(void *arg, const struct kept_folder_row *row), void *arg,
		     struct err *e)
{
	CLEANUP(fd) int parent = kept_folder_parent(k, false, e);
	const struct fd_entry *en;
	struct folder d;
	int r = 0;

	if (parent < 0)
		return parent == -ENOENT ? 0 : parent;
	folder_begin(&d, parent);
	while (r == 0 && (en = folder_next(&d))) {
		char name[256];

		if (!kept_folder_is_id(en->name) && !kept_folder_is_gone(en->name))
			continue;
		(void)snprintf(name, sizeof(name), "%s", en->name);
		r = one_row(k, parent, name, each, arg);
	}
	return r;
}

/* --- removing --- */

/* What is left, and why: by errno, as nobody else knows. */
static int left_over(const struct kept_folder_kind *k, const char *gone, int code, struct err *e)
{
	const char *why = "";

	(void)err_errno(e, code, "cannot remove all of a %s", k->noun);
	switch (-code) {
	case EACCES:
	case EPERM:
		why = "somebody else's files: let their owner, or root, remove it";
		break;
	case EBUSY:
	case EXDEV:
		why = "something mounted there: unmount it, and clear again";
		break;
	case EMFILE:
	case ENFILE:
		why = "too few files may be open: raise 'ulimit -n', and clear again";
		break;
	case ENOTEMPTY:
		why = "somebody is writing there: clear again";
		break;
	default:
		why = "clear again when that is mended";
		break;
	}
	return err_hint(e, "what is left is '%s' in the folder '%s' of brig's %s; %s", gone,
			k->folder, k->in_state ? "state" : "cache", why);
}

/* Under a shared lock: a run that waits for it goes on, and whoever tidies knows that somebody is
 * at it. */
static int remove_gone(const struct kept_folder_kind *k, int parent, const char *gone, int folder,
		       struct err *e)
{
	int r;

	if (folder >= 0)
		(void)flock(folder, LOCK_SH);
	r = tree_remove(parent, gone);
	return r < 0 ? left_over(k, gone, r, e) : 0;
}

/* Under the lock it gets another name, by which no run finds it: then there is time. *folder is the
 * caller's. 1: there is nothing. */
static int take_away(const struct kept_folder_kind *k, int parent, const char *id, char gone[48],
		     int *folder, struct err *e)
{
	CLEANUP(fd) int fd = openat(parent, id, FOLDER);
	char hex[33];
	struct stat st;

	if (fd < 0)
		return errno == ENOENT ? 1 : err_sys(e, "cannot open the %s '%.16s'", k->noun, id);
	if (!claim_lock(fd, LOOK_MS))
		return err_refuse(e, ERR_UNAVAILABLE, EBUSY, "end that run first, or wait for it",
				  "the %s '%.16s' is used by a run", k->noun, id);
	if (fstat(fd, &st) < 0 || !still_there(parent, id, &st))
		return 1;
	if (random_hex(hex, sizeof(hex), e) < 0)
		return -e->code;
	(void)snprintf(gone, 48, GONE "%s", hex);
	if (renameat(parent, id, parent, gone) < 0)
		return err_sys(e, "cannot move the %s '%.16s' away", k->noun, id);
	*folder = TAKE_FD(fd);
	return 0;
}

int kept_folder_clear(const struct kept_folder_kind *k, const char *id, struct err *e)
{
	CLEANUP(fd) int parent = kept_folder_parent(k, false, e), folder = -1;
	char gone[48];
	int r;

	if (parent < 0)
		return parent == -ENOENT ? 0 : parent;
	r = take_away(k, parent, id, gone, &folder, e);
	if (r)
		return r < 0 ? r : 0;
	return remove_gone(k, parent, gone, folder, e);
}

/* 1: somebody else is at it. */
static int tidy_one(const struct kept_folder_kind *k, int parent, const char *gone, struct err *e)
{
	CLEANUP(fd) int folder = openat(parent, gone, FOLDER);

	return folder >= 0 && !claim_lock(folder, LOOK_MS)
		       ? 1
		       : remove_gone(k, parent, gone, folder, e);
}

int kept_folder_tidy(const struct kept_folder_kind *k, size_t *left, struct err *e)
{
	CLEANUP(fd) int parent = kept_folder_parent(k, false, e);
	const struct fd_entry *en;
	struct folder d;
	int result = 0;

	*left = 0;
	if (parent < 0)
		return 0;
	folder_begin(&d, parent);
	while ((en = folder_next(&d))) {
		struct err one = { 0 };
		char name[256];

		if (!kept_folder_is_gone(en->name))
			continue;
		(void)snprintf(name, sizeof(name), "%s", en->name);
		if (tidy_one(k, parent, name, &one) >= 0)
			continue;
		++*left;
		if (result == 0)
			*e = one;
		result = -one.code;
	}
	return result;
}
