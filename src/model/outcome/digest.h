/* SPDX-License-Identifier: Apache-2.0 */
/* model/outcome/digest.h - names a policy: runs under the same one have the same digest. */
#pragma once

#include "model/settings/spec.h"

enum { SPEC_DIGEST_SIZE = 17 };

/* Sixteen hex digits over every setting that decides what a run may do, in the order of the field
 * table. Left out: how brig reports, what is recorded, and where the workspace lies. Of variables
 * the names alone count, so that no digest can be used to guess a value. The spec must be
 * checked. */
int spec_digest(const struct spec *s, char out[SPEC_DIGEST_SIZE], struct err *e);
