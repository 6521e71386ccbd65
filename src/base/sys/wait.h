/* SPDX-License-Identifier: Apache-2.0 */
/* base/sys/wait.h - wait for descriptors or for time, where there is no loop to do it.
 *
 * A deadline is a time of clock_us, most often clock_after(ms); 0: none. No signal ends a wait: who
 * heeds one has a descriptor of it. An error of the kernel's is in errno as well. Safe between
 * clone and exec. */
#pragma once

#include <poll.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* For one descriptor: 0, -ETIMEDOUT or -errno. */
int wait_fd(int fd, short events, uint64_t deadline);

/* For any of several: how many, 0 when the time is over, or -errno. */
int wait_any(struct pollfd *p, size_t n, uint64_t deadline);

/* What is there now, without waiting: revents; 0: nothing, or fd is -1. */
short wait_look(int fd, short events);

/* Reads what comes next: how many bytes; 0: the end; -ETIMEDOUT, however much more there is; or
 * -errno. */
ssize_t wait_read(int fd, void *p, size_t n, uint64_t deadline);

/* Lets so much time go by, or less where a signal comes. */
void wait_moment(unsigned ms);
