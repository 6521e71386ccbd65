/* SPDX-License-Identifier: Apache-2.0 */
/* model/settings/spec_lists.h - one more element for a list of a spec, read from text and checked.
 */
#pragma once

#include "model/settings/spec.h"

int list_add_string(struct arena *a, struct strlist *l, const char *text, struct err *e);
int list_add_name(struct arena *a, struct strlist *l, const char *name,
		  struct err *e); /* of a variable */
int list_add_env(struct arena *a, struct envlist *l, const char *text, struct err *e);
/* The same for a map that several origins write: a name a stronger one wrote stays as it is. */
int list_merge_env(struct arena *a, struct envlist *l, const char *text, enum origin by,
		   struct err *e);
int list_merge_label(struct arena *a, struct envlist *l, const char *text, enum origin by,
		     struct err *e);
int list_add_mount(struct arena *a, struct mountlist *l, const char *text, struct err *e);
int list_add_port(struct arena *a, struct portlist *l, const char *text, struct err *e);
