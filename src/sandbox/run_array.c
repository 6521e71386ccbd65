/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox/run_array.h"

#include <stdlib.h>

#include "backend/backend.h"
#include "sandbox/manager_internal.h"

struct run_array {
	const struct array_ops *ops;
	struct backend_array *array;
};

/* As a run has them: paths are whole. */
static struct spec *checked(const struct spec *s, struct err *e)
{
	const char *const argv[] = { "true", NULL };
	brig_request *q = request_from(s);
	struct brig_error be;
	struct spec *c = NULL;

	if (!q)
		(void)err_nomem(e);
	else if (brig_request_argv(q, argv, &be) < 0)
		error_import(&be, e);
	else
		c = request_checked(q, e);
	if (c)
		c->command.argv = NULL; /* the request's */
	brig_request_free(q);
	return c;
}

int run_array_open(const struct spec *s, const char *name, struct run_array **ret, struct err *e)
{
	const struct backend *b = s->backend == BACKEND_AUTO ? NULL : backend_by_kind(s->backend);
	CLEANUP(spec) struct spec *c = NULL;
	struct run_array *a;

	*ret = NULL;
	if (!b || !b->array)
		return 0;
	c = checked(s, e);
	if (!c)
		return -e->code;
	a = calloc(1, sizeof(*a));
	if (!a)
		return err_nomem(e);
	a->ops = b->array;
	if (a->ops->open(c, name, &a->array, e) < 0) {
		free(a);
		return -e->code;
	}
	*ret = a;
	return 0;
}

int run_array_begin(struct run_array *a, uint64_t first, uint64_t *most, struct err *e)
{
	return a->ops->begin(a->array, first, most, e);
}

int run_array_put(struct run_array *a, const brig_request *q, uint64_t line, struct err *e)
{
	CLEANUP(spec) struct spec *s = request_checked(q, e);
	struct backend_choice c;

	if (!s || backend_choose(s, &c, e) < 0)
		return -e->code;
	if (c.backend->array != a->ops)
		return err_set(e, ERR_UNAVAILABLE, ENOTSUP, "another backend runs it");
	return a->ops->put(a->array, s, line, q->input, e);
}

int run_array_submit(struct run_array *a, uint64_t lines, unsigned jobs, struct err *e)
{
	return a->ops->submit(a->array, lines, jobs, e);
}

uint64_t run_array_end(const struct run_array *a)
{
	return a->ops->end(a->array);
}

bool run_array_find(const struct run_array *a, uint64_t line, struct slurm_spec *ret)
{
	return a->ops->find(a->array, line, ret);
}

void run_array_cancel(struct run_array *a)
{
	if (a)
		a->ops->cancel(a->array);
}

void run_array_close(struct run_array *a)
{
	if (!a)
		return;
	a->ops->close(a->array, false);
	free(a);
}
