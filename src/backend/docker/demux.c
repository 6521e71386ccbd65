/* SPDX-License-Identifier: Apache-2.0 */
/* backend/docker/demux.c - the engine's multiplexed stream: frames of 8 bytes of head and data.
 *
 * A head is the stream's number, three zeros and the length, most significant byte first. Data is
 * handed on as it comes, whatever the length says: a frame is never collected. */
#include <string.h>

#include "backend/docker/docker.h"

static int head_done(struct demux *d)
{
	const unsigned char *h = d->head;

	if ((h[0] != 1 && h[0] != 2) || h[1] || h[2] || h[3])
		return -EBADMSG;
	d->stream = h[0];
	d->left = (uint32_t)h[4] << 24 | (uint32_t)h[5] << 16 | (uint32_t)h[6] << 8 | h[7];
	d->have = 0;
	return 0;
}

int demux_next(struct demux *d, const char **p, size_t *left, const char **data, size_t *n)
{
	while (*left) {
		size_t take;

		if (!d->left) {
			d->head[d->have++] = (unsigned char)**p;
			(*p)++;
			(*left)--;
			if (d->have == sizeof(d->head) && head_done(d) < 0)
				return -EBADMSG;
			continue;
		}
		take = *left < d->left ? *left : d->left;
		*data = *p;
		*n = take;
		*p += take;
		*left -= take;
		d->left -= (uint32_t)take;
		return d->stream;
	}
	return 0;
}
