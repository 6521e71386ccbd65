/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/kube_health.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/bytes/jread.h"
#include "base/bytes/json.h"
#include "base/sys/clock.h"
#include "base/text/clean.h"
#include "base/text/str.h"
#include "base/text/url.h"

#define ALL_MS 10000
#define CLOCK_S 60 /* how far the clocks may be apart: tokens are good for minutes */
#define NAMES_MAX 200

const char *const kube_row_names[KUBE_ROWS] = {
	[KUBE_ROW_SERVER] = "kubernetes",
	[KUBE_ROW_RIGHTS] = "kubernetes_rights",
	[KUBE_ROW_ADMISSION] = "kubernetes_admission",
	[KUBE_ROW_POLICIES] = "kubernetes_policies",
	[KUBE_ROW_RUNTIME] = "kubernetes_runtime",
	[KUBE_ROW_SANDBOXES] = "kubernetes_sandboxes",
	[KUBE_ROW_CLOCK] = "kubernetes_clock",
};

struct examining {
	struct kube *kube;
	const struct kube_health_want *want;
	struct kube_row *rows;
	uint64_t deadline;
};

static void kube_health_say(struct kube_row *r, enum kube_state state, const char *fmt, ...)
	ERR_PRINTF(3, 4);

static void kube_health_say(struct kube_row *r, enum kube_state state, const char *fmt, ...)
{
	CLEANUP(buf) struct buf clean = BUF_INIT(sizeof(r->detail));
	char text[sizeof(r->detail)];
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	r->state = state;
	clean_put(&clean, text, utf8_cut(text, strlen(text)));
	(void)snprintf(r->detail, sizeof(r->detail), "%s", clean.failed ? "?" : buf_str(&clean));
}

static void kube_health_say_error(struct kube_row *r, enum kube_state state, const struct err *e)
{
	kube_health_say(r, state, "%s", e->what);
	(void)snprintf(r->hint, sizeof(r->hint), "%s", e->hint);
}

static int kube_health_ask(struct examining *x, const char *method, const char *path,
			   const char *body, struct kube_answer *a, struct err *e)
{
	uint64_t now = clock_us();
	const struct kube_request q = { .method = method,
					.path = path,
					.body = body,
					.again = true,
					.ms = now < x->deadline
						      ? (unsigned)((x->deadline - now) / 1000) + 1
						      : 1 };

	return kube_ask(x->kube, &q, a, e);
}

/* The object of an answer with that status, or NULL. */
static struct jread *object_of(const struct kube_answer *a)
{
	struct jread *root = NULL;
	struct err ignored;

	if (a->status >= 300 || jread_parse(buf_str(&a->body), a->body.len, &root, &ignored) < 0)
		return NULL;
	return root;
}

/* ---- the server ---- */

static bool check_server(struct examining *x)
{
	CLEANUP(kube_answer) struct kube_answer a = { 0 };
	CLEANUP(jread) struct jread *root = NULL;
	const struct kube_place *p = kube_place(x->kube);
	struct kube_row *r = &x->rows[KUBE_ROW_SERVER];
	const char *version;
	struct err e = { 0 };
	char text[256];

	if (kube_health_ask(x, "GET", "/version", NULL, &a, &e) < 0) {
		kube_health_say_error(r, KUBE_FAIL, &e);
		return false;
	}
	root = object_of(&a);
	version = jread_str(root, "gitVersion");
	if (!version) {
		kube_answer_text(&a, text, sizeof(text));
		kube_health_say(r, KUBE_FAIL, "%s as '%s': %s", p->server, p->user, text);
		(void)snprintf(r->hint, sizeof(r->hint), "%s",
			       a.status == 401 ? "the credentials are not taken; log in again"
					       : "is this the address of an API server?");
		return false;
	}
	kube_health_say(r, KUBE_PASS, "%s at %s, context '%s', namespace '%s'", version, p->server,
			p->context, p->namespace);
	return true;
}

/* ---- rights ---- */

struct kube_right {
	const char *group, *resource, *sub, *verb;
	bool needed; /* else a run does with less */
};

/* A WebSocket begins as a GET: servers before 1.31 ask for "get", newer ones for "create". */
static const struct kube_right rights[] = {
	{ "", "pods", "", "create", true },
	{ "", "pods", "", "get", true },
	{ "", "pods", "", "list", true },
	{ "", "pods", "", "watch", true },
	{ "", "pods", "", "delete", true },
	{ "", "pods", "attach", "get", true },
	{ "", "pods", "attach", "create", true },
	{ "networking.k8s.io", "networkpolicies", "", "create", false },
	{ "", "secrets", "", "create", false },
	{ "", "secrets", "", "delete", false },
};

/* Where there is agent-sandbox: for a sandbox that stays. */
static const struct kube_right sandbox_rights[] = {
	{ "agents.x-k8s.io", "sandboxes", "", "create", true },
	{ "agents.x-k8s.io", "sandboxes", "", "list", true },
	{ "agents.x-k8s.io", "sandboxes", "", "watch", true },
	{ "agents.x-k8s.io", "sandboxes", "", "delete", true },
};

static void put_review(struct examining *x, const struct kube_right *t, struct buf *b)
{
	struct json j;

	json_init(&j, b, false);
	json_object(&j);
	json_kstr(&j, "apiVersion", "authorization.k8s.io/v1");
	json_kstr(&j, "kind", "SelfSubjectAccessReview");
	json_kobject(&j, "spec");
	json_kobject(&j, "resourceAttributes");
	json_kstr(&j, "namespace", kube_place(x->kube)->namespace);
	json_kstr(&j, "verb", t->verb);
	json_kstr(&j, "group", t->group);
	json_kstr(&j, "resource", t->resource);
	json_kstr(&j, "subresource", t->sub);
	json_object_end(&j);
	json_object_end(&j);
	json_object_end(&j);
}

/* 1, 0, or -errno where the server does not say. */
static int may(struct examining *x, const struct kube_right *t, struct err *e)
{
	CLEANUP(kube_answer) struct kube_answer a = { 0 };
	CLEANUP(buf) struct buf body = BUF_INIT(4096);
	CLEANUP(jread) struct jread *root = NULL;
	char text[256];

	put_review(x, t, &body);
	if (kube_health_ask(x, "POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
			    buf_str(&body), &a, e) < 0)
		return -e->code;
	root = object_of(&a);
	if (root)
		return jread_bool(jread_get(root, "status"), "allowed");
	kube_answer_text(&a, text, sizeof(text));
	return err_set(e, ERR_UNAVAILABLE, EREMOTEIO, "%s", text);
}

static void put_right(struct buf *b, const struct kube_right *t)
{
	buf_printf(b, "%s%s %s%s%s", b->len ? ", " : "", t->verb, t->resource, t->sub[0] ? "/" : "",
		   t->sub);
}

static void check_rights(struct examining *x)
{
	CLEANUP(buf) struct buf lacks = BUF_INIT(NAMES_MAX), less = BUF_INIT(NAMES_MAX);
	struct kube_row *r = &x->rows[KUBE_ROW_RIGHTS];
	const struct kube_place *p = kube_place(x->kube);
	struct err e = { 0 };

	for (size_t i = 0; i < ARRAY_LEN(rights); i++) {
		int yes = may(x, &rights[i], &e);

		if (yes < 0) {
			kube_health_say_error(r, KUBE_WARN, &e);
			return;
		}
		if (!yes)
			put_right(rights[i].needed ? &lacks : &less, &rights[i]);
	}
	if (lacks.len)
		kube_health_say(r, KUBE_FAIL, "'%s' may not, in namespace '%s': %s", p->user,
				p->namespace, buf_str(&lacks));
	else if (less.len)
		kube_health_say(r, KUBE_WARN, "'%s' may all that a run needs, but not: %s", p->user,
				buf_str(&less));
	else
		kube_health_say(r, KUBE_PASS, "'%s' may all that a run needs", p->user);
	if (r->state != KUBE_PASS)
		(void)snprintf(r->hint, sizeof(r->hint),
			       "kubectl apply -f deploy/kubernetes, and bind the role to '%.100s'",
			       p->user);
}

/* ---- admission and the clock, from one pod that is never made ---- */

#define POD_BEGINS                                                                                 \
	"{\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"metadata\":{\"generateName\":\"brig-doctor-\"}" \
	","                                                                                        \
	"\"spec\":{\"restartPolicy\":\"Never\",\"automountServiceAccountToken\":false,"            \
	"\"activeDeadlineSeconds\":60,"
#define POD_ENDS                                                                                   \
	"\"containers\":[{\"name\":\"main\",\"image\":\"brig-doctor\","                            \
	"\"resources\":{\"requests\":{\"cpu\":\"10m\",\"memory\":\"16Mi\"},"                       \
	"\"limits\":{\"cpu\":\"10m\",\"memory\":\"16Mi\"}},"                                       \
	"\"securityContext\":{\"runAsUser\":65534,\"runAsNonRoot\":true,"                          \
	"\"allowPrivilegeEscalation\":false,\"readOnlyRootFilesystem\":true,"                      \
	"\"seccompProfile\":{\"type\":\"RuntimeDefault\"},"                                        \
	"\"capabilities\":{\"drop\":[\"ALL\"]}}}]}}"

static const char pod[] = POD_BEGINS
	"\"initContainers\":[{\"name\":\"close\",\"image\":\"brig-doctor\",\"securityContext\":{"
	"\"runAsUser\":0,\"runAsNonRoot\":false,\"allowPrivilegeEscalation\":false,"
	"\"capabilities\":{\"drop\":[\"ALL\"],\"add\":[\"NET_ADMIN\"]}}}]," POD_ENDS;
/* What is made where no container may have NET_ADMIN: a policy closes its network. */
static const char pod_by_policy[] = POD_BEGINS POD_ENDS;

static void check_clock(struct examining *x, const struct jread *made)
{
	const char *text = jread_str(jread_get(made, "metadata"), "creationTimestamp");
	struct kube_row *r = &x->rows[KUBE_ROW_CLOCK];
	struct tm t = { 0 };
	const char *end = text ? strptime(text, "%Y-%m-%dT%H:%M:%SZ", &t) : NULL;
	int64_t apart;

	if (!end || *end) {
		kube_health_say(r, KUBE_SKIP, "the server does not say what time it is");
		return;
	}
	apart = (int64_t)time(NULL) - timegm(&t);
	if (apart > CLOCK_S || apart < -CLOCK_S) {
		kube_health_say(r, KUBE_WARN, "this clock and the server's are %lld seconds apart",
				(long long)(apart < 0 ? -apart : apart));
		(void)snprintf(r->hint, sizeof(r->hint),
			       "timedatectl set-ntp true; tokens and certificates have times");
		return;
	}
	kube_health_say(r, KUBE_PASS, "the clocks agree");
}

static void check_admission(struct examining *x)
{
	CLEANUP(kube_answer) struct kube_answer a = { 0 }, other = { 0 };
	CLEANUP(buf) struct buf path = BUF_INIT(1024);
	CLEANUP(jread) struct jread *made = NULL;
	const char *namespace = kube_place(x->kube)->namespace;
	struct kube_row *r = &x->rows[KUBE_ROW_ADMISSION];
	struct err e = { 0 };
	char text[256];

	buf_puts(&path, "/api/v1/namespaces/");
	url_put_escaped(&path, namespace);
	buf_puts(&path, "/pods?dryRun=All");
	if (kube_health_ask(x, "POST", buf_str(&path), pod, &a, &e) < 0) {
		kube_health_say_error(r, KUBE_WARN, &e);
		return;
	}
	made = object_of(&a);
	if (made) {
		kube_health_say(r, KUBE_PASS, "a pod such as a run's would be let in");
		check_clock(x, made);
		return;
	}
	kube_answer_text(&a, text, sizeof(text));
	kube_health_say(r, KUBE_FAIL, "%s", text);
	if (a.status != 404 &&
	    kube_health_ask(x, "POST", buf_str(&path), pod_by_policy, &other, &e) == 0 &&
	    (made = object_of(&other))) {
		kube_health_say(r, KUBE_WARN,
				"no container may have NET_ADMIN: a NetworkPolicy alone would "
				"close the network, tried from inside");
		check_clock(x, made);
	}
	if (a.status == 403 && strstr(text, "PodSecurity"))
		(void)snprintf(
			r->hint, sizeof(r->hint),
			"kubectl label namespace '%.60s' --overwrite "
			"pod-security.kubernetes.io/enforce=privileged: NET_ADMIN of an init "
			"container closes the network",
			namespace);
	else if (a.status == 404)
		(void)snprintf(r->hint, sizeof(r->hint), "kubectl create namespace '%.60s'",
			       namespace);
}

/* ---- what the cluster has ---- */

/* 200: it is there; the status otherwise, 0 where there was no answer. */
static int kube_health_look(struct examining *x, const char *path, struct jread **ret,
			    struct kube_row *r)
{
	CLEANUP(kube_answer) struct kube_answer a = { 0 };
	struct err e = { 0 };
	char text[256];

	*ret = NULL;
	if (kube_health_ask(x, "GET", path, NULL, &a, &e) < 0) {
		kube_health_say_error(r, KUBE_SKIP, &e);
		return 0;
	}
	*ret = object_of(&a);
	kube_answer_text(&a, text, sizeof(text));
	if (!*ret)
		kube_health_say(r, KUBE_SKIP, "%s", text);
	return *ret ? 200 : a.status;
}

static void check_policies(struct examining *x)
{
	CLEANUP(jread) struct jread *root = NULL;
	struct kube_row *r = &x->rows[KUBE_ROW_POLICIES];

	if (kube_health_look(x, "/apis/networking.k8s.io/v1", &root, r) == 200)
		kube_health_say(
			r, KUBE_PASS,
			"NetworkPolicy is known; whether it holds is tried in each run, before the "
			"command");
	else if (r->state == KUBE_SKIP)
		r->state = KUBE_WARN;
}

static void check_runtime(struct examining *x)
{
	CLEANUP(jread) struct jread *root = NULL;
	CLEANUP(buf) struct buf names = BUF_INIT(NAMES_MAX);
	struct kube_row *r = &x->rows[KUBE_ROW_RUNTIME];
	const char *want = x->want->runtime_class;
	const struct jread *items;
	bool found = false;

	if (kube_health_look(x, "/apis/node.k8s.io/v1/runtimeclasses?limit=100", &root, r) != 200)
		return;
	items = jread_get(root, "items");
	for (size_t i = 0; i < jread_count(items); i++) {
		const char *name = jread_str(jread_get(jread_at(items, i), "metadata"), "name");

		if (!name)
			continue;
		found |= want && str_eq(name, want);
		if (strlen(name) + names.len + 3 < NAMES_MAX)
			buf_printf(&names, "%s%s", names.len ? ", " : "", name);
	}
	if (want && !found) {
		kube_health_say(r, KUBE_FAIL, "there is no runtime class '%s' (%s)", want,
				names.len ? buf_str(&names) : "none");
		(void)snprintf(r->hint, sizeof(r->hint),
			       "kubectl get runtimeclass lists them; kubernetes.runtime_class");
		return;
	}
	kube_health_say(r, KUBE_PASS, "%s",
			names.len ? buf_str(&names) : "the nodes' own; no others are set up");
}

static void check_sandboxes(struct examining *x)
{
	CLEANUP(jread) struct jread *root = NULL;
	CLEANUP(buf) struct buf lacks = BUF_INIT(NAMES_MAX);
	struct kube_row *r = &x->rows[KUBE_ROW_SANDBOXES];
	int status = kube_health_look(x, "/apis/agents.x-k8s.io", &root, r);
	struct err e = { 0 };

	for (size_t i = 0; status == 200 && i < ARRAY_LEN(sandbox_rights); i++)
		if (may(x, &sandbox_rights[i], &e) == 0)
			put_right(&lacks, &sandbox_rights[i]);
	if (lacks.len) {
		kube_health_say(r, KUBE_WARN, "agent-sandbox is installed, and '%s' may not: %s",
				kube_place(x->kube)->user, buf_str(&lacks));
		(void)snprintf(r->hint, sizeof(r->hint),
			       "kubectl apply -f deploy/kubernetes, or kubernetes.use: pod");
	} else if (status == 200)
		kube_health_say(r, KUBE_PASS, "agent-sandbox is installed");
	else if (status == 404)
		kube_health_say(r, KUBE_SKIP, "agent-sandbox is not installed, and not needed");
}

void kube_examine(const struct kube_health_want *w, struct kube_row rows[KUBE_ROWS])
{
	CLEANUP(kube) struct kube *k = NULL;
	struct examining x = { .want = w,
			       .rows = rows,
			       .deadline = clock_us() + (w->ms ? w->ms : ALL_MS) * 1000ULL };
	struct err e = { 0 };

	for (int i = 0; i < KUBE_ROWS; i++) {
		rows[i] = (struct kube_row){ 0 };
		kube_health_say(&rows[i], KUBE_SKIP, "not reached");
	}
	if (kube_open(&w->where, &k, &e) < 0) {
		kube_health_say_error(&rows[KUBE_ROW_SERVER], KUBE_FAIL, &e);
		return;
	}
	x.kube = k;
	if (!check_server(&x))
		return;
	check_rights(&x);
	check_admission(&x);
	check_policies(&x);
	check_runtime(&x);
	check_sandboxes(&x);
}
