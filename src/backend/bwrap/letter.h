/* SPDX-License-Identifier: Apache-2.0 */
/* backend/bwrap/letter.h - what the monitor tells the process inside, which bubblewrap has exec'ed.
 *
 * One anonymous file, written by the monitor before the start and read once. Both ends are the same
 * build of brig; the reader checks that, and every bound. */
#pragma once

#include "backend/kit/process/inside.h"
#include "base/text/arena.h"
#include "base/text/buf.h"

/* A path that must be the same object inside as the monitor saw outside. Without an inode: one of
 * bubblewrap's own of that type. */
struct letter_check {
	const char *path; /* inside */
	struct ident ident;
};

void letter_write(const struct inside *c, const struct letter_check *checks, size_t n,
		  struct buf *out);

struct letter {
	struct inside inside; /* its texts lie in the letter's memory */
	struct letter_check *checks;
	size_t check_count;
	struct arena *arena; /* owns the lists */
};

/* data must outlive the letter and is not changed. -EPROTO: not a letter of this build. */
int letter_read(const char *data, size_t n, struct letter *ret, struct err *e);
void letter_done(struct letter *l);
