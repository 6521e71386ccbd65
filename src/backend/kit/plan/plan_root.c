/* SPDX-License-Identifier: Apache-2.0 */
/* backend/kit/plan/plan_root.c - the part of the tree that is the same in every run. */
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>

#include "backend/kit/plan/plan_internal.h"
#include "base/text/buf.h"
#include "base/text/str.h"
#include "git/git_settings.h"
#include "model/known/ssh_pins.h"

#define COPY_MAX (256 << 10)
#define HOSTS_MAX 4096
#define GIT_LEAVES "/etc/brig.gitleaves" /* settings for the workspace's own repository */
#define GIT_IGNORED "/etc/brig.gitignore"

/* Shown read-only where the host has them; a link stays a link (merged /usr). */
static const char *const system_trees[] = { "/usr",   "/bin",   "/sbin",   "/lib",
					    "/lib32", "/lib64", "/libx32", "/nix/store" };

static const struct {
	const char *path;
	unsigned major, minor;
} devices[] = { { "/dev/null", 1, 3 },   { "/dev/zero", 1, 5 },    { "/dev/full", 1, 7 },
		{ "/dev/random", 1, 8 }, { "/dev/urandom", 1, 9 }, { "/dev/tty", 5, 0 } };

static const struct {
	const char *path, *to;
} dev_links[] = { { "/dev/fd", "/proc/self/fd" },
		  { "/dev/stdin", "/proc/self/fd/0" },
		  { "/dev/stdout", "/proc/self/fd/1" },
		  { "/dev/stderr", "/proc/self/fd/2" },
		  { "/dev/ptmx", "pts/ptmx" } };

/* Kernel memory, keys, host-wide state: nothing inside needs them. Locks of open files are told to
 * every pid namespace, with the numbers that their holders chose: letters from one sandbox to
 * another, and how many runs of brig's there are. */
static const char *const proc_masks[] = {
	"/proc/kcore",         "/proc/keys",
	"/proc/key-users",     "/proc/timer_list",
	"/proc/sched_debug",   "/proc/kallsyms",
	"/proc/kmsg",          "/proc/kpagecount",
	"/proc/kpageflags",    "/proc/kpagecgroup",
	"/proc/acpi",          "/proc/scsi",
	"/proc/asound",        "/proc/interrupts",
	"/proc/latency_stats", "/proc/timer_stats",
	"/proc/vmallocinfo",   "/proc/pressure",
	"/proc/cmdline",       "/proc/sys/kernel/random/boot_id",
	"/proc/config.gz",     "/proc/softirqs",
	"/proc/locks",
};

static int dir(struct box_plan *p, const char *path, mode_t mode, struct err *e)
{
	struct op *o;

	if (plan_parents(p, path, e) < 0)
		return -e->code;
	o = plan_op(p, OP_DIR, path, e);
	if (!o)
		return -e->code;
	o->mode = mode;
	return 0;
}

int plan_file(struct box_plan *p, const char *path, const char *text, struct err *e)
{
	struct op *o;

	if (!text)
		return err_nomem(e);
	if (plan_parents(p, path, e) < 0)
		return -e->code;
	o = plan_op(p, OP_FILE, path, e);
	if (!o)
		return -e->code;
	o->mode = 0644;
	o->data = text;
	return 0;
}

int plan_link(struct box_plan *p, const char *path, const char *to, struct err *e)
{
	struct op *o;

	if (plan_parents(p, path, e) < 0)
		return -e->code;
	o = plan_op(p, OP_SYMLINK, path, e);
	if (!o)
		return -e->code;
	o->data = arena_strdup(p->arena, to);
	return o->data ? 0 : err_nomem(e);
}

int plan_private(struct box_plan *p, const char *path, mode_t mode, struct err *e)
{
	struct op *o;

	if (plan_parents(p, path, e) < 0 || plan_writable(p, path, e) < 0)
		return -e->code;
	o = plan_op(p, OP_PRIVATE, path, e);
	if (!o)
		return -e->code;
	o->mode = mode;
	o->writable = true;
	o->noexec = !p->spec->tmp_exec && str_eq(path, "/tmp");
	return 0;
}

int plan_object(struct box_plan *p, const char *path, const struct stat *st, struct err *e)
{
	if (plan_bind_seen(p, path, path, false, false, st, e) < 0)
		return -e->code;
	p->ops[p->op_count - 1].copy =
		S_ISREG(st->st_mode) && st->st_size <= COPY_MAX && (st->st_mode & 07777) == 0644;
	return 0;
}

int plan_same_place(struct box_plan *p, const char *path, struct err *e)
{
	char to[PATH_MAX];
	struct stat st;
	ssize_t n;

	if (lstat(path, &st) < 0)
		return 0;
	if (S_ISDIR(st.st_mode) || S_ISREG(st.st_mode))
		return plan_object(p, path, &st, e);
	if (!S_ISLNK(st.st_mode))
		return plan_bind(p, path, path, false, false, e); /* says why not */
	n = readlink(path, to, sizeof(to) - 1);
	if (n < 0)
		return err_sys(e, "cannot read the link '%s'", path);
	to[n] = '\0';
	return plan_link(p, path, to, e);
}

/* With read_only_root off the tree bound last gets a private writable layer. */
static int layer_over(struct box_plan *p, struct err *e)
{
	const struct op *last = p->op_count ? &p->ops[p->op_count - 1] : NULL;
	struct op *o;

	if (p->spec->read_only_root || !last || last->kind != OP_BIND || !S_ISDIR(last->ident.type))
		return 0;
	o = plan_op(p, OP_OVERLAY, last->dst, e);
	if (!o)
		return -e->code;
	o->writable = true;
	return 0;
}

static const char *host_text(struct box_plan *p, const char *path, const char *otherwise)
{
	char text[16384];
	ssize_t n = fd_read_file(AT_FDCWD, path, text, sizeof(text));

	return n < 0 ? otherwise : arena_strndup(p->arena, text, (size_t)n);
}

/* Is it likely to commit? Others are not told about what they do not do. */
static bool commits(const struct spec *s)
{
	const char *program =
		s->command.argv && s->command.argv[0] ? strrchr(s->command.argv[0], '/') : NULL;

	if (s->audit.agent)
		return true;
	program = program ? program + 1 : s->command.argv ? s->command.argv[0] : NULL;
	return program && str_eq(program, "git");
}

int box_plan_git(struct box_plan *p, const struct spec *s, const char **ret, struct err *e)
{
	struct git_files f = git_files_of_caller();
	const char *top = p->repository ? p->repository : p->workspace;
	const char *git = top ? arena_printf(p->arena, "%s/.git", top) : NULL;
	struct git_left left;
	const char *text;
	struct stat st;

	f.workspace = p->workspace;
	f.signing = p->signing;
	/* A file there leads to the real one; what it says is not for brig to read. */
	if (git && (lstat(git, &st) < 0 || S_ISDIR(st.st_mode)))
		f.git_dir = git;
	text = git_settings_text(p->arena, &f, &left);
	if (!text)
		return err_nomem(e);
	if (left.undecided && git && lstat(git, &st) == 0)
		plan_note(p, "git inside has no name and e-mail: whether an include of your git "
			     "configuration applies cannot be told without git; set them inside "
			     "with git config --global");
	if (left.signing && !p->signing && commits(s))
		plan_note(p, "commits inside are not signed: your key stays outside; --ssh-agent "
			     "lends it where gpg.format is ssh");
	if (plan_git_keys(p, s, &text, e) < 0)
		return -e->code;
	*ret = text;
	return 0;
}

/* git stash -u and git clean -d want to remove an empty folder, and fail at one that is held. */
static int git_leaves(struct box_plan *p, const char **text, struct err *e)
{
	const char *names = plan_held_folders(p);

	if (!names)
		return err_nomem(e);
	if (!*names || strpbrk(p->spec->inside, "*?[\\\"\n"))
		return 0;
	*text = arena_printf(p->arena,
			     "%s[includeIf \"gitdir:%s/.git\"]\n\tpath = " GIT_LEAVES "\n", *text,
			     p->spec->inside);
	if (!*text)
		return err_nomem(e);
	return plan_file(p, GIT_LEAVES, "[core]\n\texcludesFile = " GIT_IGNORED "\n", e) < 0
		       ? -e->code
		       : plan_file(p, GIT_IGNORED, names, e);
}

/* ~/.gitconfig stays the sandbox's own. */
static int git_settings(struct box_plan *p, struct err *e)
{
	const char *text;

	if (box_plan_git(p, p->spec, &text, e) < 0 || git_leaves(p, &text, e) < 0)
		return -e->code;
	return *text ? plan_file(p, "/etc/gitconfig", text, e) : 0;
}

/* ~/.ssh stays the sandbox's own as well. */
static int ssh_settings(struct box_plan *p, struct err *e)
{
	struct plan_ssh ssh;

	if (box_plan_ssh(p, p->spec, &ssh, e) < 0)
		return -e->code;
	if (!ssh.config)
		return 0;
	return plan_file(p, SSH_CONFIG_INSIDE, ssh.config, e) < 0
		       ? -e->code
		       : plan_file(p, SSH_KNOWN_INSIDE, ssh.known, e);
}

/* Those on the sandbox's own network are known by name. */
static const char *hosts_text(struct box_plan *p)
{
	CLEANUP(buf) struct buf b = BUF_INIT(HOSTS_MAX);
	const struct memberlist *l = &p->spec->members;

	buf_puts(&b, "127.0.0.1 localhost brig\n::1 localhost ip6-localhost ip6-loopback\n");
	for (size_t i = 0; i < l->n; i++)
		buf_printf(&b, "%s %s\n", l->v[i].address, l->v[i].name);
	return b.failed ? NULL : arena_strdup(p->arena, buf_str(&b));
}

static int etc_files(struct box_plan *p, struct err *e)
{
	bool host = p->spec->network == NETWORK_HOST,
	     door = p->spec->network == NETWORK_PROXY || p->spec->network == NETWORK_BRIDGE;
	const char *hosts = hosts_text(p);
	const char *passwd =
		arena_printf(p->arena,
			     "root:x:0:0:root:/root:/usr/sbin/nologin\n"
			     "%s:x:%u:%u:%s:%s:/bin/sh\n"
			     "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n",
			     p->user_name, p->uid, p->gid, p->user_name, p->home);
	const char *group = arena_printf(p->arena, "root:x:0:\n%s:x:%u:\nnogroup:x:65534:\n",
					 p->user_name, p->gid);
	const char *doorless = p->spec->members.n ? MEMBERS_RESOLV : DOORLESS_RESOLV;
	const char *resolv = door ? DOOR_RESOLV : doorless;
	const bool more = p->image && passwd && group;
	const struct {
		const char *path, *text;
	} all[] = {
		{ "/etc/passwd", more ? plan_image_lines(p, passwd, p->image->passwd) : passwd },
		{ "/etc/group", more ? plan_image_lines(p, group, p->image->group) : group },
		/* Under network host the command resolves names as the host does. */
		{ "/etc/hosts", host ? host_text(p, "/etc/hosts", hosts) : hosts },
		{ "/etc/hostname", "brig\n" },
		{ "/etc/resolv.conf", host ? host_text(p, "/etc/resolv.conf", "") : resolv },
		{ "/etc/nsswitch.conf", "passwd: files\ngroup: files\nhosts: files dns\n"
					"services: files\nprotocols: files\n" },
	};

	for (size_t i = 0; i < ARRAY_LEN(all); i++)
		if (plan_file(p, all[i].path, all[i].text, e) < 0)
			return -e->code;
	return git_settings(p, e) < 0 ? -e->code : ssh_settings(p, e);
}

static int devices_ops(struct box_plan *p, struct err *e)
{
	for (size_t i = 0; i < ARRAY_LEN(devices); i++) {
		struct op *o = plan_op(p, OP_DEVICE, devices[i].path, e);

		if (!o)
			return -e->code;
		o->src = devices[i].path;
		o->rdev = makedev(devices[i].major, devices[i].minor);
	}
	for (size_t i = 0; i < ARRAY_LEN(dev_links); i++)
		if (plan_link(p, dev_links[i].path, dev_links[i].to, e) < 0)
			return -e->code;
	if (dir(p, "/dev/pts", 0755, e) < 0 || !plan_op(p, OP_DEVPTS, "/dev/pts", e))
		return -e->code;
	return plan_private(p, "/dev/shm", 01777, e);
}

/* Where it is there. What only the machine's root may open, no user inside being that root, is in
 * the plan and needs no mount. */
static int mask(struct box_plan *p, const char *path, struct err *e)
{
	struct stat st;
	struct op *o;

	if (lstat(path, &st) < 0)
		return 0;
	o = plan_op(p, OP_MASK, path, e);
	if (!o)
		return -e->code;
	o->ident = ident_of(&st);
	o->skip = S_ISREG(st.st_mode) && !(st.st_mode & 0077) && st.st_uid == 0;
	return 0;
}

static int proc_ops(struct box_plan *p, struct err *e)
{
	if (dir(p, "/proc", 0555, e) < 0 || !plan_op(p, OP_PROC, "/proc", e))
		return -e->code;
	for (size_t i = 0; i < ARRAY_LEN(proc_masks); i++)
		if (mask(p, proc_masks[i], e) < 0)
			return -e->code;
	return 0;
}

/* The CPUs that the command may use, as the kernel writes such lists: "0-3,8". It takes a tenth of
 * what the file of the host does, and tells no more than the command can find out. */
static const char *cpu_list(struct box_plan *p)
{
	CLEANUP(buf) struct buf list = BUF_INIT(CPU_SETSIZE * 8);
	cpu_set_t set;

	if (sched_getaffinity(0, sizeof(set), &set) < 0) /* more CPUs than the set has bits */
		return host_text(p, CPU_ONLINE, "");
	for (int cpu = 0, end; cpu < CPU_SETSIZE; cpu = end + 1) {
		for (end = cpu; end < CPU_SETSIZE && CPU_ISSET(end, &set);)
			end++;
		if (end == cpu)
			continue;
		if (list.len)
			buf_putc(&list, ',');
		buf_putu(&list, (uint64_t)cpu, 0);
		if (end - cpu > 1) {
			buf_putc(&list, '-');
			buf_putu(&list, (uint64_t)end - 1, 0);
		}
	}
	buf_putc(&list, '\n');
	return list.failed ? NULL : arena_strndup(p->arena, list.data, list.len);
}

/* Runtimes ask /sys how many CPUs there are, how they lie to each other (of the copy, etc.md), and
 * what the cgroup allows; nothing else is answered. */
static int sys_ops(struct box_plan *p, struct err *e)
{
	const struct limits *l = &p->spec->limits;
	const char *cpus = cpu_list(p);

	if (!cpus)
		return err_nomem(e);
	if (!plan_packages_cpus(p, cpus) && plan_file(p, CPU_ONLINE, cpus, e) < 0)
		return -e->code;
	if (plan_file(p, "/sys/fs/cgroup/memory.max",
		      arena_printf(p->arena, "%llu\n", (unsigned long long)l->memory), e) < 0 ||
	    plan_file(p, "/sys/fs/cgroup/pids.max",
		      arena_printf(p->arena, "%llu\n", (unsigned long long)l->pids), e) < 0)
		return -e->code;
	return plan_file(
		p, "/sys/fs/cgroup/cpu.max",
		l->cpus ? arena_printf(p->arena, "%llu 100000\n", (unsigned long long)l->cpus * 100)
			: "max 100000\n",
		e);
}

/* A folder that can be written to: private, or on disk as long as a long-lived sandbox is. */
static int own_folder(struct box_plan *p, enum store_place place, const char *path, struct err *e)
{
	int r = plan_stored(p, place, path, e);

	if (r == 0)
		return plan_private(p, path, store_folders[place].mode, e);
	if (r > 0 && place == STORE_TMP)
		p->ops[p->op_count - 1].noexec = !p->spec->tmp_exec;
	return r < 0 ? r : 0;
}

static int own_folders(struct box_plan *p, struct err *e)
{
	if (dir(p, "/root", 0755, e) < 0 || own_folder(p, STORE_VAR_TMP, "/var/tmp", e) < 0 ||
	    own_folder(p, STORE_TMP, "/tmp", e) < 0)
		return -e->code;
	return p->spec->home_folder ? 0 : own_folder(p, STORE_HOME, p->home, e);
}

static int host_trees(struct box_plan *p, struct err *e)
{
	for (size_t i = 0; i < ARRAY_LEN(system_trees); i++)
		if (plan_same_place(p, system_trees[i], e) < 0 || layer_over(p, e) < 0)
			return err_wrap(e, "system folder");
	return plan_packages_root(p, e) < 0 ? -e->code : plan_etc(p, e);
}

static int fixed_tree(struct box_plan *p, struct err *e)
{
	if (!p->spec->read_only_root && plan_stored(p, STORE_LAYER, PLAN_LAYER, e) < 0)
		return -e->code;
	if (!p->spec->read_only_root && plan_writable(p, "/", e) < 0)
		return -e->code;
	if ((p->spec->image_root ? plan_image_root : host_trees)(p, e) < 0)
		return -e->code;
	/* /run stays empty, and is what covers masked folders. */
	if (dir(p, "/run", 0755, e) < 0 || etc_files(p, e) < 0 || dir(p, "/dev", 0755, e) < 0 ||
	    devices_ops(p, e) < 0)
		return -e->code;
	if (proc_ops(p, e) < 0 || sys_ops(p, e) < 0)
		return -e->code;
	if (own_folders(p, e) < 0 || plan_image_volumes(p, e) < 0)
		return -e->code;
	return plan_image_folder(p, e);
}

int plan_root(struct box_plan *p, struct err *e)
{
	if (fixed_tree(p, e) < 0)
		return -e->code;
	for (size_t i = 0; i < p->op_count; i++)
		p->ops[i].fixed = !p->ops[i].kept || p->ops[i].package;
	return plan_kept_home(p, p->by_root, e);
}
