/* SPDX-License-Identifier: Apache-2.0 */
/* image/store/unpack_layer.h - a layer, unpacked by a process that can do nothing else. */
#pragma once

#include <stdint.h>

#include "base/bytes/sha256.h"
#include "base/text/err.h"
#include "image/ref.h"
#include "image/store/layer_tar.h"

struct layer_unpacked {
	char sent[REF_DIGEST_MAX]; /* of the bytes as they were sent: of this process */
	uint64_t sent_bytes;
	char diff[REF_DIGEST_MAX]; /* of what they hold: the other process says so */
	struct unpack_tally tally;
};

/* Reads `blob` from its beginning, once: what is summed here and unpacked there are the same bytes,
 * whoever changes the file meanwhile. `tree` is as layer_tar_unpack wants it. `most`: bytes that
 * may be sent. */
int layer_unpack(int blob, int tree, uint64_t most, struct layer_unpacked *ret, struct err *e);
