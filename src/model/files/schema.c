/* SPDX-License-Identifier: Apache-2.0 */
#include "model/files/schema.h"

#include <assert.h>
#include <string.h>

#include "base/text/num.h"
#include "base/text/str.h"
#include "model/dialect/companions.h"
#include "model/dialect/credentials.h"
#include "model/known/services.h"
#include "model/settings/fields.h"

#define SIZE_PATTERN "[0-9]+(\\.[0-9]{1,3})?([bB]|[kKmMgGtT]([iI]?[bB])?)?"

/* How a value of each type is written. Sizes and times are text with a unit, or a bare number. */
static const struct {
	const char *type, *pattern;
} shapes[] = {
	[FIELD_T_BOOL] = { "boolean", NULL },
	[FIELD_T_WORD] = { "string", NULL },
	[FIELD_T_COUNT] = { "integer", NULL },
	[FIELD_T_SIZE] = { "string", "^" SIZE_PATTERN "$" },
	[FIELD_T_DURATION] = { "string", "^([0-9]+(\\.[0-9]{1,3})?(ms|s|m|h|d|w)?)+$" },
	[FIELD_T_MILLI] = { "number", NULL },
	[FIELD_T_STRING] = { "string", NULL },
	[FIELD_T_PATH] = { "string", NULL },
	[FIELD_T_USER] = { "string", "^(auto|[1-9][0-9]{0,4}(:[1-9][0-9]{0,4})?)$" },
	[FIELD_T_NAMES] = { "array", "^[A-Za-z_][A-Za-z0-9_]*$" },
	[FIELD_T_STRINGS] = { "array", NULL },
	[FIELD_T_PATHS] = { "array", NULL },
	[FIELD_T_MOUNTS] = { "array", "^[^:]+:/[^:]*(:r[wo])?$" },
	[FIELD_T_ENV] = { "object", NULL },
	[FIELD_T_LABELS] = { "object", NULL },
	[FIELD_T_EXTRA_ARGS] = { "array", NULL },
	[FIELD_T_PORTS] = { "array", "^([0-9]{1,5}:)?[0-9]{1,5}(/(tcp|udp|sctp))?$" },
	[FIELD_T_COPIES] = { "array", NULL },
	[FIELD_T_COMPANIONS] = { "object", NULL },
	[FIELD_T_RULES] = { "array", NULL },
	[FIELD_T_PINS] = { "object", NULL },
	[FIELD_T_LEAKS] = { "object", "^(block|redact|warn|off)$" },
	[FIELD_T_CREDENTIALS] = { "object", NULL },
};
static_assert(sizeof(shapes) / sizeof(*shapes) == FIELD_T_CREDENTIALS + 1,
	      "a shape for every type");

static void bounds(const struct field *f, struct json *j)
{
	if (f->type != FIELD_T_COUNT && f->type != FIELD_T_MILLI)
		return;
	json_key(j, "minimum");
	if (f->type == FIELD_T_MILLI)
		json_milli(j, f->min);
	else
		json_u64(j, f->min);
	json_key(j, "maximum");
	if (f->type == FIELD_T_MILLI)
		json_milli(j, f->max);
	else
		json_u64(j, f->max);
}

/* Bounds are for the number, the pattern for the word. */
static void count_or_word(const struct field *f, struct json *j)
{
	json_karray(j, "type");
	json_str(j, "integer");
	json_str(j, "string");
	json_array_end(j);
	json_kstr(j, "pattern",
		  f->thousands ? "^(none|[0-9]+([.][0-9]{1,3})?[kKmM]?)$"
			       : "^(all|none|[1-9][0-9]?)?$");
}

static void list_or_text(struct json *j)
{
	json_karray(j, "type");
	json_str(j, "string");
	json_str(j, "array");
	json_array_end(j);
	json_kobject(j, "items");
	json_kstr(j, "type", "string");
	json_object_end(j);
}

static void value_source(struct json *j)
{
	static const char *const ways[] = { "env", "file", "command" };

	json_karray(j, "anyOf");
	json_object(j);
	json_kstr(j, "const", "nothing");
	json_kstr(j, "description", "of a login by the command itself (token_url)");
	json_object_end(j);
	json_object(j);
	json_kstr(j, "type", "object");
	json_kbool(j, "additionalProperties", false);
	json_kobject(j, "properties");
	for (size_t i = 0; i < ARRAY_LEN(ways); i++) {
		json_kobject(j, ways[i]);
		json_kstr(j, "type", str_eq(ways[i], "command") ? "array" : "string");
		json_object_end(j);
	}
	json_object_end(j);
	json_object_end(j);
	json_array_end(j);
}

/* "GITHUB_TOKEN, GH_TOKEN: Authorization at api.github.com; git" */
static void service_texts(struct buf *b, const struct service *row)
{
	for (const char *const *v = row->variables; *v; v++)
		buf_printf(b, "%s%s", v == row->variables ? "" : ", ", *v);
	buf_puts(b, ": ");
	for (const char *const *slot = row->slots; *slot; slot++)
		buf_printf(b, "%s%.*s", slot == row->slots ? "" : " or ", (int)strcspn(*slot, ":"),
			   *slot);
	if (row->hosts[0])
		buf_puts(b, " at ");
	for (const char *const *h = row->hosts; *h; h++)
		buf_printf(b, "%s%s", h == row->hosts ? "" : ", ", *h);
	if (!row->hosts[0])
		buf_puts(b, " at a host of your own");
	if (row->path)
		buf_printf(b, " below %s", row->path);
	if (row->git)
		buf_puts(b, "; git");
}

static void service_names(struct json *j)
{
	json_kstr(j, "type", "string");
	json_karray(j, "oneOf");
	for (const struct service *row = services; row->name; row++) {
		CLEANUP(buf) struct buf b = BUF_INIT(1024);
		const char *name = row->name;

		service_texts(&b, row);
		for (; row[1].name && str_eq(row[1].name, name); row++) {
			buf_puts(&b, "; ");
			service_texts(&b, row + 1);
		}
		json_object(j);
		json_kstr(j, "const", name);
		json_kstr(j, "description", buf_str(&b));
		json_object_end(j);
	}
	json_array_end(j);
}

static void credential(struct json *j)
{
	static const char *const ways[] = { "host", "service", "token_url" };

	json_kobject(j, "properties");
	for (const struct credential_key *k = credential_keys; k->name; k++) {
		json_kobject(j, k->name);
		json_kstr(j, "description", k->help);
		if (k->shape == CREDENTIAL_TEXT)
			json_kstr(j, "type", "string");
		else if (k->shape == CREDENTIAL_TEXTS)
			list_or_text(j);
		else if (k->shape == CREDENTIAL_FLAG)
			json_kstr(j, "type", "boolean");
		else if (k->shape == CREDENTIAL_SERVICE)
			service_names(j);
		else
			value_source(j);
		json_object_end(j);
	}
	json_object_end(j);
	json_kbool(j, "additionalProperties", false);
	json_karray(j, "anyOf");
	for (size_t i = 0; i < ARRAY_LEN(ways); i++) {
		json_object(j);
		json_karray(j, "required");
		json_str(j, ways[i]);
		json_array_end(j);
		json_object_end(j);
	}
	json_array_end(j);
}

static void companion_part(struct json *j, const struct companion_key *keys);

static void companion_value(struct json *j, enum companion_shape shape)
{
	switch (shape) {
	case COMPANION_TEXT: /* a number is one, too */
		json_karray(j, "type");
		json_str(j, "string");
		json_str(j, "number");
		json_array_end(j);
		break;
	case COMPANION_TEXTS:
		json_kstr(j, "type", "array");
		break;
	case COMPANION_PAIRS:
		json_kstr(j, "type", "object");
		break;
	case COMPANION_NETWORK:
		json_karray(j, "enum");
		for (int i = 0; i < NETWORK_HOST; i++)
			json_str(j, fields[FIELD_NETWORK].words[i]);
		json_array_end(j);
		break;
	case COMPANION_HEALTH:
	case COMPANION_LIMITS:
		json_kstr(j, "type", "object");
		companion_part(j, shape == COMPANION_HEALTH ? companion_health_keys
							    : companion_limit_keys);
		break;
	}
}

static void companion_part(struct json *j, const struct companion_key *keys)
{
	json_kobject(j, "properties");
	for (const struct companion_key *k = keys; k->name; k++) {
		json_kobject(j, k->name);
		json_kstr(j, "description", k->help);
		companion_value(j, k->shape);
		json_object_end(j);
	}
	json_object_end(j);
	json_kbool(j, "additionalProperties", false);
}

static void copy_part(struct json *j)
{
	json_kobject(j, "properties");
	json_kobject(j, "source");
	json_kstr(j, "type", "string");
	json_object_end(j);
	json_kobject(j, "target");
	json_kstr(j, "type", "string");
	json_kstr(j, "pattern", "^/");
	json_object_end(j);
	json_kobject(j, "exclude");
	json_kstr(j, "type", "array");
	json_kobject(j, "items");
	json_kstr(j, "type", "string");
	json_object_end(j);
	json_object_end(j);
	json_object_end(j);
	json_karray(j, "required");
	json_str(j, "source");
	json_str(j, "target");
	json_array_end(j);
	json_kbool(j, "additionalProperties", false);
}

static void element(const struct field *f, struct json *j)
{
	bool map = f->type == FIELD_T_COPIES || f->type == FIELD_T_COMPANIONS ||
		   f->type == FIELD_T_CREDENTIALS;

	json_kobject(j, str_eq(shapes[f->type].type, "object") ? "additionalProperties" : "items");
	/* Mounts and rules are a line of text or a map; the pattern is for the text. */
	if (f->type != FIELD_T_MOUNTS && f->type != FIELD_T_RULES)
		json_kstr(j, "type", map ? "object" : "string");
	if (shapes[f->type].pattern)
		json_kstr(j, "pattern", shapes[f->type].pattern);
	if (f->type == FIELD_T_CREDENTIALS)
		credential(j);
	if (f->type == FIELD_T_COMPANIONS)
		companion_part(j, companion_keys);
	if (f->type == FIELD_T_COPIES)
		copy_part(j);
	json_object_end(j);
}

/* Where the setting holds; nothing for one that does not depend on it. bwrap is as native. */
static void where(const struct field *f, struct json *j)
{
	static const struct {
		unsigned bit;
		const char *name;
	} all[] = {
		{ ON_NATIVE, "native" }, { ON_NATIVE | ON_BWRAP, "bwrap" },
		{ ON_DOCKER, "docker" }, { ON_DOCKER, "podman" },
		{ ON_SSH, "ssh" },       { ON_NATIVE | ON_SLURM, "slurm" },
		{ ON_SSH, "ssh" },       { ON_KUBERNETES, "kubernetes" },
		{ ON_NONE, "none" },
	};
	const unsigned lasting = f->honoured & ON_LASTING
					 ? ON_NATIVE | ON_BWRAP | ON_DOCKER /* what has exec */
					 : 0;

	if (f->honoured == ~0U)
		return;
	json_karray(j, "x-backends");
	for (size_t i = 0; i < ARRAY_LEN(all); i++)
		if ((f->honoured | lasting) & all[i].bit)
			json_str(j, all[i].name);
	json_array_end(j);
}

static void property(const struct field *f, const char *name, struct json *j)
{
	uint64_t count;

	json_kobject(j, name);
	if ((f->all || f->thousands) && f->type == FIELD_T_COUNT)
		count_or_word(f, j);
	else
		json_kstr(j, "type", shapes[f->type].type);
	json_kstr(j, "description", f->help);
	if (f->words) {
		json_karray(j, "enum");
		for (unsigned i = 0; f->words[i] && (!f->offered || i < f->offered); i++)
			json_str(j, f->words[i]);
		json_array_end(j);
	}
	if (field_repeats(f))
		element(f, j);
	else if (f->all && f->type == FIELD_T_SIZE)
		json_kstr(j, "pattern", "^(all|" SIZE_PATTERN ")$");
	else if (shapes[f->type].pattern)
		json_kstr(j, "pattern", shapes[f->type].pattern);
	bounds(f, j);
	if (f->fallback && f->type == FIELD_T_BOOL) {
		json_kbool(j, "default", str_eq(f->fallback, "true"));
	} else if (f->fallback && f->type != FIELD_T_COUNT) {
		json_kstr(j, "default", f->fallback);
	} else if (f->fallback && num_count(f->fallback, &count) == 0) {
		json_ku64(j, "default", count);
	}
	where(f, j);
	json_object_end(j);
}

static void open_object(struct json *j)
{
	json_object(j);
	json_kstr(j, "type", "object");
	json_kbool(j, "additionalProperties", false);
	json_kobject(j, "properties");
}

static void close_object(struct json *j)
{
	json_object_end(j);
	json_object_end(j);
}

static bool opened_before(size_t at, size_t len)
{
	for (size_t i = 0; i < at; i++)
		if (fields[i].key && strncmp(fields[i].key, fields[at].key, len + 1) == 0)
			return true;
	return false;
}

/* All keys "group.x" of the group that fields[first] opens, in one nested object; a group within it
 * ("egress.rate.x") is written where its first key stands. `from` skips the groups around it. */
static void group(size_t first, size_t from, size_t len, struct json *j)
{
	const char *path = fields[first].key;
	char name[32];

	memcpy(name, path + from, len - from);
	name[len - from] = '\0';
	json_key(j, name);
	open_object(j);
	for (size_t i = first; i < FIELD_COUNT; i++) {
		const char *key = fields[i].key, *dot;

		if (!key || strncmp(key, path, len) != 0 || key[len] != '.')
			continue;
		dot = strchr(key + len + 1, '.');
		if (!dot)
			property(&fields[i], key + len + 1, j);
		else if (!opened_before(i, (size_t)(dot - key)))
			group(i, len + 1, (size_t)(dot - key), j);
	}
	close_object(j);
}

/* The same settings once more, as a bound for those of others. */
static void daemon_block(struct json *j, const char *self)
{
	json_key(j, "daemon");
	open_object(j);
	json_kobject(j, "ceiling");
	json_kstr(j, "$ref", self);
	json_kstr(j, "description",
		  "what callers of the daemon with a token may ask for; in the user's or the "
		  "system's own file alone");
	json_object_end(j);
	close_object(j);
}

void schema_json(struct json *j, const char *self)
{
	json_object(j);
	json_kstr(j, "$schema", "https://json-schema.org/draft/2020-12/schema");
	json_kstr(j, "title", "brig settings");
	json_kstr(j, "type", "object");
	json_kbool(j, "additionalProperties", false);
	json_kobject(j, "properties");
	json_key(j, "brig"); /* what marks a file as one of ours */
	json_object(j);
	json_ku64(j, "const", 1);
	json_kstr(j, "description", "marks a file as written for brig");
	json_object_end(j);
	daemon_block(j, self);
	for (size_t i = 0; i < FIELD_COUNT; i++) {
		const char *key = fields[i].key, *dot = key ? strchr(key, '.') : NULL;

		if (!key)
			continue;
		if (!dot)
			property(&fields[i], key, j);
		else if (!opened_before(i, (size_t)(dot - key)))
			group(i, 0, (size_t)(dot - key), j);
	}
	close_object(j);
}
