/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz/fuzz_otel.c - OTEL_* lists, addresses and trace context: whatever is taken can be sent
 * without becoming something else. */
#include "fuzz.h"

#include "base/text/str.h"
#include "base/text/url.h"
#include "telemetry/otlp.h"

static void lists(const char *text)
{
	CLEANUP(arena) struct arena *a = arena_new((size_t)1 << 20);
	struct otlp_pairs p = { 0 };
	struct err e = { 0 };

	require(a != NULL);
	if (otlp_headers_parse(a, text, &p, &e) == 0)
		for (size_t i = 0; i < p.n; i++) {
			require(p.v[i].name[0] && !str_has_control(p.v[i].name));
			require(!strpbrk(p.v[i].name, ": \t") && !str_has_control(p.v[i].value));
		}
	else
		require(e.code && p.n == 0);
	if (otlp_pairs_parse(a, text, &p, &e) == 0)
		require(p.n <= OTLP_PAIRS_MAX);
}

static void parent(const char *text)
{
	struct otlp_parent p = { 0 };
	struct otlp t = { 0 };
	char back[TRACEPARENT_SIZE];

	if (!otlp_parent_parse(text, &p))
		return;
	require(p.there && strlen(text) >= TRACEPARENT_SIZE - 1);
	memcpy(t.trace, p.trace, sizeof(t.trace));
	memcpy(t.span, p.span, sizeof(t.span));
	t.sampled = p.sampled;
	otlp_traceparent(&t, back);
	require(memcmp(back + 3, text + 3, 49) == 0);
	require(otlp_parent_parse(back, &p) && p.sampled == t.sampled);
}

static void address(const char *text)
{
	struct err e = { 0 };
	struct url u;

	if (url_parse(text, &u, &e) < 0)
		return;
	require(u.host[0] && u.port && u.target[0] == '/');
	require(!strpbrk(u.target, " \r\n") && !strpbrk(u.authority, " \r\n/@"));
}

/* All of it, from an environment of one line a variable. */
static void everything(char *text)
{
	CLEANUP(arena) struct arena *a = arena_new((size_t)1 << 20);
	char *variables[32] = { 0 };
	struct otlp t = { 0 };
	struct err e = { 0 };
	size_t n = 0;
	int r;

	for (char *rest = text; rest && n + 1 < ARRAY_LEN(variables);)
		variables[n++] = strsep(&rest, "\n");
	r = otlp_open(a, variables, &t, &e);
	require(r < 0 ? e.code != 0 : r <= 1);
	if (r == 1)
		require(t.url && t.service && t.timeout_ms);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = text_of(data, size);

	lists(text);
	parent(text);
	address(text);
	everything(text);
	free(text);
	return 0;
}
