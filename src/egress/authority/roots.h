/* SPDX-License-Identifier: Apache-2.0 */
/* egress/authority/roots.h - whom the door believes upstream: the host's certificates and further
 * ones.
 *
 * The files are read before the lockdown and kept as text. Nothing is parsed until a chain asks for
 * an issuer, and then only the certificate with that subject: loading a system's 150 roots takes
 * thirty times as long as starting a sandbox. */
#pragma once

#include "base/text/cleanup.h"
#include "base/text/err.h"
#include "model/settings/spec.h"
#include "wire/tls.h"

struct roots;

int roots_new(const struct strlist *further, struct roots **ret, struct err *e);
struct roots *roots_free(struct roots *r);
DEFINE_CLEANUP(roots, struct roots *, roots_free)

/* A client that verifies the chain, the dates and the name; NULL without memory. */
SSL *roots_client(struct roots *r, const char *name, bool h2);
