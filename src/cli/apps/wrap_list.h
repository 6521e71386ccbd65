/* SPDX-License-Identifier: Apache-2.0 */
/* cli/apps/wrap_list.h - what `brig wrap --list` says. */
#pragma once

#include "model/settings/spec.h"

/* On standard output. The spec's files say which credentials there are. */
void wrap_list_print(const struct spec *s, bool json);
