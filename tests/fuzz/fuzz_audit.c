/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz/fuzz_audit.c - lines and heads of the record are taken apart or refused; whatever text goes
 * into a record comes out as one genuine line, and nothing shows behind the name of a secret. */
#include "fuzz.h"

#include "audit/head.h"
#include "audit/record.h"
#include "audit/redact.h"
#include "base/text/str.h"

static void take_apart(const char *p, size_t n)
{
	struct line l;
	uint64_t us;

	if (line_parse(p, n, &l) < 0)
		return;
	require(l.signed_n < n && l.body >= p && l.body + l.body_n <= p + l.signed_n);
	require(l.type >= l.body && l.type + l.type_n <= l.body + l.body_n);
	require(record_time_parse(memchr(p, 'T', n) - 10, RECORD_TIME_SIZE - 1, &us) == 0);
	require(us == l.at.time_us);
}

/* A head that is accepted is one that head_format writes, to the last blank. */
static void take_head(const char *p, size_t n, const struct audit_key *k)
{
	struct head h, again;
	char slot[HEAD_SLOT];

	if (head_parse_line(p, n, NULL, &h) < 0)
		return;
	head_format(&h, k, slot);
	require(head_parse(slot, k, &again) == 0 && again.seq == h.seq &&
		again.offset == h.offset && again.segment == h.segment);
	if (head_parse_line(p, n, k, &again) == 0)
		require(memcmp(p, slot, n) == 0);
}

static void write_down(const char *text, const struct audit_key *k)
{
	struct buf body = BUF_INIT(1 << 20), out = BUF_INIT(1 << 20);
	struct record_link at = { .seq = 1 };
	unsigned char mac[32];
	struct record r;
	struct line l;

	record_init(&r, EVENT_SANDBOX_EXEC);
	record_text(&r, "argv0", text);
	record_list(&r, "argv", (const char *const[]){ text, "x", NULL });
	record_body(&r, k, &body);
	record_line(&at, body.data, body.len, k, &out, mac);
	require(!out.failed && out.len < RECORD_LINE_MAX);
	require(memchr(out.data, '\n', out.len) == out.data + out.len - 1);
	for (size_t i = 0; i + 1 < out.len; i++)
		require((unsigned char)out.data[i] >= 0x20 && out.data[i] != 0x7f);
	require(line_parse(out.data, out.len - 1, &l) == 0 && line_genuine(out.data, &l, k));
	buf_done(&body);
	buf_done(&out);
}

/* What follows the name is out of sight to the next blank or mark, unless one comes first. A block
 * of a key has an end of its own. */
static void hide(const char *text, size_t n, const struct audit_key *k)
{
	static const char *const names[] = { "password: ", "client_secret=", "Authorization: ",
					     "X-Api-Key: ", "TOKEN=" };
	char *all = malloc(n + 32), clean[RECORD_TEXT_MAX];

	require(all);
	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		size_t m = strlen(names[i]);

		memcpy(all, names[i], m);
		memcpy(all + m, text, n);
		if (n && (unsigned char)*text > ' ' && !strchr("\"'\\&;,-", *text)) {
			size_t len = redact(k, all, m + n, clean, sizeof(clean));
			const char *end = memchr(clean, ']', len);

			require(memcmp(clean + m, "[redacted:", 10) == 0 && end++);
			require(end == clean + len || (unsigned char)*end <= ' ' ||
				strchr("\"'&;,", *end));
		}
	}
	free(all);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const unsigned char raw[KEY_SIZE] = { 7 };
	char *text = text_of(data, size), clean[RECORD_TEXT_MAX];
	struct audit_key k;
	size_t n;

	key_init(&k, raw);
	take_apart(text, size);
	take_head(text, size, &k);
	n = redact(&k, text, size, clean, sizeof(clean));
	require(n <= sizeof(clean));
	hide(text, size, &k);
	write_down(text, &k);
	free(text);
	return 0;
}
