/* SPDX-License-Identifier: Apache-2.0 */
/* apps/bundle/pack.c - see pack.h.
 *
 *   role read -> files found -> each read once into the spool, and hashed -> manifest -> archive
 *
 * The manifest comes first and knows all digests; the spool is what keeps both the same when files
 * change meanwhile. */
#include "apps/bundle/pack.h"

#include <fcntl.h>
#include <fnmatch.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <zlib.h>

#include "apps/bundle/archive.h"
#include "apps/bundle/manifest.h"
#include "base/bytes/json.h"
#include "base/bytes/sha256.h"
#include "base/bytes/yaml.h"
#include "base/files/exposed.h"
#include "base/files/fd.h"
#include "base/files/folder.h"
#include "base/tar/tar.h"
#include "base/text/arena.h"
#include "base/text/str.h"
#include "model/files/config.h"

#define NAMES_MAX 65536 /* that are looked at below the folder */
#define PATTERNS_MAX 256
#define PIECE 65536
#define GZIP_WINDOW (15 + 16)

struct item {
	const char *from; /* below the folder */
	const char *path; /* in the archive */
	enum bundle_kind kind;
	uint64_t at, size; /* in the spool */
	mode_t mode;
	char sha256[SHA256_HEX];
};

struct packing {
	const struct pack_want *want;
	struct packed *ret;
	struct arena *arena;
	int folder, spool;
	const char *role; /* its file below the folder */
	const struct node *root;
	bool all; /* everything below the folder; else what the role names */
	const char *patterns[PATTERNS_MAX];
	bool met[PATTERNS_MAX];
	size_t pattern_count;
	struct item *items;
	size_t n;
	uint64_t bytes, names;
	/* writing */
	z_stream z;
	int out;
};

/* ---- what the role names ---- */

static int add_pattern(struct packing *p, const struct node *n, struct err *e)
{
	const char *text = n && n->kind == NODE_SCALAR ? n->text : NULL;

	if (!text || !*text)
		return 0;
	if (text[0] == '/' || text[0] == '~') {
		p->ret->elsewhere++;
		return 0;
	}
	while (str_starts(text, "./"))
		text += 2;
	if (p->pattern_count == PATTERNS_MAX)
		return err_set(e, ERR_CONFIG, E2BIG, "the role names more than %d files",
			       PATTERNS_MAX);
	p->patterns[p->pattern_count++] = text;
	return 0;
}

static int add_patterns(struct packing *p, const struct node *list, const char *key, struct err *e)
{
	for (const struct node *n = list && list->kind == NODE_LIST ? list->first : NULL; n;
	     n = n->next)
		if (add_pattern(p, key ? node_get(n, key) : n, e) < 0)
			return -e->code;
	return 0;
}

static int find_patterns(struct packing *p, struct err *e)
{
	const struct node *spec = node_get(p->root, "spec");
	const struct node *sandbox = node_get(node_get(spec, "security"), "sandbox");

	if (add_patterns(p, node_get(spec, "skills"), NULL, e) < 0 ||
	    add_pattern(p, node_get(node_get(spec, "output"), "schema_file"), e) < 0 ||
	    add_patterns(p, node_get(node_get(spec, "ingest"), "sources"), NULL, e) < 0 ||
	    add_patterns(p, node_get(sandbox, "bind_mounts"), "source", e) < 0)
		return -e->code;
	return add_patterns(
		p, node_get(node_get(node_get(p->root, "metadata"), "bundle"), "include"), NULL, e);
}

/* "**" is any number of folders, also none. */
static bool pack_fits(const char *pattern, const char *path)
{
	const char *stars = strstr(pattern, "**/");
	char without[BUNDLE_PATH_MAX + 1];

	if (!strstr(pattern, "**"))
		return fnmatch(pattern, path, FNM_PATHNAME | FNM_LEADING_DIR) == 0;
	if (fnmatch(pattern, path, 0) == 0)
		return true;
	if (!stars || strlen(pattern) >= sizeof(without))
		return false;
	(void)snprintf(without, sizeof(without), "%.*s%s", (int)(stars - pattern), pattern,
		       stars + 3);
	return fnmatch(without, path, FNM_PATHNAME) == 0;
}

/* A skill may be named without its folder and ending, as InitRunner finds it. */
static bool is_skill(const char *pattern, const char *path)
{
	char full[BUNDLE_PATH_MAX + 32];

	(void)snprintf(full, sizeof(full), "skills/%s/SKILL.md", pattern);
	if (str_eq(full, path))
		return true;
	(void)snprintf(full, sizeof(full), "skills/%s.md", pattern);
	return str_eq(full, path);
}

static bool pack_wanted(struct packing *p, const char *path)
{
	bool any = p->all;

	for (size_t i = 0; i < p->pattern_count; i++)
		if (pack_fits(p->patterns[i], path) || is_skill(p->patterns[i], path))
			any = p->met[i] = true;
	return any;
}

/* ---- files ---- */

static int spool_file(struct packing *p, int fd, struct item *it, struct err *e)
{
	unsigned char sum[SHA256_SIZE];
	char piece[PIECE];
	struct sha256 h;
	ssize_t n;

	sha256_init(&h);
	while ((n = read(fd, piece, sizeof(piece))) > 0 || (n < 0 && errno == EINTR)) {
		if (n < 0)
			continue;
		it->size += (uint64_t)n;
		if (it->size > BUNDLE_FILE_MAX || p->bytes + it->size > BUNDLE_BYTES_MAX)
			return err_set(e, ERR_USAGE, EFBIG,
				       "'%.150s' is larger than %d MiB, or all files are larger "
				       "than %d MiB",
				       it->from, (int)(BUNDLE_FILE_MAX >> 20),
				       (int)(BUNDLE_BYTES_MAX >> 20));
		sha256_add(&h, piece, (size_t)n);
		if (fd_write_all(p->spool, piece, (size_t)n) < 0)
			return err_set(e, ERR_INTERNAL, ENOSPC, "no memory for the files");
	}
	if (n < 0)
		return err_sys(e, "cannot read '%.150s'", it->from);
	sha256_end(&h, sum);
	sha256_hex(sum, it->sha256);
	p->bytes += it->size;
	return 0;
}

static int add_item(struct packing *p, int fd, mode_t mode, const char *from, enum bundle_kind kind,
		    struct err *e)
{
	struct item *it = &p->items[p->n];

	if (p->n == BUNDLE_FILES_MAX)
		return err_set(e, ERR_USAGE, E2BIG, "more than %d files", BUNDLE_FILES_MAX);
	*it = (struct item){ .at = p->bytes, .kind = kind, .mode = mode & 0100 ? 0755 : 0644 };
	it->from = arena_strdup(p->arena, from);
	it->path = kind == BUNDLE_ROLE   ? MANIFEST_ROLE
		   : kind == BUNDLE_DATA ? arena_printf(p->arena, "data/%s", from)
					 : it->from;
	if (!it->from || !it->path)
		return err_nomem(e);
	if (!bundle_path_ok(it->path))
		return err_refuse(e, ERR_USAGE, EINVAL,
				  "rename it, or name the role's file instead of the folder",
				  "'%.150s' cannot be installed everywhere by that name", from);
	if (spool_file(p, fd, it, e) < 0)
		return -e->code;
	p->n++;
	return 0;
}

static enum bundle_kind kind_of(const char *path)
{
	return str_starts(path, "skills/") || str_ends_nocase(path, "/SKILL.md") ? BUNDLE_SKILL
										 : BUNDLE_DATA;
}

static int pack_walk(struct packing *p, int folder, char *path, unsigned depth, struct err *e);

static int pack_look_at(struct packing *p, int folder, const char *name, char *path, unsigned depth,
			struct err *e)
{
	CLEANUP(fd)
	int fd = openat(folder, name, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_NOFOLLOW | O_CLOEXEC);
	struct stat st;

	if (++p->names > NAMES_MAX)
		return err_refuse(e, ERR_USAGE, E2BIG, "put the role into a folder of its own",
				  "more than %d names are below the role's folder", NAMES_MAX);
	if (fd < 0 || fstat(fd, &st) < 0 || name[0] == '.' ||
	    !(S_ISREG(st.st_mode) || S_ISDIR(st.st_mode))) {
		p->ret->left_out += p->all;
		return 0;
	}
	if (S_ISDIR(st.st_mode))
		return depth == BUNDLE_DEPTH_MAX ? 0 : pack_walk(p, fd, path, depth + 1, e);
	if (str_eq(path, p->role) || !pack_wanted(p, path))
		return 0;
	return add_item(p, fd, st.st_mode, path, kind_of(path), e);
}

static int pack_walk(struct packing *p, int folder, char *path, unsigned depth, struct err *e)
{
	size_t n = strlen(path);
	const struct fd_entry *d;
	struct folder f;

	folder_begin(&f, folder);
	while ((d = folder_next(&f))) {
		int len = snprintf(path + n, PATH_MAX - n, "%s%s", n ? "/" : "", d->name);

		if (len < 0 || (size_t)len >= PATH_MAX - n)
			return err_set(e, ERR_USAGE, ENAMETOOLONG, "a path is too long");
		if (pack_look_at(p, folder, d->name, path, depth, e) < 0)
			return -e->code;
		path[n] = '\0';
	}
	path[n] = '\0';
	return f.error ? err_errno(e, f.error, "cannot read '%.150s'", n ? path : ".") : 0;
}

static int pack_by_path(const void *a, const void *b)
{
	return strcmp(((const struct item *)a)->path, ((const struct item *)b)->path);
}

static int find_files(struct packing *p, struct err *e)
{
	char path[PATH_MAX] = "";

	if (!p->all && find_patterns(p, e) < 0)
		return -e->code;
	if (!p->all && !p->pattern_count)
		return 0;
	if (pack_walk(p, p->folder, path, 0, e) < 0)
		return -e->code;
	/* The same files make the same archive, wherever they are read. */
	qsort(p->items, p->n, sizeof(*p->items), pack_by_path);
	for (size_t i = 0; i < p->pattern_count; i++)
		if (!p->met[i])
			return err_refuse(e, ERR_CONFIG, ENOENT,
					  "put it beside the role, or take it out of the role",
					  "the role names '%.150s', which is not there",
					  p->patterns[i]);
	return 0;
}

/* ---- the role ---- */

static int open_place(struct packing *p, struct err *e)
{
	const char *slash = strrchr(p->want->path, '/');
	struct stat st;

	if (stat(p->want->path, &st) < 0)
		return err_sys(e, "cannot open '%.200s'", p->want->path);
	p->all = S_ISDIR(st.st_mode);
	if (p->all) {
		p->role = MANIFEST_ROLE;
		p->folder = exposed_open(p->want->path, O_RDONLY | O_DIRECTORY, e);
	} else {
		const char *above = !slash ? "."
				    : slash == p->want->path
					    ? "/"
					    : arena_strndup(p->arena, p->want->path,
							    (size_t)(slash - p->want->path));

		p->role = slash ? slash + 1 : p->want->path;
		p->folder = above ? exposed_open(above, O_RDONLY | O_DIRECTORY, e) : err_nomem(e);
	}
	return p->folder < 0 ? p->folder : 0;
}

static int read_role(struct packing *p, struct err *e)
{
	CLEANUP(buf) struct buf data = BUF_INIT(CONFIG_FILE_MAX);
	CLEANUP(fd)
	int fd = openat(p->folder, p->role,
			O_RDONLY | O_NOCTTY | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC);
	const struct node *version;
	struct node *root;
	struct stat st;

	if (fd < 0 && errno == ELOOP) /* as of all other files, which are left out */
		return err_refuse(e, ERR_POLICY, ELOOP, "name the file that it leads to",
				  "the role '%.150s' is a symbolic link", p->role);
	if (fd < 0 && p->all)
		return err_refuse(e, ERR_USAGE, ENOENT, "name the file of the role instead",
				  "there is no " MANIFEST_ROLE " in '%.200s'", p->want->path);
	if (fd < 0 || config_slurp_fd(fd, p->role, &data, &st, e) < 0)
		return e->code ? -e->code : err_sys(e, "cannot open '%.200s'", p->want->path);
	if (yaml_parse(p->arena, p->role, buf_str(&data), data.len, &root, e) < 0)
		return -e->code;
	version = node_get(root, "apiVersion");
	if (!version || version->kind != NODE_SCALAR || !str_starts(version->text, "initrunner/"))
		return err_refuse(e, ERR_CONFIG, EINVAL,
				  "it begins with 'apiVersion: initrunner/v1'",
				  "'%.150s' is not a role", p->role);
	p->root = root;
	if (lseek(fd, 0, SEEK_SET) < 0)
		return err_sys(e, "cannot read '%.200s'", p->want->path);
	return add_item(p, fd, 0644, p->role, BUNDLE_ROLE, e);
}

/* ---- the manifest ---- */

static const char *said(const struct node *map, const char *key, const char *otherwise)
{
	const struct node *n = node_get(map, key);

	return n && n->kind == NODE_SCALAR && n->text ? n->text : otherwise;
}

static void put_texts(struct json *j, const char *key, const struct node *list)
{
	json_karray(j, key);
	for (const struct node *n = list && list->kind == NODE_LIST ? list->first : NULL; n;
	     n = n->next)
		if (n->kind == NODE_SCALAR)
			json_str(j, n->text);
	json_array_end(j);
}

static void put_backends(struct json *j, const struct node *root)
{
	static const char *const any[] = { "bwrap", "docker", NULL }, *const no[] = { NULL };
	const struct node *sandbox =
		node_get(node_get(node_get(root, "spec"), "security"), "sandbox");
	const char *backend = said(sandbox, "backend", "none");
	const char *const one[] = { backend, NULL };

	json_kstrs(j, "supported_sandbox_backends",
		   str_eq(backend, "auto")   ? any
		   : str_eq(backend, "none") ? no
					     : one);
}

static void put_files(const struct packing *p, struct json *j)
{
	json_karray(j, "files");
	for (size_t i = 0; i < p->n; i++) {
		json_object(j);
		json_kstr(j, "path", p->items[i].path);
		json_kstr(j, "sha256", p->items[i].sha256);
		json_ku64(j, "size", p->items[i].size);
		json_kstr(j, "kind", bundle_kinds[p->items[i].kind]);
		json_object_end(j);
	}
	json_array_end(j);
}

static int write_manifest(const struct packing *p, struct buf *out, struct err *e)
{
	const struct node *meta = node_get(p->root, "metadata");
	time_t created = (time_t)p->want->created;
	char when[32] = "";
	struct tm tm;
	struct json j;

	if (gmtime_r(&created, &tm))
		(void)strftime(when, sizeof(when), "%Y-%m-%dT%H:%M:%SZ", &tm);
	json_init(&j, out, true);
	json_object(&j);
	json_kstr(&j, "format_version", "1");
	json_kstr(&j, "name", p->want->name ? p->want->name : said(meta, "name", ""));
	json_kstr(&j, "version",
		  p->want->version ? p->want->version : said(meta, "version", "0.0.0"));
	json_kstr(&j, "description", said(meta, "description", ""));
	json_kstr(&j, "author", said(meta, "author", ""));
	put_texts(&j, "tags", node_get(meta, "tags"));
	json_kstr(&j, "created_at", when);
	json_kstr(&j, "initrunner_version", "brig " BRIG_VERSION);
	put_files(p, &j);
	put_texts(&j, "dependencies", node_get(meta, "dependencies"));
	put_backends(&j, p->root);
	json_object_end(&j);
	buf_putc(out, '\n');
	return out->failed ? err_nomem(e) : 0;
}

/* ---- the archive ---- */

static int deflate_all(struct packing *p, int flush)
{
	unsigned char piece[PIECE];
	int code;

	do {
		p->z.next_out = piece;
		p->z.avail_out = sizeof(piece);
		code = deflate(&p->z, flush);
		if (code == Z_STREAM_ERROR)
			return -EIO;
		if (fd_write_all(p->out, piece, sizeof(piece) - p->z.avail_out) < 0)
			return -EIO;
	} while (p->z.avail_in || !p->z.avail_out);
	return 0;
}

static int pack_put(void *arg, const void *data, size_t n)
{
	struct packing *p = arg;

	p->z.next_in = (unsigned char *)(uintptr_t)data;
	p->z.avail_in = (unsigned)n;
	return deflate_all(p, Z_NO_FLUSH);
}

static int put_padding(struct packing *p, uint64_t size)
{
	static const char zeros[TAR_BLOCK];

	return pack_put(p, zeros, (TAR_BLOCK - size % TAR_BLOCK) % TAR_BLOCK);
}

static int pack_put_head(struct packing *p, const char *path, mode_t mode, uint64_t size)
{
	struct tar_entry *t = calloc(1, sizeof(*t));
	int r = -ENOMEM;

	if (t) {
		t->mode = mode;
		t->size = size;
		(void)snprintf(t->name, sizeof(t->name), "%s", path);
		r = tar_put_entry(pack_put, p, t);
	}
	free(t);
	return r;
}

static int put_item(struct packing *p, const struct item *it)
{
	char piece[PIECE];
	int r = pack_put_head(p, it->path, it->mode, it->size);

	for (uint64_t left = it->size; r == 0 && left;) {
		size_t some = left < sizeof(piece) ? (size_t)left : sizeof(piece);
		ssize_t n = pread(p->spool, piece, some, (off_t)(it->at + it->size - left));

		r = n <= 0 ? -EIO : pack_put(p, piece, (size_t)n);
		left -= n > 0 ? (size_t)n : 0;
	}
	return r < 0 ? r : put_padding(p, it->size);
}

static int write_archive(struct packing *p, const struct buf *manifest, struct err *e)
{
	int r;

	if (deflateInit2(&p->z, Z_BEST_COMPRESSION, Z_DEFLATED, GZIP_WINDOW, 9,
			 Z_DEFAULT_STRATEGY) != Z_OK)
		return err_nomem(e);
	r = pack_put_head(p, MANIFEST_NAME, 0644, manifest->len);
	if (r == 0)
		r = pack_put(p, buf_str(manifest), manifest->len);
	if (r == 0)
		r = put_padding(p, manifest->len);
	for (size_t i = 0; r == 0 && i < p->n; i++)
		r = put_item(p, &p->items[i]);
	if (r == 0)
		r = tar_pack_end(pack_put, p);
	if (r == 0)
		r = deflate_all(p, Z_FINISH);
	(void)deflateEnd(&p->z);
	return r < 0 ? err_errno(e, r, "cannot write the bundle") : 0;
}

static int pack(struct packing *p, struct err *e)
{
	CLEANUP(buf) struct buf text = BUF_INIT(MANIFEST_MAX), again = BUF_INIT(MANIFEST_MAX + 1);

	if (open_place(p, e) < 0 || read_role(p, e) < 0 || find_files(p, e) < 0 ||
	    write_manifest(p, &text, e) < 0 || write_archive(p, &text, e) < 0)
		return -e->code;
	return archive_unpack(p->out, -1, &again, e);
}

int bundle_pack(const struct pack_want *w, int fd, struct packed *ret, struct err *e)
{
	CLEANUP(fd) int spool = memfd_create("brig-bundle", MFD_CLOEXEC);
	CLEANUP(mem) struct packing *p = calloc(1, sizeof(*p));
	int r;

	if (spool < 0 || !p)
		return err_nomem(e);
	*ret = (struct packed){ 0 };
	*p = (struct packing){ .want = w, .ret = ret, .folder = -1, .spool = spool, .out = fd };
	p->arena = arena_new((size_t)64 << 20);
	p->items = calloc(BUNDLE_FILES_MAX, sizeof(*p->items));
	r = p->arena && p->items ? pack(p, e) : err_nomem(e);
	(void)fd_close(p->folder);
	(void)arena_free(p->arena);
	free(p->items);
	return r;
}
