/* SPDX-License-Identifier: Apache-2.0 */
/* model/settings/spec_writes.h - what of the host's a run of this spec may write. */
#pragma once

#include "base/text/arena.h"
#include "base/text/err.h"
#include "model/settings/spec.h"

/* The paths, NULL-terminated, in the arena; those of the spec are borrowed. As far as the spec is
 * checked: before spec_check they are as they were written, relative to `at`, which may be NULL
 * afterwards. */
int spec_writes(struct arena *a, const struct spec *s, const struct place *at,
		const char *const **ret, struct err *e);

/* Of a checked spec: these, and the workspace in any case, as base/files/exposed.h takes them. */
int spec_places(struct arena *a, const struct spec *s, const char *const **ret, struct err *e);

/* Notes all that may be written (base/files/exposed.h), before the command starts. With
 * `elsewhere`, what is not here is on another machine. *lives is a descriptor, kept open until the
 * command can write no more (exposed_hold); -1 where this user has no state, and nothing is
 * written. */
int spec_note_writes(const struct spec *s, bool elsewhere, int *lives, struct err *e);

/* A file that brig reads on the host and passes on, or obeys, for this run: a secret, a certificate
 * to trust, a key, settings of another program. Refused where a guest may have written it, or this
 * run may. `what` says what it is. */
int spec_check_input(const struct spec *s, const char *what, const char *path, struct err *e);
/* Those that the spec names beside credentials, which are looked at where they are fetched. */
int spec_check_inputs(const struct spec *s, struct err *e);
