/* SPDX-License-Identifier: Apache-2.0 */
/* model/learn/sightings.h - what was seen of a run that brig learns from: requests, files.
 *
 * Every text in here was chosen by the command. What is kept is bounded: the first of each kind
 * keeps its place, further ones are counted. Nothing is ever decided by it. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/text/arena.h"
#include "base/text/cleanup.h"

enum {
	SEEN_REQUESTS = 512, /* hosts, ports and methods */
	SEEN_FIELDS = 128,
	SEEN_FILES = 4096,
	SEEN_MISSING = 64, /* names that were asked for and are not there */
	SEEN_PLACES = 256,
	SEEN_PATH_MAX = 1024, /* of a file; what is longer is counted */
};

/* Of one host, port and method. Git's fetches and pushes stand for themselves, under "fetch" and
 * "push", a repository each, and WebSockets under "ws". */
struct seen_request {
	const char *host, *method;
	uint16_t port;
	char path[256]; /* all of these lie at or below it; empty: no rule could name one */
	bool unruly;    /* no rule about methods and paths could let all of them through */
	uint64_t count, first_us;
};

/* A field of a request that rules about methods and paths refuse. */
struct seen_field {
	const char *host, *name;
};

struct seen_file {
	const char *path; /* inside, without links on its way */
	uint64_t count, first_us;
	bool changed; /* it, or what it holds if it is a folder */
	bool folder;
};

struct sightings {
	struct arena *arena;
	uint64_t began_us;
	struct seen_request *requests;
	size_t n_requests;
	struct seen_field *fields;
	size_t n_fields;
	struct seen_file *files, *missing;
	size_t n_files, n_missing;
	const char **places; /* that were granted beside those of every run, as they are inside */
	size_t n_places;
	const char **usual; /* what every run has: nothing is kept of it */
	size_t n_usual;
	uint64_t more_requests, more_fields, more_files, more_missing; /* that found no room */
	uint64_t opens;    /* names that were read, of files and programs */
	uint64_t unread;   /* calls whose name could not be read, or told where it leads */
	const char *blind; /* why files were not watched; NULL: they were */
	bool failed;       /* no memory: something is missing */
};

struct sightings *sightings_new(void); /* NULL without memory */
struct sightings *sightings_free(struct sightings *s);
DEFINE_CLEANUP(sightings, struct sightings *, sightings_free)

/* A folder or file of the host's that this run was granted; something that every run has. */
void sightings_place(struct sightings *s, const char *path);
void sightings_usual(struct sightings *s, const char *path);

/* One request that was answered, or a tunnel. `path` and `fields` as egress/event.h has them. */
void sightings_request(struct sightings *s, const char *host, uint16_t port, const char *method,
		       const char *path, const char *fields);

/* Is a path one of those that nothing is kept of? Then nobody need ask where it leads. */
bool sightings_leaves_out(const struct sightings *s, const char *path);
/* It was there. Nothing is kept of one outside of the granted places. */
void sightings_file(struct sightings *s, const char *path, bool folder, bool changed);
/* It was not. */
void sightings_missed(struct sightings *s, const char *path);

/* ---- sightings_path.c: paths as texts ---- */

/* At `folder`, or below it? */
bool seen_below(const char *path, const char *folder);
/* Absolute, without empty segments, "." and ".."? */
bool seen_is_plain(const char *path);
/* Leaves of `have` what it has in common with the other, whole segments. A cut ends with a slash:
 * "/a/b" and "/a/c" leave "/a/", "/a" and "/a/b" leave "/a". */
void seen_common(char *have, const char *other);
