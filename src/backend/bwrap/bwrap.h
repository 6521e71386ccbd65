/* SPDX-License-Identifier: Apache-2.0 */
/* backend/bwrap/bwrap.h - what the choice of a backend asks of this one. */
#pragma once

#include "base/err.h"
#include "model/spec.h"

/* Refuses two values of settings that only native supports, when they were explicitly set. */
int bwrap_honours(const struct spec *s, struct err *e);
