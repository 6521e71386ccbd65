/* SPDX-License-Identifier: Apache-2.0 */
#include "image/oci.h"

#include <stdio.h>
#include <string.h>

#include "base/bytes/jread.h"
#include "base/bytes/json.h"
#include "base/text/str.h"

static bool read_type(const char *text, char out[OCI_TYPE_MAX])
{
	if (!text || !*text || strlen(text) >= OCI_TYPE_MAX || str_has_control(text))
		return false;
	(void)snprintf(out, OCI_TYPE_MAX, "%s", text);
	return true;
}

static bool read_blob(const struct jread *v, struct oci_blob *ret)
{
	const char *digest = jread_str(v, "digest");
	int64_t size = jread_int(v, "size", -1);

	if (size < 0 || !digest || !ref_is_digest(digest) ||
	    !read_type(jread_str(v, "mediaType"), ret->type))
		return false;
	(void)snprintf(ret->digest, sizeof(ret->digest), "%s", digest);
	ret->size = (uint64_t)size;
	return true;
}

static int strange(struct err *e)
{
	return err_refuse(e, ERR_POLICY, EBADMSG, "is it a bundle, and not an image or an index?",
			  "the registry's manifest is none that brig reads");
}

static bool read_manifest(const struct jread *v, const char *also, struct oci_manifest *ret)
{
	const char *type = jread_str(v, "mediaType");
	const struct jread *layers = jread_get(v, "layers");

	if (jread_int(v, "schemaVersion", 0) != 2 ||
	    (type && !str_eq(type, OCI_MANIFEST_TYPE) && !(also && str_eq(type, also))) ||
	    !read_blob(jread_get(v, "config"), &ret->config) || jread_kind(layers) != JREAD_ARRAY ||
	    jread_count(layers) > OCI_LAYERS_MAX)
		return false;
	if (jread_str(v, "artifactType") && !read_type(jread_str(v, "artifactType"), ret->artifact))
		return false;
	for (; ret->n < jread_count(layers); ret->n++)
		if (!read_blob(jread_at(layers, ret->n), &ret->layers[ret->n]))
			return false;
	return true;
}

int oci_read(const char *text, size_t n, struct oci_manifest *ret, struct err *e)
{
	CLEANUP(jread) struct jread *v = NULL;

	*ret = (struct oci_manifest){ 0 };
	if (n > OCI_MANIFEST_MAX || jread_parse(text, n, &v, e) < 0 || !read_manifest(v, NULL, ret))
		return strange(e);
	return 0;
}

/* ---- images ---- */

static int no_image(struct err *e)
{
	return err_set(e, ERR_POLICY, EBADMSG,
		       "the image is refused: its manifest is none that brig reads");
}

int oci_read_image(const char *text, size_t n, struct oci_manifest *ret, struct err *e)
{
	CLEANUP(jread) struct jread *v = NULL;

	*ret = (struct oci_manifest){ 0 };
	if (n > OCI_MANIFEST_MAX || jread_parse(text, n, &v, e) < 0 ||
	    !read_manifest(v, DOCKER_MANIFEST_TYPE, ret) || ret->artifact[0] || !ret->n)
		return no_image(e);
	return 0;
}

/* "" where it is not said, or is none. */
static void read_word(const struct jread *v, const char *key, char *out, size_t room)
{
	const char *text = jread_str(v, key);

	(void)snprintf(out, room, "%s",
		       text && strlen(text) < room && !str_has_control(text) ? text : "");
}

/* Containerd's is the whole name, OCI's a tag, or a name. */
static void read_name(const struct jread *annotations, struct oci_entry *ret)
{
	read_word(annotations, "io.containerd.image.name", ret->name, sizeof(ret->name));
	if (!ret->name[0])
		read_word(annotations, "org.opencontainers.image.ref.name", ret->name,
			  sizeof(ret->name));
}

int oci_read_index(const char *text, size_t n, struct oci_index *ret, struct err *e)
{
	CLEANUP(jread) struct jread *v = NULL;
	const struct jread *all;
	const char *type;

	*ret = (struct oci_index){ 0 };
	if (n > OCI_MANIFEST_MAX || jread_parse(text, n, &v, e) < 0)
		return no_image(e);
	type = jread_str(v, "mediaType");
	all = jread_get(v, "manifests");
	if (jread_int(v, "schemaVersion", 0) != 2 || (type && !oci_is_index(type)) ||
	    jread_kind(all) != JREAD_ARRAY || jread_count(all) > OCI_INDEX_MAX)
		return no_image(e);
	for (; ret->n < jread_count(all); ret->n++) {
		const struct jread *one = jread_at(all, ret->n), *p = jread_get(one, "platform");
		struct oci_entry *to = &ret->v[ret->n];

		if (!read_blob(one, &to->blob))
			return no_image(e);
		read_word(p, "os", to->os, sizeof(to->os));
		read_word(p, "architecture", to->architecture, sizeof(to->architecture));
		read_word(p, "variant", to->variant, sizeof(to->variant));
		read_name(jread_get(one, "annotations"), to);
	}
	return 0;
}

bool oci_is_index(const char *type)
{
	return str_eq(type, OCI_INDEX_TYPE) || str_eq(type, DOCKER_INDEX_TYPE);
}

static bool ends(const char *text, size_t room)
{
	return memchr(text, '\0', room) && !str_has_control(text);
}

static bool blob_sound(const struct oci_blob *b)
{
	return ends(b->type, sizeof(b->type)) && ends(b->digest, sizeof(b->digest)) &&
	       ref_is_digest(b->digest);
}

bool oci_sound(const struct oci_manifest *m)
{
	if (m->n > OCI_LAYERS_MAX || !ends(m->artifact, sizeof(m->artifact)) ||
	    !blob_sound(&m->config))
		return false;
	for (size_t i = 0; i < m->n; i++)
		if (!blob_sound(&m->layers[i]))
			return false;
	return true;
}

bool oci_index_sound(const struct oci_index *x)
{
	if (x->n > OCI_INDEX_MAX)
		return false;
	for (size_t i = 0; i < x->n; i++) {
		const struct oci_entry *v = &x->v[i];

		if (!blob_sound(&v->blob) || !ends(v->os, sizeof(v->os)) ||
		    !ends(v->architecture, sizeof(v->architecture)) ||
		    !ends(v->variant, sizeof(v->variant)) || !ends(v->name, sizeof(v->name)))
			return false;
	}
	return true;
}

#if defined(__aarch64__)
#define OWN_ARCHITECTURE "arm64"
#define OWN_VARIANT "v8"
#elif defined(__x86_64__)
#define OWN_ARCHITECTURE "amd64"
#define OWN_VARIANT "v1"
#else
#error "no architecture of images"
#endif

int oci_fits(const char *os, const char *architecture, const char *variant)
{
	if (!*os && !*architecture)
		return 1;
	if (!str_eq(os, "linux") || !str_eq(architecture, OWN_ARCHITECTURE))
		return 0;
	return !*variant || str_eq(variant, OWN_VARIANT) ? 2 : 0;
}

static void put_blob(struct json *j, const struct oci_blob *b)
{
	json_object(j);
	json_kstr(j, "mediaType", b->type);
	json_kstr(j, "digest", b->digest);
	json_ku64(j, "size", b->size);
	json_object_end(j);
}

void oci_write(const struct oci_manifest *m, struct buf *out)
{
	struct json j;

	json_init(&j, out, false);
	json_object(&j);
	json_ku64(&j, "schemaVersion", 2);
	json_kstr(&j, "mediaType", OCI_MANIFEST_TYPE);
	if (m->artifact[0])
		json_kstr(&j, "artifactType", m->artifact);
	json_key(&j, "config");
	put_blob(&j, &m->config);
	json_karray(&j, "layers");
	for (size_t i = 0; i < m->n; i++)
		put_blob(&j, &m->layers[i]);
	json_array_end(&j);
	json_object_end(&j);
}

const struct oci_blob *oci_layer(const struct oci_manifest *m, const char *type)
{
	for (size_t i = 0; i < m->n; i++)
		if (str_eq(m->layers[i].type, type))
			return &m->layers[i];
	return NULL;
}
