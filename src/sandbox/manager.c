/* SPDX-License-Identifier: Apache-2.0 */
/* sandbox/manager.c - brig.h: managers, errors, and what is asked of backends without a run. */
#include "sandbox/manager_internal.h"

#include <stdio.h>
#include <string.h>

#include "backend/backend.h"
#include "sandbox/health.h"

struct brig_manager {
	struct spec *spec;
};

const char *brig_version(void)
{
	return BRIG_VERSION;
}

void error_export(const struct err *from, struct brig_error *to)
{
	to->errnum = from->code;
	(void)snprintf(to->code, sizeof(to->code), "%s", err_kind_name(from->kind));
	memcpy(to->what, from->what, sizeof(to->what));
	memcpy(to->hint, from->hint, sizeof(to->hint));
}

void error_import(const struct brig_error *from, struct err *to)
{
	enum err_kind kind = ERR_INTERNAL;

	for (int i = 0; i < ERR_KINDS; i++)
		if (strcmp(from->code, err_kind_name((enum err_kind)i)) == 0)
			kind = (enum err_kind)i;
	(void)err_refuse(to, kind, from->errnum, from->hint, "%s", from->what);
}

int error_give(const struct err *from, struct brig_error *to)
{
	error_export(from, to);
	return -from->code;
}

int error_missing(const char *what, struct brig_error *to)
{
	struct err e = { 0 };

	(void)err_set(&e, ERR_USAGE, EINVAL, "no %s was given", what);
	return error_give(&e, to);
}

int error_name(const char *what, const char *name, struct err *e)
{
	if (*name && !strchr(name, '='))
		return 0;
	return err_refuse(e, ERR_USAGE, EINVAL, "what stands behind '=' is the value's place",
			  "'%.60s' cannot be the name of a %s", name, what);
}

brig_manager *brig_manager_new(void)
{
	brig_manager *m = calloc(1, sizeof(*m));
	struct err e;

	if (!m)
		return NULL;
	m->spec = spec_new(&e);
	if (m->spec)
		return m;
	free(m);
	return NULL;
}

void brig_manager_free(brig_manager *m)
{
	if (!m)
		return;
	(void)spec_free(m->spec);
	free(m);
}

const struct spec *manager_spec(const brig_manager *m)
{
	return m->spec;
}

int brig_manager_set(brig_manager *m, const char *key, const char *value, struct brig_error *be)
{
	struct err e = { 0 };

	if (!key || !value)
		return error_missing(key ? "value" : "name of a setting", be);
	return spec_set_key(m->spec, key, value, ORIGIN_API, &e) < 0 ? error_give(&e, be) : 0;
}

int brig_manager_ready(brig_manager *m, struct brig_error *be)
{
	struct backend_choice c;
	struct isolation got;
	struct err e = { 0 };

	if (backend_choose(m->spec, &c, &e) < 0 || c.backend->probe(m->spec, &got, &e) < 0)
		return error_give(&e, be);
	return 0;
}

int brig_backend_health(brig_manager *m, const char *backend, uint64_t timeout_ms, char *detail,
			size_t n)
{
	unsigned ms =
		timeout_ms ? (unsigned)(timeout_ms < 600000 ? timeout_ms : 600000) : HEALTH_MS;
	const struct backend *b = backend ? backend_by_name(backend) : NULL;

	if (!backend)
		return (void)snprintf(detail, n, "no backend was given"), -EINVAL;
	if (b)
		return backend_health(b, m->spec, ms, detail, n);
	(void)snprintf(detail, n, "there is no backend '%.64s'", backend);
	return -EINVAL;
}

void sandbox_tidy(void)
{
	backends_tidy(NULL);
}

int sandbox_judged(const char *path, struct err *e)
{
	return backends_judged(path, e);
}

struct outcome *sandbox_told(const struct spec *s)
{
	struct outcome *o = outcome_new();

	if (o && s->workdir)
		backends_told(s->workdir, o);
	return o;
}

int sandbox_prune_pods(bool dry, void (*said)(void *arg, const char *pod), void *arg, struct err *e)
{
	return kube_prune(dry, said, arg, e);
}

int sandbox_prune_spools(bool dry, void (*said)(void *arg, const char *spool), void *arg,
			 struct err *e)
{
	return slurm_prune(dry, said, arg, e);
}

_Noreturn void sandbox_inside(int letter)
{
	backend_inside(letter);
}

/* The opt-in for a run on the host may not be all that is missing: then the rest is told. */
static int manager_choose(const struct spec *s, struct backend_choice *c, struct err *e)
{
	CLEANUP(spec) struct spec *opted = NULL;
	struct err more = { 0 };

	if (backend_choose(s, c, e) == 0)
		return 0;
	opted = s->full_access_ok ? NULL : spec_clone(s, &more);
	if (!opted)
		return -e->code;
	opted->full_access_ok = true;
	if (backend_choose(opted, c, &more) < 0 || backend_would_take(opted, c->backend, &more) < 0)
		*e = more;
	return -e->code;
}

int spec_backend(const struct spec *s, const char **name, enum spec_fault *why, struct err *e)
{
	struct backend_choice c;
	struct isolation unused;

	*why = FAULT_VERSION;
	if (manager_choose(s, &c, e) < 0)
		return -e->code;
	*name = c.backend->name;
	if (backend_would_take(s, c.backend, e) < 0) {
		*why = e->kind != ERR_UNAVAILABLE ? FAULT_FILE : FAULT_VERSION;
		return -e->code;
	}
	*why = FAULT_MACHINE;
	/* An engine is on this machine; another host is not asked about a file. */
	return c.backend->can & BACKEND_ENGINE ? c.backend->probe(s, &unused, e) : 0;
}

int companion_backend(const struct spec *s, const char **name, struct err *e)
{
	struct backend_choice c;

	if (manager_choose(s, &c, e) < 0)
		return -e->code;
	*name = c.backend->can & BACKEND_ENGINE ? c.backend->name : NULL;
	return 0;
}

int sandbox_pull(const char *backend, const char *ref, brig_note_fn *note, void *arg, struct err *e)
{
	const struct backend *b = backend ? backend_by_name(backend) : backend_with(BACKEND_ENGINE);

	if (!b || !b->maker || !b->maker->pull)
		return err_refuse(e, ERR_USAGE, EINVAL, "leave out --backend",
				  "backend '%.40s' has no images", backend ? backend : "");
	return b->maker->pull(ref, note, arg, e);
}

int sandbox_build(const char *ref, const char *text, const char *base, brig_note_fn *note,
		  void *arg, struct err *e)
{
	const struct backend *b = backend_with(BACKEND_ENGINE);
	const struct image_recipe r = { .ref = ref, .text = text, .base = base };

	return b && b->maker && b->maker->build
		       ? b->maker->build(&r, note, arg, e)
		       : err_set(e, ERR_UNAVAILABLE, ENOSYS, "no backend builds images");
}
