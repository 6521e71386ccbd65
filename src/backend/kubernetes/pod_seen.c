/* SPDX-License-Identifier: Apache-2.0 */
/* backend/kubernetes/pod_seen.c - a pod as the API shows it: how far it is. */
#include <stdio.h>
#include <string.h>

#include "backend/kubernetes/pod_guard.h"
#include "base/text/str.h"

static void pod_seen_keep(char *out, size_t n, const char *text)
{
	(void)snprintf(out, n, "%s", text ? text : "");
	pod_guard_clean(out);
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

static void pod_seen_say(char *out, const char *what, const char *name, const char *reason,
			 const char *message)
{
	(void)snprintf(out, POD_GUARD_REASON, "%s '%.40s': %.60s%s%.120s", what, name,
		       reason ? reason : "no reason given", message ? ": " : "",
		       message ? message : "");
	pod_guard_clean(out);
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
		pod_seen_say(ret->reason, "container", name, reason, jread_str(waits, "message"));
	else if (waits && reason && !ret->waits[0] && !str_eq(reason, "PodInitializing"))
		pod_seen_say(ret->waits, "container", name, reason, NULL);
	if (!over || (!first && code == 0))
		return;
	if (first)
		ret->over = true;
	ret->oom |= jread_str(over, "reason") && str_eq(jread_str(over, "reason"), "OOMKilled");
	if (!ret->reason[0])
		pod_seen_say(ret->reason, "container", name, jread_str(over, "reason"),
			     jread_str(over, "message"));
}

/* A scheduler's words for a claim that nobody has made; one that is being made has others. */
static bool is_without_claim(const char *text)
{
	const char *at = text ? strstr(text, "persistentvolumeclaim \"") : NULL;

	return at && (strstr(at, "\" not found") || strstr(at, "\" is being deleted"));
}

static void look_at_placing(const struct jread *status, struct pod_seen *ret)
{
	const struct jread *all = jread_get(status, "conditions");

	for (size_t i = 0; i < jread_count(all); i++) {
		const struct jread *c = jread_at(all, i);
		const char *type = jread_str(c, "type"), *is = jread_str(c, "status");
		const char *text = jread_str(c, "message");

		if (!type || !is || !str_eq(type, "PodScheduled") || !str_eq(is, "False"))
			continue;
		pod_seen_say(ret->waits, "a node for", "pod", jread_str(c, "reason"), text);
		ret->no_claim = is_without_claim(text);
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

/* Kubelets sort them by name, and whoever reads them cannot rely on that. */
static const struct jread *pod_seen_named(const struct jread *all, const char *name)
{
	for (size_t i = 0; i < jread_count(all); i++) {
		const char *is = jread_str(jread_at(all, i), "name");

		if (is && str_eq(is, name))
			return jread_at(all, i);
	}
	return NULL;
}

void pod_look(const struct jread *pod, struct pod_seen *ret)
{
	const struct jread *status = jread_get(pod, "status"), *meta = jread_get(pod, "metadata");
	const struct jread *inits = jread_get(status, "initContainerStatuses");
	const struct jread *main =
		pod_seen_named(jread_get(status, "containerStatuses"), KUBE_CONTAINER);
	const struct jread *door =
		pod_seen_named(jread_get(status, "containerStatuses"), KUBE_DOOR);
	const char *phase = jread_str(status, "phase");

	ret->waits[0] = ret->reason[0] = '\0';
	ret->no_claim = false;
	ret->disk = is_too_large(status);
	ret->leaving = jread_str(meta, "deletionTimestamp") != NULL;
	pod_seen_keep(ret->uid, sizeof(ret->uid), jread_str(meta, "uid"));
	pod_seen_keep(ret->node, sizeof(ret->node), jread_str(jread_get(pod, "spec"), "nodeName"));
	pod_seen_keep(ret->address, sizeof(ret->address), jread_str(status, "hostIP"));
	pod_seen_keep(ret->digest, sizeof(ret->digest), without_scheme(jread_str(main, "imageID")));
	look_at_placing(status, ret);
	for (size_t i = 0; i < jread_count(inits); i++)
		look_at_container(jread_at(inits, i), false, ret);
	look_at_container(door, true, ret);
	look_at_container(main, true, ret);
	ret->door = jread_get(jread_get(door, "state"), "running") != NULL;
	ret->running = jread_get(jread_get(main, "state"), "running") != NULL;
	if (phase && (str_eq(phase, "Failed") || str_eq(phase, "Succeeded"))) {
		ret->over = true;
		if (jread_str(status, "reason") || !ret->reason[0])
			pod_seen_say(ret->reason, "pod", phase, jread_str(status, "reason"),
				     jread_str(status, "message"));
	}
}
