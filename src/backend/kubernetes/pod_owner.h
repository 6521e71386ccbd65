/* SPDX-License-Identifier: Apache-2.0 */
/* backend/kubernetes/pod_owner.h - agent-sandbox's objects, which have a pod made by somebody else.
 *
 *     Sandbox       ── controller ──▶ pod                     written by brig, all of it
 *     SandboxClaim  ── controller ──▶ Sandbox ──▶ pod         from a SandboxTemplate, or a warm
 * pool
 *
 * Pure: objects as the API takes and shows them. What a cluster shows is an outsider's. */
#pragma once

#include "backend/kubernetes/kubernetes.h"
#include "base/bytes/jread.h"

#define OWNER_GROUP "agents.x-k8s.io"
#define OWNER_GROUP_CLAIMS "extensions.agents.x-k8s.io"
#define OWNER_NAME_HASH "agents.x-k8s.io/sandbox-name-hash" /* a label of each pod of theirs */
#define OWNER_INSIDE "/.brig-claimed" /* the folder with brig-pod in a template's pod */

enum { OWNER_NAME = 254, OWNER_TEXT = 256, OWNER_VERSION = 32 };

enum owner_kind { OWNER_NONE, OWNER_SANDBOX, OWNER_CLAIM };

/* What its controller has made of it. */
struct owner_seen {
	char uid[KUBE_NAME_MAX];
	bool told;                /* a controller has said anything at all */
	char sandbox[OWNER_NAME]; /* of a claim: which one it got; "": none yet */
	char pod[OWNER_NAME];     /* of a Sandbox: its pod's name, if there is one */
	char reason[OWNER_TEXT];  /* why it will come to nothing; "": it may */
	char waits[OWNER_TEXT];   /* what it waits for; "": it does not say */
};

void owner_look(const struct jread *owner, struct owner_seen *ret);
/* Is it, by uid, the controller of that object? */
bool owner_controls(const char *uid, const struct jread *thing);

/* The version of an API group that is spoken here and there; NULL: none is. `group` is what
 * discovery answers. */
const char *owner_version(const struct jread *group);
bool owner_version_has_pools(const char *version); /* a claim names a pool, not a template */
/* Does a version of a group have that kind of object? */
bool owner_has(const struct jread *resources, const char *plural);
/* The warm pool of a template, one with pods that are ready if there is; NULL: there is none. */
const char *owner_pool(const struct jread *pools, const char *template);

/* The objects. until: when they end, as the API writes times. */
struct owner_run {
	const char *version, *until, *pool;
};
void owner_sandbox_body(const struct backend_plan *p, const struct pod_run *r,
			const struct owner_run *o, struct json *j);
void owner_claim_body(const struct backend_plan *p, const struct pod_run *r,
		      const struct owner_run *o, struct json *j);
void owner_template(const struct backend_plan *p, struct json *j); /* that a claim is accepted of */
