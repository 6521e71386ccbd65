/* SPDX-License-Identifier: Apache-2.0 */
#include "base/sys/wait.h"

#include <errno.h>
#include <limits.h>
#include <unistd.h>

#include "base/sys/clock.h"

/* Rounded up: nobody turns in vain for what is less than a millisecond. */
static int until(uint64_t deadline)
{
	uint64_t now, left;

	if (!deadline)
		return -1;
	now = clock_us();
	left = now < deadline ? deadline - now : 0;
	return left / 1000 >= INT_MAX ? INT_MAX : (int)((left + 999) / 1000);
}

int wait_any(struct pollfd *p, size_t n, uint64_t deadline)
{
	int r;

	do
		r = poll(p, n, until(deadline));
	while (r < 0 && errno == EINTR);
	return r < 0 ? -errno : r;
}

int wait_fd(int fd, short events, uint64_t deadline)
{
	struct pollfd p = { .fd = fd, .events = events };
	int r = wait_any(&p, 1, deadline);

	return r < 0 ? r : r == 0 ? -ETIMEDOUT : 0;
}

short wait_look(int fd, short events)
{
	struct pollfd p = { .fd = fd, .events = events };
	int r;

	do
		r = poll(&p, 1, 0);
	while (r < 0 && errno == EINTR);
	if (r < 0)
		p.revents = POLLERR;
	return p.revents;
}

ssize_t wait_read(int fd, void *p, size_t n, uint64_t deadline)
{
	while (!deadline || clock_us() < deadline) {
		int r = wait_fd(fd, POLLIN, deadline);
		ssize_t got = r < 0 ? r : read(fd, p, n);

		if (got >= 0 || r < 0)
			return got;
		if (errno != EINTR && errno != EAGAIN)
			return -errno;
	}
	return -ETIMEDOUT;
}

void wait_moment(unsigned ms)
{
	(void)poll(NULL, 0, (int)ms);
}
