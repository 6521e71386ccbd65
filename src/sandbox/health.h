/* SPDX-License-Identifier: Apache-2.0 */
/* sandbox/health.h - is a backend ready, asked within a time limit. */
#pragma once

#include <stddef.h>

#include "backend/backend.h"

enum { HEALTH_MS = 2500 }; /* as the seed documents it */

/* 0 and what it is in detail, or -errno and why not. A backend that has no answer of its own is
 * probed in another process, which is ended when the time is up. */
int backend_health(const struct backend *b, const struct spec *s, unsigned ms, char *detail,
		   size_t n);
