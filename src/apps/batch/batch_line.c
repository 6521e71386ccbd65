/* SPDX-License-Identifier: Apache-2.0 */
/* apps/batch/batch_line.c - what a line of a batch may say. */
#include <stdio.h>
#include <string.h>

#include "apps/batch/batch_internal.h"
#include "base/text/str.h"
#include "model/files/config.h"
#include "model/files/trust.h"
#include "sandbox/manager.h"

#define ID_MAX 128
#define WORDS_MAX 4096

static const struct {
	const char *name;
	enum jread_kind kind; /* JREAD_NONE: any */
	bool texts;           /* every element is a string */
} members[] = {
	{ "argv", JREAD_ARRAY, true },       { "shell", JREAD_STRING, false },
	{ "python", JREAD_STRING, false },   { "args", JREAD_ARRAY, true },
	{ "script", JREAD_STRING, false },   { "interpreter", JREAD_STRING, false },
	{ "params", JREAD_OBJECT, true },    { "stdin", JREAD_STRING, false },
	{ "env", JREAD_OBJECT, true },       { "timeout", JREAD_STRING, false },
	{ "settings", JREAD_OBJECT, false }, { "id", JREAD_STRING, false },
	{ "meta", JREAD_NONE, false },
};

#define LINE_HINT "{\"argv\": [\"python3\", \"-V\"]} is a line; brig batch --help has the others"
#define WRONG(e, ...) err_refuse(e, ERR_USAGE, EINVAL, LINE_HINT, __VA_ARGS__)

static bool all_texts(const struct jread *v)
{
	if (jread_kind(v) == JREAD_ARRAY) {
		for (size_t i = 0; i < jread_count(v); i++)
			if (!jread_text(jread_at(v, i)))
				return false;
		return jread_count(v) <= WORDS_MAX;
	}
	for (void *it = jread_first(v); it; it = jread_next(v, it))
		if (!jread_text(jread_value(it)))
			return false;
	return true;
}

static int check_member(const char *name, const struct jread *v, struct err *e)
{
	const char *names[ARRAY_LEN(members) + 1], *near;

	for (size_t i = 0; i < ARRAY_LEN(members); i++) {
		names[i] = members[i].name;
		if (!str_eq(name, members[i].name))
			continue;
		if (members[i].kind != JREAD_NONE && jread_kind(v) != members[i].kind)
			return WRONG(e, "member '%.20s' has a value of the wrong type", name);
		return members[i].texts && !all_texts(v)
			       ? WRONG(e, "member '%.20s' has a value that is not a string", name)
			       : 0;
	}
	names[ARRAY_LEN(members)] = NULL;
	near = str_nearest(name, names);
	(void)WRONG(e, "unknown member '%.60s'", name);
	return near ? err_hint(e, "did you mean '%s'?", near) : -e->code;
}

static int check_shape(const struct jread *v, struct err *e)
{
	static const char *const commands[] = { "argv", "shell", "python", "script" };
	int n = 0;

	if (jread_kind(v) != JREAD_OBJECT)
		return WRONG(e, "it is not a JSON object");
	for (void *it = jread_first(v); it; it = jread_next(v, it))
		if (check_member(jread_key(it), jread_value(it), e) < 0)
			return -e->code;
	for (size_t i = 0; i < ARRAY_LEN(commands); i++)
		n += jread_get(v, commands[i]) != NULL;
	if (n != 1)
		return WRONG(e, "it has not exactly one of argv, shell, python and script");
	if (jread_get(v, "argv") && !jread_count(jread_get(v, "argv")))
		return WRONG(e, "argv is empty");
	if ((jread_get(v, "args") && !jread_get(v, "python")) ||
	    ((jread_get(v, "interpreter") || jread_get(v, "params")) && !jread_get(v, "script")))
		return WRONG(e, "args go with python, interpreter and params with script");
	if (jread_get(v, "stdin") && jread_get(v, "script"))
		return WRONG(e, "a script is its interpreter's input: it has no stdin");
	if (jread_str(v, "id") && strlen(jread_str(v, "id")) > ID_MAX)
		return WRONG(e, "its id is longer than 128 bytes");
	return 0;
}

int batch_line_read(const char *p, size_t n, struct jread **ret, struct err *e)
{
	CLEANUP(jread) struct jread *v = NULL;

	*ret = NULL;
	if (n > BATCH_LINE_MAX)
		return WRONG(e, "it is longer than 8 MiB");
	if (jread_parse(p, n, &v, e) < 0)
		return err_hint(e, LINE_HINT);
	if (check_shape(v, e) < 0)
		return -e->code;
	*ret = TAKE_PTR(v);
	return 0;
}

/* ---- the run that it asks for ---- */

static int loosened(void *arg, enum field_id id, const struct envvar *entry)
{
	struct err *e = arg;

	/* Seen by its own command alone; on somebody's host the check refuses every one. */
	if (id == FIELD_ENV)
		return 0;
	return err_refuse(e, ERR_POLICY, EPERM,
			  "set it for all lines, on the command line of brig batch",
			  "'%s%s%.60s': a line of a batch may only tighten", fields[id].key,
			  entry ? "." : "", entry ? entry->name : "");
}

/* Other runs' HOMEs are kept by policy and seed: a tighter word must not lead into one of them. */
static int check_home(const struct spec *holds, const struct spec *s, struct err *e)
{
	if (s->home != HOME_KEEP ||
	    (s->policy == holds->policy && s->home_seed.n == holds->home_seed.n))
		return 0;
	return err_refuse(e, ERR_POLICY, EPERM,
			  "\"home\": \"private\" in its settings gives it none",
			  "'%s': a line of a batch may not choose another kept HOME",
			  fields[s->policy == holds->policy ? FIELD_HOME_SEED : FIELD_POLICY].key);
}

static int add_settings(struct spec *s, const struct jread *v, struct err *e)
{
	static const struct source src = {
		.name = "settings", .folder = "/", .cwd = "/", .origin = ORIGIN_LINE
	};
	CLEANUP(mem) char *text = v ? jread_dump(v) : NULL;
	enum dialect was;

	if (!v)
		return 0;
	return text ? config_read_text(s, text, strlen(text), DIALECT_BRIG, &src, &was, e)
		    : err_nomem(e);
}

/* Only what is of one line has this origin, so that it is measured and nothing else is. */
static int batch_line_add_variables(struct spec *s, const struct jread *v, struct err *e)
{
	for (void *it = jread_first(v); it; it = jread_next(v, it)) {
		const char *name = jread_key(it);
		CLEANUP(buf) struct buf pair = BUF_INIT(BATCH_LINE_MAX);

		if (error_name("variable", name, e) < 0)
			return -e->code;
		buf_printf(&pair, "%s=%s", name, jread_text(jread_value(it)));
		if (pair.failed)
			return err_nomem(e);
		if (spec_set(s, FIELD_ENV, buf_str(&pair), ORIGIN_LINE, e) < 0)
			return -e->code;
	}
	return 0;
}

static int add_map(brig_request *q, const struct jread *v,
		   int (*add)(brig_request *, const char *, const char *, struct brig_error *),
		   struct brig_error *be)
{
	for (void *it = jread_first(v); it; it = jread_next(v, it))
		if (add(q, jread_key(it), jread_text(jread_value(it)), be) < 0)
			return -be->errnum;
	return 0;
}

static int add_argv(brig_request *q, const struct jread *v, struct brig_error *be)
{
	size_t n = jread_count(v);
	const char **argv = calloc(n + 1, sizeof(*argv));
	int r;

	for (size_t i = 0; argv && i < n; i++)
		argv[i] = jread_text(jread_at(v, i));
	r = argv ? brig_request_argv(q, argv, be) : -(be->errnum = ENOMEM);
	free(argv);
	return r;
}

static int add_command(brig_request *q, const struct jread *v, struct brig_error *be)
{
	const char *python = jread_str(v, "python"), *script = jread_str(v, "script");
	const char *shell = jread_str(v, "shell"), *in = jread_str(v, "stdin");
	const struct jread *args = jread_get(v, "args");
	int r;

	if (python)
		r = brig_request_python(q, python, strlen(python), be);
	else if (script)
		r = brig_request_script(q, jread_str(v, "interpreter"), script, strlen(script), be);
	else
		r = shell ? brig_request_shell(q, shell, be)
			  : add_argv(q, jread_get(v, "argv"), be);
	for (size_t i = 0; r == 0 && i < jread_count(args); i++)
		r = brig_request_arg(q, jread_text(jread_at(args, i)), be);
	if (r == 0)
		r = add_map(q, jread_get(v, "params"), brig_request_param, be);
	if (r == 0 && in)
		r = brig_request_input(q, in, strlen(in), be);
	return r;
}

int batch_line_request(const struct jread *v, const struct spec *holds, brig_request **ret,
		       struct err *e)
{
	brig_request *q = request_from(holds);
	const char *timeout = jread_str(v, "timeout");
	struct brig_error be = { 0 };
	int r;

	*ret = NULL;
	if (!q)
		return err_nomem(e);
	r = add_settings(request_spec(q), jread_get(v, "settings"), e);
	if (r == 0 && timeout)
		r = spec_set(request_spec(q), FIELD_TIMEOUT, timeout, ORIGIN_LINE, e);
	if (r == 0)
		r = batch_line_add_variables(request_spec(q), jread_get(v, "env"), e);
	/* Before its command, whose own variables brig sets. */
	if (r == 0)
		r = tighten_each(holds, request_spec(q), ORIGIN_LINE, loosened, e);
	if (r == 0)
		r = check_home(holds, request_spec(q), e);
	if (r == 0 && add_command(q, v, &be) < 0) {
		error_import(&be, e);
		r = -e->code;
	}
	if (r < 0) {
		brig_request_free(q);
		return r;
	}
	*ret = q;
	return 0;
}

/* ---- all lines ---- */

static bool batch_line_is_blank(const char *p, size_t n)
{
	while (n && (*p == ' ' || *p == '\t' || *p == '\r')) {
		p++;
		n--;
	}
	return n == 0;
}

static int add_place(struct batch_lines *l, size_t *room, const struct batch_place *p,
		     struct err *e)
{
	if (l->n == *room) {
		size_t more = *room ? *room * 2 : 1024;
		struct batch_place *v = reallocarray(l->v, more, sizeof(*v));

		if (!v)
			return err_nomem(e);
		l->v = v;
		*room = more;
	}
	if (l->n >= BATCH_LINES_MAX)
		return err_refuse(e, ERR_USAGE, E2BIG, "split the file",
				  "a batch has at most 10,000,000 lines");
	l->v[l->n++] = *p;
	return 0;
}

int batch_lines_find(const char *text, size_t size, struct batch_lines *ret, struct err *e)
{
	struct batch_lines l = { .text = text };
	size_t room = 0, number = 1;
	int r = 0;

	*ret = (struct batch_lines){ 0 };
	for (size_t at = 0; at < size && r == 0; number++) {
		const char *end = memchr(text + at, '\n', size - at);
		size_t n = end ? (size_t)(end - text) - at : size - at;
		struct jread *v = NULL;

		if (!batch_line_is_blank(text + at, n)) {
			r = batch_line_read(text + at, n, &v, e);
			if (r < 0)
				(void)err_wrap(e, "line %zu", number);
			else
				r = add_place(&l, &room, &(struct batch_place){ at, n, number }, e);
		}
		(void)jread_free(v);
		at += n + 1;
	}
	if (r < 0)
		batch_lines_done(&l);
	else
		*ret = l;
	return r;
}

void batch_lines_done(struct batch_lines *l)
{
	free(l->v);
	*l = (struct batch_lines){ 0 };
}

/* ---- one of them ---- */

static int add_number(struct spec *s, const char *name, uint64_t value, struct err *e)
{
	char pair[64];

	(void)snprintf(pair, sizeof(pair), "%s=%llu", name, (unsigned long long)value);
	return spec_set(s, FIELD_ENV, pair, ORIGIN_FLAG, e);
}

static int repeated(const struct batch_lines *l, const struct spec *holds, uint64_t index,
		    brig_request **ret, struct err *e)
{
	brig_request *q = request_from(holds);
	struct brig_error be = { 0 };
	int r;

	if (!q)
		return err_nomem(e);
	r = add_number(request_spec(q), "BRIG_ARRAY_INDEX", index, e);
	if (r == 0)
		r = add_number(request_spec(q), "BRIG_ARRAY_COUNT", l->n, e);
	if (r == 0 && brig_request_argv(q, (const char **)(uintptr_t)l->argv, &be) < 0) {
		error_import(&be, e);
		r = -e->code;
	}
	if (r < 0)
		brig_request_free(q);
	else
		*ret = q;
	return r;
}

int batch_lines_request(const struct batch_lines *l, const struct spec *holds, uint64_t index,
			brig_request **ret, struct err *e)
{
	const struct batch_place *at = l->v ? &l->v[index] : NULL;
	CLEANUP(jread) struct jread *line = NULL;

	*ret = NULL;
	if (!at)
		return repeated(l, holds, index, ret, e);
	if (batch_line_read(l->text + at->at, at->size, &line, e) < 0)
		return -e->code;
	return batch_line_request(line, holds, ret, e);
}
