/* SPDX-License-Identifier: Apache-2.0 */
/* wire/h2/grpc.h - where messages of gRPC end: a flag, four bytes of length, so many bytes.
 *
 * Pure. Whoever holds bytes back until more come lets go of them at the end of a message: the other
 * side may wait for it before it says more, and no text goes on behind the next five bytes. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wire/http1.h"

struct grpc_messages {
	bool on;       /* the body is of gRPC */
	unsigned have; /* bytes of the five */
	uint32_t left; /* of the message */
	bool packed;   /* one of them is */
};

/* By the type of its content. */
bool grpc_is(const struct http1_field *f, size_t n);
/* Goes on by n bytes; true: they end where a message does. */
bool grpc_pass(struct grpc_messages *m, const char *p, size_t n);
