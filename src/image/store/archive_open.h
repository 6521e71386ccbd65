/* SPDX-License-Identifier: Apache-2.0 */
/* image/store/archive_open.h - the archive around an image's files, unpacked. */
#pragma once

#include "base/text/err.h"

/* Into `folder`, which is empty, by a process that can do nothing else; links are left out. `path`
 * is for the error. It may be compressed. */
int archive_open(int file, int folder, const char *path, struct err *e);
