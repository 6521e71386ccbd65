/* SPDX-License-Identifier: Apache-2.0 */
#include "apps/bundle/manifest.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/text/str.h"

#define LOWER "abcdefghijklmnopqrstuvwxyz"
#define UPPER "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
#define DIGITS "0123456789"
#define TEXT_MAX 4096 /* of what is only shown */

const char *const bundle_kinds[BUNDLE_KINDS] = { "role", "skill", "data" };

/* ---- words ---- */

static bool manifest_is_word(const char *s, const char *first, const char *rest)
{
	size_t n = strlen(s);

	return n && n <= BUNDLE_WORD_MAX && strchr(first, s[0]) && strspn(s, rest) == n;
}

bool bundle_name_ok(const char *name)
{
	return manifest_is_word(name, LOWER DIGITS, LOWER DIGITS "._-");
}

bool bundle_version_ok(const char *version)
{
	return manifest_is_word(version, LOWER UPPER DIGITS, LOWER UPPER DIGITS ".+_-");
}

bool bundle_path_ok(const char *path)
{
	unsigned depth = 0;

	if (strlen(path) > BUNDLE_PATH_MAX)
		return false;
	for (const char *c = path; *c; c++)
		if (*c < ' ' || *c >= 0x7f || strchr("\\:*?\"<>|", *c))
			return false;
	for (const char *at = path;;) {
		size_t n = strcspn(at, "/");

		if (!n || at[0] == '.' || at[0] == ' ' || at[n - 1] == ' ' || at[n - 1] == '.' ||
		    ++depth > BUNDLE_DEPTH_MAX)
			return false;
		if (!at[n])
			return true;
		at += n + 1;
	}
}

const char *bundle_file_place(const struct bundle_file *f)
{
	return f->kind == BUNDLE_DATA && str_starts(f->path, "data/") ? f->path + 5 : f->path;
}

/* ---- reading ---- */

static int bad(struct err *e, const char *what, const char *which)
{
	return err_set(e, ERR_POLICY, EBADMSG, "the bundle's manifest: %s '%.150s'", what, which);
}

static const char *manifest_text_of(const struct jread *v, const char *key)
{
	const char *s = jread_str(v, key);

	return s && strlen(s) <= TEXT_MAX ? s : "";
}

static bool is_sha256(const char *s)
{
	return s && strlen(s) == 64 && strspn(s, DIGITS "abcdef") == 64;
}

static int manifest_read_file(const struct jread *v, struct bundle_file *f, struct err *e)
{
	const char *kind = jread_str(v, "kind");
	int64_t size = jread_int(v, "size", -1);

	f->path = jread_str(v, "path");
	f->sha256 = jread_str(v, "sha256");
	f->kind = BUNDLE_KINDS;
	for (int i = 0; kind && i < BUNDLE_KINDS; i++)
		if (str_eq(kind, bundle_kinds[i]))
			f->kind = (enum bundle_kind)i;
	if (!f->path || !bundle_path_ok(f->path) || !bundle_path_ok(bundle_file_place(f)))
		return bad(e,
			   "a path that cannot be installed everywhere:", f->path ? f->path : "");
	if (f->kind == BUNDLE_KINDS || !is_sha256(f->sha256))
		return bad(e, "no kind or no SHA-256 of", f->path);
	if (size < 0 || (uint64_t)size > BUNDLE_FILE_MAX)
		return bad(e, "no size, or too large:", f->path);
	if ((f->kind == BUNDLE_ROLE) != str_eq(f->path, MANIFEST_ROLE))
		return bad(e, "the role is " MANIFEST_ROLE " and nothing else is:", f->path);
	if (strcasecmp(bundle_file_place(f), MANIFEST_NAME) == 0)
		return bad(e, "a file in its own place:", f->path);
	f->size = (uint64_t)size;
	return 0;
}

static int manifest_by_path(const void *a, const void *b)
{
	return strcmp(((const struct bundle_file *)a)->path, ((const struct bundle_file *)b)->path);
}

static int by_place(const void *a, const void *b)
{
	const struct bundle_file *const *x = a, *const *y = b;

	return strcasecmp(bundle_file_place(*x), bundle_file_place(*y));
}

/* Sorted without regard to case; a slash sorts as it is, so what is below a name need not stand
 * right behind it: every folder of a path is looked for. */
static bool is_place(const struct bundle_file *const *v, size_t n, const char *place, size_t len)
{
	size_t from = 0, to = n;

	while (from < to) {
		size_t at = (from + to) / 2;
		const char *p = bundle_file_place(v[at]);
		int c = strncasecmp(place, p, len);

		if (c == 0 && !p[len])
			return true;
		if (c > 0)
			from = at + 1;
		else
			to = at;
	}
	return false;
}

static int check_places(const struct bundle_manifest *m, struct err *e)
{
	CLEANUP(mem) const struct bundle_file **v = calloc(m->n, sizeof(struct bundle_file *));

	if (!v)
		return err_nomem(e);
	for (size_t i = 0; i < m->n; i++)
		v[i] = &m->files[i];
	qsort(v, m->n, sizeof(struct bundle_file *), by_place);
	for (size_t i = 1; i < m->n; i++)
		if (by_place(&v[i - 1], &v[i]) == 0)
			return bad(e, "two files in one place:", v[i]->path);
	for (size_t i = 0; i < m->n; i++) {
		const char *place = bundle_file_place(v[i]);

		for (const char *s = strchr(place, '/'); s; s = strchr(s + 1, '/'))
			if (is_place(v, m->n, place, (size_t)(s - place)))
				return bad(e, "a file where a folder has to be, above", v[i]->path);
	}
	return 0;
}

static int read_files(struct bundle_manifest *m, struct err *e)
{
	const struct jread *list = jread_get(m->root, "files");
	size_t n = jread_count(list);

	if (jread_kind(list) != JREAD_ARRAY || !n || n > BUNDLE_FILES_MAX)
		return err_set(e, ERR_POLICY, EFBIG,
			       "the bundle's manifest: no files, or more than %d",
			       BUNDLE_FILES_MAX);
	m->files = calloc(n, sizeof(*m->files));
	if (!m->files)
		return err_nomem(e);
	for (; m->n < n; m->n++) {
		if (manifest_read_file(jread_at(list, m->n), &m->files[m->n], e) < 0)
			return -e->code;
		m->bytes += m->files[m->n].size;
	}
	if (m->bytes > BUNDLE_BYTES_MAX)
		return err_set(e, ERR_POLICY, EFBIG, "the bundle's files are larger than %d MiB",
			       (int)(BUNDLE_BYTES_MAX >> 20));
	qsort(m->files, m->n, sizeof(*m->files), manifest_by_path);
	if (!bundle_manifest_find(m, MANIFEST_ROLE))
		return bad(e, "there is no", MANIFEST_ROLE);
	return check_places(m, e);
}

static int read_backends(struct bundle_manifest *m, struct err *e)
{
	const struct jread *list = jread_get(m->root, "supported_sandbox_backends");
	size_t n = jread_count(list);

	if (jread_kind(list) != JREAD_NONE &&
	    (jread_kind(list) != JREAD_ARRAY || n > BUNDLE_BACKENDS_MAX))
		return bad(e, "no list in", "supported_sandbox_backends");
	for (size_t i = 0; i < n; i++) {
		const char *s = jread_text(jread_at(list, i));

		if (!s || !manifest_is_word(s, LOWER, LOWER DIGITS "-"))
			return bad(e, "no backend in", "supported_sandbox_backends");
		m->backends[m->backend_count++] = s;
	}
	return 0;
}

static int manifest_read_all(struct bundle_manifest *m, struct err *e)
{
	const char *format = jread_str(m->root, "format_version");

	if (!format || !str_eq(format, "1"))
		return err_refuse(e, ERR_POLICY, ENOTSUP, "a newer brig may know it",
				  "the bundle's manifest has another format_version than \"1\"");
	m->name = jread_str(m->root, "name");
	m->version = jread_str(m->root, "version");
	if (!m->name || !bundle_name_ok(m->name))
		return bad(e,
			   "no name of small letters, digits and . _ - :", m->name ? m->name : "");
	if (!m->version || !bundle_version_ok(m->version))
		return bad(e, "no version of letters, digits and . + _ - :",
			   m->version ? m->version : "");
	m->description = manifest_text_of(m->root, "description");
	m->author = manifest_text_of(m->root, "author");
	m->created_at = manifest_text_of(m->root, "created_at");
	m->packed_by = manifest_text_of(m->root, "initrunner_version");
	return read_files(m, e) < 0 ? -e->code : read_backends(m, e);
}

int bundle_manifest_read(const char *text, size_t n, struct bundle_manifest *ret, struct err *e)
{
	struct bundle_manifest m = { 0 };

	if (n > MANIFEST_MAX)
		return err_set(e, ERR_POLICY, EFBIG, "the bundle's manifest is too long");
	if (jread_parse(text, n, &m.root, e) < 0)
		return err_set(e, ERR_POLICY, EBADMSG, "the bundle's manifest is no JSON");
	if (jread_kind(m.root) != JREAD_OBJECT)
		(void)err_set(e, ERR_POLICY, EBADMSG, "the bundle's manifest is no object");
	else if (manifest_read_all(&m, e) == 0) {
		*ret = m;
		return 0;
	}
	bundle_manifest_done(&m);
	return -e->code;
}

void bundle_manifest_done(struct bundle_manifest *m)
{
	free(m->files);
	(void)jread_free(m->root);
	*m = (struct bundle_manifest){ 0 };
}

struct bundle_file *bundle_manifest_find(const struct bundle_manifest *m, const char *path)
{
	const struct bundle_file key = { .path = path };

	return m->n ? bsearch(&key, m->files, m->n, sizeof(*m->files), manifest_by_path) : NULL;
}

void bundle_manifest_schema(struct buf *out)
{
	buf_puts(out,
		 "{\n  \"$schema\": \"https://json-schema.org/draft/2020-12/schema\",\n"
		 "  \"title\": \"manifest.json of a bundle\",\n  \"type\": \"object\",\n"
		 "  \"required\": [\"format_version\", \"name\", \"version\", \"files\"],\n"
		 "  \"properties\": {\n"
		 "    \"format_version\": {\"const\": \"1\"},\n"
		 "    \"name\": {\"type\": \"string\", \"pattern\": "
		 "\"^[a-z0-9][a-z0-9._-]{0,63}$\"},\n"
		 "    \"version\": {\"type\": \"string\", \"pattern\": "
		 "\"^[A-Za-z0-9][A-Za-z0-9.+_-]{0,63}$\"},\n"
		 "    \"description\": {\"type\": \"string\"},\n"
		 "    \"author\": {\"type\": \"string\"},\n"
		 "    \"tags\": {\"type\": \"array\", \"items\": {\"type\": \"string\"}},\n"
		 "    \"created_at\": {\"type\": \"string\"},\n"
		 "    \"initrunner_version\": {\"type\": \"string\"},\n"
		 "    \"files\": {\"type\": \"array\", \"minItems\": 1, \"maxItems\": 4096, "
		 "\"items\": {\n"
		 "      \"type\": \"object\", \"required\": [\"path\", \"sha256\", \"size\", "
		 "\"kind\"],\n      \"properties\": {\n"
		 "        \"path\": {\"type\": \"string\", \"maxLength\": 240},\n"
		 "        \"sha256\": {\"type\": \"string\", \"pattern\": \"^[0-9a-f]{64}$\"},\n"
		 "        \"size\": {\"type\": \"integer\", \"minimum\": 0, \"maximum\": "
		 "67108864},\n"
		 "        \"kind\": {\"enum\": [\"role\", \"skill\", \"data\"]}}}},\n"
		 "    \"dependencies\": {\"type\": \"array\", \"items\": {\"type\": "
		 "\"string\"}},\n"
		 "    \"supported_sandbox_backends\": {\"type\": \"array\", \"maxItems\": 16,\n"
		 "      \"items\": {\"type\": \"string\", \"pattern\": \"^[a-z][a-z0-9-]*$\"}}\n"
		 "  }\n}\n");
}
