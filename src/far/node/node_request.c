/* SPDX-License-Identifier: Apache-2.0 */
#include "far/node/node_request.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/bytes/jread.h"
#include "base/text/num.h"
#include "base/text/str.h"
#include "model/files/config.h"
#include "model/known/gpus.h"
#include "model/request/code.h"
#include "far/far_place.h"
#include "sandbox/manager.h"

#define WORDS_MAX 65536
#define MIB ((uint64_t)1 << 20)

void node_ask_init(struct node_ask *a)
{
	*a = (struct node_ask){ .settings = BUF_INIT(node_max(NODE_SETTINGS) + 1),
				.words = BUF_INIT(node_max(NODE_WORDS) + 1),
				.variables = BUF_INIT(node_max(NODE_VARIABLES) + 1),
				.code = BUF_INIT(node_max(NODE_CODE) + 1) };
}

void node_ask_done(struct node_ask *a)
{
	buf_done(&a->settings);
	buf_done(&a->words);
	buf_done(&a->variables);
	buf_done(&a->code);
}

void node_ask_take(struct node_ask *a, const struct node_frame *f)
{
	struct buf *to = f->kind == NODE_SETTINGS    ? &a->settings
			 : f->kind == NODE_WORDS     ? &a->words
			 : f->kind == NODE_VARIABLES ? &a->variables
						     : &a->code;

	to->len = 0;
	if (f->size)
		buf_add(to, f->data, f->size);
	a->has_code |= f->kind == NODE_CODE;
}

void node_name(char *out, size_t room)
{
	const char *name = getenv("SLURMD_NODENAME");

	if (name && *name)
		(void)snprintf(out, room, "%s", name);
	else if (gethostname(out, room) < 0)
		(void)snprintf(out, room, "unknown");
	out[room - 1] = '\0';
	out[strcspn(out, " \t\n")] = '\0';
}

/* Texts with a NUL each, as a list; free() it. */
static const char **node_request_list(const struct buf *b, size_t *count)
{
	const char **v = NULL;
	size_t n = 0;

	if (b->len && b->data[b->len - 1])
		return NULL;
	for (size_t i = 0; i < b->len; i++)
		n += !b->data[i];
	if (n <= WORDS_MAX)
		v = calloc(n + 1, sizeof(*v));
	n = 0;
	for (size_t i = 0; v && i < b->len; i += strlen(b->data + i) + 1)
		v[n++] = b->data + i;
	*count = n;
	return v;
}

/* The user's own folders are where they are on the other machine: Slurm gives a task no variables.
 */
static void settle_home(const struct jread *v)
{
	static const char *const names[][2] = { { "HOME", "home" }, { "XDG_STATE_HOME", "state" } };

	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		const char *path = jread_str(v, names[i][1]);

		if (path && path[0] == '/' && !getenv(names[i][0]))
			(void)setenv(names[i][0], path, 0); /* allow setenv: the process is ours */
	}
}

static int check_version(const struct jread *v, struct err *e)
{
	const char *version = jread_str(v, "version");

	if (version && str_eq(version, BRIG_VERSION) &&
	    jread_int(v, "protocol", 0) == NODE_PROTOCOL)
		return 0;
	return err_refuse(e, ERR_UNAVAILABLE, EPROTO, "install the same version on both",
			  "it has brig %s, the run was asked for by brig %.20s", BRIG_VERSION,
			  version ? version : "?");
}

static int check_paths(const struct jread *v, struct err *e)
{
	const struct jread *paths = jread_get(v, "paths");
	const char *boot = jread_str(v, "boot");
	char own[FAR_BOOT_SIZE];

	far_boot(own);
	for (size_t i = 0; i < jread_count(paths); i++) {
		const struct jread *p = jread_at(paths, i);
		const char *path = jread_str(p, "path"), *what = jread_str(p, "what");
		const struct far_place there = { .dev = (uint64_t)jread_int(p, "dev", 0),
						 .ino = (uint64_t)jread_int(p, "ino", 0),
						 .type = (uint64_t)jread_int(p, "type", 0) };
		struct far_place here;

		if (path && far_place_look(path, &here) == 0 &&
		    far_place_same(&there, &here, boot && own[0] && str_eq(boot, own)))
			continue;
		return err_refuse(e, ERR_UNAVAILABLE, EXDEV,
				  "put it on a file system that the nodes share",
				  "%.40s '%.200s' is not on a file system that this node shares",
				  what ? what : "a path", path ? path : "?");
	}
	return 0;
}

static uint64_t node_request_variable(const char *name)
{
	const char *text = getenv(name);
	uint64_t v;

	return text && num_count(text, &v) == 0 ? v : 0;
}

/* Slurm may have given less than was asked for, or a default of its own: the stricter holds. */
static void narrow(const struct jread *v, struct spec *s)
{
	int64_t timeout = jread_int(v, "most_timeout", 0), memory = jread_int(v, "most_memory", 0);
	uint64_t mib = node_request_variable("SLURM_MEM_PER_NODE"),
		 cpus = node_request_variable("SLURM_CPUS_PER_TASK");

	if (!mib)
		mib = node_request_variable("SLURM_MEM_PER_CPU") * (cpus ? cpus : 1);
	if (mib > 2 * (uint64_t)NODE_MARGIN_MIB)
		mib -= NODE_MARGIN_MIB;
	if (memory > 0 && (!mib || (uint64_t)memory / MIB < mib))
		mib = (uint64_t)memory / MIB;
	if (timeout > 0 && (!s->command.timeout || (uint64_t)timeout < s->command.timeout)) {
		s->command.timeout = (uint64_t)timeout;
		s->origin[FIELD_TIMEOUT] = ORIGIN_API;
	}
	if (mib && (!s->limits.memory || mib * MIB < s->limits.memory)) {
		s->limits.memory = mib * MIB;
		s->origin[FIELD_MEMORY] = ORIGIN_API;
	}
	if (cpus && (!s->limits.cpus || cpus * 1000 < s->limits.cpus)) {
		s->limits.cpus = cpus * 1000;
		s->origin[FIELD_CPUS] = ORIGIN_API;
	}
}

static const char *own_variable(const char *name)
{
	return getenv(name);
}

/* ... and of GPUs. What the job has is looked at once more by who shows them, and where it has none
 * the run is refused there. */
static void narrow_gpus(const struct jread *v, struct spec *s)
{
	int64_t most = jread_int(v, "most_gpus", 0);
	struct gpu_set has = { 0 };
	size_t n;

	if (most > 0 && (uint64_t)most < s->gpus)
		s->gpus = (uint64_t)most;
	if (gpu_allocation(own_variable, &has.nvidia, &has.render) != 1)
		return;
	n = gpu_set_count(&has);
	if (n && n < s->gpus)
		s->gpus = n;
}

static int read_settings(const struct jread *v, struct spec *s, struct err *e)
{
	CLEANUP(mem)
	char *text = jread_get(v, "settings") ? jread_dump(jread_get(v, "settings")) : NULL;

	if (!text)
		return err_set(e, ERR_INTERNAL, EPROTO, "no settings were sent");
	if (config_read_sent(s, text, strlen(text), e) < 0)
		return -e->code;
	return spec_set_key(s, "backend", "native", ORIGIN_FLAG, e);
}

static int node_request_add_variables(const struct node_ask *a, struct spec *s, struct err *e)
{
	size_t n = 0;
	const char **v = node_request_list(&a->variables, &n);
	int r = v ? 0 : err_set(e, ERR_INTERNAL, EPROTO, "the variables cannot be read");

	for (size_t i = 0; v && r == 0 && i < n; i++)
		r = spec_set(s, FIELD_ENV, v[i], ORIGIN_FLAG, e);
	free(v);
	return r;
}

static int add_code(const struct node_ask *a, brig_request *q, const char *const *words, size_t n,
		    struct err *e)
{
	struct spec *s = request_spec(q);

	if (n < 2)
		return err_set(e, ERR_INTERNAL, EPROTO, "code without an interpreter");
	if (spec_set(s, FIELD_INTERPRETER, words[0], ORIGIN_FLAG, e) < 0 ||
	    spec_set(s, FIELD_CODE_PATH, words[1], ORIGIN_FLAG, e) < 0 ||
	    request_code(q, CODE_PYTHON, a->code.data, a->code.len, NULL, e) < 0)
		return -e->code;
	for (size_t i = 2; i < n; i++)
		if (code_add_arg(s, words[i], e) < 0)
			return -e->code;
	return 0;
}

static int add_command(const struct node_ask *a, brig_request *q, struct err *e)
{
	size_t n = 0;
	const char **v = node_request_list(&a->words, &n);
	int r = v && n ? 0 : err_set(e, ERR_INTERNAL, EPROTO, "no command was sent");

	if (r == 0 && a->has_code)
		r = add_code(a, q, v, n, e);
	else if (r == 0)
		r = spec_set_argv(request_spec(q), (int)n, (char *const *)(uintptr_t)v, e);
	free(v);
	return r;
}

static void add_rest(struct node_ask *a, const struct jread *v, brig_request *q)
{
	struct spec *s = request_spec(q);

	a->tty = jread_bool(v, "tty");
	a->input = jread_bool(v, "input");
	a->output = jread_int(v, "output", 0) > 0 ? (uint64_t)jread_int(v, "output", 0) : 0;
	if (!a->tty)
		return;
	s->command.tty = true;
	request_terminal(q, (unsigned short)jread_int(v, "rows", 0),
			 (unsigned short)jread_int(v, "cols", 0));
}

int node_request(struct node_ask *a, brig_request **ret, struct err *e)
{
	CLEANUP(jread) struct jread *v = NULL;
	brig_manager *m = brig_manager_new();
	brig_request *q = m ? brig_request_new(m) : NULL;
	int r = q ? 0 : err_nomem(e);

	brig_manager_free(m);
	if (r == 0)
		r = jread_parse(a->settings.data, a->settings.len, &v, e);
	if (r == 0)
		r = check_version(v, e);
	if (r == 0) {
		settle_home(v);
		add_rest(a, v, q);
		r = check_paths(v, e);
	}
	if (r == 0)
		r = read_settings(v, request_spec(q), e);
	if (r == 0) {
		narrow(v, request_spec(q));
		narrow_gpus(v, request_spec(q));
	}
	if (r == 0)
		r = node_request_add_variables(a, request_spec(q), e);
	if (r == 0)
		r = add_command(a, q, e);
	*ret = q;
	return r;
}
