/* SPDX-License-Identifier: Apache-2.0 */
/* golden/test_golden.c - the plans of some specs, compared with the files beside this one.
 *
 * A plan is made in a process without privileges, in a folder of its own. What depends on the
 * machine is taken out or given a name before the comparison: the folder is @TOP@, the ids are
 * 4242, system folders and pieces of /etc are dropped. BRIG_UPDATE_GOLDEN=1 rewrites the files. */
#include <grp.h>
#include <sys/prctl.h>

#include "unit.h"

#include "backend/backend.h"
#include "backend/bwrap/args.h"
#include "backend/docker/docker.h"
#include "backend/kit/plan/plan.h"
#include "base/text/buf.h"
#include "base/text/str.h"
#include "model/request/code.h"
#include "model/settings/paths.h"

#define TEXT_MAX_BYTES ((size_t)1 << 20)
#define SHOWN_ID 4242

static const char *folder; /* of the expected plans */

struct scene {
	const char *name;
	const char *settings[24];           /* key, value, ... */
	void (*prepare)(void);              /* in the scratch folder */
	const char *home;                   /* below it; NULL: none */
	const char *code;                   /* of Python, instead of the command; NULL: none */
	bool ssh;                           /* the plan of the ssh backend */
	bool slurm;                         /* of the slurm backend */
	const struct bwrap_features *bwrap; /* bubblewrap's arguments instead of the plan */
	bool docker;                        /* the docker backend's plan */
	bool kube;                          /* the kubernetes backend's plan */
};

static const struct bwrap_features upstream_0_8 = { .bind_fd = false };
static const struct bwrap_features since_0_10 = { .bind_fd = true };

/* ---- scenes ---- */

static void make_project(void)
{
	must(mkdir("ws/src", 0755) == 0);
	write_text("ws/README", "x");
}

static void make_trees(void)
{
	static const char *const all[] = { "a",       "a/sub",  "a/sub/deep", "b",
					   "c",       "c/deep", "ws/vendor",  "read",
					   "read/in", "write",  "write/in" };

	for (size_t i = 0; i < ARRAY_LEN(all); i++)
		must(mkdir(all[i], 0755) == 0);
}

static void make_repository(void)
{
	static const char *const all[] = { "ws/.git", "ws/.git/hooks", "ws/.git/objects",
					   "ws/.git/refs", "ws/.vscode" };

	for (size_t i = 0; i < ARRAY_LEN(all); i++)
		must(mkdir(all[i], 0755) == 0);
	write_text("ws/.git/config", "[core]\n");
	write_text("ws/.git/HEAD", "ref: refs/heads/main\n");
	write_text("ws/.envrc", "use x\n");
	must(symlink("README", "ws/.mcp.json") == 0); /* a link cannot be covered */
}

static void write_at_top(const char *path, const char *fmt, const char *rest)
{
	char top[PATH_MAX], text[PATH_MAX * 2];

	must(getcwd(top, sizeof(top)) != NULL);
	(void)snprintf(text, sizeof(text), "%s%s%s\n", fmt, top, rest);
	write_text(path, text);
}

static void make_worktree(void)
{
	static const char *const all[] = {
		"repo",           "repo/.git",      "repo/.git/hooks",     "repo/.git/objects",
		"repo/.git/refs", "repo/.git/info", "repo/.git/worktrees", "repo/.git/worktrees/ws"
	};

	for (size_t i = 0; i < ARRAY_LEN(all); i++)
		must(mkdir(all[i], 0755) == 0);
	write_text("repo/.git/config", "[core]\n");
	write_text("repo/.git/HEAD", "ref: refs/heads/main\n");
	write_text("repo/.git/worktrees/ws/HEAD", "ref: refs/heads/other\n");
	write_text("repo/.git/worktrees/ws/commondir", "../..\n");
	write_at_top("repo/.git/worktrees/ws/gitdir", "", "/ws/.git");
	write_at_top("ws/.git", "gitdir: ", "/repo/.git/worktrees/ws");
}

/* Names somebody else's repository, which knows nothing of this workspace. */
static void make_hostile_worktree(void)
{
	make_worktree();
	write_at_top("repo/.git/worktrees/ws/gitdir", "", "/elsewhere/.git");
}

static const struct scene scenes[] = {
	{ .name = "default", .prepare = make_project },
	{ .name = "readonly", .prepare = make_project, .settings = { "policy", "readonly" } },
	{ .name = "network_host", .prepare = make_project, .settings = { "network", "host" } },
	{ .name = "mounts",
	  .prepare = make_trees,
	  .settings = { "mounts", "a/sub:/data/sub/deep", "mounts", "a:/data:rw", "mounts",
			"b:/workspace/vendor", "read", "read", "write", "read/in", "write", "write",
			"mounts", "c:/data/sub:rw", "workspace.target", "/workspace" } },
	{ .name = "limits",
	  .prepare = make_project,
	  .settings = { "limits.memory", "64m", "limits.cpus", "1.5", "limits.pids", "9",
			"limits.timeout", "1h30m", "limits.disk", "10m", "limits.files", "64",
			"limits.output", "1k", "limits.cpu_shares", "512" } },
	{ .name = "strict",
	  .prepare = make_project,
	  .settings = { "profile", "strict", "env.set", "A=b c", "env.pass", "EDITOR", "env.pass",
			"NOT_SET", "workspace.target", "/work" } },
	{ .name = "private", .home = "ws" },
	{ .name = "git", .prepare = make_repository },
	{ .name = "overlay",
	  .settings = { "workspace.mode", "overlay", NULL },
	  .prepare = make_repository },
	{ .name = "overlay_git",
	  .settings = { "workspace.mode", "overlay", "git", "read", NULL },
	  .prepare = make_repository },
	{ .name = "worktree", .prepare = make_worktree },
	{ .name = "worktree_readonly",
	  .prepare = make_worktree,
	  .settings = { "policy", "readonly" } },
	{ .name = "worktree_hostile", .prepare = make_hostile_worktree },
	{ .name = "python", .settings = { NULL }, .prepare = make_project, .code = "print(1)\n" },
	{ .name = "python_workspace",
	  .settings = { "workspace.target", "/work", "code.path", "/work/_run.py", NULL },
	  .prepare = make_project,
	  .code = "print(1)\n" },
	{ .name = "ssh",
	  .settings = { "ssh.host", "me@box", "ssh.remote_cwd", "~/it's here", "ssh.identity_file",
			"/keys/id", "env.set", "A=b c", NULL },
	  .prepare = make_project,
	  .ssh = true },
	{ .name = "ssh_python",
	  .settings = { "ssh.host", "box", NULL },
	  .prepare = make_project,
	  .code = "print(1)\n",
	  .ssh = true },
	{ .name = "ssh_brig",
	  .settings = { "ssh.host", "box", "ssh.remote", "brig", "limits.memory", "64m", "read",
			"/srv/data", "env.set", "TOKEN=never in an argument", NULL },
	  .prepare = make_project,
	  .code = "print(1)\n",
	  .ssh = true },
	{ .name = "slurm",
	  .settings = { "slurm.partition", "main", "slurm.nodelist", "n7", "slurm.time", "90s",
			"limits.memory", "64m", "limits.cpus", "1.5", "env.set",
			"TOKEN=never in an argument", NULL },
	  .prepare = make_project,
	  .slurm = true },
	{ .name = "slurm_python",
	  .settings = { "slurm.brig", "/opt/brig", NULL },
	  .prepare = make_project,
	  .code = "print(1)\n",
	  .slurm = true },
	{ .name = "bwrap_0_8", .prepare = make_repository, .bwrap = &upstream_0_8 },
	{ .name = "bwrap_0_10", .prepare = make_repository, .bwrap = &since_0_10 },
	{ .name = "bwrap_mounts",
	  .prepare = make_trees,
	  .settings = { "mounts", "a:/data:rw", "mounts", "b:/workspace/vendor", "read", "read",
			"write", "write", "network", "host", "workspace.target", "/workspace" },
	  .bwrap = &since_0_10 },
	{ .name = "bwrap_private",
	  .home = "ws",
	  .settings = { "limits.tmp", "64m" },
	  .bwrap = &since_0_10 },
	{ .name = "docker_default", .docker = true, .prepare = make_project },
	{ .name = "docker_python", .docker = true, .prepare = make_project, .code = "print(1)\n" },
	{ .name = "docker_git", .docker = true, .prepare = make_repository },
	{ .name = "docker_mounts",
	  .docker = true,
	  .prepare = make_trees,
	  .settings = { "mounts", "a:/data:rw", "mounts", "b:/workspace/vendor", "read", "read",
			"write", "write", "workspace.target", "/workspace" } },
	{ .name = "docker_settings",
	  .docker = true,
	  .prepare = make_project,
	  .settings = { "image", "tool@sha256:00", "runtime", "runsc", "limits.memory", "64m",
			"limits.cpus", "1.5", "limits.pids", "9", "read_only_root", "false",
			"labels", "team=x", "env.set", "PATH=/x" } },
	{ .name = "docker_bridge",
	  .docker = true,
	  .prepare = make_project,
	  .settings = { "network", "bridge" } },
	{ .name = "docker_extra",
	  .docker = true,
	  .prepare = make_project,
	  .settings = { "docker.extra_args", "--pids-limit=100", "docker.extra_args",
			"--ulimit=nofile=1024", "docker.extra_args", "--tmpfs=/scratch:size=1m",
			"docker.extra_args", "--cpu-quota=50000", "docker.user", "" } },
	{ .name = "docker_gpus",
	  .docker = true,
	  .prepare = make_project,
	  .settings = { "gpus", "2" } },
	{ .name = "docker_gpu_ids",
	  .docker = true,
	  .prepare = make_project,
	  .settings = { "gpu", "1", "gpu", "MIG-0123abcd" } },
	{ .name = "kube_gpus",
	  .kube = true,
	  .prepare = make_project,
	  .settings = { "image", "tool:1", "kubernetes.helper_image", "brig-pod:1", "gpus", "2",
			"kubernetes.gpu_resource", "amd.com/gpu" } },
	{ .name = "kube_default",
	  .kube = true,
	  .prepare = make_project,
	  .settings = { "image", "registry.example/tool:1", "kubernetes.helper_image",
			"registry.example/brig-pod:1" } },
	{ .name = "kube_settings",
	  .kube = true,
	  .prepare = make_project,
	  .settings = { "image", "tool@sha256:00", "kubernetes.helper_image", "brig-pod:1",
			"kubernetes.tolerations", "gpu=yes:NoSchedule", "kubernetes.node_selector",
			"disk=ssd", "kubernetes.workspace", "pvc", "kubernetes.claim", "work",
			"limits.cpus", "1.5", "labels", "team=x", "kubernetes.runtime_class",
			"gvisor" } },
	{ .name = "kube_proxy",
	  .kube = true,
	  .prepare = make_project,
	  .settings = { "image", "tool:1", "kubernetes.helper_image", "brig-pod:1", "network",
			"proxy", "egress.allow", "pypi.org" } },
	{ .name = "kube_readonly",
	  .kube = true,
	  .prepare = make_project,
	  .settings = { "image", "tool:1", "kubernetes.helper_image", "brig-pod:1", "policy",
			"readonly", "limits.cpu_shares", "512", "limits.pids", "64",
			"read_only_root", "false" } },
	{ .name = "kube_claim",
	  .kube = true,
	  .prepare = make_project,
	  .settings = { "backend", "kubernetes", "kubernetes.helper_image", "brig-pod:1",
			"kubernetes.use", "claim", "kubernetes.template", "tools", "limits.memory",
			"1g" } },
};

/* ---- from a scene to text ---- */

static void become_ordinary(void)
{
	if (geteuid() != 0)
		return;
	must(setgroups(0, NULL) == 0);
	must(setresgid(SHOWN_ID, SHOWN_ID, SHOWN_ID) == 0);
	must(setresuid(SHOWN_ID, SHOWN_ID, SHOWN_ID) == 0);
	must(prctl(PR_SET_DUMPABLE, 1, 0, 0, 0) == 0);
}

static void set_environment(void)
{
	must(clearenv() == 0);
	must(setenv("PATH", "/usr/bin:relative:/nowhere:/bin", 1) == 0);
	must(setenv("LANG", "C.UTF-8", 1) == 0);
	must(setenv("GIT_CONFIG_NOSYSTEM", "1", 1) == 0);
	must(setenv("GIT_CONFIG_GLOBAL", "/dev/null", 1) == 0);
	must(setenv("EDITOR", "vi", 1) == 0);
	must(setenv("GITHUB_TOKEN", "never shown", 1) == 0);
	must(setenv("LD_PRELOAD_NOT", "never shown", 1) == 0);
}

static bool of_this_machine(const struct op *o, const char *top)
{
	static const char *const system_trees[] = {
		"/usr", "/bin", "/sbin",        "/lib",       "/lib32",   "/lib64",    "/libx32",
		"/nix", "/etc", "/sys/devices", "/.packages", "/var/lib", "/var/cache"
	};
	static const char *const made[] = { "/etc/passwd",      "/etc/group",
					    "/etc/hosts",       "/etc/hostname",
					    "/etc/resolv.conf", "/etc/nsswitch.conf",
					    "/etc/gitconfig" };

	if (o->kind == OP_MASK || (o->kind == OP_DIR && path_under(top, o->dst)))
		return true;
	for (size_t i = 0; o->kind == OP_FILE && i < ARRAY_LEN(made); i++)
		if (str_eq(o->dst, made[i]))
			return false;
	for (size_t i = 0; i < ARRAY_LEN(system_trees); i++)
		if (path_under(o->dst, system_trees[i]))
			return true;
	return false;
}

static void normalise(struct box_plan *p, const char *top)
{
	size_t kept = 0;

	for (size_t i = 0; i < p->op_count; i++)
		if (!of_this_machine(&p->ops[i], top))
			p->ops[kept++] = p->ops[i];
	p->op_count = kept;
	must(p->uid == getuid() && p->uid_count == 1 && p->uids[0].outside == getuid());
	must(p->gid == getgid() && p->gid_count == 1 && p->gids[0].outside == getgid());
	p->uid = p->uids[0].inside = p->uids[0].outside = SHOWN_ID;
	p->gid = p->gids[0].inside = p->gids[0].outside = SHOWN_ID;
}

static void write_args(struct box_plan *p, const struct bwrap_features *f, struct json *j)
{
	struct bwrap_args args;
	struct err e = { 0 };

	must(bwrap_args(p, f, &args, &e) == 0);
	json_array(j);
	for (size_t i = 0; i < args.n; i++)
		json_str(j, args.v[i].text);
	json_array_end(j);
}

static void replace(const char *text, const char *what, const char *with, struct buf *out)
{
	const char *at;

	for (; (at = strstr(text, what)); text = at + strlen(what)) {
		buf_add(out, text, (size_t)(at - text));
		buf_puts(out, with);
	}
	buf_puts(out, text);
}

static void make_spec(const struct scene *s, const char *top, struct spec **ret)
{
	char cwd[PATH_MAX + 16], home[PATH_MAX + 16];
	struct place at = { .cwd = cwd, .home = s->home ? home : NULL };
	char *argv[] = { "sh", "-c", "echo \"$LANG\"", NULL };
	struct err e = { 0 };
	struct spec *spec = spec_new(&e);

	must(spec != NULL);
	(void)snprintf(home, sizeof(home), "%s/%s", top, s->home ? s->home : "");
	for (const char *const *w = s->settings; *w; w += 2) {
		if (spec_set_key(spec, w[0], w[1], ORIGIN_FLAG, &e) < 0)
			(void)fprintf(stderr, "%s\n", e.what);
		must(e.code == 0);
	}
	must(spec_set_argv(spec, 3, argv, &e) == 0);
	if (s->code)
		must(code_set(spec, CODE_PYTHON, s->code, strlen(s->code), NULL, &e) == 0);
	/* Relative sources are meant from the scratch folder, the workspace is ws in it. */
	(void)snprintf(cwd, sizeof(cwd), "%s%s", top, s->home ? "/ws" : "");
	if (!s->home)
		must(spec_set_key(spec, "workspace.path", "ws", s->ssh ? ORIGIN_API : ORIGIN_FLAG,
				  &e) == 0);
	if (spec_check(spec, &at, &e) < 0)
		(void)fprintf(stderr, "%s\n", e.what);
	must(e.code == 0);
	*ret = spec;
}

static void docker_text(const struct spec *spec, struct json *j)
{
	struct backend_plan *p = NULL;
	struct err e = { 0 };

	if (backend_docker.plan(spec, &p, NULL, &e) < 0)
		(void)fprintf(stderr, "%s\n", e.what);
	must(e.code == 0 && (p->user != DOCKER_USER_IDS || p->uid == getuid()));
	p->uid = p->gid = SHOWN_ID;
	backend_docker.plan_json(p, j);
	(void)backend_docker.plan_free(p);
}

static void kube_text(const struct spec *spec, struct json *j)
{
	struct backend_plan *p = NULL;
	struct err e = { 0 };

	if (backend_kubernetes.plan(spec, &p, NULL, &e) < 0)
		(void)fprintf(stderr, "%s\n", e.what);
	must(e.code == 0);
	backend_kubernetes.plan_json(p, j);
	(void)backend_kubernetes.plan_free(p);
}

static void far_text(const struct backend *b, const struct spec *spec, struct json *j)
{
	struct backend_plan *p = NULL;
	struct err e = { 0 };

	must(setenv("XDG_RUNTIME_DIR", "/dev/null", 1) == 0);
	must(setenv("XDG_STATE_HOME", "/dev/null", 1) == 0);
	if (b->plan(spec, &p, NULL, &e) < 0)
		(void)fprintf(stderr, "%s\n", e.what);
	must(e.code == 0);
	b->plan_json(p, j);
	(void)b->plan_free(p);
}

static void box_text(const struct spec *spec, const struct bwrap_features *bwrap, const char *top,
		     struct json *j)
{
	CLEANUP(box_plan) struct box_plan *p = NULL;
	struct err e = { 0 };

	if (box_plan_new(spec, bwrap ? "bwrap" : "native", &p, &e) < 0)
		(void)fprintf(stderr, "%s\n", e.what);
	must(e.code == 0);
	normalise(p, top);
	if (bwrap)
		write_args(p, bwrap, j);
	else
		box_plan_json(p, j);
}

/* The child's whole life. */
static void write_plan(const struct scene *s, const char *top, int out)
{
	CLEANUP(buf) struct buf raw = BUF_INIT(TEXT_MAX_BYTES);
	CLEANUP(buf) struct buf text = BUF_INIT(TEXT_MAX_BYTES);
	CLEANUP(spec) struct spec *spec = NULL;
	struct json j;

	become_ordinary();
	set_environment();
	must(mkdir("ws", 0755) == 0);
	if (s->prepare)
		s->prepare();
	make_spec(s, top, &spec);
	json_init(&j, &raw, true);
	if (s->docker)
		docker_text(spec, &j);
	else if (s->kube)
		kube_text(spec, &j);
	else if (s->ssh || s->slurm)
		far_text(s->ssh ? &backend_ssh : &backend_slurm, spec, &j);
	else
		box_text(spec, s->bwrap, top, &j);
	buf_putc(&raw, '\n');
	replace(buf_str(&raw), top, "@TOP@", &text);
	must(!raw.failed && !text.failed && fd_write_all(out, text.data, text.len) == 0);
}

static void read_all(int fd, struct buf *b)
{
	char part[4096];
	ssize_t n;

	while ((n = read(fd, part, sizeof(part))) > 0)
		buf_add(b, part, (size_t)n);
}

static void plan_of(const struct scene *s, struct buf *out)
{
	char top[PATH_MAX];
	int ends[2], status;
	pid_t pid;

	enter_scratch(top);
	must(chmod(top, 0777) == 0);
	must(pipe2(ends, O_CLOEXEC) == 0);
	(void)fflush(NULL);
	pid = fork();
	must(pid >= 0);
	if (pid == 0) {
		write_plan(s, top, ends[1]);
		_exit(0);
	}
	(void)close(ends[1]);
	read_all(ends[0], out);
	(void)close(ends[0]);
	must(waitpid(pid, &status, 0) == pid);
	leave_scratch(top);
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* ---- the comparison ---- */

static void say_difference(const char *want, const char *got)
{
	int line = 1;

	while (*want && *want == *got) {
		line += *want == '\n';
		want++;
		got++;
	}
	print_error("they part in line %d\n--- expected\n%.300s\n--- got\n%.300s\n", line, want,
		    got);
}

static void a_plan_is_as_expected(void **state)
{
	const struct scene *s = *state;
	CLEANUP(buf) struct buf want = BUF_INIT(TEXT_MAX_BYTES);
	CLEANUP(buf) struct buf got = BUF_INIT(TEXT_MAX_BYTES);
	char path[PATH_MAX];
	int fd;

	(void)snprintf(path, sizeof(path), "%s/plan_%s.json", folder, s->name);
	plan_of(s, &got);
	assert_null(strstr(buf_str(&got), "never shown"));
	if (getenv("BRIG_UPDATE_GOLDEN")) {
		write_text(path, buf_str(&got));
		return;
	}
	fd = open(path, O_RDONLY | O_CLOEXEC);
	assert_true(fd >= 0);
	read_all(fd, &want);
	(void)close(fd);
	if (strcmp(buf_str(&want), buf_str(&got)) != 0) {
		say_difference(buf_str(&want), buf_str(&got));
		fail_msg("plan_%s.json differs; BRIG_UPDATE_GOLDEN=1 rewrites it", s->name);
	}
}

int main(int argc, char **argv)
{
	struct CMUnitTest tests[ARRAY_LEN(scenes)];
	char names[ARRAY_LEN(scenes)][64], path[PATH_MAX];

	if (argc != 2 || !realpath(argv[1], path)) {
		(void)fprintf(stderr, "usage: test_golden FOLDER\n");
		return 1;
	}
	folder = path;
	for (size_t i = 0; i < ARRAY_LEN(scenes); i++) {
		(void)snprintf(names[i], sizeof(names[i]), "the_plan_%s_is_as_expected",
			       scenes[i].name);
		tests[i] = (struct CMUnitTest){ .name = names[i],
						.test_func = a_plan_is_as_expected,
						.initial_state = (void *)(uintptr_t)&scenes[i] };
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
