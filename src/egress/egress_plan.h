/* SPDX-License-Identifier: Apache-2.0 */
/* egress/egress_plan.h - everything the door needs to know of a run, as one value that crosses a
 * pipe.
 *
 * The trusted side makes it from the spec, fetching the credentials; the worker reads it back. The
 * text holds secrets: it goes through a pipe or a sealed memfd, never to a file, and is wiped. */
#pragma once

#include "base/bytes/sha256.h"
#include "base/text/arena.h"
#include "base/text/buf.h"
#include "base/text/err.h"
#include "egress/seek/secret.h"
#include "model/settings/spec.h"

struct egress_plan {
	struct arena *arena; /* owns everything below but the values */
	struct egress_spec egress;
	struct leak_spec leaks;
	struct credentiallist credentials; /* those granted to this run */
	struct secret *secrets;            /* one for each credential, values in locked memory */
	char (*digests)[SHA256_HEX];       /* of those to be renewed; not written */
	struct secret login;               /* at egress.upstream_proxy: its user as the name, and
					      the password; empty: none */
	struct envlist client_certs;       /* a host, and what is shown to it, as PEM */
	struct secret *client_keys;        /* one for each, as PEM: the keeper's, and not written */
	uint64_t memory;                   /* bytes that connections of the worker may take */
	struct envlist members; /* the network beside the door: names and their addresses */
	struct strlist lacking; /* names that are bound by themselves and have no value */
	bool redact_json;       /* what is blocked elsewhere is taken out of a body of JSON */
	bool bind_names;        /* {NAME} of an unbound name is a misuse too (IronClaw) */
};

/* Fetches every granted credential and makes its placeholder. Blocks while a command runs. */
int egress_plan_new(const struct spec *s, char *const *envp, struct egress_plan **ret,
		    struct err *e);
void egress_plan_forget(struct egress_plan *p);              /* wipes the values */
struct egress_plan *egress_plan_free(struct egress_plan *p); /* ... first */
DEFINE_CLEANUP(egress_plan, struct egress_plan *, egress_plan_free)

int egress_plan_write(const struct egress_plan *plan, struct buf *out, struct err *e);
int egress_plan_read(const char *data, size_t n, struct egress_plan **ret, struct err *e);
