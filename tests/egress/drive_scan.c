/* SPDX-License-Identifier: Apache-2.0 */
/* drive-scan: the leak scan and the scrubber by hand, for test_spellings.py.
 *
 *   drive-scan [--plain] VALUE < TEXTS
 *
 * Each text comes with its length in front, as a decimal line. It is scrubbed and scanned whole and
 * in two pieces, cut at every place; for each a line says how many of these ways stopped it as a
 * request, how many made of it what the first did as an answer, how many there were, and what that
 * was, in hex. --plain: the search alone, without anything that reads escapes; 1 when it finds
 * something. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "egress/scan/scan.h"
#include "egress/scan/scrub.h"
#include "egress/seek/seek.h"

static struct err e;

static void must(bool ok)
{
	if (ok)
		return;
	(void)fprintf(stderr, "drive-scan: %s\n", e.what);
	exit(2);
}

static bool stop(void *context, const struct needle *n, ptrdiff_t end)
{
	(void)context;
	(void)n;
	(void)end;
	return false;
}

static bool found_plainly(const struct secret *kept, const char *text, size_t n)
{
	struct arena *a = arena_new(64 << 20);
	struct seek_text t = { .data = text, .n = n };
	struct needles needles;
	struct seek *s = NULL;
	bool found;

	must(a && needles_new(a, kept, 1, &needles, &e) == 0 && seek_new(a, &needles, &s, &e) == 0);
	found = !seek_feed(s, &t, stop, NULL);
	(void)arena_free(a);
	return found;
}

static bool is_stopped(struct scanner *s, const char *text, size_t n, size_t cut)
{
	char *copy = malloc(n + 1);
	struct scan_release r;
	struct egress_verdict v;
	struct scan *b = NULL;
	bool passed;

	must(copy && scan_open(s, SCAN_OUT, &b, &e) == 0);
	memcpy(copy, text, n);
	passed = scan_feed(b, copy, cut, false, &r, &v) &&
		 scan_feed(b, copy + cut, n - cut, true, &r, &v);
	b = scan_close(b);
	free(copy);
	return !passed;
}

static void scrubbed(struct scrubber *s, const char *text, size_t n, size_t cut, struct buf *out)
{
	struct scrub *b = NULL;

	must(scrub_open(s, NULL, NULL, &b, &e) == 0 &&
	     scrub_feed(b, text, cut, false, out, &e) == 0 &&
	     scrub_feed(b, text + cut, n - cut, true, out, &e) == 0);
	b = scrub_close(b);
}

static void try_all(struct scanner *scanner, struct scrubber *scrubber, const char *text, size_t n)
{
	struct buf first = BUF_INIT((size_t)1 << 20);
	size_t stopped = 0, same = 0;

	scrubbed(scrubber, text, n, 0, &first);
	for (size_t cut = 0; cut <= n; cut++) {
		struct buf out = BUF_INIT((size_t)1 << 20);

		stopped += is_stopped(scanner, text, n, cut);
		scrubbed(scrubber, text, n, cut, &out);
		same += out.len == first.len && memcmp(out.data, first.data, out.len) == 0;
		buf_done(&out);
	}
	(void)printf("%zu %zu %zu ", stopped, same, n + 1);
	for (size_t i = 0; i < first.len; i++)
		(void)printf("%02x", (unsigned char)first.data[i]);
	(void)printf("\n");
	buf_done(&first);
}

int main(int argc, char **argv)
{
	bool plain = argc > 2 && strcmp(argv[1], "--plain") == 0;
	const char *value = argv[argc - 1];
	struct leak_spec leaks = { .scan = true };
	struct secret kept = {
		.name = "K", .value = value, .len = strlen(value), .placeholder = "brig-SCRUBBED"
	};
	struct scan_options o = { .leaks = &leaks, .secrets = &kept, .n_secrets = 1 };
	struct scrubber *scrubber = NULL;
	struct scanner *scanner = NULL;
	char line[32];

	must(scanner_new(&o, &scanner, &e) == 0);
	must(scrubber_new(&kept, 1, false, &scrubber, &e) == 0);
	while (fgets(line, sizeof(line), stdin)) {
		size_t n = strtoul(line, NULL, 10);
		char *text = malloc(n + 1);

		must(text && fread(text, 1, n, stdin) == n);
		if (plain)
			(void)printf("%d\n", found_plainly(&kept, text, n));
		else
			try_all(scanner, scrubber, text, n);
		free(text);
	}
	(void)scrubber_free(scrubber);
	(void)scanner_free(scanner);
	return 0;
}
