/* SPDX-License-Identifier: Apache-2.0 */
/* bench/scan.c - the leak scan, the scrubber and one decision, each alone on one core.
 *
 * Prints lines of "NAME FIGURE UNIT". Time is this process's own CPU time: on a busy machine the
 * clock on the wall measures the neighbours. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "egress/credential/cred.h"
#include "egress/rules/allow.h"
#include "egress/scan/scan.h"
#include "egress/scan/scrub.h"

#define TOTAL ((size_t)64 << 20)
#define CHUNK 16384
#define SECRETS 10
#define ROUNDS 5

static double now(void)
{
	struct timespec t;

	(void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void must(bool ok, const char *what)
{
	if (!ok) {
		(void)fprintf(stderr, "bench-scan: %s\n", what);
		exit(1);
	}
}

static unsigned next(unsigned *x)
{
	*x = *x * 1103515245 + 12345;
	return *x >> 16;
}

/* Rows of an API's answer; one in eight has a word with the beginning of a token in it. */
#define ROW(text)                                                                                  \
	"{\"id\": 48213, \"name\": \"a value of some length\", \"url\": "                          \
	"\"https://api.example.org/v1/12\","                                                       \
	" \"text\": \"" text                                                                       \
	"\", \"etag\": \"9f86d081884c7d65\", \"at\": \"2026-01-01T10:20:30Z\","                    \
	" \"ok\": true, \"tags\": [\"a\", \"b\"]},\n"
#define PLAIN ROW("the quick brown fox jumps over the lazy dog and comes back again")
static const char json[] = PLAIN PLAIN PLAIN ROW("a task-runner") PLAIN PLAIN PLAIN PLAIN;

static void fill(char *data, const char *kind)
{
	static const char signs[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	unsigned x = 1;

	for (size_t i = 0; i < TOTAL; i++)
		data[i] = *kind == 'j'   ? json[i % (sizeof(json) - 1)]
			  : *kind == 'r' ? (char)next(&x)
					 : (i % 77 == 76 ? '\n' : signs[next(&x) & 63]);
}

static double scan_once(struct scanner *s, char *data, enum scan_direction d)
{
	struct scan_release r;
	struct egress_verdict v;
	struct scan *b = NULL;
	struct err e;
	double from = now();

	must(scan_open(s, d, &b, &e) == 0, e.what);
	for (size_t i = 0; i < TOTAL; i += CHUNK)
		must(scan_feed(b, data + i, CHUNK, i + CHUNK == TOTAL, &r, &v), v.what);
	b = scan_close(b);
	return (double)TOTAL / (now() - from) / 1e9;
}

static double scrub_once(struct scrubber *s, const char *data)
{
	struct buf out = BUF_INIT(2 * CHUNK);
	struct scrub *b = NULL;
	struct err e;
	double from = now();

	must(scrub_open(s, NULL, NULL, &b, &e) == 0, e.what);
	for (size_t i = 0; i < TOTAL; i += CHUNK) {
		out.len = 0;
		must(scrub_feed(b, data + i, CHUNK, false, &out, &e) == 0, e.what);
	}
	b = scrub_close(b);
	buf_done(&out);
	return (double)TOTAL / (now() - from) / 1e9;
}

static void show(const char *name, double best, const char *unit)
{
	(void)printf("%s %.3f %s\n", name, best, unit);
}

/* What the machine does meanwhile: a sum of every byte, each waiting for the one before it. */
static double sum_once(const char *data)
{
	uint64_t h = 1469598103934665603ULL;
	double from = now();

	for (size_t i = 0; i < TOTAL; i++)
		h = (h ^ (unsigned char)data[i]) * 1099511628211ULL;
	must(h != 0, "a sum");
	return (double)TOTAL / (now() - from) / 1e9;
}

static void streams(const struct secret *secrets, const struct leak_spec *leaks, const char *only)
{
	static const char *const kinds[] = { "json", "random", "base64" };
	struct scan_options o = { .leaks = leaks, .secrets = secrets, .n_secrets = SECRETS };
	char *data = malloc(TOTAL), name[64];
	struct scrubber *scrubber = NULL;
	struct scanner *scanner = NULL;
	double from = now(), sum = 0;
	struct err e;

	must(data != NULL, "no memory");
	must(scanner_new(&o, &scanner, &e) == 0, e.what);
	show("compile", (now() - from) * 1e3, "ms");
	must(scrubber_new(secrets, SECRETS, false, &scrubber, &e) == 0, e.what);
	fill(data, "json");
	for (int i = 0; i < ROUNDS; i++) {
		double a = sum_once(data);

		sum = a > sum ? a : sum;
	}
	show("sum", sum, "GB/s");
	for (size_t k = 0; k < 3; k++) {
		double scan = 0, scrub = 0;

		if (only && strcmp(only, kinds[k]) != 0)
			continue;
		fill(data, kinds[k]);
		for (int i = 0; i < ROUNDS; i++) {
			double a = scan_once(scanner, data, SCAN_OUT),
			       b = scrub_once(scrubber, data);

			scan = a > scan ? a : scan;
			scrub = b > scrub ? b : scrub;
		}
		(void)snprintf(name, sizeof(name), "scan-%s", kinds[k]);
		show(name, scan, "GB/s");
		(void)snprintf(name, sizeof(name), "scrub-%s", kinds[k]);
		show(name, scrub, "GB/s");
	}
	(void)scrubber_free(scrubber);
	(void)scanner_free(scanner);
	free(data);
}

/* One small request through everything that decides: rules, leak scan, credentials. */
static void requests(struct spec *s, const struct credentiallist *list,
		     const struct secret *secrets)
{
	static const char *const sample[][2] = {
		{ "Host", "api.example.org" },          { "User-Agent", "python-requests/2.31" },
		{ "Accept", "application/json" },       { "Accept-Encoding", "gzip, deflate" },
		{ "Connection", "keep-alive" },         { "Authorization", "Bearer {KEY}" },
		{ "Content-Type", "application/json" },
	};
	struct scan_options o = { .leaks = &s->leaks, .secrets = secrets, .n_secrets = SECRETS };
	struct egress_rules *rules = NULL;
	struct scanner *scanner = NULL;
	struct creds *creds = NULL;
	enum { N = 20000 };
	struct err e;
	double from;

	must(egress_rules_new(&s->egress, &rules, &e) == 0, e.what);
	must(scanner_new(&o, &scanner, &e) == 0, e.what);
	must(creds_new(list, secrets, false, &creds, &e) == 0, e.what);
	from = now();
	for (int i = 0; i < N; i++) {
		struct egress_head h = { .arena = arena_new(65536) };
		struct egress_verdict v;
		struct egress_request q = { .via = EGRESS_VIA_TLS, .port = 443 };
		struct cred_target to = { .port = 443, .verified = true };
		uint64_t used;

		q.host = q.sni = q.tunnel = egress_text("api.example.org", 15);
		q.method = h.method = egress_text("GET", 3);
		q.target = h.target = egress_text("/v1/items?page=2", 16);
		for (h.n_fields = 0; h.n_fields < 7; h.n_fields++)
			h.fields[h.n_fields] = (struct egress_field){
				egress_text(sample[h.n_fields][0], strlen(sample[h.n_fields][0])),
				egress_text(sample[h.n_fields][1], strlen(sample[h.n_fields][1]))
			};
		must(h.arena && egress_decide(rules, &q, &v), "decide");
		to.host = &v.host;
		must(scan_head(scanner, SCAN_OUT, &h, &v), "scan");
		must(cred_apply(creds, &to, &h, &used, &v) && used, "credentials");
		(void)arena_free(h.arena);
	}
	show("request", (now() - from) / N * 1e6, "us");
	(void)creds_free(creds);
	(void)scanner_free(scanner);
	(void)egress_rules_free(rules);
}

/* With the name of a kind of text that one alone. */
int main(int argc, char **argv)
{
	static char values[SECRETS][48];
	struct secret secrets[SECRETS];
	const char *hosts[] = { "api.example.org" };
	struct credential_spec spec = { .name = "KEY",
					.field = "Authorization",
					.prefix = "Bearer " };
	struct credentiallist list = { &spec, 1 };
	unsigned x = 7;
	struct err e;
	struct spec *s = spec_new(&e);

	must(s != NULL, "no memory");
	for (size_t i = 0; i < SECRETS; i++) {
		for (size_t k = 0; k < 40; k++)
			values[i][k] = "ABCDEFGHIJKLMNOPabcdefghijklmnop"[next(&x) & 31];
		secrets[i] = (struct secret){ .name = "KEY", .value = values[i], .len = 40 };
	}
	spec.hosts = (struct strlist){ hosts, 1 };
	must(spec_set(s, FIELD_EGRESS_ALLOW, "api.example.org", ORIGIN_FLAG, &e) == 0, e.what);
	for (size_t i = 0; i < 7; i++)
		must(spec_set(s, FIELD_EGRESS_GROUPS,
			      (const char *[]){ "pypi", "npm", "crates", "go", "docs", "git",
						"build" }[i],
			      ORIGIN_FLAG, &e) == 0,
		     e.what);
	streams(secrets, &s->leaks, argc > 1 ? argv[1] : NULL);
	requests(s, &list, secrets);
	(void)spec_free(s);
	return 0;
}
