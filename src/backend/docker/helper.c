/* SPDX-License-Identifier: Apache-2.0 */
/* backend/docker/helper.c - the image that the door's helper starts from.
 *
 * The helper has a capability, so it never runs in a root that somebody else wrote: the engine is
 * given an image of one program and one empty file to mount the guard's socket on. Its tag is the
 * digest of that root, which the engine tells again (it is its name for the layer) and which is
 * compared before each use; another version of brig has another tag. It is made once and stays. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "backend/docker/guard.h"
#include "base/bytes/sha256.h"
#include "base/files/fd.h"
#include "base/text/str.h"

#define LABEL "brig.door"
#define REPOSITORY "localhost/brig-door"
#define PROGRAM_MAX ((size_t)32 << 20)
#define BLOCK 512
#define TAG_CHARS 32
#define OLD_MAX 16 /* that are swept at once */

#if defined(__aarch64__)
#define ARCHITECTURE "arm64"
#else
#define ARCHITECTURE "amd64"
#endif

struct helper {
	struct buf layer;      /* the root, as a tar */
	char diff[SHA256_HEX]; /* of it */
	char tag[sizeof(REPOSITORY) + TAG_CHARS + 2];
};

static void cleanup_helper(struct helper *h)
{
	buf_done(&h->layer);
}

/* ---- archives ---- */

struct tar_head {
	char name[100], mode[8], uid[8], gid[8], size[12], mtime[12], sum[8], type, goal[100];
	char magic[6], version[2], rest[247];
};

/* No owner, no time: the same file gives the same bytes. */
static void tar_file(struct buf *b, const char *name, unsigned mode, const void *p, size_t n)
{
	static const char zeros[BLOCK] = { 0 };
	struct tar_head h = { .type = '0', .magic = "ustar", .version = { '0', '0' } };
	unsigned sum = 0;

	(void)snprintf(h.name, sizeof(h.name), "%s", name);
	(void)snprintf(h.mode, sizeof(h.mode), "%07o", mode & 07777);
	(void)snprintf(h.uid, sizeof(h.uid), "%07o", 0U);
	(void)snprintf(h.gid, sizeof(h.gid), "%07o", 0U);
	(void)snprintf(h.size, sizeof(h.size), "%011llo", (unsigned long long)n);
	(void)snprintf(h.mtime, sizeof(h.mtime), "%011o", 0U);
	memset(h.sum, ' ', sizeof(h.sum));
	for (size_t i = 0; i < sizeof(h); i++)
		sum += ((const unsigned char *)&h)[i];
	(void)snprintf(h.sum, sizeof(h.sum), "%06o", sum & 0777777);
	buf_add(b, &h, sizeof(h));
	if (n)
		buf_add(b, p, n);
	buf_add(b, zeros, (BLOCK - n % BLOCK) % BLOCK);
}

static void tar_end(struct buf *b)
{
	static const char zeros[2 * BLOCK] = { 0 };

	buf_add(b, zeros, sizeof(zeros));
}

/* ---- what it must be ---- */

static int read_program(const char *path, struct buf *b, struct err *e)
{
	CLEANUP(fd) int fd = open(path, O_RDONLY | O_CLOEXEC);
	char piece[65536];
	ssize_t n = -1;

	while (fd >= 0 && (n = read(fd, piece, sizeof(piece))) > 0)
		buf_add(b, piece, (size_t)n);
	if (n < 0)
		return err_sys(e, "cannot read '%s'", path);
	return b->failed || !b->len
		       ? err_set(e, ERR_UNAVAILABLE, EFBIG, "'%s' is not brig's program", path)
		       : 0;
}

static int helper_read(struct helper *h, const char *path, struct err *e)
{
	CLEANUP(buf) struct buf program = BUF_INIT(PROGRAM_MAX);

	h->layer = (struct buf)BUF_INIT(2 * PROGRAM_MAX);
	if (read_program(path, &program, e) < 0)
		return -e->code;
	tar_file(&h->layer, &DOOR_HELPER_INSIDE[1], 0755, program.data, program.len);
	tar_file(&h->layer, &DOOR_SOCKET_INSIDE[1], 0644, NULL, 0);
	tar_end(&h->layer);
	if (h->layer.failed)
		return err_nomem(e);
	sha256_of(h->layer.data, h->layer.len, h->diff);
	(void)snprintf(h->tag, sizeof(h->tag), "%s:%.*s", REPOSITORY, TAG_CHARS, h->diff);
	return 0;
}

/* ---- what the engine has ---- */

static bool is_empty(const struct jread *v)
{
	const char *text = jread_text(v);

	return !jread_first(v) && !jread_count(v) && !(text && *text);
}

/* Nothing but our layer, and nothing that the engine would add or do for it. */
static bool helper_is_ours(const struct helper *h, const struct jread *image)
{
	static const char *const none[] = { "Volumes", "Env",         "User",        "Cmd",
					    "OnBuild", "Healthcheck", "ExposedPorts" };
	const struct jread *layers = jread_get(jread_get(image, "RootFS"), "Layers");
	const struct jread *config = jread_get(image, "Config");
	const char *layer = jread_text(jread_at(layers, 0));

	for (size_t i = 0; i < ARRAY_LEN(none); i++)
		if (!is_empty(jread_get(config, none[i])))
			return false;
	return jread_count(layers) == 1 && layer && str_starts(layer, "sha256:") &&
	       str_eq(layer + strlen("sha256:"), h->diff);
}

/* 0, 1 when the engine does not have it, or an error. */
static int helper_find(struct guard *g, const struct helper *h, struct err *e)
{
	CLEANUP(engine_answer) struct engine_answer a = { 0 };
	char path[160];
	const struct engine_call q = { .method = "GET", .path = path };
	const char *id;

	(void)snprintf(path, sizeof(path), "/images/%s/json", h->tag);
	if (engine_ask(&g->engine, &q, &a, e) < 0)
		return -e->code;
	if (a.status == 404)
		return 1;
	id = jread_str(a.json, "Id");
	if (a.status != 200 || !id || strlen(id) + 8 > sizeof(g->door.image))
		return err_set(e, ERR_UNAVAILABLE, EIO,
			       "the engine does not say what image '%s' is: %s", h->tag, a.message);
	if (!helper_is_ours(h, a.json)) {
		(void)err_set(e, ERR_POLICY, EPERM, "image '%s' is not the one that brig made",
			      h->tag);
		return err_hint(e, "somebody changed it; remove it: docker rmi %s", h->tag);
	}
	(void)snprintf(g->door.image, sizeof(g->door.image), "%s%s",
		       strchr(id, ':') ? "" : "sha256:", id);
	return 0;
}

/* ---- making it ---- */

static void config_json(const struct helper *h, struct buf *b)
{
	char layer[SHA256_HEX + 8];
	struct json j;

	(void)snprintf(layer, sizeof(layer), "sha256:%s", h->diff);
	json_init(&j, b, false);
	json_object(&j);
	json_kstr(&j, "architecture", ARCHITECTURE);
	json_kstr(&j, "os", "linux");
	json_kstr(&j, "created", "1970-01-01T00:00:00Z");
	json_kobject(&j, "config");
	json_karray(&j, "Entrypoint");
	json_str(&j, DOOR_HELPER_INSIDE);
	json_array_end(&j);
	json_kobject(&j, "Labels");
	json_kstr(&j, LABEL, h->diff);
	json_object_end(&j);
	json_object_end(&j);
	json_kobject(&j, "rootfs");
	json_kstr(&j, "type", "layers");
	json_karray(&j, "diff_ids");
	json_str(&j, layer);
	json_array_end(&j);
	json_object_end(&j);
	json_object_end(&j);
}

/* As `docker save` writes it: both engines read it, and name the image by its contents. */
static void archive(const struct helper *h, struct buf *b)
{
	CLEANUP(buf) struct buf config = BUF_INIT(4096), manifest = BUF_INIT(4096);
	char digest_of_config[SHA256_HEX], name[SHA256_HEX + 8];

	config_json(h, &config);
	sha256_of(config.data, config.len, digest_of_config);
	(void)snprintf(name, sizeof(name), "%s.json", digest_of_config);
	buf_printf(&manifest,
		   "[{\"Config\":\"%s\",\"RepoTags\":[\"%s\"],\"Layers\":[\"layer.tar\"]}]", name,
		   h->tag);
	tar_file(b, name, 0644, config.data, config.len);
	tar_file(b, "layer.tar", 0644, h->layer.data, h->layer.len);
	tar_file(b, "manifest.json", 0644, manifest.data, manifest.len);
	tar_end(b);
	b->failed |= config.failed || manifest.failed;
}

static int helper_load(struct guard *g, const struct helper *h, struct err *e)
{
	CLEANUP(engine_answer) struct engine_answer a = { 0 };
	CLEANUP(buf) struct buf b = BUF_INIT(3 * PROGRAM_MAX);
	struct engine_call q = { .method = "POST",
				 .path = "/images/load?quiet=1",
				 .ms = ENGINE_SLOW_MS };

	archive(h, &b);
	if (b.failed)
		return err_nomem(e);
	q.body = b.data;
	q.tar = b.len;
	if (engine_ask(&g->engine, &q, &a, e) < 0)
		return -e->code;
	return a.status == 200 ? 0
			       : err_set(e, ERR_UNAVAILABLE, EIO,
					 "the engine does not take the image of the door's "
					 "helper: %s",
					 a.message);
}

static void remove_old(struct guard *g, const char *tag)
{
	CLEANUP(engine_answer) struct engine_answer a = { 0 };
	char path[160];
	const struct engine_call q = { .method = "DELETE", .path = path };
	struct err ignored;

	if (str_starts(tag, REPOSITORY ":") && strlen(tag) < sizeof(path) - 16 &&
	    strspn(tag + strlen(REPOSITORY ":"), "0123456789abcdef") == TAG_CHARS) {
		(void)snprintf(path, sizeof(path), "/images/%s", tag);
		(void)engine_ask(&g->engine, &q, &a, &ignored);
	}
}

/* Those of other versions, unless a container uses one: the engine refuses that. Their brig makes
 * it again. */
static void helper_sweep(struct guard *g, const struct helper *h)
{
	CLEANUP(engine_answer) struct engine_answer a = { 0 };
	CLEANUP(buf) struct buf b = BUF_INIT(512);
	struct engine_call q = { .method = "GET" };
	struct err ignored;

	buf_puts(&b, "/images/json?filters=");
	engine_escape(&b, "{\"label\":[\"" LABEL "\"]}");
	q.path = buf_str(&b);
	if (engine_ask(&g->engine, &q, &a, &ignored) < 0 || a.status != 200)
		return;
	for (size_t i = 0; i < jread_count(a.json) && i < OLD_MAX; i++) {
		const struct jread *tags = jread_get(jread_at(a.json, i), "RepoTags");
		const char *tag = jread_text(jread_at(tags, 0));

		if (tag && !str_eq(tag, h->tag))
			remove_old(g, tag);
	}
}

int helper_image(struct guard *g, struct err *e)
{
	CLEANUP(helper) struct helper h = { 0 };
	int r;

	if (helper_read(&h, g->door.helper, e) < 0)
		return -e->code;
	r = helper_find(g, &h, e);
	if (r <= 0)
		return r;
	if (helper_load(g, &h, e) < 0)
		return -e->code;
	r = helper_find(g, &h, e);
	if (r > 0)
		return err_set(e, ERR_UNAVAILABLE, EIO,
			       "the engine took the image of the door's helper, and does not have "
			       "it");
	if (r == 0)
		helper_sweep(g, &h);
	return r;
}
