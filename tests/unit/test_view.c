/* SPDX-License-Identifier: Apache-2.0 */
/* What is read behind escapes costs the same whatever the values are, and a text without any is
 * read once, base64 in lines as well. */
#include "unit.h"

#include "base/text/arena.h"
#include "egress/seek/unescape.h"
#include "egress/seek/view.h"

enum { TEXT_LEN = 6000, FORM_LEN = 2048 };

static struct err e;

typedef size_t write_fn(const char *value, char *out);

static size_t each(const char *value, const char *how, char *out)
{
	size_t n = 0;

	for (const char *c = value; *c; c++) {
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
		n += (size_t)snprintf(out + n, FORM_LEN - n, how, (unsigned char)*c);
#pragma GCC diagnostic pop
	}
	return n;
}

static size_t percent(const char *value, char *out)
{
	return each(value, "%%%02x", out);
}

static size_t twice(const char *value, char *out)
{
	return each(value, "%%25%02X", out);
}

static size_t unicode(const char *value, char *out)
{
	return each(value, "\\u%04x", out);
}

static size_t html(const char *value, char *out)
{
	return each(value, "&#x%02x;", out);
}

static size_t quoted(const char *value, char *out)
{
	return each(value, "=%02X", out);
}

static size_t utf16(const char *value, char *out)
{
	size_t n = 0;

	for (const char *c = value; *c; c++) {
		out[n++] = *c;
		out[n++] = '\0';
	}
	return n;
}

static size_t one_of_three(const char *value, char *out)
{
	size_t n = 0;

	for (size_t i = 0; value[i]; i++)
		n += (size_t)snprintf(out + n, FORM_LEN - n, i % 3 ? "%c" : "%%%02x", value[i]);
	return n;
}

static write_fn *const writers[] = { percent, twice, unicode, html, quoted, utf16, one_of_three };

static bool count(void *context, const struct needle *n UNUSED, ptrdiff_t from UNUSED,
		  ptrdiff_t to UNUSED)
{
	++*(unsigned *)context;
	return true;
}

/* What a text full of the value, so written, costs; cut as streams are. */
static uint64_t work(struct views *w, write_fn *write, const char *value, unsigned *found)
{
	static char text[TEXT_LEN], form[FORM_LEN];
	uint64_t before = seek_work(views_seek(w));
	size_t n = write(value, form);
	struct view *v = NULL;
	struct seek_text t = { .data = text };

	assert_int_equal(view_new(w, &v, &e), 0);
	memset(text, '.', sizeof(text));
	for (size_t at = 0, i = 0; at + n + 8 < TEXT_LEN; at += n + 1 + i++ % 7)
		memcpy(text + at, form, n);
	for (; t.at < TEXT_LEN; t.at += (int64_t)t.n) {
		t.data = text + t.at;
		t.before = egress_text(text, (size_t)t.at);
		t.n = TEXT_LEN - (size_t)t.at < 700 ? TEXT_LEN - (size_t)t.at : 700;
		assert_int_equal(view_feed(v, &t, t.at + 700 >= TEXT_LEN, count, found), 0);
	}
	v = view_free(v);
	return seek_work(views_seek(w)) - before;
}

static struct views *made(struct arena *a, const struct secret *kept, struct needles *n)
{
	struct views *w = NULL;

	if (needles_new(a, kept, 1, n, &e) < 0 || views_new(a, n, &w, &e) < 0)
		fail_msg("%s", e.what);
	return w;
}

static void behind_escapes_the_work_does_not_depend_on_what_nearly_stands_there(void **state UNUSED)
{
	static const char value[] = "fedcba9876543210QWERTYUIOPasdfghjklzxcvb",
			  other[] = "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx";
	struct secret kept = { .name = "K", .value = value, .len = sizeof(value) - 1 };
	CLEANUP(arena) struct arena *a = arena_new(64 << 20);
	struct needles n;
	struct views *w = made(a, &kept, &n);

	for (size_t i = 0; i < ARRAY_LEN(writers); i++) {
		unsigned found = 0;
		uint64_t usual;
		char near[sizeof(value)];

		usual = work(w, writers[i], other, &found);
		for (size_t k = kept.len - SECRET_SHOWS; k < kept.len; k++) {
			memcpy(near, value, sizeof(value));
			near[k] = near[k] == 'x' ? 'y' : 'x';
			assert_int_equal(work(w, writers[i], near, &found), usual);
		}
		assert_int_equal(found, 0);
		(void)work(w, writers[i], value, &found);
		assert_true(found > 3); /* it is read at all */
	}
}

static size_t as_it_is(const char *value, char *out)
{
	return (size_t)snprintf(out, FORM_LEN, "%s", value);
}

static void a_text_without_escapes_is_read_once(void **state UNUSED)
{
	static const char value[] = "fedcba9876543210QWERTYUIOPasdfghjklzxcvb";
	struct secret kept = { .name = "K", .value = value, .len = sizeof(value) - 1 };
	CLEANUP(arena) struct arena *a = arena_new(64 << 20);
	struct needles n;
	struct views *w = made(a, &kept, &n);
	unsigned found = 0;
	uint64_t once = work(w, as_it_is, "nothing of any kind", &found);

	assert_int_equal(work(w, as_it_is, "50 % of \x01\x02 & more \\ no = escape", &found), once);
	assert_int_equal(work(w, as_it_is, "\x01\x02\x03%41\x04\x05\x06\\n\x01\x02", &found), once);
	assert_true(work(w, as_it_is, "a text that has%41one", &found) > once);
	assert_int_equal(found, 0);
}

/* --- base64 in lines --- */

enum { LINES_LEN = 60000, FINDS = 4096, BEFORE = 4096 };

static const char lined[] = "fedcba9876543210QWERTYUIOPasdfghjklzxcvb";

struct found_at {
	long from, to;
};

struct finds {
	struct found_at v[FINDS];
	size_t n;
	long at; /* of the call */
};

static bool has(const struct finds *f, long from, long to)
{
	for (size_t i = 0; i < f->n; i++)
		if (f->v[i].from == from && f->v[i].to == to)
			return true;
	return false;
}

static bool note(void *context, const struct needle *n UNUSED, ptrdiff_t from, ptrdiff_t to)
{
	struct finds *f = context;

	if (has(f, f->at + from, f->at + to))
		fail_msg("%ld..%ld is named twice", f->at + from, f->at + to);
	assert_true(f->n < FINDS);
	f->v[f->n++] = (struct found_at){ f->at + from, f->at + to };
	return true;
}

static unsigned some(unsigned most)
{
	static unsigned x = 1;

	x = x * 1103515245 + 12345;
	return (x >> 16) % most;
}

/* Lines of base64 and others, now many of one kind, now few, and the value all over them. */
static void make_lines(char *text, unsigned kind)
{
	static const char signs[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123+/";
	size_t length = 0, in_line = 0, left = 0;
	bool coded = true, crlf = false;

	for (size_t i = 0; i < LINES_LEN; i++) {
		if (!left) {
			left = kind == 0 ? LINES_LEN : 1 + some(kind == 1 ? 4000 : 700);
			coded = kind == 0 || some(2);
			crlf = some(4) == 0;
			length = some(3) ? 76 : (kind ? 12 : 16) + some(80);
		}
		left--;
		if (in_line >= length && (!crlf || i + 1 < LINES_LEN)) {
			if (crlf)
				text[i++] = '\r';
			text[i] = '\n';
			in_line = 0;
			continue;
		}
		in_line++;
		text[i] = coded ? signs[some(sizeof(signs) - 1)] : " .,abc-%="[some(7)];
	}
	for (size_t i = 0; i + 200 < LINES_LEN; i += 60 + some(500))
		for (size_t k = 0, at = i; k < sizeof(lined) - 1; at++)
			if (text[at] != '\n' && text[at] != '\r')
				text[at] = lined[k++];
}

/* As it is, and with the ends of lines taken out. */
static void read_plainly(const char *text, const struct needles *n, struct finds *f)
{
	static char p[LINES_LEN];
	static long from[LINES_LEN];
	struct unescaped u;
	size_t m = 0;

	f->n = 0;
	for (size_t at = 0; at < LINES_LEN; at += u.took) {
		if (unescape_one(UNESCAPE_LINES, text, at, LINES_LEN, true, &u) == UNESCAPE_ONE)
			continue;
		u.took = 1;
		p[m] = text[at];
		from[m++] = (long)at;
	}
	for (size_t k = 0; k < n->n; k++)
		for (size_t i = 0; i + n->v[k].v.n <= m; i++)
			if (((p[i] ^ n->v[k].v.p[0]) | 0x20) == 0x20 &&
			    needle_is(&n->v[k], p + i, false))
				(void)note(f, NULL, from[i], from[i + n->v[k].v.n - 1] + 1);
}

static void read_in_pieces(struct views *w, const char *text, size_t most, struct finds *f)
{
	struct seek_text t = { .data = text };
	struct view *v = NULL;

	f->n = 0;
	assert_int_equal(view_new(w, &v, &e), 0);
	for (; t.at < LINES_LEN; t.at += (int64_t)t.n) {
		size_t at = (size_t)t.at, before = at < BEFORE ? at : BEFORE;

		t.data = text + at;
		t.before = egress_text(text + at - before, before);
		t.n = most > 1000 ? most : 1 + some((unsigned)most);
		t.n = LINES_LEN - at < t.n ? LINES_LEN - at : t.n;
		f->at = (long)at;
		assert_int_equal(view_feed(v, &t, at + t.n == LINES_LEN, note, f), 0);
	}
	v = view_free(v);
}

static void each_value_in_lines_is_named_once_however_it_is_cut(void **state UNUSED)
{
	static const size_t pieces[] = { LINES_LEN, 16384, 1500, 700, 60 };
	static struct finds want, got;
	static char text[LINES_LEN];
	struct secret kept = { .name = "K", .value = lined, .len = sizeof(lined) - 1 };
	CLEANUP(arena) struct arena *a = arena_new(64 << 20);
	struct needles n;
	struct views *w = made(a, &kept, &n);

	for (unsigned kind = 0; kind < 30; kind++) {
		make_lines(text, kind % 3);
		read_plainly(text, &n, &want);
		if (want.n < 50)
			fail_msg("%zu of kind %u", want.n, kind);
		for (size_t i = 0; i < ARRAY_LEN(pieces); i++) {
			read_in_pieces(w, text, pieces[i], &got);
			assert_int_equal(got.n, want.n);
			for (size_t k = 0; k < want.n; k++)
				assert_true(has(&got, want.v[k].from, want.v[k].to));
		}
	}
}

static void base64_in_lines_is_read_once(void **state UNUSED)
{
	static char text[LINES_LEN];
	struct secret kept = { .name = "K", .value = lined, .len = sizeof(lined) - 1 };
	CLEANUP(arena) struct arena *a = arena_new(64 << 20);
	static struct finds got;
	struct needles n;
	struct views *w = made(a, &kept, &n);
	uint64_t before, plain;

	memset(text, 'A', sizeof(text));
	before = seek_work(views_seek(w));
	read_in_pieces(w, text, 16384, &got);
	plain = seek_work(views_seek(w)) - before;
	for (size_t i = 76; i < LINES_LEN; i += 77)
		text[i] = '\n';
	before = seek_work(views_seek(w));
	read_in_pieces(w, text, 16384, &got);
	assert_in_range(seek_work(views_seek(w)) - before, plain / 2, plain + plain / 10);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(
			behind_escapes_the_work_does_not_depend_on_what_nearly_stands_there),
		cmocka_unit_test(a_text_without_escapes_is_read_once),
		cmocka_unit_test(each_value_in_lines_is_named_once_however_it_is_cut),
		cmocka_unit_test(base64_in_lines_is_read_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
