/* SPDX-License-Identifier: Apache-2.0 */
/* daemon/service.h - what a service manager hands over and wants to hear: sd_listen_fds(3) and
 * sd_notify(3), both of which are a few bytes. */
#pragma once

/* A listening Unix socket that was handed over; -1: none. */
int service_socket(void);
void service_notify(const char *text); /* "READY=1"; nothing where nobody listens */
