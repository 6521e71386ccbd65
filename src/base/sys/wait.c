/* SPDX-License-Identifier: Apache-2.0 */
#include "base/sys/wait.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>

#include "base/sys/clock.h"

/* Rounded up: nobody turns in vain for what is less than a millisecond. */
static int until(uint64_t deadline)
{
	uint64_t now = clock_us(), left = now < deadline ? deadline - now : 0;

	return !deadline ? -1 : left / 1000 >= INT_MAX ? INT_MAX : (int)((left + 999) / 1000);
}

int wait_fd(int fd, short events, uint64_t deadline)
{
	struct pollfd p = { .fd = fd, .events = events };
	int r;

	do
		r = poll(&p, 1, until(deadline));
	while (r < 0 && errno == EINTR);
	return r < 0 ? -errno : r == 0 ? -ETIMEDOUT : 0;
}
