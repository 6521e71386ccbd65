/* SPDX-License-Identifier: Apache-2.0 */
/* unit/dialectcheck.h - reads a file in a foreign dialect and compares what it resolved to.
 *
 * tests/golden/DIALECT/NAME.yaml (or .env) is a documented example; NAME.expect beside it holds
 * lines "key = value" with dotted keys of the field table, and "note = text" for what a note must
 * contain. */
#pragma once

#include <dirent.h>

#include "unit.h"

#include "base/bytes/yaml.h"
#include "base/text/buf.h"
#include "base/text/num.h"
#include "base/text/str.h"
#include "model/dialect/dialect.h"
#include "model/settings/spec.h"

typedef int reader_fn(struct spec *s, const struct source *src, const struct node *root,
		      struct err *e);

static const struct source here UNUSED = { .name = "f",
					   .folder = "/project",
					   .home = "/home/me",
					   .origin = ORIGIN_FILE,
					   .trusted = true };

/* Reads YAML text with the reader; 0 or -errno as the reader says, *ret is the caller's. */
static inline int read_yaml(reader_fn *reader, const char *text, size_t n, struct spec **ret,
			    struct err *e)
{
	struct node *root;

	err_clear(e);
	*ret = spec_new(e);
	assert_non_null(*ret);
	if (yaml_parse((*ret)->arena, "f", text, n, &root, e) < 0)
		return -e->code;
	return reader(*ret, &here, root, e);
}

static inline int read_env(const char *text, size_t n, const struct source *src, struct spec **ret,
			   struct err *e)
{
	struct env_line *lines = NULL;
	size_t count = 0;

	err_clear(e);
	*ret = spec_new(e);
	assert_non_null(*ret);
	if (env_file_parse((*ret)->arena, src, text, n, &lines, &count, e) < 0)
		return -e->code;
	return ironclaw_read(*ret, src, lines, count, e);
}

static inline void join(struct buf *b, const struct strlist *l)
{
	for (size_t i = 0; i < l->n; i++)
		buf_printf(b, "%s%s", i ? ", " : "", l->v[i]);
}

static inline void join_pairs(struct buf *b, const struct envlist *l)
{
	for (size_t i = 0; i < l->n; i++)
		buf_printf(b, "%s%s=%s", i ? ", " : "", l->v[i].name, l->v[i].value);
}

static inline void show_lists(const struct spec *s, enum field_id id, struct buf *b)
{
	const void *at = (const char *)s + fields[id].offset;

	switch (fields[id].type) {
	case FIELD_T_MOUNTS:
		for (size_t i = 0; i < s->mounts.n; i++)
			buf_printf(b, "%s%s:%s%s", i ? ", " : "", s->mounts.v[i].source,
				   s->mounts.v[i].target, s->mounts.v[i].writable ? ":rw" : "");
		break;
	case FIELD_T_ENV:
	case FIELD_T_LABELS:
		join_pairs(b, at);
		break;
	case FIELD_T_PORTS:
		for (size_t i = 0; i < s->ports.n; i++)
			buf_printf(b, "%s%u:%u/%s", i ? ", " : "", s->ports.v[i].host,
				   s->ports.v[i].container, s->ports.v[i].protocol);
		break;
	case FIELD_T_COPIES:
		for (size_t i = 0; i < s->copies.n; i++) {
			buf_printf(b, "%s%s:%s without ", i ? "; " : "", s->copies.v[i].source,
				   s->copies.v[i].target);
			join(b, &s->copies.v[i].exclude);
		}
		break;
	default:
		join(b, at);
	}
}

static inline void show_companions(const struct spec *s, struct buf *b)
{
	for (size_t i = 0; i < s->companions.n; i++) {
		const struct companion_spec *c = &s->companions.v[i];

		buf_printf(b, "%s%s: %s {", i ? "; " : "", c->name, c->image);
		join_pairs(b, &c->env);
		buf_puts(b, "} [");
		join(b, &c->health.test);
		buf_printf(b, "] every %llu for %llu after %llu/%llu, %llu times; then [",
			   (unsigned long long)c->health.interval,
			   (unsigned long long)c->health.timeout,
			   (unsigned long long)c->health.start_period,
			   (unsigned long long)c->health.start_interval,
			   (unsigned long long)c->health.retries);
		join(b, &c->post_start);
		buf_puts(b, "] runs [");
		join(b, &c->command);
		buf_printf(b, "] with %llu/%llu/%llu", (unsigned long long)c->cpus,
			   (unsigned long long)c->memory, (unsigned long long)c->disk);
	}
}

/* A field as text: what spec_set would take, lists joined by commas. */
static inline void show_field(const struct spec *s, enum field_id id, struct buf *b)
{
	const struct field *f = &fields[id];
	const void *at = (const char *)s + f->offset;
	char text[64] = "";

	switch (f->type) {
	case FIELD_T_BOOL:
		buf_puts(b, *(const bool *)at ? "true" : "false");
		return;
	case FIELD_T_WORD:
		buf_puts(b, f->words[*(const int *)at]);
		return;
	case FIELD_T_SIZE:
		num_size_text(*(const uint64_t *)at, text, sizeof(text));
		break;
	case FIELD_T_DURATION:
		num_duration_text(*(const uint64_t *)at, text, sizeof(text));
		break;
	case FIELD_T_COUNT:
		if (f->all && (!*(const uint64_t *)at || *(const uint64_t *)at == FIELD_ALL)) {
			buf_puts(b, *(const uint64_t *)at ? "all" : "none");
			return;
		}
		(void)snprintf(text, sizeof(text), "%llu",
			       (unsigned long long)*(const uint64_t *)at);
		break;
	case FIELD_T_MILLI:
		(void)snprintf(text, sizeof(text), "%g", (double)*(const uint64_t *)at / 1000);
		break;
	case FIELD_T_STRING:
	case FIELD_T_PATH:
		buf_puts(b, *(const char *const *)at ? *(const char *const *)at : "");
		return;
	case FIELD_T_USER:
		if (s->user.given)
			(void)snprintf(text, sizeof(text), "%u:%u", s->user.uid, s->user.gid);
		else
			(void)snprintf(text, sizeof(text), "auto");
		break;
	case FIELD_T_COMPANIONS:
		show_companions(s, b);
		return;
	default:
		show_lists(s, id, b);
		return;
	}
	buf_puts(b, text);
}

static inline bool has_note(const struct spec *s, const char *part)
{
	for (size_t i = 0; i < s->notes.n; i++)
		if (strstr(s->notes.v[i], part))
			return true;
	return false;
}

static inline void expect_line(const struct spec *s, char *line)
{
	char *value = strstr(line, " = ");
	CLEANUP(buf) struct buf b = BUF_INIT(65536);
	enum field_id id;

	if (!value && strlen(line) > 2 && str_eq(line + strlen(line) - 2, " ="))
		value = line + strlen(line) - 2;
	assert_non_null(value);
	*value = '\0';
	value += value[1] && value[2] ? 3 : 2;
	if (str_eq(line, "note")) {
		assert_true(has_note(s, value));
		return;
	}
	if (str_eq(line, "no_workspace")) {
		assert_string_equal(s->no_workspace ? "true" : "false", value);
		return;
	}
	print_message("  %s\n", line);
	assert_non_null(field_by_key(line, &id));
	show_field(s, id, &b);
	assert_string_equal(buf_str(&b), value);
}

/* Compares one example with its .expect file. */
static inline void expect_file(const struct spec *s, const char *folder, const char *stem)
{
	char path[PATH_MAX * 2], text[16384], *rest = text, *line;

	(void)snprintf(path, sizeof(path), "%s/%s.expect", folder, stem);
	(void)read_text_file(path, text, sizeof(text));
	while ((line = strsep(&rest, "\n")))
		if (*line && *line != '#')
			expect_line(s, line);
}

/* One documented example: read with the reader, recognised as its dialect, resolved as expected. */
static inline void expect_example(reader_fn *reader, enum dialect wanted, const char *path,
				  const char *stem, const char *folder)
{
	CLEANUP(spec) struct spec *s = NULL;
	char text[16384];
	size_t n = read_text_file(path, text, sizeof(text));
	struct node *root;
	enum dialect d;
	struct err e;

	if (read_yaml(reader, text, n, &s, &e) < 0)
		fail_msg("%s", e.what);
	expect_file(s, folder, stem);
	assert_int_equal(yaml_parse(s->arena, "f", text, n, &root, &e), 0);
	assert_int_equal(dialect_of_tree(&here, root, &d, &e), 0);
	assert_int_equal(d, wanted);
}

/* Calls fn for every file of the folder that ends in the suffix; returns how many. */
static inline size_t each_example(const char *folder, const char *suffix,
				  void (*fn)(const char *path, const char *stem,
					     const char *folder))
{
	DIR *d = opendir(folder);
	size_t n = 0;

	if (!d)
		fail_msg("%s: %s", folder, strerror(errno));
	for (struct dirent *f; (f = readdir(d));) {
		char path[PATH_MAX * 2], stem[NAME_MAX + 1];
		size_t len = strlen(f->d_name), cut = strlen(suffix);

		if (len <= cut || !str_eq(f->d_name + len - cut, suffix))
			continue;
		print_message("%s\n", f->d_name);
		(void)snprintf(path, sizeof(path), "%s/%s", folder, f->d_name);
		(void)snprintf(stem, sizeof(stem), "%.*s", (int)(len - cut), f->d_name);
		fn(path, stem, folder);
		n++;
	}
	(void)closedir(d);
	return n;
}

/* Changes one to three bytes of the text, reproducibly. */
static inline void mutate(char *text, size_t *n, size_t room, uint64_t *seed)
{
	static const char bytes[] = "abz019.:-_ =\"'[]{}\n,/*&!$\\\t~@%";

	for (unsigned i = 0, times = 1 + (unsigned)(*seed >> 60) % 3; i < times; i++) {
		size_t at;

		*seed = *seed * 6364136223846793005ULL + 1442695040888963407ULL;
		at = (size_t)(*seed >> 33) % *n;
		switch ((*seed >> 20) % 3) {
		case 0:
			text[at] = bytes[(*seed >> 24) % (sizeof(bytes) - 1)];
			break;
		case 1:
			memmove(text + at, text + at + 1, *n - at);
			(*n)--;
			break;
		default:
			if (*n + 2 > room)
				break;
			memmove(text + at + 1, text + at, *n - at + 1);
			text[at] = bytes[(*seed >> 24) % (sizeof(bytes) - 1)];
			(*n)++;
		}
	}
}

/* The later one of the two may not be weaker than the first in anything that has an order. */
static inline void assert_not_weaker(const struct spec *base, const struct spec *s)
{
	assert_true(s->backend != BACKEND_NONE || base->backend == BACKEND_NONE);
	assert_true(s->policy <= base->policy);
	assert_true(s->network <= base->network);
	assert_true(!s->full_access_ok || base->full_access_ok);
	assert_true(s->read_only_root || !base->read_only_root);
	assert_true(s->egress.https_only || !base->egress.https_only);
	assert_true(s->limits.pids <= base->limits.pids);
	assert_true(s->mounts.n <= base->mounts.n);
	assert_true(s->no_workspace || !base->no_workspace);
}
