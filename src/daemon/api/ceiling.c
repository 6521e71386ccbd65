/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/api/ceiling.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/text/str.h"
#include "model/files/config.h"
#include "model/files/trust.h"
#include "model/settings/paths.h"

struct ceiling {
	struct spec *spec;
};

static int read_into(struct spec *s, const char *text, size_t n, enum origin by, bool trusted,
		     struct err *e)
{
	struct source src = {
		.name = "spec", .folder = "/", .cwd = "/", .origin = by, .trusted = trusted
	};
	enum dialect was;

	return config_read_text(s, text, n, DIALECT_BRIG, &src, &was, e);
}

int ceiling_open(const char *path, struct ceiling **ret, struct err *e)
{
	CLEANUP(ceiling) struct ceiling *c = calloc(1, sizeof(*c));
	struct source src = {
		.name = path, .folder = "/", .cwd = "/", .origin = ORIGIN_FILE, .trusted = true
	};
	struct config_place at = { .cwd = "/", .home = getenv("HOME"), .environ = environ };
	enum dialect was;

	if (!c)
		return err_nomem(e);
	c->spec = spec_new(e);
	at.ceiling = c->spec;
	if (!c->spec || (!path && config_load_ceiling(&at, e) < 0) ||
	    (path && config_read_file(c->spec, path, DIALECT_BRIG, &src, &was, e) < 0))
		return -e->code;
	*ret = TAKE_PTR(c);
	return 0;
}

int ceiling_of(const char *spec, size_t n, struct ceiling **ret, struct err *e)
{
	CLEANUP(ceiling) struct ceiling *c = calloc(1, sizeof(*c));

	if (!c)
		return err_nomem(e);
	c->spec = spec_new(e);
	if (!c->spec || read_into(c->spec, spec, n, ORIGIN_FILE, true, e) < 0)
		return -e->code;
	*ret = TAKE_PTR(c);
	return 0;
}

struct ceiling *ceiling_free(struct ceiling *c)
{
	if (c)
		(void)spec_free(c->spec);
	free(c);
	return NULL;
}

/* ---- narrowing ---- */

static bool ceiling_has(const struct strlist *l, const char *text)
{
	for (size_t i = 0; i < l->n; i++)
		if (str_eq(l->v[i], text))
			return true;
	return false;
}

/* Some of what the ceiling names, word for word. */
static bool part_of(const struct strlist *was, const struct strlist *is)
{
	for (size_t i = 0; i < is->n; i++)
		if (!ceiling_has(was, is->v[i]))
			return false;
	return true;
}

/* Is what is left out of the ceiling's own list read-only within something that is writable? */
static bool drops_cover(const struct spec *was, const struct spec *is)
{
	for (size_t i = 0; i < was->read.n; i++) {
		const char *path = was->read.v[i];

		if (ceiling_has(&is->read, path))
			continue;
		if (is->workdir && path_under(path, is->workdir))
			return true;
		for (size_t k = 0; k < is->write.n; k++)
			if (path_under(path, is->write.v[k]))
				return true;
		for (size_t k = 0; k < is->mounts.n; k++)
			if (path_under(path, is->mounts.v[k].target))
				return true;
	}
	return false;
}

static bool names_credentials(const struct spec *before, const struct spec *after)
{
	for (size_t i = 0; i < after->use_credentials.n; i++) {
		bool known = false;

		for (size_t k = 0; k < before->credentials.n; k++)
			known |= str_eq(before->credentials.v[k].name, after->use_credentials.v[i]);
		if (!known)
			return false;
	}
	return true;
}

struct narrowing {
	const struct spec *before, *after;
	struct err *e;
};

/* What an unknown project may not do, and a tenant may: it has no programs of the owner's. */
static bool harmless(const struct narrowing *n, enum field_id id)
{
	const struct spec *was = n->before, *is = n->after;

	switch (id) {
	case FIELD_ENV: /* seen by its own commands alone */
	case FIELD_JSON:
	case FIELD_QUIET:
		return true;
	case FIELD_BACKEND:
		return was->backend == BACKEND_AUTO && spec_in_namespaces(is);
	case FIELD_EGRESS_ALLOW:
		return part_of(&was->egress.allow, &is->egress.allow);
	case FIELD_EGRESS_GROUPS:
		return part_of(&was->egress.groups, &is->egress.groups);
	case FIELD_READ:
		return part_of(&was->read, &is->read) && !drops_cover(was, is);
	case FIELD_CREDENTIAL:
		return names_credentials(was, is);
	default:
		return false;
	}
}

static int loosened(void *arg, enum field_id id, const struct envvar *entry)
{
	const struct narrowing *n = arg;

	if (harmless(n, id))
		return 0;
	return err_refuse(n->e, ERR_POLICY, EPERM,
			  "leave it out, or have the daemon's ceiling raised",
			  "'%s%s%.60s' asks for more than the daemon allows", fields[id].key,
			  entry ? "." : "", entry ? entry->name : "");
}

/* One backend alone has labels: under auto they would choose it, which a tenant may not. */
static int check_labels(struct narrowing *n)
{
	if (!n->after->labels.n || n->before->labels.n || n->after->backend != BACKEND_AUTO ||
	    spec_other_programs(n->before))
		return 0;
	return loosened(n, FIELD_LABELS, &n->after->labels.v[0]);
}

/* Of the backends that a tenant may have, native alone forbids programs in /tmp. Under auto such a
 * wish would lead past bwrap, and where there is no native to an engine, which a tenant does not
 * choose: it gets native, or hears from that one why not. What the ceiling itself says is the
 * owner's word, and leads to whoever honours it. */
static void settle_backend(const struct spec *before, struct spec *s)
{
	if (!s->tmp_exec && before->tmp_exec && !spec_other_programs(before))
		spec_name_native(s, ORIGIN_API);
}

enum problem ceiling_apply(const struct ceiling *c, const char *spec, size_t n, struct buf *out,
			   struct spec **ret, struct err *e)
{
	CLEANUP(spec) struct spec *s = c ? spec_clone(c->spec, e) : spec_new(e);
	CLEANUP(spec) struct spec *before = NULL;
	struct narrowing check = { .e = e };
	struct json j;

	if (!s)
		return PROBLEM_INTERNAL;
	if (read_into(s, spec, n, c ? ORIGIN_API : ORIGIN_FILE, !c, e) < 0)
		return e->kind == ERR_INTERNAL ? PROBLEM_INVALID : problem_of(e);
	if (!c) {
		buf_add(out, spec, n);
		if (ret)
			*ret = TAKE_PTR(s);
		return PROBLEM_NONE;
	}
	before = spec_clone(c->spec, e);
	if (!before)
		return PROBLEM_INTERNAL;
	check.before = before;
	check.after = s;
	if (tighten_each(before, s, ORIGIN_API, loosened, &check) < 0 || check_labels(&check) < 0)
		return PROBLEM_POLICY_CEILING;
	settle_backend(before, s);
	json_init(&j, out, false);
	config_write_json(s, &j);
	if (ret)
		*ret = TAKE_PTR(s);
	return out->failed ? PROBLEM_TOO_LARGE : PROBLEM_NONE;
}
