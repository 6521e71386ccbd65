/* SPDX-License-Identifier: Apache-2.0 */
/* backend/kubernetes/kube_note.c - which runs have something in a cluster, so that nothing stays.
 *
 * One file a run in brig's state folder, locked by its guard for as long as that lives. One whose
 * lock is free belongs to a guard that was killed, or whose cluster had gone away: the next brig
 * asks the cluster to remove that pod, if it carries this state folder's label. */
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>

#include "backend/kubernetes/copies.h"
#include "backend/kubernetes/pod_guard.h"
#include "base/bytes/jread.h"
#include "base/files/folder.h"
#include "base/files/tree.h"
#include "base/text/str.h"

#define FOLDER "kubernetes"
#define CHANGES "changes"
#define PLACE ".place."
#define STAGE_SECONDS 60 /* after which one that is in use is locked */
#define PARTS 5          /* context, namespace, name, kubeconfig, kind */
#define PARTS_OF_OLD 4   /* without a kind: a pod */
#define SWEEP_MAX 16
#define ASK_MS 5000
#define ASK_NOW_MS 20000 /* ... of a run that just ended: nobody else will */
#define LOCK_MS 10000    /* for a guard that was killed to be gone */

/* ---- whose ---- */

int kube_instance(char instance[STATE_INSTANCE], struct err *e)
{
	CLEANUP(fd) int folder = state_open(".", NULL, 0, e);

	return folder < 0 ? -e->code : state_instance(folder, instance, e);
}

/* ---- the note ---- */

/* Once for each; whoever prunes asks there. Named by its content: two at a time write the same. */
static void note_place(int folder, const char *context, const char *space, const char *config,
		       const char *kind)
{
	char text[CLAIM_TEXT], name[64];
	int n = snprintf(text, sizeof(text), "%s\n%s\nany\n%s\n%s%s", context, space, config, kind,
			 *kind ? "\n" : "");
	CLEANUP(fd) int fd = -1;

	if (n >= (int)sizeof(text))
		return;
	(void)snprintf(name, sizeof(name), PLACE "%016llx", (unsigned long long)str_hash(text));
	fd = openat(folder, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd >= 0)
		(void)fd_write_all(fd, text, (size_t)n);
}

int kube_note_write(struct pod_guard *g, struct err *e)
{
	char path[PATH_MAX], text[CLAIM_TEXT];
	CLEANUP(fd) int folder = state_open(FOLDER, path, sizeof(path), e);
	const char *context = g->plan->kube.context, *config = g->plan->kube.config;
	char kind[KUBE_KIND_MAX];
	int n;

	if (folder < 0)
		return -e->code;
	pod_guard_owner_kind(g, kind);
	n = snprintf(text, sizeof(text), "%s\n%s\n%s\n%s\n%s%s", context ? context : "", g->space,
		     g->name, config ? config : "", kind, *kind ? "\n" : "");
	g->note = claim_make(folder, g->s->id, text, (size_t)n);
	if (g->note < 0)
		return err_errno(e, g->note, "cannot note the run in '%s'", path);
	note_place(folder, context ? context : "", g->space, config ? config : "", kind);
	return 0;
}

void kube_note_done(struct pod_guard *g, bool clean)
{
	CLEANUP(fd) int folder = clean ? state_find(FOLDER, NULL, 0) : -1;

	if (folder >= 0 && g->note >= 0)
		(void)unlinkat(folder, g->s->id, 0);
	g->note = fd_close(g->note);
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
static bool split_note(char *at, const char *part[PARTS])
{
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
	const char *part[PARTS];

	if (!str_starts(name, PLACE) ||
	    fd_read_file(folder, name, ret->text, sizeof(ret->text)) <= 0 ||
	    !split_note(ret->text, part))
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

struct lost_runs {
	char instance[STATE_INSTANCE];
	unsigned ask_ms;
};

static bool sweep_one(void *arg, const struct claim_lost *c)
{
	const struct lost_runs *all = arg;
	const char *part[PARTS];

	return !*c->text || !split_note(c->text, part) ||
	       remove_pod(part, all->instance, all->ask_ms) || c->age > CLAIM_KEPT_S;
}

/* Lists of what runs have changed, which nobody reads after so long. */
static void forget_lists(void)
{
	CLEANUP(fd) int folder = state_find(CHANGES, NULL, 0);
	const struct fd_entry *x;
	struct folder f;
	struct stat st;

	folder_begin(&f, folder);
	while (folder >= 0 && (x = folder_next(&f)))
		if (fstatat(folder, x->name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
		    S_ISREG(st.st_mode) && time(NULL) - st.st_mtime > CLAIM_KEPT_S)
			(void)unlinkat(folder, x->name, 0);
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
	struct lost_runs one = { .ask_ms = ASK_NOW_MS };
	struct err e;

	if (folder >= 0 && kube_instance(one.instance, &e) == 0)
		claim_show(folder, id, LOCK_MS, sweep_one, &one);
}

static void forget_stages(int folder)
{
	const struct fd_entry *x;
	struct folder f;

	folder_begin(&f, folder);
	while ((x = folder_next(&f)))
		if (x->name[0] == '.' && strlen(x->name) == 1 + CLAIM_ID + strlen(KUBE_STAGE))
			forget_stage(folder, x->name);
}

void kube_sweep(void)
{
	CLEANUP(fd) int folder = state_find(FOLDER, NULL, 0);
	struct lost_runs all = { .ask_ms = ASK_MS };
	struct err e;

	forget_lists();
	if (folder < 0)
		return;
	forget_stages(folder);
	if (kube_instance(all.instance, &e) == 0)
		claim_sweep(folder, SWEEP_MAX, sweep_one, &all);
}
