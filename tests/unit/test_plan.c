/* SPDX-License-Identifier: Apache-2.0 */
/* unit/test_plan.c - the native plan: what it shows, what it refuses, whom it believes.
 *
 * Run by whoever runs the tests; nothing in here starts a sandbox. */
#include <sys/socket.h>
#include <sys/sysmacros.h>
#include <sys/un.h>

#include "unit.h"

#include "backend/backend.h"
#include "backend/kit/plan/plan.h"
#include "backend/kit/protect/protect.h"
#include "base/text/buf.h"
#include "base/text/str.h"
#include "jsoncheck.h"
#include "model/settings/paths.h"

static char top[PATH_MAX];

struct made {
	struct spec *spec;
	struct box_plan *plan;
	struct err e;
	int result;
};

static int enter(void **state UNUSED)
{
	enter_scratch(top);
	must(mkdir("ws", 0755) == 0);
	must(setenv("PATH", "/usr/bin:/bin", 1) == 0);
	return 0;
}

static int leave(void **state UNUSED)
{
	leave_scratch(top);
	return 0;
}

/* Plans a run in ws with the given "key", "value" pairs; paths may be relative to the scratch. */
static void plan(struct made *m, const char *const *pairs)
{
	const struct place at = { .cwd = top };
	char *argv[] = { "true", NULL };

	*m = (struct made){ 0 };
	m->spec = spec_new(&m->e);
	assert_non_null(m->spec);
	assert_int_equal(spec_set_key(m->spec, "workspace.path", "ws", ORIGIN_FLAG, &m->e), 0);
	for (; *pairs; pairs += 2)
		assert_int_equal(spec_set_key(m->spec, pairs[0], pairs[1], ORIGIN_FLAG, &m->e), 0);
	assert_int_equal(spec_set_argv(m->spec, 1, argv, &m->e), 0);
	m->result = spec_check(m->spec, &at, &m->e);
	if (m->result == 0)
		m->result = box_plan_new(m->spec, "native", &m->plan, &m->e);
}
#define PLAN(m, ...) plan((m), (const char *const[]){ __VA_ARGS__, NULL })
#define PLAN_PLAIN(m) plan((m), (const char *const[]){ NULL })

static void done(struct made *m)
{
	(void)box_plan_free(m->plan);
	(void)spec_free(m->spec);
}

static const struct op *op_at(const struct made *m, const char *dst)
{
	for (size_t i = m->plan->op_count; i-- > 0;)
		if (str_eq(m->plan->ops[i].dst, dst))
			return &m->plan->ops[i];
	return NULL;
}

static const char *variable(const struct made *m, const char *name)
{
	size_t n = strlen(name);

	for (const char **v = m->plan->envp; *v; v++)
		if (strncmp(*v, name, n) == 0 && (*v)[n] == '=')
			return *v + n + 1;
	return NULL;
}

static bool shows(const struct made *m, const char *host)
{
	for (size_t i = 0; i < m->plan->op_count; i++) {
		const struct op *o = &m->plan->ops[i];

		if ((o->kind == OP_BIND || o->kind == OP_BIND_FD) && path_under(host, o->src))
			return true;
	}
	return false;
}

static void refused(int code, enum err_kind kind, const char *const *pairs)
{
	struct made m;

	plan(&m, pairs);
	if (pairs[0])
		print_message("%s=%s: %s\n", pairs[0], pairs[1], m.e.what);
	assert_int_equal(m.result, -code);
	assert_int_equal(m.e.kind, kind);
	assert_null(m.plan);
	done(&m);
}
#define REFUSED(code, kind, ...) refused((code), (kind), (const char *const[]){ __VA_ARGS__, NULL })

static void a_plan_is_printed_as_json(void **state UNUSED)
{
	CLEANUP(buf) struct buf b = BUF_INIT(1 << 20);
	struct made m;
	struct json j;

	PLAN(&m, "env.set", "BAD=\xff\"\n\x1b");
	assert_int_equal(m.result, 0);
	json_init(&j, &b, true);
	box_plan_json(m.plan, &j);
	assert_true(json_is_valid(b.data, b.len));
	done(&m);
}

static void nobody_is_root_inside_and_root_is_never_mapped(void **state UNUSED)
{
	struct made m;

	PLAN_PLAIN(&m);
	assert_int_equal(m.result, 0);
	assert_true(m.plan->uid && m.plan->gid);
	for (size_t i = 0; i < m.plan->uid_count; i++)
		assert_true(m.plan->needs_range || m.plan->uids[i].outside);
	if (geteuid() == 0)
		assert_true(m.plan->by_root && m.plan->needs_range && m.plan->uid == 1000);
	else
		assert_true(m.plan->uid == geteuid() && m.plan->uids[0].outside == geteuid());
	done(&m);
	PLAN(&m, "user", "77:78");
	assert_int_equal(m.result, 0);
	assert_true(m.plan->uid == 77 && m.plan->gid == 78);
	done(&m);
}

static void root_becomes_the_owner_of_the_workspace(void **state UNUSED)
{
	struct made m;

	if (geteuid() != 0)
		skip();
	assert_int_equal(chown("ws", 4242, 4243), 0);
	PLAN_PLAIN(&m);
	assert_int_equal(m.result, 0);
	assert_false(m.plan->needs_range);
	assert_int_equal(m.plan->uids[0].outside, 4242);
	assert_int_equal(m.plan->gids[0].outside, 4243);
	done(&m);
	/* half of root is root */
	assert_int_equal(chown("ws", 4242, 0), 0);
	PLAN_PLAIN(&m);
	assert_true(m.plan->needs_range);
	done(&m);
}

static void the_variables_are_built_from_nothing(void **state UNUSED)
{
	struct made m;

	(void)setenv("BRIG_TEST_ORDINARY", "x", 1);
	(void)setenv("LC_API_KEY", "secret", 1);
	(void)setenv("GITHUB_TOKEN", "secret", 1);
	(void)setenv("LD_PRELOAD_NOT", "secret", 1);
	(void)setenv("BRIG_NAMED_NOT", "x", 1);
	(void)setenv("EDITOR", "vi", 1);
	(void)setenv("PATH", "relative::/usr/bin:/nowhere/bin:../x:/bin", 1);
	PLAN(&m, "env.pass", "EDITOR", "env.pass", "NOT_SET_AT_ALL", "env.set", "HOME=/elsewhere",
	     "env.set", "X=1");
	assert_int_equal(m.result, 0);
	assert_string_equal(variable(&m, "PATH"), "/usr/bin:/bin");
	assert_string_equal(variable(&m, "EDITOR"), "vi");
	assert_string_equal(variable(&m, "HOME"), "/elsewhere");
	assert_string_equal(variable(&m, "X"), "1");
	assert_null(variable(&m, "NOT_SET_AT_ALL"));
	assert_null(variable(&m, "BRIG_TEST_ORDINARY"));
	assert_null(variable(&m, "GITHUB_TOKEN"));
	assert_null(variable(&m, "LC_API_KEY"));
	assert_null(variable(&m, "LD_PRELOAD_NOT"));
	done(&m);
}

static void a_path_with_nothing_to_see_becomes_the_usual_one(void **state UNUSED)
{
	static const char *const paths[] = { "", ":::", "/nowhere", "relative:./x" };

	for (size_t i = 0; i < ARRAY_LEN(paths); i++) {
		struct made m;

		(void)setenv("PATH", paths[i], 1);
		PLAN_PLAIN(&m);
		assert_int_equal(m.result, 0);
		assert_non_null(strstr(variable(&m, "PATH"), "/usr/bin"));
		done(&m);
	}
	(void)unsetenv("PATH");
}

static void a_source_that_is_missing_linked_or_special_is_refused(void **state UNUSED)
{
	CLEANUP(fd) int s = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct sockaddr_un a = { .sun_family = AF_UNIX, .sun_path = "socket" };

	assert_int_equal(bind(s, (struct sockaddr *)&a, sizeof(a)), 0);
	assert_int_equal(mkfifo("fifo", 0600), 0);
	assert_int_equal(symlink("ws", "link"), 0);
	assert_int_equal(symlink("/etc/passwd", "passwd"), 0);
	assert_int_equal(mkdir("ws/sub", 0755), 0);
	write_text("file", "x");
	REFUSED(ENOENT, ERR_USAGE, "mounts", "missing:/x");
	REFUSED(ENOENT, ERR_USAGE, "read", "missing");
	REFUSED(ELOOP, ERR_POLICY, "mounts", "link:/x");
	REFUSED(ELOOP, ERR_POLICY, "mounts", "link/sub:/x");
	REFUSED(ELOOP, ERR_POLICY, "read", "passwd");
	REFUSED(ELOOP, ERR_POLICY, "write", "link");
	REFUSED(ELOOP, ERR_POLICY, "workspace.path", "link");
	REFUSED(EPERM, ERR_POLICY, "mounts", "socket:/x");
	REFUSED(EPERM, ERR_POLICY, "mounts", "fifo:/x");
	REFUSED(EPERM, ERR_POLICY, "mounts", "/dev/null:/x");
	REFUSED(ENOENT, ERR_USAGE, "workspace.path", "missing");
	REFUSED(ENOTDIR, ERR_USAGE, "workspace.path", "file");
}

static void a_linked_source_names_the_real_one(void **state UNUSED)
{
	char want[PATH_MAX + 16];
	struct made m;

	assert_int_equal(symlink("ws", "link"), 0);
	PLAN(&m, "mounts", "link:/x");
	(void)snprintf(want, sizeof(want), "use '%s/ws'", top);
	assert_int_equal(m.result, -ELOOP);
	assert_string_equal(m.e.hint, want);
	done(&m);
}

#define TARGET "workspace.target", "/mine"

static void a_mount_point_in_a_host_tree_must_exist(void **state UNUSED)
{
	struct made m;

	assert_int_equal(mkdir("data", 0755), 0);
	REFUSED(ENOENT, ERR_USAGE, "mounts", "data:/mine/missing", TARGET);
	REFUSED(ENOENT, ERR_USAGE, "mounts", "data:/usr/brig-no-such-folder");
	assert_int_equal(mkdir("ws/there", 0755), 0);
	assert_int_equal(symlink("there", "ws/link"), 0);
	REFUSED(ENOENT, ERR_USAGE, "mounts", "data:/mine/link", TARGET);
	PLAN(&m, "mounts", "data:/mine/there", TARGET);
	assert_int_equal(m.result, 0);
	done(&m);
}

static void parents_come_before_what_lies_in_them(void **state UNUSED)
{
	struct made m;

	assert_int_equal(mkdir("a", 0755), 0);
	assert_int_equal(mkdir("a/b", 0755), 0);
	assert_int_equal(mkdir("a/b/c", 0755), 0);
	PLAN(&m, "mounts", "a:/x/b/c", "mounts", "a:/x/b", "mounts", "a:/x");
	/* /x/b/c lies in the tree a shown at /x/b, which has no c */
	assert_int_equal(m.result, -ENOENT);
	done(&m);
	PLAN(&m, "mounts", "ws:/x/b/c", "mounts", "a/b:/x/b", "mounts", "a:/x");
	assert_int_equal(m.result, 0);
	for (size_t i = 0; i < m.plan->op_count; i++)
		for (size_t k = 0; k < i; k++) {
			const struct op *o = &m.plan->ops[i], *before = &m.plan->ops[k];

			if (o->kind == OP_BIND && before->kind == OP_BIND)
				assert_false(!str_eq(o->dst, before->dst) &&
					     path_under(before->dst, o->dst));
		}
	done(&m);
}

static void a_readonly_policy_makes_nothing_of_the_host_writable(void **state UNUSED)
{
	struct made m;

	PLAN(&m, "policy", "readonly", "read", "ws", TARGET);
	assert_int_equal(m.result, 0);
	for (size_t i = 0; i < m.plan->op_count; i++)
		if (m.plan->ops[i].kind == OP_BIND || m.plan->ops[i].kind == OP_BIND_FD)
			assert_false(m.plan->ops[i].writable);
	for (size_t i = 0; i < m.plan->writable_count; i++)
		assert_string_not_equal(m.plan->writable[i], "/mine");
	done(&m);
}

static void system_folders_are_never_writable(void **state UNUSED)
{
	struct made m;

	PLAN_PLAIN(&m);
	assert_int_equal(m.result, 0);
	for (size_t i = 0; i < m.plan->op_count; i++) {
		const struct op *o = &m.plan->ops[i];

		if ((o->kind == OP_BIND || o->kind == OP_BIND_FD) &&
		    !str_eq(o->dst, m.spec->workdir))
			assert_false(o->writable);
	}
	assert_int_equal(op_at(&m, "/proc")->kind, OP_PROC); /* all of it is read-only */
	assert_non_null(op_at(&m, m.spec->workdir));
	done(&m);
}

static int listen_at(const char *path)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	int s = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	(void)snprintf(a.sun_path, sizeof(a.sun_path), "%s", path);
	must(s >= 0 && bind(s, (struct sockaddr *)&a, sizeof(a)) == 0 && listen(s, 8) == 0);
	return s;
}

static void a_socket_of_the_host_in_a_shown_tree_is_hidden(void **state UNUSED)
{
	char path[PATH_MAX + 16];
	struct made m;
	int s;

	(void)snprintf(path, sizeof(path), "%s/ws/agent.sock", top);
	s = listen_at(path);
	PLAN_PLAIN(&m);
	assert_int_equal(m.result, 0);
	assert_non_null(op_at(&m, path));
	assert_int_equal(op_at(&m, path)->kind, OP_HIDE);
	done(&m);
	(void)close(s);
}

static void a_socket_with_many_connections_is_hidden_once(void **state UNUSED)
{
	char path[PATH_MAX + 16];
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	int s, ends[3][2], hidden = 0;
	struct made m;

	(void)snprintf(path, sizeof(path), "%s/ws/s", top);
	(void)snprintf(a.sun_path, sizeof(a.sun_path), "%.100s", path);
	s = listen_at(path);
	for (size_t i = 0; i < 3; i++) {
		ends[i][0] = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
		must(connect(ends[i][0], (struct sockaddr *)&a, sizeof(a)) == 0);
		ends[i][1] = accept4(s, NULL, NULL, SOCK_CLOEXEC);
		must(ends[i][1] >= 0);
	}
	PLAN_PLAIN(&m);
	assert_int_equal(m.result, 0);
	for (size_t i = 0; i < m.plan->op_count; i++)
		hidden += m.plan->ops[i].kind == OP_HIDE && str_eq(m.plan->ops[i].dst, path);
	for (size_t i = 0; i < 3; i++) {
		(void)close(ends[i][0]);
		(void)close(ends[i][1]);
	}
	(void)close(s);
	done(&m);
	assert_int_equal(hidden, 1);
}

static const struct protected_name *name_of(const struct made *m, const char *path)
{
	for (size_t i = 0; i < m->plan->protected_count; i++)
		if (str_eq(m->plan->protected[i].path, path))
			return &m->plan->protected[i];
	return NULL;
}

static void names_the_host_would_run_are_protected(void **state UNUSED)
{
	struct made m;

	assert_int_equal(mkdir("ws/.git", 0755), 0);
	assert_int_equal(mkdir("ws/.git/hooks", 0755), 0);
	write_text("ws/.git/config", "[core]\n");
	write_text("ws/.bashrc", "x");
	PLAN_PLAIN(&m);
	assert_int_equal(m.result, 0);
	assert_true(name_of(&m, ".git/hooks")->existed && name_of(&m, ".git/hooks")->covered);
	assert_true(name_of(&m, ".git/config")->existed && name_of(&m, ".git/config")->covered);
	assert_true(name_of(&m, ".bashrc")->existed && name_of(&m, ".bashrc")->covered);
	assert_false(name_of(&m, ".mcp.json")->existed);
	assert_true(name_of(&m, ".mcp.json")->covered);
	assert_false(name_of(&m, ".zshrc")->existed || name_of(&m, ".zshrc")->covered);
	for (size_t i = 0; i < m.plan->protected_count; i++) {
		const struct protected_name *n = &m.plan->protected[i];

		if (!n->covered)
			continue;
		assert_int_equal(m.plan->ops[n->op].kind, OP_COVER);
		assert_string_equal(m.plan->ops[n->op].dst, n->inside);
		assert_false(m.plan->ops[n->op].writable);
	}
	done(&m);
}

static const char *to_vanish; /* the moment before it is opened */

int __real_fd_open_nolinks(int dirfd, const char *path, int flags, unsigned how);
int __wrap_fd_open_nolinks(int dirfd, const char *path, int flags, unsigned how);

int __wrap_fd_open_nolinks(int dirfd, const char *path, int flags, unsigned how)
{
	if (to_vanish && str_eq(path, to_vanish))
		must(unlinkat(dirfd, path, AT_REMOVEDIR) == 0);
	return __real_fd_open_nolinks(dirfd, path, flags, how);
}

/* As the placeholders of other runs do. */
static void a_name_that_vanishes_while_it_is_looked_at_is_held(void **state UNUSED)
{
	struct made m;

	must(mkdir("ws/.claude", 0755) == 0);
	to_vanish = ".claude";
	PLAN_PLAIN(&m);
	to_vanish = NULL;
	assert_int_equal(m.result, 0);
	assert_int_equal(access("ws/.claude", F_OK), -1);
	assert_true(name_of(&m, ".claude")->covered);
	assert_false(name_of(&m, ".claude")->existed);
	done(&m);
}

/* Another run may make a repository between the plan and the look at the names: none of it is
 * covered, so it is looked at afterwards. */
static void a_repository_made_after_the_plan_is_looked_at(void **state UNUSED)
{
	CLEANUP(outcome) struct outcome *o = outcome_new();
	struct protect *t = NULL;
	char path[PATH_MAX + 8];
	struct made m;

	(void)snprintf(path, sizeof(path), "%s/state", top);
	must(setenv("XDG_STATE_HOME", path, 1) == 0);
	PLAN_PLAIN(&m);
	assert_int_equal(m.result, 0);
	must(mkdir("ws/.git", 0755) == 0 && mkdir("ws/.git/hooks", 0755) == 0);
	assert_int_equal(protect_begin(m.plan, "id", &t, &m.e), 0);
	assert_int_equal(protect_write_down(t, &m.e), 0);
	write_text("ws/.git/hooks/post-checkout", "x");
	protect_end(t, false, o);
	assert_int_equal(access("ws/.git/hooks/post-checkout", F_OK), -1);
	assert_int_equal(o->denial_count, 1);
	(void)protect_free(t);
	done(&m);
}

static void a_protected_name_that_is_a_link_is_only_watched(void **state UNUSED)
{
	struct made m;

	assert_int_equal(symlink("/etc", "ws/.vscode"), 0);
	assert_int_equal(mkdir("ws/.git", 0755), 0);
	assert_int_equal(symlink("/etc", "ws/.git/hooks"), 0);
	assert_int_equal(symlink("/etc", "ws/.git/info"), 0);
	PLAN_PLAIN(&m);
	assert_int_equal(m.result, 0);
	assert_true(name_of(&m, ".vscode")->existed && !name_of(&m, ".vscode")->covered);
	assert_true(name_of(&m, ".git/hooks")->existed && !name_of(&m, ".git/hooks")->covered);
	assert_true(name_of(&m, ".git/info")->existed && !name_of(&m, ".git/info")->covered);
	assert_null(op_at(&m, "/workspace/.vscode"));
	done(&m);
}

static void write_line(const char *path, const char *head, const char *tail)
{
	char text[PATH_MAX * 2];

	(void)snprintf(text, sizeof(text), "%s%s\n", head, tail);
	write_text(path, text);
}

/* The attacks on a worktree below all come as files of an unpacked archive: ws, and beside it a
 * folder that pretends to be a repository. A file of the user's lies further up. */
static void make_archive(const char *commondir)
{
	static const char *const all[] = { "meta", "meta/worktrees", "meta/worktrees/ws" };

	for (size_t i = 0; i < ARRAY_LEN(all); i++)
		must(mkdir(all[i], 0755) == 0);
	write_line("ws/.git", "gitdir: ", "../meta/worktrees/ws");
	write_line("meta/worktrees/ws/gitdir", "", "../../../ws/.git");
	write_line("meta/worktrees/ws/commondir", "", commondir);
	write_text("secret", "x");
}

static void expect_secret_unseen(void)
{
	char path[PATH_MAX + 16];
	struct made m;

	(void)snprintf(path, sizeof(path), "%s/secret", top);
	PLAN_PLAIN(&m);
	if (m.result == 0)
		assert_false(shows(&m, path));
	done(&m);
}

static void an_archive_cannot_pass_the_folder_above_it_off_as_a_repository(void **state UNUSED)
{
	make_archive("../../..");
	expect_secret_unseen();
}

static void an_archive_cannot_pass_any_folder_off_as_a_repository(void **state UNUSED)
{
	static const char *const goals[] = { "../../../..", "/",    "/etc",          "/home",
					     "/root",       "/tmp", "../../../../.." };

	make_archive("x");
	for (size_t i = 0; i < ARRAY_LEN(goals); i++) {
		write_line("meta/worktrees/ws/commondir", "", goals[i]);
		expect_secret_unseen();
	}
}

static void a_folder_named_worktrees_is_not_yet_a_repository(void **state UNUSED)
{
	must(mkdir("worktrees", 0755) == 0 && mkdir("worktrees/ws", 0755) == 0);
	write_line("ws/.git", "gitdir: ", "../worktrees/ws");
	write_line("worktrees/ws/gitdir", "", "../../ws/.git");
	write_line("worktrees/ws/commondir", "", "../..");
	write_text("secret", "x");
	expect_secret_unseen();
}

static void a_git_file_of_garbage_shows_nothing(void **state UNUSED)
{
	static const char *const texts[] = {
		"",
		"\n",
		"gitdir:",
		"gitdir: ",
		"gitdir: \n",
		"gitdir: /etc\n",
		"gitdir: .\n",
		"gitdir: ..\n",
		"gitdir: ~\n",
		"gitdir: ~root\n",
		"gitdir: /proc/self/cwd\n",
		"gitdir: \x01\n",
		"garbage",
		"gitdir: ../../../../../../../../etc\n",
		"gitdir: /dev/zero\n",
	};

	write_text("secret", "x");
	for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
		struct made m;

		write_text("ws/.git", texts[i]);
		PLAN_PLAIN(&m);
		assert_int_equal(m.result, 0);
		assert_false(shows(&m, top));
		assert_false(shows(&m, "/etc"));
		done(&m);
	}
}

static void a_git_file_that_is_a_pipe_does_not_stop_brig(void **state UNUSED)
{
	struct made m;

	assert_int_equal(mkfifo("ws/.git", 0600), 0);
	PLAN_PLAIN(&m);
	done(&m);
}

static void a_private_workspace_shows_no_folder_of_the_host(void **state UNUSED)
{
	const struct place at = { .cwd = top, .home = top };
	CLEANUP(spec) struct spec *s = NULL;
	CLEANUP(box_plan) struct box_plan *p = NULL;
	struct err e;

	s = spec_new(&e);
	assert_int_equal(spec_check(s, &at, &e), 0);
	assert_true(s->private_workspace);
	assert_int_equal(box_plan_new(s, "native", &p, &e), 0);
	assert_null(p->workspace);
	assert_int_equal(p->protected_count, 0);
	for (size_t i = 0; i < p->op_count; i++)
		assert_true(p->ops[i].kind != OP_BIND || !path_under(top, p->ops[i].src));
	assert_true(p->note_count > 0 && p->notes[0]);
}

static void very_long_names_are_handled_or_refused(void **state UNUSED)
{
	char target[PATH_MAX + 64];
	struct made m;

	assert_int_equal(mkdir("data", 0755), 0);
	for (size_t n = (size_t)snprintf(target, sizeof(target), "data:"); n < 3000; n += 2)
		memcpy(target + n, "/x", 3);
	PLAN(&m, "mounts", target);
	assert_int_equal(m.result, 0);
	done(&m);
}

static void a_crowd_of_mounts_is_planned(void **state UNUSED)
{
	struct spec *s;
	struct box_plan *p = NULL;
	const struct place at = { .cwd = top };
	struct err e;

	assert_int_equal(mkdir("data", 0755), 0);
	s = spec_new(&e);
	assert_int_equal(spec_set_key(s, "workspace.path", "ws", ORIGIN_FLAG, &e), 0);
	for (int i = 0; i < 200; i++) {
		char text[64];

		(void)snprintf(text, sizeof(text), "data:/m/%d/x/y", i);
		assert_int_equal(spec_set_key(s, "mounts", text, ORIGIN_FLAG, &e), 0);
	}
	assert_int_equal(spec_check(s, &at, &e), 0);
	assert_int_equal(box_plan_new(s, "native", &p, &e), 0);
	assert_true(p->op_count > 600);
	(void)box_plan_free(p);
	(void)spec_free(s);
}

static const char *printed(const struct backend *b, const struct backend_plan *p, struct buf *out)
{
	struct json j;

	json_init(&j, out, true);
	b->plan_json(p, &j);
	return buf_str(out);
}

/* Of every backend: what a plan needs is its own, down to the texts. */
static void a_plan_outlives_its_spec(void **state UNUSED)
{
	static const char *const settings[][2] = { { "workspace.path", "ws" },
						   { "ssh.host", "host" },
						   { "env.set", "NAME=VALUE" },
						   { "limits.memory", "256m" },
						   { "read", "data" } };
	/* A pod has no folder of this host's, and wants two images. */
	static const char *const pod[][2] = { { "image", "image:1" },
					      { "kubernetes.helper_image", "helper:1" } };
	char *argv[] = { (char[]){ "true" }, NULL };
	const struct place at = { .cwd = top };

	must(mkdir("data", 0755) == 0);
	for (size_t i = 0; backends_all[i]; i++) {
		const struct backend *b = backends_all[i];
		CLEANUP(buf) struct buf before = BUF_INIT(1 << 20), after = BUF_INIT(1 << 20);
		struct backend_plan *p = NULL;
		struct err e = { 0 };
		struct spec *s = spec_new(&e);
		bool planned, in_pod = b->kind == BACKEND_KUBERNETES;

		for (size_t k = 0; k < ARRAY_LEN(settings) - in_pod; k++)
			assert_int_equal(
				spec_set_key(s, settings[k][0], settings[k][1], ORIGIN_DIALECT, &e),
				0);
		for (size_t k = 0; in_pod && k < ARRAY_LEN(pod); k++)
			assert_int_equal(spec_set_key(s, pod[k][0], pod[k][1], ORIGIN_DIALECT, &e),
					 0);
		assert_int_equal(spec_set_argv(s, 1, argv, &e), 0);
		assert_int_equal(spec_check(s, &at, &e), 0);
		planned = b->plan(s, &p, NULL, &e) == 0;
		if (planned)
			(void)printed(b, p, &before);
		(void)spec_free(s);
		assert_true(planned || b->kind == BACKEND_BWRAP); /* which may not be here */
		if (planned)
			assert_string_equal(printed(b, p, &after), buf_str(&before));
		if (planned)
			(void)b->plan_free(p);
	}
}

#define HERE(f) cmocka_unit_test_setup_teardown(f, enter, leave)
static const struct CMUnitTest tests[] = {
	HERE(a_plan_is_printed_as_json),
	HERE(a_plan_outlives_its_spec),
	HERE(nobody_is_root_inside_and_root_is_never_mapped),
	HERE(root_becomes_the_owner_of_the_workspace),
	HERE(the_variables_are_built_from_nothing),
	HERE(a_path_with_nothing_to_see_becomes_the_usual_one),
	HERE(a_source_that_is_missing_linked_or_special_is_refused),
	HERE(a_linked_source_names_the_real_one),
	HERE(a_mount_point_in_a_host_tree_must_exist),
	HERE(parents_come_before_what_lies_in_them),
	HERE(a_readonly_policy_makes_nothing_of_the_host_writable),
	HERE(system_folders_are_never_writable),
	HERE(a_socket_of_the_host_in_a_shown_tree_is_hidden),
	HERE(a_socket_with_many_connections_is_hidden_once),
	HERE(names_the_host_would_run_are_protected),
	HERE(a_name_that_vanishes_while_it_is_looked_at_is_held),
	HERE(a_repository_made_after_the_plan_is_looked_at),
	HERE(a_protected_name_that_is_a_link_is_only_watched),
	HERE(an_archive_cannot_pass_the_folder_above_it_off_as_a_repository),
	HERE(an_archive_cannot_pass_any_folder_off_as_a_repository),
	HERE(a_folder_named_worktrees_is_not_yet_a_repository),
	HERE(a_git_file_of_garbage_shows_nothing),
	HERE(a_git_file_that_is_a_pipe_does_not_stop_brig),
	HERE(a_private_workspace_shows_no_folder_of_the_host),
	HERE(very_long_names_are_handled_or_refused),
	HERE(a_crowd_of_mounts_is_planned),
};

int main(void)
{
	return cmocka_run_group_tests(tests, NULL, NULL);
}
