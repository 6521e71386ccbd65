/* SPDX-License-Identifier: Apache-2.0 */
#include "model/files/show.h"
#include "model/known/login_file.h"

#include <stdio.h>

#include "base/text/num.h"

bool show_unlimited(const struct field *f, uint64_t v)
{
	return !v && f->min > 0;
}

static void json_strings(struct json *j, const struct strlist *l)
{
	json_array(j);
	for (size_t i = 0; i < l->n; i++)
		json_str(j, l->v[i]);
	json_array_end(j);
}

static void json_pairs(struct json *j, const struct envlist *l)
{
	json_object(j);
	for (size_t i = 0; i < l->n; i++)
		json_kstr(j, l->v[i].name, l->v[i].value);
	json_object_end(j);
}

static void json_mounts(struct json *j, const struct mountlist *l)
{
	json_array(j);
	for (size_t i = 0; i < l->n; i++) {
		json_object(j);
		json_kstr(j, "source", l->v[i].source);
		json_kstr(j, "target", l->v[i].target);
		json_kbool(j, "read_only", !l->v[i].writable);
		json_object_end(j);
	}
	json_array_end(j);
}

static void json_ports(struct json *j, const struct portlist *l)
{
	json_array(j);
	for (size_t i = 0; i < l->n; i++) {
		json_object(j);
		if (l->v[i].host)
			json_ku64(j, "host", l->v[i].host);
		json_ku64(j, "container", l->v[i].container);
		json_kstr(j, "protocol", l->v[i].protocol);
		json_object_end(j);
	}
	json_array_end(j);
}

static void json_copies(struct json *j, const struct copylist *l)
{
	json_array(j);
	for (size_t i = 0; i < l->n; i++) {
		json_object(j);
		json_kstr(j, "source", l->v[i].source);
		json_kstr(j, "target", l->v[i].target);
		json_key(j, "exclude");
		json_strings(j, &l->v[i].exclude);
		json_object_end(j);
	}
	json_array_end(j);
}

static void json_limit(struct json *j, const char *key, uint64_t v, bool milli)
{
	json_key(j, key);
	if (!v)
		json_null(j);
	else if (milli)
		json_milli(j, v);
	else
		json_u64(j, v);
}

/* In a file a bare number would be seconds, and nobody writes what is not there. */
static void json_time(struct json *j, const char *key, uint64_t ms, bool file)
{
	char text[32];

	if (!file) {
		json_limit(j, key, ms, false);
		return;
	}
	if (!ms)
		return;
	num_duration_text(ms, text, sizeof(text));
	json_kstr(j, key, text);
}

static void json_health(struct json *j, const struct health_spec *h, bool file)
{
	json_object(j);
	json_key(j, "test");
	json_strings(j, &h->test);
	json_time(j, "interval", h->interval, file);
	json_time(j, "timeout", h->timeout, file);
	json_time(j, "start_period", h->start_period, file);
	if (h->retries || !file)
		json_limit(j, "retries", h->retries, false);
	json_object_end(j);
}

/* They may be secrets. */
static void json_hidden(struct json *j, const struct envlist *l)
{
	json_object(j);
	for (size_t i = 0; i < l->n; i++)
		json_kstr(j, l->v[i].name, "***");
	json_object_end(j);
}

/* In a file nobody writes what is not there. */
static void companion_strings(struct json *j, const char *key, const struct strlist *l, bool file)
{
	if (file && !l->n)
		return;
	json_key(j, key);
	json_strings(j, l);
}

static void companion_word(struct json *j, const char *key, const char *word, bool file)
{
	if (word || !file)
		json_kstr(j, key, word);
}

static void companion_limits(struct json *j, const struct companion_spec *c, bool file)
{
	const struct {
		const char *key;
		uint64_t v;
		enum { LIMIT_MILLI, LIMIT_SIZE, LIMIT_COUNT } kind;
	} limits[] = {
		{ "cpus", c->cpus, LIMIT_MILLI },
		{ "memory", c->memory, LIMIT_SIZE },
		{ "pids", c->pids, LIMIT_COUNT },
		{ "disk", c->disk, LIMIT_SIZE },
	};
	char text[64];

	if (file && !c->cpus && !c->memory && !c->pids && !c->disk)
		return;
	json_kobject(j, "limits");
	for (size_t i = 0; i < ARRAY_LEN(limits); i++) {
		if (file && limits[i].v && limits[i].kind == LIMIT_SIZE) {
			num_size_text(limits[i].v, text, sizeof(text));
			json_kstr(j, limits[i].key, text);
		} else if (limits[i].v || !file) {
			json_limit(j, limits[i].key, limits[i].v, limits[i].kind == LIMIT_MILLI);
		}
	}
	json_object_end(j);
}

static void json_companion(struct json *j, const struct companion_spec *c, bool file, bool whole)
{
	json_object(j);
	companion_word(j, "image", c->image, file);
	companion_strings(j, "command", &c->command, file);
	if (c->env.n || !file) {
		json_key(j, "env");
		(whole ? json_pairs : json_hidden)(j, &c->env);
	}
	companion_word(j, "data", c->data, file);
	if (c->health.test.n) {
		json_key(j, "healthcheck");
		json_health(j, &c->health, file);
	} else if (!file) {
		json_key(j, "healthcheck");
		json_null(j);
	}
	companion_strings(j, "post_start_on_primary", &c->post_start, file);
	companion_limits(j, c, file);
	if (c->network != NETWORK_NONE || !file)
		json_kstr(j, "network", fields[FIELD_NETWORK].words[c->network]);
	companion_word(j, "user", c->user, file);
	json_object_end(j);
}

static void json_companions(struct json *j, const struct companionlist *l, bool file, bool whole)
{
	json_object(j);
	for (size_t i = 0; i < l->n; i++) {
		json_key(j, l->v[i].name);
		json_companion(j, &l->v[i], file, whole);
	}
	json_object_end(j);
}

/* Where a value comes from and may go; there is no value here to show. */
static void json_credential(struct json *j, const struct credential_spec *c)
{
	static const char *const slots[] = { "header", "query", "cookie", "basic", "sigv4" };
	static const char *const sources[] = { "env", "file", "command" };

	json_key(j, "host");
	json_strings(j, &c->hosts);
	if (c->headers.n) {
		json_karray(j, "header");
		json_str(j, c->field);
		for (size_t i = 0; i < c->headers.n; i++)
			json_str(j, c->headers.v[i]);
		json_array_end(j);
	} else if (c->slot != SLOT_QUERY) {
		json_kstr(j, slots[c->slot], c->field);
	}
	if (c->slot == SLOT_QUERY || c->query.n) {
		json_karray(j, "query");
		if (c->slot == SLOT_QUERY)
			json_str(j, c->field);
		for (size_t i = 0; i < c->query.n; i++)
			json_str(j, c->query.v[i]);
		json_array_end(j);
	}
	if (c->slot == SLOT_HEADER)
		json_kstr(j, "prefix", c->prefix);
	if (c->git)
		json_kstr(j, "git", c->git);
	if (c->methods.n) {
		json_key(j, "methods");
		json_strings(j, &c->methods);
	}
	if (c->paths.n) {
		json_key(j, "paths");
		json_strings(j, &c->paths);
	}
	if (token_urls_of(c)) {
		json_key(j, "token_url");
		json_strings(j, token_urls_of(c));
	}
	if (credential_keeps(c))
		json_kbool(j, "renew", true);
	if (c->in_path)
		json_kstr(j, "also", "path");
	if (c->delayed)
		json_kstr(j, "streaming", "delayed");
	if (!c->source.n) {
		json_kstr(j, "from", "nothing");
		return;
	}
	json_kobject(j, "from");
	json_key(j, sources[c->from]);
	if (c->from == FROM_COMMAND)
		json_strings(j, &c->source);
	else
		json_str(j, c->source.v[0]);
	json_object_end(j);
}

static void json_credentials(struct json *j, const struct credentiallist *l)
{
	json_object(j);
	for (size_t i = 0; i < l->n; i++) {
		json_kobject(j, l->v[i].name);
		json_credential(j, &l->v[i]);
		json_object_end(j);
	}
	json_object_end(j);
}

static void json_user(struct json *j, const struct user_spec *u)
{
	char text[32] = "auto";

	if (u->given)
		(void)snprintf(text, sizeof(text), "%u:%u", u->uid, u->gid);
	json_str(j, text);
}

static void json_number(struct json *j, const struct field *f, uint64_t v)
{
	if (show_unlimited(f, v))
		json_null(j);
	else if (f->all && v == FIELD_ALL)
		json_str(j, "all");
	else if (f->type == FIELD_T_MILLI)
		json_milli(j, v);
	else
		json_u64(j, v);
}

void show_value(struct json *j, const struct spec *s, enum field_id id, bool file)
{
	const struct field *f = &fields[id];
	const void *v = (const char *)s + f->offset;

	switch (f->type) {
	case FIELD_T_BOOL:
		json_bool(j, *(const bool *)v);
		break;
	case FIELD_T_WORD:
		json_str(j, f->words[*(const int *)v]);
		break;
	case FIELD_T_STRING:
	case FIELD_T_PATH:
		json_str(j, *(const char *const *)v);
		break;
	case FIELD_T_USER:
		json_user(j, v);
		break;
	case FIELD_T_MOUNTS:
		json_mounts(j, v);
		break;
	case FIELD_T_ENV:
	case FIELD_T_LABELS:
	case FIELD_T_PINS:
	case FIELD_T_LEAKS:
		json_pairs(j, v);
		break;
	case FIELD_T_PORTS:
		json_ports(j, v);
		break;
	case FIELD_T_COPIES:
		json_copies(j, v);
		break;
	case FIELD_T_COMPANIONS:
		json_companions(j, v, file, false);
		break;
	case FIELD_T_CREDENTIALS:
		json_credentials(j, v);
		break;
	default:
		if (field_is_number(f))
			json_number(j, f, *(const uint64_t *)v);
		else
			json_strings(j, v);
	}
}

void show_whole(struct json *j, const struct spec *s, enum field_id id, bool file)
{
	json_companions(j, (const void *)((const char *)s + fields[id].offset), file, true);
}
