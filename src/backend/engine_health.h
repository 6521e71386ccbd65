/* SPDX-License-Identifier: Apache-2.0 */
/* backend/engine_health.h - is there an engine, and what does it have; asked within a time
 * limit.
 *
 * The same places and the same client as a run has. All of it blocks for at most the time given. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum engine_state {
	ENGINE_READY,
	ENGINE_ABSENT,   /* neither a socket nor the docker program */
	ENGINE_DENIED,   /* the socket is there and not for this user */
	ENGINE_DOWN,     /* a socket or the program, and nobody answers */
	ENGINE_LATE,     /* no answer in time */
	ENGINE_MISNAMED, /* DOCKER_HOST or the context names nothing that brig could speak to */
};

struct engine_health {
	enum engine_state state;
	char socket[108];   /* of a ready engine */
	char version[64];   /* of a ready engine */
	char detail[160];   /* one of the four texts that RLM Code has for it */
	char hint[256];     /* what mends it, if it is not ready */
	char cli[256];      /* path of the docker program; "" if none */
	char runtimes[256]; /* "runc, runsc"; filled by engine_runtimes */
};

void engine_health(unsigned ms, struct engine_health *ret);

/* On a ready engine: 1 there, 0 not, -errno unknown. With 1, *age is seconds since the image was
 * made, or -1 where it does not say; age may be NULL. */
int engine_has_image(const struct engine_health *h, const char *image, unsigned ms, int64_t *age);
int engine_runtimes(struct engine_health *h, unsigned ms); /* 0 or -errno */
