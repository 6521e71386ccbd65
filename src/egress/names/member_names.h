/* SPDX-License-Identifier: Apache-2.0 */
/* egress/names/member_names.h - the names of a sandbox and its companions, for whoever answers
 * questions of theirs. Pure: no socket, and no question to anybody. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "wire/dns.h"

enum { MEMBER_NAMES_MAX = 32, MEMBER_NAME_SIZE = 64 };

struct member_names {
	struct {
		char name[MEMBER_NAME_SIZE];
		unsigned char address[4];
	} v[MEMBER_NAMES_MAX];
	size_t n;
};

/* Adds one; false: no such address or name, or too many. */
bool member_names_add(struct member_names *m, const char *address, const char *name);
/* Lines "ADDRESS NAME", of which the text is used up. */
bool member_names_read(struct member_names *m, char *text);
/* ... of a file, which is closed. */
bool member_names_take(struct member_names *m, int fd);

/* The answer to a question for one of them: its address, or nothing for AAAA and other kinds, of
 * which it has none. 0: it is for another name. -ENOSPC. */
ssize_t member_names_own(const struct member_names *m, const unsigned char *p,
			 const struct dns_question *q, unsigned char *out, size_t room);

/* The answer to any message: of theirs, or that there is no such name. -1: none is given. */
ssize_t member_names_answer(const struct member_names *m, const unsigned char *p, size_t n,
			    unsigned char *out, size_t room);
