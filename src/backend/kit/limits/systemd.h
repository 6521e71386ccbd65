/* SPDX-License-Identifier: Apache-2.0 */
/* backend/kit/limits/systemd.h - asks the caller's own service manager (systemd --user) for a
 * scope: a cgroup that it makes, hands over, and removes once the last process in it is gone.
 *
 * The words are those of systemd-run --user --scope, said directly: two D-Bus calls on the socket
 * that program uses too. Nothing in the environment is believed: the socket lies below
 * /run/user/UID, which must be the caller's alone, and so must be whoever listens there. Every call
 * ends at its deadline (base/sys/clock.h), whatever the manager does. */
#pragma once

#include <stdint.h>
#include <sys/types.h>

#include "base/text/err.h"

/* Returns a descriptor, -ENOENT where no manager listens, or another -errno with *e. `folder` is
 * for tests; NULL: /run/user/UID. Nothing is sent yet. */
int manager_open(const char *folder, struct err *e);

/* A new scope of that name with the process in it, delegated. The manager has accepted it when this
 * returns, and moves the process soon. Once for a descriptor. */
int manager_start_scope(int fd, const char *unit, pid_t pid, uint64_t deadline, struct err *e);

/* Moves a process of the caller's from wherever it is to `sub` ("/name") below the scope. */
int manager_attach(int fd, const char *unit, const char *sub, pid_t pid, uint64_t deadline,
		   struct err *e);
