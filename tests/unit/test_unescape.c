/* SPDX-License-Identifier: Apache-2.0 */
/* What escapes stand for. */
#include "unit.h"

#include "egress/seek/unescape.h"

/* The whole text, once. */
static void undone(enum unescape_kind k, const char *p, size_t n, const char *want)
{
	char out[256];
	size_t len = 0;

	for (size_t at = 0; at < n;) {
		struct unescaped u = { .took = 1, .n = 1, .p = { p[at] } };

		assert_true(unescape_one(k, p, at, n, true, &u) != UNESCAPE_MORE);
		assert_true(len + u.n < sizeof(out));
		memcpy(out + len, u.p, u.n);
		len += u.n;
		at += u.took;
	}
	out[len] = '\0';
	assert_string_equal(out, want);
}

static void signs(const char *text, const char *want)
{
	undone(UNESCAPE_SIGNS, text, strlen(text), want);
}

static void every_writer_is_read(void **state UNUSED)
{
	signs("%2Fa%2f", "/a/");
	signs("\\u002F\\u002f\\x2f\\/", "////");
	signs("\\u00e9\\u20AC\\ud83d\\ude00", "\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80");
	signs("\\\\u002f \\\\\\\" \\n\\q", "\\u002f \\\" \n\\q");
	signs("Gw\\=\\= a\\&b 100\\% \\%2 \\&x", "Gw== a&b 100% %2 &x");
	signs("\\%41 \\&amp; \\&#43;", "\\A \\& \\+");
	signs("&#43;&#x2B;&#X2b;&plus;&amp;&#x0000002b;", "++++&+");
	signs("%41%%42&amp&#x;&lt", "A%B&amp&#x;&lt");
	undone(UNESCAPE_QUOTED, "a=3Db=\nc=\r\nd=zz", 15, "a=bcd=zz");
	undone(UNESCAPE_LINES, "ABCDEFGHIJKLMNOP\nabc\nd", 22, "ABCDEFGHIJKLMNOPabc\nd");
	undone(UNESCAPE_LINES, "ABCDEFGHIJKLMNOP\r\nabcdefghijklmnop\n\nx", 37,
	       "ABCDEFGHIJKLMNOPabcdefghijklmnop\n\nx");
	undone(UNESCAPE_SIGNS, "k\0e\0y", 5, "key");
	undone(UNESCAPE_SIGNS, "\0k\0e\0y", 6, "key");
}

/* One spelling in the other comes off one at a time. */
static void one_layer_is_undone_at_once(void **state UNUSED)
{
	signs("%252F", "%2F");
	signs("&amp;#43;", "&#43;");
	signs("\\u0025\\u0032F", "%2F");
	signs("%26amp%3B", "&amp;");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_writer_is_read),
		cmocka_unit_test(one_layer_is_undone_at_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
