/* SPDX-License-Identifier: Apache-2.0 */
/* backend/kubernetes/kube_note.c - which runs have something in a cluster, so that nothing stays.
 *
 * One file a run in brig's state folder, locked by its drover for as long as that lives. One whose
 * lock is free belongs to a drover that was killed, or whose cluster had gone away: the next brig
 * asks the cluster to remove that pod, if it carries this state folder's label. */
#include <assert.h>
#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>

#include "backend/kubernetes/copies.h"
#include "backend/kubernetes/drover.h"
#include "base/bytes/jread.h"
#include "base/bytes/random.h"
#include "base/files/fd.h"
#include "base/files/state.h"
#include "base/files/tree.h"
#include "base/text/str.h"

#define FOLDER "kubernetes"
#define CHANGES "changes"
#define INSTANCE "instance"
#define ENTRY_MAX 8192
#define PLACE ".place."
#define STAGE_SECONDS 60 /* after which one that is in use is locked */
#define PARTS 5          /* context, namespace, name, kubeconfig, kind */
#define PARTS_OF_OLD 4   /* without a kind: a pod */
#define HEX 32
#define SWEEP_MAX 16
#define ASK_MS 5000
#define ASK_NOW_MS 20000 /* ... of a run that just ended: nobody else will */
#define LOCK_MS 10000    /* for a drover that was killed to be gone */
#define LOCK_LOOK_MS 10
#define KEPT_SECONDS (30 * 24 * 3600) /* a cluster that long away is not waited for */

/* ---- whose ---- */

/* Made once; of two that come first the kernel takes one. */
static int make_instance(int folder, struct err *e)
{
	char text[HEX + 1], draft[64];
	CLEANUP(fd) int fd = -1;
	int r;

	if (random_hex(text, sizeof(text), e) < 0)
		return -e->code;
	(void)snprintf(draft, sizeof(draft), INSTANCE ".%d", getpid());
	fd = openat(folder, draft, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	r = fd < 0 ? -errno : fd_write_all(fd, text, HEX);
	if (r == 0 && linkat(folder, draft, folder, INSTANCE, 0) < 0 && errno != EEXIST)
		r = -errno;
	(void)unlinkat(folder, draft, 0);
	return r < 0 ? err_errno(e, r, "cannot name this state folder") : 0;
}

int kube_instance(char instance[HEX + 1], struct err *e)
{
	CLEANUP(fd) int folder = state_open(".", NULL, 0, e);
	char text[HEX + 2] = "";

	if (folder < 0)
		return -e->code;
	if (fd_read_file(folder, INSTANCE, text, sizeof(text)) != HEX &&
	    (make_instance(folder, e) < 0 ||
	     fd_read_file(folder, INSTANCE, text, sizeof(text)) != HEX))
		return e->code ? -e->code
			       : err_set(e, ERR_INTERNAL, EIO,
					 "cannot read this state folder's name");
	memcpy(instance, text, HEX);
	instance[HEX] = '\0';
	return 0;
}

/* ---- the note ---- */

/* Once for each; whoever prunes asks there. Named by its content: two at a time write the same. */
static void note_place(int folder, const char *context, const char *space, const char *config,
		       const char *kind)
{
	char text[ENTRY_MAX], name[64];
	uint64_t hash = 14695981039346656037ULL; /* FNV-1a */
	int n = snprintf(text, sizeof(text), "%s\n%s\nany\n%s\n%s%s", context, space, config, kind,
			 *kind ? "\n" : "");
	CLEANUP(fd) int fd = -1;

	if (n >= (int)sizeof(text))
		return;
	for (int i = 0; i < n; i++)
		hash = (hash ^ (unsigned char)text[i]) * 1099511628211ULL;
	(void)snprintf(name, sizeof(name), PLACE "%016llx", (unsigned long long)hash);
	fd = openat(folder, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd >= 0)
		(void)fd_write_all(fd, text, (size_t)n);
}

/* Locked before it has a name: nobody can take it for a dead run's. */
int kube_note_write(struct drover *d, struct err *e)
{
	char path[PATH_MAX], link[64], text[ENTRY_MAX];
	CLEANUP(fd) int folder = state_open(FOLDER, path, sizeof(path), e);
	const char *context = d->plan->kube.context, *config = d->plan->kube.config;
	char kind[KUBE_KIND_MAX];
	int n, r;

	if (folder < 0)
		return -e->code;
	drover_owner_kind(d, kind);
	n = snprintf(text, sizeof(text), "%s\n%s\n%s\n%s\n%s%s", context ? context : "", d->space,
		     d->name, config ? config : "", kind, *kind ? "\n" : "");
	d->note = openat(folder, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	if (d->note < 0)
		return err_sys(e, "cannot note the run in '%s'", path);
	(void)flock(d->note, LOCK_EX | LOCK_NB);
	r = n < (int)sizeof(text) ? fd_write_all(d->note, text, (size_t)n) : -ENAMETOOLONG;
	(void)snprintf(link, sizeof(link), "/proc/self/fd/%d", d->note);
	if (r == 0 && linkat(AT_FDCWD, link, folder, d->s->id, AT_SYMLINK_FOLLOW) < 0)
		r = -errno;
	if (r == 0)
		note_place(folder, context ? context : "", d->space, config ? config : "", kind);
	return r < 0 ? err_errno(e, r, "cannot note the run in '%s'", path) : 0;
}

void kube_note_done(struct drover *d, bool clean)
{
	CLEANUP(fd) int folder = clean ? state_find(FOLDER, NULL, 0) : -1;

	if (folder >= 0 && d->note >= 0)
		(void)unlinkat(folder, d->s->id, 0);
	d->note = fd_close(d->note);
}

/* ---- the sweep ---- */

/* "GROUP/VERSION/PLURAL", or nothing for a pod. */
static bool is_kind(const char *text)
{
	int slashes = 0;

	for (const char *c = text; *c; c++)
		slashes += *c == '/';
	return !*text ||
	       (slashes == 2 && strlen(text) < KUBE_KIND_MAX && !strstr(text, "//") &&
		text[strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789-./")] == '\0' &&
		(str_starts(text, OWNER_GROUP "/") || str_starts(text, OWNER_GROUP_CLAIMS "/")));
}

/* A line each; false: no such note. */
static bool read_note(int fd, char text[ENTRY_MAX], const char *part[PARTS])
{
	ssize_t n = pread(fd, text, ENTRY_MAX - 1, 0);
	char *at = text;

	if (n <= 0)
		return false;
	text[n] = '\0';
	for (int i = 0; i < PARTS; i++) {
		char *end = strchr(at, '\n');

		part[i] = "";
		if (!end && i < PARTS_OF_OLD)
			return false;
		if (!end)
			break;
		*end = '\0';
		part[i] = at;
		at = end + 1;
	}
	return kube_is_name(part[1], 63) && kube_is_name(part[2], 63) && is_kind(part[4]);
}

void kube_note_path(const char *kind, const char *space, const char *rest, char *out, size_t n)
{
	const char *plural = strrchr(kind, '/');

	if (plural)
		(void)snprintf(out, n, "/apis/%.*s/namespaces/%s%s%s", (int)(plural - kind), kind,
			       space, plural, rest);
	else
		(void)snprintf(out, n, "/api/v1/namespaces/%s/pods%s", space, rest);
}

int kube_notes_open(void)
{
	return state_find(FOLDER, NULL, 0);
}

bool kube_place_read(int folder, const char *name, struct kube_place_note *ret)
{
	CLEANUP(fd) int fd = -1;
	const char *part[PARTS];

	static_assert(sizeof(ret->text) == ENTRY_MAX, "a place is as long as a note");
	if (!str_starts(name, PLACE))
		return false;
	fd = openat(folder, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 || !read_note(fd, ret->text, part))
		return false;
	ret->context = part[0][0] ? part[0] : NULL;
	ret->space = part[1];
	ret->config = part[3][0] ? part[3] : NULL;
	ret->kind = part[4];
	return true;
}

static bool kube_note_is_ours(const struct jread *pod, const char *instance)
{
	const char *value =
		jread_str(jread_get(jread_get(pod, "metadata"), "labels"), KUBE_LABEL_INSTANCE);

	return value && str_eq(value, instance);
}

/* true: it is not there any more. Its uid keeps off another one that has its name by now. */
static bool remove_this(struct kube *k, const char *path, const struct jread *pod, unsigned ms)
{
	CLEANUP(kube_answer) struct kube_answer a = { 0 };
	const char *uid = jread_str(jread_get(pod, "metadata"), "uid");
	struct kube_request q = { .method = "DELETE", .path = path, .ms = ms };
	char body[160];
	struct err e;

	if (!uid || !kube_is_name(uid, 60))
		return false;
	(void)snprintf(body, sizeof(body), "{\"preconditions\":{\"uid\":\"%s\"}}", uid);
	q.body = body;
	return kube_ask(k, &q, &a, &e) == 0 &&
	       (a.status < 300 || a.status == 404 || a.status == 409);
}

/* true: there is no such pod of ours any more. Asked for one by one: a right to delete what a
 * selector finds is a right to delete everything. */
static bool remove_pod(const char *const part[PARTS], const char *instance, unsigned ms)
{
	const struct kube_want w = { .context = part[0][0] ? part[0] : NULL,
				     .namespace = part[1],
				     .kubeconfig = part[3][0] ? part[3] : NULL };
	CLEANUP(kube) struct kube *k = NULL;
	CLEANUP(kube_answer) struct kube_answer a = { 0 };
	CLEANUP(jread) struct jread *pod = NULL;
	struct kube_request q = { .method = "GET", .ms = ms };
	char path[400], rest[80];
	struct err e;

	(void)snprintf(rest, sizeof(rest), "/%s", part[2]);
	kube_note_path(part[4], part[1], rest, path, sizeof(path));
	q.path = path;
	if (kube_open(&w, &k, &e) < 0 || kube_ask(k, &q, &a, &e) < 0)
		return false;
	if (a.status == 404)
		return true;
	if (a.status != 200 || jread_parse(buf_str(&a.body), a.body.len, &pod, &e) < 0)
		return false;
	return !kube_note_is_ours(pod, instance) || remove_this(k, path, pod, ms);
}

/* A process that is killed gives its files up one after the other: who waits for one is woken while
 * the next is still held. */
static bool kube_note_lock(int fd, int ms)
{
	while (flock(fd, LOCK_EX | LOCK_NB) < 0) {
		if (errno != EWOULDBLOCK || ms <= 0)
			return false;
		(void)poll(NULL, 0, LOCK_LOOK_MS);
		ms -= LOCK_LOOK_MS;
	}
	return true;
}

/* now: its drover is about to be gone */
static void sweep_one(int folder, const char *name, const char *instance, bool now)
{
	CLEANUP(fd) int fd = openat(folder, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	const char *part[PARTS];
	char text[ENTRY_MAX];
	struct stat st;

	if (fd < 0 || !kube_note_lock(fd, now ? LOCK_MS : 0) || fstat(fd, &st) < 0 || !st.st_nlink)
		return;
	if (!read_note(fd, text, part) || remove_pod(part, instance, now ? ASK_NOW_MS : ASK_MS) ||
	    time(NULL) - st.st_mtime > KEPT_SECONDS)
		(void)unlinkat(folder, name, 0);
}

/* Lists of what runs have changed, which nobody reads after so long. */
static void forget_lists(void)
{
	int folder = state_find(CHANGES, NULL, 0);
	DIR *all = folder < 0 ? NULL : fdopendir(folder);
	const struct dirent *x;
	struct stat st;

	if (!all) {
		(void)fd_close(folder);
		return;
	}
	while ((x = readdir(all)))
		if (fstatat(folder, x->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
		    S_ISREG(st.st_mode) && time(NULL) - st.st_mtime > KEPT_SECONDS)
			(void)unlinkat(folder, x->d_name, 0);
	(void)closedir(all);
}

/* What came out of a pod, of a brig that was killed before it was all at home (copies.c). */
static void forget_stage(int folder, const char *name)
{
	CLEANUP(fd)
	int stage = openat(folder, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	struct stat st;

	if (stage >= 0 && fstat(stage, &st) == 0 && time(NULL) - st.st_mtime > STAGE_SECONDS &&
	    flock(stage, LOCK_EX | LOCK_NB) == 0)
		(void)tree_remove(folder, name);
}

void kube_tidy_run(const char *id)
{
	CLEANUP(fd) int folder = state_find(FOLDER, NULL, 0);
	char instance[HEX + 1];
	struct err e;

	if (folder >= 0 && kube_instance(instance, &e) == 0)
		sweep_one(folder, id, instance, true);
}

void kube_tidy(void)
{
	int folder = state_find(FOLDER, NULL, 0);
	DIR *all = folder < 0 ? NULL : fdopendir(folder);
	char instance[HEX + 1];
	const struct dirent *x;
	struct err e;
	int left = SWEEP_MAX;

	forget_lists();
	if (!all) {
		(void)fd_close(folder);
		return;
	}
	while ((x = readdir(all)) && left)
		if (x->d_name[0] == '.' && strlen(x->d_name) == 1 + HEX + strlen(KUBE_STAGE)) {
			forget_stage(dirfd(all), x->d_name);
		} else if (x->d_name[0] != '.' && kube_instance(instance, &e) == 0) {
			sweep_one(dirfd(all), x->d_name, instance, false);
			left--;
		}
	(void)closedir(all);
}
