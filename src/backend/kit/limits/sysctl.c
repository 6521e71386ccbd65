/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/kit/limits/sysctl.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/files/fd.h"

#define WATCHES_MAX 65536UL /* about a KiB of the kernel's memory each */

/* The host's user pays for them as well: a quarter of what it may have is the guest's. */
static unsigned long inotify_watches(int procfd)
{
	char text[24];
	unsigned long most;

	if (fd_read_file(procfd, "sys/fs/inotify/max_user_watches", text, sizeof(text)) <= 0)
		return WATCHES_MAX;
	most = strtoul(text, NULL, 10) / 4;
	return most < WATCHES_MAX ? most : WATCHES_MAX;
}

void sysctl_user_limits(int procfd)
{
	char watches[24];

	(void)snprintf(watches, sizeof(watches), "%lu", inotify_watches(procfd));
	(void)fd_write_file(procfd, "sys/user/max_inotify_instances", "64");
	(void)fd_write_file(procfd, "sys/user/max_inotify_watches", watches);
}
