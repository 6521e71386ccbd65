/* SPDX-License-Identifier: Apache-2.0 */
/* What is read behind escapes costs the same whatever the values are, and a text without any is
 * read once. */
#include "unit.h"

#include "base/text/arena.h"
#include "egress/scan/view.h"

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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(
			behind_escapes_the_work_does_not_depend_on_what_nearly_stands_there),
		cmocka_unit_test(a_text_without_escapes_is_read_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
