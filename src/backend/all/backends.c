/* SPDX-License-Identifier: Apache-2.0 */
/* backend/all/backends.c - which backend a spec gets, and the refusal of what it cannot honour. */
#include "backend/backend.h"
#include "backend/bwrap/bwrap_inside.h"
#include "backend/docker/ledger.h"
#include "backend/kit/net/members.h"
#include "backend/kit/protect/dead.h"
#include "backend/kubernetes/kube_note.h"
#include "base/text/str.h"
#include "model/dialect/dialect.h"
#include "model/request/code.h"
#include "model/request/volume.h"

enum { ENGINE_WAIT_MS = 2000 };

const struct backend *const backends_all[] = {
	&backend_native,     &backend_bwrap, &backend_docker, &backend_ssh,
	&backend_kubernetes, &backend_none,  &backend_slurm,  NULL,
};

/* Each of them is a sandbox: none is weaker than what was asked for. */
const struct backend *const backends_auto[] = {
	&backend_native,
	&backend_bwrap,
	&backend_docker,
	NULL,
};

const struct backend *backend_by_kind(enum backend_kind kind)
{
	for (const struct backend *const *b = backends_all; *b; b++)
		if ((*b)->kind == kind)
			return *b;
	return NULL;
}

const struct backend *backend_by_name(const char *name)
{
	for (const struct backend *const *b = backends_all; *b; b++)
		if (str_eq((*b)->name, name))
			return *b;
	return NULL;
}

const struct backend *backend_with(unsigned can)
{
	for (const struct backend *const *b = backends_all; *b; b++)
		if (((*b)->can & can) == can)
			return *b;
	return NULL;
}

void backends_tidy(const char *workspace)
{
	struct ident ident = { 0 };
	struct stat st;

	if (workspace && stat(workspace, &st) == 0)
		ident = ident_of(&st);
	/* First: a container may have covers on the placeholders. */
	docker_sweep();
	kube_sweep();
	dead_sweep(workspace ? &ident : NULL, workspace);
}

void backends_told(const char *workspace, struct outcome *o)
{
	struct ident ident;
	struct stat st;

	if (stat(workspace, &st) < 0)
		return;
	ident = ident_of(&st);
	told_await(&ident);
	told_tell(&ident, true, o);
}

int backends_judged(const char *path, struct err *e)
{
	if (!dead_waits(path))
		return 0;
	return err_refuse(e, ERR_UNAVAILABLE, EBUSY,
			  "when all runs and sandboxes of yours have ended, brig run -- true there "
			  "makes it up, and tells of it",
			  "a run lives, or what one left in '%.150s' has not been judged and told",
			  path);
}

_Noreturn void backend_inside(int letter)
{
	bwrap_inside(letter);
}

/* A brig on the other side can do what native can. */
static unsigned bits(const struct spec *s, const struct backend *b)
{
	bool brig = b->can & BACKEND_DELEGATES ||
		    (b->can & BACKEND_REMOTE && s->ssh.remote == SSH_REMOTE_BRIG);

	return b->bit | (brig ? ON_NATIVE : 0) | (s->stays ? ON_LASTING : 0);
}

/* InitRunner documents what ssh does not enforce: its reader has warned of each. */
static bool warned(const struct spec *s, const struct backend *b, enum field_id id)
{
	return b->can & BACKEND_REMOTE && s->dialect_used == DIALECT_INITRUNNER &&
	       s->origin[id] == ORIGIN_FILE;
}

/* Whose wishes count: all of them, or those that may decide where a command runs. */
enum wishes { ALL_WISHES, DECIDING_WISHES };

/* Did nobody but a project's file, or a batch's line, that nobody has trusted write this? */
static bool only_untrusted(const struct spec *s, enum field_id id)
{
	if (!spec_strangers(s, s->origin[id]))
		return false;
	for (size_t i = 0; id == FIELD_LABELS && i < s->labels.n; i++)
		if (!spec_strangers(s, s->labels.v[i].by))
			return false;
	return true;
}

/* Is the setting a request that this backend must honour? */
static bool asked(const struct spec *s, const struct backend *b, enum field_id id)
{
	if (b->can & BACKEND_BARE && spec_switched_off(s, id))
		return false;
	if ((id == FIELD_WORKSPACE_MODE || id == FIELD_WORKSPACE_APPLY ||
	     id == FIELD_LAYERS_SIZE) &&
	    s->workspace_mode == WORKSPACE_DIRECT)
		return false; /* what each of them does; the others are of layers */
	if (id == FIELD_VOLUME_SIZE && !volumes_of(s))
		return false;
	return spec_asks(s, id) && !warned(s, b, id);
}

int backend_cannot(const struct spec *s, const char *backend, enum field_id id, const char *value,
		   struct err *e)
{
	const struct field *f = &fields[id];
	bool flag = f->flag && (s->origin[id] == ORIGIN_FLAG || !f->key);
	const char *able = NULL;

	for (const struct backend *const *b = backends_all; *b && !able; b++)
		if (f->honoured & (*b)->bit && !str_eq((*b)->name, backend))
			able = (*b)->name;
	(void)err_set(e, ERR_UNAVAILABLE, ENOTSUP, "backend '%s' cannot honour %s%s%s%s", backend,
		      flag ? "--" : "", flag ? f->flag : f->key, value ? " " : "",
		      value ? value : "");
	if (!flag && s->where[id])
		(void)err_wrap(e, "%.160s", s->where[id]);
	if (!able)
		return f->honoured & ON_LASTING
			       ? err_hint(e, "a long-lived sandbox can: brig sandbox create")
			       : err_hint(e, "no backend in this version of brig can");
	if (s->backend != BACKEND_AUTO || !only_untrusted(s, id))
		return err_hint(e, "backend '%s' can", able);
	if (s->origin[id] == ORIGIN_LINE)
		return err_hint(e, "a line of a batch does not choose the backend: --backend %s",
				able);
	return err_hint(e,
			"an untrusted project file does not choose the backend: "
			"'brig allow' trusts it, --backend %s chooses",
			able);
}

/* A brig on the other side of ssh would show them there. */
static int check_ports(const struct spec *s, const struct backend *b, struct err *e)
{
	int code = 0;

	if (s->ports.n && !(b->open && b->open->lend))
		return backend_cannot(s, b->name, FIELD_PORTS, NULL, e);
	for (size_t i = 0; i < s->ports.n && code == 0; i++)
		if (!str_eq(s->ports.v[i].protocol, "tcp"))
			code = err_refuse(e, ERR_UNAVAILABLE, ENOTSUP,
					  "leave it out: only tcp ports can be published",
					  "port %u/%s cannot be published", s->ports.v[i].container,
					  s->ports.v[i].protocol);
	if (s->ports.n > PUBLISHED_MAX && code == 0)
		code = err_refuse(e, ERR_UNAVAILABLE, E2BIG, "leave some of them out",
				  "more than %d ports cannot be published", PUBLISHED_MAX);
	return code < 0 && s->where[FIELD_PORTS] ? err_wrap(e, "%.160s", s->where[FIELD_PORTS])
						 : code;
}

static int check_network(const struct spec *s, const struct backend *b, struct err *e)
{
	if (s->network == NETWORK_PROXY && !(b->can & BACKEND_PROXY))
		return err_refuse(e, ERR_UNAVAILABLE, ENOTSUP, "backend 'native' has",
				  "backend '%s' has no network 'proxy'", b->name);
	if (s->network == NETWORK_BRIDGE && !(b->can & BACKEND_BRIDGE))
		return err_refuse(e, ERR_UNAVAILABLE, ENOTSUP,
				  "backends 'native' and 'docker' can; or use --network none",
				  "backend '%s' has no network 'bridge'", b->name);
	return 0;
}

/* What only the backend itself knows. Where wishes decide, those of strangers are nobody's. */
static int check_itself(const struct spec *s, const struct backend *b, enum wishes which,
			struct err *e)
{
	CLEANUP(spec) struct spec *deciding = NULL;
	bool any = false;

	for (int i = 0; b->check && which == DECIDING_WISHES && i < FIELD_COUNT; i++)
		any |= spec_wrote(s, (enum field_id)i) && only_untrusted(s, (enum field_id)i);
	if (!b->check || !any)
		return b->check ? b->check(s, e) : 0;
	deciding = spec_clone(s, e);
	if (!deciding)
		return -e->code;
	for (int i = 0; i < FIELD_COUNT; i++)
		if (only_untrusted(s, (enum field_id)i))
			deciding->origin[i] = ORIGIN_DEFAULT;
	return b->check(deciding, e);
}

/* Its own, an engine's or a cluster's; what native can, bubblewrap and a brig elsewhere cannot all
 * do. */
static bool runs_images(const struct backend *b)
{
	return b->can & (BACKEND_IMAGES | BACKEND_ENGINE) || b->bit & ON_KUBERNETES;
}

static int check_honoured(const struct spec *s, const struct backend *b, enum wishes which,
			  struct err *e)
{
	if (code_is_file(s) && !(b->can & BACKEND_SHOWS_CODE))
		return err_refuse(e, ERR_UNAVAILABLE, ENOTSUP, "backend 'native' can",
				  "backend '%s' cannot show code as a file", b->name);
	for (int i = 0; i < FIELD_COUNT; i++) {
		enum field_id id = (enum field_id)i;

		if (!(fields[id].honoured & bits(s, b)) && asked(s, b, id) &&
		    (which == ALL_WISHES || !only_untrusted(s, id)))
			return backend_cannot(s, b->name, id, NULL, e);
	}
	if (s->home == HOME_KEEP &&
	    b->can & (BACKEND_REMOTE | BACKEND_DELEGATES)) /* nor a brig on the other side */
		return backend_cannot(s, b->name, FIELD_HOME, "keep", e);
	if (!runs_images(b) && asked(s, b, FIELD_IMAGE) &&
	    (which == ALL_WISHES || !only_untrusted(s, FIELD_IMAGE)))
		return backend_cannot(s, b->name, FIELD_IMAGE, NULL, e);
	if (volumes_of(s) && b->can & (BACKEND_REMOTE | BACKEND_DELEGATES))
		return backend_cannot(s, b->name, s->caches.n ? FIELD_CACHES : FIELD_VOLUMES, NULL,
				      e);
	if (check_ports(s, b, e) < 0 || check_network(s, b, e) < 0)
		return -e->code;
	return check_itself(s, b, which, e);
}

/* Two words for the same thing, and both must be meant. */
static int check_host_run(const struct spec *s, struct err *e)
{
	bool full = s->policy == POLICY_FULL_ACCESS;

	if (full && spec_wrote(s, FIELD_BACKEND) && s->backend != BACKEND_NONE &&
	    s->backend != BACKEND_AUTO)
		return err_refuse(e, ERR_USAGE, EINVAL,
				  "leave out --backend, or choose --policy workspace_write",
				  "policy full_access means no sandbox: it excludes backend '%s'",
				  fields[FIELD_BACKEND].words[s->backend]);
	if (s->full_access_ok)
		return 0;
	(void)err_set(e, ERR_POLICY, EPERM, "%s runs on the host, outside of any sandbox",
		      full ? "policy full_access" : "backend none");
	return s->again ? err_hint(e, "if that is intended: %s", s->again)
			: err_hint(e, "if that is intended, ask again with "
				      "--i-know-this-is-not-a-sandbox");
}

static void pass_over(struct backend_choice *c, const struct backend *b, const struct err *e)
{
	if (c->passed_count < PASSED_OVER_MAX)
		c->passed[c->passed_count++] = (struct passed_over){ .backend = b, .why = *e };
}

/* One passed over for what this machine lacks, and not for what it never can: who has no engine is
 * told of that, and not to install one. */
static bool lacks_less(const struct backend_choice *c, const struct backend *only)
{
	char unused[256];

	return c->passed_count && c->passed[0].why.code != ENOTSUP && only->maker &&
	       only->maker->health &&
	       only->maker->health(ENGINE_WAIT_MS, unused, sizeof(unused)) < 0;
}

/* The only one able is taken untried: whatever stops it says so itself. */
static int choose_auto(const struct spec *s, struct isolation *got, struct backend_choice *c,
		       struct err *e)
{
	const struct backend *able[PASSED_OVER_MAX];
	struct backend_choice later = {
		0
	}; /* behind one that may do: nobody passes them over yet */
	struct err first = { 0 };
	size_t n = 0;

	for (const struct backend *const *b = backends_auto; *b; b++) {
		struct err why = { 0 };

		if (check_honoured(s, *b, DECIDING_WISHES, &why) == 0) {
			able[n++] = *b;
			continue;
		}
		pass_over(n ? &later : c, *b, &why);
		if (!first.code)
			first = why;
	}
	if (n == 1 && lacks_less(c, able[0])) {
		*e = first;
		return -e->code;
	}
	for (size_t i = 0; i < n; i++) {
		struct err why = { 0 };

		if (n == 1 || able[i]->probe(s, got, &why) == 0) {
			c->backend = able[i];
			return check_honoured(s, able[i], ALL_WISHES, e);
		}
		pass_over(c, able[i], &why);
		for (size_t k = 0; i == 0 && k < later.passed_count; k++)
			pass_over(c, later.passed[k].backend, &later.passed[k].why);
		if (i == 0) /* the one to mend: the others were only asked for want of it */
			first = why;
	}
	*e = first;
	return -e->code;
}

static int choose_named(const struct spec *s, enum backend_kind kind, struct backend_choice *c,
			struct err *e)
{
	c->backend = backend_by_kind(kind);
	if (!c->backend)
		return err_refuse(e, ERR_UNAVAILABLE, ENOTSUP, "use --backend native",
				  "backend '%s' is not in this version of brig",
				  fields[FIELD_BACKEND].words[s->backend]);
	return check_honoured(s, c->backend, ALL_WISHES, e);
}

static int choose(const struct spec *s, struct isolation *got, struct backend_choice *ret,
		  struct err *e)
{
	bool host = spec_on_host(s);

	*ret = (struct backend_choice){ 0 };
	if (!host && !backend_by_kind(s->backend) && s->backend != BACKEND_AUTO)
		return choose_named(s, s->backend, ret, e);
	if (host && check_host_run(s, e) < 0)
		return -e->code;
	if (!host && s->backend == BACKEND_AUTO)
		return choose_auto(s, got, ret, e);
	return choose_named(s, host ? BACKEND_NONE : s->backend, ret, e);
}

int backend_choose(const struct spec *s, struct backend_choice *ret, struct err *e)
{
	return choose(s, NULL, ret, e);
}

int backend_examine(const struct spec *s, struct backend_choice *ret, struct err *e)
{
	struct isolation got;

	return choose(s, &got, ret, e);
}

int backend_would_take(const struct spec *given, const struct backend *b, struct err *e)
{
	CLEANUP(spec) struct spec *s = spec_clone(given, e);
	struct backend_plan *p = NULL;

	if (!s || spec_set_argv(s, 1, (char *[]){ (char[]){ "true" } }, e) < 0 ||
	    b->plan(s, &p, NULL, e) < 0)
		return -e->code;
	(void)b->plan_free(p);
	return 0;
}

int backend_members_open(int *router, int *packets, int *streams, struct err *e)
{
	int fds[MEMBERS_SOCKETS];

	if (members_open(fds, e) < 0)
		return -e->code;
	*router = fds[MEMBERS_ROUTES];
	*packets = fds[MEMBERS_PACKETS];
	*streams = fds[MEMBERS_STREAMS];
	return 0;
}
