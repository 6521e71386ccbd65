/* SPDX-License-Identifier: Apache-2.0 */
/* bench/many.c - fills a record through brig's own log, for the rows that read it.
 *
 *   bench-many DIR COUNT      prints the id of the run in the middle, and its time
 *
 * Five records a run, of five types; ids are spread evenly, as real ones are. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "audit/log.h"
#include "base/bytes/sha256.h"
#include "base/text/cleanup.h"

enum { RUN_RECORDS = 5, BATCH = 1000 };

static void run_id(uint64_t run, char out[33])
{
	unsigned char digest[SHA256_SIZE];
	char hex[SHA256_HEX];
	struct sha256 h;

	sha256_init(&h);
	sha256_add(&h, &run, sizeof(run));
	sha256_end(&h, digest);
	sha256_hex(digest, hex);
	(void)snprintf(out, 33, "%.32s", hex);
}

static void fill(struct record *r, uint64_t i)
{
	static const enum event types[RUN_RECORDS] = { EVENT_SANDBOX_CREATE, EVENT_EGRESS_ALLOW,
						       EVENT_EGRESS_DENY, EVENT_LIMIT_HIT,
						       EVENT_SANDBOX_EXEC };

	record_init(r, types[i % RUN_RECORDS]);
	r->policy = "0123456789abcdef";
	r->principal = "uid:1000";
	switch (i % RUN_RECORDS) {
	case 0:
		record_text(r, "backend", "native");
		record_text(r, "argv0", "python3");
		break;
	case 1:
	case 2:
		record_text(r, "host", i % 2 ? "api.example.org" : "evil.example.net");
		record_number(r, "port", 443);
		break;
	case 3:
		record_text(r, "limit", "memory");
		break;
	default:
		record_text(r, "backend", "native");
		record_text(r, "argv0", "python3");
		record_number(r, "rc", 0);
		record_micros(r, "duration_ms", 12500);
		record_text(r, "outcome", i % 1000 == 4 ? "timeout" : "exited");
		record_text(r, "layers",
			    "user_ns pid_ns mount_ns net_ns seccomp=default landlock=7");
	}
}

int main(int argc, char **argv)
{
	static struct record batch[BATCH];
	static char ids[BATCH][33];
	CLEANUP(log) struct log *l = NULL;
	uint64_t count = argc == 3 ? strtoull(argv[2], NULL, 10) : 0;
	struct log_options o = { .dir = argc == 3 ? argv[1] : NULL };
	struct err e = { 0 };
	char middle[33];

	if (!count || log_open(&o, &l, &e) < 0) {
		(void)fprintf(stderr, "usage: bench-many DIR COUNT\n%s\n", e.what);
		return 1;
	}
	for (uint64_t i = 0; i < count;) {
		size_t n = 0;

		for (; n < BATCH && i < count; n++, i++) {
			run_id(i / RUN_RECORDS, ids[n]);
			fill(&batch[n], i);
			batch[n].run = ids[n];
		}
		if (log_append(l, batch, n, &e) < 0) {
			(void)fprintf(stderr, "%s\n", e.what);
			return 1;
		}
	}
	run_id(count / RUN_RECORDS / 2, middle);
	(void)printf("%s\n", middle);
	return 0;
}
