/* SPDX-License-Identifier: Apache-2.0 */
/* backend/kubernetes/kube_prune.c - pods of this state folder that nobody owns any more.
 *
 * Every place in a cluster that a run had is noted once (kube_note.c). Each is asked for pods with
 * this state folder's label; one whose note is locked has a guard that lives, every other one has
 * none. Pods of another state folder, of another user or host, have another label and are never
 * listed. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "backend/kubernetes/pod_guard.h"
#include "base/files/folder.h"
#include "base/text/str.h"

#define ASK_MS 15000

struct lost_pods {
	int folder; /* of notes */
	char instance[STATE_INSTANCE];
	bool dry;
	kube_pruned *said;
	void *arg;
};

static int kube_prune_remove_one(struct kube *k, const struct kube_place_note *at, const char *name,
				 const char *uid, struct err *e)
{
	CLEANUP(kube_answer) struct kube_answer a = { 0 };
	char path[400], rest[80], body[160];
	const struct kube_request q = {
		.method = "DELETE", .path = path, .body = body, .ms = ASK_MS
	};

	(void)snprintf(rest, sizeof(rest), "/%s", name);
	kube_note_path(at->kind, at->space, rest, path, sizeof(path));
	(void)snprintf(body, sizeof(body), "{\"preconditions\":{\"uid\":\"%.60s\"}}", uid);
	if (kube_ask(k, &q, &a, e) < 0)
		return -e->code;
	return a.status < 300 || a.status == 404 || a.status == 409
		       ? 0
		       : err_set(e, ERR_UNAVAILABLE, EIO, "cannot remove pod '%s': %d", name,
				 a.status);
}

static int kube_prune_look_at(const struct lost_pods *p, struct kube *k,
			      const struct kube_place_note *at, const struct jread *pod,
			      struct err *e)
{
	const struct jread *meta = jread_get(pod, "metadata"), *labels = jread_get(meta, "labels");
	const char *name = jread_str(meta, "name"), *uid = jread_str(meta, "uid");
	const char *id = jread_str(labels, KUBE_LABEL),
		   *whose = jread_str(labels, KUBE_LABEL_INSTANCE);

	/* The selector has said so already; an answer is not believed for all that. A guard holds
	 * the note of its run as long as it lives, and has it before there is a pod. */
	if (!name || !uid || !id || !whose || !str_eq(whose, p->instance) ||
	    !kube_is_name(name, 63) || !kube_is_name(uid, 63) || !kube_is_name(id, 63) ||
	    jread_str(meta, "deletionTimestamp") || claim_held(p->folder, id))
		return 0;
	/* A pod of a Sandbox goes with it, and would only be made anew. */
	if (!*at->kind && jread_count(jread_get(meta, "ownerReferences")))
		return 0;
	if (!p->dry && kube_prune_remove_one(k, at, name, uid, e) < 0)
		return -e->code;
	if (!p->dry)
		(void)unlinkat(p->folder, id, 0);
	p->said(p->arg, name);
	return 0;
}

static int look_into(const struct lost_pods *p, const struct kube_place_note *at, struct err *e)
{
	const struct kube_want w = { .context = at->context,
				     .namespace = at->space,
				     .kubeconfig = at->config };
	CLEANUP(kube) struct kube *k = NULL;
	CLEANUP(kube_answer) struct kube_answer a = { 0 };
	CLEANUP(jread) struct jread *v = NULL;
	const struct jread *items;
	char path[400], rest[80];
	const struct kube_request q = { .method = "GET", .path = path, .ms = ASK_MS };
	int r = 0;

	(void)snprintf(rest, sizeof(rest), "?labelSelector=" KUBE_LABEL_INSTANCE "%%3D%s",
		       p->instance);
	kube_note_path(at->kind, at->space, rest, path, sizeof(path));
	if (kube_open(&w, &k, e) < 0 || kube_ask(k, &q, &a, e) < 0)
		return err_wrap(e, "namespace '%s'", at->space);
	if (*at->kind && a.status == 404) /* no such kind any more, and nothing of it */
		return 0;
	if (a.status >= 300)
		return err_set(e, ERR_UNAVAILABLE, EIO, "namespace '%s': the cluster answers %d",
			       at->space, a.status);
	if (jread_parse(buf_str(&a.body), a.body.len, &v, e) < 0)
		return err_wrap(e, "namespace '%s'", at->space);
	items = jread_get(v, "items");
	for (size_t i = 0; r == 0 && i < jread_count(items); i++)
		r = kube_prune_look_at(p, k, at, jread_at(items, i), e);
	return r;
}

int kube_prune(bool dry, kube_pruned *said, void *arg, struct err *e)
{
	CLEANUP(fd) int notes = kube_notes_open();
	struct lost_pods p = { .folder = notes, .dry = dry, .said = said, .arg = arg };
	const struct fd_entry *x;
	struct folder f;
	int r = 0;

	if (notes < 0) /* no run was ever in a cluster */
		return 0;
	if (kube_instance(p.instance, e) < 0)
		r = -e->code;
	folder_begin(&f, notes);
	while (r == 0 && (x = folder_next(&f))) {
		struct kube_place_note at;

		if (kube_place_read(p.folder, x->name, &at))
			r = look_into(&p, &at, e);
	}
	return r;
}
