/* SPDX-License-Identifier: Apache-2.0 */
/* unit/test_egress_names.c - names and addresses inside, and the files that the resolver reads. */
#include "unit.h"

#include "base/text/cleanup.h"
#include "egress/names/resolve.h"
#include "egress/names/synth.h"
#include "model/settings/door_spec.h"

static struct host host(const char *name)
{
	struct host h;

	assert_int_equal(host_parse(egress_text(name, strlen(name)), &h), HOST_OK);
	return h;
}

static void a_name_keeps_its_address_and_its_twin_leads_back(void **state UNUSED)
{
	struct synth *s = synth_new();
	struct host one = host("one.test"), two = host("two.test");
	struct addr a, b, again;

	assert_non_null(s);
	assert_true(synth_address(s, &one, false, &a) && synth_address(s, &two, false, &b));
	assert_true(!addr_eq(&a, &b) && a.b[0] == 198 && (a.b[1] == 18 || a.b[1] == 19));
	assert_true(synth_address(s, &one, false, &again) && addr_eq(&a, &again));
	assert_string_equal(synth_name(s, &a)->name, "one.test");
	assert_true(synth_address(s, &two, true, &again) && again.family == 6);
	assert_string_equal(synth_name(s, &again)->name, "two.test");
	(void)synth_free(s);
}

static void other_addresses_have_no_name(void **state UNUSED)
{
	static const char *const others[] = { "198.18.0.2",       "198.17.255.255",
					      "198.19.255.253",   "127.0.0.1",
					      "0.0.0.0",          "::1",
					      "fd62:7269:6700::1" };
	struct synth *s = synth_new();
	struct host one = host("one.test");
	struct addr a;

	assert_true(s && synth_address(s, &one, false, &a));
	for (size_t i = 0; i < ARRAY_LEN(others); i++) {
		assert_int_equal(addr_parse(others[i], strlen(others[i]), &a), 0);
		assert_null(synth_name(s, &a));
	}
	(void)synth_free(s);
}

static void the_number_of_names_is_bounded(void **state UNUSED)
{
	struct synth *s = synth_new();
	struct addr a;
	char name[32];

	assert_non_null(s);
	for (int i = 0; i < SYNTH_MAX; i++) {
		struct host h;

		(void)snprintf(name, sizeof(name), "n%d.test", i);
		h = host(name);
		assert_true(synth_address(s, &h, false, &a));
	}
	assert_false(synth_address(s, &(struct host){ .len = 1, .name = "x" }, false, &a));
	assert_string_equal(synth_name(s, &a)->name, name);
	(void)synth_free(s);
}

static void the_hosts_file_is_read_line_by_line(void **state UNUSED)
{
	CLEANUP(loop) struct loop *l = NULL;
	CLEANUP(resolver) struct resolver *r = NULL;
	struct host a = host("a.example"), b = host("b.example"), c = host("c.example");
	struct addr v[RESOLVE_MAX];
	struct err e;

	assert_int_equal(loop_new(&l, &e), 0);
	assert_int_equal(resolver_new(l, &r, &e), 0);
	resolver_read(r, "",
		      "# a.example\n192.0.2.1 a.example\tB.Example # c.example\n"
		      "junk c.example\n  2001:db8::1\ta.example\n192.0.2.300 c.example\n192.0.2.9");
	assert_int_equal(resolver_known(r, &a, v), 2);
	assert_true(v[0].family == 4 && v[0].b[3] == 1 && v[1].family == 6);
	assert_int_equal(resolver_known(r, &b, v), 1);
	assert_int_equal(resolver_known(r, &c, v), 0);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(a_name_keeps_its_address_and_its_twin_leads_back),
	cmocka_unit_test(other_addresses_have_no_name),
	cmocka_unit_test(the_number_of_names_is_bounded),
	cmocka_unit_test(the_hosts_file_is_read_line_by_line),
};

int main(void)
{
	return cmocka_run_group_tests(tests, NULL, NULL);
}
