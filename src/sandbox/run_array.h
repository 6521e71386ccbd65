/* SPDX-License-Identifier: Apache-2.0 */
/* sandbox/run_array.h - many runs that an engine takes by one submission and that go on without
 * this process; see struct array_ops of backend/backend.h. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "brig.h"
#include "model/settings/spec.h"

struct run_array;

/* For runs with these settings; *ret stays NULL where their backend has none. */
int run_array_open(const struct spec *s, const char *name, struct run_array **ret, struct err *e);
/* EXDEV: it cannot be had here, and each run is to be started by itself. */
int run_array_begin(struct run_array *a, uint64_t first, uint64_t *most, struct err *e);
/* A run that cannot be put down is none of the array; it is refused when it is started. */
int run_array_put(struct run_array *a, const brig_request *q, uint64_t line, struct err *e);
int run_array_submit(struct run_array *a, uint64_t lines, unsigned jobs, struct err *e);
uint64_t run_array_end(const struct run_array *a);
/* Where it is, for its request's spec; the path is borrowed until the next wave. */
bool run_array_find(const struct run_array *a, uint64_t line, struct slurm_spec *ret);
void run_array_cancel(struct run_array *a); /* ends all that was submitted; NULL: nothing */
void run_array_close(struct run_array *a);  /* removes what is left of it */
