/* SPDX-License-Identifier: Apache-2.0 */
/* audit/read/times.h - points in time as records and people write them, in microseconds since 1970.
 *
 * No libc calendar: a record's time is UTC, whatever TZ says. */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* RFC 3339 ("2026-01-02T03:04:05.678901Z", "...+01:00"), or a date, which is its midnight in UTC.
 * 0 or -EINVAL. */
int time_parse(const char *p, size_t n, int64_t *ret);

/* As time_parse, or so long before now: "2h", "7d", "90s". 0 or -EINVAL. */
int time_when(const char *text, int64_t now, int64_t *ret);

void time_text(int64_t us, char *out, size_t n); /* 2026-01-02T03:04:05.678901Z */
