/* SPDX-License-Identifier: Apache-2.0 */
/* backend/kubernetes/kube_plan.c - what would run in which pod, and the refusal of what a cluster
 * cannot honour. */
#include <stdio.h>
#include <string.h>

#include "backend/kit/plan/plan.h"
#include "backend/kubernetes/kubernetes.h"
#include "backend/kubernetes/pod_owner.h"
#include "base/text/str.h"
#include "model/known/ssh_pins.h"
#include "model/request/code.h"
#include "model/request/envblock.h"
#include "model/settings/envrules.h"

#define PLAN_MAX ((size_t)64 << 20)
#define IMAGE_MAX 1024
#define ROOTS_CHOICE 1000 /* the id inside when root asks */

bool kube_is_name(const char *text, size_t max)
{
	size_t n = strlen(text);

	return n && n <= max && strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789-.") == n &&
	       !strchr("-.", text[0]) && !strchr("-.", text[n - 1]);
}

/* ---- refusals ---- */

static int not_a_name(const struct spec *s, enum field_id id, const char *value, struct err *e)
{
	(void)err_set(e, ERR_CONFIG, EINVAL, "%s '%.80s' is not the name of such an object",
		      fields[id].key, value);
	if (s->where[id])
		(void)err_wrap(e, "%.160s", s->where[id]);
	return err_hint(e, "lower-case letters, digits, '-' and '.'");
}

static int check_names(const struct spec *s, struct err *e)
{
	const struct kube_spec *k = &s->kube;
	const struct {
		enum field_id id;
		const char *value;
		size_t max;
	} all[] = { { FIELD_KUBE_NAMESPACE, k->name_space, 63 },
		    { FIELD_KUBE_SERVICE_ACCOUNT, k->service_account, 253 },
		    { FIELD_KUBE_RUNTIME_CLASS, k->runtime_class, 253 },
		    { FIELD_KUBE_CLAIM, k->claim, 253 },
		    { FIELD_KUBE_TEMPLATE, k->template, 253 } };

	for (size_t i = 0; i < ARRAY_LEN(all); i++)
		if (all[i].value && !kube_is_name(all[i].value, all[i].max))
			return not_a_name(s, all[i].id, all[i].value, e);
	for (size_t i = 0; i < k->pull_secrets.n; i++)
		if (!kube_is_name(k->pull_secrets.v[i], 253))
			return not_a_name(s, FIELD_KUBE_PULL_SECRETS, k->pull_secrets.v[i], e);
	for (size_t i = 0; i < s->labels.n; i++)
		if (!s->labels.v[i].name[0] || !kube_is_label(s->labels.v[i].name) ||
		    strlen(s->labels.v[i].name) > KUBE_NAME_MAX - sizeof("brig.user."))
			return err_refuse(e, ERR_CONFIG, EINVAL,
					  "letters, digits, '-', '_' and '.', at most 50 of them",
					  "label '%.80s' cannot be one of a pod",
					  s->labels.v[i].name);
	return 0;
}

static int check_image(const char *image, const char *what, const char *hint, struct err *e)
{
	if (!image || !*image)
		return err_refuse(e, ERR_CONFIG, EINVAL, hint, "backend kubernetes needs %s", what);
	if (strlen(image) > IMAGE_MAX || strchr(image, ' ') || str_has_control(image) ||
	    image[0] == '-')
		return err_refuse(e, ERR_USAGE, EINVAL,
				  "REGISTRY/NAME:TAG or REGISTRY/NAME@sha256:...",
				  "'%.80s' is not the name of an image", image);
	return 0;
}

static int check_workspace(const struct spec *s, struct err *e)
{
	const struct kube_spec *k = &s->kube;

	if (k->workspace == KUBE_CLAIM && !k->claim)
		return err_refuse(e, ERR_CONFIG, EINVAL, "--set kubernetes.claim=NAME",
				  "kubernetes.workspace pvc needs the name of a claim");
	if (k->workspace != KUBE_CLAIM && k->claim)
		return err_refuse(e, ERR_CONFIG, EINVAL, "--set kubernetes.workspace=pvc",
				  "kubernetes.claim is given, and the workspace is not that claim");
	if (k->workspace == KUBE_CLAIM && spec_wrote(s, FIELD_DISK))
		return err_refuse(e, ERR_UNAVAILABLE, ENOTSUP, "the claim has a size of its own",
				  "backend 'kubernetes' cannot hold a claim to --disk");
	return 0;
}

/* Whose pod it is. What is put there first needs a container that waits for it. */
static int check_use(const struct spec *s, struct err *e)
{
	const struct kube_spec *k = &s->kube;

	if (k->use == KUBE_USE_CLAIM && !k->template)
		return err_refuse(e, ERR_CONFIG, EINVAL, "--set kubernetes.template=NAME",
				  "kubernetes.use claim needs the name of a SandboxTemplate");
	if (k->template && (k->use == KUBE_USE_POD || k->use == KUBE_USE_SANDBOX))
		return err_refuse(e, ERR_CONFIG, EINVAL, "--set kubernetes.use=claim",
				  "kubernetes.template is given, and kubernetes.use is '%s'",
				  fields[FIELD_KUBE_USE].words[k->use]);
	if (s->network == NETWORK_PROXY && (k->template || k->use == KUBE_USE_SANDBOX))
		return err_refuse(e, ERR_UNAVAILABLE, ENOTSUP,
				  "--set kubernetes.use=pod, without kubernetes.template",
				  "backend 'kubernetes' has no network 'proxy' in a pod that a %s "
				  "makes: its door is one run's own",
				  k->template ? "SandboxTemplate" : "Sandbox");
	if (k->template && (code_is_file(s) || s->policy == POLICY_READONLY))
		return err_refuse(e, ERR_UNAVAILABLE, ENOTSUP,
				  "--set kubernetes.use=pod, without kubernetes.template",
				  "backend 'kubernetes' cannot put %s into a pod that is claimed: "
				  "it runs already",
				  code_is_file(s) ? "code" : "a workspace that is read-only");
	return 0;
}

/* A pod that requests more than it may have is no pod. */
static int check_shares(const struct spec *s, struct err *e)
{
	if (!spec_wrote(s, FIELD_CPU_SHARES) || !s->limits.cpus ||
	    s->limits.cpu_shares * 1000 <= s->limits.cpus * 1024)
		return 0;
	return err_refuse(e, ERR_USAGE, EINVAL, "1024 shares are one CPU: fewer, or more --cpus",
			  "--cpu-shares %llu is more than --cpus",
			  (unsigned long long)s->limits.cpu_shares);
}

/* A file that covers another of a claim would leave its name there. */
static int check_code(const struct backend_plan *p, struct err *e)
{
	if (p->kube.workspace != KUBE_CLAIM || !pod_code_in_workspace(p))
		return 0;
	return err_refuse(e, ERR_UNAVAILABLE, ENOTSUP,
			  "--set code.path=" CODE_FOLDER "/main.py, or kubernetes.workspace copy",
			  "backend 'kubernetes' cannot show code within a claim");
}

/* What a pod's fields cannot say. */
static int check_rest(const struct spec *s, struct err *e)
{
	if (s->network == NETWORK_HOST)
		return err_refuse(e, ERR_UNAVAILABLE, ENOTSUP, "--network none",
				  "backend 'kubernetes' has no network 'host': it would be the "
				  "node's");
	if (s->user.given && (s->user.uid == 0 || s->user.gid == 0))
		return err_refuse(e, ERR_UNAVAILABLE, ENOTSUP, "--user 1000:1000",
				  "backend 'kubernetes' runs nothing as root");
	return 0;
}

/* DOMAIN/NAME, of which the cluster's own domain has no GPU. */
static bool is_resource(const char *text)
{
	size_t n = strcspn(text, "/");
	char domain[254];

	if (!text[n] || n >= sizeof(domain) || !text[n + 1] || !kube_is_label(text + n + 1))
		return false;
	(void)snprintf(domain, sizeof(domain), "%.*s", (int)n, text);
	return kube_is_name(domain, sizeof(domain) - 1) && !strstr(domain, "kubernetes.io");
}

static int check_gpus(const struct spec *s, struct err *e)
{
	if (s->gpus == FIELD_ALL)
		return err_refuse(e, ERR_UNAVAILABLE, ENOTSUP, "say how many: --gpus 1",
				  "backend 'kubernetes' cannot honour gpus 'all'");
	if (s->gpus && !is_resource(s->kube.gpu_resource))
		return err_refuse(e, ERR_CONFIG, EINVAL, "such as nvidia.com/gpu or amd.com/gpu",
				  "kubernetes.gpu_resource '%.80s' is not the name of a resource",
				  s->kube.gpu_resource);
	return 0;
}

static int kube_check_spec(const struct spec *s, struct err *e)
{
	if (check_gpus(s, e) < 0 || check_rest(s, e) < 0 || check_names(s, e) < 0 ||
	    check_workspace(s, e) < 0 || check_shares(s, e) < 0 || check_use(s, e) < 0)
		return -e->code;
	/* A template has an image of its own; one that is named must be that one. */
	if ((s->image || !spec_claims_pod(s)) &&
	    check_image(s->image, "an image", "--image REF", e) < 0)
		return -e->code;
	return check_image(s->kube.helper_image, "the image with brig's own first process",
			   "build images/kubernetes, push it, and --set "
			   "kubernetes.helper_image=REF",
			   e);
}

/* ---- variables ---- */

static int fixed_variables(struct backend_plan *p, const struct spec *s, struct envblock *b,
			   struct err *e)
{
	const char *const all[][2] = {
		{ "HOME", p->home },
		{ "USER", s->user_name },
		{ "LOGNAME", s->user_name },
		{ "BRIG_SANDBOX", "kubernetes" },
	};

	for (size_t i = 0; i < ARRAY_LEN(all); i++)
		if (envblock_put(b, all[i][0], all[i][1], e) < 0)
			return -e->code;
	return envblock_put_quiet(b, s, e);
}

static int door_variables_of(struct backend_plan *p, struct envblock *b, struct err *e)
{
	const char *url =
		arena_printf(p->arena, "http://" DOOR_ADDRESS_TEXT ":%u", p->door.proxy_port);
	const char *const values[] = { [DOOR_IS_PROXY] = url,
				       [DOOR_IS_DIRECT] = DOOR_DIRECT,
				       [DOOR_IS_ROOTS] = DOOR_ROOTS,
				       [DOOR_IS_ON] = "1" };

	if (!url)
		return err_nomem(e);
	for (const struct door_variable *v = door_variables; v->name; v++)
		if (p->network == NETWORK_PROXY && envblock_put(b, v->name, values[v->is], e) < 0)
			return -e->code;
	return 0;
}

static int kube_plan_variables(struct backend_plan *p, const struct spec *s, struct err *e)
{
	struct envblock b = { .arena = p->arena };
	size_t room = 64 + s->env.n + s->env_pass.n;

	for (char **v = environ; v && *v; v++)
		room++;
	p->envp = arena_alloc(p->arena, room * sizeof(*p->envp));
	if (!p->envp)
		return err_nomem(e);
	b.v = p->envp;
	if (fixed_variables(p, s, &b, e) < 0 || envblock_put_callers(&b, e) < 0 ||
	    door_variables_of(p, &b, e) < 0 || envblock_put_asked(&b, s, &p->path, e) < 0)
		return -e->code;
	return 0;
}

/* ---- the plan ---- */

static int kube_plan_arguments(struct backend_plan *p, const struct spec *s, struct err *e)
{
	size_t n = 0;

	if (!s->command.argv || !s->command.argv[0])
		return 0;
	while (s->command.argv[n])
		n++;
	p->argv = arena_alloc(p->arena, (n + 1) * sizeof(*p->argv));
	if (!p->argv)
		return err_nomem(e);
	for (size_t i = 0; i < n; i++)
		p->argv[i] = s->command.argv[i];
	return 0;
}

static void kube_plan_settle(struct backend_plan *p, const struct spec *s)
{
	uid_t caller = spec_claims_pod(s) ? 0 : geteuid(); /* a template knows of no caller */

	p->kube = s->kube;
	p->image = s->image;
	p->labels = s->labels;
	p->limits = s->limits;
	p->gpus = s->gpus;
	if (!spec_wrote(s, FIELD_CPU_SHARES)) /* an ordinary share is no claim to a whole CPU */
		p->limits.cpu_shares = 0;
	p->network = s->network;
	p->profile = s->profile;
	p->read_only_root = s->read_only_root;
	p->timeout = s->command.argv && s->command.argv[0] ? s->command.timeout : 0;
	p->kill_after = s->command.kill_after;
	p->output = s->command.output;
	p->uid = s->user.given ? s->user.uid : caller ? caller : ROOTS_CHOICE;
	p->gid = s->user.given ? s->user.gid : caller ? getegid() : ROOTS_CHOICE;
	p->cwd = s->inside;
	p->read_only_workspace = s->policy == POLICY_READONLY;
	if (code_is_file(s)) {
		p->code_path = s->command.code.path;
		p->code = s->command.code.text;
		p->code_size = s->command.code.size;
	}
	if (s->kube.workspace == KUBE_COPY && !s->private_workspace && !s->no_workspace)
		p->workdir = s->workdir;
}

/* A command is never root there, and nobody can give it the image's folders, as docker's guard does
 * (own_root.c). */
static void note_differences(struct backend_plan *p)
{
	if (!p->read_only_root)
		p->notes[p->note_count++] =
			"the image's own files belong to root, and the command does not: of a "
			"writable root it can change what the image lets anybody change; use an "
			"image whose folders belong to the user inside";
}

int kube_plan(const struct spec *s, struct backend_plan **ret, const char *const **notes,
	      struct err *e)
{
	CLEANUP(kube_plan) struct backend_plan *p = calloc(1, sizeof(*p));

	if (!p)
		return err_nomem(e);
	p->arena = arena_new_on(s->arena, PLAN_MAX);
	if (!p->arena)
		return err_nomem(e);
	if (kube_check_spec(s, e) < 0)
		return -e->code;
	kube_plan_settle(p, s);
	p->home = arena_printf(p->arena, "/home/%s", s->user_name);
	if (!p->home)
		return err_nomem(e);
	if (ssh_pins_wanted(p->arena, s))
		return err_refuse(e, ERR_UNAVAILABLE, ENOTSUP, "use another backend, or HTTPS",
				  "backend kubernetes cannot honour 'ssh:' in egress.allow");
	if (s->network == NETWORK_PROXY && door_want(&s->egress, &p->door, e) < 0)
		return -e->code;
	if (check_code(p, e) < 0 || kube_plan_arguments(p, s, e) < 0 ||
	    kube_plan_variables(p, s, e) < 0)
		return -e->code;
	if (p->workdir && box_plan_copied(s, "kubernetes", &p->obeyed, e) < 0)
		return -e->code;
	note_differences(p);
	if (notes)
		*notes = p->notes;
	*ret = TAKE_PTR(p);
	return 0;
}

static void limits_json(const struct backend_plan *p, struct json *j)
{
	json_kobject(j, "limits");
	json_ku64(j, "memory", p->limits.memory);
	json_key(j, "cpus");
	json_milli(j, p->limits.cpus);
	json_ku64(j, "cpu_shares", p->limits.cpu_shares);
	json_ku64(j, "pids", p->limits.pids);
	json_ku64(j, "disk", p->limits.disk);
	json_ku64(j, "tmp", p->limits.tmp);
	json_ku64(j, "files", p->limits.files);
	if (p->gpus)
		json_ku64(j, "gpus", p->gpus);
	json_ku64(j, "output", p->output);
	json_ku64(j, "timeout_ms", p->timeout);
	json_object_end(j);
}

void kube_plan_json(const struct backend_plan *p, struct json *j)
{
	const struct pod_run r = { .id = "ID", .instance = "INSTANCE", .inside = "/.brig-NONCE" };
	const struct pod_policy w = { .uid = "UID" };

	json_object(j);
	json_ku64(j, "schema", 1);
	json_kstr(j, "backend", "kubernetes");
	json_kstr(j, "context", p->kube.context);
	json_kstr(j, "namespace", p->kube.name_space);
	json_kstr(j, "network", fields[FIELD_NETWORK].words[p->network]);
	json_kstr(j, "profile", fields[FIELD_PROFILE].words[p->profile]);
	json_kstrs(j, "argv", (const char *const *)p->argv);
	json_kstr(j, "cwd", p->cwd);
	json_kstr(j, "workspace", fields[FIELD_KUBE_WORKSPACE].words[p->kube.workspace]);
	json_kstr(j, "copied", p->workdir);
	limits_json(p, j);
	json_kstrs(j, "env", (const char *const *)p->envp);
	if (p->note_count)
		json_kstrs(j, "notes", p->notes);
	if (p->kube.use != KUBE_USE_AUTO)
		json_kstr(j, "use", fields[FIELD_KUBE_USE].words[p->kube.use]);
	if (p->kube.template) {
		json_key(j, "template");
		owner_template(p, j);
	} else {
		json_key(j, "pod");
		pod_body(p, &r, j);
		json_key(j, "network_policy");
		pod_closed_body(p, &r, &w, j);
	}
	json_object_end(j);
}

struct backend_plan *kube_plan_free(struct backend_plan *p)
{
	if (p) {
		(void)box_plan_free(p->obeyed);
		(void)arena_free(p->arena);
	}
	free(p);
	return NULL;
}
