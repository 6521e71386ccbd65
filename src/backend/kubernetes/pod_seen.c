/* SPDX-License-Identifier: Apache-2.0 */
/* backend/kubernetes/pod_seen.c - a pod as the API shows it: how far it is, and whether it is the
 * one that was asked for. */
#include <stdio.h>
#include <string.h>

#include "backend/kubernetes/drover.h"
#include "base/str.h"

static void keep(char *out, size_t n, const char *text)
{
	(void)snprintf(out, n, "%s", text ? text : "");
	drover_clean(out);
}

/* "docker-pullable://NAME@sha256:..." is how some kubelets write it. */
static const char *without_scheme(const char *image)
{
	const char *at = image ? strstr(image, "://") : NULL;

	return at ? at + strlen("://") : image;
}

/* ---- how far it is ---- */

/* Reasons that waiting does not mend. */
static bool is_final(const char *reason)
{
	static const char *const all[] = { "ImagePullBackOff",     "InvalidImageName",
					   "ErrImageNeverPull",    "CreateContainerConfigError",
					   "CreateContainerError", "RunContainerError",
					   "CrashLoopBackOff" };

	for (size_t i = 0; reason && i < ARRAY_LEN(all); i++)
		if (str_eq(reason, all[i]))
			return true;
	return false;
}

static void say(char *out, const char *what, const char *name, const char *reason,
		const char *message)
{
	(void)snprintf(out, DROVER_REASON, "%s '%.40s': %.60s%s%.120s", what, name,
		       reason ? reason : "no reason given", message ? ": " : "",
		       message ? message : "");
	drover_clean(out);
}

static void look_at_container(const struct jread *c, bool first, struct pod_seen *ret)
{
	const struct jread *state = jread_get(c, "state");
	const struct jread *waits = jread_get(state, "waiting"),
			   *over = jread_get(state, "terminated");
	const char *name = jread_str(c, "name"), *reason = jread_str(waits, "reason");
	int64_t code = jread_int(over, "exitCode", 0);

	name = name ? name : "";
	if (!first && str_eq(name, KUBE_FILLER))
		ret->filling = jread_get(state, "running") != NULL;
	if (waits && is_final(reason))
		say(ret->reason, "container", name, reason, jread_str(waits, "message"));
	else if (waits && reason && !ret->waits[0] && !str_eq(reason, "PodInitializing"))
		say(ret->waits, "container", name, reason, NULL);
	if (!over || (!first && code == 0))
		return;
	if (first)
		ret->over = true;
	ret->oom |= jread_str(over, "reason") && str_eq(jread_str(over, "reason"), "OOMKilled");
	if (!ret->reason[0])
		say(ret->reason, "container", name, jread_str(over, "reason"),
		    jread_str(over, "message"));
}

static void look_at_placing(const struct jread *status, struct pod_seen *ret)
{
	const struct jread *all = jread_get(status, "conditions");

	for (size_t i = 0; i < jread_count(all); i++) {
		const struct jread *c = jread_at(all, i);
		const char *type = jread_str(c, "type"), *is = jread_str(c, "status");

		if (type && is && str_eq(type, "PodScheduled") && str_eq(is, "False"))
			say(ret->waits, "a node for", "pod", jread_str(c, "reason"),
			    jread_str(c, "message"));
	}
}

/* A kubelet's words for a volume or a container that has become too large; a node that is short of
 * disk itself has others. */
static bool is_too_large(const struct jread *status)
{
	const char *reason = jread_str(status, "reason"), *text = jread_str(status, "message");

	return reason && text && str_eq(reason, "Evicted") &&
	       (strstr(text, "EmptyDir volume \"workspace\" exceeds") ||
		strstr(text, "exceeded its local ephemeral storage limit") ||
		strstr(text, "exceeds the total limit of containers"));
}

void pod_look(const struct jread *pod, struct pod_seen *ret)
{
	const struct jread *status = jread_get(pod, "status"), *meta = jread_get(pod, "metadata");
	const struct jread *inits = jread_get(status, "initContainerStatuses");
	const struct jread *main = jread_at(jread_get(status, "containerStatuses"), 0);
	const char *phase = jread_str(status, "phase");

	ret->waits[0] = ret->reason[0] = '\0';
	ret->disk = is_too_large(status);
	keep(ret->uid, sizeof(ret->uid), jread_str(meta, "uid"));
	keep(ret->node, sizeof(ret->node), jread_str(jread_get(pod, "spec"), "nodeName"));
	keep(ret->address, sizeof(ret->address), jread_str(status, "hostIP"));
	keep(ret->digest, sizeof(ret->digest), without_scheme(jread_str(main, "imageID")));
	look_at_placing(status, ret);
	for (size_t i = 0; i < jread_count(inits); i++)
		look_at_container(jread_at(inits, i), false, ret);
	look_at_container(main, true, ret);
	ret->running = jread_get(jread_get(main, "state"), "running") != NULL;
	if (phase && (str_eq(phase, "Failed") || str_eq(phase, "Succeeded"))) {
		ret->over = true;
		if (jread_str(status, "reason") || !ret->reason[0])
			say(ret->reason, "pod", phase, jread_str(status, "reason"),
			    jread_str(status, "message"));
	}
}

/* ---- is it what was asked for? ---- */

static bool is_true(const struct jread *v, const char *key)
{
	return jread_bool(v, key);
}

static bool is_false(const struct jread *v, const char *key)
{
	return jread_kind(jread_get(v, key)) == JREAD_BOOL && !jread_bool(v, key);
}

static bool lists(const struct jread *array, const char *only)
{
	const char *text = jread_text(jread_at(array, 0));

	return only ? jread_count(array) == 1 && text && str_eq(text, only) : !jread_count(array);
}

static const char *rights_differ(const struct jread *c, bool read_only, const char *add)
{
	const struct jread *s = jread_get(c, "securityContext"),
			   *caps = jread_get(s, "capabilities");

	if (is_true(s, "privileged") || !is_false(s, "allowPrivilegeEscalation"))
		return "its privileges";
	if (!lists(jread_get(caps, "drop"), "ALL") || !lists(jread_get(caps, "add"), add))
		return "its capabilities";
	if (read_only && !is_true(s, "readOnlyRootFilesystem"))
		return "its read-only root";
	return NULL;
}

static bool text_is(const struct jread *v, const char *key, const char *want)
{
	const char *text = jread_str(v, key);

	return text && str_eq(text, want);
}

static const char *helpers_differ(const struct backend_plan *p, const struct jread *inits)
{
	const char *names[] = { "put", NULL, NULL };
	size_t n = 1;
	const char *differs;

	if (p->network == NETWORK_NONE)
		names[n++] = "close";
	if (pod_is_filled(p))
		names[n++] = KUBE_FILLER;
	if (jread_count(inits) != n)
		return "its init containers: another one was added";
	for (size_t i = 0; i < n; i++) {
		const struct jread *c = jread_at(inits, i);

		if (!text_is(c, "name", names[i]) || !text_is(c, "image", p->kube.helper_image))
			return "its init containers";
		differs = rights_differ(c, true, str_eq(names[i], "close") ? "NET_ADMIN" : NULL);
		if (differs)
			return differs;
	}
	return NULL;
}

/* true: there, once, and not to be written to where that was asked for */
static bool is_mounted(const struct jread *mounts, const char *path, bool read_only)
{
	size_t found = 0;

	for (size_t i = 0; i < jread_count(mounts); i++) {
		const struct jread *m = jread_at(mounts, i);

		found += text_is(m, "mountPath", path) && (!read_only || is_true(m, "readOnly"));
	}
	return found == 1;
}

static const char *mounts_differ(const struct backend_plan *p, const struct jread *main)
{
	const struct jread *mounts = jread_get(main, "volumeMounts");
	const char *code = pod_code_mount(p);

	return jread_count(mounts) != (code ? 5 : 4) || !is_mounted(mounts, "/tmp", false) ||
			       !is_mounted(mounts, p->home, false) ||
			       !is_mounted(mounts, p->cwd, p->read_only_workspace) ||
			       (code && !is_mounted(mounts, code, true))
		       ? "what is mounted in it"
		       : NULL;
}

static const char *volumes_differ(const struct backend_plan *p, const struct jread *volumes)
{
	static const char *const names[] = { "brig", "tmp", "home", "workspace", "code" };
	size_t n = ARRAY_LEN(names) - (pod_code_mount(p) ? 0 : 1);

	if (jread_count(volumes) != n)
		return "its volumes: another one was added";
	for (size_t i = 0; i < n; i++) {
		const struct jread *v = jread_at(volumes, i);

		if (!text_is(v, "name", names[i]) ||
		    (!jread_get(v, "emptyDir") && !jread_get(v, "persistentVolumeClaim")))
			return "its volumes";
	}
	return NULL;
}

const char *pod_differs(const struct backend_plan *p, const struct jread *pod)
{
	const struct jread *s = jread_get(pod, "spec"), *all = jread_get(s, "containers");
	const struct jread *main = jread_at(all, 0);
	const char *class = p->kube.runtime_class, *differs;

	if (jread_count(all) != 1 || jread_count(jread_get(s, "ephemeralContainers")))
		return "its containers: another one was added";
	if (!text_is(main, "name", KUBE_CONTAINER) || !text_is(main, "image", p->image))
		return "its container";
	if (is_true(s, "hostNetwork") || is_true(s, "hostPID") || is_true(s, "hostIPC") ||
	    is_true(s, "shareProcessNamespace"))
		return "whose namespaces it has";
	if (!is_false(s, "automountServiceAccountToken"))
		return "its service account's token";
	if (jread_count(jread_get(main, "env")) || jread_count(jread_get(main, "envFrom")))
		return "its variables";
	if (class && !text_is(s, "runtimeClassName", class))
		return "its runtime class";
	if (!jread_get(jread_get(jread_get(main, "resources"), "limits"), "memory"))
		return "its limits";
	differs = rights_differ(main, p->read_only_root, NULL);
	differs = differs ? differs : helpers_differ(p, jread_get(s, "initContainers"));
	differs = differs ? differs : mounts_differ(p, main);
	return differs ? differs : volumes_differ(p, jread_get(s, "volumes"));
}
