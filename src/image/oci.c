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

int oci_read(const char *text, size_t n, struct oci_manifest *ret, struct err *e)
{
	CLEANUP(jread) struct jread *v = NULL;
	const struct jread *layers;
	const char *type;

	if (n > OCI_MANIFEST_MAX || jread_parse(text, n, &v, e) < 0)
		return strange(e);
	*ret = (struct oci_manifest){ 0 };
	type = jread_str(v, "mediaType");
	layers = jread_get(v, "layers");
	if (jread_int(v, "schemaVersion", 0) != 2 || (type && !str_eq(type, OCI_MANIFEST_TYPE)) ||
	    !read_blob(jread_get(v, "config"), &ret->config) || jread_kind(layers) != JREAD_ARRAY ||
	    jread_count(layers) > OCI_LAYERS_MAX)
		return strange(e);
	if (jread_str(v, "artifactType") && !read_type(jread_str(v, "artifactType"), ret->artifact))
		return strange(e);
	for (; ret->n < jread_count(layers); ret->n++)
		if (!read_blob(jread_at(layers, ret->n), &ret->layers[ret->n]))
			return strange(e);
	return 0;
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
