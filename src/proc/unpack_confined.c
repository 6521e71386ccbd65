/* SPDX-License-Identifier: Apache-2.0 */
#include "proc/unpack_confined.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include "base/files/fd.h"
#include "proc/confine.h"

static int unpack_get(void *arg, void *p, size_t n)
{
	const int *from = arg;

	return fd_read_all(*from, p, n);
}

int unpack_confined(int folder, int from, struct tar_limits *l)
{
	const struct confine_want rest = { .folder = folder, .bytes = UINT64_MAX };
	const int keep[] = { folder, from };
	char dust[4096];
	struct err e;
	int r;

	r = fd_close_except(3, keep, ARRAY_LEN(keep));
	if (r == 0)
		r = confine(CONFINE_UNPACKER, &rest, &e);
	if (r == 0)
		r = tar_unpack(folder, l, unpack_get, NULL, &from);
	while (r == 0 && read(from, dust, sizeof(dust)) > 0) /* what fills up the last record */
		;
	return r;
}
