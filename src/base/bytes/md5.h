/* SPDX-License-Identifier: Apache-2.0 */
/* base/bytes/md5.h - MD5 (RFC 1321), in which dpkg notes what its packages ship.
 *
 * Two files with one sum are easily made: it tells what was changed by somebody who does not mean
 * to deceive, and is good for nothing else. */
#pragma once

#include <stddef.h>

enum { MD5_HEX = 33 }; /* with the NUL */

void md5_of(const void *p, size_t n, char out[MD5_HEX]);
