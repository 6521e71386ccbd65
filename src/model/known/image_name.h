/* SPDX-License-Identifier: Apache-2.0 */
/* model/known/image_name.h - what may be the name of an image: it becomes part of a request's path
 * and of words that are printed. */
#pragma once

#include <stdbool.h>

/* Begins with a letter or a digit: no flag, no path, nothing to be escaped. */
bool image_valid(const char *name);
