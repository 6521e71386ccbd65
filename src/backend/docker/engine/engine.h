/* SPDX-License-Identifier: Apache-2.0 */
/* backend/docker/engine/engine.h - finds a Docker or Podman engine and asks it things.
 *
 * An engine is reached through its Unix socket and nothing else. Every call has a deadline and a
 * largest answer, because the engine is trusted with the container but not with brig's patience. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes/jread.h"
#include "base/text/arena.h"
#include "base/text/buf.h"
#include "base/text/err.h"
#include "wire/client.h"

enum {
	ENGINE_API_MIN = 41, /* minor number of 1.x; Debian 12's engine has this one */
	ENGINE_API_MAX = 47, /* newer engines are spoken to in this one */
	ENGINE_PATH_MAX = 108,
	ENGINE_ADDRESSES_MAX = 12,
	ENGINE_QUICK_MS = 2500, /* for a word of life */
	ENGINE_CALL_MS = 30000,
	ENGINE_SLOW_MS = 120000,  /* creating and starting, on a machine that has other work */
	ENGINE_QUIET_MS = 300000, /* without a word, while an image is fetched or built */
};

struct engine {
	char path[ENGINE_PATH_MAX]; /* of its socket */
	unsigned api;               /* minor number spoken */
	bool podman, rootless;
	struct client *client; /* kept alive between calls; NULL: none yet */
};

/* Where an engine may be, in the order they are tried. */
struct engine_places {
	const char *path[ENGINE_ADDRESSES_MAX];
	size_t n;
	bool named; /* by the user: DOCKER_HOST or a context; nothing else is tried then */
};

/* From DOCKER_HOST, CONTAINER_HOST, the docker context, and the usual places. Reads files, connects
 * to nothing. Refuses an address that is not a Unix socket. */
int engine_places(struct arena *a, struct engine_places *ret, struct err *e);

/* Connects to the first place that answers and agrees on a version. The error says which it is:
 * no engine, one that is down, or one this user may not use, each with what to do. */
int engine_open(struct engine *ret, struct err *e);
int engine_open_at(const char *path, struct engine *ret, struct err *e);
int engine_open_within(unsigned ms, struct engine *ret, struct err *e); /* all places together */
void engine_done(struct engine *g);
static inline void cleanup_engine(struct engine *g)
{
	engine_done(g);
}

/* A connection of its own, for what takes long. The caller frees it. */
int engine_connect(const struct engine *g, unsigned ms, struct client **ret, struct err *e);

struct engine_call {
	const char *method;
	const char *path; /* with its query, below the version */
	const char *body; /* JSON; NULL: none */
	size_t tar;       /* the body is an archive of that many bytes; 0: it is not */
	const char *fields;
	unsigned ms; /* 0: ENGINE_CALL_MS */
};

struct engine_answer {
	int status;
	struct jread *json; /* NULL: none, or not JSON */
	char message[256];  /* the engine's own word on an error, one line; "" if none */
	uint64_t mode;      /* of a file asked for (the bits below), where it was told */
	bool has_mode;
};

/* Go's bits of a file's mode; none of these: a plain file. */
#define GO_FOLDER ((uint64_t)1 << 31)
#define GO_LINK ((uint64_t)1 << 27)
#define GO_PLAIN_NOT ((uint64_t)0x8f280000) /* a folder, link, pipe, socket, device or unknown */

/* Asks and reads all of the answer. 0 whatever the status; an error only when there is no answer.
 */
int engine_ask(struct engine *g, const struct engine_call *q, struct engine_answer *ret,
	       struct err *e);
void engine_answer_done(struct engine_answer *a);
static inline void cleanup_engine_answer(struct engine_answer *a)
{
	engine_answer_done(a);
}

/* Sends on a connection of its own and leaves the rest to the caller. */
int engine_send(const struct engine *g, struct client *c, const struct engine_call *q,
		const char *upgrade, uint64_t deadline, struct err *e);

/* What listens to an answer of many lines, as a pull and a build have it. */
struct engine_lines {
	void (*line)(void *arg, const char *line, size_t n); /* each, JSON most likely */
	bool (*tick)(void *arg); /* every quarter of a second or oftener; true: give it up */
	void *arg;
};

/* Reads it to its end, for as long as it takes. 0; -ETIMEDOUT: nothing came for ENGINE_QUIET_MS;
 * -ECANCELED: it was given up. Only other errors are told in *e. */
int engine_follow(struct client *c, const struct engine_lines *l, struct err *e);

/* The error's own text out of a body {"message": ...}; controls become blanks. */
void engine_message(const struct jread *json, char *out, size_t n);
/* The same out of what is left of an answer that refuses. */
void engine_refusal(struct client *c, char *out, size_t n);

void engine_escape(struct buf *b, const char *text); /* for a query: %XX where needed */
