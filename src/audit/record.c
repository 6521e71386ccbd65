/* SPDX-License-Identifier: Apache-2.0 */
#include "audit/record.h"

#include <assert.h>
#include <string.h>

#include "base/bytes/hex.h"
#include "audit/redact.h"
#include "base/bytes/json.h"
#include "base/text/str.h"

#define LIST_BYTES_MAX 8192
#define TAIL_PREV ",\"prev\":\""
#define TAIL_MAC ",\"mac\":\""
#define MAC_HEX ((size_t)2 * SHA256_SIZE)
/* ,"mac":"<64>"} is not covered by the mac; the quote before it closes prev and is. */
#define MAC_PART (sizeof(TAIL_MAC) - 1 + MAC_HEX + 2)
#define PREV_PART (sizeof(TAIL_PREV) - 1 + MAC_HEX + 1)

void record_init(struct record *r, enum event type)
{
	*r = (struct record){ .type = type };
}

static struct record_value *slot(struct record *r, const char *field, enum value_kind kind)
{
	const struct event_field *f = event_types[r->type].fields;
	size_t i = 0;

	while (f[i].name[0] && !str_eq(f[i].name, field))
		i++;
	assert(f[i].name[0] && f[i].kind == kind);
	r->values[i].given = true;
	return &r->values[i];
}

void record_text(struct record *r, const char *field, const char *text)
{
	struct record_value *v = slot(r, field, VALUE_TEXT);

	v->text = text;
	v->given = text != NULL;
}

void record_number(struct record *r, const char *field, int64_t v)
{
	slot(r, field, VALUE_NUMBER)->number = v;
}

void record_micros(struct record *r, const char *field, uint64_t us)
{
	slot(r, field, VALUE_MILLI)->number = (int64_t)us;
}

void record_bool(struct record *r, const char *field, bool v)
{
	slot(r, field, VALUE_BOOL)->number = v;
}

void record_list(struct record *r, const char *field, const char *const *list)
{
	struct record_value *v = slot(r, field, VALUE_LIST);

	v->list = list;
	v->given = list != NULL;
}

/* --- building a line --- */

static void record_put_number(struct buf *out, int64_t v)
{
	if (v < 0)
		buf_putc(out, '-');
	buf_putu(out, v < 0 ? 0 - (uint64_t)v : (uint64_t)v, 1);
}

static void put_milli(struct buf *out, int64_t v)
{
	uint64_t u = v < 0 ? 0 : (uint64_t)v;

	buf_putu(out, u / 1000, 1);
	if (u % 1000) {
		buf_putc(out, '.');
		buf_putu(out, u % 1000, 3);
	}
}

static void record_put_text(struct buf *out, const char *text, const struct audit_key *k)
{
	char clean[RECORD_TEXT_MAX];

	json_quote(out, clean, redact(k, text, strlen(text), clean, sizeof(clean)));
}

static void put_list(struct buf *out, const char *const *list, const struct audit_key *k)
{
	size_t from = out->len;

	buf_putc(out, '[');
	for (size_t i = 0; list[i]; i++) {
		if (i)
			buf_putc(out, ',');
		if (i >= RECORD_LIST_MAX || out->len - from > LIST_BYTES_MAX) {
			buf_puts(out, "\"...\"");
			break;
		}
		record_put_text(out, list[i], k);
	}
	buf_putc(out, ']');
}

static void put_key(struct buf *out, const char *name)
{
	buf_add(out, ",\"", 2);
	buf_puts(out, name);
	buf_add(out, "\":", 2);
}

static void put_common(struct buf *out, const char *name, const char *text,
		       const struct audit_key *k)
{
	if (!text)
		return;
	put_key(out, name);
	record_put_text(out, text, k);
}

static void record_put_value(struct buf *out, const struct record_value *v, enum value_kind kind,
			     const struct audit_key *k)
{
	switch (kind) {
	case VALUE_TEXT:
		record_put_text(out, v->text, k);
		break;
	case VALUE_NUMBER:
		record_put_number(out, v->number);
		break;
	case VALUE_MILLI:
		put_milli(out, v->number);
		break;
	case VALUE_BOOL:
		buf_puts(out, v->number ? "true" : "false");
		break;
	case VALUE_LIST:
		put_list(out, v->list, k);
		break;
	}
}

void record_body(const struct record *r, const struct audit_key *k, struct buf *out)
{
	const struct event_type *t = &event_types[r->type];

	buf_puts(out, "\"type\":\"");
	buf_puts(out, t->name);
	buf_putc(out, '"');
	put_common(out, "run", r->run, k);
	put_common(out, "policy", r->policy, k);
	put_common(out, "rule", r->rule, k);
	put_common(out, "principal", r->principal, k);
	put_common(out, "agent", r->agent, k);
	for (size_t i = 0; t->fields[i].name[0]; i++) {
		if (!r->values[i].given)
			continue;
		put_key(out, t->fields[i].name);
		record_put_value(out, &r->values[i], t->fields[i].kind, k);
	}
}

/* Days since 1970 as a date. glibc's gmtime_r would read the time zone's file first. */
static void civil(uint64_t days, unsigned *year, unsigned *month, unsigned *day)
{
	uint64_t z = days + 719468, era = z / 146097, doe = z % 146097;
	uint64_t yoe = (doe - doe / 1460 + doe / 36524 - doe / 146096) / 365;
	uint64_t doy = doe - (365 * yoe + yoe / 4 - yoe / 100), mp = (5 * doy + 2) / 153;

	*day = (unsigned)(doy - (153 * mp + 2) / 5 + 1);
	*month = (unsigned)(mp < 10 ? mp + 3 : mp - 9);
	*year = (unsigned)(yoe + era * 400 + (*month <= 2));
}

static void pair(char *out, unsigned v)
{
	out[0] = (char)('0' + v / 10 % 10);
	out[1] = (char)('0' + v % 10);
}

void record_time(uint64_t us, char out[RECORD_TIME_SIZE])
{
	uint64_t s = us / 1000000, rest = us % 1000000;
	unsigned year, month, day;

	civil(s / 86400, &year, &month, &day);
	memcpy(out, "0000-00-00T00:00:00.000000Z", RECORD_TIME_SIZE);
	pair(out, year / 100);
	pair(out + 2, year % 100);
	pair(out + 5, month);
	pair(out + 8, day);
	pair(out + 11, (unsigned)(s / 3600 % 24));
	pair(out + 14, (unsigned)(s / 60 % 60));
	pair(out + 17, (unsigned)(s % 60));
	for (int i = 25; i >= 20; i--, rest /= 10)
		out[i] = (char)('0' + rest % 10);
}

void record_line(const struct record_link *at, const char *body, size_t n,
		 const struct audit_key *k, struct buf *out, unsigned char mac[32])
{
	char text[RECORD_TIME_SIZE], hex[MAC_HEX];
	size_t from = out->len;

	record_time(at->time_us, text);
	buf_add(out, "{\"seq\":", 7);
	buf_putu(out, at->seq, 1);
	buf_add(out, ",\"time\":\"", 9);
	buf_add(out, text, RECORD_TIME_SIZE - 1);
	buf_puts(out, at->clock_back ? "\",\"clock\":\"back\"," : "\",");
	buf_add(out, body, n);
	buf_add(out, TAIL_PREV, sizeof(TAIL_PREV) - 1);
	hex_encode(at->prev, SHA256_SIZE, hex);
	buf_add(out, hex, sizeof(hex));
	buf_putc(out, '"');
	if (out->failed)
		return;
	hmac_sha256(&k->mac, out->data + from, out->len - from, mac);
	buf_add(out, TAIL_MAC, sizeof(TAIL_MAC) - 1);
	hex_encode(mac, SHA256_SIZE, hex);
	buf_add(out, hex, sizeof(hex));
	buf_add(out, "\"}\n", 3);
}

/* --- taking one apart --- */

static bool skip(const char **p, const char *end, const char *text)
{
	size_t n = strlen(text);

	if ((size_t)(end - *p) < n || memcmp(*p, text, n) != 0)
		return false;
	*p += n;
	return true;
}

static int digits(const char **p, const char *end, uint64_t *ret)
{
	const char *from = *p;
	uint64_t v = 0;

	for (; *p < end && **p >= '0' && **p <= '9'; (*p)++) {
		if (*p - from == 18)
			return -EINVAL;
		v = v * 10 + (uint64_t)(**p - '0');
	}
	if (*p == from || (*from == '0' && *p - from > 1))
		return -EINVAL;
	*ret = v;
	return 0;
}

static int two(const char *p, unsigned low, unsigned high, unsigned *ret)
{
	if (p[0] < '0' || p[0] > '9' || p[1] < '0' || p[1] > '9')
		return -EINVAL;
	*ret = (unsigned)(p[0] - '0') * 10 + (unsigned)(p[1] - '0');
	return *ret < low || *ret > high ? -EINVAL : 0;
}

static uint64_t days_from(unsigned year, unsigned month, unsigned day)
{
	uint64_t y = year - (month <= 2), era = y / 400, yoe = y % 400;
	uint64_t doy = (153 * (month > 2 ? month - 3 : month + 9) + 2) / 5 + day - 1;

	return era * 146097 + yoe * 365 + yoe / 4 - yoe / 100 + doy - 719468;
}

int record_time_parse(const char *p, size_t n, uint64_t *us)
{
	unsigned century, year, month, day, hour, minute, second;
	char again[RECORD_TIME_SIZE];
	uint64_t micro = 0;

	if (n != RECORD_TIME_SIZE - 1 || two(p, 19, 99, &century) < 0 ||
	    two(p + 2, 0, 99, &year) < 0 || two(p + 5, 1, 12, &month) < 0 ||
	    two(p + 8, 1, 31, &day) < 0 || two(p + 11, 0, 23, &hour) < 0 ||
	    two(p + 14, 0, 59, &minute) < 0 || two(p + 17, 0, 59, &second) < 0)
		return -EINVAL;
	year += century * 100;
	if (year < 1970)
		return -EINVAL;
	for (int i = 20; i < 26; i++) {
		if (p[i] < '0' || p[i] > '9')
			return -EINVAL;
		micro = micro * 10 + (uint64_t)(p[i] - '0');
	}
	*us = ((days_from(year, month, day) * 24 + hour) * 60 + minute) * 60 + second;
	*us = *us * 1000000 + micro;
	record_time(*us, again); /* catches the 31st of February and odd separators */
	return memcmp(p, again, n) == 0 ? 0 : -EINVAL;
}

int line_parse(const char *p, size_t n, struct line *ret)
{
	const char *at = p, *end, *mac;
	struct line l = { 0 };

	if (n < MAC_PART + PREV_PART || n > RECORD_LINE_MAX)
		return -EINVAL;
	l.signed_n = n - MAC_PART;
	end = p + l.signed_n - PREV_PART;
	mac = p + l.signed_n;
	if (!skip(&at, end, "{\"seq\":") || digits(&at, end, &l.at.seq) < 0 ||
	    !skip(&at, end, ",\"time\":\"") || (size_t)(end - at) < RECORD_TIME_SIZE ||
	    record_time_parse(at, RECORD_TIME_SIZE - 1, &l.at.time_us) < 0)
		return -EINVAL;
	at += RECORD_TIME_SIZE - 1;
	if (!skip(&at, end, "\","))
		return -EINVAL;
	l.at.clock_back = skip(&at, end, "\"clock\":\"back\",");
	l.body = at;
	l.body_n = (size_t)(end - at);
	if (!skip(&at, end, "\"type\":\""))
		return -EINVAL;
	l.type = at;
	while (at < end && ((*at >= 'a' && *at <= 'z') || *at == '.'))
		at++;
	l.type_n = (size_t)(at - l.type);
	if (!l.type_n || !skip(&at, end, "\""))
		return -EINVAL;
	at = end;
	if (!skip(&at, mac, TAIL_PREV) || hex_decode(at, l.at.prev, SHA256_SIZE) < 0 ||
	    at[MAC_HEX] != '"')
		return -EINVAL;
	at = mac;
	if (!skip(&at, p + n, TAIL_MAC) || hex_decode(at, l.mac, SHA256_SIZE) < 0 ||
	    memcmp(at + MAC_HEX, "\"}", 2) != 0)
		return -EINVAL;
	*ret = l;
	return 0;
}

bool line_genuine(const char *p, const struct line *l, const struct audit_key *k)
{
	unsigned char mac[SHA256_SIZE];

	hmac_sha256(&k->mac, p, l->signed_n, mac);
	return hmac_equal(mac, l->mac);
}
