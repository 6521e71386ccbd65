/* SPDX-License-Identifier: Apache-2.0 */
/* unit/test_doctor.c - the verdict on made-up checks, and the AppArmor fix on a made-up tree. */
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/text/str.h"
#include "doctor/doctor.h"
#include "model/dialect/dialect.h"

/* ---- a folder that goes away ---- */

static int remove_one(const char *path, const struct stat *st, int flag, struct FTW *at)
{
	(void)st;
	(void)flag;
	(void)at;
	return remove(path);
}

/* A root of our own with the folders AppArmor has. */
static int make_root(void **state)
{
	static char root[64];
	char path[128];

	(void)snprintf(root, sizeof(root), "/tmp/brig-doctor.XXXXXX");
	if (!mkdtemp(root))
		return -1;
	(void)snprintf(path, sizeof(path), "%s/etc", root);
	if (mkdir(path, 0755) < 0)
		return -1;
	(void)snprintf(path, sizeof(path), "%s/etc/apparmor.d", root);
	*state = root;
	return mkdir(path, 0755);
}

static int remove_root(void **state)
{
	return nftw(*state, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

static const char *below(void **state, const char *name)
{
	static char path[PATH_MAX];

	(void)snprintf(path, sizeof(path), "%s/%s", (const char *)*state, name);
	return path;
}

static void put(const char *path, const char *text)
{
	FILE *f = fopen(path, "we");

	assert_non_null(f);
	assert_true(fputs(text, f) != EOF);
	assert_int_equal(fclose(f), 0);
}

static const char *packaged; /* the profile of the Debian package */

static const char *get(const char *path)
{
	static char text[4096];
	FILE *f = fopen(path, "re");
	size_t n;

	assert_non_null(f);
	n = fread(text, 1, sizeof(text) - 1, f);
	text[n] = '\0';
	assert_int_equal(fclose(f), 0);
	return text;
}

static void put_deep(void **state, const char *name, const char *text)
{
	char path[PATH_MAX];

	(void)snprintf(path, sizeof(path), "%s", below(state, name));
	for (char *at = path + strlen(*state) + 1; (at = strchr(at, '/')); at++) {
		*at = '\0';
		(void)mkdir(path, 0755);
		*at = '/';
	}
	put(path, text);
}

/* ---- findings and verdict ---- */

static void good(struct machine *m, struct finding *f)
{
	(void)m;
	finding_say(f, CHECK_PASS, "as it should be");
}

static void weak(struct machine *m, struct finding *f)
{
	(void)m;
	finding_say(f, CHECK_WARN, "less than there could be");
	finding_hint(f, "mend %s", "it");
}

static void bad(struct machine *m, struct finding *f)
{
	(void)m;
	finding_say(f, CHECK_FAIL, "broken at '%s'", "a\nb\033[2J");
	finding_hint(f, "mend\nit");
}

static void silent(struct machine *m, struct finding *f)
{
	(void)m;
	(void)f;
}

static const struct check fine[] = { { "a", "", good }, { "b", "", weak }, { "c", "", silent } };
static const struct check broken[] = { { "a", "", good }, { "b", "", bad }, { "c", "", bad } };

static void warnings_and_skips_leave_a_machine_ready(void **state)
{
	CLEANUP(buf) struct buf out = BUF_INIT(4096);
	struct diagnosis d;

	(void)state;
	doctor_examine(fine, ARRAY_LEN(fine), NULL, &d);
	assert_int_equal(doctor_failed(&d), 0);
	doctor_text(&d, false, &out);
	assert_string_equal(buf_str(&out), "[pass] a: as it should be\n"
					   "[warn] b: less than there could be\n"
					   "hint: mend it\n"
					   "[skip] c: \n"
					   "ready: sandboxes can be made here\n");
	buf_done(&out);
	doctor_text(&d, true, &out);
	assert_string_equal(buf_str(&out),
			    "[warn] b: less than there could be\n"
			    "hint: mend it\n"
			    "passed: 1, not needed here: 1; brig doctor --all has them\n"
			    "ready: sandboxes can be made here\n");
}

static void a_failure_makes_it_not_ready_and_is_counted(void **state)
{
	CLEANUP(buf) struct buf out = BUF_INIT(4096);
	struct diagnosis d;

	(void)state;
	doctor_examine(broken, ARRAY_LEN(broken), NULL, &d);
	assert_int_equal(doctor_failed(&d), 2);
	doctor_text(&d, false, &out);
	assert_non_null(strstr(buf_str(&out), "\nnot ready: 2 checks failed\n"));
	doctor_examine(broken, 2, NULL, &d);
	doctor_text(&d, false, &out);
	assert_non_null(strstr(buf_str(&out), "\nnot ready: 1 check failed\n"));
}

static void a_name_with_control_bytes_stays_on_its_line(void **state)
{
	struct diagnosis d;

	(void)state;
	doctor_examine(broken, ARRAY_LEN(broken), NULL, &d);
	assert_string_equal(d.findings[1].detail, "broken at 'a?b?[2J'");
	assert_string_equal(d.findings[1].hint, "mend?it");
}

static void json_says_the_same(void **state)
{
	CLEANUP(buf) struct buf out = BUF_INIT(4096);
	struct diagnosis d;
	struct json j;

	(void)state;
	doctor_examine(fine, 2, NULL, &d);
	json_init(&j, &out, false);
	doctor_json(&d, &j);
	assert_string_equal(buf_str(&out),
			    "{\"schema\":1,\"ready\":true,\"checks\":["
			    "{\"name\":\"a\",\"status\":\"pass\",\"detail\":\"as it should be\","
			    "\"hint\":null},"
			    "{\"name\":\"b\",\"status\":\"warn\",\"detail\":\"less than there "
			    "could be\",\"hint\":\"mend it\"}]}");
}

static void names_are_unlike(enum dialect d)
{
	struct err e = { 0 };
	CLEANUP(spec) struct spec *s = spec_new(&e);
	const struct check *checks;
	size_t count;

	assert_non_null(s);
	s->dialect_used = (int)d;
	checks = doctor_checks(s, &count);
	assert_true(count > 0 && count <= DOCTOR_CHECKS_MAX);
	for (size_t i = 0; i < count; i++) {
		assert_true(checks[i].name[0] && checks[i].protects[0]);
		for (size_t k = 0; k < i; k++)
			assert_string_not_equal(checks[i].name, checks[k].name);
	}
}

static void the_real_checks_have_names_and_reasons_of_their_own(void **state)
{
	static const enum dialect dialects[] = { DIALECT_BRIG, DIALECT_RLM, DIALECT_INITRUNNER,
						 DIALECT_IRONCLAW };

	(void)state;
	for (size_t d = 0; d < ARRAY_LEN(dialects); d++)
		names_are_unlike(dialects[d]);
}

/* ---- AppArmor ---- */

static void the_profile_names_one_path_and_grants_user_namespaces(void **state)
{
	CLEANUP(buf) struct buf out = BUF_INIT(4096);

	(void)state;
	assert_int_equal(apparmor_profile("/usr/local/bin/brig", &out), 0);
	assert_string_equal(buf_str(&out),
			    "# As brig doctor --fix writes it; changes belong into local/brig.\n"
			    "abi <abi/4.0>,\n"
			    "include <tunables/global>\n"
			    "\n"
			    "profile brig /usr/local/bin/brig flags=(unconfined) {\n"
			    "  userns,\n"
			    "\n"
			    "  include if exists <local/brig>\n"
			    "}\n");
}

/* --fix then takes the package's file for its own. */
static void the_package_brings_the_same_profile(void **state)
{
	CLEANUP(buf) struct buf out = BUF_INIT(4096);

	(void)state;
	assert_int_equal(apparmor_profile("/usr/bin/brig", &out), 0);
	assert_string_equal(get(packaged), buf_str(&out));
}

static void an_odd_but_harmless_path_is_quoted(void **state)
{
	static const char *const paths[] = { "/opt/my tools/brig", "/opt/a,b/brig", "/opt/#1/brig",
					     "/opt/a(b)=c/brig", "/opt/\xc3\xa4/brig" };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(paths); i++) {
		CLEANUP(buf) struct buf out = BUF_INIT(4096);
		char line[256];

		(void)snprintf(line, sizeof(line), "\nprofile brig \"%s\" flags=(unconfined) {\n",
			       paths[i]);
		assert_int_equal(apparmor_profile(paths[i], &out), 0);
		assert_non_null(strstr(buf_str(&out), line));
	}
}

static void a_path_that_apparmor_would_interpret_is_refused(void **state)
{
	static const char *const paths[] = {
		"",           "brig",        "./brig",      "/",         "//usr/brig",
		"/usr//brig", "/usr/brig/",  "/usr/./brig", "/usr/..",   "/../brig",
		"/usr/*",     "/usr/b?ig",   "/usr/[a]",    "/usr/]",    "/usr/{a,b}",
		"/usr/}",     "/usr/^brig",  "/usr/\"brig", "/usr/a\\b", "/usr/a\nb",
		"/usr/a\x7f", "/@{HOME}/br", "/@exec/brig",
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(paths); i++) {
		CLEANUP(buf) struct buf out = BUF_INIT(4096);

		assert_int_equal(apparmor_profile(paths[i], &out), -EINVAL);
		assert_int_equal(out.len, 0);
	}
}

static void a_profile_that_does_not_fit_is_no_profile(void **state)
{
	CLEANUP(buf) struct buf out = BUF_INIT(80);

	(void)state;
	assert_int_equal(apparmor_profile("/usr/local/bin/brig", &out), -ENOMEM);
}

static void the_writer_makes_a_readable_file_and_replaces_its_own(void **state)
{
	CLEANUP(buf) struct buf text = BUF_INIT(4096);
	mode_t mask = umask(077);
	struct stat st;
	struct err e;

	assert_int_equal(apparmor_profile("/usr/bin/brig", &text), 0);
	assert_int_equal(apparmor_write(*state, buf_str(&text), &e), 0);
	buf_puts(&text, "# more\n");
	assert_int_equal(apparmor_write(*state, buf_str(&text), &e), 0);
	(void)umask(mask);
	assert_string_equal(get(below(state, "etc/apparmor.d/brig")), buf_str(&text));
	assert_int_equal(stat(below(state, "etc/apparmor.d/brig"), &st), 0);
	assert_int_equal(st.st_mode, S_IFREG | 0644);
	assert_int_equal(access(below(state, "etc/apparmor.d/.brig.new"), F_OK), -1);
}

static void the_writer_leaves_the_file_of_another_alone(void **state)
{
	struct err e = { 0 };

	put(below(state, "etc/apparmor.d/brig"), "profile brig /usr/bin/brig { }\n");
	assert_int_equal(apparmor_write(*state, "new\n", &e), -EEXIST);
	assert_non_null(strstr(e.what, "'/etc/apparmor.d/brig'"));
	assert_true(e.hint[0]);
	assert_string_equal(get(below(state, "etc/apparmor.d/brig")),
			    "profile brig /usr/bin/brig { }\n");
}

static void the_writer_follows_no_link(void **state)
{
	char victim[PATH_MAX];
	struct err e = { 0 };

	(void)snprintf(victim, sizeof(victim), "%s", below(state, "victim"));
	put(victim, "precious\n");
	assert_int_equal(symlink(victim, below(state, "etc/apparmor.d/brig")), 0);
	assert_int_equal(apparmor_write(*state, "new\n", &e), -EEXIST);
	assert_int_equal(unlink(below(state, "etc/apparmor.d/brig")), 0);
	assert_int_equal(symlink(victim, below(state, "etc/apparmor.d/.brig.new")), 0);
	assert_int_equal(apparmor_write(*state, "new\n", &e), 0);
	assert_string_equal(get(victim), "precious\n");
	assert_string_equal(get(below(state, "etc/apparmor.d/brig")), "new\n");
}

static void a_linked_folder_is_refused(void **state)
{
	char elsewhere[PATH_MAX];
	struct err e = { 0 };

	(void)snprintf(elsewhere, sizeof(elsewhere), "%s", below(state, "elsewhere"));
	assert_int_equal(rename(below(state, "etc"), elsewhere), 0);
	assert_int_equal(symlink(elsewhere, below(state, "etc")), 0);
	assert_int_equal(apparmor_write(*state, "new\n", &e), -ELOOP);
}

static void without_apparmor_the_writer_says_what_to_install(void **state)
{
	struct err e = { 0 };

	assert_int_equal(rmdir(below(state, "etc/apparmor.d")), 0);
	assert_int_equal(apparmor_write(*state, "new\n", &e), -ENOENT);
	assert_string_equal(e.hint, "sudo apt install apparmor");
}

static void a_profile_is_kept_when_the_parser_takes_it_and_removed_when_not(void **state)
{
	struct err e = { 0 };

	assert_int_equal(apparmor_install(*state, "/usr/bin/brig", "/bin/true", &e), 0);
	assert_int_equal(access(below(state, "etc/apparmor.d/brig"), F_OK), 0);
	assert_int_equal(apparmor_install(*state, "/usr/bin/brig", "/bin/false", &e), -EINVAL);
	assert_non_null(strstr(e.what, "/bin/false"));
	assert_int_equal(access(below(state, "etc/apparmor.d/brig"), F_OK), -1);
	assert_true(apparmor_install(*state, "/usr/bin/brig", "/none/parser", &e) < 0);
	assert_int_equal(access(below(state, "etc/apparmor.d/brig"), F_OK), -1);
	assert_int_equal(apparmor_install(*state, "/usr/*/brig", "/bin/true", &e), -EINVAL);
	assert_int_equal(access(below(state, "etc/apparmor.d/brig"), F_OK), -1);
}

static void the_state_of_apparmor_is_read_from_its_files(void **state)
{
	assert_int_equal(apparmor_state(*state), APPARMOR_OFF);
	put_deep(state, "sys/module/apparmor/parameters/enabled", "N\n");
	assert_int_equal(apparmor_state(*state), APPARMOR_OFF);
	put_deep(state, "sys/module/apparmor/parameters/enabled", "Y\n");
	assert_int_equal(apparmor_state(*state), APPARMOR_UNAWARE);
	put_deep(state, "proc/sys/kernel/apparmor_restrict_unprivileged_userns", "0\n");
	assert_int_equal(apparmor_state(*state), APPARMOR_LENIENT);
	put_deep(state, "proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1\n");
	assert_int_equal(apparmor_state(*state), APPARMOR_RESTRICTS);
}

/* ---- who can replace a program ---- */

static void a_program_below_a_folder_of_others_is_not_guarded(void **state)
{
	char path[PATH_MAX];
	struct err e = { 0 };

	(void)snprintf(path, sizeof(path), "%s", below(state, "program"));
	put(path, "");
	assert_int_equal(chmod(path, 0755), 0);
	assert_int_equal(path_guarded(path, true, &e), -EPERM); /* /tmp is everybody's */
	assert_non_null(strstr(e.what, "'/tmp'"));
	assert_int_equal(path_guarded(path, false, &e), 0); /* but sticky */
	assert_int_equal(chmod(*state, 0777), 0);
	assert_int_equal(path_guarded(path, false, &e), -EPERM);
	assert_non_null(strstr(e.hint, "chmod go-w"));
	assert_int_equal(chmod(*state, 0755), 0);
	assert_int_equal(chmod(path, 0757), 0);
	assert_int_equal(path_guarded(path, false, &e), -EPERM);
}

static void a_way_with_a_link_or_no_way_at_all_is_not_guarded(void **state)
{
	char link[PATH_MAX], below_link[PATH_MAX + 16];
	struct err e = { 0 };

	put(below(state, "etc/program"), "");
	(void)snprintf(link, sizeof(link), "%s", below(state, "link"));
	(void)snprintf(below_link, sizeof(below_link), "%s/program", link);
	assert_int_equal(symlink("etc", link), 0);
	assert_int_equal(path_guarded(below_link, false, &e), -ELOOP);
	assert_int_equal(path_guarded(below(state, "none"), false, &e), -ENOENT);
	assert_int_equal(path_guarded("relative", false, &e), -EINVAL);
}

static void a_program_of_the_system_is_guarded(void **state)
{
	struct err e = { 0 };

	(void)state;
	assert_int_equal(path_guarded("/usr/bin/true", true, &e), 0);
}

static void the_running_program_is_found(void **state)
{
	char path[PATH_MAX];
	struct err e = { 0 };

	(void)state;
	assert_int_equal(own_path(path, sizeof(path), &e), 0);
	assert_true(path[0] == '/' && strstr(path, "doctor"));
}

#define IN_ROOT(t) cmocka_unit_test_setup_teardown(t, make_root, remove_root)

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(warnings_and_skips_leave_a_machine_ready),
	cmocka_unit_test(a_failure_makes_it_not_ready_and_is_counted),
	cmocka_unit_test(a_name_with_control_bytes_stays_on_its_line),
	cmocka_unit_test(json_says_the_same),
	cmocka_unit_test(the_real_checks_have_names_and_reasons_of_their_own),
	cmocka_unit_test(the_profile_names_one_path_and_grants_user_namespaces),
	cmocka_unit_test(the_package_brings_the_same_profile),
	cmocka_unit_test(an_odd_but_harmless_path_is_quoted),
	cmocka_unit_test(a_path_that_apparmor_would_interpret_is_refused),
	cmocka_unit_test(a_profile_that_does_not_fit_is_no_profile),
	IN_ROOT(the_writer_makes_a_readable_file_and_replaces_its_own),
	IN_ROOT(the_writer_leaves_the_file_of_another_alone),
	IN_ROOT(the_writer_follows_no_link),
	IN_ROOT(a_linked_folder_is_refused),
	IN_ROOT(without_apparmor_the_writer_says_what_to_install),
	IN_ROOT(a_profile_is_kept_when_the_parser_takes_it_and_removed_when_not),
	IN_ROOT(the_state_of_apparmor_is_read_from_its_files),
	IN_ROOT(a_program_below_a_folder_of_others_is_not_guarded),
	IN_ROOT(a_way_with_a_link_or_no_way_at_all_is_not_guarded),
	cmocka_unit_test(a_program_of_the_system_is_guarded),
	cmocka_unit_test(the_running_program_is_found),
};

int main(int argc, char **argv)
{
	packaged = argc > 1 ? argv[1] : "debian/apparmor/brig";
	return cmocka_run_group_tests(tests, NULL, NULL);
}
