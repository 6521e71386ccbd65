/* SPDX-License-Identifier: Apache-2.0 */
/* sandbox/health.h - is a backend ready, asked within a time limit.
 *
 * For container engines backend/engine_health.h has the questions. */
#pragma once

#include <stddef.h>

#include "backend/backend.h"
#include "backend/engine_health.h"

enum { HEALTH_MS = 2500 }; /* as the seed documents it */

/* Any backend: 0 and what it is in detail, or -errno and why not. The probe runs in a process of
 * its own, which is ended when the time is up. */
int backend_health(const struct backend *b, const struct spec *s, unsigned ms, char *detail,
		   size_t n);
