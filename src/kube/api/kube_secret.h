/* SPDX-License-Identifier: Apache-2.0 */
/* kube/api/kube_secret.h - the credentials that speakers are given, kept fresh.
 *
 * Of brig-kube itself, which reads files and runs plugins, and never a byte of the network's. A
 * token's file, and a certificate's, is read again once a minute; a plugin runs again shortly
 * before what it gave expires. When the server has refused what was given, everything is made anew
 * at once, but not more than once a second. */
#pragma once

#include "kube/api/kubeconfig.h"

/* All a speaker needs to know; "" where there is none. */
struct kube_secret {
	const char *server, *tls_name;
	const char *ca, *cert, *key, *token;
};

#define KUBE_SECRET_MARK "brig-kube secret 1"
void kube_secret_fields(struct parcel *p, struct kube_secret *s);

struct kube_keeper;

/* The configuration and b are borrowed. Nothing is read yet. */
struct kube_keeper *kube_keeper_new(const struct kube_config *c, const struct kube_begin *b);
struct kube_keeper *kube_keeper_free(struct kube_keeper *k);

/* Borrowed until the next call; a plugin may take ten seconds. *serial is another one whenever
 * they are. `refused` is the serial of those that the server did not take; 0: none. */
int kube_keeper_get(struct kube_keeper *k, uint64_t refused, const struct kube_secret **ret,
		    uint64_t *serial, struct err *e);
