/* SPDX-License-Identifier: Apache-2.0 */
/* backend/kit/plan/plan.c - from a spec to a plan: who the command is inside, and the order of
 * work.
 */
#include <assert.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "backend/kit/plan/plan_internal.h"
#include "backend/kit/survey/seen.h"
#include "base/text/str.h"
#include "model/request/code.h"
#include "model/settings/paths.h"
#include "proc/confine.h"

#define PLAN_MAX ((size_t)32 << 20)
#define ROOT_STARTED_UID 1000
#define ID_RANGE 65536

struct op *plan_op(struct box_plan *p, enum op_kind kind, const char *dst, struct err *e)
{
	struct op *o = ARENA_PUSH(p->arena, p->ops, p->op_count);
	const char *copy = o ? arena_strdup(p->arena, dst) : NULL;

	if (!copy) {
		(void)err_nomem(e);
		return NULL;
	}
	*o = (struct op){ .kind = kind, .dst = copy, .fd_slot = -1, .mode = 0755 };
	if (p->links_etc && plan_moved(p, o, e) < 0)
		return NULL;
	return o;
}

/* The last operation that decides what stands at path: its own, or the tree it lies in. */
static const struct op *covering(const struct box_plan *p, const char *path)
{
	for (size_t i = p->op_count; i-- > 0;) {
		const struct op *o = &p->ops[i];

		if (o->look != LOOK_NOT && o->skip)
			continue;
		if (str_eq(o->dst, path))
			return o;
		if ((o->kind == OP_BIND || o->kind == OP_BIND_FD || o->kind == OP_PROC) &&
		    !o->stored && path_under(path, o->dst))
			return o;
	}
	return NULL;
}

int plan_parents(struct box_plan *p, const char *dst, struct err *e)
{
	char part[PATH_MAX];

	if (strlen(dst) >= sizeof(part)) {
		(void)err_set(e, ERR_USAGE, ENAMETOOLONG, "path '%.64s...' is too long", dst);
		return err_hint(e, "at most %d bytes", PATH_MAX - 1);
	}
	for (const char *slash = strchr(dst + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
		const struct op *o;

		memcpy(part, dst, (size_t)(slash - dst));
		part[slash - dst] = '\0';
		o = covering(p, part);
		if (o && o->look != LOOK_NOT && !p->looked) { /* is it to be there? */
			box_plan_look(p);
			o = covering(p, part);
		}
		if (!o && !plan_op(p, OP_DIR, part, e))
			return -e->code;
	}
	return 0;
}

static int source_error(const char *path, int code, struct err *e)
{
	CLEANUP(mem) char *real = NULL;

	if (code == ELOOP) {
		real = realpath(path, NULL);
		(void)err_set(e, ERR_POLICY, ELOOP, "'%s' is, or passes through, a symbolic link",
			      path);
		return real ? err_hint(e, "use '%s'", real) : -e->code;
	}
	if (code == ENOENT)
		return err_refuse(e, ERR_USAGE, ENOENT, "make it first, or correct the path",
				  "'%s' does not exist", path);
	errno = code;
	(void)err_sys(e, "cannot look at '%s'", path);
	return err_hint(e, "uid %u must be able to reach it", geteuid());
}

/* Opens a source without following links and notes what it is. Refuses all but files and folders.
 */
int plan_source(const char *path, struct stat *st, struct err *e)
{
	CLEANUP(fd) int fd = fd_open_nolinks(AT_FDCWD, path, O_PATH, 0);

	if (fd < 0)
		return source_error(path, -fd, e);
	if (fstat(fd, st) < 0)
		return err_sys(e, "cannot look at '%s'", path);
	if (S_ISREG(st->st_mode) || S_ISDIR(st->st_mode))
		return 0;
	(void)err_set(e, ERR_POLICY, EPERM, "'%s' is a %s, not a file or folder", path,
		      S_ISSOCK(st->st_mode)   ? "socket"
		      : S_ISFIFO(st->st_mode) ? "named pipe"
					      : "device");
	return S_ISSOCK(st->st_mode)
		       ? err_hint(e, "a socket would let the code inside talk to a host service")
		       : err_hint(e, "put what it gives into a file, and show that");
}

/* Root's own trees are shown through an idmapped mount, so that new files keep the tree's owner. */
static int bind_prepared(struct box_plan *p, struct op *o, const struct stat *st, struct err *e)
{
	struct prepared_tree *t = &p->prepared[p->prepared_count];

	if (p->prepared_count == PREPARED_MAX)
		return err_set(e, ERR_USAGE, E2BIG, "more than %d writable trees of root",
			       PREPARED_MAX);
	*t = (struct prepared_tree){ .src = o->src,
				     .ident = o->ident,
				     .disk_uid = st->st_uid,
				     .disk_gid = st->st_gid,
				     .kept = o->kept };
	o->kind = OP_BIND_FD;
	o->fd_slot = (int)p->prepared_count++;
	return 0;
}

int plan_prepare(struct box_plan *p, struct op *o, const struct stat *st, struct err *e)
{
	const enum op_kind kind = o->kind;

	if (bind_prepared(p, o, st, e) < 0)
		return -e->code;
	o->kind = kind;
	return 0;
}

int plan_hand_over(struct box_plan *p, struct op *o, const struct stat *st, struct err *e)
{
	if (bind_prepared(p, o, st, e) < 0)
		return -e->code;
	p->prepared[o->fd_slot].as_it_is = true;
	return 0;
}

/* A folder of brig's own, at dst. */
static int bind_own(struct box_plan *p, const char *folder, const char *dst, bool writable,
		    bool map, struct err *e)
{
	struct stat st;
	struct op *o;

	if (plan_source(folder, &st, e) < 0 ||
	    plan_bind_seen(p, folder, dst, writable, false, &st, e) < 0)
		return -e->code;
	o = &p->ops[p->op_count - 1];
	o->kept = true;
	return map ? bind_prepared(p, o, &st, e) : 0;
}

static int bind_kept(struct box_plan *p, const char *folder, const char *dst, bool map,
		     struct err *e)
{
	return bind_own(p, folder, dst, true, map, e);
}

int plan_bind_volume(struct box_plan *p, const char *folder, const char *dst, bool writable,
		     struct err *e)
{
	return bind_own(p, folder, dst, writable, p->by_root, e);
}

int plan_bind_stored(struct box_plan *p, const char *folder, const char *dst, struct err *e)
{
	/* To an engine root gives the folder itself. */
	if (bind_kept(p, folder, dst, p->by_root && !p->by_name, e) < 0)
		return -e->code;
	p->ops[p->op_count - 1].stored = true;
	return 0;
}

/* Beside the tree, until the overlay is mounted over it; nobody inside finds it there. */
static int bind_upper(struct box_plan *p, struct err *e)
{
	if (!p->layer)
		return 0;
	if (path_under(p->layer, p->workspace))
		return err_refuse(e, ERR_POLICY, ELOOP,
				  "choose another folder, or set XDG_CACHE_HOME to one elsewhere",
				  "the layer would lie in the workspace that it is made over: "
				  "'%.200s'",
				  p->layer);
	if (bind_kept(p, p->layer, PLAN_UPPER, p->by_root, e) < 0)
		return err_wrap(e, "layer");
	p->writable_count--; /* it is gone before anybody enters the new root */
	return 0;
}

int plan_layer(struct box_plan *p, struct err *e)
{
	const char *dst = p->spec->inside;
	struct stat st;
	struct op *o;

	if (p->spec->layer_folder) {
		p->layer = arena_strdup(p->arena, p->spec->layer_folder);
		if (!p->layer)
			return err_nomem(e);
	}
	if (plan_source(p->workspace, &st, e) < 0 ||
	    plan_bind_seen(p, p->workspace, dst, false, true, &st, e) < 0 || bind_upper(p, e) < 0)
		return -e->code;
	if (geteuid() != 0 && st.st_gid != getegid())
		plan_note(p, "the workspace belongs to another group than this run's: in an "
			     "overlay what belongs to that group cannot be changed");
	o = plan_op(p, OP_LAYER, dst, e);
	if (!o)
		return -e->code;
	o->writable = true;
	return plan_writable(p, dst, e);
}

int plan_kept_home(struct box_plan *p, bool map, struct err *e)
{
	const char *folder = p->spec->home_folder;

	return folder && bind_kept(p, folder, p->home, map, e) < 0 ? err_wrap(e, "kept HOME") : 0;
}

/* The folder on disk of a companion, where there is one; mapped likewise. */
static int plan_data(struct box_plan *p, bool map, struct err *e)
{
	const struct spec *s = p->spec;

	return s->data_folder && bind_kept(p, s->data_folder, s->data_target, map, e) < 0
		       ? err_wrap(e, "data")
		       : 0;
}

int plan_bind(struct box_plan *p, const char *src, const char *dst, bool writable, bool owned,
	      struct err *e)
{
	struct stat st;

	if (plan_source(src, &st, e) < 0)
		return -e->code;
	return plan_bind_seen(p, src, dst, writable, owned, &st, e);
}

int plan_bind_seen(struct box_plan *p, const char *src, const char *dst, bool writable, bool owned,
		   const struct stat *st, struct err *e)
{
	struct op *o;

	if (plan_parents(p, dst, e) < 0)
		return -e->code;
	o = plan_op(p, OP_BIND, dst, e);
	if (!o)
		return -e->code;
	o->src = arena_strdup(p->arena, src);
	if (!o->src)
		return err_nomem(e);
	o->ident = ident_of(st);
	o->mode = st->st_mode & S_IFMT;
	o->writable = writable;
	if (writable && plan_writable(p, dst, e) < 0)
		return -e->code;
	if (writable && p->writable_count <= WRITABLE_BITS)
		p->writable_host |= (uint64_t)1 << (p->writable_count - 1);
	if (owned && p->needs_range)
		return bind_prepared(p, o, st, e);
	return 0;
}

int plan_writable(struct box_plan *p, const char *inside, struct err *e)
{
	const char **slot = ARENA_PUSH(p->arena, p->writable, p->writable_count);

	if (slot)
		*slot = arena_strdup(p->arena, inside);
	if (slot && p->writable_count <= WRITABLE_BITS) /* one may have been taken back */
		p->writable_host &= ~((uint64_t)1 << (p->writable_count - 1));
	return slot && *slot ? 0 : err_nomem(e);
}

bool plan_has_terminal(const struct box_plan *p)
{
	return p->spec->command.tty || p->spec->stays;
}

void plan_note(struct box_plan *p, const char *text)
{
	if (p->note_count + 1 < ARRAY_LEN(p->notes))
		p->notes[p->note_count++] = text;
}

static void map(struct id_map *m, size_t *n, uint32_t inside, uint32_t outside, uint32_t count)
{
	m[(*n)++] = (struct id_map){ .inside = inside, .outside = outside, .count = count };
}

/* An ordinary user is itself inside, one id to one. */
static int identity_user(struct box_plan *p, uid_t uid, gid_t gid, struct err *e)
{
	p->uid = p->spec->user.given ? p->spec->user.uid : uid;
	p->gid = p->spec->user.given ? p->spec->user.gid : gid;
	if (plan_image_user(p, e) < 0)
		return -e->code;
	map(p->uids, &p->uid_count, p->uid, uid, 1);
	map(p->gids, &p->gid_count, p->gid, gid, 1);
	return 0;
}

/* Started by root the command is the workspace's owner, when that is an ordinary user, or else the
 * owner of a range of ids that belongs to nobody. Host id 0 is never mapped. */
static int identity_root(struct box_plan *p, const struct stat *workspace, struct err *e)
{
	bool foreign = workspace && workspace->st_uid != 0 && workspace->st_gid != 0;

	p->by_root = true;
	p->uid = p->spec->user.given ? p->spec->user.uid : ROOT_STARTED_UID;
	p->gid = p->spec->user.given ? p->spec->user.gid : ROOT_STARTED_UID;
	if (plan_image_user(p, e) < 0)
		return -e->code;
	if (foreign) {
		map(p->uids, &p->uid_count, p->uid, workspace->st_uid, 1);
		map(p->gids, &p->gid_count, p->gid, workspace->st_gid, 1);
		return 0;
	}
	p->needs_range = true;
	map(p->uids, &p->uid_count, 0, 0, ID_RANGE);
	map(p->gids, &p->gid_count, 0, 0, ID_RANGE);
	return 0;
}

static int workspace(struct box_plan *p, struct stat *st, struct err *e)
{
	if (getuid() != geteuid() || getgid() != getegid())
		return err_refuse(e, ERR_POLICY, EPERM, "it needs no privilege: chmod u-s,g-s it",
				  "brig must not be installed setuid or setgid");
	if (p->spec->private_workspace || p->spec->no_workspace) {
		p->workspace = NULL;
	} else {
		p->workspace = p->spec->workdir;
		if (plan_source(p->workspace, st, e) < 0)
			return err_wrap(e, "workdir");
		if (!S_ISDIR(st->st_mode))
			return err_refuse(e, ERR_USAGE, ENOTDIR,
					  "name the folder that holds it; --read shows one file",
					  "workdir '%s' is not a folder", p->workspace);
		p->workspace_ident = ident_of(st);
		p->layered = spec_has_layer(p->spec);
		if (p->spec->workspace_mode == WORKSPACE_OVERLAY && !p->layered)
			plan_note(p,
				  "policy readonly: nothing is written to the workspace, so there "
				  "is no layer over it");
	}
	return plan_subfolder(p, e);
}

static int identity(struct box_plan *p, struct err *e)
{
	struct stat st;

	if (workspace(p, &st, e) < 0)
		return -e->code;
	return geteuid() == 0 ? identity_root(p, p->workspace ? &st : NULL, e)
			      : identity_user(p, geteuid(), getegid(), e);
}

static void rlimit(struct box_plan *p, int resource, uint64_t value)
{
	assert(p->rlimit_count < RLIMITS_MAX);
	p->rlimits[p->rlimit_count++] =
		(struct rlimit_want){ .resource = resource,
				      .value = { .rlim_cur = value, .rlim_max = value } };
}

static void rlimits(struct box_plan *p)
{
	/* One byte, not none: with a pipe in core_pattern the kernel runs the handler at 0, not
	 * at 1. */
	rlimit(p, RLIMIT_CORE, 1);
	rlimit(p, RLIMIT_NOFILE, p->spec->limits.files);
	rlimit(p, RLIMIT_MEMLOCK, (uint64_t)8 << 20);
	rlimit(p, RLIMIT_MSGQUEUE, (uint64_t)800 << 10);
	rlimit(p, RLIMIT_SIGPENDING, 4096);
	rlimit(p, RLIMIT_RTPRIO, 0);
	if (p->spec->limits.disk) /* a backstop between two looks of the watch */
		rlimit(p, RLIMIT_FSIZE, p->spec->limits.disk * 2);
}

/* It becomes a line of /etc/passwd and a folder. */
static bool user_name_valid(const char *name)
{
	size_t n = strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_-");

	return n > 0 && n <= 32 && !name[n] && name[0] != '-' &&
	       !(name[0] >= '0' && name[0] <= '9') && !str_eq(name, "root") &&
	       !str_eq(name, "nobody");
}

static int plan_names(struct box_plan *p, struct err *e)
{
	if (!user_name_valid(p->spec->user_name))
		return err_refuse(
			e, ERR_USAGE, EINVAL,
			"at most 32 of a-z, 0-9, '_' and '-', a letter in front; not root "
			"or nobody",
			"'%.64s' cannot be the name of the user inside", p->spec->user_name);
	p->user_name = p->spec->user_name;
	p->home = arena_printf(p->arena, "/home/%s", p->user_name);
	if (!p->home)
		return err_nomem(e);
	p->hostname = "brig";
	p->cwd = p->spec->inside;
	p->argv = p->spec->command.argv;
	if (spec_moved_workspace(p->spec))
		plan_note(p, "the workspace's own path is a place of brig's own inside: it is at "
			     "'" WORKSPACE_PLACE "' there");
	return 0;
}

/* For whoever knows the workspace by that name. */
static int link_workspace(struct box_plan *p, struct err *e)
{
	return spec_links_workspace(p->spec) ? plan_link(p, WORKSPACE_PLACE, p->spec->inside, e)
					     : 0;
}

/* What pins the folders above a narrower grant, or covers a worktree's shared folder, may turn out
 * to be a protected name: the operation is changed then, which must be before a process has it. */
static bool has_covers(const struct box_plan *p)
{
	for (size_t i = 0; i < p->op_count; i++)
		if (p->ops[i].kind == OP_COVER)
			return true;
	return false;
}

static int git_outside(struct box_plan *p, struct err *e)
{
	size_t from = p->op_count;

	if (!p->workspace)
		return 0;
	return plan_worktree(p, e) < 0 ? -e->code : plan_git_grants(p, from, e);
}

/* Of the caller's programs, and of what the host's packages ship, an image shows nothing. */
static int plan_mine(struct box_plan *p, struct err *e)
{
	if (p->image && p->spec->toolchains)
		plan_note(p, "--toolchains: the host's programs are not shown in an image");
	return p->image ? 0 : plan_toolchains(p, e);
}

static int plan_links(struct box_plan *p, struct err *e)
{
	if (p->image)
		return 0;
	return plan_packages_links(p, e) < 0 ? -e->code : plan_links_etc(p, e);
}

static int plan_fill(struct box_plan *p, struct err *e)
{
	if (plan_names(p, e) < 0)
		return -e->code;
	p->mounts_alone = landlock_abi() == 0;
	if (identity(p, e) < 0 || plan_root(p, e) < 0 || plan_gpus(p, e) < 0 ||
	    plan_door(p, e) < 0 || plan_mine(p, e) < 0 || plan_mounts(p, e) < 0 ||
	    plan_data(p, p->by_root, e) < 0 || link_workspace(p, e) < 0 || git_outside(p, e) < 0 ||
	    plan_links(p, e) < 0 || plan_check_stored(p, e) < 0 || plan_environment(p, e) < 0)
		return -e->code;
	plan_image_mark(p);
	rlimits(p);
	if (p->spec->network == NETWORK_HOST)
		plan_note(p, "network host: the command reaches whatever this machine reaches, its "
			     "own services "
			     "included");
	return plan_has_names(p) && !has_covers(p) ? 0 : box_plan_names(p, e);
}

static int fill_trees(struct box_plan *p, struct err *e)
{
	struct stat st;

	p->by_root = true;  /* whether the workspace can be written to is seen by the caller */
	p->no_nodes = true; /* gVisor, for one, cannot mount the node of a socket */
	p->by_name = true;
	p->mounts_alone = true;
	if (plan_names(p, e) < 0 || workspace(p, &st, e) < 0 || plan_door(p, e) < 0 ||
	    plan_kept_home(p, false, e) < 0 || plan_stored_trees(p, e) < 0 ||
	    plan_mounts(p, e) < 0 || plan_data(p, false, e) < 0)
		return -e->code;
	if (git_outside(p, e) < 0 || plan_check_stored(p, e) < 0 || plan_environment(p, e) < 0)
		return -e->code;
	if (box_plan_names(p, e) < 0 || box_plan_guard(p, e) < 0)
		return -e->code;
	return box_plan_search(p, e);
}

/* What native refuses to show is refused. What it would leave out cannot be left out here. */
static int guard_copy(struct box_plan *p, const struct stat *st, struct err *e)
{
	bool writable = p->spec->policy == POLICY_WORKSPACE_WRITE;
	size_t from;

	if (plan_bind_seen(p, p->workspace, p->spec->inside, writable, false, st, e) < 0)
		return -e->code;
	from = p->op_count;
	if (plan_guard(p, e) < 0)
		return -e->code;
	return p->op_count == from
		       ? 0
		       : err_refuse(e, ERR_POLICY, EPERM, "choose another folder",
				    "'%.200s' holds brig's own state, or a file system of the "
				    "kernel's, which must not be copied",
				    p->workspace);
}

static int fill_copied(struct box_plan *p, struct err *e)
{
	struct stat st;
	int r = workspace(p, &st, e);

	if (r == 0 && p->workspace)
		r = guard_copy(p, &st, e);
	if (r == 0)
		r = git_outside(p, e);
	if (r == 0)
		r = plan_protect(p, e);
	p->spec = NULL;
	return r;
}

static int fill_obeyed(struct box_plan *p, struct err *e)
{
	struct stat st;

	if (workspace(p, &st, e) < 0 || git_outside(p, e) < 0 || plan_protect(p, e) < 0)
		return -e->code;
	if (plan_in_settings(p))
		return err_set(e, ERR_POLICY, EPERM, "'%.200s' is a folder of brig's own settings",
			       p->workspace);
	p->spec = NULL;
	return 0;
}

static void take_settings(struct box_plan *p, const struct spec *s)
{
	static const struct {
		enum field_id field;
		enum limit limit;
	} written[] = { { FIELD_MEMORY, LIMIT_MEMORY },
			{ FIELD_CPUS, LIMIT_CPUS },
			{ FIELD_CPU_SHARES, LIMIT_CPU_SHARES },
			{ FIELD_PIDS, LIMIT_PIDS },
			{ FIELD_FILES, LIMIT_FILES } };

	p->spec = s;
	p->policy = s->policy;
	p->network = s->network;
	p->members = s->members.n > 0;
	p->signing = s->ssh_agent != SSH_AGENT_NONE;
	for (size_t i = 0; i < s->env.n; i++)
		if (str_eq(s->env.v[i].name, "PATH"))
			p->set_path = s->env.v[i].value;
	p->profile = s->profile;
	p->limits = s->limits;
	for (size_t i = 0; i < ARRAY_LEN(written); i++)
		if (spec_wrote(s, written[i].field))
			p->wrote |= 1U << written[i].limit;
	p->output = s->command.output;
	p->timeout = s->command.timeout;
	p->code = s->command.code.text;
	p->code_size = s->command.code.size;
	p->shows_code = code_is_file(s);
	p->read_only_root = s->read_only_root;
}

static int plan_make(const struct spec *s, const char *backend,
		     int (*filled)(struct box_plan *p, struct err *e), struct box_plan **ret,
		     struct err *e)
{
	CLEANUP(box_plan) struct box_plan *p = calloc(1, sizeof(*p));

	if (!p)
		return err_nomem(e);
	p->arena = arena_new_on(s->arena, PLAN_MAX);
	if (!p->arena)
		return err_nomem(e);
	p->backend = backend;
	take_settings(p, s);
	if (filled(p, e) < 0)
		return -e->code;
	*ret = TAKE_PTR(p);
	return 0;
}

int box_plan_begin(const struct spec *s, const char *backend, struct box_plan **ret, struct err *e)
{
	return plan_make(s, backend, plan_fill, ret, e);
}

void box_plan_look(struct box_plan *p)
{
	if (!p->looked)
		plan_etc_look(p);
	p->looked = true;
}

int box_plan_names(struct box_plan *p, struct err *e)
{
	if (!p->named && (plan_protect(p, e) < 0 || plan_code(p, e) < 0))
		return -e->code;
	p->named = true;
	return 0;
}

int box_plan_guard(struct box_plan *p, struct err *e)
{
	return p->sight ? 0 : plan_guard(p, e);
}

int box_plan_search(struct box_plan *p, struct err *e)
{
	if (!p->searched && plan_sockets(p, e) < 0)
		return -e->code;
	p->searched = true;
	p->spec = NULL;
	return 0;
}

int box_plan_new(const struct spec *s, const char *backend, struct box_plan **ret, struct err *e)
{
	CLEANUP(box_plan) struct box_plan *p = NULL;

	if (box_plan_begin(s, backend, &p, e) < 0)
		return -e->code;
	box_plan_look(p);
	if (box_plan_names(p, e) < 0 || box_plan_guard(p, e) < 0 || box_plan_search(p, e) < 0)
		return -e->code;
	*ret = TAKE_PTR(p);
	return 0;
}

int box_plan_trees(const struct spec *s, const char *backend, struct box_plan **ret, struct err *e)
{
	return plan_make(s, backend, fill_trees, ret, e);
}

int box_plan_copied(const struct spec *s, const char *backend, struct box_plan **ret, struct err *e)
{
	return plan_make(s, backend, fill_copied, ret, e);
}

int box_plan_obeyed(const struct spec *s, struct box_plan **ret, struct err *e)
{
	return plan_make(s, "none", fill_obeyed, ret, e);
}

void box_plan_note(struct box_plan *p, const char *text)
{
	plan_note(p, text);
}

struct box_plan *box_plan_free(struct box_plan *p)
{
	for (size_t i = 0; p && i < p->survey_count; i++) {
		known_done(&p->surveys[i].survey.known);
		(void)seen_free(p->surveys[i].survey.seen);
	}
	if (p)
		(void)arena_free(p->arena);
	free(p);
	return NULL;
}
