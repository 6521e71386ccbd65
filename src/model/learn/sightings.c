/* SPDX-License-Identifier: Apache-2.0 */
#include "model/learn/sightings.h"

#include <stdlib.h>
#include <string.h>

#include "base/sys/clock.h"
#include "base/text/str.h"

#define BYTES ((size_t)16 << 20)

struct sightings *sightings_new(void)
{
	struct sightings *s = calloc(1, sizeof(*s));

	if (!s || !(s->arena = arena_new(BYTES)))
		return sightings_free(s);
	s->began_us = clock_us();
	return s;
}

struct sightings *sightings_free(struct sightings *s)
{
	if (s)
		(void)arena_free(s->arena);
	free(s);
	return NULL;
}

static void add_path(struct sightings *s, const char ***v, size_t *n, const char *path)
{
	const char **slot;

	if (*n == SEEN_PLACES) {
		s->failed = true;
		return;
	}
	slot = ARENA_PUSH(s->arena, *v, *n);
	if (slot)
		*slot = arena_strdup(s->arena, path);
	if (!slot || !*slot) {
		*n -= slot != NULL;
		s->failed = true;
	}
}

void sightings_place(struct sightings *s, const char *path)
{
	add_path(s, &s->places, &s->n_places, path);
}

void sightings_usual(struct sightings *s, const char *path)
{
	add_path(s, &s->usual, &s->n_usual, path);
}

static uint64_t now(const struct sightings *s)
{
	return clock_us() - s->began_us;
}

/* ---- requests ---- */

static struct seen_request *find_request(struct sightings *s, const char *host, uint16_t port,
					 const char *method, const char *repository)
{
	struct seen_request *r;

	for (size_t i = 0; i < s->n_requests; i++) {
		r = &s->requests[i];
		if (r->port == port && str_eq(r->host, host) && str_eq(r->method, method) &&
		    (!repository || str_eq(r->path, repository)))
			return r;
	}
	if (s->n_requests == SEEN_REQUESTS)
		return NULL;
	r = ARENA_PUSH(s->arena, s->requests, s->n_requests);
	if (!r)
		return NULL;
	*r = (struct seen_request){ .host = arena_strdup(s->arena, host),
				    .method = arena_strdup(s->arena, method),
				    .port = port,
				    .first_us = now(s) };
	if (r->host && r->method)
		return r;
	s->n_requests--;
	return NULL;
}

static void add_field(struct sightings *s, const char *host, const char *name, size_t n)
{
	struct seen_field *f = NULL;

	for (size_t i = 0; i < s->n_fields; i++)
		if (str_eq(s->fields[i].host, host) && strlen(s->fields[i].name) == n &&
		    strncasecmp(s->fields[i].name, name, n) == 0)
			return;
	if (s->n_fields < SEEN_FIELDS)
		f = ARENA_PUSH(s->arena, s->fields, s->n_fields);
	if (!f) {
		s->more_fields++;
		return;
	}
	f->host = arena_strdup(s->arena, host);
	f->name = arena_strndup(s->arena, name, n);
	if (!f->host || !f->name) {
		s->n_fields--;
		s->failed = true;
	}
}

/* false: rules about methods and paths cannot let it through. */
static bool add_fields(struct sightings *s, const char *host, const char *fields)
{
	uint64_t more = s->more_fields;

	if (fields[0] == '*')
		return false;
	for (size_t n; *fields; fields += n + (fields[n] == ' ')) {
		n = strcspn(fields, " ");
		if (n)
			add_field(s, host, fields, n);
	}
	return s->more_fields == more;
}

void sightings_request(struct sightings *s, const char *host, uint16_t port, const char *method,
		       const char *path, const char *fields)
{
	bool git = str_starts(path, "fetch:") || str_starts(path, "push:");
	bool ws = str_starts(path, "ws:");
	const char *at = git || ws ? strchr(path, ':') + 1 : path;
	struct seen_request *r;

	if (at[0] != '/')
		at = "";
	if (git)
		method = path[0] == 'f' ? "fetch" : "push";
	else if (ws)
		method = "ws";
	r = find_request(s, host, port, method, git ? at : NULL);
	if (!r) {
		s->more_requests++;
		return;
	}
	if (!r->count)
		(void)memccpy(r->path, at, '\0', sizeof(r->path) - 1);
	else if (!git)
		seen_common(r->path, at);
	r->count++;
	if (!add_fields(s, host, fields))
		r->unruly = true;
}

/* ---- files ---- */

bool sightings_leaves_out(const struct sightings *s, const char *path)
{
	for (size_t i = 0; i < s->n_places; i++)
		if (seen_below(path, s->places[i]) || seen_below(s->places[i], path))
			return false;
	for (size_t i = 0; i < s->n_usual; i++)
		if (seen_below(path, s->usual[i]))
			return true;
	return false;
}

static bool is_granted(const struct sightings *s, const char *path)
{
	for (size_t i = 0; i < s->n_places; i++)
		if (seen_below(path, s->places[i]))
			return true;
	return false;
}

static struct seen_file *find_file(struct sightings *s, struct seen_file **v, size_t *n, size_t max,
				   uint64_t *more, const char *path)
{
	struct seen_file *f;

	for (size_t i = 0; i < *n; i++)
		if (str_eq((*v)[i].path, path))
			return &(*v)[i];
	f = NULL;
	if (*n < max && strlen(path) < SEEN_PATH_MAX)
		f = ARENA_PUSH(s->arena, *v, *n);
	if (!f) {
		*more += 1;
		return NULL;
	}
	*f = (struct seen_file){ .path = arena_strdup(s->arena, path), .first_us = now(s) };
	if (f->path)
		return f;
	--*n;
	*more += 1;
	return NULL;
}

void sightings_file(struct sightings *s, const char *path, bool folder, bool changed)
{
	struct seen_file *f;

	if (!seen_is_plain(path) || !is_granted(s, path))
		return;
	f = find_file(s, &s->files, &s->n_files, SEEN_FILES, &s->more_files, path);
	if (!f)
		return;
	f->count++;
	f->changed |= changed;
	f->folder |= folder;
}

void sightings_missed(struct sightings *s, const char *path)
{
	struct seen_file *f =
		find_file(s, &s->missing, &s->n_missing, SEEN_MISSING, &s->more_missing, path);

	if (f)
		f->count++;
}
