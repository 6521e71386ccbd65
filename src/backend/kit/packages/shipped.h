/* SPDX-License-Identifier: Apache-2.0 */
/* backend/kit/packages/shipped.h - which files below /etc and /var/lib came with a package, and how
 * they looked then: from the lists that dpkg, ucf and rpm keep.
 *
 * Pure: the texts are root's own, but whatever stands in them only names files to be compared. */
#pragma once

#include <stddef.h>

#include "base/bytes/sha256.h"
#include "base/text/arena.h"

struct shipped_file {
	const char *path, *package;
	char sum[SHA256_HEX]; /* or an MD5, which is shorter */
};

struct shipped {
	struct arena *arena;
	struct shipped_file *v;
	size_t n;
};

/* Each adds what it finds; 0 or -ENOMEM. Lines that make no sense, and paths elsewhere, are passed
 * over. */
int shipped_status(struct shipped *s, const char *text, size_t n); /* dpkg's status: Conffiles */
/* ucf's hashfile; `registry`, a string, says whose they are. */
int shipped_ucf(struct shipped *s, const char *registry, const char *text, size_t n);
/* "PACKAGE\tSUM\tPATH", a line for each file of every package. */
int shipped_rpm(struct shipped *s, const char *text, size_t n);
void shipped_sort(struct shipped *s); /* by path: folders before what is in them */
