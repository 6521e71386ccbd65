/* SPDX-License-Identifier: Apache-2.0 */
/* backend/bwrap/bwrap.h - what the choice of a backend asks of this one. */
#pragma once

#include "base/err.h"
#include "model/spec.h"

/* Two values of settings that it knows are native's alone: refused when somebody wrote them. */
int bwrap_honours(const struct spec *s, struct err *e);
