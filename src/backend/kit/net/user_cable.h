/* SPDX-License-Identifier: Apache-2.0 */
/* backend/kit/net/user_cable.h - the cable of a router where there is no engine: pasta (package
 * passt), or slirp4netns for root, which carry a device's packets out as connections of the
 * caller's own.
 *
 * They need no privilege, and /dev/net/tun. What they would give away of the host by themselves
 * (its loopback, its resolver, ports in both directions) is switched off; that the rest of what is
 * near is closed is the router's to see to. */
#pragma once

#include <stddef.h>

#include "backend/kit/net/router.h"

#define USER_CABLE "tap0"
enum { USER_CABLE_ARGS = 32, USER_CABLE_MTU = 1500 };

struct user_cable {
	pid_t pid; /* 0: none */
	int pidfd;
};

/* Which of them would be used; its path is static. Refuses by name where there is none, or no
 * device that the caller may open. */
int user_cable_find(const char **path, struct err *e);

/* Its argument vector, for a process that is in the router's namespaces; NULL-terminated. */
void user_cable_argv(const char *path, const char *pid, const char *argv[USER_CABLE_ARGS]);

/* The sandbox's address and its gateway, which both know; the index is not known yet. */
struct router_cable user_cable_ends(void);

/* Starts it for the namespaces behind `user` and `net`, to which `rtnl` speaks, and waits for its
 * device; c->index is set then. It dies with us. */
int user_cable_start(int user, int net, int rtnl, struct router_cable *c, struct user_cable *ret,
		     struct err *e);
void user_cable_stop(struct user_cable *u);
