/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz/fuzz_sigv4.c - lines: the value of Authorization, a host, a target, and fields: what is read
 * is what it says, and the same request has the same signature however often it is made. */
#include "fuzz.h"

#include "egress/credential/sigv4.h"

static struct egress_text line(char **text)
{
	char *at = *text, *end = strchr(at, '\n');
	size_t n = end ? (size_t)(end - at) : strlen(at);

	*text = end ? end + 1 : at + n;
	return egress_text(at, n);
}

static bool inside(struct egress_text t, struct egress_text all)
{
	return t.p >= all.p && t.p + t.n <= all.p + all.n;
}

static void signs(const struct egress_head *h, const struct sigv4_claim *c, char *out)
{
	struct buf list = BUF_INIT(1 << 16);
	struct sigv4 s = { 0 };
	struct egress_text name;
	const char *why =
		sigv4_begin(&s,
			    &(struct sigv4_request){ .head = h,
						     .host = egress_text("a.example", 9),
						     .claim = c,
						     .date = egress_text("20150830T123600Z", 16) },
			    "secret", 6, &list, &name);

	if (!why) {
		sigv4_finish(&s, "UNSIGNED-PAYLOAD", out);
		require(strlen(out) == SIGV4_DIGITS);
		require(strstr(buf_str(&list), "host"));
	}
	buf_done(&list);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = text_of(data, size), *rest = text, want[128];
	struct egress_text value = line(&rest), name = line(&rest);
	struct egress_head h = { .method = egress_text("GET", 3) };
	char one[SIGV4_DIGITS + 1] = "", two[SIGV4_DIGITS + 1] = "";
	struct sigv4_claim c;
	struct host host;

	h.target = line(&rest);
	while (*rest && h.n_fields < 8) {
		struct egress_text f = line(&rest);
		const char *colon = f.n ? memchr(f.p, ':', f.n) : NULL;
		size_t n = colon ? (size_t)(colon - f.p) : f.n;

		h.fields[h.n_fields++] =
			(struct egress_field){ egress_text(f.p, n),
					       egress_text(f.p + n + !!colon, f.n - n - !!colon) };
	}
	(void)sigv4_payload_of(name);
	if (sigv4_parse(value, &c) == SIGV4_CLAIM) {
		require(inside(c.id, value) && inside(c.date, value) && inside(c.region, value));
		require(inside(c.service, value) && inside(c.signed_fields, value));
		require(c.date.n == 8 && c.id.n && c.region.n && c.service.n);
		require(!memchr(c.id.p, '/', c.id.n));
		(void)sigv4_date(name, c.date, 0);
		if (host_parse(name, &host) == HOST_OK && sigv4_is_aws(&host))
			(void)sigv4_fits(&c, &host, want);
		signs(&h, &c, one);
		signs(&h, &c, two);
		require(strcmp(one, two) == 0);
	}
	free(text);
	return 0;
}
