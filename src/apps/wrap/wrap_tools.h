/* SPDX-License-Identifier: Apache-2.0 */
/* apps/wrap/wrap_tools.h - `builtin_tools: [{TOOL: placeholder}]`: the tool's key, at the door
 * alone.
 *
 * What `brig wrap TOOL` would give it, but for arguments, becomes part of the settings: the first
 * of its credentials that there is (or each), the hosts these are bound to, and variables. */
#pragma once

#include "base/text/err.h"
#include "model/settings/spec.h"

/* Takes the stand-ins out of builtin_tools. Refused where there is no door, the tool has no key, or
 * brig knows none of its. */
int wrap_tools_stand_in(struct spec *s, struct err *e);
