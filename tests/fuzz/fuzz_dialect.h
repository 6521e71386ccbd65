/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz/fuzz_dialect.h - a reader of a foreign dialect, given any YAML. */
#pragma once

#include "fuzz.h"

#include "model/dialect/dialect.h"

typedef int dialect_fn(struct spec *s, const struct source *src, const struct node *root,
		       struct err *e);

/* It refuses with a reason, or makes a spec that is sound. */
static inline void fuzz_dialect(const uint8_t *data, size_t size, dialect_fn *read,
				void (*require_sound)(const struct spec *s, const char *text))
{
	const struct source src = {
		.name = "f", .folder = "/src", .home = "/home/me", .origin = ORIGIN_FILE
	};
	char *text = text_of(data, size);
	struct err e = { 0 };
	struct spec *s = spec_new(&e);
	struct node *root;
	int r;

	require(s != NULL);
	if (size < 65536 && yaml_parse(s->arena, "f", text, strlen(text), &root, &e) == 0) {
		r = read(s, &src, root, &e);
		require(r <= 0 && (r == 0 || (e.code == -r && e.what[0])));
		if (r == 0)
			require_sound(s, text);
	}
	(void)spec_free(s);
	free(text);
}
