/* SPDX-License-Identifier: Apache-2.0 */
/* base/sys/wait.h - wait for one descriptor, where there is no loop to do it. */
#pragma once

#include <stdint.h>

/* For events of poll, until the deadline (clock_us; 0: for ever): 0, -ETIMEDOUT or -errno. */
int wait_fd(int fd, short events, uint64_t deadline);
