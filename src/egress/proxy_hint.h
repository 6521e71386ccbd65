/* SPDX-License-Identifier: Apache-2.0 */
/* egress/proxy_hint.h - the proxy that the caller's environment names, for whoever has to be told
 * of egress.upstream_proxy. Nothing is reached by way of it: what a variable says is no setting.
 * Pure. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

enum { PROXY_HINT_SIZE = 448 };

/* What to set, without user and password. false: no variable of it is set. */
bool proxy_hint(char *const *envp, char out[PROXY_HINT_SIZE]);
