/* SPDX-License-Identifier: Apache-2.0 */
/* backend/kubernetes/pod_door.c - what a pod has besides, under network proxy: the door's
 * container, the Secret that it alone is shown, and what the command trusts. */
#include <stdio.h>
#include <string.h>

#include "backend/kubernetes/kubernetes.h"
#include "backend/kubernetes/pod/pod_talk.h"
#include "base/text/str.h"

#define DOOR_MEMORY "256Mi"
#define DOOR_REQUEST "64Mi"
#define TRUST_ROOM "32Mi"
#define PLAN_VOLUME "plan"
#define TRUST_VOLUME "trust"
#define TRUST_INSIDE "/etc/brig" /* the folder of DOOR_ROOTS, which is POD_TRUST_ALL there */

static void door_rights(struct json *j)
{
	static const char *const all[] = { "ALL", NULL };
	static const char *const some[] = { "NET_ADMIN", "SYS_ADMIN", "NET_BIND_SERVICE",
					    "SETUID",    "SETGID",    NULL };

	json_kobject(j, "securityContext");
	json_kbool(j, "privileged", false);
	json_kbool(j, "allowPrivilegeEscalation", false);
	json_kbool(j, "readOnlyRootFilesystem", true);
	json_kbool(j, "runAsNonRoot", false);
	json_ku64(j, "runAsUser", 0);
	json_ku64(j, "runAsGroup", 0);
	json_kobject(j, "capabilities");
	json_kstrs(j, "drop", all);
	json_kstrs(j, "add", some);
	json_object_end(j);
	json_object_end(j);
}

static void door_resources(struct json *j)
{
	json_kobject(j, "resources");
	json_kobject(j, "limits");
	json_kstr(j, "memory", DOOR_MEMORY);
	json_object_end(j);
	json_kobject(j, "requests");
	json_kstr(j, "memory", DOOR_REQUEST);
	json_kstr(j, "cpu", "100m");
	json_object_end(j);
	json_object_end(j);
}

void pod_door_container(const struct backend_plan *p, struct json *j)
{
	static const char *const command[] = { KUBE_POD_PROGRAM, "door", NULL };

	if (p->network != NETWORK_PROXY)
		return;
	json_object(j);
	json_kstr(j, "name", KUBE_DOOR);
	json_kstr(j, "image", p->kube.helper_image);
	json_kstrs(j, "command", command);
	json_kstr(j, "workingDir", "/");
	pod_line(j);
	pod_addresses(j);
	door_rights(j);
	door_resources(j);
	json_karray(j, "volumeMounts");
	pod_mount(j, PLAN_VOLUME, POD_PLAN_FOLDER, NULL, true);
	pod_mount(j, TRUST_VOLUME, POD_TRUST_FOLDER, NULL, false);
	json_array_end(j);
	json_object_end(j);
}

void pod_door_volumes(const struct backend_plan *p, const struct pod_run *r, struct json *j)
{
	char name[KUBE_NAME_MAX];

	if (p->network != NETWORK_PROXY)
		return;
	(void)snprintf(name, sizeof(name), "brig-%.32s", r->id);
	json_object(j);
	json_kstr(j, "name", PLAN_VOLUME);
	json_kobject(j, "projected");
	json_karray(j, "sources");
	json_object(j);
	json_kobject(j, "secret");
	json_kstr(j, "name", name);
	json_karray(j, "items");
	json_object(j);
	json_kstr(j, "key", POD_PLAN_KEY);
	json_kstr(j, "path", POD_PLAN_KEY);
	json_object_end(j);
	json_array_end(j);
	json_object_end(j);
	json_object_end(j);
	json_array_end(j);
	json_ku64(j, "defaultMode", 0400);
	json_object_end(j);
	json_object_end(j);
	pod_volume(j, TRUST_VOLUME, "Memory", 0, TRUST_ROOM);
}

void pod_door_trust(const struct backend_plan *p, struct json *j)
{
	if (p->network == NETWORK_PROXY)
		pod_mount(j, TRUST_VOLUME, TRUST_INSIDE, NULL, true);
}

/* The cluster's servers, for the door's own questions; a name is asked for as it is written. */
void pod_door_names(const struct backend_plan *p, struct json *j)
{
	if (p->network != NETWORK_PROXY)
		return;
	json_kstr(j, "dnsPolicy", "ClusterFirst");
	json_kobject(j, "dnsConfig");
	json_karray(j, "options");
	json_object(j);
	json_kstr(j, "name", "ndots");
	json_kstr(j, "value", "0");
	json_object_end(j);
	json_array_end(j);
	json_object_end(j);
}

void pod_secret_body(const struct backend_plan *p, const struct pod_run *r,
		     const struct pod_policy *w, const char *plan, struct json *j)
{
	json_object(j);
	json_kstr(j, "apiVersion", "v1");
	json_kstr(j, "kind", "Secret");
	pod_metadata(p, r, w, j);
	json_kstr(j, "type", "Opaque");
	json_kbool(j, "immutable", true);
	json_kobject(j, "data");
	json_kstr(j, POD_PLAN_KEY, plan);
	json_object_end(j);
	json_object_end(j);
}
