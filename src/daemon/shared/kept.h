/* SPDX-License-Identifier: Apache-2.0 */
/* daemon/shared/kept.h - one command of a sandbox and what it wrote, in a file that outlives all
 * others.
 *
 * A head, then frames: what it is, its output in the order it arrived, how it ended. The monitor
 * appends; whoever listens reads, at any time, from any byte of the output on. A frame that is not
 * whole was being written when its monitor was killed. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/text/cleanup.h"

enum kept_kind {
	KEPT_OUTPUT = 1,
	KEPT_ERRORS = 2,
	KEPT_BEGIN = 3, /* JSON, the first frame */
	KEPT_END = 4,   /* JSON, the last one */
	KEPT_SHOWN = 5, /* JSON: what the code of a context shows */
};

enum { KEPT_FRAME_MAX = 8 << 20 };

/* The writer's. */
struct kept_writer {
	int fd;
	uint64_t size; /* of whole frames */
};

int kept_create(int folder, const char *id, struct kept_writer *ret); /* 0 or -errno */
int kept_add(struct kept_writer *k, enum kept_kind kind, const void *p, size_t n);
void kept_close(struct kept_writer *k);

/* A reader's. */
struct kept_at {
	uint64_t pos;  /* of a frame */
	uint64_t seq;  /* of its first byte among those of the output */
	uint64_t into; /* bytes of it that were read */
};

struct kept_frame {
	enum kept_kind kind;
	uint64_t size; /* what is left of it */
};

int kept_open(int folder, const char *id, int *ret); /* 0 or -errno; at is the beginning */
void kept_begin(struct kept_at *at);

/* The frame at that place: 1; 0: there is none yet; -EBADMSG: this is no such file. */
int kept_look(int fd, const struct kept_at *at, struct kept_frame *ret);

/* What is left of it, at most n bytes; or -errno. kept_step leaves so many bytes of it behind. */
ssize_t kept_read(int fd, const struct kept_at *at, const struct kept_frame *f, void *p, size_t n);
void kept_step(struct kept_at *at, const struct kept_frame *f, uint64_t n);

/* The text of the first frame (KEPT_BEGIN) or the last one (KEPT_END), without a look at those
 * between them; NULL: it has none. free() it. */
char *kept_text(int fd, enum kept_kind kind, size_t *n);

/* Whether the daemon has told of its end. */
bool kept_told(int fd);
void kept_tell(int folder, const char *id);
