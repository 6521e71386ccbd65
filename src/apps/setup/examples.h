/* SPDX-License-Identifier: Apache-2.0 */
/* apps/setup/examples.h - the examples of examples/projects, which the build puts into the program.
 */
#pragma once

#include <stddef.h>

#include "base/text/err.h"

struct example_file {
	const char *name; /* perhaps with a folder in front */
	const char *data;
	size_t size;
	unsigned mode;
};

struct example {
	const char *name, *summary;
	const struct example_file *files; /* the first is its README */
	size_t count;
};

/* By tools/gen-examples, in the order of their names. */
extern const struct example examples[];
extern const size_t example_count;

extern const char worker_dockerfile[]; /* of images/worker */
extern const char rust_dockerfile[];   /* ... IronClaw's, with Rust */

const struct example *example_find(const char *name, struct err *e); /* NULL and why */

/* Into the folder at path, which is made where it is not there. If one of the names is taken,
 * nothing is copied. */
int example_copy(const struct example *x, const char *path, struct err *e);
/* One of them, into this folder. */
int example_copy_file(const struct example_file *f, struct err *e);
