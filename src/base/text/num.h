/* SPDX-License-Identifier: Apache-2.0 */
/* base/text/num.h - numbers as people write them: counts, sizes, durations, fractions of a CPU.
 *
 * All of them are strict: no sign, no blank, nothing behind the number but its unit, overflow
 * refused. They return 0, -EINVAL (not such a number) or -ERANGE (does not fit). */
#pragma once

#include <stddef.h>
#include <stdint.h>

int num_count(const char *s, uint64_t *ret);
int num_size(const char *s, uint64_t *ret);      /* bytes; 256m, 1g, 64k, 512b, 1.5g, 2GiB */
int num_duration(const char *s, uint64_t *ret);  /* milliseconds; 90, 60s, 250ms, 1h30m, 2w */
int num_thousands(const char *s, uint64_t *ret); /* 200, 200k, 1.5m: of a thousand, a million */
int num_milli(const char *s, uint64_t *ret);     /* thousandths; 1.5 gives 1500 */

void num_size_text(uint64_t bytes, char *out, size_t n); /* 256m; the form num_size reads back */
void num_duration_text(uint64_t ms, char *out, size_t n);
