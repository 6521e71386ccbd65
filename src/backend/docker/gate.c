/* SPDX-License-Identifier: Apache-2.0 */
/* backend/docker/gate.c - the guard's side of the gate: what each mount must show, and the talk.
 *
 * Identities are taken without following a link, from the folders that the plan has seen. An engine
 * that was led elsewhere meanwhile has mounted something else, and the gate says so. */
#include "backend/docker/gate/gate.h"

#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "backend/docker/guard.h"
#include "base/files/fd.h"
#include "base/sys/clock.h"
#include "base/sys/wait.h"
#include "base/text/str.h"
#include "model/known/ssh_pins.h"
#include "model/request/code.h"
#include "model/settings/paths.h"
#include "proc/host_find.h"

#define TALK_MS 60000 /* a container's start, on a machine that has other work */
#define LOOK_MS 250
#define MESSAGE_MAX ((size_t)8 << 20)
#define UNLOCKED                                                                                   \
	"the container's mounts cannot be locked, because it is root's or the engine lets it "     \
	"make "                                                                                    \
	"no user namespace: of two runs in one workspace at a time, one can be handed folders of " \
	"the other without the covers on them"

struct gate_list {
	struct guard *g;
	struct buf bytes;
	uint32_t n;
};

static void cleanup_list(struct gate_list *l)
{
	buf_done(&l->bytes);
}

/* ---- what was asked for ---- */

static void gate_add(struct gate_list *l, const char *path, enum gate_kind kind,
		     const struct stat *st, bool read_only)
{
	struct gate_mount m = { .kind = kind, .read_only = read_only };

	m.length = (uint32_t)strlen(path) + 1;
	if (m.length > sizeof(m.path) || l->n == GATE_MOUNTS_MAX) {
		l->bytes.failed = true;
		return;
	}
	if (st) {
		m.dev = st->st_dev;
		m.ino = st->st_ino;
		m.type = st->st_mode & S_IFMT;
	}
	buf_add(&l->bytes, &m, offsetof(struct gate_mount, path));
	buf_add(&l->bytes, path, m.length);
	l->n++;
}

/* A file of the run's own folder. */
static int gate_add_file(struct gate_list *l, const char *what, const char *path, struct err *e)
{
	char name[64];
	struct stat st;

	(void)snprintf(name, sizeof(name), "%.32s.%s", l->g->s->id, what);
	if (fstatat(l->g->ledger.dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return err_sys(e, "cannot look at '%s/%s'", l->g->ledger.path, name);
	gate_add(l, path, GATE_BIND, &st, true);
	return 0;
}

static const struct op *tree_of(const struct backend_plan *p, const char *inside)
{
	for (size_t i = p->box->op_count; i-- > 0;)
		if (p->box->ops[i].kind == OP_BIND && path_under(inside, p->box->ops[i].dst))
			return &p->box->ops[i];
	return NULL;
}

static int changed(const char *path, struct err *e)
{
	return err_refuse(e, ERR_POLICY, EPERM, "start again when nobody else changes that folder",
			  "'%.200s' was changed while the run was started", path);
}

/* What lies at a path inside, in the tree that the plan has seen there. */
static int add_cover(struct gate_list *l, const struct op *o, struct err *e)
{
	const struct op *tree = tree_of(l->g->plan, o->dst);
	CLEANUP(fd) int top = -1, fd = -1;
	struct stat st;
	struct ident seen;

	if (!tree)
		return 0;
	top = fd_open_nolinks(AT_FDCWD, tree->src, O_PATH | O_CLOEXEC, 0);
	if (top < 0 || fstat(top, &st) < 0)
		return changed(tree->src, e);
	seen = ident_of(&st);
	if (!ident_same(&seen, &tree->ident))
		return changed(tree->src, e);
	fd = fd_open_nolinks(top, o->dst + strlen(tree->dst) + 1, O_PATH | O_CLOEXEC, FD_BENEATH);
	if (fd < 0 || fstat(fd, &st) < 0)
		return changed(o->dst, e);
	gate_add(l, o->dst, GATE_BIND, &st, !o->writable);
	return 0;
}

static int add_op(struct gate_list *l, const struct op *o, struct err *e)
{
	const struct stat st = { .st_dev = o->ident.dev,
				 .st_ino = o->ident.ino,
				 .st_mode = o->ident.type };

	if (o->skip)
		return 0;
	if (o->kind == OP_CODE)
		return gate_add_file(l, "code", o->dst, e);
	if (o->kind == OP_BIND)
		gate_add(l, o->dst, GATE_BIND, &st, !o->writable);
	else if (o->kind == OP_COVER && !str_eq(o->dst, CODE_FOLDER))
		return add_cover(l, o, e);
	else if (o->kind == OP_HIDE)
		gate_add(l, o->dst, GATE_NULL, NULL, false);
	else if (o->kind == OP_MASK && tree_of(l->g->plan, o->dst))
		gate_add(l, o->dst, GATE_TMPFS, NULL, true);
	return 0;
}

static int add_files(struct gate_list *l, struct err *e)
{
	const struct guard *g = l->g;

	if (g->plan->user == DOCKER_USER_IDS && (gate_add_file(l, "passwd", "/etc/passwd", e) < 0 ||
						 gate_add_file(l, "group", "/etc/group", e) < 0))
		return -e->code;
	if (g->plan->git && gate_add_file(l, "git", DOCKER_GIT, e) < 0)
		return -e->code;
	if (g->plan->ssh.config && (gate_add_file(l, "ssh", SSH_CONFIG_INSIDE, e) < 0 ||
				    gate_add_file(l, "known", SSH_KNOWN_INSIDE, e) < 0))
		return -e->code;
	if (g->s->line) {
		char line[sizeof(g->gate_inside) + sizeof(GATE_LINE)];

		(void)snprintf(line, sizeof(line), "%s%s", g->gate_inside, GATE_LINE);
		if (gate_add_file(l, "line", line, e) < 0)
			return -e->code;
	}
	if (!docker_has_door(g->plan))
		return 0;
	if (gate_add_file(l, "resolv", "/etc/resolv.conf", e) < 0 ||
	    gate_add_file(l, "hosts", "/etc/hosts", e) < 0)
		return -e->code;
	if (!g->plan->box->door)
		return 0;
	if (gate_add_file(l, "roots", DOOR_ROOTS, e) < 0)
		return -e->code;
	for (size_t i = 0; i < g->door.bundle_count; i++)
		if (gate_add_file(l, "roots", g->door.bundles[i], e) < 0)
			return -e->code;
	return 0;
}

static int list_mounts(struct gate_list *l, struct err *e)
{
	const struct guard *g = l->g;

	for (size_t i = 0; i < g->plan->box->op_count; i++)
		if (add_op(l, &g->plan->box->ops[i], e) < 0)
			return -e->code;
	for (size_t i = 0; i < g->plan->tmpfs_count; i++)
		gate_add(l, g->plan->tmpfs[i].path, GATE_TMPFS, NULL, false);
	for (size_t i = 0; i < g->image.volume_count; i++)
		if (!docker_is_mounted(g->plan, g->image.volumes[i]))
			gate_add(l, g->image.volumes[i], GATE_TMPFS, NULL, false);
	return add_files(l, e);
}

/* ---- talking ---- */

static int nonsense(struct err *e)
{
	(void)err_set(e, ERR_UNAVAILABLE, EPROTO,
		      "the container ended, or said something odd, before the command was "
		      "started");
	return err_hint(e,
			"the engine must be able to show '%s' to a container: it must see the "
			"same files as brig",
			GATE_PROGRAM);
}

/* What has come so far: the container's stdout, and nothing else. */
static int gate_take(struct guard *g, char *out, size_t n, size_t *have)
{
	const char *p = g->early.data;
	size_t left = g->early.len;

	while (left) {
		const char *data = p;
		size_t part = left;
		int stream = 1;

		if (g->s->tty)
			left = 0;
		else
			stream = demux_next(&g->demux, &p, &left, &data, &part);
		if (stream == 0)
			break;
		if (stream != 1 || part > n - *have)
			return -EBADMSG;
		memcpy(out + *have, data, part);
		*have += part;
	}
	g->early.len = 0;
	return 0;
}

/* Waits for more of it; gives up with brig, with the container and with the clock. */
static int wait_more(struct guard *g, uint64_t until, struct err *e)
{
	int ready = wait_fd(g->attach, POLLIN, clock_after(LOOK_MS));
	char piece[4096];
	ssize_t r;

	if (guard_note(g, NULL))
		return err_set(e, ERR_INTERNAL, ECANCELED, "the run was given up");
	if (ready < 0)
		return clock_us() < until ? 0
					  : err_set(e, ERR_UNAVAILABLE, ETIMEDOUT,
						    "the container does not answer");
	r = recv(g->attach, piece, sizeof(piece), MSG_DONTWAIT);
	if (r == 0 || (r < 0 && errno != EAGAIN && errno != EINTR))
		return nonsense(e);
	if (r > 0)
		buf_add(&g->early, piece, (size_t)r);
	return 0;
}

static int gate_hear(struct guard *g, void *out, size_t n, struct err *e)
{
	uint64_t until = clock_us() + (uint64_t)TALK_MS * 1000;
	size_t have = 0;

	for (;;) {
		if (gate_take(g, out, n, &have) < 0)
			return nonsense(e);
		if (have == n)
			return 0;
		if (wait_more(g, until, e) < 0)
			return -e->code;
	}
}

static int gate_say(struct guard *g, const void *p, size_t n, struct err *e)
{
	int r = 0;

	for (const char *at = p; n && r >= 0;) {
		ssize_t w = send(g->attach, at, n, MSG_NOSIGNAL | MSG_DONTWAIT);

		if (w > 0) {
			at += w;
			n -= (size_t)w;
		} else if (errno == EAGAIN || errno == EINTR) {
			r = wait_fd(g->attach, POLLOUT, clock_after(TALK_MS));
		} else {
			r = -1;
		}
	}
	return r < 0 ? nonsense(e) : 0;
}

static bool same_kernel(const struct gate_hello *h)
{
	char boot[GATE_ID] = "";

	return h->boot[0] &&
	       fd_read_file(AT_FDCWD, "/proc/sys/kernel/random/boot_id", boot, sizeof(boot)) > 0 &&
	       str_eq(boot, h->boot);
}

/* What an engine makes anew for each container is here as well, and is another one. */
static void name_hosts(struct gate_want *w)
{
	static const char *const paths[GATE_HOSTS] = { "/dev", "/dev/shm", "/dev/pts",
						       "/dev/mqueue", "/run" };
	struct stat st;

	for (size_t i = 0; i < GATE_HOSTS; i++)
		w->hosts[i] = stat(paths[i], &st) == 0 ? st.st_dev : 0;
	w->groups = stat("/sys/fs/cgroup", &st) == 0 ? st.st_dev : 0;
	w->users = stat("/proc/self/ns/user", &st) == 0 ? st.st_ino : 0;
}

static struct gate_want want_of(struct guard *g, const struct gate_hello *h, uint32_t mounts)
{
	const struct backend_plan *p = g->plan;
	bool owner = docker_is_owner(p, g->engine.rootless, g->engine.podman);
	struct gate_want w = { .mounts = mounts,
			       .uid = owner ? 0 : p->uid,
			       .gid = owner ? 0 : p->gid,
			       .any_user = p->user != DOCKER_USER_IDS,
			       .rootless = g->engine.rootless,
			       .same_kernel = same_kernel(h),
			       .profile = (uint8_t)p->box->profile,
			       .read_only_root = p->tune.read_only,
			       .more_mounts = p->tune.gpus > 0,
			       .no_input = g->s->in < 0,
			       .open = g->s->open,
			       .line = g->s->line,
			       .agent = g->plan->box->signing,
			       .lent = docker_lends(p, g->engine.rootless, g->engine.podman) };

	g->same_kernel = w.same_kernel;
	if (w.same_kernel)
		name_hosts(&w);
	memcpy(w.secret, g->secret, GATE_SECRET);
	return w;
}

int gate_find(struct guard *g, struct err *e)
{
	struct err missing = { 0 };
	int r = host_find_own(GATE_PROGRAM, g->gate, &missing);

	if (r != -ENOENT) {
		*e = missing;
		return r;
	}
	(void)err_set(e, ERR_UNAVAILABLE, ENOENT,
		      "backend 'docker' needs the program '%s', which is not installed",
		      GATE_PROGRAM);
	return err_hint(e, "%s", missing.hint);
}

int gate_pass(struct guard *g, struct err *e)
{
	CLEANUP(buf) struct buf message = BUF_INIT(MESSAGE_MAX);
	CLEANUP(list) struct gate_list l = { .g = g, .bytes = BUF_INIT(MESSAGE_MAX) };
	struct gate_answer a = { 0 };
	struct gate_hello h = { 0 };
	struct gate_want w;

	if (gate_hear(g, &h, sizeof(h), e) < 0)
		return -e->code;
	if (strncmp(h.magic, GATE_MAGIC, sizeof(h.magic)) != 0 ||
	    !memchr(h.boot, '\0', sizeof(h.boot)))
		return nonsense(e);
	if (list_mounts(&l, e) < 0)
		return -e->code;
	w = want_of(g, &h, l.n);
	if (w.line && !w.same_kernel)
		return line_other_kernel(g->plan, e);
	buf_add(&message, &w, sizeof(w));
	buf_add(&message, buf_str(&l.bytes), l.bytes.len);
	if (message.failed || l.bytes.failed)
		return err_nomem(e);
	if (gate_say(g, message.data, message.len, e) < 0 || gate_hear(g, &a, sizeof(a), e) < 0)
		return -e->code;
	if (strncmp(a.magic, GATE_MAGIC, sizeof(a.magic)) != 0)
		return nonsense(e);
	g->no_filter = a.no_filter;
	g->unlocked = a.unlocked;
	if (a.unlocked && w.same_kernel)
		(void)guard_note(g, UNLOCKED);
	if (!a.err.code)
		return 0;
	guard_take_words(e, &a.err);
	return -e->code;
}

int gate_go(struct guard *g, struct err *e)
{
	const char word = GATE_GO;

	return gate_say(g, &word, 1, e);
}
