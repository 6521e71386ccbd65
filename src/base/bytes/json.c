/* SPDX-License-Identifier: Apache-2.0 */
#include "base/bytes/json.h"

#include <assert.h>
#include <string.h>

#include "base/bytes/jread.h"
#include "base/text/clean.h"
#include "base/text/cleanup.h"
#include "base/text/str.h"

void json_init(struct json *j, struct buf *out, bool pretty)
{
	*j = (struct json){ .out = out, .pretty = pretty, .fresh = true };
}

static void newline(struct json *j)
{
	if (!j->pretty)
		return;
	buf_putc(j->out, '\n');
	for (unsigned i = 0; i < j->depth; i++)
		buf_puts(j->out, "  ");
}

/* Whatever must stand in front of the next value: nothing behind a key, else comma and line. */
static void separate(struct json *j)
{
	if (j->after_key) {
		j->after_key = false;
		return;
	}
	if (!j->fresh)
		buf_putc(j->out, ',');
	if (j->depth)
		newline(j);
	j->fresh = false;
}

static void open_level(struct json *j, char c)
{
	separate(j);
	buf_putc(j->out, c);
	j->depth++;
	j->fresh = true;
}

static void close_level(struct json *j, char c)
{
	j->depth--;
	if (!j->fresh)
		newline(j);
	buf_putc(j->out, c);
	j->fresh = false;
}

void json_object(struct json *j)
{
	open_level(j, '{');
}

void json_object_end(struct json *j)
{
	close_level(j, '}');
}

void json_reopen(struct json *j)
{
	struct buf *b = j->out;

	j->depth++;
	if (b->failed || !b->len)
		return;
	assert(b->data[b->len - 1] == '}');
	for (b->len--; b->data[b->len - 1] == ' ' || b->data[b->len - 1] == '\n';)
		b->len--;
	b->data[b->len] = '\0';
	j->fresh = b->data[b->len - 1] == '{';
}

void json_array(struct json *j)
{
	open_level(j, '[');
}

void json_array_end(struct json *j)
{
	close_level(j, ']');
}

static void escape(struct buf *out, uint32_t c)
{
	static const char names[] = "\b\t\n\f\r\"\\";
	static const char letters[] = "btnfr\"\\";
	const char *at = c && c < 0x80 ? strchr(names, (int)c) : NULL;

	if (at)
		buf_printf(out, "\\%c", letters[at - names]);
	else if (c < 0x10000)
		buf_printf(out, "\\u%04x", c);
	else
		buf_printf(out, "\\u%04x\\u%04x", 0xd7c0U + (c >> 10), 0xdc00U + (c & 0x3ff));
}

void json_quote(struct buf *out, const char *p, size_t n)
{
	buf_putc(out, '"');
	while (n) {
		size_t run = 0, len;

		while (run < n && (unsigned char)p[run] >= 0x20 && (unsigned char)p[run] < 0x7f &&
		       p[run] != '"' && p[run] != '\\')
			run++;
		buf_add(out, p, run);
		p += run;
		n -= run;
		if (!n)
			break;
		len = utf8_len(p, n);
		if (len > 1 && clean_shows(p, len))
			buf_add(out, p, len);
		else if (len == 0)
			buf_puts(out, "\xef\xbf\xbd");
		else
			escape(out, utf8_code(p, len));
		p += len ? len : 1;
		n -= len ? len : 1;
	}
	buf_putc(out, '"');
}

void json_key(struct json *j, const char *key)
{
	separate(j);
	json_quote(j->out, key, strlen(key));
	buf_puts(j->out, j->pretty ? ": " : ":");
	j->after_key = true;
}

void json_strn(struct json *j, const char *p, size_t n)
{
	separate(j);
	json_quote(j->out, p, n);
}

void json_str(struct json *j, const char *s)
{
	if (s)
		json_strn(j, s, strlen(s));
	else
		json_null(j);
}

void json_u64(struct json *j, uint64_t v)
{
	separate(j);
	buf_putu(j->out, v, 1);
}

void json_i64(struct json *j, int64_t v)
{
	separate(j);
	if (v < 0)
		buf_putc(j->out, '-');
	buf_putu(j->out, v < 0 ? 0 - (uint64_t)v : (uint64_t)v, 1);
}

void json_milli(struct json *j, uint64_t thousandths)
{
	separate(j);
	buf_putu(j->out, thousandths / 1000, 1);
	if (thousandths % 1000 == 0)
		return;
	if (thousandths % 100 == 0)
		buf_printf(j->out, ".%llu", (unsigned long long)(thousandths % 1000 / 100));
	else
		buf_printf(j->out, ".%03llu", (unsigned long long)(thousandths % 1000));
}

void json_bool(struct json *j, bool v)
{
	separate(j);
	buf_puts(j->out, v ? "true" : "false");
}

void json_null(struct json *j)
{
	separate(j);
	buf_puts(j->out, "null");
}

void json_kstr(struct json *j, const char *key, const char *s)
{
	json_key(j, key);
	json_str(j, s);
}

void json_ku64(struct json *j, const char *key, uint64_t v)
{
	json_key(j, key);
	json_u64(j, v);
}

void json_kbool(struct json *j, const char *key, bool v)
{
	json_key(j, key);
	json_bool(j, v);
}

void json_kobject(struct json *j, const char *key)
{
	json_key(j, key);
	json_object(j);
}

void json_karray(struct json *j, const char *key)
{
	json_key(j, key);
	json_array(j);
}

void json_kstrs(struct json *j, const char *key, const char *const *v)
{
	json_karray(j, key);
	for (; v && *v; v++)
		json_str(j, *v);
	json_array_end(j);
}

void json_raw(struct json *j, const char *p, size_t n)
{
	separate(j);
	clean_put_json(j->out, p, n);
}

void json_kvalue(struct json *j, const char *key, const struct jread *v)
{
	CLEANUP(mem) char *text = v ? jread_dump(v) : NULL;

	json_key(j, key);
	if (text)
		json_raw(j, text, strlen(text));
	else
		json_null(j);
}
