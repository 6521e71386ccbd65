/* SPDX-License-Identifier: Apache-2.0 */
/* sandbox/home/home_seed.h - the settings that a kept HOME begins with. */
#pragma once

#include "base/text/err.h"
#include "model/settings/spec.h"

/* Writes what model/known/tool_settings.h lets out of the caller's own files of the programs of
 * `home_seed` into a new and empty folder, which nobody else has seen yet, and the answers to what
 * they would ask about their keys. A file that is not there, or is none of its kind, gives nothing.
 * `secret`: what placeholders are made from; NULL: there will be none. */
int home_seed_put(int home, const struct spec *s, const unsigned char *secret, struct err *e);
