/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz/fuzz_manager.c - what a service manager says to brig's two calls. */
#include "fuzz.h"

#include <sys/socket.h>
#include <unistd.h>

#include "backend/kit/limits/systemd.h"
#include "base/files/fd.h"
#include "base/sys/clock.h"

#define INPUT_MAX ((size_t)1 << 16) /* less than a socket takes at once */
#define SECOND 1000000

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct err e = { 0 };
	int pair[2];

	if (size > INPUT_MAX ||
	    socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) < 0)
		return 0;
	require(fd_write_all(pair[1], data, size) == 0);
	require(shutdown(pair[1], SHUT_WR) == 0);
	if (manager_start_scope(pair[0], "brig-x.scope", 1, clock_us() + SECOND, &e) == 0)
		(void)manager_attach(pair[0], "brig-x.scope", "/x", 1, clock_us() + SECOND, &e);
	require(!e.code || e.what[0]);
	(void)close(pair[0]);
	(void)close(pair[1]);
	return 0;
}
