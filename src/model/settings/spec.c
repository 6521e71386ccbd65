/* SPDX-License-Identifier: Apache-2.0 */
#include "model/settings/spec.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/text/num.h"
#include "base/text/str.h"
#include "model/settings/leaks.h"
#include "model/settings/rule.h"
#include "model/settings/spec_lists.h"

/* Everything a caller can write into one spec, arguments and variables included. */
#define SPEC_MAX ((size_t)16 << 20)
#define TEXT_MAX 131072 /* one value; the kernel takes no longer argument or variable either */

struct spec *spec_new(struct err *e)
{
	CLEANUP(spec) struct spec *s = calloc(1, sizeof(*s));

	if (s)
		s->arena = arena_new(SPEC_MAX);
	if (!s || !s->arena) {
		(void)err_nomem(e);
		return NULL;
	}
	for (int id = 0; id < FIELD_COUNT; id++)
		if (fields[id].fallback &&
		    spec_set(s, (enum field_id)id, fields[id].fallback, ORIGIN_DEFAULT, e) < 0)
			return NULL;
	return TAKE_PTR(s);
}

struct spec *spec_free(struct spec *s)
{
	if (s)
		(void)arena_free(s->arena);
	free(s);
	return NULL;
}

bool spec_on_host(const struct spec *s)
{
	return s->policy == POLICY_FULL_ACCESS || s->backend == BACKEND_NONE;
}

bool spec_over_ssh(const struct spec *s)
{
	return s->backend == BACKEND_SSH;
}

bool spec_in_cluster(const struct spec *s)
{
	return s->backend == BACKEND_KUBERNETES;
}

bool spec_claims_pod(const struct spec *s)
{
	return spec_in_cluster(s) && s->kube.template;
}

bool spec_on_node(const struct spec *s)
{
	return s->backend == BACKEND_SLURM;
}

bool spec_in_namespaces(const struct spec *s)
{
	return s->backend == BACKEND_NATIVE || s->backend == BACKEND_BWRAP;
}

void spec_name_native(struct spec *s, enum origin by)
{
	if (s->backend != BACKEND_AUTO)
		return;
	s->backend = BACKEND_NATIVE;
	s->origin[FIELD_BACKEND] = by;
}

bool spec_keeps_owner(const struct spec *s, uid_t caller)
{
	const char *user = s->docker.user;

	if (s->user.given)
		return caller == 0 || s->user.uid == caller;
	if (!user || str_eq(user, "auto"))
		return true;
	return *user && caller == 0;
}

bool spec_other_programs(const struct spec *s)
{
	return s->image || s->docker.image || s->backend == BACKEND_DOCKER || spec_in_cluster(s) ||
	       spec_over_ssh(s) || spec_on_node(s);
}

bool spec_strangers(const struct spec *s, enum origin by)
{
	return by == ORIGIN_LINE || (s->strangers & 1U << by);
}

bool spec_wrote(const struct spec *s, enum field_id id)
{
	return s->origin[id] > ORIGIN_DIALECT;
}

const char *origin_name(enum origin o)
{
	static const char *const names[] = {
		[ORIGIN_DEFAULT] = "default",
		[ORIGIN_DIALECT] = "dialect",
		[ORIGIN_SYSTEM] = "system",
		[ORIGIN_USER] = "user",
		[ORIGIN_PROJECT] = "project",
		[ORIGIN_FILE] = "file",
		[ORIGIN_ENVIRONMENT] = "environment",
		[ORIGIN_API] = "api",
		[ORIGIN_FLAG] = "flag",
		[ORIGIN_LINE] = "line",
	};

	return names[o];
}

int spec_set_where(struct spec *s, enum field_id id, const char *where, struct err *e)
{
	s->where[id] = arena_strdup(s->arena, where);
	return s->where[id] ? 0 : err_nomem(e);
}

static int set_bool(bool *ret, const char *text)
{
	if (!str_eq(text, "true") && !str_eq(text, "false"))
		return -EINVAL;
	*ret = str_eq(text, "true");
	return 0;
}

static int set_word(int *ret, const struct field *f, const char *text, struct err *e)
{
	const char *near;

	for (int i = 0; f->words[i]; i++)
		if (str_eq(f->words[i], text)) {
			*ret = i;
			return 0;
		}
	near = str_nearest(text, f->words);
	(void)err_set(e, ERR_USAGE, EINVAL, "unknown %s '%s'", f->flag ? f->flag : f->key, text);
	if (f == &fields[FIELD_BACKEND] && str_eq(text, "podman"))
		return err_hint(e, "docker is for Podman, too: its sockets are looked for, and "
				   "DOCKER_HOST names another");
	return near ? err_hint(e, "did you mean '%s'?", near) : err_hint(e, "%s", f->help);
}

static int read_number(const struct field *f, const char *text, uint64_t *ret)
{
	switch (f->type) {
	case FIELD_T_COUNT:
		return f->thousands ? num_thousands(text, ret) : num_count(text, ret);
	case FIELD_T_SIZE:
		return num_size(text, ret);
	case FIELD_T_DURATION:
		return num_duration(text, ret);
	default:
		return num_milli(text, ret);
	}
}

static int spec_set_number(uint64_t *ret, const struct field *f, const char *text, struct err *e)
{
	const char *name = f->flag ? f->flag : f->key;
	char min[32], max[32];
	uint64_t v;
	int r = read_number(f, text, &v);

	if ((f->none && str_eq(text, "none")) || (f->all && f->type == FIELD_T_COUNT && !*text)) {
		*ret = 0;
		return 0;
	}
	if (f->all && str_eq(text, "all")) {
		*ret = FIELD_ALL;
		return 0;
	}
	if (r == -EINVAL) {
		(void)err_set(e, ERR_USAGE, EINVAL, "%s '%s' is not a %s", name, text,
			      f->type == FIELD_T_SIZE       ? "size"
			      : f->type == FIELD_T_DURATION ? "duration"
							    : "number");
		return err_hint(e, "%s", f->help);
	}
	if (r < 0 || v < f->min || v > f->max) {
		field_number_text(f, f->min, min, sizeof(min));
		field_number_text(f, f->max, max, sizeof(max));
		(void)err_set(e, ERR_USAGE, ERANGE, "%s '%s' is out of bounds (%s to %s)", name,
			      text, min, max);
		return err_hint(e, "%s", f->help);
	}
	*ret = v;
	return 0;
}

static int set_user(struct user_spec *ret, const char *text, struct err *e)
{
	struct user_spec u = { .given = true };
	char head[16];
	uint64_t uid = 0, gid = 0;
	size_t n = strcspn(text, ":");

	if (str_eq(text, "auto")) {
		*ret = (struct user_spec){ 0 };
		return 0;
	}
	if (n < sizeof(head))
		(void)snprintf(head, sizeof(head), "%.*s", (int)n, text);
	if (n >= sizeof(head) || num_count(head, &uid) < 0 || uid > 65535 ||
	    (text[n] && (num_count(text + n + 1, &gid) < 0 || gid > 65535)))
		return err_refuse(e, ERR_USAGE, EINVAL, "numbers from 1 to 65535, or auto",
				  "user '%s' is not UID[:GID]", text);
	u.uid = (uint32_t)uid;
	u.gid = text[n] ? (uint32_t)gid : (uint32_t)uid;
	if (!u.uid || !u.gid)
		return err_refuse(e, ERR_POLICY, EPERM, "numbers from 1 to 65535, or auto",
				  "user '%s': nobody is root inside a sandbox", text);
	*ret = u;
	return 0;
}

static int set_string(struct arena *a, const char **ret, const char *text, struct err *e)
{
	const char *copy = arena_strdup(a, text);

	if (!copy)
		return err_nomem(e);
	*ret = copy;
	return 0;
}

static int note_origin(struct spec *s, enum origin by, struct err *e)
{
	enum origin *slot = ARENA_PUSH(s->arena, s->egress.deny_by.v, s->egress.deny_by.n);

	if (!slot)
		return err_nomem(e);
	*slot = by;
	return 0;
}

static int set_value(struct spec *s, const struct field *f, const char *text, enum origin by,
		     struct err *e)
{
	void *at = (char *)s + f->offset;

	switch (f->type) {
	case FIELD_T_BOOL:
		if (set_bool(at, text) < 0) {
			(void)err_set(e, ERR_USAGE, EINVAL, "%s '%s' is neither true nor false",
				      f->flag ? f->flag : f->key, text);
			return err_hint(e, "%s", f->help);
		}
		return 0;
	case FIELD_T_WORD:
		return set_word(at, f, text, e);
	case FIELD_T_COUNT:
	case FIELD_T_SIZE:
	case FIELD_T_DURATION:
	case FIELD_T_MILLI:
		return spec_set_number(at, f, text, e);
	case FIELD_T_STRING:
	case FIELD_T_PATH:
		return set_string(s->arena, at, text, e);
	case FIELD_T_USER:
		return set_user(at, text, e);
	case FIELD_T_NAMES:
		return list_add_name(s->arena, at, text, e);
	case FIELD_T_STRINGS:
	case FIELD_T_PATHS:
		return list_add_string(s->arena, at, text, e);
	case FIELD_T_MOUNTS:
		return list_add_mount(s->arena, at, text, e);
	case FIELD_T_ENV:
		return list_merge_env(s->arena, at, text, by, e);
	case FIELD_T_LABELS:
		return list_merge_label(s->arena, at, text, by, e);
	case FIELD_T_EXTRA_ARGS:
		return list_add_string(s->arena, at, text, e);
	case FIELD_T_PORTS:
		return list_add_port(s->arena, at, text, e);
	case FIELD_T_RULES:
		if (list_add_rule(s->arena, at, text, e) < 0)
			return -e->code;
		return at == &s->egress.deny ? note_origin(s, by, e) : 0;
	case FIELD_T_PINS:
		return list_merge_pin(s->arena, at, text, by, e);
	case FIELD_T_LEAKS:
		return list_merge_leak(s->arena, at, text, by, e);
	case FIELD_T_COPIES:
	case FIELD_T_COMPANIONS:
	case FIELD_T_CREDENTIALS:
		return err_refuse(e, ERR_USAGE, EINVAL, "in a brig.yaml: --config FILE",
				  "%s can only be written in a file", f->key);
	}
	return err_set(e, ERR_INTERNAL, EINVAL, "field of an unknown type");
}

/* Every list of a spec begins like this. */
struct list_head {
	void *v;
	size_t n;
};

static bool merges(enum field_id id)
{
	return fields[id].type == FIELD_T_ENV || fields[id].type == FIELD_T_LABELS ||
	       fields[id].type == FIELD_T_PINS || fields[id].type == FIELD_T_LEAKS ||
	       id == FIELD_EGRESS_DENY;
}

bool spec_list_begin(struct spec *s, enum field_id id, enum origin by)
{
	struct list_head *l = (void *)((char *)s + fields[id].offset);

	if (merges(id)) {
		if (by > s->origin[id])
			s->origin[id] = by;
		return true;
	}
	if (by < s->origin[id])
		return false;
	if (by > s->origin[id])
		*l = (struct list_head){ 0 };
	s->origin[id] = by;
	return true;
}

/* Nobody will see the value, yet a broken one is still the writer's mistake. */
static int check_value(const struct spec *s, enum field_id id, const char *text, enum origin by,
		       struct err *e)
{
	struct spec unseen = *s;

	if (field_repeats(&fields[id]))
		*(struct list_head *)(void *)((char *)&unseen + fields[id].offset) =
			(struct list_head){ 0 };
	return set_value(&unseen, &fields[id], text, by, e);
}

int spec_set(struct spec *s, enum field_id id, const char *text, enum origin by, struct err *e)
{
	const struct field *f = &fields[id];

	if (strlen(text) > TEXT_MAX) {
		(void)err_set(e, ERR_USAGE, E2BIG, "%s: the value is too long",
			      f->flag ? f->flag : f->key);
		return err_hint(e, "%s", f->help);
	}
	if (by < s->origin[id] && !merges(id))
		return check_value(s, id, text, by, e);
	if (field_repeats(f))
		(void)spec_list_begin(s, id, by);
	if (set_value(s, f, text, by, e) < 0)
		return -e->code;
	if (by > s->origin[id])
		s->origin[id] = by;
	return 0;
}

static const char *nearest_key(const char *key)
{
	const char *keys[FIELD_COUNT + 1];
	size_t n = 0;

	for (int i = 0; i < FIELD_COUNT; i++)
		if (fields[i].key)
			keys[n++] = fields[i].key;
	keys[n] = NULL;
	return str_nearest(key, keys);
}

int spec_set_key(struct spec *s, const char *key, const char *text, enum origin by, struct err *e)
{
	enum field_id id;
	const char *near;

	if (field_by_key(key, &id))
		return spec_set(s, id, text, by, e);
	near = nearest_key(key);
	(void)err_set(e, ERR_USAGE, EINVAL, "unknown setting '%s'", key);
	return near ? err_hint(e, "did you mean '%s'?", near)
		    : err_hint(e, "brig config show lists them");
}

static int set_variable(struct spec *s, enum field_id id, const char *value, struct err *e)
{
	if (spec_set(s, id, value, ORIGIN_ENVIRONMENT, e) < 0)
		return err_wrap(e, "variable %s", fields[id].variable);
	if (s->origin[id] == ORIGIN_ENVIRONMENT)
		s->where[id] = fields[id].variable;
	return 0;
}

/* Others may call theirs BRIG_ too; but one that is nearly ours was meant to be. */
static int check_misspelt(const char *name, struct err *e)
{
	const char *known[FIELD_COUNT + 1], *near;
	const size_t prefix = strlen("BRIG_");
	size_t n = 0;

	if (str_eq(name, "BRIG_AUDIT_KEY")) /* no setting: a key is in no file and on no line */
		return 0;
	for (int id = 0; id < FIELD_COUNT; id++)
		if (fields[id].variable && str_starts(fields[id].variable, "BRIG_"))
			known[n++] = fields[id].variable + prefix;
	known[n] = NULL;
	near = str_nearest(name + prefix, known);
	if (!near)
		return 0;
	(void)err_set(e, ERR_USAGE, EINVAL, "unknown variable %.60s", name);
	return err_hint(e, "did you mean BRIG_%s?", near);
}

int spec_set_environment(struct spec *s, char *const *envp, struct err *e)
{
	for (; *envp; envp++) {
		const char *equals = strchr(*envp, '=');
		char name[64];
		int id;

		if (!str_starts(*envp, "BRIG_") || !equals ||
		    (size_t)(equals - *envp) >= sizeof(name))
			continue;
		(void)snprintf(name, sizeof(name), "%.*s", (int)(equals - *envp), *envp);
		for (id = 0; id < FIELD_COUNT; id++)
			if (fields[id].variable && str_eq(fields[id].variable, name))
				break;
		if ((id < FIELD_COUNT ? set_variable(s, (enum field_id)id, equals + 1, e)
				      : check_misspelt(name, e)) < 0)
			return -e->code;
	}
	return 0;
}

int spec_set_argv(struct spec *s, int argc, char *const *argv, struct err *e)
{
	const char **v = arena_alloc(s->arena, ((size_t)argc + 1) * sizeof(*v));

	if (!v)
		return err_nomem(e);
	for (int i = 0; i < argc; i++) {
		v[i] = arena_strdup(s->arena, argv[i]);
		if (!v[i])
			return err_set(e, ERR_USAGE, E2BIG, "the command line is too long");
	}
	s->command.argv = v;
	return 0;
}

/* Every list of a spec: an array and its length. */
static const struct {
	size_t offset, size;
} lists[] = {
#define LIST(member)                                                                               \
	{                                                                                          \
		offsetof(struct spec, member), sizeof(*((struct spec *)NULL)->member.v)            \
	}
	LIST(mounts),
	LIST(read),
	LIST(write),
	LIST(env_pass),
	LIST(env),
	LIST(docker.extra_args),
	LIST(egress.allow),
	LIST(egress.deny),
	LIST(egress.deny_by),
	LIST(egress.groups),
	LIST(mount_roots),
	LIST(builtin_tools),
	LIST(home_seed),
	LIST(caches),
	LIST(volumes),
	LIST(main_command),
	LIST(copies),
	LIST(companions),
	LIST(members),
	LIST(labels),
	LIST(ports),
	LIST(gpu),
	LIST(notes),
	LIST(credentials),
	LIST(use_credentials),
	LIST(egress.passthrough),
	LIST(egress.fields),
	LIST(egress.other_keys),
	LIST(egress.host_keys),
	LIST(egress.resolve),
	LIST(egress.roots),
	LIST(egress.direct),
	LIST(egress.client_certs),
	LIST(leaks.rules),
	LIST(audit.anchor),
	LIST(command.code.args),
	LIST(command.code.params),
#undef LIST
};

/* The texts are shared with the original, whose arena is kept; only what grows is copied. */
struct spec *spec_clone(const struct spec *from, struct err *e)
{
	CLEANUP(spec) struct spec *s = calloc(1, sizeof(*s));
	struct arena *own;

	if (!s || !(s->arena = arena_new_on(from->arena, SPEC_MAX))) {
		(void)err_nomem(e);
		return NULL;
	}
	own = s->arena;
	*s = *from;
	s->arena = own;
	s->command.argv = NULL;
	for (size_t i = 0; i < ARRAY_LEN(lists); i++) {
		struct list_head *l = (void *)((char *)s + lists[i].offset);
		void *copy = arena_copy_array(s->arena, l->v, l->n, lists[i].size);

		if (l->n && !copy) {
			(void)err_nomem(e);
			return NULL;
		}
		l->v = copy;
	}
	return TAKE_PTR(s);
}

bool spec_asks(const struct spec *s, enum field_id id)
{
	const void *at = (const char *)s + fields[id].offset;
	const struct list_head *l = at;

	if (fields[id].all && fields[id].type == FIELD_T_COUNT && !*(const uint64_t *)at)
		return false;
	return spec_wrote(s, id) && (!field_repeats(&fields[id]) || l->n);
}

bool spec_same(const struct spec *a, const struct spec *b, enum field_id id)
{
	const struct field *f = &fields[id];
	const void *one = (const char *)a + f->offset, *two = (const char *)b + f->offset;

	if (f->type == FIELD_T_BOOL)
		return *(const bool *)one == *(const bool *)two;
	if (f->type == FIELD_T_WORD)
		return *(const int *)one == *(const int *)two;
	if (field_is_number(f))
		return *(const uint64_t *)one == *(const uint64_t *)two;
	if (f->type == FIELD_T_STRING || f->type == FIELD_T_PATH) {
		const char *x = *(const char *const *)one, *y = *(const char *const *)two;

		return x && y ? str_eq(x, y) : x == y;
	}
	return field_repeats(f) && !((const struct list_head *)one)->n &&
	       !((const struct list_head *)two)->n;
}
