/* SPDX-License-Identifier: Apache-2.0 */
/* backend/kubernetes/pod.c - a plan as a Pod.
 *
 *     init: close  takes the pod's network away, with NET_ADMIN alone, and copies brig-pod into a
 *                  folder of the pod's own; one container does both, for each takes a second
 *     init: put    copies alone, where no container may have NET_ADMIN: a policy closes the network
 *     init: fill   takes what the command may read and not write, as main does over its own line
 *     door         the way out, made of the pod's own device (network proxy; pod_door.c)
 *     main         the user's image, with brig-pod as its first process
 *
 * All that a cluster would otherwise choose is written down; what its admission has changed is
 * found by comparing (pod_same.c). */
#include <stdio.h>
#include <string.h>

#include "backend/kubernetes/kubernetes.h"
#include "backend/kubernetes/pod/pod_talk.h"
#include "base/text/str.h"
#include "model/request/code.h"

#define HELPER_MEMORY "32Mi"
#define HELPER_FOLDER "/brig"
#define ROOM "16Mi" /* of the folder for brig-pod */
#define USER_LABEL "brig.user."

static void text_u64(struct json *j, const char *key, uint64_t v, const char *unit)
{
	char text[40];

	(void)snprintf(text, sizeof(text), "%llu%s", (unsigned long long)v, unit);
	json_kstr(j, key, text);
}

/* ---- who may do what ---- */

static void capabilities(struct json *j, const char *add)
{
	static const char *const all[] = { "ALL", NULL };
	const char *const more[] = { add, NULL };

	json_kobject(j, "capabilities");
	json_kstrs(j, "drop", all);
	if (add)
		json_kstrs(j, "add", more);
	json_object_end(j);
}

static void container_rights(struct json *j, bool read_only_root, const char *add)
{
	json_kobject(j, "securityContext");
	json_kbool(j, "privileged", false);
	json_kbool(j, "allowPrivilegeEscalation", false);
	json_kbool(j, "readOnlyRootFilesystem", read_only_root);
	json_kbool(j, "runAsNonRoot", !add);
	if (add) { /* a capability that was added is root's alone */
		json_ku64(j, "runAsUser", 0);
		json_ku64(j, "runAsGroup", 0);
	}
	capabilities(j, add);
	json_object_end(j);
}

static void pod_rights(const struct backend_plan *p, struct json *j)
{
	json_kobject(j, "securityContext");
	json_kbool(j, "runAsNonRoot", true);
	json_ku64(j, "runAsUser", p->uid);
	json_ku64(j, "runAsGroup", p->gid);
	if (p->kube.workspace == KUBE_CLAIM) {
		json_ku64(j, "fsGroup", p->gid);
		json_kstr(j, "fsGroupChangePolicy", "OnRootMismatch");
	}
	json_kobject(j, "seccompProfile");
	json_kstr(j, "type", "RuntimeDefault");
	json_object_end(j);
	json_object_end(j);
}

/* ---- what is put there first ---- */

const char *pod_code_in_workspace(const struct backend_plan *p)
{
	size_t n = strlen(p->cwd);

	return p->code_path && strncmp(p->code_path, p->cwd, n) == 0 && p->code_path[n] == '/'
		       ? p->code_path + n + 1
		       : NULL;
}

bool pod_is_filled(const struct backend_plan *p)
{
	return p->code_path || (p->workdir && p->read_only_workspace);
}

/* Code has a volume of its own, unless the workspace cannot be written to anyway. */
static bool has_code_volume(const struct backend_plan *p)
{
	return p->code_path && !(p->read_only_workspace && pod_code_in_workspace(p));
}

const char *pod_code_mount(const struct backend_plan *p)
{
	if (!has_code_volume(p))
		return NULL;
	return pod_code_in_workspace(p) ? p->code_path : CODE_FOLDER;
}

void pod_code_place(const struct backend_plan *p, char *out, size_t n)
{
	(void)snprintf(out, n, "%s%s", has_code_volume(p) ? &CODE_FOLDER[1] : "",
		       has_code_volume(p) ? strrchr(p->code_path, '/') : p->code_path + 1);
}

/* ---- what there is ---- */

/* The kubelet makes shares of what is requested, 1024 of a whole CPU. */
static uint64_t requested_cpu(const struct backend_plan *p)
{
	return p->limits.cpu_shares ? (p->limits.cpu_shares * 1000 + 1023) / 1024 : p->limits.cpus;
}

/* The container's own storage is its root and its log, with all that goes over the line: held to a
 * limit only where that root is written to. The workspace has a size of its own. */
static void resources(const struct backend_plan *p, struct json *j)
{
	json_kobject(j, "resources");
	json_kobject(j, "limits");
	text_u64(j, "memory", p->limits.memory, "");
	if (p->limits.cpus)
		text_u64(j, "cpu", p->limits.cpus, "m");
	if (p->limits.disk && !p->read_only_root)
		text_u64(j, "ephemeral-storage", p->limits.disk, "");
	if (p->gpus)
		text_u64(j, p->kube.gpu_resource, p->gpus, "");
	json_object_end(j);
	json_kobject(j, "requests");
	text_u64(j, "memory", p->limits.memory, "");
	if (requested_cpu(p))
		text_u64(j, "cpu", requested_cpu(p), "m");
	if (p->limits.disk)
		text_u64(j, "ephemeral-storage", p->limits.disk, "");
	if (p->gpus) /* the API server would add it */
		text_u64(j, p->kube.gpu_resource, p->gpus, "");
	json_object_end(j);
	json_object_end(j);
}

static void helper_resources(struct json *j)
{
	static const char *const kinds[] = { "limits", "requests" };

	json_kobject(j, "resources");
	for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
		json_kobject(j, kinds[i]);
		json_kstr(j, "memory", HELPER_MEMORY);
		json_kstr(j, "cpu", "100m");
		json_object_end(j);
	}
	json_object_end(j);
}

void pod_volume(struct json *j, const char *name, const char *medium, uint64_t size,
		const char *text)
{
	json_object(j);
	json_kstr(j, "name", name);
	json_kobject(j, "emptyDir");
	if (medium)
		json_kstr(j, "medium", medium);
	if (text)
		json_kstr(j, "sizeLimit", text);
	else if (size)
		text_u64(j, "sizeLimit", size, "");
	json_object_end(j);
	json_object_end(j);
}

static void volumes(const struct backend_plan *p, const struct pod_run *r, struct json *j)
{
	json_karray(j, "volumes");
	pod_volume(j, "brig", "Memory", 0, ROOM);
	pod_volume(j, "tmp", "Memory", p->limits.tmp, NULL);
	pod_volume(j, "home", "Memory", p->limits.tmp, NULL);
	if (p->kube.workspace == KUBE_CLAIM) {
		json_object(j);
		json_kstr(j, "name", "workspace");
		json_kobject(j, "persistentVolumeClaim");
		json_kstr(j, "claimName", p->kube.claim);
		json_object_end(j);
		json_object_end(j);
	} else {
		pod_volume(j, "workspace", NULL, p->limits.disk, NULL);
	}
	if (has_code_volume(p))
		pod_volume(j, "code", "Memory", 0, ROOM);
	pod_door_volumes(p, r, j);
	json_array_end(j);
}

/* of: a file of the volume in place of all of it; NULL: all */
void pod_mount(struct json *j, const char *name, const char *path, const char *of, bool read_only)
{
	json_object(j);
	json_kstr(j, "name", name);
	json_kstr(j, "mountPath", path);
	if (of)
		json_kstr(j, "subPath", of);
	if (read_only)
		json_kbool(j, "readOnly", true);
	json_object_end(j);
}

/* ---- containers ---- */

static void address(struct json *j, const char *name, const char *field)
{
	json_object(j);
	json_kstr(j, "name", name);
	json_kobject(j, "valueFrom");
	json_kobject(j, "fieldRef");
	json_kstr(j, "fieldPath", field);
	json_object_end(j);
	json_object_end(j);
	json_object_end(j);
}

/* The kubelet's word on whose network it is. One that is the node's is not ours to close. */
void pod_addresses(struct json *j)
{
	json_karray(j, "env");
	address(j, POD_ADDRESS, "status.podIP");
	address(j, POD_ADDRESS_OF_NODE, "status.hostIP");
	json_array_end(j);
}

/* Its streams are a line to brig-pod. They end with brig's connection, and it with them. */
void pod_line(struct json *j)
{
	json_kbool(j, "stdin", true);
	json_kbool(j, "stdinOnce", true);
	json_kbool(j, "tty", false);
}

static void helper(const struct backend_plan *p, const char *name, const char *const *command,
		   const char *capability, struct json *j)
{
	json_object(j);
	json_kstr(j, "name", name);
	json_kstr(j, "image", p->kube.helper_image);
	json_kstrs(j, "command", command);
	if (capability)
		pod_addresses(j);
	container_rights(j, true, capability);
	helper_resources(j);
	json_karray(j, "volumeMounts");
	pod_mount(j, "brig", HELPER_FOLDER, NULL, false);
	json_array_end(j);
	json_object_end(j);
}

static void filler(const struct backend_plan *p, struct json *j)
{
	static const char *const command[] = { KUBE_POD_PROGRAM, "serve", NULL };

	json_object(j);
	json_kstr(j, "name", KUBE_FILLER);
	json_kstr(j, "image", p->kube.helper_image);
	json_kstrs(j, "command", command);
	json_kstr(j, "workingDir", "/");
	pod_line(j);
	container_rights(j, true, NULL);
	helper_resources(j);
	json_karray(j, "volumeMounts");
	if (p->kube.workspace != KUBE_CLAIM)
		pod_mount(j, "workspace", p->cwd, NULL, false);
	if (has_code_volume(p))
		pod_mount(j, "code", CODE_FOLDER, NULL, false);
	json_array_end(j);
	json_object_end(j);
}

static void helpers(const struct backend_plan *p, const struct pod_run *r, struct json *j)
{
	static const char *const put[] = { KUBE_POD_PROGRAM, "put", HELPER_FOLDER KUBE_POD_PROGRAM,
					   NULL };
	static const char *const close_net[] = { KUBE_POD_PROGRAM, "close",
						 HELPER_FOLDER KUBE_POD_PROGRAM, NULL };

	json_karray(j, "initContainers");
	if (p->network == NETWORK_NONE && !r->by_policy)
		helper(p, "close", close_net, "NET_ADMIN", j);
	else
		helper(p, "put", put, NULL, j);
	if (pod_is_filled(p))
		filler(p, j);
	json_array_end(j);
}

static void show_code(const struct backend_plan *p, struct json *j)
{
	if (has_code_volume(p))
		pod_mount(j, "code", pod_code_mount(p), pod_code_in_workspace(p), true);
}

static void main_container(const struct backend_plan *p, const struct pod_run *r, struct json *j)
{
	char program[KUBE_NAME_MAX + sizeof(KUBE_POD_PROGRAM)];
	const char *const command[] = { program, "serve", NULL };

	(void)snprintf(program, sizeof(program), "%s" KUBE_POD_PROGRAM, r->inside);
	json_object(j);
	json_kstr(j, "name", KUBE_CONTAINER);
	if (p->image)
		json_kstr(j, "image", p->image);
	json_kstrs(j, "command", command);
	json_kstr(j, "workingDir", "/");
	pod_line(j);
	container_rights(j, p->read_only_root, NULL);
	resources(p, j);
	json_karray(j, "volumeMounts");
	pod_mount(j, "brig", r->inside, NULL, true);
	pod_mount(j, "tmp", "/tmp", NULL, false);
	pod_mount(j, "home", p->home, NULL, false);
	pod_mount(j, "workspace", p->cwd, NULL, p->read_only_workspace);
	show_code(p, j);
	pod_door_trust(p, j);
	json_array_end(j);
	json_object_end(j);
}

/* ---- where it goes ---- */

/* KEY[=VALUE][:EFFECT] */
static void toleration(const char *text, struct json *j)
{
	size_t key = strcspn(text, "=:");
	const char *rest = text + key;

	json_object(j);
	json_key(j, "key");
	json_strn(j, text, key);
	json_kstr(j, "operator", *rest == '=' ? "Equal" : "Exists");
	if (*rest == '=') {
		size_t n = strcspn(++rest, ":");

		json_key(j, "value");
		json_strn(j, rest, n);
		rest += n;
	}
	if (*rest == ':')
		json_kstr(j, "effect", rest + 1);
	json_object_end(j);
}

static void pod_put_place(const struct backend_plan *p, struct json *j)
{
	const struct kube_spec *k = &p->kube;

	if (k->node_selector.n) {
		json_kobject(j, "nodeSelector");
		for (size_t i = 0; i < k->node_selector.n; i++)
			json_kstr(j, k->node_selector.v[i].name, k->node_selector.v[i].value);
		json_object_end(j);
	}
	if (k->tolerations.n) {
		json_karray(j, "tolerations");
		for (size_t i = 0; i < k->tolerations.n; i++)
			toleration(k->tolerations.v[i], j);
		json_array_end(j);
	}
	if (!k->pull_secrets.n)
		return;
	json_karray(j, "imagePullSecrets");
	for (size_t i = 0; i < k->pull_secrets.n; i++) {
		json_object(j);
		json_kstr(j, "name", k->pull_secrets.v[i]);
		json_object_end(j);
	}
	json_array_end(j);
}

/* A name server that nobody is: a question for a name fails at once, and tells nobody. */
static void no_names(struct json *j)
{
	static const char *const none[] = { "127.0.0.1", NULL };

	json_kstr(j, "dnsPolicy", "None");
	json_kobject(j, "dnsConfig");
	json_kstrs(j, "nameservers", none);
	json_object_end(j);
}

uint64_t pod_deadline(const struct backend_plan *p)
{
	uint64_t seconds = p->timeout ? (p->timeout + p->kill_after + 999) / 1000 + KUBE_SET_UP_S
				      : KUBE_LONGEST_S;

	return seconds < KUBE_LONGEST_S ? seconds : KUBE_LONGEST_S;
}

/* ---- the objects ---- */

bool kube_is_label(const char *text)
{
	size_t n = strlen(text);
	const char *const alnum = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";

	if (n > 63 || (n && (!strchr(alnum, text[0]) || !strchr(alnum, text[n - 1]))))
		return false;
	for (; *text; text++)
		if (!strchr(alnum, *text) && !strchr("-_.", *text))
			return false;
	return true;
}

/* What a label cannot say is an annotation. */
static void users_labels(const struct backend_plan *p, bool as_labels, struct json *j)
{
	for (size_t i = 0; i < p->labels.n; i++) {
		char key[KUBE_NAME_MAX + sizeof(USER_LABEL)];

		if (kube_is_label(p->labels.v[i].value) != as_labels)
			continue;
		(void)snprintf(key, sizeof(key), USER_LABEL "%s", p->labels.v[i].name);
		json_kstr(j, key, p->labels.v[i].value);
	}
}

static void labels(const struct backend_plan *p, const struct pod_run *r, struct json *j)
{
	json_kobject(j, "labels");
	json_kstr(j, "app.kubernetes.io/managed-by", "brig");
	json_kstr(j, KUBE_LABEL, r->id);
	json_kstr(j, KUBE_LABEL_INSTANCE, r->instance);
	users_labels(p, true, j);
	json_object_end(j);
	json_kobject(j, "annotations");
	users_labels(p, false, j);
	json_object_end(j);
}

void pod_labels(const struct backend_plan *p, const struct pod_run *r, struct json *j)
{
	json_kobject(j, "metadata");
	labels(p, r, j);
	json_object_end(j);
}

void pod_metadata(const struct backend_plan *p, const struct pod_run *r, const struct pod_policy *w,
		  struct json *j)
{
	char name[KUBE_NAME_MAX];

	(void)snprintf(name, sizeof(name), "brig-%.32s", r->id);
	json_kobject(j, "metadata");
	json_kstr(j, "name", name);
	labels(p, r, j);
	if (w) {
		json_karray(j, "ownerReferences");
		json_object(j);
		json_kstr(j, "apiVersion", "v1");
		json_kstr(j, "kind", "Pod");
		json_kstr(j, "name", w->name ? w->name : name);
		json_kstr(j, "uid", w->uid);
		json_object_end(j);
		json_array_end(j);
	}
	json_object_end(j);
}

void pod_spec(const struct backend_plan *p, const struct pod_run *r, struct json *j)
{
	json_kobject(j, "spec");
	json_kstr(j, "restartPolicy", "Never");
	if (!r->claimed) /* one of a pool may have waited for longer: the claim has the deadline */
		json_ku64(j, "activeDeadlineSeconds", pod_deadline(p));
	json_ku64(j, "terminationGracePeriodSeconds", 1);
	json_kbool(j, "automountServiceAccountToken", false);
	json_kbool(j, "enableServiceLinks", false);
	if (r->user_ns)
		json_kbool(j, "hostUsers", false);
	if (p->kube.service_account)
		json_kstr(j, "serviceAccountName", p->kube.service_account);
	if (p->kube.runtime_class)
		json_kstr(j, "runtimeClassName", p->kube.runtime_class);
	if (p->network == NETWORK_NONE)
		no_names(j);
	pod_door_names(p, j);
	pod_put_place(p, j);
	pod_rights(p, j);
	volumes(p, r, j);
	helpers(p, r, j);
	json_karray(j, "containers");
	pod_door_container(p, j);
	main_container(p, r, j);
	json_array_end(j);
	json_object_end(j);
}

void pod_body(const struct backend_plan *p, const struct pod_run *r, struct json *j)
{
	json_object(j);
	json_kstr(j, "apiVersion", "v1");
	json_kstr(j, "kind", "Pod");
	pod_metadata(p, r, NULL, j);
	pod_spec(p, r, j);
	json_object_end(j);
}

void pod_closed_body(const struct backend_plan *p, const struct pod_run *r,
		     const struct pod_policy *w, struct json *j)
{
	static const char *const both[] = { "Ingress", "Egress", NULL };

	json_object(j);
	json_kstr(j, "apiVersion", "networking.k8s.io/v1");
	json_kstr(j, "kind", "NetworkPolicy");
	pod_metadata(p, r, w, j);
	json_kobject(j, "spec");
	json_kobject(j, "podSelector");
	json_kobject(j, "matchLabels");
	json_kstr(j, w->label ? w->label : KUBE_LABEL, w->label ? w->value : r->id);
	json_object_end(j);
	json_object_end(j);
	json_kstrs(j, "policyTypes", both);
	if (p->network == NETWORK_PROXY) { /* the door decides what goes out */
		json_karray(j, "egress");
		json_object(j);
		json_object_end(j);
		json_array_end(j);
	}
	json_object_end(j);
	json_object_end(j);
}
