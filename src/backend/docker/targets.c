/* SPDX-License-Identifier: Apache-2.0 */
/* backend/docker/targets.c - what the image has where things will be mounted.
 *
 * An engine mounts by path, in a root that the image's author has written: a link on the way takes
 * a mount, or the cover of a protected name, to another place than the one that was asked for, or
 * has the engine make files in the workspace. So every component of every target is looked at, and
 * a link refuses the image. The looking is done in a container that has no mounts and is never
 * started: an engine that is asked for a file of another one makes its mounts first.
 *
 * An image is named by the digest of what it holds, so what was seen stays true. The digest of the
 * last answer to such a question is kept, in one of 256 places: nothing is parsed, nothing grows.
 */
#include <assert.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "backend/docker/guard.h"
#include "base/bytes/sha256.h"
#include "base/files/fd.h"
#include "base/files/state.h"
#include "base/text/str.h"
#include "model/known/ssh_pins.h"
#include "model/settings/paths.h"

#define FOLDER "images"
#define VERSION "targets 2" /* another rule: look again */

/* Where images keep the bundle that programs read without being told. One that is a link is left
 * alone: what it leads to stands here as well. */
static const char *const bundles[] = { "/etc/ssl/certs/ca-certificates.crt",
				       "/etc/ssl/cert.pem",
				       "/etc/pki/tls/certs/ca-bundle.crt",
				       "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
				       "/etc/ssl/ca-bundle.pem",
				       "/var/lib/ca-certificates/ca-bundle.pem" };
static_assert(ARRAY_LEN(bundles) == GUARD_BUNDLES, "room for each");

struct target {
	const char *path;
	bool file;
	bool passed; /* the user inside must get there */
};

enum found {
	FOUND_NOTHING,
	FOUND_FOLDER,
	FOUND_CLOSED, /* a folder that not everybody can pass */
	FOUND_FILE,
	FOUND_LINK,
	FOUND_OTHER
};

struct target_seen {
	const char *path;
	enum found found;
};

struct target_look {
	struct guard *g;
	struct arena *arena;
	struct target *targets;
	size_t target_count;
	struct target_seen *seen;
	size_t seen_count;
	bool failed; /* no memory */
	char container[CONTAINER_MAX];
};

struct target_answer {
	unsigned char question[SHA256_SIZE];
	unsigned char bundles; /* a bit for each that is there */
};
static_assert(GUARD_BUNDLES <= 8, "a bit for each");

/* ---- what is mounted ---- */

/* At its own path the workspace may lie in a folder of the image's. */
static bool is_passed(const struct backend_plan *p, const char *path)
{
	bool root = p->user == DOCKER_USER_IDS && p->uid == 0;

	return p->at_own_path && !root && docker_is_work(p, path);
}

static void targets_add(struct target_look *l, const char *path, bool file)
{
	struct target *t = ARENA_PUSH(l->arena, l->targets, l->target_count);

	if (t)
		*t = (struct target){ .path = path,
				      .file = file,
				      .passed = is_passed(l->g->plan, path) };
	else
		l->failed = true;
}

/* In a tree of the host's, or a folder that starts empty: the image has no say there. */
static bool is_inside(const struct backend_plan *p, const char *path)
{
	for (size_t i = 0; i < p->box->op_count; i++) {
		const struct op *o = &p->box->ops[i];

		if (o->kind == OP_BIND && path_under(path, o->dst) && !str_eq(path, o->dst))
			return true;
	}
	for (size_t i = 0; i < p->tmpfs_count; i++)
		if (path_under(path, p->tmpfs[i].path) && !str_eq(path, p->tmpfs[i].path))
			return true;
	return false;
}

static void add_ops(struct target_look *l)
{
	const struct backend_plan *p = l->g->plan;

	for (size_t i = 0; i < p->box->op_count; i++) {
		const struct op *o = &p->box->ops[i];
		bool known = o->kind == OP_BIND || o->kind == OP_COVER || o->kind == OP_HIDE ||
			     o->kind == OP_MASK || o->kind == OP_CODE;

		if (known && !is_inside(p, o->dst))
			targets_add(l, o->dst,
				    o->kind == OP_CODE || o->kind == OP_HIDE ||
					    (o->kind == OP_BIND && o->ident.type != S_IFDIR));
	}
	for (size_t i = 0; i < p->tmpfs_count; i++)
		if (!is_inside(p, p->tmpfs[i].path))
			targets_add(l, p->tmpfs[i].path, false);
}

static void targets_collect(struct target_look *l)
{
	/* The engines' own, and those of brig's that not every run has. */
	static const struct target always[] = {
		{ .path = "/proc" },
		{ .path = "/sys" },
		{ .path = "/dev" },
		{ .path = "/dev/shm" },
		{ .path = "/run" },
		{ .path = "/run/.containerenv", .file = true },
		{ .path = "/run/secrets" },
		{ .path = "/etc/hostname", .file = true },
		{ .path = "/etc/hosts", .file = true },
		{ .path = "/etc/resolv.conf", .file = true },
		{ .path = "/etc/passwd", .file = true },
		{ .path = "/etc/group", .file = true },
		{ .path = DOOR_ROOTS, .file = true },
		{ .path = DOCKER_GIT, .file = true },
		{ .path = SSH_CONFIG_INSIDE, .file = true },
		{ .path = SSH_KNOWN_INSIDE, .file = true },
	};

	add_ops(l);
	for (size_t i = 0; i < ARRAY_LEN(always); i++)
		if (!is_inside(l->g->plan, always[i].path))
			targets_add(l, always[i].path, always[i].file);
	for (size_t i = 0; i < l->g->image.volume_count; i++)
		targets_add(l, l->g->image.volumes[i], false);
}

/* ---- what the image has there ---- */

static int ask_for(struct target_look *l, const char *path, enum found *ret, struct err *e)
{
	CLEANUP(engine_answer) struct engine_answer a = { 0 };
	CLEANUP(buf) struct buf b = BUF_INIT(16384);
	struct engine_call q = { .method = "HEAD" };

	buf_printf(&b, "/containers/%s/archive?path=", l->container);
	engine_escape(&b, path);
	q.path = buf_str(&b);
	if (engine_ask(&l->g->engine, &q, &a, e) < 0)
		return -e->code;
	if (a.status != 404 && (a.status != 200 || !a.has_mode))
		return err_set(e, ERR_UNAVAILABLE, EIO,
			       "the engine does not say what image '%.100s' has at '%.150s'",
			       l->g->plan->image, path);
	if (!a.has_mode) /* Podman knows a link that leads nowhere, and says this */
		*ret = FOUND_NOTHING;
	else if (a.mode & GO_LINK)
		*ret = FOUND_LINK;
	else if (a.mode & GO_FOLDER)
		*ret = a.mode & S_IXOTH ? FOUND_FOLDER : FOUND_CLOSED;
	else
		*ret = a.mode & GO_PLAIN_NOT ? FOUND_OTHER : FOUND_FILE;
	return 0;
}

static int targets_find(struct target_look *l, const char *path, enum found *ret, struct err *e)
{
	struct target_seen *s;

	for (size_t i = 0; i < l->seen_count; i++)
		if (str_eq(l->seen[i].path, path)) {
			*ret = l->seen[i].found;
			return 0;
		}
	if (ask_for(l, path, ret, e) < 0)
		return -e->code;
	s = ARENA_PUSH(l->arena, l->seen, l->seen_count);
	if (!s)
		return err_nomem(e);
	*s = (struct target_seen){ .path = path, .found = *ret };
	return 0;
}

/* From the top down to the path itself, or to what is no folder on the way, or is to be passed and
 * cannot be: then *at is that. */
static int targets_walk(struct target_look *l, const char *path, bool passed, const char **at,
			enum found *ret, struct err *e)
{
	const char *slash = path;

	do {
		slash = strchr(slash + 1, '/');
		*at = arena_printf(l->arena, "%.*s", slash ? (int)(slash - path) : -1, path);
		if (!*at)
			return err_nomem(e);
		if (targets_find(l, *at, ret, e) < 0)
			return -e->code;
		if (*ret == FOUND_CLOSED && (!slash || !passed))
			*ret = FOUND_FOLDER;
	} while (slash && *ret == FOUND_FOLDER);
	return 0;
}

static int targets_refuse(struct target_look *l, const struct target *t, const char *at,
			  enum found found, struct err *e)
{
	static const char *const words[] = { [FOUND_FOLDER] = "a folder",
					     [FOUND_CLOSED] = "a closed folder",
					     [FOUND_FILE] = "a file",
					     [FOUND_LINK] = "a link",
					     [FOUND_OTHER] = "something odd" };

	l->g->unfit = docker_is_work(l->g->plan, t->path);
	(void)err_set(e, ERR_POLICY, ELOOP,
		      "image '%.100s' has %s at '%.100s', where '%.100s' is to be mounted",
		      l->g->plan->image, words[found], at, t->path);
	if (found == FOUND_CLOSED)
		return err_hint(e, "the user inside cannot pass it: choose another image, or "
				   "another target");
	return err_hint(e, "what the image has there could turn the mount to another place: choose "
			   "another image, or another target");
}

static int targets_check_one(struct target_look *l, const struct target *t, struct err *e)
{
	enum found found = FOUND_OTHER, fits = t->file ? FOUND_FILE : FOUND_FOLDER;
	const char *at;

	if (targets_walk(l, t->path, t->passed, &at, &found, e) < 0)
		return -e->code;
	if (found == FOUND_NOTHING || (found == fits && str_eq(at, t->path)))
		return 0;
	return targets_refuse(l, t, at, found, e);
}

static int look_at_bundles(struct target_look *l, unsigned char *bits, struct err *e)
{
	for (size_t i = 0; i < ARRAY_LEN(bundles); i++) {
		enum found found = FOUND_OTHER;
		const char *at;

		if (targets_walk(l, bundles[i], false, &at, &found, e) < 0)
			return -e->code;
		if (found == FOUND_FILE && str_eq(at, bundles[i]))
			*bits |= (unsigned char)(1U << i);
	}
	return 0;
}

static void remove_look(struct target_look *l)
{
	CLEANUP(engine_answer) struct engine_answer a = { 0 };
	char path[128];
	const struct engine_call q = { .method = "DELETE", .path = path };
	struct err ignored;

	(void)snprintf(path, sizeof(path), "/containers/%s?force=1&v=1", l->container);
	(void)engine_ask(&l->g->engine, &q, &a, &ignored);
}

static int look_at_image(struct target_look *l, unsigned char *bits, struct err *e)
{
	int r = guard_create(l->g, GUARD_LOOK, docker_look_body, l->container, e);

	for (size_t i = 0; r == 0 && i < l->target_count; i++)
		r = targets_check_one(l, &l->targets[i], e);
	if (r == 0)
		r = look_at_bundles(l, bits, e);
	if (l->container[0])
		remove_look(l);
	return r;
}

/* ---- what was seen before ---- */

static void question(const struct target_look *l, unsigned char out[SHA256_SIZE])
{
	struct sha256 h;

	sha256_init(&h);
	sha256_add(&h, VERSION, sizeof(VERSION));
	sha256_add(&h, l->g->image.id, strlen(l->g->image.id) + 1);
	for (size_t i = 0; i < l->target_count; i++) {
		sha256_add(&h, l->targets[i].path, strlen(l->targets[i].path) + 1);
		sha256_add(&h, l->targets[i].file ? "f" : l->targets[i].passed ? "p" : "d", 1);
	}
	sha256_end(&h, out);
}

static bool recall(int dir, const char *name, struct target_answer *a)
{
	struct target_answer kept;
	CLEANUP(fd) int fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);

	if (fd < 0 || read(fd, &kept, sizeof(kept)) != (ssize_t)sizeof(kept) ||
	    memcmp(kept.question, a->question, sizeof(kept.question)) != 0)
		return false;
	a->bundles = kept.bundles;
	return true;
}

/* Of no consequence where it fails: the next run looks again. */
static void targets_keep(int dir, const char *name, const struct target_answer *a)
{
	char draft[64];
	CLEANUP(fd) int fd = -1;

	(void)snprintf(draft, sizeof(draft), "%s.%d", name, getpid());
	fd = openat(dir, draft, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0)
		return;
	if (fd_write_all(fd, a, sizeof(*a)) < 0 || renameat(dir, draft, dir, name) < 0)
		(void)unlinkat(dir, draft, 0);
}

int targets_check(struct guard *g, struct err *e)
{
	CLEANUP(arena) struct arena *arena = arena_new((size_t)4 << 20);
	CLEANUP(fd) int dir = state_open(FOLDER, NULL, 0, e);
	struct target_look l = { .g = g, .arena = arena };
	struct target_answer a = { 0 };
	char name[3];

	if (!arena)
		return err_nomem(e);
	targets_collect(&l);
	if (l.failed)
		return err_nomem(e);
	question(&l, a.question);
	(void)snprintf(name, sizeof(name), "%02x", a.question[0]);
	if (dir < 0 || !recall(dir, name, &a)) {
		if (look_at_image(&l, &a.bundles, e) < 0)
			return -e->code;
		if (dir >= 0)
			targets_keep(dir, name, &a);
	}
	for (size_t i = 0; i < ARRAY_LEN(bundles); i++)
		if (a.bundles & 1U << i)
			g->door.bundles[g->door.bundle_count++] = bundles[i];
	return 0;
}
