/* SPDX-License-Identifier: Apache-2.0 */
/* egress/authority/keeper_sign.h - what the keeper does with keys of the user's: it signs what a
 * client of TLS 1.3 signs when it shows its certificate (RFC 8446, 4.4.3), and nothing else. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "egress/authority/keeper.h"

enum { KEEPER_KEYS_MAX = 16, KEEPER_KEYS_BYTES = 128 * 1024, KEEPER_TEXT_MAX = 160 };

enum keeper_hash { KEEPER_SHA256, KEEPER_SHA384, KEEPER_SHA512, KEEPER_HASHES };

struct keeper_keys;

/* Reads PEM to the end of the stream; NULL: there is none, or it cannot be read. */
struct keeper_keys *keeper_keys_read(int fd);
struct keeper_keys *keeper_keys_free(struct keeper_keys *k);

/* 0, and the signature in *a; or -errno. */
int keeper_sign(const struct keeper_keys *k, const struct keeper_ask *q, struct keeper_answer *a);

/* A text of that form over a hash of so many bytes, all zero; its length. */
size_t keeper_text(unsigned char out[KEEPER_TEXT_MAX], size_t hash);
bool keeper_text_ok(const unsigned char *p, size_t n);
