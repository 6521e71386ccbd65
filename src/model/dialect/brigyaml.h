/* SPDX-License-Identifier: Apache-2.0 */
/* model/dialect/brigyaml.h - the two halves of brig.yaml's reader, for each other. */
#pragma once

#include "model/dialect/dialect.h"

/* Refuses a node of another kind, naming both. */
int brigyaml_want(const struct source *src, const struct node *n, enum node_kind kind,
		  struct err *e);
/* A member of a map: absent and null are the same. */
const struct node *brigyaml_member(const struct node *map, const char *key);
/* A member that is a list of texts, added to *ret; one that is absent adds nothing. */
int brigyaml_strings(struct arena *a, const struct source *src, const struct node *map,
		     const char *key, struct strlist *ret, struct err *e);
/* The text of a member that must be there. */
int brigyaml_text(const struct source *src, const struct node *map, const char *key,
		  const char **ret, struct err *e);

int brigyaml_copies(struct spec *s, const struct source *src, const struct node *list,
		    struct err *e);
int brigyaml_rules(struct spec *s, const struct source *src, enum field_id id,
		   const struct node *list, struct err *e);
