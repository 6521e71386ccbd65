/* SPDX-License-Identifier: Apache-2.0 */
/* base/bytes/base64.h - RFC 4648, both alphabets. */
#pragma once

#include <stddef.h>
#include <sys/types.h>

#include "base/text/buf.h"

void base64_put(struct buf *b, const void *p, size_t n); /* the ordinary alphabet, padded */
/* With the alphabet that needs no escaping in addresses and fields, padded. */
void base64_url(struct buf *b, const void *p, size_t n);

/* The ordinary alphabet, padding wanted, nothing else around it. The length, or -EBADMSG; -E2BIG if
 * `room` does not hold it. */
ssize_t base64_read(const char *text, size_t n, char *out, size_t room);
