/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "egress/credential/client_pem.h"
#include "egress/proxy_hint.h"
#include "egress/rules/addr.h"
#include "egress/rules/direct.h"
#include "egress/rules/host.h"
#include "egress/rules/path.h"
#include "egress/rules/upstream_proxy.h"

static enum host_fault parse(const char *text, struct host *h)
{
	return host_parse(egress_text(text, strlen(text)), h);
}

static void a_name_has_one_form(void **state UNUSED)
{
	static const char *const same[] = { "api.example.org", "API.Example.ORG",
					    "api.example.org.", "Api.EXAMPLE.org." };
	struct host h;

	for (size_t i = 0; i < 4; i++) {
		assert_int_equal(parse(same[i], &h), HOST_OK);
		assert_string_equal(h.name, "api.example.org");
		assert_int_equal(h.len, 15);
	}
	assert_int_equal(parse("xn--bcher-kva.example", &h), HOST_OK);
	assert_int_equal(parse("r3---sn-x.example.org", &h), HOST_OK);
	assert_int_equal(parse("localhost", &h), HOST_OK);
}

static void what_is_no_name_is_refused(void **state UNUSED)
{
	static const struct {
		const char *text;
		enum host_fault fault;
	} bad[] = {
		{ "", HOST_EMPTY },
		{ ".", HOST_EMPTY },
		{ "..", HOST_BAD_LABEL },
		{ "a..b", HOST_BAD_LABEL },
		{ ".example.org", HOST_BAD_LABEL },
		{ "example.org..", HOST_BAD_LABEL },
		{ "-a.example", HOST_BAD_LABEL },
		{ "a-.example", HOST_BAD_LABEL },
		{ "a b.example", HOST_BAD_BYTE },
		{ "a_b.example", HOST_BAD_BYTE },
		{ "a%2eb.example", HOST_BAD_BYTE },
		{ "user@example.org", HOST_BAD_BYTE },
		{ "example.org#x", HOST_BAD_BYTE },
		{ "example.org/x", HOST_BAD_BYTE },
		{ "example.org\\x", HOST_BAD_BYTE },
		{ "example.org?x", HOST_BAD_BYTE },
		{ "example.org\r\nx", HOST_BAD_BYTE },
		{ "example.org:443", HOST_BAD_BYTE },
		{ "*.example.org", HOST_BAD_BYTE },
		{ "b\xc3\xbc"
		  "cher.example",
		  HOST_NOT_ASCII },
		{ "example\xe3\x80\x82org", HOST_NOT_ASCII },
		{ "\xef\xbd\x85xample.org", HOST_NOT_ASCII },
		{ "exam\xc2\xadple.org", HOST_NOT_ASCII },
		{ "exam\xe2\x80\x8bple.org", HOST_NOT_ASCII },
	};
	char longer[300], label[80];
	struct host h;

	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		assert_int_equal(parse(bad[i].text, &h), bad[i].fault);
	assert_int_equal(host_parse(egress_text("a.exa\0mple", 10), &h), HOST_BAD_BYTE);
	assert_int_equal(host_parse(egress_text(NULL, 0), &h), HOST_EMPTY);
	memset(label, 'a', 64);
	memcpy(label + 64, ".org", 5);
	assert_int_equal(parse(label, &h), HOST_BAD_LABEL);
	assert_int_equal(parse(label + 1, &h), HOST_OK);
	memset(longer, 'a', sizeof(longer));
	for (size_t i = 50; i < sizeof(longer); i += 50)
		longer[i] = '.';
	longer[253] = '\0';
	assert_int_equal(parse(longer, &h), HOST_OK);
	longer[253] = 'a';
	longer[254] = '\0';
	assert_int_equal(parse(longer, &h), HOST_TOO_LONG);
}

static void addresses_are_known_in_every_spelling(void **state UNUSED)
{
	static const char *const spelled[] = {
		"127.0.0.1",
		"127.1",
		"2130706433",
		"0x7f000001",
		"0x7f.1",
		"0177.0.0.1",
		"127.0.0.1.",
		"010.0.0.1",
		"1.2.3",
		"0",
		"0x0",
		"[::1]",
		"::1",
		"::ffff:1.2.3.4",
		"[::1%lo]",
		"fe80::1%eth0",
		"[fe80::1]",
		"1.2.3.4.5",
		"256.1.1.1",
		"a.0x7f",
		"169.254.169.254",
		"00000177.1",
		"64:ff9b::1",
		"127.0.0.0x1",
	};
	struct host h;

	for (size_t i = 0; i < sizeof(spelled) / sizeof(*spelled); i++)
		if (parse(spelled[i], &h) != HOST_ADDRESS)
			fail_msg("%s is taken for a name", spelled[i]);
}

static void ports_are_plain_numbers(void **state UNUSED)
{
	static const char *const bad[] = { "a.example:",      "a.example:0",    "a.example:65536",
					   "a.example:+443",  "a.example:0443", "a.example:443,80",
					   "a.example:44 3",  "a.example:-1",   "a.example:4x",
					   "a.example:123456" };
	struct host h;
	uint16_t port;

	assert_int_equal(host_parse_authority(egress_text("A.example:8443", 14), 443, &h, &port),
			 HOST_OK);
	assert_int_equal(port, 8443);
	assert_string_equal(h.name, "a.example");
	assert_int_equal(host_parse_authority(egress_text("a.example", 9), 443, &h, &port),
			 HOST_OK);
	assert_int_equal(port, 443);
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		assert_int_equal(
			host_parse_authority(egress_text(bad[i], strlen(bad[i])), 443, &h, &port),
			HOST_BAD_PORT);
	assert_int_equal(host_parse_authority(egress_text("[::1]:443", 9), 443, &h, &port),
			 HOST_ADDRESS);
	assert_int_equal(host_parse_authority(egress_text("::1", 3), 443, &h, &port), HOST_ADDRESS);
	assert_int_equal(host_parse_authority(egress_text(":443", 4), 443, &h, &port), HOST_EMPTY);
}

static void a_wildcard_covers_subdomains_but_not_the_apex(void **state UNUSED)
{
	struct host h;

	assert_int_equal(parse("api.example.org", &h), HOST_OK);
	assert_true(host_matches("*.example.org", &h));
	assert_true(host_matches("api.example.org", &h));
	assert_false(host_matches("example.org", &h));
	assert_false(host_matches("pi.example.org", &h));
	assert_int_equal(parse("a.b.example.org", &h), HOST_OK);
	assert_true(host_matches("*.example.org", &h));
	assert_int_equal(parse("example.org", &h), HOST_OK);
	assert_false(host_matches("*.example.org", &h));
	assert_int_equal(parse("evilexample.org", &h), HOST_OK);
	assert_false(host_matches("*.example.org", &h));
	assert_false(host_matches("example.org", &h));
	assert_int_equal(parse("example.org.evil.net", &h), HOST_OK);
	assert_false(host_matches("*.example.org", &h));
}

static void only_the_internet_is_public(void **state UNUSED)
{
	static const struct {
		const char *text;
		enum addr_class class;
	} table[] = {
		{ "1.1.1.1", ADDR_PUBLIC },
		{ "93.184.216.34", ADDR_PUBLIC },
		{ "100.63.255.255", ADDR_PUBLIC },
		{ "172.32.0.1", ADDR_PUBLIC },
		{ "198.20.0.1", ADDR_PUBLIC },
		{ "223.255.255.255", ADDR_PUBLIC },
		{ "2606:4700::1111", ADDR_PUBLIC },
		{ "2a00:1450:4001::1", ADDR_PUBLIC },
		{ "0.0.0.0", ADDR_UNSPECIFIED },
		{ "0.1.2.3", ADDR_RESERVED },
		{ "127.0.0.1", ADDR_LOOPBACK },
		{ "127.255.255.255", ADDR_LOOPBACK },
		{ "10.1.2.3", ADDR_PRIVATE },
		{ "172.16.0.1", ADDR_PRIVATE },
		{ "172.31.255.255", ADDR_PRIVATE },
		{ "192.168.1.1", ADDR_PRIVATE },
		{ "100.64.0.1", ADDR_SHARED },
		{ "100.127.255.255", ADDR_SHARED },
		{ "169.254.1.1", ADDR_LINK_LOCAL },
		{ "169.254.169.254", ADDR_METADATA },
		{ "169.254.170.2", ADDR_METADATA },
		{ "100.100.100.200", ADDR_METADATA },
		{ "168.63.129.16", ADDR_METADATA },
		{ "192.0.0.192", ADDR_METADATA },
		{ "192.0.0.8", ADDR_RESERVED },
		{ "192.0.2.1", ADDR_DOCUMENTATION },
		{ "198.51.100.7", ADDR_DOCUMENTATION },
		{ "203.0.113.7", ADDR_DOCUMENTATION },
		{ "198.18.0.1", ADDR_BENCHMARK },
		{ "198.19.255.255", ADDR_BENCHMARK },
		{ "192.88.99.1", ADDR_TRANSLATED },
		{ "224.0.0.1", ADDR_MULTICAST },
		{ "239.255.255.250", ADDR_MULTICAST },
		{ "240.0.0.1", ADDR_RESERVED },
		{ "255.255.255.255", ADDR_RESERVED },
		{ "::", ADDR_UNSPECIFIED },
		{ "::1", ADDR_LOOPBACK },
		{ "::ffff:8.8.8.8", ADDR_TRANSLATED },
		{ "::ffff:127.0.0.1", ADDR_TRANSLATED },
		{ "::127.0.0.1", ADDR_TRANSLATED },
		{ "64:ff9b::8.8.8.8", ADDR_TRANSLATED },
		{ "64:ff9b:1::1", ADDR_TRANSLATED },
		{ "2002:7f00:1::", ADDR_TRANSLATED },
		{ "2001:0:4136:e378::1", ADDR_TRANSLATED },
		{ "2001:2::1", ADDR_BENCHMARK },
		{ "2001:20::1", ADDR_RESERVED },
		{ "2001:db8::1", ADDR_DOCUMENTATION },
		{ "3fff::1", ADDR_DOCUMENTATION },
		{ "100::1", ADDR_RESERVED },
		{ "fc00::1", ADDR_PRIVATE },
		{ "fd12:3456::1", ADDR_PRIVATE },
		{ "fd00:ec2::254", ADDR_METADATA },
		{ "fd20:ce::254", ADDR_METADATA },
		{ "fe80::1", ADDR_LINK_LOCAL },
		{ "fec0::1", ADDR_LINK_LOCAL },
		{ "ff02::1", ADDR_MULTICAST },
		{ "4000::1", ADDR_RESERVED },
		{ "5f00::1", ADDR_RESERVED },
	};

	for (size_t i = 0; i < sizeof(table) / sizeof(*table); i++) {
		struct addr a;

		assert_int_equal(addr_parse(table[i].text, strlen(table[i].text), &a), 0);
		if (addr_class(&a) != table[i].class)
			fail_msg("%s is taken for %s", table[i].text,
				 addr_class_name(addr_class(&a)));
	}
}

static void an_address_has_one_spelling(void **state UNUSED)
{
	static const char *const bad[] = { "",          "1.2.3",     "01.2.3.4",  "1.2.3.4 ",
					   "1.2.3.256", "0x1.2.3.4", "1.2.3.4.5", "::1%lo",
					   "[::1]",     "1::2::3",   "12345::",   "2130706433" };
	struct addr a, b;
	char text[48];

	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		assert_true(addr_parse(bad[i], strlen(bad[i]), &a) < 0);
	assert_true(addr_parse("1.2.3.4\0", 8, &a) < 0);
	assert_int_equal(addr_parse("2001:DB8:0:0::1", 15, &a), 0);
	addr_text(&a, text);
	assert_string_equal(text, "2001:db8::1");
	assert_int_equal(addr_parse(text, strlen(text), &b), 0);
	assert_true(addr_eq(&a, &b));
}

static enum path_fault normal(const char *path, char *out, size_t n)
{
	CLEANUP(buf) struct buf b = BUF_INIT(65536);
	enum path_fault f = path_normalise(egress_text(path, strlen(path)), &b);

	(void)snprintf(out, n, "%s", buf_str(&b));
	return f;
}

static void a_path_has_one_form(void **state UNUSED)
{
	static const char *const same[][2] = {
		{ "/", "/" },
		{ "/repos/x", "/repos/x" },
		{ "/%72epos/%78", "/repos/x" },
		{ "/a%20b", "/a%20b" },
		{ "/a%c3%bc", "/a%C3%BC" },
		{ "/a/", "/a/" },
		{ "/.git/...x", "/.git/...x" },
		{ "/%7euser/a:b@c!$&'()*+,=", "/~user/a:b@c!$&'()*+,=" },
	};
	char out[256];

	for (size_t i = 0; i < sizeof(same) / sizeof(*same); i++) {
		assert_int_equal(normal(same[i][0], out, sizeof(out)), PATH_OK);
		assert_string_equal(out, same[i][1]);
	}
}

static void what_can_be_read_in_two_ways_is_refused(void **state UNUSED)
{
	static const char *const ambiguous[] = {
		"/a.../b", "/.git/...", "/..",      "/a/.",     "/./a",     "/a/%2e%2e/b",
		"/%2E./b", "/a%2fb",    "/a%5cb",   "/a\\b",    "/a%252fb", "/a;x=1",
		"/a%3bx",  "//a",       "/a//b",    "/a%00",    "/a%0a",    "/a%7f",
		"/a%3fb",  "/a%23b",    "/a/..;/b", "/a/.%2e/", "/%25",     "/a.",
		"/a.../b", "/.git/...", "/a%2E",    "/a.../b",
	};
	static const struct {
		const char *path;
		enum path_fault fault;
	} bad[] = {
		{ "", PATH_NOT_ABSOLUTE },      { "a", PATH_NOT_ABSOLUTE },
		{ "*", PATH_NOT_ABSOLUTE },     { "/a b", PATH_BAD_BYTE },
		{ "/a\tb", PATH_BAD_BYTE },     { "/a#b", PATH_BAD_BYTE },
		{ "/\xc3\xbc", PATH_BAD_BYTE }, { "/%", PATH_BAD_ESCAPE },
		{ "/%4", PATH_BAD_ESCAPE },     { "/%zz", PATH_BAD_ESCAPE },
		{ "/%u0041", PATH_BAD_ESCAPE },
	};
	char out[256];

	for (size_t i = 0; i < sizeof(ambiguous) / sizeof(*ambiguous); i++)
		if (normal(ambiguous[i], out, sizeof(out)) != PATH_AMBIGUOUS)
			fail_msg("%s is taken for %s", ambiguous[i], out);
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		assert_int_equal(normal(bad[i].path, out, sizeof(out)), bad[i].fault);
}

static void a_prefix_ends_at_a_segment(void **state UNUSED)
{
	assert_true(path_below("/repos", "/repos", false));
	assert_true(path_below("/repos/x", "/repos", false));
	assert_false(path_below("/reposx", "/repos", false));
	assert_true(path_below("/repos/x", "/repos/", false));
	assert_false(path_below("/repos", "/repos/", false));
	assert_true(path_below("/x", "/", false));
	assert_false(path_below("/Repos/x", "/repos", false));
	assert_true(path_below("/Repos/x", "/repos", true));
	assert_false(path_below("/Reposx", "/repos", true));
}

/* ---- the proxy of the machine ---- */

static bool direct_takes(const char *const *texts, size_t n, struct direct **ret)
{
	const char *copy[8];
	struct strlist l = { .v = copy, .n = n };
	struct err e;

	memcpy(copy, texts, n * sizeof(*copy));
	return direct_new(&l, ret, &e) == 0;
}

static void what_is_direct_has_a_name_and_a_private_network(void **state UNUSED)
{
	static const char *const texts[] = {
		"Wiki.corp.example.", "*.git.example", "10.0.0.0/8",
		"100.64.0.0/10",      "fd00::/8",      "192.168.7.9/32"
	};
	static const struct {
		const char *text;
		bool opens;
	} rows[] = {
		{ "10.1.2.3", true },         { "10.255.255.255", true },
		{ "11.0.0.0", false },        { "9.255.255.255", false },
		{ "100.64.0.1", true },       { "100.100.100.200", false },
		{ "192.168.7.9", true },      { "192.168.7.8", false },
		{ "172.16.0.1", false },      { "8.8.8.8", false },
		{ "127.0.0.1", false },       { "fd12::1", true },
		{ "fc12::1", false },         { "fd00:ec2::254", false },
		{ "::ffff:10.1.2.3", false }, { "::1", false },
		{ "169.254.169.254", false },
	};
	struct direct *d = NULL;
	struct addr a;
	struct host h;

	assert_true(direct_takes(texts, ARRAY_LEN(texts), &d));
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		assert_int_equal(addr_parse(rows[i].text, strlen(rows[i].text), &a), 0);
		if (direct_opens(d, &a) != rows[i].opens)
			fail_msg("%s", rows[i].text);
	}
	assert_true(parse("wiki.corp.example", &h) == HOST_OK && direct_has(d, &h));
	assert_true(parse("a.b.git.example", &h) == HOST_OK && direct_has(d, &h));
	assert_true(parse("git.example", &h) == HOST_OK && !direct_has(d, &h));
	assert_true(parse("a.wiki.corp.example", &h) == HOST_OK && !direct_has(d, &h));
	assert_true(parse("xgit.example", &h) == HOST_OK && !direct_has(d, &h));
	(void)direct_free(d);
	assert_true(direct_takes(texts, 1, &d)); /* a name opens nothing by itself */
	assert_true(addr_parse("10.1.2.3", 8, &a) == 0 && !direct_opens(d, &a));
	(void)direct_free(d);
}

static void a_list_of_what_is_direct_is_strict(void **state UNUSED)
{
	static const char *const bad[] = { "",
					   "*",
					   ".corp.example",
					   "a.b:443",
					   "10.1.2.3",
					   "10.0.0.1/8",
					   "10.0.0.0/7",
					   "0.0.0.0/0",
					   "8.0.0.0/8",
					   "10.0.0.0/33",
					   "10.0.0.0/08",
					   "10.0.0.0/",
					   "10.0.0/8",
					   "::/0",
					   "fe80::/10",
					   "fc00::/6",
					   "127.0.0.0/8",
					   "169.254.0.0/16",
					   "*.*.a",
					   "x/8",
					   "10.0.0.0/-1",
					   "10.0.0.0/ 8",
					   "a b",
					   "http://a.b/" };
	struct direct *d = NULL;

	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		if (direct_takes(&bad[i], 1, &d))
			fail_msg("'%s'", bad[i]);
}

static void a_proxy_is_of_http_or_of_https(void **state UNUSED)
{
	struct upstream_proxy p;
	struct err e;

	assert_true(chain_parse("https://Proxy.example:3128/", &p, &e) == 0 && p.on && p.tls);
	assert_string_equal(p.host.name, "proxy.example");
	assert_true(chain_parse("http://10.0.0.1:80", &p, &e) == 0 && p.on && !p.tls);
	assert_true(chain_parse("[fd00::1]:3128", &p, &e) == 0 && p.on && !p.tls);
	assert_true(chain_parse("", &p, &e) == 0 && !p.on);
	assert_true(chain_parse("https://u:p@proxy.example:1", &p, &e) < 0 && !p.on);
	assert_null(strstr(e.what, "u:p"));
	assert_true(chain_parse("socks5://proxy.example:1", &p, &e) < 0);
	assert_true(chain_parse("https://proxy.example", &p, &e) < 0);
}

static void a_variable_that_names_a_proxy_is_told_without_its_password(void **state UNUSED)
{
	static const struct {
		const char *variable, *setting;
	} rows[] = {
		{ "HTTPS_PROXY=http://me:hush@proxy.example:3128/x?y",
		  "=http://proxy.example:3128 (its login: egress.upstream_login)" },
		{ "https_proxy=https://proxy.example:8443", "=https://proxy.example:8443" },
		{ "ALL_PROXY=proxy.example:80", "=http://proxy.example:80" },
		{ "all_proxy=socks5://me:hush@proxy.example:1080", "=http://HOST:PORT" },
		{ "HTTPS_PROXY=me:hush@", "=http://HOST:PORT" },
		{ "HTTPS_PROXY=http://proxy.example", "=http://HOST:PORT" },
	};
	char out[PROXY_HINT_SIZE];

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		char copy[128];
		char *envp[] = { (char[]){ "HTTPS_PROXYS=no" }, (char[]){ "NO_PROXY=x" },
				 (char[]){ "ALL_PROXY=" }, copy, NULL };

		(void)snprintf(copy, sizeof(copy), "%s", rows[i].variable);
		assert_true(proxy_hint(envp, out));
		if (!strstr(out, rows[i].setting) || strstr(out, "hush"))
			fail_msg("%s: %s", rows[i].variable, out);
		envp[3] = NULL;
		assert_false(proxy_hint(envp, out));
	}
}

#define BLOCK(LABEL) "-----BEGIN " LABEL "-----\nAAAA\n-----END " LABEL "-----\n"

static void a_file_is_taken_apart_into_certificates_and_one_key(void **state UNUSED)
{
	static const char good[] = "me\n" BLOCK("CERTIFICATE") BLOCK("EC PARAMETERS")
		BLOCK("EC PRIVATE KEY") "\nroot\n" BLOCK("CERTIFICATE");
	static const char *const bad[] = {
		"",
		BLOCK("CERTIFICATE"),
		BLOCK("PRIVATE KEY"),
		BLOCK("CERTIFICATE") BLOCK("ENCRYPTED PRIVATE KEY"),
		BLOCK("CERTIFICATE") BLOCK("PRIVATE KEY") BLOCK("PRIVATE KEY"),
		BLOCK("CERTIFICATE") "-----BEGIN PRIVATE KEY-----\nAAAA\n",
		"-----BEGIN CERTIFICATE-----\n" BLOCK("PRIVATE KEY") "-----END CERTIFICATE-----\n",
		BLOCK("CERTIFICATE") "-----BEGIN PRIVATE KEY-----\nA\n-----END CERTIFICATE-----\n",
		BLOCK("TRUSTED CERTIFICATE") BLOCK("PRIVATE KEY"),
	};
	size_t at = 0, n = 0;
	struct err e;

	for (size_t i = 0; i <= ARRAY_LEN(bad); i++) {
		struct buf certs = BUF_INIT(4096);
		const char *text = i < ARRAY_LEN(bad) ? bad[i] : good;
		int r = client_pem_split(text, strlen(text), &certs, &at, &n, &e);

		if ((r == 0) != (text == good))
			fail_msg("'%s'", text);
		if (r == 0) {
			assert_string_equal(buf_str(&certs),
					    BLOCK("CERTIFICATE") BLOCK("CERTIFICATE"));
			assert_memory_equal(good + at, BLOCK("EC PRIVATE KEY"), n);
		}
		buf_done(&certs);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_name_has_one_form),
		cmocka_unit_test(what_is_no_name_is_refused),
		cmocka_unit_test(addresses_are_known_in_every_spelling),
		cmocka_unit_test(ports_are_plain_numbers),
		cmocka_unit_test(a_wildcard_covers_subdomains_but_not_the_apex),
		cmocka_unit_test(only_the_internet_is_public),
		cmocka_unit_test(an_address_has_one_spelling),
		cmocka_unit_test(a_path_has_one_form),
		cmocka_unit_test(what_can_be_read_in_two_ways_is_refused),
		cmocka_unit_test(a_prefix_ends_at_a_segment),
		cmocka_unit_test(what_is_direct_has_a_name_and_a_private_network),
		cmocka_unit_test(a_list_of_what_is_direct_is_strict),
		cmocka_unit_test(a_file_is_taken_apart_into_certificates_and_one_key),
		cmocka_unit_test(a_proxy_is_of_http_or_of_https),
		cmocka_unit_test(a_variable_that_names_a_proxy_is_told_without_its_password),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
