/* SPDX-License-Identifier: Apache-2.0 */
/* audit/redact.h - takes secrets out of a text before it is kept.
 *
 * Known by their shape: tokens of well-known services, key blocks, passwords in addresses and
 * behind names like password=. Query strings go, whatever they hold. Each becomes
 * "[redacted:KIND:FINGERPRINT]". Pure, linear in its input. */
#pragma once

#include <stddef.h>

struct audit_key;

/* Writes at most `room` bytes to out, whole characters, no NUL, and returns how many. Only what a
 * reader could not see anyway is left unread: the text is redacted first and cut afterwards. */
size_t redact(const struct audit_key *k, const char *text, size_t n, char *out, size_t room);
