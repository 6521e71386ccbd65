/* SPDX-License-Identifier: Apache-2.0 */
/* backend/kubernetes/pod_guard_owner.c - a pod that agent-sandbox's controller makes.
 *
 *     what the cluster has ─▶ template, pool ─▶ note ─▶ Sandbox ───────────────┐
 *                                                  └─▶ SandboxClaim ─▶ Sandbox ─┴▶ pod ─▶ compared
 *
 * Whose is whose is known by uid alone: the claim must control the Sandbox, the Sandbox the pod.
 * What the pod is like is compared as with one that brig has made (pod_same.c), a template before
 * anything is claimed. A controller that says nothing for a while is none. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "backend/kubernetes/pod_guard.h"
#include "base/bytes/json.h"
#include "base/files/fd.h"
#include "base/sys/clock.h"
#include "base/sys/wait.h"
#include "base/text/str.h"

#define BODY_MAX ((size_t)2 << 20)
#define LOOK_MS 250
#define SILENT_MS 15000 /* for a controller to say its first word */
#define PATH_SIZE 512

static const struct {
	const char *kind, *plural;
} kinds[] = { [OWNER_NONE] = { "Pod", "pods" },
	      [OWNER_SANDBOX] = { "Sandbox", "sandboxes" },
	      [OWNER_CLAIM] = { "SandboxClaim", "sandboxclaims" } };

/* ---- asking ---- */

static void pod_guard_owner_path_of(const struct pod_guard *g, bool claims, const char *plural,
				    const char *name, char *out)
{
	(void)snprintf(out, PATH_SIZE, "/apis/%s/%s/namespaces/%s/%s%s%s",
		       claims ? OWNER_GROUP_CLAIMS : OWNER_GROUP,
		       claims ? g->owner.version_of_claims : g->owner.version, g->space, plural,
		       name ? "/" : "", name ? name : "");
}

void pod_guard_owner_path(const struct pod_guard *g, const char *name, char *out, size_t n)
{
	char path[PATH_SIZE];

	pod_guard_owner_path_of(g, g->owner.kind == OWNER_CLAIM, kinds[g->owner.kind].plural, name,
				path);
	(void)snprintf(out, n, "%s", path);
}

void pod_guard_owner_kind(const struct pod_guard *g, char out[KUBE_KIND_MAX])
{
	const struct pod_guard_owner *o = &g->owner;
	bool claim = o->kind == OWNER_CLAIM;

	out[0] = '\0';
	if (o->kind != OWNER_NONE)
		(void)snprintf(out, KUBE_KIND_MAX, "%s/%s/%s",
			       claim ? OWNER_GROUP_CLAIMS : OWNER_GROUP,
			       claim ? o->version_of_claims : o->version, kinds[o->kind].plural);
}

/* *ret NULL: there is no such thing. */
static int pod_guard_owner_get(struct pod_guard *g, const char *path, const char *what,
			       struct jread **ret, struct err *e)
{
	CLEANUP(kube_answer) struct kube_answer a = { 0 };
	const struct kube_request q = { .method = "GET", .path = path };

	*ret = NULL;
	if (kube_ask(g->kube, &q, &a, e) < 0)
		return -e->code;
	if (a.status == 404)
		return 0;
	if (a.status != 200)
		return pod_guard_refused(&a, what, e);
	return jread_parse(buf_str(&a.body), a.body.len, ret, e) < 0 ? err_wrap(e, "%s", what) : 0;
}

/* ---- what the cluster has ---- */

/* *ret NULL: the cluster has no such kind. */
static int find_version(struct pod_guard *g, const char *group, const char *plural,
			const char **ret, struct err *e)
{
	CLEANUP(jread) struct jread *all = NULL;
	CLEANUP(jread) struct jread *kinds_of = NULL;
	char path[PATH_SIZE];
	const char *version;

	*ret = NULL;
	(void)snprintf(path, sizeof(path), "/apis/%s", group);
	if (pod_guard_owner_get(g, path, "a question for agent-sandbox", &all, e) < 0)
		return -e->code;
	if (!all)
		return 0;
	version = owner_version(all);
	if (!version)
		return err_refuse(
			e, ERR_UNAVAILABLE, EPROTONOSUPPORT,
			"--set kubernetes.use=pod does without; or a brig that knows them",
			"the cluster's agent-sandbox (%s) has only versions that this brig "
			"does not know",
			group);
	(void)snprintf(path, sizeof(path), "/apis/%s/%s", group, version);
	if (pod_guard_owner_get(g, path, "a question for agent-sandbox", &kinds_of, e) < 0)
		return -e->code;
	*ret = owner_has(kinds_of, plural) ? version : NULL;
	return 0;
}

static int not_there(const char *kind, struct err *e)
{
	return err_refuse(e, ERR_UNAVAILABLE, ENOENT,
			  "install agent-sandbox there, or --set kubernetes.use=pod without "
			  "kubernetes.template",
			  "the cluster has no %s: agent-sandbox is not installed", kind);
}

int pod_guard_owner_choose(struct pod_guard *g, struct err *e)
{
	const struct kube_spec *k = &g->plan->kube;
	struct pod_guard_owner *o = &g->owner;

	bool may = g->s->open && g->plan->network != NETWORK_PROXY; /* a door is one run's own */

	if (!k->template && (k->use == KUBE_USE_POD || (k->use == KUBE_USE_AUTO && !may)))
		return 0;
	if (find_version(g, OWNER_GROUP, kinds[OWNER_SANDBOX].plural, &o->version, e) < 0)
		return -e->code;
	if (!o->version)
		return k->use == KUBE_USE_AUTO && !k->template
			       ? 0
			       : not_there(kinds[OWNER_SANDBOX].kind, e);
	o->kind = OWNER_SANDBOX;
	(void)snprintf(o->name, sizeof(o->name), "%.63s", g->name);
	if (!k->template)
		return 0;
	if (find_version(g, OWNER_GROUP_CLAIMS, kinds[OWNER_CLAIM].plural, &o->version_of_claims,
			 e) < 0)
		return -e->code;
	if (!o->version_of_claims)
		return not_there(kinds[OWNER_CLAIM].kind, e);
	o->kind = OWNER_CLAIM;
	return 0;
}

/* ---- a template, before anything is claimed ---- */

static int check_template(struct pod_guard *g, struct err *e)
{
	CLEANUP(jread) struct jread *v = NULL;
	const char *name = g->plan->kube.template;
	char path[PATH_SIZE];

	pod_guard_owner_path_of(g, true, "sandboxtemplates", name, path);
	if (pod_guard_owner_get(g, path, "a question for a SandboxTemplate", &v, e) < 0)
		return -e->code;
	if (!v)
		return err_refuse(e, ERR_CONFIG, ENOENT,
				  "brig plan --backend kubernetes, with the same settings, prints "
				  "one to apply",
				  "namespace '%s' has no SandboxTemplate '%.80s'", g->space, name);
	if (!pod_breaks_promise(g->asked, jread_get(jread_get(v, "spec"), "podTemplate"),
				g->differs, sizeof(g->differs)))
		return 0;
	return err_refuse(e, ERR_POLICY, EPERM,
			  "brig plan --backend kubernetes, with the same settings, prints one that "
			  "does",
			  "SandboxTemplate '%.80s' does not keep what was asked for: %s", name,
			  g->differs);
}

/* *pool is kept in *held; NULL: a claim names its template. */
static int find_pool(struct pod_guard *g, struct jread **held, const char **pool, struct err *e)
{
	const char *name = g->plan->kube.template;
	char path[PATH_SIZE];

	*pool = NULL;
	*held = NULL;
	if (!owner_version_has_pools(g->owner.version_of_claims))
		return 0;
	pod_guard_owner_path_of(g, true, "sandboxwarmpools", NULL, path);
	if (pod_guard_owner_get(g, path, "a question for warm pools", held, e) < 0)
		return -e->code;
	*pool = owner_pool(*held, name);
	return *pool ? 0
		     : err_refuse(
			       e, ERR_CONFIG, ENOENT,
			       "a claim is made of a pool there: apply a SandboxWarmPool with "
			       "that sandboxTemplateRef; 0 replicas will do",
			       "namespace '%s' has no SandboxWarmPool of SandboxTemplate '%.80s'",
			       g->space, name);
}

/* ---- making it ---- */

static int write_asked(struct pod_guard *g, const struct pod_run *r, struct err *e)
{
	CLEANUP(buf) struct buf body = BUF_INIT(BODY_MAX);
	struct json j;

	json_init(&j, &body, false);
	pod_body(g->plan, r, &j);
	return body.failed || jread_parse(buf_str(&body), body.len, &g->asked, e) < 0 ? err_nomem(e)
										      : 0;
}

static void write_end(const struct pod_guard *g, char *out, size_t n)
{
	time_t at = time(NULL) + (time_t)pod_deadline(g->plan);
	struct tm tm;

	if (!gmtime_r(&at, &tm) || !strftime(out, n, "%Y-%m-%dT%H:%M:%SZ", &tm))
		out[0] = '\0';
}

static int owner_make(struct pod_guard *g, const struct pod_run *r, const char *pool, struct err *e)
{
	CLEANUP(buf) struct buf body = BUF_INIT(BODY_MAX);
	CLEANUP(kube_answer) struct kube_answer a = { 0 };
	CLEANUP(jread) struct jread *v = NULL;
	bool claim = g->owner.kind == OWNER_CLAIM;
	char path[PATH_SIZE], what[40], until[32];
	const struct owner_run o = { .version =
					     claim ? g->owner.version_of_claims : g->owner.version,
				     .until = until,
				     .pool = pool };
	struct json j;

	write_end(g, until, sizeof(until));
	json_init(&j, &body, false);
	(claim ? owner_claim_body : owner_sandbox_body)(g->plan, r, &o, &j);
	pod_guard_owner_path(g, NULL, path, sizeof(path));
	(void)snprintf(what, sizeof(what), "a %s", kinds[g->owner.kind].kind);
	g->made = true;
	if (pod_guard_post(g, path, &body, what, &a, e) < 0)
		return -e->code;
	if (jread_parse(buf_str(&a.body), a.body.len, &v, e) < 0)
		return err_wrap(e, "%s that the cluster made", what);
	owner_look(v, &g->owner.seen);
	if (!g->owner.seen.uid[0])
		return err_set(e, ERR_UNAVAILABLE, EPROTO,
			       "the cluster does not say which %s it made",
			       kinds[g->owner.kind].kind);
	(void)snprintf(g->owner.uid, sizeof(g->owner.uid), "%s", g->owner.seen.uid);
	return 0;
}

/* ---- waiting for its controller ---- */

static int on_owner(struct pod_guard *g, const struct jread *event)
{
	const struct jread *thing = jread_get(event, "object");
	const char *type = jread_str(event, "type"), *uid;
	struct pod_guard_owner *o = &g->owner;

	if (!type || str_eq(type, "RESET") || str_eq(type, "SYNCED"))
		return 0;
	if (str_eq(type, "FAILED"))
		return -EIO;
	uid = jread_str(jread_get(thing, "metadata"), "uid");
	/* A claim's Sandbox becomes known by whose it is; from then on it is that one. */
	if (!o->sandbox_uid[0] && o->seen.sandbox[0] && uid && owner_controls(o->uid, thing) &&
	    kube_is_name(uid, sizeof(o->sandbox_uid) - 1))
		(void)snprintf(o->sandbox_uid, sizeof(o->sandbox_uid), "%s", uid);
	if (!uid || !str_eq(uid, o->sandbox_uid[0] ? o->sandbox_uid : o->uid))
		return 0;
	o->gone = str_eq(type, "DELETED");
	owner_look(thing, &o->seen);
	return 0;
}

static int silent(const struct pod_guard *g UNUSED, const char *kind, struct err *e)
{
	return err_refuse(e, ERR_UNAVAILABLE, ETIMEDOUT,
			  "does agent-sandbox's controller run there? --set kubernetes.use=pod "
			  "does without",
			  "no controller has said anything of the %s for %d s", kind,
			  SILENT_MS / 1000);
}

static int comes_to_nothing(const struct pod_guard *g, const char *kind, struct err *e)
{
	const struct owner_seen *s = &g->owner.seen;

	if (g->owner.gone)
		return err_set(e, ERR_UNAVAILABLE, ESTALE, "the %s was removed by somebody else",
			       kind);
	return err_refuse(e, ERR_UNAVAILABLE, EIO, "kubectl describe it says more",
			  "the %s comes to nothing: %s", kind, s->reason);
}

/* One round: 1 when something may have changed. */
static int pod_guard_owner_await(struct pod_guard *g, const char *kind, uint64_t begun, char *told,
				 struct err *e)
{
	struct pollfd p[] = { { .fd = g->owner.watch, .events = POLLIN },
			      { .fd = g->s->control, .events = POLLIN } };
	const struct owner_seen *s = &g->owner.seen;
	uint64_t ms = (clock_us() - begun) / 1000;

	if (g->owner.gone || s->reason[0])
		return comes_to_nothing(g, kind, e);
	if (!s->told && ms > SILENT_MS)
		return silent(g, kind, e);
	if (ms > POD_GUARD_START_MS)
		return err_set(e, ERR_UNAVAILABLE, ETIMEDOUT, "the %s had no pod within %d s: %s",
			       kind, POD_GUARD_START_MS / 1000, s->waits);
	(void)wait_any(p, ARRAY_LEN(p), clock_after(LOOK_MS));
	if (pod_guard_given_up(g))
		return err_set(e, ERR_INTERNAL, ECANCELED, "the run was given up");
	if (p[0].revents && pod_guard_hear_lines(g, g->owner.watch, &g->owner.line, on_owner) < 0)
		return err_set(e, ERR_UNAVAILABLE, EIO,
			       "the cluster does not tell what becomes of the %s", kind);
	if (s->waits[0] && !str_eq(told, s->waits)) {
		(void)snprintf(told, OWNER_TEXT, "%s", s->waits);
		(void)pod_guard_note(g, told);
	}
	return p[0].revents ? 1 : 0;
}

static int pod_guard_owner_follow(struct pod_guard *g, bool claims, const char *plural,
				  const char *name, struct err *e)
{
	char path[PATH_SIZE], whole[PATH_SIZE + OWNER_NAME + 40];

	g->owner.watch = fd_close(g->owner.watch);
	g->owner.line.len = 0;
	pod_guard_owner_path_of(g, claims, plural, NULL, path);
	(void)snprintf(whole, sizeof(whole), "%s?fieldSelector=metadata.name%%3D%s", path, name);
	return pod_guard_follow(g, whole, &g->owner.watch, &g->owner.line, e);
}

/* A claim gets a Sandbox, new or out of a pool. */
static int wait_for_sandbox(struct pod_guard *g, char *name, struct err *e)
{
	uint64_t begun = clock_us();
	char told[OWNER_TEXT] = "";

	if (pod_guard_owner_follow(g, true, kinds[OWNER_CLAIM].plural, g->owner.name, e) < 0)
		return -e->code;
	while (!g->owner.seen.sandbox[0])
		if (pod_guard_owner_await(g, kinds[OWNER_CLAIM].kind, begun, told, e) < 0)
			return -e->code;
	(void)snprintf(name, OWNER_NAME, "%s", g->owner.seen.sandbox);
	return 0;
}

/* *ret NULL: it is not there yet, or is not this Sandbox's. */
static int look_for_pod(struct pod_guard *g, struct jread **ret, struct err *e)
{
	CLEANUP(jread) struct jread *v = NULL;
	char path[PATH_SIZE];

	*ret = NULL;
	if (!g->owner.sandbox_uid[0] || !g->owner.seen.pod[0])
		return 0;
	(void)snprintf(path, sizeof(path), "/api/v1/namespaces/%s/pods/%s", g->space,
		       g->owner.seen.pod);
	if (pod_guard_owner_get(g, path, "a question for the pod", &v, e) < 0)
		return -e->code;
	if (v && owner_controls(g->owner.sandbox_uid, v))
		*ret = TAKE_PTR(v);
	return 0;
}

/* Each word of the controller's may be that the pod is there. */
static int wait_for_pod(struct pod_guard *g, const char *sandbox, struct jread **ret, struct err *e)
{
	uint64_t begun = clock_us();
	char told[OWNER_TEXT] = "";
	int r = 0;

	*ret = NULL;
	if (pod_guard_owner_follow(g, false, kinds[OWNER_SANDBOX].plural, sandbox, e) < 0)
		return -e->code;
	while (!*ret) {
		r = pod_guard_owner_await(g, kinds[OWNER_SANDBOX].kind, begun, told, e);
		if (r < 0 || (r > 0 && look_for_pod(g, ret, e) < 0))
			return -e->code;
	}
	return 0;
}

int pod_guard_owner_make(struct pod_guard *g, struct pod_run *r, struct err *e)
{
	CLEANUP(jread) struct jread *pools = NULL;
	CLEANUP(jread) struct jread *pod = NULL;
	struct pod_guard_owner *o = &g->owner;
	char sandbox[OWNER_NAME];
	const char *pool = NULL;

	r->claimed = o->kind == OWNER_CLAIM;
	if (r->claimed)
		r->inside = OWNER_INSIDE;
	if (write_asked(g, r, e) < 0)
		return -e->code;
	if (r->claimed && (check_template(g, e) < 0 || find_pool(g, &pools, &pool, e) < 0))
		return -e->code;
	if (owner_make(g, r, pool, e) < 0)
		return -e->code;
	(void)snprintf(sandbox, sizeof(sandbox), "%s", o->name);
	if (o->kind == OWNER_SANDBOX)
		(void)snprintf(o->sandbox_uid, sizeof(o->sandbox_uid), "%s", o->uid);
	else if (wait_for_sandbox(g, sandbox, e) < 0)
		return -e->code;
	if (wait_for_pod(g, sandbox, &pod, e) < 0)
		return -e->code;
	o->watch = fd_close(o->watch);
	(void)snprintf(g->name, sizeof(g->name), "%s", o->seen.pod);
	return pod_guard_has_pod(g, r, pod, e);
}
