/* SPDX-License-Identifier: Apache-2.0 */
/* daemon/api/api_openapi.c - the OpenAPI 3.1 document, from the tables. */
#include <stdio.h>
#include <string.h>

#include "base/text/str.h"
#include "daemon/api/api.h"
#include "model/files/schema.h"

static void put_ref(struct json *j, const char *schema)
{
	char text[96];

	(void)snprintf(text, sizeof(text), "#/components/schemas/%s", schema);
	json_object(j);
	json_kstr(j, "$ref", text);
	json_object_end(j);
}

static void put_type(struct json *j, const char *type)
{
	json_object(j);
	json_kstr(j, "type", type);
	json_object_end(j);
}

static void put_either(struct json *j)
{
	json_karray(j, "type");
	json_str(j, "string");
	json_str(j, "integer");
	json_array_end(j);
}

static void put_member(struct json *j, const struct api_member *m)
{
	static const char *const types[] = {
		[API_STRING] = "string", [API_INT] = "integer",  [API_BOOL] = "boolean",
		[API_STRINGS] = "array", [API_TEXTS] = "object", [API_OBJECT] = "object",
		[API_LIST] = "array",
	};

	json_object(j);
	json_kstr(j, "description", m->help);
	if (m->type == API_TIME || m->type == API_SIZE)
		put_either(j);
	else
		json_kstr(j, "type", types[m->type]);
	if (m->type == API_STRINGS) {
		json_key(j, "items");
		put_type(j, "string");
	} else if (m->type == API_TEXTS) {
		json_key(j, "additionalProperties");
		put_type(j, "string");
	} else if (m->type == API_LIST && m->of) {
		json_key(j, "items");
		put_ref(j, m->of);
	} else if (m->type == API_OBJECT && m->of) {
		json_karray(j, "allOf");
		put_ref(j, m->of);
		json_array_end(j);
	}
	json_object_end(j);
}

static void put_schema(struct json *j, const struct api_schema *s)
{
	json_object(j);
	json_kstr(j, "type", "object");
	if (s->members->name) {
		json_kobject(j, "properties");
		for (const struct api_member *m = s->members; m->name; m++) {
			json_key(j, m->name);
			put_member(j, m);
		}
		json_object_end(j);
		json_karray(j, "required");
		for (const struct api_member *m = s->members; m->name; m++)
			if (m->required)
				json_str(j, m->name);
		json_array_end(j);
	}
	json_object_end(j);
}

static void put_parameter(struct json *j, const char *name, const char *in, bool required,
			  const struct api_member *m)
{
	json_object(j);
	json_kstr(j, "name", name);
	json_kstr(j, "in", in);
	json_kbool(j, "required", required);
	json_key(j, "schema");
	if (m)
		put_member(j, m);
	else
		put_type(j, "string");
	json_object_end(j);
}

static void put_parameters(struct json *j, const struct api_route *r)
{
	json_karray(j, "parameters");
	for (const char *p = strchr(r->path, '{'); p; p = strchr(p + 1, '{')) {
		char name[32];

		(void)snprintf(name, sizeof(name), "%.*s", (int)strcspn(p + 1, "}"), p + 1);
		put_parameter(j, name, "path", true, NULL);
	}
	for (const struct api_member *m = r->query; m && m->name; m++)
		put_parameter(j, m->name, "query", m->required, m);
	if (str_eq(r->method, "POST"))
		put_parameter(j, "Idempotency-Key", "header", false, NULL);
	json_array_end(j);
}

static void put_content(struct json *j, const char *type, const char *schema)
{
	json_kobject(j, type);
	if (schema) {
		json_key(j, "schema");
		put_ref(j, schema);
	}
	json_object_end(j);
}

static void put_answers(struct json *j, const struct api_route *r)
{
	char status[8];

	(void)snprintf(status, sizeof(status), "%d", r->status);
	json_kobject(j, "responses");
	json_kobject(j, status);
	json_kstr(j, "description", r->help);
	if (r->answers || r->type || r->stream) {
		json_kobject(j, "content");
		if (r->answers || r->type)
			put_content(j, r->type ? r->type : "application/json", r->answers);
		if (r->stream)
			put_content(j, "text/event-stream", NULL);
		json_object_end(j);
	}
	json_object_end(j);
	json_kobject(j, "default");
	json_kstr(j, "description", "a problem, RFC 9457");
	json_kobject(j, "content");
	put_content(j, "application/problem+json", "Problem");
	json_object_end(j);
	json_object_end(j);
	json_object_end(j);
}

static void put_operation(struct json *j, const struct api_route *r)
{
	char method[8];
	size_t n = 0;

	for (; n < sizeof(method) - 1 && r->method[n]; n++)
		method[n] = (char)(r->method[n] | 0x20);
	method[n] = '\0';
	json_kobject(j, method);
	json_kstr(j, "operationId", r->name);
	json_kstr(j, "summary", r->help);
	put_parameters(j, r);
	if (r->asks || r->raw || r->takes) {
		json_kobject(j, "requestBody");
		json_kobject(j, "content");
		put_content(j,
			    r->takes ? r->takes
			    : r->raw ? "application/octet-stream"
				     : "application/json",
			    r->asks);
		json_object_end(j);
		json_object_end(j);
	}
	put_answers(j, r);
	if (!r->scope) {
		json_karray(j, "security");
		json_array_end(j);
	}
	json_object_end(j);
}

static bool first_of_path(const struct api_route *r)
{
	for (const struct api_route *o = api_routes; o < r; o++)
		if (str_eq(o->path, r->path))
			return false;
	return true;
}

static void put_paths(struct json *j)
{
	json_kobject(j, "paths");
	for (const struct api_route *r = api_routes; r->method; r++) {
		if (!first_of_path(r))
			continue;
		json_kobject(j, r->path);
		for (const struct api_route *o = r; o->method; o++)
			if (str_eq(o->path, r->path))
				put_operation(j, o);
		json_object_end(j);
	}
	json_object_end(j);
}

static void put_security(struct json *j)
{
	json_kobject(j, "securitySchemes");
	json_kobject(j, "token");
	json_kstr(j, "type", "http");
	json_kstr(j, "scheme", "bearer");
	json_object_end(j);
	json_object_end(j);
}

void api_openapi(struct json *j)
{
	json_object(j);
	json_kstr(j, "openapi", "3.1.0");
	json_kobject(j, "info");
	json_kstr(j, "title", "brig");
	json_kstr(j, "version", BRIG_VERSION);
	json_object_end(j);
	json_key(j, "servers"); /* where this was read */
	json_array(j);
	json_object(j);
	json_kstr(j, "url", "/");
	json_object_end(j);
	json_array_end(j);
	put_paths(j);
	json_kobject(j, "components");
	json_kobject(j, "schemas");
	for (const struct api_schema *s = api_schemas; s->name; s++) {
		json_key(j, s->name);
		if (str_eq(s->name, "Spec"))
			schema_json(j, "#/components/schemas/Spec");
		else
			put_schema(j, s);
	}
	json_object_end(j);
	put_security(j);
	json_object_end(j);
	json_karray(j, "security");
	json_object(j);
	json_karray(j, "token");
	json_array_end(j);
	json_object_end(j);
	json_array_end(j);
	json_object_end(j);
}
