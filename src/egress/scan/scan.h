/* SPDX-License-Identifier: Apache-2.0 */
/* egress/scan/scan.h - does what leaves the sandbox carry a secret?
 *
 * Token shapes (the table in shapes.h) and the exact values of the secrets of this run, in
 * every form of secret.h, looked for by vectorscan in one pass, whatever the chunks. What comes in
 * is looked at too, but never stopped for its shape: a text may mention a token.
 *
 * A body goes through struct scan: feed it as it comes, forward what is released. A tail is held
 * back, so that a secret that ends in the next chunk has not left with this one. Redaction keeps
 * the length, so framing stays as it is. struct scanner belongs to one run and one thread. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/text/err.h"
#include "egress/rules/request_head.h"
#include "egress/rules/verdict.h"
#include "egress/seek/secret.h"
#include "model/settings/leaks.h"
#include "model/settings/spec.h"

struct scanner;

enum scan_direction { SCAN_OUT, SCAN_IN };

enum scan_part { SCAN_HOST, SCAN_URL, SCAN_FIELD, SCAN_BODY };

/* One finding, for the record: never the value itself. */
struct scan_hit {
	const char *kind; /* "github-token", or "secret" */
	const char *name; /* of the known secret; NULL for a shape */
	enum scan_part part;
	enum leak_action action;
	char preview[24]; /* "ghp_...9aQz"; empty for keys and known secrets */
};

typedef void scan_report(void *context, const struct scan_hit *hit);

struct scan_options {
	const struct leak_spec *leaks;
	const struct secret *secrets; /* borrowed for the life of the scanner */
	size_t n_secrets;
	bool redact_json; /* what is blocked elsewhere is taken out of JSON, where it can be */
	scan_report *report;
	void *context;
};

int scanner_new(const struct scan_options *o, struct scanner **ret, struct err *e);
struct scanner *scanner_free(struct scanner *s);
/* The same with these secrets from now on, and what was remembered of requests. Scans that are open
 * go on with those of before; the old one is freed with the last of them, or at once. */
int scanner_renew(struct scanner **s, const struct secret *secrets, size_t n, struct err *e);
/* Somebody opens scans with it later; released as often. */
struct scanner *scanner_hold(struct scanner *s);
void scanner_release(struct scanner *s);
DEFINE_CLEANUP(scanner, struct scanner *, scanner_free)

/* The name a guest wants to reach, before anything is resolved. */
bool scan_host(struct scanner *s, const struct host *h, struct egress_verdict *v);

/* Target and fields of a request. Redacts in place (the texts of the head are replaced by copies in
 * its arena). false: blocked, *v says why. */
bool scan_head(struct scanner *s, enum scan_direction d, struct egress_head *head,
	       struct egress_verdict *v);

/* ---- bodies ---- */

struct scan;

int scan_open(struct scanner *s, enum scan_direction d, struct scan **ret, struct err *e);
struct scan *scan_close(struct scan *b); /* takes NULL; returns NULL */
DEFINE_CLEANUP(scan, struct scan *, scan_close)

/* Its bytes cannot be changed: what would be redacted is blocked. */
void scan_keep(struct scan *b);
/* Known values were taken out of it: its shapes alone are looked for. */
void scan_shapes(struct scan *b);
/* Only known values are looked for. */
void scan_values(struct scan *b);
/* The same in what comes in, where one is stopped. */
void scan_stops(struct scan *b);
/* Runs of base64 that begin like something packed, as they come; `ends`: this one is over. false:
 * *v says why not. */
typedef bool scan_run_fn(void *context, const char *p, size_t n, bool ends,
			 struct egress_verdict *v);
void scan_packed(struct scan *b, scan_run_fn *fn, void *context);
/* So many bytes behind the end of a token it has been found. */
size_t scan_hold(const struct scanner *s);

/* What may be forwarded now, in this order. The first points into the scan and is good until the
 * next call, the second into the caller's bytes. */
struct scan_release {
	struct egress_text held, data;
};

/* Looks at the next n bytes, which may be changed in place (redaction). false: blocked, forward
 * nothing more and drop the connection. With `last` nothing is held back; n may then be 0. */
bool scan_feed(struct scan *b, char *p, size_t n, bool last, struct scan_release *ret,
	       struct egress_verdict *v);
