/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox/home/kept_home.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include "base/bytes/hex.h"
#include "base/bytes/hmac.h"
#include "base/bytes/jread.h"
#include "base/bytes/json.h"
#include "base/bytes/random.h"
#include "base/files/claim.h"
#include "base/files/fd.h"
#include "base/files/folder.h"
#include "base/files/state.h"
#include "base/files/tree.h"
#include "base/text/buf.h"
#include "base/text/str.h"
#include "model/settings/paths.h"
#include "sandbox/home/home_seed.h"

#define HOMES "homes"
#define HOME "home"
#define ABOUT "about"
#define GONE ".gone-"
#define KEY_FILE "home.key" /* of the state folder */
#define ABOUT_MAX 16384
#define TRIES 64
#define LOOK_MS 20 /* of another brig, which holds a HOME for a moment; a run holds it longer */
#define COUNT_MOST ((uint64_t)1 << 40) /* of a listing */
#define FOLDER (O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)

/* --- whose it is --- */

static const char *image_of(const struct spec *s)
{
	return s->image ? s->image : s->docker.image ? s->docker.image : "";
}

static int no_project(struct err *e)
{
	return err_refuse(e, ERR_USAGE, EINVAL,
			  "run it from a project's folder, or name one: --workdir DIR",
			  "home 'keep' needs a workspace: there is no project to keep a HOME for");
}

static int look_at_project(const struct spec *s, struct statx *st, struct err *e)
{
	CLEANUP(fd) int fd = -1;

	if (s->private_workspace || s->no_workspace || !s->workdir)
		return no_project(e);
	fd = fd_open_nolinks(AT_FDCWD, s->workdir, O_PATH | O_DIRECTORY, 0);
	if (fd < 0 || statx(fd, "", AT_EMPTY_PATH, STATX_INO | STATX_BTIME, st) < 0)
		return err_errno(e, fd < 0 ? fd : -errno, "cannot look at the workspace '%.200s'",
				 s->workdir);
	return 0;
}

/* An inode's number comes again when its folder is gone; the time when it was made does not. */
static int put_project(const struct statx *st, char *line, size_t n)
{
	bool dated = st->stx_mask & STATX_BTIME;

	return snprintf(line, n, "brig home 1\n%u:%u %llu %lld.%09u\n", st->stx_dev_major,
			st->stx_dev_minor, (unsigned long long)st->stx_ino,
			dated ? (long long)st->stx_btime.tv_sec : 0LL,
			dated ? st->stx_btime.tv_nsec : 0U);
}

/* Everything that makes it another HOME, each with its length. */
static int name_it(const struct spec *s, const char *backend, char id[SHA256_HEX], struct err *e)
{
	const char *const texts[] = { s->workdir, fields[FIELD_POLICY].words[s->policy], backend,
				      image_of(s), s->strangers ? "untrusted" : "trusted" };
	unsigned char digest[SHA256_SIZE];
	struct sha256 h;
	struct statx st;
	char line[128];
	int n;

	if (look_at_project(s, &st, e) < 0)
		return -e->code;
	sha256_init(&h);
	n = put_project(&st, line, sizeof(line));
	sha256_add(&h, line, (size_t)n);
	for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
		n = snprintf(line, sizeof(line), "%zu ", strlen(texts[i]));
		sha256_add(&h, line, (size_t)n);
		sha256_add(&h, texts[i], strlen(texts[i]));
	}
	for (size_t i = 0; i < s->home_seed.n; i++) {
		n = snprintf(line, sizeof(line), "seed %zu ", strlen(s->home_seed.v[i]));
		sha256_add(&h, line, (size_t)n);
		sha256_add(&h, s->home_seed.v[i], strlen(s->home_seed.v[i]));
	}
	sha256_end(&h, digest);
	sha256_hex(digest, id);
	return 0;
}

/* --- its folder --- */

static bool ours(const struct stat *st)
{
	return S_ISDIR(st->st_mode) && st->st_uid == geteuid();
}

static int not_ours(const char *id, struct err *e)
{
	return err_refuse(e, ERR_POLICY, EPERM, "remove it, and run it again",
			  "'%.64s' in brig's cache folder is not what brig made", id);
}

/* Is what is locked still at its name? A clear may have moved it away meanwhile. */
static bool still_there(int homes, const char *id, const struct stat *st)
{
	struct ident was = ident_of(st), now;
	struct stat again;

	if (fstatat(homes, id, &again, AT_SYMLINK_NOFOLLOW) < 0)
		return false;
	now = ident_of(&again);
	return ident_same(&was, &now);
}

static int lock_folder(int homes, const char *id, struct err *e)
{
	for (int i = 0; i < TRIES; i++) {
		CLEANUP(fd) int fd = -1;
		struct stat st;

		if (mkdirat(homes, id, 0700) < 0 && errno != EEXIST)
			return err_sys(e, "cannot make a HOME to be kept");
		fd = openat(homes, id, FOLDER);
		if (fd < 0 && errno == ENOENT)
			continue;
		if (fd < 0 || fstat(fd, &st) < 0 || !ours(&st) || (st.st_mode & 077))
			return not_ours(id, e);
		while (flock(fd, LOCK_SH) < 0)
			if (errno != EINTR)
				return err_sys(e, "cannot lock the kept HOME");
		if (still_there(homes, id, &st))
			return TAKE_FD(fd);
	}
	return err_set(e, ERR_UNAVAILABLE, EBUSY, "the kept HOME is being cleared all the time");
}

/* The command owns the folder, and may have closed it to itself; where it runs, it may do so again
 * and again. -ENOENT: it is not there. */
static int open_home(int folder, const char *id, struct err *e)
{
	int fd = -1;

	for (int i = 0; i < TRIES && fd < 0; i++) {
		struct stat st;

		if (fstatat(folder, HOME, &st, AT_SYMLINK_NOFOLLOW) < 0)
			return err_sys(e, "there is no HOME in '%.16s'", id);
		if (!ours(&st))
			return not_ours(id, e);
		if ((st.st_mode & 07777) != 0700 && fchmodat(folder, HOME, 0700, 0) < 0)
			return err_sys(e, "cannot open the kept HOME to its owner");
		fd = openat(folder, HOME, FOLDER);
		if (fd < 0 && errno != EACCES)
			break;
	}
	return fd < 0 ? err_sys(e, "cannot open the kept HOME") : fd;
}

/* Whole under another name first: no command is ever in a HOME that is being begun. Another run may
 * have been faster. */
static int begin_home(int folder, const struct spec *s, const unsigned char *secret, struct err *e)
{
	CLEANUP(fd) int fd = -1;
	char name[33];
	int r;

	if (random_hex(name, sizeof(name), e) < 0)
		return -e->code;
	if (mkdirat(folder, name, 0700) < 0)
		return err_sys(e, "cannot make a HOME to be kept");
	fd = openat(folder, name, FOLDER);
	r = fd < 0 ? err_sys(e, "cannot open a new HOME") : home_seed_put(fd, s, secret, e);
	if (r == 0 && renameat2(folder, name, folder, HOME, RENAME_NOREPLACE) == 0)
		return 0;
	if (r == 0 && errno == EINVAL && renameat(folder, name, folder, HOME) == 0)
		return 0; /* NFS knows no flags */
	if (r == 0 && errno != EEXIST && errno != ENOTEMPTY)
		r = err_sys(e, "cannot make a HOME to be kept");
	(void)tree_remove(folder, name);
	return r;
}

static int make_home(int folder, const char *id, const struct spec *s, const unsigned char *secret,
		     struct err *e)
{
	struct stat st;

	if (s->home_seed.n && fstatat(folder, HOME, &st, AT_SYMLINK_NOFOLLOW) < 0 &&
	    begin_home(folder, s, secret, e) < 0)
		return -e->code;
	if (mkdirat(folder, HOME, 0700) < 0 && errno != EEXIST)
		return err_sys(e, "cannot make a HOME to be kept");
	return open_home(folder, id, e);
}

void kept_home_path(const char *project, char ret[SHA256_HEX])
{
	sha256_of(project, strlen(project), ret);
}

static void about_text(const struct spec *s, const char *backend, struct buf *b)
{
	char path[SHA256_HEX], folder[128];
	struct statx st;
	struct err unused;
	struct json j;

	kept_home_path(s->workdir, path);
	json_init(&j, b, false);
	json_object(&j);
	json_kstr(&j, "project", s->workdir);
	json_kstr(&j, "path", path);
	if (look_at_project(s, &st, &unused) == 0) {
		(void)put_project(&st, folder, sizeof(folder));
		json_kstr(&j, "folder", folder);
	}
	json_kstr(&j, "backend", backend);
	json_kstr(&j, "policy", fields[FIELD_POLICY].words[s->policy]);
	json_kstr(&j, "image", image_of(s));
	json_kbool(&j, "trusted", !s->strangers);
	if (s->home_seed.n)
		json_kstr(&j, "seed", s->home_seed.v[0]);
	json_object_end(&j);
	buf_putc(b, '\n');
}

/* Written once, whole; afterwards its time alone changes. */
static int note_use(int folder, const struct spec *s, const char *backend, struct err *e)
{
	CLEANUP(buf) struct buf b = BUF_INIT(ABOUT_MAX);
	CLEANUP(fd) int fd = -1;
	char name[33];
	int r;

	if (utimensat(folder, ABOUT, NULL, AT_SYMLINK_NOFOLLOW) == 0)
		return 0;
	if (random_hex(name, sizeof(name), e) < 0)
		return -e->code;
	about_text(s, backend, &b);
	fd = openat(folder, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0)
		return err_sys(e, "cannot record the owner of the kept HOME");
	r = b.failed ? -ENOMEM : fd_write_all(fd, buf_str(&b), b.len);
	if (r == 0 && renameat(folder, name, folder, ABOUT) < 0)
		r = -errno;
	if (r < 0)
		(void)unlinkat(folder, name, 0);
	return r < 0 ? err_errno(e, r, "cannot record the owner of the kept HOME") : 0;
}

/* --- what it may hold --- */

static int too_large(const struct spec *s, struct err *e)
{
	return err_refuse(
		e, ERR_POLICY, EDQUOT,
		"brig cache shows it, brig cache clear empties it; or a larger --home-size",
		"the kept HOME of '%.200s' holds more than home_size, %llu MiB", s->workdir,
		(unsigned long long)(s->home_size >> 20));
}

static int no_look(const struct spec *s, int code, struct err *e)
{
	(void)err_errno(e, code, "cannot look through the kept HOME of '%.200s'", s->workdir);
	switch (-code) {
	case EMFILE:
		return err_hint(e, "more files must be open than 'ulimit -n' allows: raise it, or "
				   "brig cache clear");
	case EACCES:
		return err_hint(e, "another run of the project may be closing its folders: end it "
				   "(brig cache shows whether there is one), or brig cache clear");
	case EPERM:
		return err_hint(e, "there are somebody else's files in it: brig cache clear tells "
				   "what is left");
	default:
		return -code;
	}
}

static int check_size(const struct spec *s, int home, struct err *e)
{
	uint64_t bytes = 0;
	struct statfs fs;
	int r = tree_size(home, s->home_size, &bytes);

	if (r == -ELOOP)
		return err_refuse(e, ERR_POLICY, ELOOP, "brig cache clear empties it",
				  "the kept HOME of '%.200s' has folders more than %d deep",
				  s->workdir, TREE_DEPTH);
	if (r < 0)
		return no_look(s, r, e);
	if (bytes > s->home_size)
		return too_large(s, e);
	if (s->limits.disk && (fstatfs(home, &fs) < 0 || fs.f_type == TMPFS_MAGIC))
		return err_refuse(
			e, ERR_UNAVAILABLE, ENOTSUP,
			"set XDG_CACHE_HOME to a folder on a disk, or leave --disk out",
			"limits.disk cannot count what is written to a HOME kept in memory");
	return 0;
}

/* --- what placeholders are made from --- */

static int read_key(int state, unsigned char key[SHA256_SIZE])
{
	CLEANUP(fd) int fd = openat(state, KEY_FILE, O_RDONLY | O_NOFOLLOW | O_NOCTTY | O_CLOEXEC);
	char text[2 * SHA256_SIZE + 1];
	struct stat st;

	if (fd < 0)
		return -errno;
	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_uid != geteuid() ||
	    (st.st_mode & 077) || read(fd, text, sizeof(text)) != (ssize_t)sizeof(text) ||
	    hex_decode(text, key, SHA256_SIZE) < 0)
		return -EINVAL;
	return 0;
}

/* Whole under another name first: nobody ever reads half a key. */
static int make_key(int state, struct err *e)
{
	CLEANUP(fd) int fd = -1;
	unsigned char key[SHA256_SIZE];
	char text[2 * SHA256_SIZE + 1], name[33];
	int r;

	if (random_fill(key, sizeof(key), e) < 0 || random_hex(name, sizeof(name), e) < 0)
		return -e->code;
	hex_encode(key, SHA256_SIZE, text);
	text[2 * SHA256_SIZE] = '\n';
	fd = openat(state, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	r = fd < 0 ? -errno : fd_write_all(fd, text, sizeof(text));
	if (r == 0 && linkat(state, name, state, KEY_FILE, 0) < 0 && errno != EEXIST)
		r = -errno;
	if (fd >= 0)
		(void)unlinkat(state, name, 0);
	explicit_bzero(key, sizeof(key));
	explicit_bzero(text, sizeof(text));
	return r;
}

static int make_secret(const char *id, struct kept_home *k, struct err *e)
{
	CLEANUP(fd) int state = state_open(".", NULL, 0, e);
	unsigned char key[SHA256_SIZE];
	struct hmac_key mac;
	int r;

	if (state < 0)
		return -e->code;
	r = read_key(state, key);
	if (r == -ENOENT) {
		r = make_key(state, e);
		r = r < 0 ? r : read_key(state, key);
	}
	if (r < 0)
		return err_refuse(e, ERR_UNAVAILABLE, -r,
				  "remove it: placeholders that tools have saved end with it",
				  "'%s' in brig's state folder is not the key that brig made",
				  KEY_FILE);
	hmac_key_init(&mac, key, sizeof(key));
	hmac_sha256(&mac, id, strlen(id), k->secret);
	k->has_secret = true;
	explicit_bzero(key, sizeof(key));
	explicit_bzero(&mac, sizeof(mac));
	return 0;
}

/* --- for a run --- */

/* By whatever links the cache folder is reached: a bind follows none. */
static int real_place(int home, char folder[PATH_MAX], struct err *e)
{
	char path[32];
	ssize_t n;

	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", home);
	n = readlink(path, folder, PATH_MAX - 1);
	if (n <= 0)
		return err_sys(e, "cannot tell where the kept HOME is");
	folder[n] = '\0';
	return 0;
}

int kept_home_open(const struct spec *s, const char *backend, struct kept_home *ret, struct err *e)
{
	struct kept_home k = KEPT_HOME_NONE;
	CLEANUP(fd) int homes = -1, lock = -1, home = -1;
	char id[SHA256_HEX], path[PATH_MAX];

	if (name_it(s, backend, id, e) < 0)
		return -e->code;
	homes = cache_open(HOMES, path, sizeof(path), e);
	if (homes < 0)
		return err_wrap(e, "home keep");
	if (s->network == NETWORK_PROXY && make_secret(id, &k, e) < 0)
		return -e->code;
	lock = lock_folder(homes, id, e);
	home = lock < 0 ? -1 : make_home(lock, id, s, k.has_secret ? k.secret : NULL, e);
	if (home < 0 || note_use(lock, s, backend, e) < 0 || check_size(s, home, e) < 0 ||
	    real_place(home, k.folder, e) < 0)
		return -e->code;
	k.lock = TAKE_FD(lock);
	*ret = k;
	return 0;
}

void kept_home_done(struct kept_home *k)
{
	k->lock = fd_close(k->lock);
	explicit_bzero(k->secret, sizeof(k->secret));
}

int kept_home_find(const struct spec *s, const char *backend, char folder[PATH_MAX])
{
	CLEANUP(fd) int homes = -1, home = -1;
	char id[SHA256_HEX], path[PATH_MAX], below[SHA256_HEX + 8];
	struct err e;

	if (name_it(s, backend, id, &e) < 0)
		return -e.code;
	homes = cache_find(HOMES, path, sizeof(path));
	(void)snprintf(below, sizeof(below), "%s/" HOME, id);
	home = homes < 0 ? -1 : fd_open_nolinks(homes, below, O_PATH | O_DIRECTORY, FD_BENEATH);
	return home < 0 || real_place(home, folder, &e) < 0 ? -ENOENT : 0;
}

int kept_home_spec(const struct spec *s, const char *folder, const unsigned char *secret,
		   struct spec **ret, struct err *e)
{
	CLEANUP(spec) struct spec *own = spec_clone(s, e);

	if (!own)
		return -e->code;
	own->command.argv = s->command.argv;
	own->home_folder = arena_strdup(own->arena, folder);
	own->home_secret = secret;
	if (!own->home_folder)
		return err_nomem(e);
	*ret = TAKE_PTR(own);
	return 0;
}

/* --- all of them --- */

/* Was the folder that it is of removed, or made anew? A name that is no text cannot be looked for.
 */
static bool is_without_project(const char *project, const char *path, const char *folder)
{
	CLEANUP(fd) int fd = -1;
	char hash[SHA256_HEX], now[128];
	struct statx st;

	if (!project || project[0] != '/' || !path)
		return false;
	kept_home_path(project, hash);
	if (!str_eq(hash, path))
		return false;
	fd = fd_open_nolinks(AT_FDCWD, project, O_PATH | O_DIRECTORY, 0);
	if (fd < 0)
		return fd == -ENOENT || fd == -ENOTDIR;
	if (!folder || statx(fd, "", AT_EMPTY_PATH, STATX_INO | STATX_BTIME, &st) < 0)
		return false;
	(void)put_project(&st, now, sizeof(now));
	return !str_eq(folder, now);
}

static int one_row(int homes, const char *id,
		   int (*each)(void *arg, const struct kept_home_row *row), void *arg)
{
	CLEANUP(fd) int folder = openat(homes, id, FOLDER), home = -1;
	CLEANUP(jread) struct jread *about = NULL;
	struct kept_home_row row = { .id = id, .leftover = id[0] == '.' };
	char text[ABOUT_MAX];
	struct stat st = { 0 };
	struct err e;
	ssize_t n;

	if (folder < 0)
		return 0;
	n = fd_read_file(folder, ABOUT, text, sizeof(text));
	if (n <= 0 || jread_parse(text, (size_t)n, &about, &e) < 0)
		about = NULL;
	row.project = jread_str(about, "project");
	row.path = jread_str(about, "path");
	row.backend = jread_str(about, "backend");
	row.policy = jread_str(about, "policy");
	row.image = jread_str(about, "image");
	row.seed = jread_str(about, "seed");
	row.trusted = jread_bool(about, "trusted");
	row.gone = is_without_project(row.project, row.path, jread_str(about, "folder"));
	row.used = !claim_lock(folder, LOOK_MS);
	(void)flock(folder, LOCK_UN);
	if (fstatat(folder, ABOUT, &st, AT_SYMLINK_NOFOLLOW) == 0)
		row.last = st.st_mtim.tv_sec;
	home = open_home(folder, id, &e);
	row.more = home < 0 ? home != -ENOENT
			    : tree_size(home, COUNT_MOST, &row.bytes) < 0 || row.bytes > COUNT_MOST;
	return each(arg, &row);
}

static bool kept_home_is_id(const char *name)
{
	return strlen(name) == SHA256_HEX - 1 && strspn(name, "0123456789abcdef") == SHA256_HEX - 1;
}

static bool kept_home_is_gone(const char *name)
{
	return str_starts(name, GONE);
}

static int open_homes(void)
{
	char path[PATH_MAX];

	return cache_find(HOMES, path, sizeof(path));
}

int kept_home_each(int (*each)(void *arg, const struct kept_home_row *row), void *arg,
		   struct err *e)
{
	CLEANUP(fd) int homes = open_homes();
	const struct fd_entry *en;
	struct folder d;
	int r = 0;

	if (homes < 0)
		return errno == ENOENT ? 0 : err_sys(e, "cannot open brig's cache folder");
	folder_begin(&d, homes);
	while (r == 0 && (en = folder_next(&d))) {
		char name[256];

		if (!kept_home_is_id(en->name) && !kept_home_is_gone(en->name))
			continue;
		(void)snprintf(name, sizeof(name), "%s", en->name);
		r = one_row(homes, name, each, arg);
	}
	return r;
}

/* What is left, and why: by errno, as nobody else knows. */
static int left_over(const char *gone, int code, struct err *e)
{
	const char *why = "";

	(void)err_errno(e, code, "cannot remove all of a kept HOME");
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
	return err_hint(e, "what is left is '%s' in the folder 'homes' of brig's cache; %s", gone,
			why);
}

/* Under a shared lock: a run that waits for it goes on, and whoever tidies knows that somebody is
 * at it. */
static int remove_gone(int homes, const char *gone, int folder, struct err *e)
{
	int r;

	if (folder >= 0)
		(void)flock(folder, LOCK_SH);
	r = tree_remove(homes, gone);
	return r < 0 ? left_over(gone, r, e) : 0;
}

/* Under the lock it gets another name, by which no run finds it: then there is time. *folder is the
 * caller's. 1: there is nothing. */
static int take_away(int homes, const char *id, char gone[48], int *folder, struct err *e)
{
	CLEANUP(fd) int fd = openat(homes, id, FOLDER);
	char hex[33];
	struct stat st;

	if (fd < 0)
		return errno == ENOENT ? 1 : err_sys(e, "cannot open the kept HOME '%.16s'", id);
	if (!claim_lock(fd, LOOK_MS))
		return err_refuse(e, ERR_UNAVAILABLE, EBUSY, "end that run first, or wait for it",
				  "the kept HOME '%.16s' is used by a run", id);
	if (fstat(fd, &st) < 0 || !still_there(homes, id, &st))
		return 1;
	if (random_hex(hex, sizeof(hex), e) < 0)
		return -e->code;
	(void)snprintf(gone, 48, GONE "%s", hex);
	if (renameat(homes, id, homes, gone) < 0)
		return err_sys(e, "cannot move the kept HOME '%.16s' away", id);
	*folder = TAKE_FD(fd);
	return 0;
}

int kept_home_clear(const char *id, struct err *e)
{
	CLEANUP(fd) int homes = open_homes(), folder = -1;
	char gone[48];
	int r;

	if (homes < 0)
		return errno == ENOENT ? 0 : err_sys(e, "cannot open brig's cache folder");
	r = take_away(homes, id, gone, &folder, e);
	if (r)
		return r < 0 ? r : 0;
	return remove_gone(homes, gone, folder, e);
}

/* 1: somebody else is at it. */
static int tidy_one(int homes, const char *gone, struct err *e)
{
	CLEANUP(fd) int folder = openat(homes, gone, FOLDER);

	return folder >= 0 && !claim_lock(folder, LOOK_MS) ? 1
							   : remove_gone(homes, gone, folder, e);
}

int kept_home_tidy(size_t *left, struct err *e)
{
	CLEANUP(fd) int homes = open_homes();
	const struct fd_entry *en;
	struct folder d;
	int result = 0;

	*left = 0;
	if (homes < 0)
		return 0;
	folder_begin(&d, homes);
	while ((en = folder_next(&d))) {
		struct err one = { 0 };
		char name[256];

		if (!kept_home_is_gone(en->name))
			continue;
		(void)snprintf(name, sizeof(name), "%s", en->name);
		if (tidy_one(homes, name, &one) >= 0)
			continue;
		++*left;
		if (result == 0)
			*e = one;
		result = -one.code;
	}
	return result;
}
