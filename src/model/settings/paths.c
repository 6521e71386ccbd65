/* SPDX-License-Identifier: Apache-2.0 */
#include "model/settings/paths.h"

#include <limits.h>
#include <string.h>

#include "base/text/str.h"
#include "model/settings/spec.h"

/* Places brig builds itself: a mount on one of them would take a protection away. */
static const char *const reserved[] = { "/",      "/bin",    "/sbin", "/lib",  "/lib32",
					"/lib64", "/libx32", "/usr",  "/etc",  "/tmp",
					"/home",  "/work",   "/code", "/role", "/workspace" };
static const char *const closed[] = { "/proc", "/sys", "/dev" };

/* Joins the components of in into out, dropping "." and resolving ".."; out has room for
 * one byte more than in and a NUL. */
static void canonical(const char *in, char *out)
{
	size_t len = 0;

	while (*in) {
		size_t n;

		in += strspn(in, "/");
		n = strcspn(in, "/");
		if (n == 2 && in[0] == '.' && in[1] == '.') {
			while (len && out[--len] != '/')
				;
		} else if (n && !(n == 1 && in[0] == '.')) {
			out[len++] = '/';
			memcpy(out + len, in, n);
			len += n;
		}
		in += n;
	}
	if (!len)
		out[len++] = '/';
	out[len] = '\0';
}

int path_resolve(struct arena *a, const struct place *at, const char *text, const char **ret,
		 struct err *e)
{
	const char *base = "", *rest = text;
	char *joined, *out;

	if (!*text)
		return err_refuse(e, ERR_USAGE, EINVAL,
				  "name a file or folder, or leave the option out",
				  "an empty path");
	if (str_has_control(text))
		return err_refuse(e, ERR_USAGE, EINVAL,
				  "rename it without line breaks and the like",
				  "a path with a control character");
	if (text[0] == '~') {
		if (text[1] && text[1] != '/')
			return err_refuse(e, ERR_USAGE, EINVAL, "write the whole path, from '/' on",
					  "path '%s': only '~' and '~/' are known", text);
		if (!at->home)
			return err_refuse(e, ERR_USAGE, EINVAL, "write the whole path, from '/' on",
					  "path '%s': HOME is not set", text);
		base = at->home;
		rest = text + 1;
	} else if (text[0] != '/') {
		base = at->cwd;
	}
	joined = arena_printf(a, "%s/%s", base, rest);
	out = joined ? arena_alloc(a, strlen(joined) + 2) : NULL;
	if (!out)
		return err_nomem(e);
	canonical(joined, out);
	*ret = out;
	return 0;
}

bool path_under(const char *path, const char *dir)
{
	size_t n = strlen(dir);

	if (n == 1)
		return true; /* dir is "/" */
	return strncmp(path, dir, n) == 0 && (path[n] == '\0' || path[n] == '/');
}

int mount_parse(struct arena *a, const char *text, struct mount_spec *ret, struct err *e)
{
	const char *colon = strchr(text, ':'), *dst, *mode;
	struct mount_spec m = { 0 };

	if (!colon || colon == text || !colon[1])
		return err_refuse(e, ERR_USAGE, EINVAL,
				  "for the same path inside use --read or --write",
				  "mount '%s': not of the form SRC:DST[:rw]", text);
	dst = colon + 1;
	mode = strchr(dst, ':');
	if (mode && !str_eq(mode, ":rw") && !str_eq(mode, ":ro"))
		return err_refuse(e, ERR_USAGE, EINVAL,
				  "a path that contains ':' cannot be mounted",
				  "mount '%s': '%s' is neither rw nor ro", text, mode + 1);
	m.writable = mode && str_eq(mode, ":rw");
	m.source = arena_strndup(a, text, (size_t)(colon - text));
	m.target = arena_strndup(a, dst, mode ? (size_t)(mode - dst) : strlen(dst));
	if (!m.source || !m.target)
		return err_nomem(e);
	*ret = m;
	return 0;
}

#define OWN_PLACE "choose a place of its own, such as /data"

int target_check(const char *target, const char *workspace_target, struct err *e)
{
	char flat[PATH_MAX];

	if (strlen(target) > sizeof(flat) - 2)
		return err_set(e, ERR_USAGE, ENAMETOOLONG, "a mount target longer than any path");
	if (str_has_control(target))
		return err_refuse(e, ERR_USAGE, EINVAL, OWN_PLACE,
				  "a mount target with a control character");
	if (target[0] != '/') {
		(void)err_set(e, ERR_USAGE, EINVAL, "mount target '%s' is not absolute", target);
		return err_hint(e, "write it from '/' on: '/%s'", target);
	}
	canonical(target, flat);
	if (!str_eq(flat, target)) {
		(void)err_set(e, ERR_USAGE, EINVAL, "mount target '%s' is not in its plain form",
			      target);
		return err_hint(e, "write it as '%s'", flat);
	}
	for (size_t i = 0; i < ARRAY_LEN(closed); i++)
		if (path_under(target, closed[i]))
			return err_refuse(e, ERR_POLICY, EPERM, OWN_PLACE,
					  "mount target '%s': nothing may cover '%s'", target,
					  closed[i]);
	for (size_t i = 0; i < ARRAY_LEN(reserved); i++)
		if (str_eq(target, reserved[i]))
			return err_refuse(e, ERR_POLICY, EPERM, OWN_PLACE,
					  "mount target '%s' is reserved", target);
	if (str_eq(target, workspace_target))
		return err_refuse(e, ERR_POLICY, EPERM,
				  "choose the folder shown there with --workdir",
				  "mount target '%s' is the workspace", target);
	return 0;
}
