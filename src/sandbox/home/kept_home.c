/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox/home/kept_home.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/bytes/hex.h"
#include "base/bytes/hmac.h"
#include "base/bytes/jread.h"
#include "base/bytes/json.h"
#include "base/bytes/random.h"
#include "base/files/fd.h"
#include "base/files/state.h"
#include "base/files/tree.h"
#include "base/text/buf.h"
#include "base/text/str.h"
#include "model/settings/paths.h"
#include "sandbox/home/home_seed.h"
#include "sandbox/home/kept_folder.h"

#define KEY_FILE "home.key" /* of the state folder */
#define PROJECT "brig home 1\n"
#define FOLDER (O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)

enum { PROJECT_TEXT = sizeof(PROJECT) + KEPT_FOLDER_PROJECT };

static const struct kept_folder_kind homes = {
	.folder = "homes", .shown = "home", .noun = "kept HOME", .clear = "brig cache clear"
};

/* --- whose it is --- */

static int no_project(struct err *e)
{
	return err_refuse(e, ERR_USAGE, EINVAL,
			  "run it from a project's folder, or name one: --workdir DIR",
			  "home 'keep' needs a workspace: there is no project to keep a HOME for");
}

/* All that says which folder the project is. */
static int project_of(const struct spec *s, char line[PROJECT_TEXT], struct err *e)
{
	char identity[KEPT_FOLDER_PROJECT];

	if (s->private_workspace || s->no_workspace || !s->workdir)
		return no_project(e);
	if (kept_folder_project(s, identity, e) < 0)
		return -e->code;
	(void)snprintf(line, PROJECT_TEXT, PROJECT "%s", identity);
	return 0;
}

/* Everything that makes it another HOME, each with its length. */
static int name_it(const struct spec *s, const char *backend, char id[SHA256_HEX], struct err *e)
{
	unsigned char digest[SHA256_SIZE];
	char line[PROJECT_TEXT];
	struct sha256 h;

	if (project_of(s, line, e) < 0)
		return -e->code;
	sha256_init(&h);
	sha256_add(&h, line, strlen(line));
	kept_folder_add_text(&h, s->workdir);
	kept_folder_add_trust(&h, s, backend);
	for (size_t i = 0; i < s->home_seed.n; i++) {
		sha256_add(&h, "seed ", strlen("seed "));
		kept_folder_add_text(&h, s->home_seed.v[i]);
	}
	sha256_end(&h, digest);
	sha256_hex(digest, id);
	return 0;
}

/* --- its folder --- */

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
	if (r == 0 && renameat2(folder, name, folder, homes.shown, RENAME_NOREPLACE) == 0)
		return 0;
	if (r == 0 && errno == EINVAL && renameat(folder, name, folder, homes.shown) == 0)
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

	if (s->home_seed.n && fstatat(folder, homes.shown, &st, AT_SYMLINK_NOFOLLOW) < 0 &&
	    begin_home(folder, s, secret, e) < 0)
		return -e->code;
	return kept_folder_make(&homes, folder, id, e);
}

void kept_home_path(const char *project, char ret[SHA256_HEX])
{
	sha256_of(project, strlen(project), ret);
}

struct owner {
	const struct spec *spec;
	const char *backend;
};

static void about_text(const void *arg, struct buf *b)
{
	const struct owner *o = arg;
	const struct spec *s = o->spec;
	char path[SHA256_HEX], folder[PROJECT_TEXT];
	struct err unused;
	struct json j;

	kept_home_path(s->workdir, path);
	json_init(&j, b, false);
	json_object(&j);
	json_kstr(&j, "project", s->workdir);
	json_kstr(&j, "path", path);
	if (project_of(s, folder, &unused) == 0)
		json_kstr(&j, "folder", folder);
	kept_folder_put_trust(&j, s, o->backend);
	if (s->home_seed.n)
		json_kstr(&j, "seed", s->home_seed.v[0]);
	json_object_end(&j);
	buf_putc(b, '\n');
}

/* --- what it may hold --- */

static int check_size(const struct spec *s, int home, struct err *e)
{
	char whose[PATH_MAX + 8];

	(void)snprintf(whose, sizeof(whose), "of '%s'", s->workdir);
	if (kept_folder_check_size(&homes, home, s->home_size, whose, "home_size", e) < 0)
		return -e->code;
	return s->limits.disk ? kept_folder_check_disk(&homes, home, e) : 0;
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

int kept_home_open(const struct spec *s, const char *backend, struct kept_home *ret, struct err *e)
{
	const struct owner owner = { s, backend };
	struct kept_home k = KEPT_HOME_NONE;
	CLEANUP(fd) int parent = -1, lock = -1, home = -1;
	char id[SHA256_HEX];

	if (name_it(s, backend, id, e) < 0)
		return -e->code;
	parent = kept_folder_parent(&homes, true, e);
	if (parent < 0)
		return err_wrap(e, "home keep");
	if (s->network == NETWORK_PROXY && make_secret(id, &k, e) < 0)
		return -e->code;
	lock = kept_folder_lock(&homes, parent, id, e);
	home = lock < 0 ? -1 : make_home(lock, id, s, k.has_secret ? k.secret : NULL, e);
	if (home < 0 || kept_folder_note_use(&homes, lock, about_text, &owner, e) < 0 ||
	    check_size(s, home, e) < 0 || kept_folder_place(&homes, home, k.folder, e) < 0)
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
	char id[SHA256_HEX];
	struct err e;

	return name_it(s, backend, id, &e) < 0 ? -e.code : kept_folder_find(&homes, id, folder);
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
	char hash[SHA256_HEX], now[KEPT_FOLDER_PROJECT];

	if (!project || project[0] != '/' || !path)
		return false;
	kept_home_path(project, hash);
	if (!str_eq(hash, path))
		return false;
	fd = fd_open_nolinks(AT_FDCWD, project, O_PATH | O_DIRECTORY, 0);
	if (fd < 0)
		return fd == -ENOENT || fd == -ENOTDIR;
	if (!folder || !str_starts(folder, PROJECT) || !kept_folder_project_fd(fd, now))
		return false;
	return !str_eq(folder + strlen(PROJECT), now);
}

struct home_rows {
	int (*each)(void *arg, const struct kept_home_row *row);
	void *arg;
};

static int home_row(void *arg, const struct kept_folder_row *row)
{
	const struct home_rows *rows = arg;
	struct kept_home_row h = { .id = row->id,
				   .project = jread_str(row->about, "project"),
				   .path = jread_str(row->about, "path"),
				   .backend = jread_str(row->about, "backend"),
				   .policy = jread_str(row->about, "policy"),
				   .image = jread_str(row->about, "image"),
				   .seed = jread_str(row->about, "seed"),
				   .trusted = jread_bool(row->about, "trusted"),
				   .leftover = row->leftover,
				   .used = row->used,
				   .bytes = row->bytes,
				   .more = row->more,
				   .last = row->last };

	h.gone = is_without_project(h.project, h.path, jread_str(row->about, "folder"));
	return rows->each(rows->arg, &h);
}

int kept_home_each(int (*each)(void *arg, const struct kept_home_row *row), void *arg,
		   struct err *e)
{
	struct home_rows rows = { each, arg };

	return kept_folder_each(&homes, home_row, &rows, e);
}

int kept_home_clear(const char *id, struct err *e)
{
	return kept_folder_clear(&homes, id, e);
}

int kept_home_tidy(size_t *left, struct err *e)
{
	return kept_folder_tidy(&homes, left, e);
}
