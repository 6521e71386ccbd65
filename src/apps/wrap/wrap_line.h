/* SPDX-License-Identifier: Apache-2.0 */
/* apps/wrap/wrap_line.h - the `brig run` line that `brig wrap` stands for.
 *
 * There is no second way of running: what this makes is what run reads, and what --dry-run prints.
 */
#pragma once

#include "apps/wrap/wrap_agents.h"
#include "apps/wrap/wrap_program.h"
#include "base/text/arena.h"
#include "base/text/err.h"
#include "model/settings/lists.h"
#include "model/settings/spec.h"

struct wrap_asked {
	const struct wrap_agent *agent; /* NULL: a command of the caller's own */
	char *const *words;             /* its arguments, or that command */
	struct strlist options;         /* of run, as they were typed */
	const char *workdir;            /* NULL: where the caller stands */
	bool terminal;                  /* there is one */
	bool dry;                       /* it is looked at only: a missing key is no hindrance */
	/* Borrowed: the same settings, read with all layers below them; and where the agent's
	 * program is, NULL if another machine or image has it. */
	const struct spec *spec;
	const struct wrap_program *program;
};

/* Is there a value for it? The caller's files declare it, its variable is set, or the caller has
 * logged in. */
bool wrap_has_credential(const struct spec *s, const char *name);

/* The first of its keys that there is a value for; NULL: none. */
const char *wrap_first_key(const struct wrap_agent *a, const struct spec *s);

/* Rules that open no more than it is bound to: HOST, or HOST/PATH. */
int wrap_credential_rules(struct arena *a, const struct credential_spec *c, struct strlist *ret,
			  struct err *e);

/* Refuses: the agent has none of its keys, or a variable would lead it to another server. */
int wrap_no_key(const struct wrap_agent *a, struct err *e);
int wrap_check_elsewhere(const struct wrap_agent *a, const struct spec *s, struct err *e);

/* Words of `brig run`, without the first. Refused where the agent would have no key, or send it to
 * somebody that brig does not know. */
int wrap_line_make(struct arena *a, const struct wrap_asked *w, struct strlist *ret, struct err *e);
