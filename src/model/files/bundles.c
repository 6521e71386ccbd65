/* SPDX-License-Identifier: Apache-2.0 */
#include "model/files/bundles.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/bytes/jread.h"
#include "base/bytes/json.h"
#include "base/files/draft.h"
#include "base/files/fd.h"
#include "base/files/folder.h"
#include "base/files/state.h"
#include "base/text/buf.h"
#include "base/text/str.h"

#define FOLDER "bundles"
#define RECORD_MAX ((size_t)32 << 10)
#define ROLE "role.yaml"

static int file_name(const char *name, const char *version, char out[256], struct err *e)
{
	if (strchr(name, '/') || strchr(version, '/') ||
	    snprintf(out, 256, "%s@%s.json", name, version) >= 256)
		return err_set(e, ERR_USAGE, EINVAL, "'%.80s@%.80s' is no name of a bundle", name,
			       version);
	return 0;
}

static bool bundles_take(char *to, size_t room, const char *from)
{
	return from && snprintf(to, room, "%s", from) < (int)room;
}

static bool read_record(int dir, const char *file, struct bundle_record *b)
{
	CLEANUP(mem) char *text = malloc(RECORD_MAX);
	CLEANUP(jread) struct jread *v = NULL;
	struct err e = { 0 };
	ssize_t n = text ? fd_read_file(dir, file, text, RECORD_MAX) : -ENOMEM;

	if (n < 0 || jread_parse(text, (size_t)n, &v, &e) < 0)
		return false;
	b->installed = (uint64_t)jread_int(v, "installed", 0);
	return bundles_take(b->name, sizeof(b->name), jread_str(v, "name")) &&
	       bundles_take(b->version, sizeof(b->version), jread_str(v, "version")) &&
	       bundles_take(b->digest, sizeof(b->digest), jread_str(v, "digest")) &&
	       bundles_take(b->folder, sizeof(b->folder), jread_str(v, "folder")) &&
	       bundles_take(b->source, sizeof(b->source), jread_str(v, "source")) &&
	       bundles_take(b->signer, sizeof(b->signer), jread_str(v, "signer"));
}

int bundle_record_load(const char *name, const char *version, struct bundle_record *ret,
		       struct err *e)
{
	CLEANUP(fd) int dir = state_find(FOLDER, NULL, 0);
	char file[256];

	if (file_name(name, version, file, e) < 0)
		return -e->code;
	if (dir < 0 || faccessat(dir, file, F_OK, AT_SYMLINK_NOFOLLOW) < 0)
		return 1;
	if (!read_record(dir, file, ret))
		return err_refuse(e, ERR_INTERNAL, EBADMSG,
				  "brig bundle remove --forget removes the record",
				  "the record of bundle '%s@%s' cannot be read", name, version);
	return 0;
}

int bundle_record_save(const struct bundle_record *b, struct err *e)
{
	CLEANUP(fd) int dir = state_open(FOLDER, NULL, 0, e);
	CLEANUP(buf) struct buf text = BUF_INIT(RECORD_MAX);
	struct json j;
	char file[256];
	int r;

	if (dir < 0 || file_name(b->name, b->version, file, e) < 0)
		return -e->code;
	json_init(&j, &text, true);
	json_object(&j);
	json_kstr(&j, "name", b->name);
	json_kstr(&j, "version", b->version);
	json_kstr(&j, "digest", b->digest);
	json_kstr(&j, "folder", b->folder);
	json_kstr(&j, "source", b->source);
	json_kstr(&j, "signer", b->signer);
	json_ku64(&j, "installed", b->installed);
	json_object_end(&j);
	buf_putc(&text, '\n');
	r = draft_write(dir, file, &text, 0600, false);
	return r < 0 ? err_errno(e, r, "cannot write the record of bundle '%s'", b->name) : 0;
}

int bundle_record_drop(const char *name, const char *version, struct err *e)
{
	CLEANUP(fd) int dir = state_find(FOLDER, NULL, 0);
	char file[256];

	if (file_name(name, version, file, e) < 0)
		return -e->code;
	if (dir >= 0 && unlinkat(dir, file, 0) < 0 && errno != ENOENT)
		return err_sys(e, "cannot remove the record of bundle '%s'", name);
	return 0;
}

int bundle_records(bundle_record_fn *fn, void *arg)
{
	CLEANUP(fd) int dir = state_find(FOLDER, NULL, 0);
	CLEANUP(mem) struct bundle_record *b = NULL;
	const struct fd_entry *d;
	struct folder f;
	int r = 0;

	if (dir < 0)
		return 0;
	b = malloc(sizeof(*b));
	if (!b)
		return -ENOMEM;
	folder_begin(&f, dir);
	while (r == 0 && (d = folder_next(&f)))
		if (str_ends_nocase(d->name, ".json") && read_record(dir, d->name, b))
			r = fn(arg, b);
	return r;
}

/* ---- whose file is it? ---- */

static bool is_under(const char *path, const char *folder)
{
	size_t n = strlen(folder);

	return n && str_starts(path, folder) && path[n] == '/';
}

/* The folder may have been moved behind a link since. */
static bool is_in(const char *path, const char *folder)
{
	CLEANUP(mem) char *real = *folder ? realpath(folder, NULL) : NULL;

	return is_under(path, folder) || (real && is_under(path, real));
}

static int is_below(void *arg, const struct bundle_record *b)
{
	return is_in(arg, b->folder);
}

/* What cannot be looked up is taken for a bundle's; so is what lies among them without a record. */
bool bundle_has(const char *path)
{
	CLEANUP(mem) char *copy = strdup(path);
	char all[PATH_MAX];

	return !copy || (data_place(FOLDER, all, sizeof(all)) == 0 && is_in(path, all)) ||
	       bundle_records(is_below, copy) != 0;
}

/* ---- by name ---- */

struct bundle_sought {
	char name[BUNDLE_RECORD_WORD], version[BUNDLE_RECORD_WORD]; /* "": any */
	char *path;
	unsigned found;
};

static int match(void *arg, const struct bundle_record *b)
{
	struct bundle_sought *w = arg;

	if (!str_eq(b->name, w->name) || (w->version[0] && !str_eq(b->version, w->version)))
		return 0;
	if (!b->folder[0])
		return 0;
	if (snprintf(w->path, PATH_MAX, "%s/" ROLE, b->folder) < PATH_MAX)
		w->found++;
	return 0;
}

int bundle_role(const char *word, char path[PATH_MAX], struct err *e)
{
	const char *at = strchr(word, '@');
	size_t n = at ? (size_t)(at - word) : strlen(word);
	struct bundle_sought w = { .path = path };
	struct stat st;

	if (strchr(word, '/') || !n || n >= sizeof(w.name) ||
	    (at && !bundles_take(w.version, sizeof(w.version), at + 1)))
		return 1;
	memcpy(w.name, word, n);
	if (bundle_records(match, &w) < 0)
		return err_nomem(e);
	/* A file of a stranger's project must not be taken for it, nor it for the file. A folder is
	 * no role: it may be the one that the bundle was packed from. */
	if (w.found && lstat(word, &st) == 0 && !S_ISDIR(st.st_mode))
		return err_refuse(e, ERR_USAGE, EEXIST,
				  "./NAME names the file; for the bundle, start it in another "
				  "folder",
				  "'%.100s' is an installed bundle, and a file in this folder",
				  word);
	if (w.found > 1)
		return err_refuse(e, ERR_USAGE, EINVAL,
				  "name one: NAME@VERSION; brig bundle list shows them",
				  "%u versions of bundle '%.64s' are installed", w.found, w.name);
	return w.found ? 0 : 1;
}
