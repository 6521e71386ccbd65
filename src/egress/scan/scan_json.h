/* SPDX-License-Identifier: Apache-2.0 */
/* egress/scan/scan_json.h - a JSON body through the leak scan, read as whoever parses it will read
 * it.
 *
 * What is scanned is the text with its escapes undone, so that "\nghp_..." and "\u0067hp_..." are
 * the tokens they mean. A redaction replaces whole escapes, inside one string, and keeps the
 * length: valid JSON stays valid. A match beyond the end of a string cannot be replaced and is
 * blocked. Only strings and escapes are told apart, nothing is nested or counted, so it makes no
 * difference how well the rest is formed; where it is clearly no JSON, a match outside of strings
 * is replaced as in any text. Known values are also looked for in the bytes as they are. */
#pragma once

#include "base/text/buf.h"
#include "egress/scan/scan.h"

struct json_scan;

/* `redact`: what is to be replaced may be; otherwise it is blocked. */
int json_scan_open(struct scanner *s, bool redact, struct json_scan **ret, struct err *e);
void json_scan_packed(struct json_scan *j, scan_run_fn *fn, void *context); /* as scan_packed */
struct json_scan *json_scan_close(struct json_scan *j); /* takes NULL; returns NULL */
DEFINE_CLEANUP(json_scan, struct json_scan *, json_scan_close)

/* Looks at the next n bytes and appends to out what may be forwarded now. false: blocked, or no
 * memory; forward nothing more. With `last` nothing is held back. */
bool json_scan_feed(struct json_scan *j, const char *p, size_t n, bool last, struct buf *out,
		    struct egress_verdict *v);
