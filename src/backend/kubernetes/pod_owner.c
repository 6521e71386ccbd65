/* SPDX-License-Identifier: Apache-2.0 */
/* backend/kubernetes/pod_owner.c - Sandbox, SandboxClaim and SandboxTemplate: written and read. */
#include "backend/kubernetes/pod_owner.h"

#include <stdio.h>
#include <string.h>

#include "backend/kubernetes/pod_guard.h"
#include "base/text/str.h"

/* Their forms that are known here, the newest first. */
static const struct {
	const char *name;
	bool pools;
} versions[] = { { "v1beta1", true }, { "v1alpha1", false } };

/* ---- what a cluster has ---- */

static bool serves(const struct jread *group, const char *version)
{
	const struct jread *all = jread_get(group, "versions");

	for (size_t i = 0; i < jread_count(all); i++) {
		const char *name = jread_str(jread_at(all, i), "version");

		if (name && str_eq(name, version))
			return true;
	}
	return false;
}

const char *owner_version(const struct jread *group)
{
	for (size_t i = 0; i < ARRAY_LEN(versions); i++)
		if (serves(group, versions[i].name))
			return versions[i].name;
	return NULL;
}

bool owner_version_has_pools(const char *version)
{
	for (size_t i = 0; i < ARRAY_LEN(versions); i++)
		if (str_eq(versions[i].name, version))
			return versions[i].pools;
	return false;
}

bool owner_has(const struct jread *resources, const char *plural)
{
	const struct jread *all = jread_get(resources, "resources");

	for (size_t i = 0; i < jread_count(all); i++) {
		const char *name = jread_str(jread_at(all, i), "name");

		if (name && str_eq(name, plural))
			return true;
	}
	return false;
}

const char *owner_pool(const struct jread *pools, const char *template)
{
	const struct jread *all = jread_get(pools, "items");
	const char *found = NULL;

	for (size_t i = 0; i < jread_count(all); i++) {
		const struct jread *x = jread_at(all, i);
		const char *name = jread_str(jread_get(x, "metadata"), "name");
		const char *of =
			jread_str(jread_get(jread_get(x, "spec"), "sandboxTemplateRef"), "name");

		if (!name || !of || !str_eq(of, template) || !kube_is_name(name, OWNER_NAME - 1))
			continue;
		if (jread_int(jread_get(x, "status"), "readyReplicas", 0) > 0)
			return name;
		if (!found)
			found = name;
	}
	return found;
}

/* ---- how far it is ---- */

/* Reasons of controllers that waiting does not mend. */
static bool is_final(const char *reason)
{
	static const char *const all[] = { "TemplateNotFound", "WarmPoolNotFound",
					   "ClaimExpired",     "SandboxExpired",
					   "InvalidMetadata",  "EnvVarsInjectionRejected",
					   "SandboxSuspended", "PodFailed",
					   "PodSucceeded",     "MultiplePods" };

	for (size_t i = 0; i < ARRAY_LEN(all); i++)
		if (str_eq(reason, all[i]))
			return true;
	return false;
}

static void look_at_conditions(const struct jread *status, struct owner_seen *ret)
{
	const struct jread *all = jread_get(status, "conditions");

	for (size_t i = 0; i < jread_count(all); i++) {
		const struct jread *c = jread_at(all, i);
		const char *type = jread_str(c, "type"), *is = jread_str(c, "status");
		const char *reason = jread_str(c, "reason"), *text = jread_str(c, "message");
		bool finished = type && str_eq(type, "Finished"), bad;

		ret->told = true;
		if (!type || !is || (!finished && !str_eq(type, "Ready")))
			continue;
		bad = str_eq(is, finished ? "True" : "False");
		if (!bad)
			continue;
		reason = reason ? reason : "no reason given";
		(void)snprintf(finished || is_final(reason) ? ret->reason : ret->waits, OWNER_TEXT,
			       "%.60s%s%.180s", reason, text && *text ? ": " : "",
			       text ? text : "");
	}
	pod_guard_clean(ret->reason);
	pod_guard_clean(ret->waits);
}

/* A name that is put into a path: only if it is one. */
static void keep_name(char *out, size_t n, const char *name)
{
	if (name && kube_is_name(name, n - 1))
		(void)snprintf(out, n, "%s", name);
}

void owner_look(const struct jread *owner, struct owner_seen *ret)
{
	const struct jread *status = jread_get(owner, "status"),
			   *meta = jread_get(owner, "metadata");
	const struct jread *notes = jread_get(meta, "annotations");
	const struct jread *got = jread_get(status, "sandbox");

	*ret = (struct owner_seen){ 0 };
	keep_name(ret->uid, sizeof(ret->uid), jread_str(meta, "uid"));
	keep_name(ret->sandbox, sizeof(ret->sandbox), jread_str(got, "Name")); /* of old */
	keep_name(ret->sandbox, sizeof(ret->sandbox), jread_str(got, "name"));
	/* A Sandbox that came out of a pool has kept the name of its pod. */
	keep_name(ret->pod, sizeof(ret->pod), jread_str(meta, "name"));
	keep_name(ret->pod, sizeof(ret->pod), jread_str(notes, "agents.x-k8s.io/pod-name"));
	ret->told = ret->sandbox[0] != '\0' || jread_str(status, "selector");
	look_at_conditions(status, ret);
}

bool owner_controls(const char *uid, const struct jread *thing)
{
	const struct jread *all = jread_get(jread_get(thing, "metadata"), "ownerReferences");

	for (size_t i = 0; *uid && i < jread_count(all); i++) {
		const struct jread *r = jread_at(all, i);
		const char *whose = jread_str(r, "uid");

		if (whose && str_eq(whose, uid) && jread_bool(r, "controller"))
			return true;
	}
	return false;
}

/* ---- the objects ---- */

static void head(const char *group, const char *version, const char *kind, struct json *j)
{
	char text[sizeof(OWNER_GROUP_CLAIMS) + OWNER_VERSION];

	(void)snprintf(text, sizeof(text), "%s/%.30s", group, version);
	json_kstr(j, "apiVersion", text);
	json_kstr(j, "kind", kind);
}

static void ends(const struct owner_run *o, struct json *j)
{
	json_kstr(j, "shutdownTime", o->until);
	json_kstr(j, "shutdownPolicy", "Delete");
}

void owner_sandbox_body(const struct backend_plan *p, const struct pod_run *r,
			const struct owner_run *o, struct json *j)
{
	json_object(j);
	head(OWNER_GROUP, o->version, "Sandbox", j);
	pod_metadata(p, r, NULL, j);
	json_kobject(j, "spec");
	ends(o, j);
	json_kobject(j, "podTemplate");
	pod_labels(p, r, j);
	pod_spec(p, r, j);
	json_object_end(j);
	json_object_end(j);
	json_object_end(j);
}

static void reference(const char *key, const char *name, struct json *j)
{
	json_kobject(j, key);
	json_kstr(j, "name", name);
	json_object_end(j);
}

void owner_claim_body(const struct backend_plan *p, const struct pod_run *r,
		      const struct owner_run *o, struct json *j)
{
	json_object(j);
	head(OWNER_GROUP_CLAIMS, o->version, "SandboxClaim", j);
	pod_metadata(p, r, NULL, j);
	json_kobject(j, "spec");
	if (o->pool)
		reference("warmPoolRef", o->pool, j);
	else
		reference("sandboxTemplateRef", p->kube.template, j);
	json_kobject(j, "lifecycle");
	ends(o, j);
	json_object_end(j);
	json_object_end(j);
	json_object_end(j);
}

/* Nothing in or out for all of its pods: a policy without a rule. */
void owner_template(const struct backend_plan *p, struct json *j)
{
	const struct pod_run r = { .inside = OWNER_INSIDE, .user_ns = true, .claimed = true };

	json_object(j);
	head(OWNER_GROUP_CLAIMS, versions[0].name, "SandboxTemplate", j);
	json_kobject(j, "metadata");
	json_kstr(j, "name", p->kube.template);
	json_object_end(j);
	json_kobject(j, "spec");
	if (p->network == NETWORK_NONE) {
		json_kobject(j, "networkPolicy");
		json_object_end(j);
	}
	json_kobject(j, "podTemplate");
	pod_spec(p, &r, j);
	json_object_end(j);
	json_object_end(j);
	json_object_end(j);
}
