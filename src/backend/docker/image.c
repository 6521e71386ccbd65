/* SPDX-License-Identifier: Apache-2.0 */
/* backend/docker/image.c - is the image there, what is it exactly, and if not, can it be fetched?
 */
#include <stdio.h>
#include <string.h>

#include "backend/docker/docker.h"
#include "image/login.h"
#include "base/sys/clock.h"
#include "base/text/str.h"
#include "model/known/image_name.h"
#include "model/settings/paths.h"
#include "model/settings/spec_lists.h"

#define FIELD_MAX ((size_t)7 << 10)
#define IMAGE_MAX ((size_t)1 << 20)
#define LAYERS_MAX 128
#define PROGRESS_US 1000000

/* A name in a path: everything but what its own grammar knows is escaped. */
static void put_ref(struct buf *b, const char *ref)
{
	for (; *ref; ref++) {
		const char one[2] = { *ref, '\0' };

		if (strchr("/:@", *ref))
			buf_putc(b, *ref);
		else
			engine_escape(b, one);
	}
}

/* ---- what it is ---- */

/* Below these is the kernel, and the root is the root; the words go to the terminal. */
static bool volume_fits(const char *path)
{
	static const char *const never[] = { "/proc", "/sys", "/dev" };

	for (const char *c = path; *c; c++)
		if ((unsigned char)*c < 0x20 || *c == 0x7f)
			return false;
	for (size_t i = 0; i < ARRAY_LEN(never); i++)
		if (path_under(path, never[i]))
			return false;
	return path[1];
}

/* As the engine reads them, which takes dots away: one that is missed would be a folder on the
 * host's disk without a limit. */
static int take_volumes(const struct jread *config, const char *ref, struct image *ret,
			struct err *e)
{
	const struct jread *v = jread_get(config, "Volumes");
	const struct place top = { .cwd = "/" };

	for (void *it = jread_first(v); it; it = jread_next(v, it)) {
		const char **slot = ARENA_PUSH(ret->arena, ret->volumes, ret->volume_count);

		if (!slot)
			return err_nomem(e);
		if (jread_key(it)[0] != '/' ||
		    path_resolve(ret->arena, &top, jread_key(it), slot, e) < 0 ||
		    !volume_fits(*slot))
			return err_refuse(e, ERR_POLICY, EINVAL, "choose another image",
					  "image '%.100s' has a volume whose path makes no sense",
					  ref);
	}
	return 0;
}

/* Its entry point, and what is given to that. Neither is more than words, which are run as the user
 * inside if somebody asks for it. */
static int take_command(const struct jread *config, struct image *ret, struct err *e)
{
	static const char *const parts[] = { "Entrypoint", "Cmd" };
	const char *folder = jread_str(config, "WorkingDir");

	for (size_t i = 0; i < ARRAY_LEN(parts); i++) {
		const struct jread *words = jread_get(config, parts[i]);

		for (size_t k = 0; k < jread_count(words); k++) {
			const char *word = jread_text(jread_at(words, k));

			if (!word || list_add_string(ret->arena, &ret->command, word, e) < 0)
				return word ? -e->code
					    : err_set(e, ERR_INTERNAL, EBADMSG,
						      "the engine does not say what the image "
						      "runs");
		}
	}
	if (folder && folder[0] == '/' && !(ret->folder = arena_strdup(ret->arena, folder)))
		return err_nomem(e);
	return 0;
}

/* A container has its image's labels, too: whose it is must not be the image's to say. */
static int take_labels(const struct jread *config, struct image *ret, struct err *e)
{
	const struct jread *v = jread_get(config, "Labels");

	for (void *it = jread_first(v); it; it = jread_next(v, it))
		if (str_starts(jread_key(it), "brig.") &&
		    list_add_string(ret->arena, &ret->labels, jread_key(it), e) < 0)
			return -e->code;
	return 0;
}

static int image_take(const struct jread *json, const char *ref, struct image *ret, struct err *e)
{
	const char *id = jread_str(json, "Id");
	const char *digest = jread_text(jread_at(jread_get(json, "RepoDigests"), 0));

	if (!id || strlen(id) + 8 > sizeof(ret->id))
		return err_set(e, ERR_INTERNAL, EBADMSG,
			       "the engine does not say what image '%s' is", ref);
	ret->arena = arena_new(IMAGE_MAX);
	if (!ret->arena)
		return err_nomem(e);
	/* Podman leaves the kind of hash out. */
	(void)snprintf(ret->id, sizeof(ret->id), "%s%s", strchr(id, ':') ? "" : "sha256:", id);
	(void)snprintf(ret->digest, sizeof(ret->digest), "%s", digest ? digest : ret->id);
	if (take_command(jread_get(json, "Config"), ret, e) < 0 ||
	    take_labels(jread_get(json, "Config"), ret, e) < 0)
		return -e->code;
	return take_volumes(jread_get(json, "Config"), ref, ret, e);
}

/* 0, 1 when the engine has no such image, or an error. */
static int inspect(struct engine *g, const char *ref, struct image *ret, struct err *e)
{
	CLEANUP(buf) struct buf path = BUF_INIT(2048);
	CLEANUP(engine_answer) struct engine_answer a = { 0 };
	struct engine_call q = { .method = "GET" };

	buf_puts(&path, "/images/");
	put_ref(&path, ref);
	buf_puts(&path, "/json");
	q.path = buf_str(&path);
	if (engine_ask(g, &q, &a, e) < 0)
		return -e->code;
	if (a.status == 404)
		return 1;
	if (a.status != 200)
		return err_refuse(e, ERR_UNAVAILABLE, EIO,
				  "a name is in lower case, such as python:3.12-slim or "
				  "registry.example/team/tool@sha256:...",
				  "image '%s': %s", ref, a.message);
	return image_take(a.json, ref, ret, e);
}

/* ---- fetching it ---- */

static bool says(const char *text, const char *const *words)
{
	for (; *words; words++)
		if (strcasestr(text, *words))
			return true;
	return false;
}

static int not_found(const char *ref, struct err *e)
{
	(void)err_set(e, ERR_UNAVAILABLE, ENOENT, "Image '%s' not found", ref);
	return err_hint(e, "is the name right? Or build it: docker build -t %.100s FOLDER", ref);
}

/* The registry's own words, sorted by what the user can do about them. */
static int pull_failed(const char *ref, const char *text, bool known, struct err *e)
{
	static const char *const locked[] = { "unauthorized",
					      "authentication required",
					      "no basic auth",
					      "access denied",
					      "access to the resource is denied",
					      "status: 403",
					      NULL };
	static const char *const missing[] = {
		"manifest unknown",          "not found", "name unknown", "does not exist",
		"repository name not known", NULL
	};
	static const char *const away[] = {
		"connection refused", "no such host", "timeout", "network is unreachable",
		"server misbehaving", "EOF",          NULL
	};
	char registry[256];

	(void)login_registry(ref, registry, sizeof(registry));
	if (known && says(text, locked)) {
		(void)err_set(e, ERR_UNAVAILABLE, EACCES,
			      "image '%s': registry '%s' does not take the credentials kept for it",
			      ref, registry);
		return err_hint(e, "docker login %s, then again; or the image does not exist",
				registry);
	}
	if (says(text, locked)) {
		(void)err_set(e, ERR_UNAVAILABLE, EACCES,
			      "image '%s' is private or does not exist: registry '%s' wants "
			      "credentials",
			      ref, registry);
		return err_hint(e, "docker login %s, then again", registry);
	}
	if (says(text, missing))
		return not_found(ref, e);
	if (says(text, away)) {
		(void)err_set(
			e, ERR_UNAVAILABLE, EHOSTUNREACH,
			"Image '%s' not found, and it cannot be pulled: registry '%s' cannot be "
			"reached: %.120s",
			ref, registry, text);
		return err_hint(e,
				"build it: docker build -t %.80s FOLDER; load it: docker load; or "
				"check the network and the engine's proxy settings",
				ref);
	}
	(void)err_set(e, ERR_UNAVAILABLE, EIO,
		      "Image '%s' not found, and it cannot be pulled: %.200s", ref, text);
	return err_hint(e,
			"build it: docker build -t %.80s FOLDER; load it: docker load; or try: "
			"docker pull %.80s",
			ref, ref);
}

struct image_layer {
	char id[32];
	uint64_t now, all;
};

struct pull {
	const char *ref;
	pull_fn *on_progress;
	void *arg;
	struct image_layer layers[LAYERS_MAX];
	size_t layer_count;
	uint64_t told; /* when */
	bool known;    /* credentials went along */
	char failed[256];
};

static void count_layer(struct pull *p, const char *id, uint64_t now, uint64_t all)
{
	size_t i = 0;

	while (i < p->layer_count && !str_eq(p->layers[i].id, id))
		i++;
	if (i == LAYERS_MAX)
		return;
	if (i == p->layer_count) {
		p->layer_count++;
		(void)snprintf(p->layers[i].id, sizeof(p->layers[i].id), "%s", id);
	}
	p->layers[i].now = now;
	p->layers[i].all = all;
}

static bool image_tell(struct pull *p)
{
	uint64_t now = 0, all = 0;
	char line[256];

	if (!p->on_progress || clock_us() - p->told < PROGRESS_US)
		return false;
	p->told = clock_us();
	for (size_t i = 0; i < p->layer_count; i++) {
		now += p->layers[i].now;
		all += p->layers[i].all;
	}
	if (!all)
		return p->on_progress(p->arg, NULL);
	(void)snprintf(line, sizeof(line), "pulling image '%.100s': %llu of %llu MB", p->ref,
		       (unsigned long long)now >> 20, (unsigned long long)all >> 20);
	return p->on_progress(p->arg, line);
}

static void on_line(struct pull *p, const char *line, size_t n)
{
	CLEANUP(jread) struct jread *v = NULL;
	const struct jread *progress;
	const char *id, *failed;
	struct err e;

	if (jread_parse(line, n, &v, &e) < 0)
		return;
	failed = jread_str(v, "error");
	if (failed)
		(void)snprintf(p->failed, sizeof(p->failed), "%s", failed);
	id = jread_str(v, "id");
	progress = jread_get(v, "progressDetail");
	if (id && str_eq(jread_str(v, "status") ? jread_str(v, "status") : "", "Downloading"))
		count_layer(p, id, (uint64_t)jread_int(progress, "current", 0),
			    (uint64_t)jread_int(progress, "total", 0));
}

static void pull_line(void *arg, const char *line, size_t n)
{
	on_line(arg, line, n);
}

static bool pull_tick(void *arg)
{
	return image_tell(arg);
}

static int image_follow(struct pull *p, struct client *c, struct err *e)
{
	const struct engine_lines l = { .line = pull_line, .tick = pull_tick, .arg = p };
	int r = engine_follow(c, &l, e);

	if (r == -ETIMEDOUT) {
		(void)err_set(e, ERR_UNAVAILABLE, ETIMEDOUT,
			      "image '%s': the registry has gone silent", p->ref);
		return err_hint(e, "try again, or by hand: docker pull %.100s", p->ref);
	}
	return r == -ECANCELED ? err_set(e, ERR_INTERNAL, ECANCELED, "the pull was given up") : r;
}

static int image_refused(struct client *c, const struct pull *p, struct err *e)
{
	char text[256];

	engine_refusal(c, text, sizeof(text));
	return pull_failed(p->ref, text, p->known, e);
}

/* A name without tag or digest would fetch all of them. */
static void pull_target(struct buf *b, const char *ref)
{
	const char *slash = strrchr(ref, '/'), *name = slash ? slash + 1 : ref;

	buf_puts(b, "/images/create?fromImage=");
	engine_escape(b, ref);
	if (!strpbrk(name, ":@"))
		buf_puts(b, "&tag=latest");
}

/* Credentials that cannot be had are no reason not to try: most images are everybody's. */
static void add_login(const struct engine *g, struct pull *p, struct buf *header)
{
	char line[640];
	struct err e = { 0 };

	if (login_field(p->ref, g->podman, header, &e) < 0 && p->on_progress) {
		(void)snprintf(line, sizeof(line), "pulling without credentials: %s", e.what);
		(void)p->on_progress(p->arg, line);
	}
	p->known = header->len;
}

static int image_pull(struct engine *g, const char *ref, pull_fn *on_progress, void *arg,
		      struct err *e)
{
	CLEANUP(client) struct client *c = NULL;
	CLEANUP(buf) struct buf path = BUF_INIT(2048), header = BUF_INIT(FIELD_MAX);
	struct pull p = { .ref = ref, .on_progress = on_progress, .arg = arg };
	struct engine_call q = { .method = "POST" };
	uint64_t deadline = clock_us() + (uint64_t)ENGINE_QUIET_MS * 1000;
	const struct http1_answer *a;
	int r;

	pull_target(&path, ref);
	q.path = buf_str(&path);
	add_login(g, &p, &header);
	q.fields = buf_str(&header);
	r = engine_connect(g, ENGINE_CALL_MS, &c, e);
	if (r == 0)
		r = engine_send(g, c, &q, NULL, deadline, e);
	if (header.data)
		explicit_bzero(header.data, header.len);
	if (r < 0 || client_answer(c, deadline, &a, e) < 0)
		return err_wrap(e, "image '%s'", ref);
	if (a->status != 200)
		return image_refused(c, &p, e);
	if (image_follow(&p, c, e) < 0)
		return -e->code;
	return p.failed[0] ? pull_failed(ref, p.failed, p.known, e) : 0;
}

struct pull_listener {
	void (*note)(void *arg, const char *text);
	void *arg;
};

static bool image_pass_on(void *arg, const char *line)
{
	const struct pull_listener *l = arg;

	if (line && l->note)
		l->note(l->arg, line);
	return false;
}

int docker_pull(const char *ref, void (*note)(void *arg, const char *text), void *arg,
		struct err *e)
{
	CLEANUP(engine) struct engine g = { 0 };
	struct pull_listener l = { .note = note, .arg = arg };

	if (!image_valid(ref))
		return err_refuse(
			e, ERR_USAGE, EINVAL,
			"such as python:3.12-slim or registry.example/team/tool@sha256:...",
			"'%.100s' is not the name of an image", ref);
	if (engine_open(&g, e) < 0)
		return -e->code;
	return image_pull(&g, ref, image_pass_on, &l, e);
}

int image_get(struct engine *g, const char *ref, bool pull, pull_fn *on_progress, void *arg,
	      struct image *ret, struct err *e)
{
	char line[640];
	int r = inspect(g, ref, ret, e);

	if (r <= 0)
		return r;
	if (!pull) {
		(void)not_found(ref, e);
		return err_hint(e,
				"brig image pull %.80s --backend docker, or --auto-pull yes, or "
				"build it: docker build -t %.80s FOLDER",
				ref, ref);
	}
	(void)snprintf(line, sizeof(line), "image '%s' is not here yet: pulling it", ref);
	if (on_progress && on_progress(arg, line))
		return err_set(e, ERR_INTERNAL, ECANCELED, "the pull was given up");
	if (image_pull(g, ref, on_progress, arg, e) < 0)
		return -e->code;
	r = inspect(g, ref, ret, e);
	return r > 0 ? not_found(ref, e) : r;
}
