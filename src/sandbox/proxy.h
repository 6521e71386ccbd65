/* SPDX-License-Identifier: Apache-2.0 */
/* sandbox/proxy.h - the door alone, for programs that are not in a sandbox: an HTTP and SOCKS5
 * proxy on loopback with the same worker, rules and record. It holds only who asks it. */
#pragma once

#include <stdint.h>

#include "model/outcome/outcome.h"
#include "model/settings/spec.h"
#include "sandbox/sandbox.h"

/* Called once, when it listens: the port, and the authority that its clients must trust. */
typedef int proxy_ready_fn(void *arg, uint16_t port, const char *authority, struct err *e);

/* Serves until something can be read from `signals` (0), or the door is lost. Credentials come from
 * envp where they come from variables. *o counts; its denials
 * are told to `denied` as they happen. `own` is a listening Unix socket, borrowed, for requests of
 * brig's own (DOOR_OWN) in place of a port; -1: none. */
int proxy_run(const struct spec *s, char *const *envp, int own, int signals, proxy_ready_fn *ready,
	      note_fn *denied, void *arg, struct outcome *o, struct err *e);
