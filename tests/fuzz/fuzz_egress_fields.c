/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz/fuzz_egress_fields.c - lines: settings, then behind an empty line the target, a cookie and
 * the name of a field of one request to a host with a credential. What passes holds no key: neither
 * as it stands nor with its name written in another way. */
#include "fuzz.h"

#include <stdio.h>

#include "egress/credential/cred.h"
#include "egress/rules/field_list.h"
#include "egress/rules/head_fields.h"
#include "model/settings/spec_lists.h"

static const char *const host_text[] = { "api.example.org" };

static char *line(char **at)
{
	char *p = *at, *end = p ? strchr(p, '\n') : NULL;

	*at = end ? end + 1 : NULL;
	if (end)
		*end = '\0';
	return p;
}

/* Between two separators: a name that takes a key has nothing behind its '='. */
static void no_key_in(const char *p, size_t n, const struct field_list *free_ones)
{
	static const struct host host = { 15, "api.example.org" };
	const char *eq = memchr(p, '=', n);
	struct egress_text name = egress_text(p, eq ? (size_t)(eq - p) : n);
	char escaped[3 * 64 + 1];

	if (!eq || eq + 1 == p + n || field_list_has(free_ones, &host, name, true))
		return;
	require(!parameter_takes_key(name));
	if (name.n > 64 || memchr(p, '%', name.n))
		return;
	for (size_t i = 0; i < name.n; i++)
		(void)snprintf(escaped + 3 * i, 4, "%%%02x", (unsigned char)name.p[i]);
	require(!parameter_takes_key(egress_text(escaped, 3 * name.n)));
}

static void passed(const struct egress_head *h, const struct field_list *free_ones)
{
	const char *query = h->target.n ? memchr(h->target.p, '?', h->target.n) : NULL,
		   *end = h->target.p + h->target.n;

	for (const char *p = query ? query + 1 : end; p < end;) {
		size_t n = 0;

		while (p + n < end && p[n] != '&' && p[n] != ';')
			n++;
		no_key_in(p, n, free_ones);
		p += n + 1;
	}
}

static void apply(struct arena *a, const struct strlist *settings, char *at)
{
	char *target = line(&at), *cookie = line(&at), *name = line(&at);
	struct credential_spec c = { .name = "T",
				     .field = "X-Own",
				     .prefix = "",
				     .hosts = { (const char **)(uintptr_t)host_text, 1 } };
	const struct secret secret = { .name = "T",
				       .value = "a value of some length",
				       .len = 22,
				       .placeholder = "brig-0123456789abcdefghijklmnopqrstuv" };
	const struct host host = { 15, "api.example.org" };
	const struct cred_target to = { .host = &host, .port = 443, .verified = true };
	struct egress_head h = { .arena = a, .method = { "GET", 3 }, .n_fields = 2 };
	struct field_list free_ones = { 0 };
	struct creds *creds = NULL;
	struct egress_verdict v;
	uint64_t used;
	struct err e;

	if (!name || !*name || target[0] != '/')
		return;
	c.delayed = true;
	require(creds_new(&(struct credentiallist){ &c, 1 }, &secret, false, &creds, &e) == 0);
	if (creds_other_keys(creds, settings, &e) == 0 &&
	    field_list_read(a, settings, true, &free_ones, &e) == 0) {
		h.target = egress_text(target, strlen(target));
		h.fields[0] = (struct egress_field){ { "Cookie", 6 }, { cookie, strlen(cookie) } };
		h.fields[1] = (struct egress_field){ { name, strlen(name) }, { "x", 1 } };
		v.host = host;
		if (cred_apply(creds, &to, &h, &used, &v))
			passed(&h, &free_ones);
		else
			require(v.what[0]);
		require(h.n_fields <= 2);
	}
	(void)creds_free(creds);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct arena *a = arena_new((size_t)8 << 20);
	struct strlist settings = { 0 };
	char *text = text_of(data, size), *at = text, *p;
	struct err e;

	require(a != NULL);
	while ((p = line(&at)) && *p)
		require(list_add_string(a, &settings, p, &e) == 0);
	if (size < 1 << 15)
		apply(a, &settings, at);
	free(text);
	(void)arena_free(a);
	return 0;
}
