/* SPDX-License-Identifier: Apache-2.0 */
/* audit/anchor.h - head lines kept elsewhere, out of reach of whoever can write to the record.
 *
 * An anchor is an absolute path (appended to), "syslog" (the local daemon, facility audit) or an
 * address with http:// or https:// (sent by brig-send, after which nobody waits). */
#pragma once

#include "audit/head.h"
#include "audit/verify.h"

/* Sends the head to each of a NULL-ended list; stops at the first that cannot take it. */
int anchor_send(const char *const *names, const struct head *h, const struct audit_key *k,
		struct err *e);

struct anchor_line {
	struct head head;
	uint64_t line;   /* in its file, from 1 */
	unsigned source; /* which of the files */
};

/* The genuine head lines of a NULL-ended list of files (or NULL), ascending; caller frees *ret. The
 * line may follow other text, as in a system log. */
int anchor_read(const char *const *files, const struct audit_key *k, struct verify_anchor *about,
		unsigned *count, struct anchor_line **ret, size_t *n, struct err *e);
