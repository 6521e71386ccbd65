/* SPDX-License-Identifier: Apache-2.0 */
/* apps/toolset/tool_args.c - arguments of calls: what a model wrote, checked against what was asked
 * for.
 */
#include <stdio.h>
#include <string.h>

#include "apps/toolset/tools_internal.h"
#include "base/text/str.h"

static int tool_args_unknown(const char *key, const struct tool_arg *takes, struct err *e)
{
	const char *names[16] = { NULL }, *near;
	char list[160] = "";
	size_t n = 0, len = 0;

	for (; takes->name && n < ARRAY_LEN(names) - 1 && len < sizeof(list); takes++) {
		len += (size_t)snprintf(list + len, sizeof(list) - len, "%s%s", n ? ", " : "",
					takes->name);
		names[n++] = takes->name;
	}
	near = str_nearest(key, names);
	(void)err_set(e, ERR_USAGE, EINVAL, "there is no argument '%.60s'", key);
	return near ? err_hint(e, "did you mean '%s'?", near)
		    : err_hint(e, "it takes: %s; policy, network and limits are the user's to set",
			       n ? list : "nothing");
}

bool args_there(const struct jread *args, const char *key)
{
	const struct jread *v = jread_get(args, key);

	return v && jread_kind(v) != JREAD_NULL;
}

int args_check(const struct jread *args, const struct tool_arg *takes, struct err *e)
{
	if (args && jread_kind(args) != JREAD_OBJECT)
		return err_set(e, ERR_USAGE, EINVAL, "the arguments must be an object");
	for (void *it = args ? jread_first(args) : NULL; it; it = jread_next(args, it)) {
		const struct tool_arg *a = takes;

		while (a->name && !str_eq(a->name, jread_key(it)) &&
		       !(a->alias && str_eq(a->alias, jread_key(it))))
			a++;
		if (!a->name)
			return tool_args_unknown(jread_key(it), takes, e);
	}
	for (const struct tool_arg *a = takes; a->name; a++)
		if (a->need && !args_there(args, a->name) &&
		    !(a->alias && args_there(args, a->alias)))
			return err_set(e, ERR_USAGE, EINVAL, "'%s' is missing", a->name);
	return 0;
}

int args_text(const struct jread *args, const char *key, size_t max, const char **ret,
	      struct err *e)
{
	const struct jread *v = jread_get(args, key);
	const char *text = jread_text(v);

	*ret = NULL;
	if (!args_there(args, key))
		return 0;
	if (!text)
		return err_set(e, ERR_USAGE, EINVAL, "'%s' must be a string", key);
	if (strlen(text) > max)
		return err_set(e, ERR_USAGE, E2BIG, "'%s' is longer than %zu bytes", key, max);
	*ret = text;
	return 0;
}

int args_number(const struct jread *args, const char *key, uint64_t min, uint64_t max,
		uint64_t *ret, struct err *e)
{
	const struct jread *v = jread_get(args, key);
	int64_t n = jread_int(args, key, -1);

	if (!args_there(args, key))
		return 0;
	if (jread_kind(v) != JREAD_INT || n < 0 || (uint64_t)n < min || (uint64_t)n > max)
		return err_set(e, ERR_USAGE, EINVAL,
			       "'%s' must be a whole number from %llu to %llu", key,
			       (unsigned long long)min, (unsigned long long)max);
	*ret = (uint64_t)n;
	return 0;
}

int args_flag(const struct jread *args, const char *key, bool *ret, struct err *e)
{
	const struct jread *v = jread_get(args, key);

	if (!args_there(args, key))
		return 0;
	if (jread_kind(v) != JREAD_BOOL)
		return err_set(e, ERR_USAGE, EINVAL, "'%s' must be true or false", key);
	*ret = jread_bool(args, key);
	return 0;
}

int args_path(const char *path, struct err *e)
{
	if (!*path || str_has_control(path))
		return err_set(e, ERR_USAGE, EINVAL, "the path is empty or has control characters");
	for (const char *at = path; *at;) {
		size_t len = strcspn(at, "/");

		if (len == 2 && at[0] == '.' && at[1] == '.')
			return err_refuse(e, ERR_POLICY, EINVAL, "name the place itself",
					  "a path may not have '..' in it");
		if (len > 255)
			return err_set(e, ERR_USAGE, ENAMETOOLONG,
				       "a name in the path is too long");
		at += len + (at[len] == '/');
	}
	return 0;
}
