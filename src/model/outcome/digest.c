/* SPDX-License-Identifier: Apache-2.0 */
#include "model/outcome/digest.h"

#include <string.h>

#include "base/bytes/sha256.h"
#include "model/files/show.h"

#define TEXT_MAX ((size_t)4 << 20)

static bool left_out(enum field_id id)
{
	switch (id) {
	case FIELD_WORKDIR:
	case FIELD_LABELS:
	case FIELD_AUDIT_ENABLED:
	case FIELD_NO_AUDIT:
	case FIELD_AUDIT_DIR:
	case FIELD_AUDIT_SYNC:
	case FIELD_AUDIT_ON_ERROR:
	case FIELD_AUDIT_ARGV:
	case FIELD_AUDIT_ANCHOR:
	case FIELD_AUDIT_AGENT:
	case FIELD_AUDIT_MAX_AGE:
	case FIELD_AUDIT_MAX_RECORDS:
	case FIELD_ARRAY:
	case FIELD_JSON:
	case FIELD_QUIET:
	case FIELD_CONFIG:
	case FIELD_DIALECT:
		return true;
	default:
		return false;
	}
}

static void names_only(struct json *j, const struct envlist *l)
{
	json_array(j);
	for (size_t i = 0; i < l->n; i++)
		json_str(j, l->v[i].name);
	json_array_end(j);
}

int spec_digest(const struct spec *s, char out[SPEC_DIGEST_SIZE], struct err *e)
{
	CLEANUP(buf) struct buf text = BUF_INIT(TEXT_MAX);
	char hex[SHA256_HEX];
	struct json j;

	json_init(&j, &text, false);
	json_array(&j);
	for (int id = 0; id < FIELD_COUNT; id++) {
		if (left_out((enum field_id)id))
			continue;
		json_str(&j, fields[id].key ? fields[id].key : fields[id].flag);
		if (id == FIELD_ENV)
			names_only(&j, &s->env);
		else
			show_value(&j, s, (enum field_id)id, false);
	}
	json_array_end(&j);
	if (text.failed)
		return err_nomem(e);
	sha256_of(text.data, text.len, hex);
	memcpy(out, hex, SPEC_DIGEST_SIZE - 1);
	out[SPEC_DIGEST_SIZE - 1] = '\0';
	return 0;
}
