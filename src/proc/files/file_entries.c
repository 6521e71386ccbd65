/* SPDX-License-Identifier: Apache-2.0 */
/* proc/files/file_entries.c - what brig-files lists, read by those who do not believe it. */
#include <errno.h>
#include <string.h>

#include "proc/files/files.h"

int file_entries_take(struct file_entries *x, const char **p, size_t *n)
{
	while (*n) {
		size_t head = sizeof(x->e), want = x->have < head ? head : head + x->e.length;
		size_t some = want - x->have < *n ? want - x->have : *n;
		char *to = x->have < head ? (char *)&x->e + x->have : x->name + (x->have - head);

		memcpy(to, *p, some);
		*p += some;
		*n -= some;
		x->have += some;
		if (x->have < head)
			return 0;
		if (!x->e.length || x->e.length >= sizeof(x->name))
			return -EBADMSG;
		if (x->have < head + x->e.length)
			continue;
		x->name[x->e.length] = '\0';
		x->have = 0;
		/* A name is one: what comes from inside leads nowhere. */
		return memchr(x->name, '/', x->e.length) || memchr(x->name, '\0', x->e.length)
			       ? -EBADMSG
			       : 1;
	}
	return 0;
}
