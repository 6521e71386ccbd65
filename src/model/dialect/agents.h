/* SPDX-License-Identifier: Apache-2.0 */
/* model/dialect/agents.h - pieces of the agents-sandbox reader, between its own files. */
#pragma once

#include "model/dialect/dialect.h"

/* Durations as Go writes them (90s, 1m30s): a bare number is refused, but for 0. Empty text and
 * null leave *ret alone. */
int agents_duration(const struct source *src, const struct node *n, uint64_t *ret, struct err *e);

/* cpu_limit in thousandths, memory_limit and disk_limit in bytes. Empty text and null leave *ret
 * alone. */
int agents_cpus(const struct source *src, const struct node *n, uint64_t *ret, struct err *e);
int agents_size(const struct source *src, const struct node *n, uint64_t *ret, struct err *e);

/* A list of words that is a command line: no empty list, no empty word. */
int agents_command(struct spec *s, const struct source *src, const struct node *n,
		   struct strlist *ret, struct err *e);

/* A map of variables; names that the sandbox sets itself are refused. */
int agents_envs(struct spec *s, const struct source *src, const struct node *map,
		struct envlist *ret, struct err *e);

/* `companion_containers`. */
int agents_companions(struct spec *s, const struct source *src, const struct node *map,
		      struct err *e);

/* `mounts`, `copies` and `builtin_tools`: all that may enter from the host. */
int agents_files(struct spec *s, const struct source *src, const struct node *root, struct err *e);
