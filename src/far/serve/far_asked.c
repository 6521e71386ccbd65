/* SPDX-License-Identifier: Apache-2.0 */
#include "far/serve/far_asked.h"

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

static struct buf *text_of(struct far_asked *a, enum frames_kind kind)
{
	switch (kind) {
	case FRAMES_SETTINGS:
		return &a->settings;
	case FRAMES_OPTIONS:
		return &a->options;
	case FRAMES_WORDS:
		return &a->words;
	case FRAMES_VARIABLES:
		return &a->variables;
	case FRAMES_CODE:
		return &a->code;
	default:
		return NULL;
	}
}

void far_asked_init(struct far_asked *a)
{
	*a = (struct far_asked){ 0 };
	for (int kind = FRAMES_SETTINGS; kind <= FRAMES_CODE; kind++)
		*text_of(a, (enum frames_kind)kind) =
			(struct buf)BUF_INIT((size_t)FAR_TEXT_MAX + 1);
}

void far_asked_done(struct far_asked *a)
{
	for (int kind = FRAMES_SETTINGS; kind <= FRAMES_CODE; kind++)
		buf_done(text_of(a, (enum frames_kind)kind));
}

/* The same may come twice, by a file and by the line: the second is passed over. */
bool far_asked_take(struct far_asked *a, const struct frames_head *h, const void *payload)
{
	struct buf *to = text_of(a, (enum frames_kind)h->kind);

	if (!to || a->complete)
		return to != NULL;
	if (h->size)
		buf_add(to, payload, h->size);
	a->has_options |= h->kind == FRAMES_OPTIONS;
	a->has_words |= h->kind == FRAMES_WORDS;
	a->has_code |= h->kind == FRAMES_CODE;
	return true;
}

void far_asked_name(char *out, size_t room)
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
static const char **far_asked_list(const struct buf *b, size_t *count)
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

/* The same version, but for the last number: those say the same words in frames. */
static int far_asked_version(const struct jread *v, struct err *e)
{
	const char *version = jread_str(v, "version"), *dot = strrchr(BRIG_VERSION, '.');
	size_t n = dot ? (size_t)(dot - BRIG_VERSION) + 1 : sizeof(BRIG_VERSION);

	if (version && strncmp(version, BRIG_VERSION, n) == 0 &&
	    jread_int(v, "protocol", 0) == FAR_PROTOCOL)
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

static uint64_t slurm_variable(const char *name)
{
	const char *text = getenv(name);
	uint64_t v;

	return text && num_count(text, &v) == 0 ? v : 0;
}

/* Slurm may have given less than was asked for, or a default of its own: the stricter holds. */
static void narrow(const struct jread *v, struct spec *s)
{
	int64_t timeout = jread_int(v, "most_timeout", 0), memory = jread_int(v, "most_memory", 0);
	uint64_t mib = slurm_variable("SLURM_MEM_PER_NODE"),
		 cpus = slurm_variable("SLURM_CPUS_PER_TASK");

	if (!mib)
		mib = slurm_variable("SLURM_MEM_PER_CPU") * (cpus ? cpus : 1);
	if (mib > 2 * (uint64_t)FAR_MARGIN_MIB)
		mib -= FAR_MARGIN_MIB;
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

static int set_option(struct spec *s, const char *text, struct err *e)
{
	CLEANUP(mem) char *key = strdup(text);
	char *equals = key ? strchr(key, '=') : NULL;

	if (!equals)
		return err_set(e, ERR_INTERNAL, EPROTO, "an option cannot be read");
	*equals = '\0';
	return spec_set_key(s, key, equals + 1, ORIGIN_FLAG, e);
}

static int read_options(const struct far_asked *a, struct spec *s, struct err *e)
{
	size_t n = 0;
	const char **v = far_asked_list(&a->options, &n);
	int r = 0;

	if (!v)
		return err_set(e, ERR_INTERNAL, EPROTO, "the options cannot be read");
	for (size_t i = 0; r == 0 && i < n; i++)
		r = set_option(s, v[i], e);
	free(v);
	return r;
}

static int read_settings(const struct far_asked *a, const struct jread *v, struct spec *s,
			 struct err *e)
{
	CLEANUP(mem)
	char *text = jread_get(v, "settings") ? jread_dump(jread_get(v, "settings")) : NULL;

	if (!text && !a->has_options)
		return err_set(e, ERR_INTERNAL, EPROTO, "no settings were sent");
	if (text ? config_read_sent(s, text, strlen(text), e) < 0 : read_options(a, s, e) < 0)
		return -e->code;
	return spec_set_key(s, "backend", "native", ORIGIN_FLAG, e);
}

static int add_variables(const struct far_asked *a, struct spec *s, struct err *e)
{
	size_t n = 0;
	const char **v = far_asked_list(&a->variables, &n);
	int r = v ? 0 : err_set(e, ERR_INTERNAL, EPROTO, "the variables cannot be read");

	for (size_t i = 0; v && r == 0 && i < n; i++)
		r = spec_set(s, FIELD_ENV, v[i], ORIGIN_FLAG, e);
	free(v);
	return r;
}

static int add_code(const struct far_asked *a, brig_request *q, const char *const *words, size_t n,
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

static int add_command(const struct far_asked *a, brig_request *q, struct err *e)
{
	size_t n = 0;
	const char **v = far_asked_list(&a->words, &n);
	int r = v && n ? 0 : err_set(e, ERR_INTERNAL, EPROTO, "no command was sent");

	if (r == 0 && a->has_code)
		r = add_code(a, q, v, n, e);
	else if (r == 0)
		r = spec_set_argv(request_spec(q), (int)n, (char *const *)(uintptr_t)v, e);
	free(v);
	return r;
}

static void add_rest(struct far_asked *a, const struct jread *v, brig_request *q)
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

static int fill(struct far_asked *a, const struct jread *v, far_asked_load_fn *load,
		brig_request *q, struct err *e)
{
	struct spec *s = request_spec(q);

	if (far_asked_version(v, e) < 0)
		return -e->code;
	settle_home(v);
	add_rest(a, v, q);
	if (check_paths(v, e) < 0 || read_settings(a, v, s, e) < 0)
		return -e->code;
	if (!a->has_options) {
		narrow(v, s);
		narrow_gpus(v, s);
	}
	if (add_variables(a, s, e) < 0 || (a->has_options && load && load(s, e) < 0))
		return -e->code;
	return a->has_words ? add_command(a, q, e) : 0;
}

int far_asked_request(struct far_asked *a, far_asked_load_fn *load, brig_request **ret,
		      struct err *e)
{
	CLEANUP(jread) struct jread *v = NULL;
	brig_manager *m = brig_manager_new();
	brig_request *q = m ? brig_request_new(m) : NULL;

	brig_manager_free(m);
	*ret = q;
	if (!q)
		return err_nomem(e);
	if (a->settings.failed || a->options.failed || a->words.failed || a->variables.failed ||
	    a->code.failed)
		return err_set(e, ERR_USAGE, E2BIG, "the request is too long");
	if (jread_parse(a->settings.data, a->settings.len, &v, e) < 0)
		return -e->code;
	return fill(a, v, load, q, e);
}
