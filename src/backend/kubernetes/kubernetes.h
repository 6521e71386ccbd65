/* SPDX-License-Identifier: Apache-2.0 */
/* backend/kubernetes/kubernetes.h - the parts of the kubernetes backend; nobody else includes this.
 *
 *     brig ── brig-guard ── brig-kube ── API server ── node ── brig-pod ── commands
 *
 * brig-guard is a fork of brig that belongs to nobody: it makes the pod, carries everything
 * between brig and the pod's first process, and removes the pod, whatever happens to brig. Nothing
 * but brig-kube speaks TLS. brig-pod is the first process of the pod's only container; it is
 * reached by the pod's attach, whose ends no other process inside holds. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "backend/backend.h"
#include "base/text/arena.h"

#define KUBE_POD_PROGRAM "/brig-pod" /* in the helper's image */
#define KUBE_CONTAINER "main"
#define KUBE_FILLER "fill" /* an init container */
#define KUBE_DOOR "door"   /* a container of its own, under network proxy */
#define KUBE_LABEL "brig.sandbox"
#define KUBE_LABEL_INSTANCE "brig.instance"

enum {
	KUBE_NAME_MAX = 64,
	KUBE_SET_UP_S = 900,     /* of the pod's deadline: to be placed, to fetch images */
	KUBE_LONGEST_S = 604800, /* of a pod without a time limit of its own */
};

struct box_plan;

struct backend_plan {
	struct arena *arena; /* keeps the texts of the spec as well */
	struct kube_spec kube;
	const char *image;
	const char **argv;       /* NULL: a sandbox that stays open */
	const char **envp;       /* over those of the image */
	const char *path;        /* where commands are looked for; NULL: where the image says */
	const char *cwd;         /* inside: the workspace */
	const char *home;        /* inside */
	const char *workdir;     /* host folder that is copied; NULL: none */
	struct box_plan *obeyed; /* ... and the names in it that do not come home */
	uint32_t uid, gid;
	struct limits limits;
	bool tmp_given; /* somebody wrote limits.tmp */
	uint64_t gpus;
	uint64_t timeout, kill_after, output;
	enum network network;
	struct door_want door; /* of network proxy */
	enum profile profile;
	bool read_only_root;
	bool read_only_workspace; /* what is copied there does not come home */
	const char *code_path;    /* inside: a file that shows the code; NULL: none */
	const char *code;
	size_t code_size;
	struct envlist labels;
	const char *notes[8];
	size_t note_count;
};

/* What a run adds to its plan. */
struct pod_run {
	const char *id, *instance;
	const char *inside; /* the folder that holds brig-pod */
	bool user_ns;       /* the cluster has them for pods */
	bool by_policy; /* no container may have NET_ADMIN: a NetworkPolicy closes the network */
	bool claimed;   /* it is somebody's template that it is compared with */
};

/* Which pod a policy or a Secret is for; a name or key of NULL: the run's own. */
struct pod_policy {
	const char *name, *uid;    /* of the pod, which owns the policy */
	const char *label, *value; /* by which it is known */
};

int kube_plan(const struct spec *s, struct backend_plan **ret, const char *const **notes,
	      struct err *e);
void kube_plan_json(const struct backend_plan *p, struct json *j);
struct backend_plan *kube_plan_free(struct backend_plan *p);
DEFINE_CLEANUP(kube_plan, struct backend_plan *, kube_plan_free)

/* pod.c: the objects, as the API takes them. */
void pod_spec(const struct backend_plan *p, const struct pod_run *r, struct json *j);
/* Its metadata without a name: labels and annotations. */
void pod_labels(const struct backend_plan *p, const struct pod_run *r, struct json *j);
uint64_t pod_deadline(const struct backend_plan *p); /* seconds from its start */
void pod_body(const struct backend_plan *p, const struct pod_run *r, struct json *j);
/* Nothing in, nothing out, for this pod alone; it goes with the pod, whose uid it names (NULL: not
 * made yet). */
void pod_closed_body(const struct backend_plan *p, const struct pod_run *r,
		     const struct pod_policy *w, struct json *j);
/* true: something is put there by a container that comes first, because the command may not write
 * to it. */
bool pod_is_filled(const struct backend_plan *p);
/* Where the code is put, from the root of the container that comes first. */
void pod_code_place(const struct backend_plan *p, char *out, size_t n);
/* Where that is mounted in the command's container; NULL: nowhere of its own. */
const char *pod_code_mount(const struct backend_plan *p);
/* The name that code has directly in the workspace, or NULL. */
const char *pod_code_in_workspace(const struct backend_plan *p);
/* Parts of it that pod_door.c writes as well. */
void pod_metadata(const struct backend_plan *p, const struct pod_run *r, const struct pod_policy *w,
		  struct json *j);
void pod_volume(struct json *j, const char *name, const char *medium, uint64_t size,
		const char *text);
void pod_mount(struct json *j, const char *name, const char *path, const char *of, bool read_only);
void pod_addresses(struct json *j);
void pod_line(struct json *j);

/* pod_door.c: nothing but under network proxy. */
void pod_door_container(const struct backend_plan *p, struct json *j);
void pod_door_volumes(const struct backend_plan *p, const struct pod_run *r, struct json *j);
void pod_door_trust(const struct backend_plan *p, struct json *j);
void pod_door_names(const struct backend_plan *p, struct json *j);
/* What the door has to know, as base64; the pod that w names owns it. */
void pod_secret_body(const struct backend_plan *p, const struct pod_run *r,
		     const struct pod_policy *w, const char *plan, struct json *j);
bool kube_is_name(const char *text, size_t max); /* of an object: [a-z0-9.-] */
bool kube_is_label(const char *text);            /* as the value of one */
