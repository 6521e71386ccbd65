/* SPDX-License-Identifier: Apache-2.0 */
/* The table of services, and credentials that are made of it. */
#include "unit.h"

#include "egress/credential/cred.h"
#include "egress/egress_plan.h"
#include "model/dialect/credentials.h"
#include "model/dialect/dialect.h"
#include "model/known/services.h"
#include "model/settings/envrules.h"
#include "model/settings/groups.h"
#include "model/settings/rule.h"

#define VALUE "real+token/42-long"
#define OTHER "other-value-9-long"

static struct spec *s;
static struct egress_plan *plan;
static struct err e;

static int fresh(void **state UNUSED)
{
	memset(&e, 0, sizeof(e));
	s = spec_new(&e);
	return s ? 0 : -1;
}

static int gone(void **state UNUSED)
{
	plan = egress_plan_free(plan);
	s = spec_free(s);
	return 0;
}

static int read_yaml(const char *text)
{
	const struct source src = {
		.name = "f.yaml", .folder = "/proj", .origin = ORIGIN_FILE, .trusted = true
	};
	struct node *root;

	return yaml_parse(s->arena, "f.yaml", text, strlen(text), &root, &e) < 0
		       ? -e.code
		       : brig_read(s, &src, root, &e);
}

static void use(const char *name)
{
	assert_int_equal(spec_set(s, FIELD_CREDENTIAL, name, ORIGIN_FLAG, &e), 0);
}

static void every_row_can_be_used(void **state UNUSED)
{
	size_t names = 0;

	for (const struct service *row = services; row->name; row++) {
		struct credential_spec c = { 0 };

		names += row == services || strcmp(row[-1].name, row->name) != 0;
		assert_ptr_equal(strspn(row->name, "abcdefghijklmnopqrstuvwxyz0123456789-") +
					 row->name,
				 row->name + strlen(row->name));
		assert_non_null(row->variables[0]);
		for (const char *const *v = row->variables; *v; v++) {
			assert_true(env_name_valid(*v));
			if (service_of_variable(*v) != row)
				fail_msg("%s stands twice", *v);
		}
		for (const char *const *h = row->hosts; *h; h++)
			assert_int_equal(host_check(*h, &e), 0);
		for (const char *const *slot = row->slots; *slot; slot++)
			if (!strstr(*slot, ": ") && **slot != '?' &&
			    strncmp(*slot, "basic ", 6) != 0 && strncmp(*slot, "sigv4 ", 6) != 0)
				fail_msg("%s: '%s'", row->name, *slot);
		assert_int_equal(credential_of_row(s->arena, row, &c, &e), 0);
		assert_non_null(c.field);
		/* Rows of one name stand together. */
		if (row != services && strcmp(row[-1].name, row->name) != 0)
			assert_ptr_equal(service_find(row->name), row);
	}
	assert_true(names >= 60);
}

static void a_service_is_each_variable_of_it_that_is_set(void **state UNUSED)
{
	char *one[] = { "GH_TOKEN=" VALUE, "GITHUB_TOKEN=", NULL },
	     *both[] = { "GH_TOKEN=" VALUE, "GITHUB_TOKEN=" OTHER, NULL },
	     *none[] = { "OPENAI_API_KEY=" VALUE, NULL };

	use("github");
	assert_int_equal(egress_plan_new(s, one, &plan, &e), 0);
	assert_int_equal(plan->credentials.n, 1);
	assert_string_equal(plan->credentials.v[0].name, "GH_TOKEN");
	assert_string_equal(plan->credentials.v[0].hosts.v[1], "github.com");
	assert_memory_equal(plan->secrets[0].value, VALUE, strlen(VALUE));
	plan = egress_plan_free(plan);
	assert_int_equal(egress_plan_new(s, both, &plan, &e), 0);
	assert_int_equal(plan->credentials.n, 2);
	plan = egress_plan_free(plan);
	assert_true(egress_plan_new(s, none, &plan, &e) < 0);
	assert_non_null(strstr(e.what, "credential 'github': no variable of it is set"));
	assert_non_null(strstr(e.hint, "GITHUB_TOKEN, GH_TOKEN"));
	/* By its own name a variable is wanted as before. */
	use("GITHUB_TOKEN");
	assert_true(egress_plan_new(s, one, &plan, &e) < 0);
}

static void two_keys_of_one_service_go_to_two_places(void **state UNUSED)
{
	char *environment[] = { "DD_API_KEY=" VALUE, "DD_APP_KEY=" OTHER, NULL };

	use("datadog");
	assert_int_equal(egress_plan_new(s, environment, &plan, &e), 0);
	assert_int_equal(plan->credentials.n, 2);
	assert_string_equal(plan->credentials.v[0].field, "DD-API-KEY");
	assert_string_equal(plan->credentials.v[1].field, "DD-APPLICATION-KEY");
}

static void a_service_without_a_host_wants_one(void **state UNUSED)
{
	char *environment[] = { "VAULT_TOKEN=" VALUE, NULL };

	use("vault");
	assert_true(egress_plan_new(s, environment, &plan, &e) < 0);
	assert_non_null(strstr(e.what, "another host"));
	s = spec_free(s);
	s = spec_new(&e);
	assert_true(read_yaml("credentials: {VAULT_TOKEN: {service: vault}}\n") < 0);
	assert_int_equal(read_yaml("credentials: {VAULT_TOKEN: {service: vault, host: "
				   "'vault.example:8200'}}\n"),
			 0);
	assert_int_equal(egress_plan_new(s, environment, &plan, &e), 0);
	assert_string_equal(plan->credentials.v[0].field, "X-Vault-Token");
	assert_string_equal(plan->credentials.v[0].hosts.v[0], "vault.example:8200");
	assert_string_equal(plan->credentials.v[0].headers.v[0], "Authorization");
}

static void a_file_names_a_service_and_says_the_rest(void **state UNUSED)
{
	const struct credential_spec *c;

	assert_int_equal(read_yaml("credentials:\n"
				   "  WORK: {service: gitlab, host: git.work.example, methods: "
				   "[GET]}\n"
				   "  HUB: {service: github, header: X-Own}\n"
				   "  KEY: {service: serpapi}\n"
				   "  MINE: {host: git.mine.example, git: me, header: [X-Token, "
				   "Authorization]}\n"
				   "  DD_APP_KEY: {service: datadog}\n"),
			 0);
	c = s->credentials.v;
	assert_string_equal(c[0].field, "PRIVATE-TOKEN");
	assert_int_equal(c[0].hosts.n, 1);
	assert_string_equal(c[0].git, "oauth2");
	assert_string_equal(c[0].methods.v[0], "GET");
	assert_string_equal(c[0].source.v[0], "WORK");
	assert_string_equal(c[1].field, "X-Own");
	assert_string_equal(c[1].prefix, "");
	assert_string_equal(c[1].hosts.v[0], "api.github.com");
	assert_null(c[1].git); /* there is no place for a password any more */
	assert_int_equal(c[2].slot, SLOT_QUERY);
	assert_string_equal(c[2].field, "api_key");
	assert_string_equal(c[3].git, "me");
	assert_string_equal(c[4].field, "DD-APPLICATION-KEY");
}

static void what_is_not_meant_is_refused(void **state UNUSED)
{
	static const char *const files[][2] = {
		{ "credentials: {A: {service: githib}}\n", "unknown service 'githib'" },
		{ "credentials: {A: {host: a.example, header: X-Key, git: me}}\n",
		  "no place for one" },
		{ "credentials: {A: {host: a.example, git: 'me\"; id'}}\n", "USER or USER@HOST" },
		{ "credentials: {A: {host: a.example, git: 'me@$(id)'}}\n", "USER or USER@HOST" },
		{ "credentials: {A: {host: a.example, header: [X-Key, Host]}}\n", "nothing can" },
		{ "credentials: {A: {host: a.example, header: []}}\n", "the name of a field" },
		{ "credentials: {A: {host: a.example, header: [X], basic: me}}\n", "not two" },
	};

	for (size_t i = 0; i < ARRAY_LEN(files); i++) {
		s = spec_free(s);
		s = spec_new(&e);
		assert_true(read_yaml(files[i][0]) < 0);
		if (!strstr(e.what, files[i][1]))
			fail_msg("%s: %s", files[i][0], e.what);
	}
	use("githb");
	assert_true(egress_plan_new(s, (char *[]){ NULL }, &plan, &e) < 0);
	assert_non_null(strstr(e.hint, "'github'"));
}

static bool apply(const struct creds *creds, const char *name, const char *value,
		  struct egress_head *head, struct egress_verdict *v)
{
	struct cred_target to = { .port = 443, .verified = true };
	struct host h;
	uint64_t used;

	assert_int_equal(host_parse(egress_text("gitlab.com", 10), &h), HOST_OK);
	to.host = &h;
	head->method = egress_text("GET", 3);
	head->target = egress_text("/api/v4/user", 12);
	head->fields[0] = (struct egress_field){ egress_text(name, strlen(name)),
						 egress_text(value, strlen(value)) };
	head->n_fields = 1;
	return cred_apply(creds, &to, head, &used, v);
}

static void a_key_may_stand_in_each_of_its_headers(void **state UNUSED)
{
	static const char *const forms[][3] = {
		{ "private-token", "{GITLAB_TOKEN}", VALUE },
		{ "Authorization", "Bearer {GITLAB_TOKEN}", "Bearer " VALUE },
		{ "authorization", "{GITLAB_TOKEN}", "Bearer " VALUE },
		{ "Authorization", "token {GITLAB_TOKEN}", "token " VALUE },
		/* oauth2:{GITLAB_TOKEN} */
		{ "Authorization", "Basic b2F1dGgyOntHSVRMQUJfVE9LRU59",
		  "Basic b2F1dGgyOnJlYWwrdG9rZW4vNDItbG9uZw==" },
		{ "PRIVATE-TOKEN", "Bearer {GITLAB_TOKEN}", NULL },
		{ "JOB-TOKEN", "{GITLAB_TOKEN}", NULL },
		{ "Authorization", "Bearer of-somebody-else", NULL },
		{ "PRIVATE-TOKEN", "of-somebody-else", NULL },
	};
	char *environment[] = { "GITLAB_TOKEN=" VALUE, NULL };
	struct egress_head head = { .arena = arena_new(1 << 20) };
	CLEANUP(creds) struct creds *creds = NULL;
	struct egress_verdict v;

	use("gitlab");
	assert_int_equal(egress_plan_new(s, environment, &plan, &e), 0);
	assert_int_equal(creds_new(&plan->credentials, plan->secrets, false, &creds, &e), 0);
	for (size_t i = 0; i < ARRAY_LEN(forms); i++) {
		bool ok = apply(creds, forms[i][0], forms[i][1], &head, &v);
		struct egress_text value = head.fields[0].value;

		if (ok != (forms[i][2] != NULL))
			fail_msg("%s: %s: %s", forms[i][0], forms[i][1], ok ? "passed" : v.what);
		if (ok &&
		    (value.n != strlen(forms[i][2]) || memcmp(value.p, forms[i][2], value.n) != 0))
			fail_msg("'%.*s' is not '%s'", (int)value.n, value.p, forms[i][2]);
	}
	head.arena = arena_free(head.arena);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, fresh, gone)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(every_row_can_be_used),
		TEST(a_service_is_each_variable_of_it_that_is_set),
		TEST(two_keys_of_one_service_go_to_two_places),
		TEST(a_service_without_a_host_wants_one),
		TEST(a_file_names_a_service_and_says_the_rest),
		TEST(what_is_not_meant_is_refused),
		TEST(a_key_may_stand_in_each_of_its_headers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
