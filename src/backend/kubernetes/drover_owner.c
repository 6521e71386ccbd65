/* SPDX-License-Identifier: Apache-2.0 */
/* backend/kubernetes/drover_owner.c - a pod that agent-sandbox's controller makes.
 *
 *     what the cluster has ─▶ template, pool ─▶ note ─▶ Sandbox ───────────────┐
 *                                                  └─▶ SandboxClaim ─▶ Sandbox ─┴▶ pod ─▶ compared
 *
 * Whose is whose is known by uid alone: the claim must control the Sandbox, the Sandbox the pod.
 * What the pod is like is compared as with one that brig has made (pod_same.c), a template before
 * anything is claimed. A controller that says nothing for a while is none. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "backend/kubernetes/drover.h"
#include "base/bytes/json.h"
#include "base/files/fd.h"
#include "base/sys/clock.h"
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

static void drover_owner_path_of(const struct drover *d, bool claims, const char *plural,
				 const char *name, char *out)
{
	(void)snprintf(out, PATH_SIZE, "/apis/%s/%s/namespaces/%s/%s%s%s",
		       claims ? OWNER_GROUP_CLAIMS : OWNER_GROUP,
		       claims ? d->owner.version_of_claims : d->owner.version, d->space, plural,
		       name ? "/" : "", name ? name : "");
}

void drover_owner_path(const struct drover *d, const char *name, char *out, size_t n)
{
	char path[PATH_SIZE];

	drover_owner_path_of(d, d->owner.kind == OWNER_CLAIM, kinds[d->owner.kind].plural, name,
			     path);
	(void)snprintf(out, n, "%s", path);
}

void drover_owner_kind(const struct drover *d, char out[KUBE_KIND_MAX])
{
	const struct drover_owner *o = &d->owner;
	bool claim = o->kind == OWNER_CLAIM;

	out[0] = '\0';
	if (o->kind != OWNER_NONE)
		(void)snprintf(out, KUBE_KIND_MAX, "%s/%s/%s",
			       claim ? OWNER_GROUP_CLAIMS : OWNER_GROUP,
			       claim ? o->version_of_claims : o->version, kinds[o->kind].plural);
}

/* *ret NULL: there is no such thing. */
static int drover_owner_get(struct drover *d, const char *path, const char *what,
			    struct jread **ret, struct err *e)
{
	CLEANUP(kube_answer) struct kube_answer a = { 0 };
	const struct kube_request q = { .method = "GET", .path = path };

	*ret = NULL;
	if (kube_ask(d->kube, &q, &a, e) < 0)
		return -e->code;
	if (a.status == 404)
		return 0;
	if (a.status != 200)
		return drover_refused(&a, what, e);
	return jread_parse(buf_str(&a.body), a.body.len, ret, e) < 0 ? err_wrap(e, "%s", what) : 0;
}

/* ---- what the cluster has ---- */

/* *ret NULL: the cluster has no such kind. */
static int find_version(struct drover *d, const char *group, const char *plural, const char **ret,
			struct err *e)
{
	CLEANUP(jread) struct jread *all = NULL;
	CLEANUP(jread) struct jread *kinds_of = NULL;
	char path[PATH_SIZE];
	const char *version;

	*ret = NULL;
	(void)snprintf(path, sizeof(path), "/apis/%s", group);
	if (drover_owner_get(d, path, "a question for agent-sandbox", &all, e) < 0)
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
	if (drover_owner_get(d, path, "a question for agent-sandbox", &kinds_of, e) < 0)
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

int drover_owner_choose(struct drover *d, struct err *e)
{
	const struct kube_spec *k = &d->plan->kube;
	struct drover_owner *o = &d->owner;

	bool may = d->s->open && d->plan->network != NETWORK_PROXY; /* a door is one run's own */

	if (!k->template && (k->use == KUBE_USE_POD || (k->use == KUBE_USE_AUTO && !may)))
		return 0;
	if (find_version(d, OWNER_GROUP, kinds[OWNER_SANDBOX].plural, &o->version, e) < 0)
		return -e->code;
	if (!o->version)
		return k->use == KUBE_USE_AUTO && !k->template
			       ? 0
			       : not_there(kinds[OWNER_SANDBOX].kind, e);
	o->kind = OWNER_SANDBOX;
	(void)snprintf(o->name, sizeof(o->name), "%.63s", d->name);
	if (!k->template)
		return 0;
	if (find_version(d, OWNER_GROUP_CLAIMS, kinds[OWNER_CLAIM].plural, &o->version_of_claims,
			 e) < 0)
		return -e->code;
	if (!o->version_of_claims)
		return not_there(kinds[OWNER_CLAIM].kind, e);
	o->kind = OWNER_CLAIM;
	return 0;
}

/* ---- a template, before anything is claimed ---- */

static int check_template(struct drover *d, struct err *e)
{
	CLEANUP(jread) struct jread *v = NULL;
	const char *name = d->plan->kube.template;
	char path[PATH_SIZE];

	drover_owner_path_of(d, true, "sandboxtemplates", name, path);
	if (drover_owner_get(d, path, "a question for a SandboxTemplate", &v, e) < 0)
		return -e->code;
	if (!v)
		return err_refuse(e, ERR_CONFIG, ENOENT,
				  "brig plan --backend kubernetes, with the same settings, prints "
				  "one to apply",
				  "namespace '%s' has no SandboxTemplate '%.80s'", d->space, name);
	if (!pod_breaks_promise(d->asked, jread_get(jread_get(v, "spec"), "podTemplate"),
				d->differs, sizeof(d->differs)))
		return 0;
	return err_refuse(e, ERR_POLICY, EPERM,
			  "brig plan --backend kubernetes, with the same settings, prints one that "
			  "does",
			  "SandboxTemplate '%.80s' does not keep what was asked for: %s", name,
			  d->differs);
}

/* *pool is kept in *held; NULL: a claim names its template. */
static int find_pool(struct drover *d, struct jread **held, const char **pool, struct err *e)
{
	const char *name = d->plan->kube.template;
	char path[PATH_SIZE];

	*pool = NULL;
	*held = NULL;
	if (!owner_version_has_pools(d->owner.version_of_claims))
		return 0;
	drover_owner_path_of(d, true, "sandboxwarmpools", NULL, path);
	if (drover_owner_get(d, path, "a question for warm pools", held, e) < 0)
		return -e->code;
	*pool = owner_pool(*held, name);
	return *pool ? 0
		     : err_refuse(
			       e, ERR_CONFIG, ENOENT,
			       "a claim is made of a pool there: apply a SandboxWarmPool with "
			       "that sandboxTemplateRef; 0 replicas will do",
			       "namespace '%s' has no SandboxWarmPool of SandboxTemplate '%.80s'",
			       d->space, name);
}

/* ---- making it ---- */

static int write_asked(struct drover *d, const struct pod_run *r, struct err *e)
{
	CLEANUP(buf) struct buf body = BUF_INIT(BODY_MAX);
	struct json j;

	json_init(&j, &body, false);
	pod_body(d->plan, r, &j);
	return body.failed || jread_parse(buf_str(&body), body.len, &d->asked, e) < 0 ? err_nomem(e)
										      : 0;
}

static void write_end(const struct drover *d, char *out, size_t n)
{
	time_t at = time(NULL) + (time_t)pod_deadline(d->plan);
	struct tm tm;

	if (!gmtime_r(&at, &tm) || !strftime(out, n, "%Y-%m-%dT%H:%M:%SZ", &tm))
		out[0] = '\0';
}

static int owner_make(struct drover *d, const struct pod_run *r, const char *pool, struct err *e)
{
	CLEANUP(buf) struct buf body = BUF_INIT(BODY_MAX);
	CLEANUP(kube_answer) struct kube_answer a = { 0 };
	CLEANUP(jread) struct jread *v = NULL;
	bool claim = d->owner.kind == OWNER_CLAIM;
	char path[PATH_SIZE], what[40], until[32];
	const struct owner_run o = { .version =
					     claim ? d->owner.version_of_claims : d->owner.version,
				     .until = until,
				     .pool = pool };
	struct json j;

	write_end(d, until, sizeof(until));
	json_init(&j, &body, false);
	(claim ? owner_claim_body : owner_sandbox_body)(d->plan, r, &o, &j);
	drover_owner_path(d, NULL, path, sizeof(path));
	(void)snprintf(what, sizeof(what), "a %s", kinds[d->owner.kind].kind);
	d->made = true;
	if (drover_post(d, path, &body, what, &a, e) < 0)
		return -e->code;
	if (jread_parse(buf_str(&a.body), a.body.len, &v, e) < 0)
		return err_wrap(e, "%s that the cluster made", what);
	owner_look(v, &d->owner.seen);
	if (!d->owner.seen.uid[0])
		return err_set(e, ERR_UNAVAILABLE, EPROTO,
			       "the cluster does not say which %s it made",
			       kinds[d->owner.kind].kind);
	(void)snprintf(d->owner.uid, sizeof(d->owner.uid), "%s", d->owner.seen.uid);
	return 0;
}

/* ---- waiting for its controller ---- */

static int on_owner(struct drover *d, const struct jread *event)
{
	const struct jread *thing = jread_get(event, "object");
	const char *type = jread_str(event, "type"), *uid;
	struct drover_owner *o = &d->owner;

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

static int silent(const struct drover *d UNUSED, const char *kind, struct err *e)
{
	return err_refuse(e, ERR_UNAVAILABLE, ETIMEDOUT,
			  "does agent-sandbox's controller run there? --set kubernetes.use=pod "
			  "does without",
			  "no controller has said anything of the %s for %d s", kind,
			  SILENT_MS / 1000);
}

static int comes_to_nothing(const struct drover *d, const char *kind, struct err *e)
{
	const struct owner_seen *s = &d->owner.seen;

	if (d->owner.gone)
		return err_set(e, ERR_UNAVAILABLE, ESTALE, "the %s was removed by somebody else",
			       kind);
	return err_refuse(e, ERR_UNAVAILABLE, EIO, "kubectl describe it says more",
			  "the %s comes to nothing: %s", kind, s->reason);
}

/* One round: 1 when something may have changed. */
static int drover_owner_await(struct drover *d, const char *kind, uint64_t begun, char *told,
			      struct err *e)
{
	struct pollfd p[] = { { .fd = d->owner.watch, .events = POLLIN },
			      { .fd = d->s->control, .events = POLLIN } };
	const struct owner_seen *s = &d->owner.seen;
	uint64_t ms = (clock_us() - begun) / 1000;

	if (d->owner.gone || s->reason[0])
		return comes_to_nothing(d, kind, e);
	if (!s->told && ms > SILENT_MS)
		return silent(d, kind, e);
	if (ms > DROVER_START_MS)
		return err_set(e, ERR_UNAVAILABLE, ETIMEDOUT, "the %s had no pod within %d s: %s",
			       kind, DROVER_START_MS / 1000, s->waits);
	(void)poll(p, ARRAY_LEN(p), LOOK_MS);
	if (drover_given_up(d))
		return err_set(e, ERR_INTERNAL, ECANCELED, "the run was given up");
	if (p[0].revents && drover_hear_lines(d, d->owner.watch, &d->owner.line, on_owner) < 0)
		return err_set(e, ERR_UNAVAILABLE, EIO,
			       "the cluster does not tell what becomes of the %s", kind);
	if (s->waits[0] && !str_eq(told, s->waits)) {
		(void)snprintf(told, OWNER_TEXT, "%s", s->waits);
		(void)drover_note(d, told);
	}
	return p[0].revents ? 1 : 0;
}

static int drover_owner_follow(struct drover *d, bool claims, const char *plural, const char *name,
			       struct err *e)
{
	char path[PATH_SIZE], whole[PATH_SIZE + OWNER_NAME + 40];

	d->owner.watch = fd_close(d->owner.watch);
	d->owner.line.len = 0;
	drover_owner_path_of(d, claims, plural, NULL, path);
	(void)snprintf(whole, sizeof(whole), "%s?fieldSelector=metadata.name%%3D%s", path, name);
	return drover_follow(d, whole, &d->owner.watch, &d->owner.line, e);
}

/* A claim gets a Sandbox, new or out of a pool. */
static int wait_for_sandbox(struct drover *d, char *name, struct err *e)
{
	uint64_t begun = clock_us();
	char told[OWNER_TEXT] = "";

	if (drover_owner_follow(d, true, kinds[OWNER_CLAIM].plural, d->owner.name, e) < 0)
		return -e->code;
	while (!d->owner.seen.sandbox[0])
		if (drover_owner_await(d, kinds[OWNER_CLAIM].kind, begun, told, e) < 0)
			return -e->code;
	(void)snprintf(name, OWNER_NAME, "%s", d->owner.seen.sandbox);
	return 0;
}

/* *ret NULL: it is not there yet, or is not this Sandbox's. */
static int look_for_pod(struct drover *d, struct jread **ret, struct err *e)
{
	CLEANUP(jread) struct jread *v = NULL;
	char path[PATH_SIZE];

	*ret = NULL;
	if (!d->owner.sandbox_uid[0] || !d->owner.seen.pod[0])
		return 0;
	(void)snprintf(path, sizeof(path), "/api/v1/namespaces/%s/pods/%s", d->space,
		       d->owner.seen.pod);
	if (drover_owner_get(d, path, "a question for the pod", &v, e) < 0)
		return -e->code;
	if (v && owner_controls(d->owner.sandbox_uid, v))
		*ret = TAKE_PTR(v);
	return 0;
}

/* Each word of the controller's may be that the pod is there. */
static int wait_for_pod(struct drover *d, const char *sandbox, struct jread **ret, struct err *e)
{
	uint64_t begun = clock_us();
	char told[OWNER_TEXT] = "";
	int r = 0;

	*ret = NULL;
	if (drover_owner_follow(d, false, kinds[OWNER_SANDBOX].plural, sandbox, e) < 0)
		return -e->code;
	while (!*ret) {
		r = drover_owner_await(d, kinds[OWNER_SANDBOX].kind, begun, told, e);
		if (r < 0 || (r > 0 && look_for_pod(d, ret, e) < 0))
			return -e->code;
	}
	return 0;
}

int drover_owner_make(struct drover *d, struct pod_run *r, struct err *e)
{
	CLEANUP(jread) struct jread *pools = NULL;
	CLEANUP(jread) struct jread *pod = NULL;
	struct drover_owner *o = &d->owner;
	char sandbox[OWNER_NAME];
	const char *pool = NULL;

	r->claimed = o->kind == OWNER_CLAIM;
	if (r->claimed)
		r->inside = OWNER_INSIDE;
	if (write_asked(d, r, e) < 0)
		return -e->code;
	if (r->claimed && (check_template(d, e) < 0 || find_pool(d, &pools, &pool, e) < 0))
		return -e->code;
	if (owner_make(d, r, pool, e) < 0)
		return -e->code;
	(void)snprintf(sandbox, sizeof(sandbox), "%s", o->name);
	if (o->kind == OWNER_SANDBOX)
		(void)snprintf(o->sandbox_uid, sizeof(o->sandbox_uid), "%s", o->uid);
	else if (wait_for_sandbox(d, sandbox, e) < 0)
		return -e->code;
	if (wait_for_pod(d, sandbox, &pod, e) < 0)
		return -e->code;
	o->watch = fd_close(o->watch);
	(void)snprintf(d->name, sizeof(d->name), "%s", o->seen.pod);
	return drover_has_pod(d, r, pod, e);
}
