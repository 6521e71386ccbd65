/* SPDX-License-Identifier: Apache-2.0 */
/* model/dialect/rlm.c - RLM Code's `sandbox:` block.
 *
 * Other top-level keys of the file are RLM Code's own business. Below `sandbox` every key is known:
 * what brig acts on, what has no meaning here (checked, then told), and what would switch the
 * sandbox off behind the user's back (refused by name). brig never falls back to another runtime,
 * so nothing here can end on the host but `runtime: local`, which needs the second opt-in. */
#include <stdio.h>
#include <string.h>

#include "base/text/buf.h"
#include "base/text/num.h"
#include "base/text/str.h"
#include "model/dialect/dialect.h"
#include "model/dialect/extra_args.h"
#include "model/dialect/foreign.h"

#define SECONDS_MAX ((uint64_t)52 * 7 * 24 * 3600)
#define MB_MAX ((uint64_t)64 << 20)

static const char *const runtimes[] = { "local", "monty", "docker",  "apple-container",
					"modal", "e2b",   "daytona", NULL };
static const char *const profiles[] = { "secure", "dev", "custom", NULL };
static const char *const pure_backends[] = { "docker", "monty", "exec", NULL };
static const char *const output_modes[] = { "truncate", "summarize", "metadata", NULL };

static const char *const block_keys[] = { "image",           "memory_limit_mb", "cpus",
					  "network_enabled", "extra_args",      NULL };

const char *const rlm_keys[] = {
	"runtime",
	"default_timeout_seconds",
	"memory_limit_mb",
	"allowed_mount_roots",
	"env_allowlist",
	"superbox_profile",
	"superbox_auto_fallback",
	"superbox_fallback_runtimes",
	"docker",
	"apple",
	"apple_container_enabled",
	"pure_rlm_backend",
	"pure_rlm_allow_unsafe_exec",
	"pure_rlm_strict",
	"pure_rlm_output_mode",
	"pure_rlm_max_iteration_output_chars",
	"monty_type_check",
	"monty_max_allocations",
	"monty_max_memory",
	NULL,
};

static const struct dialect_default defaults[] = {
	{ FIELD_POLICY, "workspace_write" },
	{ FIELD_BACKEND, "docker" },
	{ FIELD_NETWORK, "none" },
	{ FIELD_TARGET, "/workspace" },
	{ FIELD_TIMEOUT, "30s" },
	{ FIELD_MEMORY, "512m" },
	{ FIELD_CPUS, "1" },
	{ FIELD_PIDS, "256" },
	{ FIELD_OUTPUT, "64k" },
	{ FIELD_USER, "auto" },
	{ FIELD_READ_ONLY_ROOT, "false" },
	{ FIELD_DOCKER_IMAGE, "python:3.11-slim" },
};

static int set_defaults(struct spec *s, const struct source *src, struct err *e)
{
	if (read_defaults(s, defaults, ARRAY_LEN(defaults), e) < 0)
		return -e->code;
	if (s->origin[FIELD_MOUNT_ROOTS] != ORIGIN_DEFAULT)
		return 0;
	if (read_default(s, FIELD_MOUNT_ROOTS, src->folder, e) < 0)
		return -e->code;
	return read_default(s, FIELD_MOUNT_ROOTS, "/tmp", e);
}

/* The member of that name, unless it is absent or null: both mean the default. */
static const struct node *rlm_written(const struct node *map, const char *key)
{
	const struct node *n = node_get(map, key);

	return n && n->kind != NODE_NULL ? n : NULL;
}

static int read_runtime(struct spec *s, const struct source *src, const struct node *sandbox,
			struct err *e)
{
	const struct node *n = rlm_written(sandbox, "runtime");
	const char *word;

	if (!n)
		return 0;
	if (foreign_word(src, n, runtimes, &word, e) < 0)
		return -e->code;
	if (str_eq(word, "local"))
		return foreign_set(s, src, FIELD_BACKEND, n, "none", e);
	if (str_eq(word, "docker"))
		return foreign_set(s, src, FIELD_BACKEND, n, "docker", e);
	(void)node_error(src->name, n, e, "runtime '%s' is not one that brig has", word);
	e->kind = ERR_UNAVAILABLE;
	return err_hint(e, "use runtime: docker");
}

/* A whole number of some unit, given to the field with the unit behind it. */
static int read_unit(struct spec *s, const struct source *src, enum field_id id,
		     const struct node *n, uint64_t max, const char *what, const char *unit,
		     struct err *e)
{
	char text[32];
	uint64_t v;

	if (!n)
		return 0;
	if (foreign_whole(src, n, 1, max, what, &v, e) < 0)
		return -e->code;
	(void)snprintf(text, sizeof(text), "%llu%s", (unsigned long long)v, unit);
	return foreign_set(s, src, id, n, text, e);
}

static int read_memory(struct spec *s, const struct source *src, const struct node *n,
		       struct err *e)
{
	return read_unit(s, src, FIELD_MEMORY, n, MB_MAX, "megabytes", "m", e);
}

/* An empty list would mean "anywhere" to the rest of brig, and nowhere to its writer. */
static int read_roots(struct spec *s, const struct source *src, const struct node *sandbox,
		      struct err *e)
{
	const struct node *n = rlm_written(sandbox, "allowed_mount_roots");
	const char *path;

	if (!n)
		return 0;
	if (n->kind == NODE_LIST && !n->count) {
		(void)node_error(src->name, n, e, "allowed_mount_roots permits nothing");
		return err_hint(e, "leave it out for the file's folder and /tmp");
	}
	for (const struct node *c = n->kind == NODE_LIST ? n->first : NULL; c; c = c->next) {
		if (read_path(s, src, c, &path, e) < 0)
			return -e->code;
		if (str_eq(path, "/")) {
			(void)node_error(src->name, c, e,
					 "allowed_mount_roots: '/' permits everything");
			e->kind = ERR_POLICY;
			return err_hint(e, "name the folders that are meant");
		}
	}
	return read_list(s, src, FIELD_MOUNT_ROOTS, n, e);
}

/* The documented text stands alone; where it was written goes into the hint. */
static int check_args(struct spec *s, const struct source *src, const struct node *n, struct err *e)
{
	struct strlist args = { 0 };
	char hint[sizeof(e->hint)];

	if (foreign_strings(s, src, n, &args, e) < 0)
		return -e->code;
	if (extra_args_check(&args, EXTRA_ARGS_RLM, NULL, NULL, e) == 0)
		return 0;
	memcpy(hint, e->hint, sizeof(hint));
	return err_hint(e, "%.60s:%d:%d: %.170s", src->name, n->line, n->column, hint);
}

/* Types and bounds of `docker` or `apple`, whichever of them will be used. */
static int check_block(struct spec *s, const struct source *src, const struct node *b,
		       struct err *e)
{
	const struct node *memory = rlm_written(b, "memory_limit_mb"),
			  *cpus = rlm_written(b, "cpus"), *image = rlm_written(b, "image"),
			  *net = rlm_written(b, "network_enabled"),
			  *args = rlm_written(b, "extra_args");
	uint64_t v;
	bool flag;

	if (read_only_keys(src, b, block_keys, b->key, e) < 0)
		return -e->code;
	if (image && foreign_image(src, image, e) < 0)
		return -e->code;
	if (memory && foreign_whole(src, memory, 1, MB_MAX, "megabytes", &v, e) < 0)
		return -e->code;
	if (cpus && (cpus->kind != NODE_SCALAR || num_milli(cpus->text, &v) < 0 || !v)) {
		(void)node_error(src->name, cpus, e, "cpus: not a number above zero");
		return err_hint(e, "null means no quota");
	}
	if (net && node_bool(src->name, net, &flag, e) < 0)
		return -e->code;
	return args ? check_args(s, src, args, e) : 0;
}

static int read_cpus(struct spec *s, const struct source *src, const struct node *block,
		     struct err *e)
{
	const struct node *n = node_get(block, "cpus");

	if (!n)
		return 0;
	if (n->kind != NODE_NULL)
		return read_scalar(s, src, FIELD_CPUS, n, e);
	foreign_unlimited(s, FIELD_CPUS, src->origin);
	return read_where(s, src, FIELD_CPUS, n, e);
}

static int read_network(struct spec *s, const struct source *src, const struct node *n,
			struct err *e)
{
	bool on;

	if (node_bool(src->name, n, &on, e) < 0)
		return -e->code;
	return foreign_set(s, src, FIELD_NETWORK, n, on ? "bridge" : "none", e);
}

static int read_docker(struct spec *s, const struct source *src, const struct node *b,
		       struct err *e)
{
	const struct node *image = rlm_written(b, "image"),
			  *net = rlm_written(b, "network_enabled"),
			  *args = node_get(b, "extra_args");

	if (check_block(s, src, b, e) < 0)
		return -e->code;
	if (image && read_scalar(s, src, FIELD_DOCKER_IMAGE, image, e) < 0)
		return -e->code;
	if (args && read_list(s, src, FIELD_DOCKER_EXTRA_ARGS, args, e) < 0)
		return -e->code;
	if (s->backend == BACKEND_NONE) /* the block is docker's, and docker was not chosen */
		return 0;
	if (read_memory(s, src, rlm_written(b, "memory_limit_mb"), e) < 0 ||
	    read_cpus(s, src, b, e) < 0)
		return -e->code;
	return net ? read_network(s, src, net, e) : 0;
}

/* Keys that have no meaning here. */
static const struct {
	const char *key;
	const char *const *words; /* NULL: `number` decides */
	bool number;              /* else true or false */
} idle[] = {
	{ "superbox_profile", profiles, false },
	{ "superbox_auto_fallback", NULL, false },
	{ "apple_container_enabled", NULL, false },
	{ "pure_rlm_strict", NULL, false },
	{ "pure_rlm_output_mode", output_modes, false },
	{ "pure_rlm_max_iteration_output_chars", NULL, true },
	{ "monty_type_check", NULL, false },
	{ "monty_max_allocations", NULL, true },
	{ "monty_max_memory", NULL, true },
};

static int read_idle(struct spec *s, const struct source *src, const struct node *sandbox,
		     struct err *e)
{
	CLEANUP(buf) struct buf list = BUF_INIT(1024);

	for (size_t i = 0; i < ARRAY_LEN(idle); i++) {
		const struct node *n = rlm_written(sandbox, idle[i].key);
		const char *word;
		uint64_t v;
		bool flag;
		int r;

		if (!n)
			continue;
		r = idle[i].words    ? foreign_word(src, n, idle[i].words, &word, e)
		    : idle[i].number ? foreign_whole(src, n, 1, INT64_MAX, "units", &v, e)
				     : node_bool(src->name, n, &flag, e);
		if (r < 0)
			return r;
		buf_printf(&list, "%s%s", list.len ? ", " : "", idle[i].key);
	}
	if (list.failed)
		return err_nomem(e);
	return list.len ? foreign_note(s, e,
				       "%s: no effect in brig, which never falls back to "
				       "another runtime: %s",
				       src->name, buf_str(&list))
			: 0;
}

static int rlm_refuse(const struct source *src, const struct node *n, struct err *e,
		      const char *what, const char *hint)
{
	(void)err_set(e, ERR_POLICY, EPERM, "%.128s:%d:%d: %s", src->name, n->line, n->column,
		      what);
	return err_hint(e, "%s", hint);
}

/* What would end on the host without a word. */
static int refuse_unsafe(const struct source *src, const struct node *sandbox, struct err *e)
{
	const struct node *n = rlm_written(sandbox, "superbox_fallback_runtimes");
	const char *word;
	bool on = false;

	if (n && n->kind != NODE_LIST)
		return node_error(src->name, n, e, "%s: expected a list, not %s", n->key,
				  node_kind_name(n->kind));
	for (const struct node *c = n ? n->first : NULL; c; c = c->next) {
		if (foreign_word(src, c, runtimes, &word, e) < 0)
			return err_wrap(e, "superbox_fallback_runtimes");
		if (str_eq(word, "local"))
			return rlm_refuse(src, c, e,
					  "superbox_fallback_runtimes: local is the host itself",
					  "take local out of the list");
	}
	n = rlm_written(sandbox, "superbox_profile");
	if (n && foreign_word(src, n, profiles, &word, e) < 0)
		return -e->code;
	if (n && str_eq(word, "dev"))
		return rlm_refuse(src, n, e, "superbox_profile: dev falls back to the host",
				  "use secure or custom");
	n = rlm_written(sandbox, "pure_rlm_allow_unsafe_exec");
	if (n && node_bool(src->name, n, &on, e) < 0)
		return -e->code;
	return on ? rlm_refuse(src, n, e, "pure_rlm_allow_unsafe_exec: this runs code on the host",
			       "set it to false; a host run is runtime: local, with the opt-in")
		  : 0;
}

static int check_pure(const struct source *src, const struct node *sandbox, struct err *e)
{
	const struct node *n = rlm_written(sandbox, "pure_rlm_backend");
	const char *word;

	if (!n)
		return 0;
	if (foreign_word(src, n, pure_backends, &word, e) < 0)
		return -e->code;
	if (str_eq(word, "exec"))
		return rlm_refuse(src, n, e, "pure_rlm_backend: exec runs code on the host",
				  "use pure_rlm_backend: docker");
	if (str_eq(word, "monty")) {
		(void)node_error(src->name, n, e,
				 "pure_rlm_backend 'monty' is not one that brig has");
		e->kind = ERR_UNAVAILABLE;
		return err_hint(e, "use pure_rlm_backend: docker");
	}
	return 0;
}

/* Keys of the docker block written one level too high would otherwise only be "unknown". */
static int check_keys(const struct source *src, const struct node *sandbox, struct err *e)
{
	for (const struct node *n = sandbox->kind == NODE_MAP ? sandbox->first : NULL; n;
	     n = n->next)
		for (const char *const *k = block_keys; *k; k++)
			if (str_eq(n->key, *k) && !str_eq(n->key, "memory_limit_mb")) {
				(void)node_key_error(src->name, n, e,
						     "'%s' does not belong in sandbox", n->key);
				return err_hint(e, "write it below sandbox.docker");
			}
	return read_only_keys(src, sandbox, rlm_keys, "sandbox", e);
}

static int read_sandbox(struct spec *s, const struct source *src, const struct node *b,
			struct err *e)
{
	const struct node *docker = rlm_written(b, "docker"), *apple = rlm_written(b, "apple"),
			  *names = node_get(b, "env_allowlist");

	if (check_keys(src, b, e) < 0 || refuse_unsafe(src, b, e) < 0 || check_pure(src, b, e) < 0)
		return -e->code;
	if (read_runtime(s, src, b, e) < 0 ||
	    read_unit(s, src, FIELD_TIMEOUT, rlm_written(b, "default_timeout_seconds"), SECONDS_MAX,
		      "seconds", "s", e) < 0 ||
	    read_memory(s, src, rlm_written(b, "memory_limit_mb"), e) < 0 ||
	    read_roots(s, src, b, e) < 0)
		return -e->code;
	if (names && read_list(s, src, FIELD_ENV_PASS, names, e) < 0)
		return -e->code;
	if (apple && check_block(s, src, apple, e) < 0)
		return -e->code;
	if (docker && read_docker(s, src, docker, e) < 0)
		return -e->code;
	if (apple && foreign_note(s, e, "%s: sandbox.apple has no effect in brig", src->name) < 0)
		return -e->code;
	return read_idle(s, src, b, e);
}

int rlm_read(struct spec *s, const struct source *src, const struct node *root, struct err *e)
{
	const struct node *sandbox = node_get(root, "sandbox");

	if (!sandbox) {
		(void)node_error(src->name, root, e, "no 'sandbox' in this file");
		return err_hint(e, "RLM Code's settings belong below a top-level sandbox:");
	}
	if (set_defaults(s, src, e) < 0)
		return -e->code;
	return read_sandbox(s, src, sandbox, e);
}
