/* SPDX-License-Identifier: Apache-2.0 */
/* model/files/config.h - all layers of settings, weakest first: built-in, system, user, project,
 * --config, environment, flags.
 *
 * A project's own .brig.yaml may only tighten until its exact content is trusted (`brig allow`):
 * whatever would loosen is an error that says so. The trust list is a file of SHA-256 digests and
 * paths in the state folder. IronClaw's variables in the environment count only when no file of
 * another dialect is given, and cannot by themselves lead to a run on the host. */
#pragma once

#include <sys/stat.h>

#include "base/bytes/json.h"
#include "base/text/buf.h"
#include "base/text/err.h"
#include "model/dialect/dialect.h"
#include "model/settings/spec.h"

#define CONFIG_FILE_MAX (((size_t)1 << 20) + 2) /* of a struct buf that is to hold a whole file */

struct config_place {
	const char *cwd, *home;     /* home may be NULL */
	const char *file, *dialect; /* of --config and --dialect, as given; NULL: not */
	char *const *environ;
	const char *system_file; /* NULL: /etc/brig/config.yaml */
	const char *user_file;   /* NULL: $XDG_CONFIG_HOME/brig/config.yaml, else ~/.config/... */
	struct spec *ceiling;    /* gets `daemon.ceiling`; NULL: nobody asks for it */
	bool alone;              /* leave the project's file out */
	struct err *project;     /* gets why the project's file is not taken, for those who go on
				    without     it; NULL: that is an error */
};

/* Fills what flags have not. `s` holds the flags already (they win by their origin). */
int config_load(struct spec *s, const struct config_place *at, struct err *e);

/* Where the user's own file is, or would be; NULL: nowhere. In the spec's arena. */
const char *config_user_file(struct spec *s, const struct config_place *at);

/* What the system's and the user's file say of the daemon's tenants, into at->ceiling. */
int config_load_ceiling(const struct config_place *at, struct err *e);

/* Reads one file into a spec, in its own or the named dialect (DIALECT_COUNT: recognise it). */
int config_read_file(struct spec *s, const char *path, enum dialect named, const struct source *src,
		     enum dialect *was, struct err *e);

/* The same from memory. */
int config_read_text(struct spec *s, const char *data, size_t n, enum dialect named,
		     const struct source *src, enum dialect *was, struct err *e);
/* What another process of brig's has resolved, and sends: it counts in full. */
int config_read_sent(struct spec *s, const char *data, size_t n, struct err *e);
/* The bytes of a regular file, at most 1 MiB; *st says whose it is. Of one that the user has named:
 * or of a pipe. */
int config_slurp(const char *path, struct buf *ret, struct stat *st, struct err *e);
int config_slurp_fd(int fd, const char *name, struct buf *ret, struct stat *st, struct err *e);
/* The project file that would be read for this spec; NULL when there is none. */
int config_find_project(struct spec *s, const struct config_place *at, const char **ret,
			struct err *e);

/* Every setting with its value, and with origin who wrote it and where. The text is itself a
 * brig.yaml; in JSON sizes are bytes and times milliseconds, and with origin a member "origin" says
 * who wrote each key. null: no limit, or nothing was named. */
void config_show(const struct spec *s, bool origin, struct buf *out);
void config_show_json(const struct spec *s, bool origin, struct json *j);
/* The settings that somebody or a dialect wrote, as a brig.yaml in JSON: what another process reads
 * to have the same spec. Of a checked spec also where the workspace is. */
void config_write_json(const struct spec *s, struct json *j);
