/* SPDX-License-Identifier: Apache-2.0 */
/* sandbox/health.h - is a backend ready, asked within a time limit.
 *
 * For container engines this is three questions over their socket and nothing more; the backend
 * itself speaks to them at length. All of it blocks for at most the time given. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "backend/backend.h"

enum { HEALTH_MS = 2500 }; /* as the seed documents it */

enum engine_state {
	ENGINE_READY,
	ENGINE_ABSENT, /* neither a socket nor the docker program */
	ENGINE_DENIED, /* the socket is there and not for this user */
	ENGINE_DOWN,   /* a socket or the program, and nobody answers */
	ENGINE_LATE,   /* no answer in time */
};

struct engine_health {
	enum engine_state state;
	char socket[108];   /* the one that answered, or was tried last; "" if none exists */
	char version[64];   /* of a ready engine */
	char detail[160];   /* one of the four texts of seed 002 */
	char cli[256];      /* path of the docker program; "" if none */
	char runtimes[256]; /* "runc, runsc"; filled by engine_runtimes */
};

void engine_health(unsigned ms, struct engine_health *ret);
/* On a ready engine: 1 there, 0 not, -errno unknown. */
int engine_has_image(const struct engine_health *h, const char *image, unsigned ms);
int engine_runtimes(struct engine_health *h, unsigned ms); /* 0 or -errno */

/* Any backend: 0 and what it is in detail, or -errno and why not. The probe runs in a process of
 * its own, which is ended when the time is up. */
int backend_health(const struct backend *b, const struct spec *s, unsigned ms, char *detail,
		   size_t n);
