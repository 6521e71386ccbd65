/* SPDX-License-Identifier: Apache-2.0 */
/* kube/api/kube_plugin.h - credentials that a program prints (client.authentication.k8s.io).
 *
 * It runs as the user, with a fixed environment and what the kubeconfig's `env` adds, without a
 * terminal, in a session of its own, for ten seconds; then it and its session are killed. */
#pragma once

#include <stdint.h>

#include "base/text/arena.h"
#include "base/text/err.h"
#include "kube/api/kubeconfig.h"

enum { KUBE_PLUGIN_MS = 10000, KUBE_PLUGIN_MAX = 256 << 10 };

/* Either a token or a pair of PEM texts; in the arena. */
struct kube_given {
	const char *token, *cert, *key;
	int64_t expires; /* seconds since 1970; 0: never, as far as it says */
};

int kube_plugin_run(struct arena *a, const struct kube_config *c, const char *ca,
		    const struct kube_begin *b, struct kube_given *ret, struct err *e);

/* What it printed. */
int kube_plugin_read(struct arena *a, const char *version, const char *text, size_t n,
		     struct kube_given *ret, struct err *e);
