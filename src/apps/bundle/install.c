/* SPDX-License-Identifier: Apache-2.0 */
/* apps/bundle/install.c - see install.h.
 *
 *   digest compared, signature verified -> .new-X made and filled -> compared with the record of
 *   that name and version -> recorded -> renamed
 *
 * The record is there before the files have their name: from the first moment on they are known as
 * a stranger's. */
#include "apps/bundle/install.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>

#include "apps/bundle/archive.h"
#include "apps/bundle/ssh_sign.h"
#include "base/bytes/random.h"
#include "base/files/draft.h"
#include "base/files/fd.h"
#include "base/files/state.h"
#include "base/files/tree.h"
#include "base/text/str.h"
#include "model/files/trust.h"

struct installing {
	const struct install_want *want;
	struct installed *ret;
	int top; /* of all bundles */
	char path[PATH_MAX], fresh[32];
	struct buf text;
	bool known; /* there was a record */
	struct bundle_record before;
};

void installed_done(struct installed *i)
{
	bundle_manifest_done(&i->manifest);
}

/* ---- before anything is read ---- */

static int check_sealed(struct installing *x, struct err *e)
{
	const struct install_want *w = x->want;
	struct bundle_record *b = &x->ret->record;
	uint64_t size;

	if (sealed_digest(w->sealed->archive, b->digest, &size, e) < 0)
		return -e->code;
	if (w->digest && !str_eq(w->digest, b->digest))
		return err_refuse(e, ERR_POLICY, EBADMSG, "it is not the bundle that you mean",
				  "the bundle's digest is %.80s", b->digest);
	(void)snprintf(b->source, sizeof(b->source), "%s", w->source);
	b->installed = (uint64_t)time(NULL);
	return w->verify_key ? sign_verify(w->sealed->archive, w->sealed->signature, w->verify_key,
					   b->signer, sizeof(b->signer), e)
			     : 0;
}

/* ---- files ---- */

static int make_fresh(struct installing *x, struct err *e)
{
	char dice[17];
	int fd;

	if (random_hex(dice, sizeof(dice), e) < 0)
		return -e->code;
	(void)snprintf(x->fresh, sizeof(x->fresh), ".new-%s", dice);
	if (mkdirat(x->top, x->fresh, 0700) < 0) {
		x->fresh[0] = '\0';
		return err_sys(e, "cannot make a folder in '%.200s'", x->path);
	}
	fd = openat(x->top, x->fresh, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return fd < 0 ? err_sys(e, "cannot open the new folder in '%.200s'", x->path) : fd;
}

static int keep_manifest(const struct installing *x, int folder, struct err *e)
{
	int r = draft_write(folder, MANIFEST_NAME, &x->text, 0644, false);

	return r < 0 ? err_errno(e, r, "cannot write the bundle's manifest") : 0;
}

static int unpack(struct installing *x, struct err *e)
{
	CLEANUP(fd) int folder = make_fresh(x, e);
	struct bundle_record *b = &x->ret->record;

	if (folder < 0)
		return folder;
	if (archive_unpack(x->want->sealed->archive, folder, &x->text, e) < 0 ||
	    bundle_manifest_read(buf_str(&x->text), x->text.len, &x->ret->manifest, e) < 0)
		return -e->code;
	(void)snprintf(b->name, sizeof(b->name), "%s", x->ret->manifest.name);
	(void)snprintf(b->version, sizeof(b->version), "%s", x->ret->manifest.version);
	if (keep_manifest(x, folder, e) < 0)
		return -e->code;
	/* Its files may be shown to a sandbox, which is another user's if root starts it. */
	return fchmod(folder, 0755) < 0 ? err_sys(e, "cannot open up the new folder") : 0;
}

/* ---- its name ---- */

/* 1: it is installed already. */
static int check_record(struct installing *x, struct err *e)
{
	struct bundle_record *b = &x->ret->record;
	int r = bundle_record_load(b->name, b->version, &x->before, e);

	if (r < 0)
		return r;
	x->known = r == 0;
	if (!x->known)
		return 0;
	if (!str_eq(x->before.digest, b->digest)) {
		(void)err_set(e, ERR_POLICY, EEXIST,
			      "bundle %s@%s was %.71s, and is another one now: its packer should "
			      "have given it a new version",
			      b->name, b->version, x->before.digest);
		return err_hint(e,
				"if that is meant: brig bundle remove --forget %s@%s, then again",
				b->name, b->version);
	}
	return x->before.folder[0] != '\0';
}

static int install_place(struct installing *x, struct err *e)
{
	struct bundle_record *b = &x->ret->record;
	CLEANUP(mem) char *real = realpath(x->path, NULL);
	CLEANUP(fd) int above = -1;

	if (!real || snprintf(b->folder, sizeof(b->folder), "%s/%s/%s", real, b->name,
			      b->version) >= (int)sizeof(b->folder))
		return err_set(e, ERR_INTERNAL, ENAMETOOLONG, "the path of the bundle is too long");
	if (mkdirat(x->top, b->name, 0755) < 0 && errno != EEXIST)
		return err_sys(e, "cannot make the folder of bundle '%s'", b->name);
	above = openat(x->top, b->name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (above < 0 || fchmod(above, 0755) < 0)
		return err_sys(e, "cannot open the folder of bundle '%s'", b->name);
	if (bundle_record_save(b, e) < 0)
		return -e->code;
	if (renameat2(x->top, x->fresh, above, b->version, RENAME_NOREPLACE) == 0) {
		x->fresh[0] = '\0';
		return 0;
	}
	(void)err_sys(e, "cannot give bundle '%s' its place '%.200s'", b->name, b->folder);
	if (e->code == EEXIST)
		(void)err_hint(e, "nothing is recorded of what is there: move it away");
	if (x->known) {
		struct err unused = { 0 };

		(void)bundle_record_save(&x->before, &unused);
	} else {
		struct err unused = { 0 };

		(void)bundle_record_drop(b->name, b->version, &unused);
	}
	(void)unlinkat(x->top, b->name, AT_REMOVEDIR);
	return -e->code;
}

static int install(struct installing *x, struct err *e)
{
	int r;

	if (check_sealed(x, e) < 0)
		return -e->code;
	x->top = data_open("bundles", x->path, sizeof(x->path), e);
	if (x->top < 0 || unpack(x, e) < 0)
		return -e->code;
	/* One at a time: a second one of the same name would take the first one's record away. */
	if (flock(x->top, LOCK_EX) < 0)
		return err_sys(e, "cannot lock '%.200s'", x->path);
	r = check_record(x, e);
	if (r > 0) {
		x->ret->record = x->before;
		x->ret->already = true;
		return 0;
	}
	return r < 0 ? r : install_place(x, e);
}

int bundle_install(const struct install_want *w, struct installed *ret, struct err *e)
{
	CLEANUP(mem) struct installing *x = calloc(1, sizeof(*x));
	int r;

	if (!x)
		return err_nomem(e);
	*ret = (struct installed){ 0 };
	x->want = w;
	x->ret = ret;
	x->top = -1;
	x->text = (struct buf)BUF_INIT(MANIFEST_MAX + 1);
	r = install(x, e);
	if (x->fresh[0])
		(void)tree_remove(x->top, x->fresh);
	(void)fd_close(x->top);
	buf_done(&x->text);
	if (r < 0)
		installed_done(ret);
	return r;
}

/* ---- the end ---- */

static int remove_files(const struct bundle_record *b, struct err *e)
{
	char above[PATH_MAX], role[PATH_MAX + 16];
	char *slash;
	CLEANUP(fd) int fd = -1;
	int r;

	(void)snprintf(above, sizeof(above), "%s", b->folder);
	slash = strrchr(above, '/');
	if (!slash || slash == above)
		return err_set(e, ERR_INTERNAL, EINVAL, "the record of bundle '%s' is damaged",
			       b->name);
	*slash = '\0';
	(void)snprintf(role, sizeof(role), "%s/" MANIFEST_ROLE, b->folder);
	if (trust_remove(role, e) < 0)
		return -e->code;
	fd = fd_open_nolinks(AT_FDCWD, above, O_RDONLY | O_DIRECTORY, 0);
	r = fd == -ENOENT ? 0 : fd < 0 ? fd : tree_remove(fd, slash + 1);
	if (r < 0 && r != -ENOENT)
		return err_errno(e, r, "cannot remove '%.200s'", b->folder);
	(void)rmdir(above); /* if that was the last version */
	return 0;
}

int bundle_remove(const char *name, const char *version, bool forget, struct err *e)
{
	struct bundle_record b;
	int r = bundle_record_load(name, version, &b, e);

	if (r < 0 && !forget)
		return r;
	if (r > 0 || (r == 0 && !b.folder[0] && !forget))
		return err_refuse(e, ERR_USAGE, ENOENT, "brig bundle list shows what is",
				  "bundle '%.64s@%.64s' is not installed", name, version);
	if (r == 0 && b.folder[0] && remove_files(&b, e) < 0)
		return -e->code;
	if (forget)
		return bundle_record_drop(name, version, e);
	b.folder[0] = '\0';
	return bundle_record_save(&b, e);
}
