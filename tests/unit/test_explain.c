/* SPDX-License-Identifier: Apache-2.0 */
/* unit/test_explain.c - what a failed command's last words bring out: brig's own lines, never a
 * word of the command's. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/resource.h>

#include <cmocka.h>

#include "base/text/str.h"
#include "sandbox/explain.h"

/* The first line for a command that exited with 1; NULL: none. The caller frees nothing: `o` has
 * it. */
static const char *line(struct outcome *o, const struct spec *s, const char *said, size_t n)
{
	o->kind = OUTCOME_EXITED;
	o->exit_code = 1;
	outcome_contain(o, &(struct isolation){ .mount_ns = true });
	o->hint_count = 0;
	explain(s, said, n, o);
	return o->hint_count ? o->hints[0] : NULL;
}

#define SOME_CORE 4096
#define LINE(text) line(o, s, text, sizeof(text) - 1)

static int setup(void **state)
{
	struct err e = { 0 };

	*state = spec_new(&e);
	return *state ? 0 : -1;
}

static int teardown(void **state)
{
	(void)spec_free(*state);
	return 0;
}

static void a_name_counts_as_a_whole(void **state)
{
	struct spec *s = *state;
	CLEANUP(outcome) struct outcome *o = outcome_new();

	s->policy = POLICY_WORKSPACE_WRITE;
	assert_non_null(LINE(".envrc: Permission denied"));
	assert_null(LINE("EACCES /x/y/.envrc"));
	s->inside = "/x/y";
	assert_non_null(LINE("EACCES /x/y/.envrc"));
	assert_non_null(LINE("Permission denied: '.vscode/x'"));
	assert_null(LINE("a.envrc: Permission denied"));
	assert_null(LINE(".envrc.example: Permission denied"));
	assert_null(LINE(".envrc-old: Permission denied"));
	assert_non_null(LINE(".envrc.old .envrc: Permission denied"));
	assert_null(LINE(".envrc: hello"));
	assert_null(LINE("Permission denied"));
	assert_non_null(LINE("a\0b Permission denied \0.envrc\0"));
	assert_non_null(strstr(LINE("Cannot make directory '/run/screen': Read-only file system"),
			       "SCREENDIR"));
	assert_null(LINE("/run/screens: Permission denied"));
	assert_non_null(
		strstr(LINE("error accessing\n`/.packages/var/lib/gems/3.1.0/cache`.\nerror "
			    "is Errno::EROFS: Read-only file system @ dir_s_mkdir"),
		       "bundle config"));
	assert_non_null(strstr(LINE("You don't have write permissions for the "
				    "/.packages/var/lib/gems/3.1.0 directory."),
			       "--user-install"));
	assert_null(LINE("from /.packages/var/lib/gems/3.1.0/gems/x/y.rb:3:in `call'"));
	assert_non_null(strstr(LINE("touch: '../x': Read-only file system"), "--write"));
	assert_non_null(strstr(LINE(".envrc: Read-only file system"), "is protected"));
	assert_non_null(strstr(LINE("open .envrc: read-only file system"), "is protected"));
	assert_non_null(strstr(LINE("zsh: permission denied: .envrc"), "is protected"));
	assert_non_null(strstr(LINE("open x: too many open files"), "limits.files"));
	assert_null(LINE("preexisting settings in .envrc"));
	assert_non_null(strstr(LINE("files would be overwritten by checkout:\n\t.vscode\n"),
			       "'.vscode' is protected"));
	assert_null(LINE("files would be overwritten by checkout:\n\tx\n"));
	assert_non_null(strstr(LINE("failed to delete '.git/worktrees/w': Device or resource busy"),
			       "git worktree prune"));
	assert_non_null(strstr(LINE("could not write config file .git/config: Device or resource "
				    "busy\nfatal: Failed to register url for submodule path 'x'"),
			       "git submodule"));
	assert_non_null(strstr(LINE("could not write config file .git/config: EBUSY\nerror: failed "
				    "to initialize worktree config"),
			       "sparse-checkout"));
	assert_null(LINE("Failed to register url for submodule path 'x'"));
	s->inside = "/w/x";
	assert_non_null(strstr(LINE("mv: cannot move '/w/x' to 'y': Device or resource busy"),
			       "moved or removed"));
	assert_null(LINE("mv: cannot move '/w/xy' to 'y': Device or resource busy"));
	assert_non_null(strstr(LINE("destination path '.' already exists and is not empty"),
			       "clone into a new folder"));
	assert_null(LINE("destination path 'x' already exists and is not empty"));
	assert_true(o->denial_count > 2 && outcome_is_covered(&o->denials[0]));
	s->policy = POLICY_READONLY;
	assert_null(LINE(".envrc: Permission denied"));
	assert_non_null(LINE(".envrc: Read-only file system"));
}

static void a_name_in_such_a_line_is_a_denial(void **state)
{
	struct spec *s = *state;
	CLEANUP(outcome) struct outcome *o = outcome_new();

	s->policy = POLICY_WORKSPACE_WRITE;
	assert_non_null(LINE("sh: .git/hooks/x: Read-only file system\n.envrc is there\n"
			     "sh: .vscode: File exists\nsh: .git/hooks/y: EROFS\n"));
	assert_int_equal(o->denial_count, 2);
	assert_string_equal(o->denials[0].target, ".git/hooks");
	assert_int_equal(o->denials[0].count, 2);
	assert_string_equal(o->denials[1].target, ".vscode");
	assert_string_equal(o->denials[1].kind, "protected-path");
}

static void a_group_is_named_where_its_host_is(void **state)
{
	struct spec *s = *state;
	CLEANUP(outcome) struct outcome *o = outcome_new();

	s->network = NETWORK_NONE;
	assert_non_null(strstr(LINE("getaddrinfo x.pythonhosted.org"), "@pypi"));
	assert_non_null(strstr(LINE("dial tcp: lookup proxy.golang.org"), "@go "));
	assert_non_null(strstr(LINE("Could not resolve host: evil.example"), "@GROUP"));
	assert_null(strstr(LINE("Could not resolve host: evil.example"), "evil"));
	s->network = NETWORK_PROXY;
	assert_null(LINE("getaddrinfo x.pythonhosted.org"));
}

static void who_wants_more_rights_is_told_what_to_do(void **state)
{
	struct spec *s = *state;
	CLEANUP(outcome) struct outcome *o = outcome_new();

	assert_non_null(strstr(LINE("su: Critical error - immediate abort"), "root inside"));
	assert_non_null(strstr(LINE("sudo: The \"no new privileges\" flag is set, which"), "root"));
	assert_non_null(strstr(LINE("No usable sandbox! If this is"), "--no-sandbox"));
	assert_non_null(strstr(LINE("System has not been booted with systemd as init system"),
			       "companion"));
	assert_null(LINE("it was booted with systemd as init system"));
	assert_non_null(strstr(LINE("mount: /mnt: must be superuser to use mount."), "-v"));
	assert_null(LINE("mount: /mnt: can't find in /etc/fstab."));
	assert_non_null(strstr(LINE("No permission to enable x event."), "--profile debug"));
	assert_null(LINE("consult: Critical errors"));
	assert_non_null(strstr(LINE("install: cannot change permissions of 'd': Operation not "
				    "permitted"),
			       "set-id bits"));
	assert_non_null(strstr(LINE("cp: preserving permissions for 'd': Operation not permitted"),
			       "set-id"));
	assert_non_null(
		strstr(LINE("tar: d: Cannot change mode to rwxrwsr-x: Operation not permitted"),
		       "set-id bits"));
	assert_non_null(
		strstr(LINE("fatal: Could not make /w/.git/hooks/ writable by group"), "set-id"));
	assert_non_null(
		strstr(LINE("sed: cannot rename ./sedX: Device or resource busy"), "outside"));
	assert_non_null(strstr(LINE("dd: '/dev/shm/x': No space left on device"), "limits.tmp"));
	assert_null(LINE("dd: '/x': No space left on device"));
	assert_non_null(
		strstr(LINE("chown: changing ownership of 'x': Invalid argument"), "other users"));
	assert_null(LINE("chown: changing ownership of 'x': No such file or directory"));
	assert_non_null(
		strstr(LINE("OSError: [Errno 24] Too many open files: 'x'"), "limits.files"));
	assert_non_null(strstr(LINE("fatal: a.x: clean filter 'mine' failed"), "--local"));
	s->profile = PROFILE_DEBUG;
	assert_null(LINE("No permission to enable x event."));
	o->backend = "docker";
	assert_null(LINE("su: Critical error - immediate abort"));
}

/* What apt misses in /etc would not help it. */
static void one_thing_is_told_of_apt(void **state)
{
	struct spec *s = *state;
	CLEANUP(outcome) struct outcome *o = outcome_new();

	assert_non_null(
		strstr(LINE("Unable to read /etc/apt/sources.list (2: No such file or "
			    "directory)\nopen /var/lib/dpkg/lock-frontend (2: No such file or "
			    "directory)"),
		       "apt and dpkg know no package"));
	assert_int_equal(o->hint_count, 1);
	(void)LINE("dpkg-query: no packages found matching bash");
	assert_int_equal(o->hint_count, 1);
	(void)LINE("update-alternatives: error: no alternatives for vi");
	assert_int_equal(o->hint_count, 1);
}

static void what_whatis_misses_is_told(void **state)
{
	struct spec *s = *state;
	CLEANUP(outcome) struct outcome *o = outcome_new();

	assert_non_null(strstr(LINE("ls: nothing appropriate."), "--read /var/cache/man"));
	assert_null(LINE("nothing appropriate"));
}

/* Its words are on standard output. */
static void screen_is_told_of_its_folder(void **state)
{
	struct spec *s = *state;
	CLEANUP(outcome) struct outcome *o = outcome_new();
	const char *screen[] = { "/usr/bin/screen", NULL }, *other[] = { "fullscreen", NULL };

	s->command.argv = screen;
	assert_non_null(strstr(LINE(""), "SCREENDIR"));
	(void)LINE("Cannot make directory '/run/screen': Read-only file system");
	assert_int_equal(o->hint_count, 1);
	s->command.argv = other;
	assert_null(LINE(""));
	s->command.argv = screen;
	o->backend = "docker";
	assert_null(LINE(""));
}

/* It said nothing; a core is missed by whom outside one would be written for. */
static void a_core_that_is_missed_is_told_of(void **state)
{
	CLEANUP(outcome) struct outcome *o = outcome_new();
	const struct spec *s = *state;
	struct rlimit was;

	assert_int_equal(getrlimit(RLIMIT_CORE, &was), 0);
	if (was.rlim_max < SOME_CORE)
		skip();
	outcome_contain(o, &(struct isolation){ .mount_ns = true });
	for (int with = 0; with < 2; with++) {
		const struct rlimit now = { .rlim_cur = with ? SOME_CORE : 0,
					    .rlim_max = was.rlim_max };

		assert_int_equal(setrlimit(RLIMIT_CORE, &now), 0);
		o->kind = OUTCOME_SIGNALLED;
		o->signal = SIGSEGV;
		explain(s, "", 0, o);
		o->kind = OUTCOME_EXITED;
		o->exit_code = 128 + SIGABRT;
		explain(s, "", 0, o);
		o->exit_code = 128 + SIGTERM;
		explain(s, "", 0, o);
		assert_int_equal(o->hint_count, with ? 2 : 0);
	}
	assert_non_null(strstr(o->hints[0], "no core files"));
	(void)setrlimit(RLIMIT_CORE, &was);
}

static void a_file_of_the_hosts_is_named_if_everybody_may_read_it(void **state)
{
	struct spec *s = *state;
	CLEANUP(outcome) struct outcome *o = outcome_new();
	char *read[] = { "/etc/passwd" };

	assert_non_null(
		strstr(LINE("cat: /etc/passwd: No such file or directory"),
		       "the host's '/etc/passwd' is not shown inside; --read /etc/passwd "));
	assert_non_null(LINE("cannot open '/etc/passwd'."));
	assert_non_null(LINE("/etc/nowhere /etc/../etc/passwd not found"));
	assert_null(LINE("cat: /etc/passwd"));
	assert_null(LINE("/etc/shadow: No such file or directory")); /* root's alone */
	assert_null(LINE("/x/etc/passwd: No such file or directory"));
	assert_null(LINE("/etc/passwd.old: No such file or directory"));
	assert_null(LINE("/etc/../usr/bin/env: No such file or directory"));
	assert_null(LINE("/etc/: No such file or directory"));
	assert_null(LINE("/etc/$(id): No such file or directory"));
	s->read.v = (const char **)read;
	s->read.n = 1;
	assert_null(LINE("cat: /etc/passwd: No such file or directory"));
	s->read.n = 0;
	o->backend = "docker";
	assert_null(LINE("cat: /etc/passwd: No such file or directory"));
}

static void what_is_refused_by_its_kind_is_told(void **state)
{
	struct spec *s = *state;
	CLEANUP(outcome) struct outcome *o = outcome_new();

	assert_non_null(strstr(LINE("ping: socktype: SOCK_RAW"), "raw sockets"));
	assert_non_null(strstr(LINE("error: Couldn't load public key /h/.ssh/k: No such file"),
			       "--ssh-agent"));
	assert_null(LINE("error: Couldn't load the page"));
	assert_non_null(strstr(LINE("ping: prctl: Operation not permitted"), "raw sockets"));
	assert_non_null(strstr(LINE("chown: invalid user: 'daemon'"), "other users"));
	assert_non_null(
		strstr(LINE("setfacl: Option -m: Invalid argument near character 3"), "ACLs"));
	assert_non_null(strstr(LINE("bash: ulimit: core file size: cannot modify limit: Operation "
				    "not permitted"),
			       "gdb"));
	assert_null(LINE("chmod: changing permissions of 'x': No such file or directory"));
	assert_non_null(
		strstr(LINE("chmod: changing permissions of 'x': Operation not permitted"), "g+s"));
}

static void what_an_overlay_cannot_do_is_told(void **state)
{
	struct spec *s = *state;
	CLEANUP(outcome) struct outcome *o = outcome_new();

	assert_null(LINE("cp: x: Value too large for defined data type"));
	s->workspace_mode = WORKSPACE_OVERLAY;
	assert_null(LINE("cp: x: Value too large"));
	assert_non_null(strstr(LINE("cp: x: Value too large for defined data type"), "group"));
	assert_non_null(strstr(LINE("rename: Invalid cross-device link"), "renamed"));
	s->workspace_mode = WORKSPACE_DIRECT;
}

static void only_of_a_command_that_failed(void **state)
{
	struct spec *s = *state;
	CLEANUP(outcome) struct outcome *o = outcome_new();

	s->network = NETWORK_NONE;
	o->kind = OUTCOME_EXITED;
	explain(s, "EAI_AGAIN", 9, o);
	assert_int_equal(o->hint_count, 0);
	o->kind = OUTCOME_SIGNALLED;
	explain(s, "EAI_AGAIN", 9, o);
	assert_int_equal(o->hint_count, 1);
	o->hint_count = 0;
	o->kind = OUTCOME_TIMEOUT;
	explain(s, "EAI_AGAIN", 9, o);
	assert_int_equal(o->hint_count, 0);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_core_that_is_missed_is_told_of, setup, teardown),
		cmocka_unit_test_setup_teardown(a_name_counts_as_a_whole, setup, teardown),
		cmocka_unit_test_setup_teardown(a_name_in_such_a_line_is_a_denial, setup, teardown),
		cmocka_unit_test_setup_teardown(a_group_is_named_where_its_host_is, setup,
						teardown),
		cmocka_unit_test_setup_teardown(who_wants_more_rights_is_told_what_to_do, setup,
						teardown),
		cmocka_unit_test_setup_teardown(
			a_file_of_the_hosts_is_named_if_everybody_may_read_it, setup, teardown),
		cmocka_unit_test_setup_teardown(what_is_refused_by_its_kind_is_told, setup,
						teardown),
		cmocka_unit_test_setup_teardown(what_an_overlay_cannot_do_is_told, setup, teardown),
		cmocka_unit_test_setup_teardown(only_of_a_command_that_failed, setup, teardown),
		cmocka_unit_test_setup_teardown(one_thing_is_told_of_apt, setup, teardown),
		cmocka_unit_test_setup_teardown(what_whatis_misses_is_told, setup, teardown),
		cmocka_unit_test_setup_teardown(screen_is_told_of_its_folder, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
