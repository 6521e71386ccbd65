/* SPDX-License-Identifier: Apache-2.0 */
/* image/store/sums.h - what a layer's folder has: a line for each name, in order, with the sum of a
 * file. Made at the import, and again by `verify`, by a process that can only read the folder. */
#pragma once

#include "base/text/err.h"

/* Writes the lines to `to`, a file that is open for writing. */
int sums_write(int tree, int to, struct err *e);
/* Compares; `names` has what was written once. 0, or an error that names the first difference. */
int sums_compare(int tree, int names, struct err *e);
