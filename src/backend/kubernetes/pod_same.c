/* SPDX-License-Identifier: Apache-2.0 */
/* backend/kubernetes/pod_same.c - is a pod, as the API shows it, the one that was asked for?
 *
 * Everything that was written must be there as it was written, and nothing besides, but for what
 * API servers and their usual admission add to any pod: a table. A field that nobody here has heard
 * of is refused, and named. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "backend/kubernetes/pod_guard.h"
#include "base/text/str.h"

struct trail {
	char at[160];
	const char *why;
	bool claimed; /* made from a template: less than was asked for will do */
};

/* ---- what may differ ---- */

struct usual {
	const char *in, *key;
	const char *value; /* only this text; NULL: whatever it is */
};

/* Added, and no matter: where it goes, under which name, and defaults. */
static const struct usual added[] = {
	{ "spec", "nodeName", NULL },
	{ "spec", "schedulerName", NULL },
	{ "spec", "serviceAccount", NULL },
	{ "spec", "serviceAccountName", NULL },
	{ "spec", "priority", NULL },
	{ "spec", "priorityClassName", NULL },
	{ "spec", "preemptionPolicy", NULL },
	{ "spec", "tolerations", NULL },
	{ "spec", "affinity", NULL },
	{ "spec", "nodeSelector", NULL },
	{ "spec", "topologySpreadConstraints", NULL },
	{ "spec", "imagePullSecrets", NULL },
	{ "spec", "overhead", NULL },
	{ "spec", "dnsPolicy", NULL },
	{ "spec", "runtimeClassName", NULL },
	{ "spec", "schedulingGates", NULL },
	{ "spec", "readinessGates", NULL },
	{ "spec", "hostUsers", NULL },
	{ "spec", "os", NULL },
	{ "nodeSelector", NULL, NULL },
	{ "containers", "terminationMessagePath", NULL },
	{ "containers", "terminationMessagePolicy", NULL },
	{ "containers", "imagePullPolicy", NULL },
	{ "containers", "resizePolicy", NULL },
	{ "initContainers", "terminationMessagePath", NULL },
	{ "initContainers", "terminationMessagePolicy", NULL },
	{ "initContainers", "imagePullPolicy", NULL },
	{ "initContainers", "resizePolicy", NULL },
	{ "securityContext", "procMount", "Default" },
	{ "appArmorProfile", "type", "RuntimeDefault" },
	{ "seccompProfile", "type", "RuntimeDefault" },
	{ "seLinuxOptions", "level", NULL },
	{ "limits", "cpu", NULL },
	{ "limits", "ephemeral-storage", NULL },
	{ "requests", "cpu", NULL },
	{ "requests", "ephemeral-storage", NULL },
	{ "volumeMounts", "mountPropagation", "None" },
	{ "fieldRef", "apiVersion", "v1" },
	{ "labels", NULL, NULL },
};

/* Written, and not always shown: false in place of nothing, and what an older cluster has not. */
static const struct usual dropped[] = { { "containers", "tty", NULL },
					{ "initContainers", "tty", NULL },
					{ "spec", "hostUsers", NULL } };

/* A template's own: its image, where none is asked for, and an end of its own. */
static const struct usual templates[] = { { "containers", "image", NULL },
					  { "spec", "activeDeadlineSeconds", NULL } };

/* Parts of annotations that runtimes and their plugins obey. Others are notes, of a network's for
 * example. */
static const char *const obeyed[] = { "container.apparmor.security.beta.kubernetes.io/",
				      "container.seccomp.security.alpha.kubernetes.io/",
				      "seccomp.security.alpha.kubernetes.io/",
				      "io.kubernetes.cri-o.",
				      "io.kubernetes.cri.",
				      "io.containerd.",
				      "io.katacontainers.",
				      "dev.gvisor.",
				      "cdi.k8s.io/",
				      "run.oci.",
				      "org.systemd.property.",
				      "org.criu.",
				      "cri-o.io",
				      "crio.io",
				      "nri.io",
				      "nri.containerd.io",
				      "security.alpha.kubernetes.io/" };

static bool is_in(const struct usual *all, size_t n, const char *in, const char *key,
		  const struct jread *v)
{
	const char *text = jread_text(v);

	for (size_t i = 0; i < n; i++)
		if (str_eq(all[i].in, in) && (!all[i].key || str_eq(all[i].key, key)))
			return !all[i].value || (text && str_eq(text, all[i].value));
	return false;
}

static bool may_be_added(const char *in, const char *key, const struct jread *v,
			 const struct trail *t)
{
	if (t->claimed && is_in(templates, ARRAY_LEN(templates), in, key, v))
		return true;
	if (!str_eq(in, "annotations"))
		return is_in(added, ARRAY_LEN(added), in, key, v);
	if (jread_text(v) && str_eq(jread_text(v), "runtime/default"))
		return true; /* how an API server repeats the field */
	for (size_t i = 0; i < ARRAY_LEN(obeyed); i++)
		if (strstr(key, obeyed[i]))
			return false;
	return true;
}

static bool is_nothing(const struct jread *v)
{
	enum jread_kind k = jread_kind(v);

	return k == JREAD_NONE || k == JREAD_NULL || (k == JREAD_ARRAY && !jread_count(v)) ||
	       (k == JREAD_OBJECT && !jread_first(v));
}

/* ---- amounts ---- */

/* "1.5", "100m", "2Gi" in thousandths; false: it cannot be said. */
static bool amount(const char *text, uint64_t *ret)
{
	static const struct {
		const char *name;
		uint64_t times;
	} units[] = { { "m", 1 },
		      { "", 1000 },
		      { "k", 1000000 },
		      { "M", 1000000000 },
		      { "G", 1000000000000 },
		      { "T", 1000000000000000 },
		      { "Ki", 1000ULL << 10 },
		      { "Mi", 1000ULL << 20 },
		      { "Gi", 1000ULL << 30 },
		      { "Ti", 1000ULL << 40 } };
	uint64_t v = 0, parts = 1;
	bool dot = false;

	for (; isdigit((unsigned char)*text) || (*text == '.' && !dot); text++) {
		dot |= *text == '.';
		if (*text == '.')
			continue;
		if (v > UINT64_MAX / 100 || parts > 100)
			return false;
		v = v * 10 + (uint64_t)(*text - '0');
		parts *= dot ? 10 : 1;
	}
	for (size_t i = 0; i < ARRAY_LEN(units); i++)
		if (str_eq(text, units[i].name))
			return !__builtin_mul_overflow(v, units[i].times, &v) && v % parts == 0 &&
			       (*ret = v / parts, true);
	return false;
}

static bool is_amount(const char *in, const char *key)
{
	return str_eq(in, "limits") || str_eq(in, "requests") || str_eq(key, "sizeLimit");
}

/* Of a template's pod a limit may be lower; what it asks a node for is its own affair. */
static bool same_amount(const char *in, const struct jread *asked, const struct jread *seen,
			bool claimed)
{
	uint64_t one, other;

	if (!jread_text(asked) || !jread_text(seen) || !amount(jread_text(asked), &one) ||
	    !amount(jread_text(seen), &other))
		return false;
	return one == other || (claimed && (str_eq(in, "requests") || (other && other < one)));
}

static bool is_false(const struct jread *v)
{
	CLEANUP(mem) char *text = jread_kind(v) == JREAD_BOOL ? jread_dump(v) : NULL;

	return text && str_eq(text, "false");
}

static bool same_text(const struct jread *a, const struct jread *b)
{
	CLEANUP(mem) char *one = jread_dump(a);
	CLEANUP(mem) char *other = jread_dump(b);

	return one && other && str_eq(one, other);
}

/* ---- the trees ---- */

static bool same_as_asked(const char *in, const char *key, const struct jread *asked,
			  const struct jread *seen, struct trail *t);

static bool stops(struct trail *t, const char *why)
{
	t->why = why;
	return false;
}

static void go_on(struct trail *t, size_t was, const char *key, size_t i)
{
	if (key)
		(void)snprintf(t->at + was, sizeof(t->at) - was, "%s%.60s", was ? "." : "", key);
	else
		(void)snprintf(t->at + was, sizeof(t->at) - was, "[%zu]", i);
}

static bool same_members(const char *in, const struct jread *asked, const struct jread *seen,
			 struct trail *t)
{
	size_t was = strlen(t->at);

	for (void *i = jread_first(asked); i; i = jread_next(asked, i)) {
		go_on(t, was, jread_key(i), 0);
		if (!same_as_asked(in, jread_key(i), jread_value(i), jread_get(seen, jread_key(i)),
				   t))
			return false;
	}
	for (void *i = jread_first(seen); i; i = jread_next(seen, i)) {
		go_on(t, was, jread_key(i), 0);
		if (!jread_get(asked, jread_key(i)) &&
		    !same_as_asked(in, jread_key(i), NULL, jread_value(i), t))
			return false;
	}
	t->at[was] = '\0';
	return true;
}

/* What is asked for comes first in it; of some lists others may follow. */
static bool same_elements(const char *in, const char *key, const struct jread *asked,
			  const struct jread *seen, struct trail *t)
{
	size_t was = strlen(t->at), n = jread_count(asked);

	for (size_t i = 0; i < n; i++) {
		go_on(t, was, NULL, i);
		if (!same_as_asked(key, "", jread_at(asked, i), jread_at(seen, i), t))
			return false;
	}
	go_on(t, was, NULL, n);
	if (jread_count(seen) > n && !may_be_added(in, key, seen, t))
		return stops(t, "was added");
	t->at[was] = '\0';
	return true;
}

/* An element of a list has the list's name in `in`, and none of its own. */
static bool same_as_asked(const char *in, const char *key, const struct jread *asked,
			  const struct jread *seen, struct trail *t)
{
	enum jread_kind kind = jread_kind(asked ? asked : seen);

	if (is_nothing(asked) && is_nothing(seen))
		return true;
	if (!asked && may_be_added(in, key, seen, t))
		return true;
	if (!asked && kind != JREAD_OBJECT)
		return is_false(seen) || stops(t, "was added");
	if (!seen && is_in(dropped, ARRAY_LEN(dropped), in, key, NULL))
		return true;
	if (asked && !is_nothing(asked) && !seen)
		return stops(t, "is missing");
	if (seen && jread_kind(seen) != kind)
		return stops(t, "differs");
	if (kind == JREAD_OBJECT)
		return same_members(*key ? key : in, asked, seen, t);
	if (kind == JREAD_ARRAY)
		return same_elements(in, key, asked, seen, t);
	return (is_amount(in, key) ? same_amount(in, asked, seen, t->claimed)
				   : same_text(asked, seen)) ||
	       stops(t, "differs");
}

bool pod_breaks_promise(const struct jread *asked, const struct jread *seen, char *out, size_t n)
{
	struct trail t = { .at = "", .claimed = true };

	if (same_as_asked("", "spec", jread_get(asked, "spec"), jread_get(seen, "spec"), &t) &&
	    same_as_asked("metadata", "annotations", NULL,
			  jread_get(jread_get(seen, "metadata"), "annotations"), &t))
		return false;
	(void)snprintf(out, n, "%s %s", t.at, t.why);
	pod_guard_clean(out);
	return true;
}

bool pod_differs(const struct jread *asked, const struct jread *seen, char *out, size_t n)
{
	const struct jread *meta = jread_get(seen, "metadata"),
			   *wanted = jread_get(asked, "metadata");
	struct trail t = { .at = "" };

	if (same_as_asked("", "spec", jread_get(asked, "spec"), jread_get(seen, "spec"), &t) &&
	    same_as_asked("metadata", "labels", jread_get(wanted, "labels"),
			  jread_get(meta, "labels"), &t) &&
	    same_as_asked("metadata", "annotations", jread_get(wanted, "annotations"),
			  jread_get(meta, "annotations"), &t))
		return false;
	(void)snprintf(out, n, "%s %s", t.at, t.why);
	pod_guard_clean(out);
	return true;
}
