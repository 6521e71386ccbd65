/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/kubernetes/copy_back.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "backend/kit/plan/plan.h"
#include "backend/kit/survey/gitdirs.h"
#include "backend/kit/survey/protected_names.h"
#include "base/bytes/json.h"
#include "base/bytes/sha256.h"
#include "base/files/draft.h"
#include "base/files/fd.h"
#include "base/files/folder.h"
#include "base/text/buf.h"
#include "base/text/str.h"

#define DEPTH_MAX 64
#define LINE_MAX_BYTES ((size_t)64 << 10)
#define PIECE 65536

/* ---- names ---- */

/* Does the path, from one of its folders on, lead to this name or below it? In any case: there are
 * file systems to which it is all one. */
static bool leads_to(const char *path, const char *name)
{
	size_t n = strlen(name);

	for (const char *at = path; at; at = strchr(at, '/')) {
		at += *at == '/';
		if (strncasecmp(at, name, n) == 0 && (!at[n] || at[n] == '/'))
			return true;
	}
	return false;
}

/* What links in the workspace and git's configuration lead to is called as its owner likes. In any
 * case, as above. */
static bool is_obeyed(const struct copy_back *h, const char *path)
{
	for (size_t i = 0; h->obeyed && i < h->obeyed->protected_count; i++) {
		const struct protected_name *n = &h->obeyed->protected[i];
		size_t len = strlen(n->path);

		if (str_eq(n->tree, h->obeyed->workspace) && strncasecmp(path, n->path, len) == 0 &&
		    (!path[len] || path[len] == '/'))
			return true;
	}
	return false;
}

/* Repositories are not taken over at all: what a checkout would obey is not looked for one by one.
 */
static const char *guarded(const struct copy_back *h, const char *path)
{
	if (h->repository || leads_to(path, ".git"))
		return "a repository stays as it is here: fetch commits by a bundle or a push";
	if (name_forbidden(path))
		return name_forbidden(path)->reason;
	return is_obeyed(h, path)
		       ? "a link or git's configuration leads a program on this host there"
		       : NULL;
}

static void copy_back_refuse(struct copy_back *h, const char *path, const char *why)
{
	h->count->refused++;
	outcome_deny(h->outcome, "protected-path", path, why);
}

static void copy_back_note(struct copy_back *h, const char *path, const char *change,
			   const char *digest)
{
	CLEANUP(buf) struct buf b = BUF_INIT(LINE_MAX_BYTES);
	struct json j;

	json_init(&j, &b, false);
	json_object(&j);
	json_kstr(&j, "path", path);
	json_kstr(&j, "change", change);
	json_kstr(&j, "sha256", digest);
	json_object_end(&j);
	buf_putc(&b, '\n');
	(void)fd_write_all(h->list, buf_str(&b), b.len);
}

/* ---- files ---- */

static int digest_of(int fd, char hex[SHA256_HEX])
{
	unsigned char digest[SHA256_SIZE];
	char piece[PIECE];
	struct sha256 s;
	off_t at = 0;
	ssize_t n;

	sha256_init(&s);
	while ((n = pread(fd, piece, sizeof(piece), at)) > 0) {
		sha256_add(&s, piece, (size_t)n);
		at += n;
	}
	sha256_end(&s, digest);
	sha256_hex(digest, hex);
	return n < 0 ? -errno : 0;
}

static int copy_bytes(int from, int to)
{
	char piece[PIECE];
	off_t at = 0;
	ssize_t n;
	int r = 0;

	while (r == 0 && (n = pread(from, piece, sizeof(piece), at)) > 0) {
		r = fd_write_all(to, piece, (size_t)n);
		at += n;
	}
	return r < 0 ? r : n < 0 ? -errno : 0;
}

/* Under its name once it is whole; nothing that is there is opened. */
static int take_over(const struct copy_back *h, int from, int folder, const char *name, mode_t mode)
{
	struct draft d;
	struct stat owner;
	int r;

	if (fstat(h->work, &owner) < 0)
		return -errno;
	r = draft_open(folder, &d);
	if (r < 0)
		return r;
	r = copy_bytes(from, d.fd);
	if (r == 0 && geteuid() == 0 && fchown(d.fd, owner.st_uid, owner.st_gid) < 0)
		r = -errno;
	if (r == 0)
		return draft_keep(&d, name, mode);
	draft_drop(&d);
	return r;
}

static bool same_content(int a UNUSED, const struct stat *as, int b, const struct stat *bs,
			 const char *digest)
{
	char other[SHA256_HEX];

	return as->st_size == bs->st_size && digest_of(b, other) == 0 && str_eq(digest, other);
}

static int one_file(struct copy_back *h, int from, int to, const char *name, const char *path)
{
	CLEANUP(fd) int new = openat(from, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	CLEANUP(fd) int old = -1;
	struct stat ns, os = { 0 }, at = { 0 };
	char digest[SHA256_HEX];
	bool there = fstatat(to, name, &at, AT_SYMLINK_NOFOLLOW) == 0;

	if (new < 0 || fstat(new, &ns) < 0 || !S_ISREG(ns.st_mode) || digest_of(new, digest) < 0)
		return new < 0 ? -errno : -EIO;
	if (there && !S_ISREG(at.st_mode)) {
		copy_back_refuse(h, path, "something other than a file is there");
		return 0;
	}
	if (there)
		old = openat(to, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (old >= 0 && fstat(old, &os) == 0 && same_content(new, &ns, old, &os, digest))
		return 0;
	if (guarded(h, path)) {
		copy_back_refuse(h, path, guarded(h, path));
		return 0;
	}
	if (there && at.st_ctim.tv_sec >= h->since) {
		copy_back_refuse(h, path, "it was changed on this host meanwhile");
		return 0;
	}
	if (name_reported(path))
		outcome_trust(h->outcome, path, name_reported(path)->reason);
	copy_back_note(h, path, there ? "changed" : "made", digest);
	*(there ? &h->count->changed : &h->count->made) += 1;
	/* Others may read what they could: a pod's modes say who may execute, and no more. */
	return take_over(h, new, to, name,
			 there ? (at.st_mode & 0777) | (ns.st_mode & 0100 ? 0111 : 0)
			       : (ns.st_mode & 0100 ? 0755 : 0644));
}

/* ---- folders ---- */

static bool stays(const struct copy_back *h, const char *name, unsigned depth)
{
	return depth == 0 && h->not_home && str_eq(name, h->not_home);
}

static int open_list(int folder)
{
	return openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

/* What of a git folder is in there, in whatever letters: the folder may come to lie where case is
 * all one, and be a repository there. */
static unsigned parts_in(int folder)
{
	CLEANUP(fd) int all = open_list(folder);
	const struct fd_entry *x;
	struct folder f;
	unsigned seen = 0;

	folder_begin(&f, all);
	while ((x = folder_next(&f)))
		for (size_t i = 0; i < GIT_NAMES; i++)
			if (strcasecmp(x->name, git_names[i]) == 0)
				seen |= 1U << i;
	return seen;
}

static int one_folder(struct copy_back *h, int from, int to, const char *path, unsigned depth);

static int copy_back_enter(struct copy_back *h, int from, int to, const char *name,
			   const char *path, unsigned depth)
{
	CLEANUP(fd) int sub = openat(from, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	CLEANUP(fd) int into = -1;
	struct stat st, owner;

	if (sub < 0)
		return -errno;
	if (fstatat(to, name, &st, AT_SYMLINK_NOFOLLOW) < 0) {
		if (guarded(h, path) || gitdir_enough(parts_in(sub))) {
			h->repository++;
			copy_back_refuse(h, path, guarded(h, path));
			h->repository--;
			return 0;
		}
		if (mkdirat(to, name, 0755) < 0)
			return -errno;
		copy_back_note(h, path, "made", NULL);
		if (geteuid() == 0 && fstat(h->work, &owner) == 0)
			(void)!fchownat(to, name, owner.st_uid, owner.st_gid, AT_SYMLINK_NOFOLLOW);
	}
	into = openat(to, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (into >= 0)
		return one_folder(h, sub, into, path, depth + 1);
	copy_back_refuse(h, path, "something other than a folder is there");
	return 0;
}

/* git takes any folder that looks like one of its own for a repository, and obeys what is in it.
 * The workspace itself, if it is none yet, has but the names left out that would make it one. */
static bool is_repository(unsigned had, unsigned will, const char *path, const char *name)
{
	bool is_name = false;

	if (!gitdir_enough(had | will))
		return false;
	for (size_t i = 0; i < GIT_NAMES; i++)
		is_name |= strcasecmp(name, git_names[i]) == 0;
	return *path || gitdir_enough(had) || is_name;
}

static int one_folder(struct copy_back *h, int from, int to, const char *path, unsigned depth)
{
	unsigned had = parts_in(to), will = parts_in(from);
	CLEANUP(fd) int all = depth < DEPTH_MAX ? open_list(from) : -1;
	const struct fd_entry *x;
	struct folder f;
	char below[PATH_MAX];
	int r = all < 0 ? -ELOOP : 0;

	folder_begin(&f, all);
	while (r == 0 && (x = folder_next(&f))) {
		bool repository = is_repository(had, will, path, x->name);
		struct stat st;

		if (stays(h, x->name, depth))
			continue;
		h->repository += repository;
		if (snprintf(below, sizeof(below), "%s%s%s", path, *path ? "/" : "", x->name) >=
			    (int)sizeof(below) ||
		    fstatat(from, x->name, &st, AT_SYMLINK_NOFOLLOW) < 0)
			r = -ENAMETOOLONG;
		else if (S_ISDIR(st.st_mode))
			r = copy_back_enter(h, from, to, x->name, below, depth);
		else
			r = one_file(h, from, to, x->name, below);
		h->repository -= repository;
	}
	return r;
}

/* ---- what is gone ---- */

static void gone_from(struct copy_back *h, int from, int to, const char *path, unsigned depth);

static void copy_back_gone(struct copy_back *h, int from, int to, const char *name,
			   const char *path, unsigned depth)
{
	CLEANUP(fd) int left = -1, sub = -1;
	struct stat st, old, in;

	if (fstatat(to, name, &st, AT_SYMLINK_NOFOLLOW) < 0 || guarded(h, path) ||
	    fstat(to, &in) < 0)
		return;
	if (S_ISDIR(st.st_mode)) {
		/* What is in a folder that was mounted or moved here meanwhile is as old as ever.
		 */
		if (st.st_dev != in.st_dev)
			return;
		sub = openat(to, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		left = from < 0 ? -1
				: openat(from, name,
					 O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (left < 0 && st.st_ctim.tv_sec >= h->since)
			return;
		if (sub >= 0 && !gitdir_enough(parts_in(sub)))
			gone_from(h, left, sub, path, depth + 1);
		if (sub >= 0 && left < 0)
			(void)unlinkat(to, name, AT_REMOVEDIR); /* of what is empty */
		return;
	}
	/* What brig could not read never was there. */
	if (!S_ISREG(st.st_mode) || st.st_ctim.tv_sec >= h->since ||
	    faccessat(to, name, R_OK, AT_EACCESS) < 0 ||
	    (from >= 0 && fstatat(from, name, &old, AT_SYMLINK_NOFOLLOW) == 0))
		return;
	if (unlinkat(to, name, 0) == 0) {
		h->count->removed++;
		copy_back_note(h, path, "removed", NULL);
	}
}

static void gone_from(struct copy_back *h, int from, int to, const char *path, unsigned depth)
{
	CLEANUP(fd) int all = depth < DEPTH_MAX ? open_list(to) : -1;
	const struct fd_entry *x;
	struct folder f;
	char below[PATH_MAX];

	folder_begin(&f, all);
	while ((x = folder_next(&f)))
		if (!stays(h, x->name, depth) &&
		    snprintf(below, sizeof(below), "%s%s%s", path, *path ? "/" : "", x->name) <
			    (int)sizeof(below))
			copy_back_gone(h, from, to, x->name, below, depth);
}

int copy_back(struct copy_back *h, struct err *e)
{
	int r = one_folder(h, h->stage, h->work, "", 0);

	if (r < 0)
		return err_errno(e, r, "cannot take the pod's workspace over");
	/* Where something was left out its absence says nothing. */
	if (!h->count->left_out)
		gone_from(h, h->stage, h->work, "", 0);
	return 0;
}
