/* SPDX-License-Identifier: Apache-2.0 */
/* drive-corpus: what the leak scan says of uploads, for test_benign.py.
 *
 *   drive-corpus < PATHS
 *
 * Each file, up to 16 MiB of it, is a body; one whose name ends in .json or .ipynb is JSON. What is
 * found in it is a line: the action, the kind, the preview, the path. The last line has how many
 * files and bytes there were. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "egress/scan/scan.h"
#include "egress/scan/scan_json.h"

#define MOST ((size_t)16 << 20)
#define PIECE 65536

static struct err e;
static char path[8192];

static void must(bool ok)
{
	if (ok)
		return;
	(void)fprintf(stderr, "drive-corpus: %s\n", e.what);
	exit(2);
}

static void tell(void *context, const struct scan_hit *hit)
{
	static const char *const actions[] = { "off", "warn", "redact", "block" };

	(void)context;
	(void)printf("%s %s %s %s\n", actions[hit->action], hit->kind,
		     *hit->preview ? hit->preview : "-", path);
}

static bool ends_in(const char *text, const char *end)
{
	size_t n = strlen(text), k = strlen(end);

	return n >= k && strcmp(text + n - k, end) == 0;
}

static void as_text(struct scanner *s, char *p, size_t n)
{
	struct scan_release r;
	struct egress_verdict v;
	struct scan *b = NULL;
	bool ok = true;

	must(scan_open(s, SCAN_OUT, &b, &e) == 0);
	for (size_t at = 0; ok && at < n; at += PIECE) {
		size_t k = n - at < PIECE ? n - at : PIECE;

		ok = scan_feed(b, p + at, k, at + k == n, &r, &v);
	}
	(void)scan_close(b);
}

static void as_json(struct scanner *s, const char *p, size_t n)
{
	struct json_scan *j = NULL;
	struct egress_verdict v;
	bool ok = true;

	must(json_scan_open(s, true, &j, &e) == 0);
	for (size_t at = 0; ok && at < n; at += PIECE) {
		size_t k = n - at < PIECE ? n - at : PIECE;
		struct buf out = BUF_INIT((size_t)1 << 20);

		ok = json_scan_feed(j, p + at, k, at + k == n, &out, &v);
		buf_done(&out);
	}
	(void)json_scan_close(j);
}

int main(void)
{
	static const struct leak_spec leaks = { .scan = true };
	struct scan_options o = { .leaks = &leaks, .redact_json = true, .report = tell };
	unsigned long files = 0, bytes = 0;
	struct scanner *s = NULL;
	char *room = malloc(MOST);

	must(room && scanner_new(&o, &s, &e) == 0);
	while (fgets(path, sizeof(path), stdin)) {
		FILE *f;
		size_t n;

		path[strcspn(path, "\n")] = '\0';
		f = fopen(path, "rbe");
		if (!f)
			continue;
		n = fread(room, 1, MOST, f);
		(void)fclose(f);
		files++;
		bytes += n;
		if (n && (ends_in(path, ".json") || ends_in(path, ".ipynb")))
			as_json(s, room, n);
		else if (n)
			as_text(s, room, n);
	}
	(void)printf("files %lu bytes %lu\n", files, bytes);
	(void)scanner_free(s);
	free(room);
	return 0;
}
