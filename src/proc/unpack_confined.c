/* SPDX-License-Identifier: Apache-2.0 */
#include "proc/unpack_confined.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include "base/files/fd.h"
#include "proc/confine.h"

enum { KEPT_MAX = 4 };

static int unpack_get(void *arg, void *p, size_t n)
{
	const int *from = arg;

	return fd_read_all(*from, p, n);
}

int unpack_confined(int folder, int from, struct tar_limits *l, const int *keep, size_t n)
{
	const struct confine_want rest = { .folder = folder, .bytes = UINT64_MAX };
	int all[KEPT_MAX] = { folder, from };
	char dust[4096];
	struct err e;
	int r;

	if (n > KEPT_MAX - 2)
		return -EINVAL;
	if (n)
		memcpy(all + 2, keep, n * sizeof(*keep));
	r = fd_close_except(3, all, n + 2);
	if (r == 0)
		r = confine(CONFINE_UNPACKER, &rest, &e);
	if (r == 0)
		r = tar_unpack(folder, l, unpack_get, NULL, &from);
	while (r == 0 && read(from, dust, sizeof(dust)) > 0) /* what fills up the last record */
		;
	return r;
}
