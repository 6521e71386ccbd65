/* SPDX-License-Identifier: Apache-2.0 */
/* egress/scan/scan_runs.c - where a run of base64 in a text begins like something packed. */
#include "egress/scan/scan_internal.h"

/* Of gzip, zip, bzip2, xz, zstd and zlib, in both alphabets. */
const char *const scan_signs[SCAN_SIGNS] = { "H4sI", "UEsDB", "Qlpo", "/Td6WFoA", "_Td6WFoA",
					     "KLUv", "eJw",   "eNo",  "eNq",      "eAE" };

static bool is_sixty_four(char c)
{
	return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') ||
	       c == '+' || c == '/' || c == '-' || c == '_';
}

/* From `at` on, as far as it goes in this piece; ends of lines are in it. */
static bool runs_feed(struct scan *b, size_t at)
{
	size_t end = at;
	bool ends;

	while (end < b->n &&
	       (is_sixty_four(b->data[end]) || b->data[end] == '\r' || b->data[end] == '\n'))
		end++;
	ends = end < b->n || b->last;
	b->run_open = !ends;
	b->run_until = b->base + (int64_t)end;
	return b->on_run(b->run_context, b->data + at, end - at, ends, b->verdict);
}

bool scan_runs_go_on(struct scan *b)
{
	if (!b->on_run || !b->run_open)
		return true;
	if (!runs_feed(b, 0)) {
		b->blocked = true;
		return false;
	}
	return true;
}

bool scan_run_begins(struct scan *b, size_t sign, int64_t start)
{
	const char *literal = scan_signs[sign], *win = b->win[b->which];
	int64_t before = start - 1;
	char c = '\0';

	if (!b->on_run || b->run_open || start < b->run_until)
		return true;
	if (before >= b->base)
		c = b->data[before - b->base];
	else if (before >= scan_first(b))
		c = win[(int64_t)b->win_n - (b->base - before)];
	if (is_sixty_four(c) && c != '/' && c != '-')
		return true;
	/* Its first signs may have come with the last piece. */
	if (start < b->base &&
	    !b->on_run(b->run_context, literal, (size_t)(b->base - start), false, b->verdict)) {
		b->blocked = true;
		return false;
	}
	if (!runs_feed(b, start < b->base ? 0 : (size_t)(start - b->base))) {
		b->blocked = true;
		return false;
	}
	return true;
}

void scan_packed(struct scan *b, scan_run_fn *fn, void *context)
{
	b->on_run = fn;
	b->run_context = context;
}
