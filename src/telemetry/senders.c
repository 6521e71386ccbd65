/* SPDX-License-Identifier: Apache-2.0 */
#include "telemetry/senders.h"

#include <fcntl.h>
#include <stdbool.h>
#include <time.h>

#include "base/files/state.h"
#include "base/sys/clock.h"
#include "base/text/cleanup.h"

#define FILE_NAME "senders"
#define LOOK_NS (5 * 1000 * 1000)

static bool sender_take(int fd, int which)
{
	struct flock f = { .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = which, .l_len = 1 };

	return fcntl(fd, F_OFD_SETLK, &f) == 0;
}

static bool take_any(int fd)
{
	int first = (int)(getpid() % SENDERS_MAX); /* those who come at once look elsewhere first */

	for (int i = 0; i < SENDERS_MAX; i++)
		if (sender_take(fd, (first + i) % SENDERS_MAX))
			return true;
	return false;
}

int senders_take(uint64_t wait_ms, struct err *e)
{
	const struct timespec pause = { .tv_nsec = LOOK_NS };
	uint64_t until = clock_us() + wait_ms * 1000;
	CLEANUP(fd) int dir = state_open(".", NULL, 0, e);
	CLEANUP(fd) int fd = -1;

	if (dir < 0)
		return -e->code;
	fd = openat(dir, FILE_NAME, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY, 0600);
	if (fd < 0)
		return err_sys(e, "cannot open '" FILE_NAME "' in brig's state folder");
	while (!take_any(fd)) {
		if (clock_us() >= until)
			return err_refuse(e, ERR_UNAVAILABLE, EBUSY,
					  "is the server there, and does it answer in time?",
					  "%d senders are still at work and no more are started",
					  SENDERS_MAX);
		(void)nanosleep(&pause, NULL);
	}
	return TAKE_FD(fd);
}
