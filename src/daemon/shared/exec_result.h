/* SPDX-License-Identifier: Apache-2.0 */
/* daemon/shared/exec_result.h - the object of --json for a command that somebody listened to.
 *
 * What a command wrote is in its file and goes by a stream; the object that its monitor keeps comes
 * without. Who wants one answer and no stream collects it here. */
#pragma once

#include "base/bytes/jread.h"
#include "base/text/buf.h"

struct exec_result {
	struct buf out, err, both; /* both: as they arrived */
	struct buf shown;          /* objects, with commas between */
};

void exec_result_init(struct exec_result *r);
void exec_result_done(struct exec_result *r);
void exec_result_add(struct exec_result *r, int stream, const void *p, size_t n);
void exec_result_show(struct exec_result *r, const char *json, size_t n); /* one object */
/* The monitor's object with the texts put in, in one line. */
void exec_result_write(const struct exec_result *r, const struct jread *object, struct buf *to);
