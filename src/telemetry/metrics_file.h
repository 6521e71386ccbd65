/* SPDX-License-Identifier: Apache-2.0 */
/* telemetry/metrics_file.h - the counts of many brigs in one file, for node_exporter's textfile
 * collector.
 *
 * PATH is replaced whole (written beside it, then exchanged), so a reader never sees half of it;
 * PATH.lock keeps the writers apart. Nothing waits for the disk: after a power cut counts may start
 * from zero, which is what a scraper takes a reset for. The text is the state: what it says is
 * read, added to and written again. */
#pragma once

#include <stdbool.h>

#include "telemetry/metrics.h"

/* Adds what `more` counted. Waits for other writers, at most two seconds. 0 or -errno and *e; the
 * file is then as it was. A file that is not brig's text is replaced and counting starts afresh:
 * *why says what was wrong with it (code 0: nothing was). */
int metrics_file_add(const char *path, const struct metrics *more, struct err *why, struct err *e);
