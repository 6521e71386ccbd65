/* SPDX-License-Identifier: Apache-2.0 */
/* backend/kit/plan/plan_tools.c - toolchains below the caller's home folder, which --toolchains
 * shows read-only at their own path, and the word that a program inside is another one than the
 * caller's.
 *
 * Only folders that hold programs and what these need: no settings, no caches, no credentials
 * (~/.cargo has all of them beside its bin). */
#include <assert.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backend/kit/plan/plan_internal.h"
#include "base/text/str.h"
#include "model/known/toolchains.h"
#include "model/settings/paths.h"

static_assert(TOOLCHAIN_KINDS < PREPARED_MAX, "each may have to be idmapped");

bool plan_is_toolchain(const char *path)
{
	char root[PATH_MAX];

	for (size_t i = 0; i < TOOLCHAIN_KINDS; i++)
		if (toolchain_root(i, root, sizeof(root)) && path_under(path, root) &&
		    str_starts(path + strlen(root), toolchain_kinds[i].part))
			return true;
	return false;
}

int plan_toolchains(struct box_plan *p, struct err *e)
{
	char root[PATH_MAX], path[PATH_MAX + 16];

	for (size_t i = 0; p->spec->toolchains && i < TOOLCHAIN_KINDS; i++) {
		CLEANUP(fd) int fd = -1;
		struct toolchain *slot;

		if (!toolchain_root(i, root, sizeof(root)))
			continue;
		(void)snprintf(path, sizeof(path), "%s%s", root, toolchain_kinds[i].part);
		fd = fd_open_nolinks(AT_FDCWD, path, O_PATH | O_DIRECTORY, 0);
		if (fd < 0)
			continue;
		slot = ARENA_PUSH(p->arena, p->toolchains, p->toolchain_count);
		if (!slot)
			return err_nomem(e);
		*slot = (struct toolchain){ .path = arena_strdup(p->arena, path),
					    .variable = toolchain_kinds[i].told
								? toolchain_kinds[i].variable
								: NULL,
					    .root = arena_strdup(p->arena, root) };
		if (!slot->path || !slot->root)
			return err_nomem(e);
	}
	if (p->spec->toolchains && !p->toolchain_count)
		plan_note(p,
			  "--toolchains: none was found below HOME (folders that are links do not "
			  "count)");
	return 0;
}

/* The first program of that name along a path; an empty text: none. */
static void first_along(const char *path, const char *name, char *out, size_t room)
{
	for (size_t n; *path; path += n + (path[n] == ':')) {
		n = strcspn(path, ":");
		if (path[0] == '/' &&
		    snprintf(out, room, "%.*s/%s", (int)n, path, name) < (int)room &&
		    access(out, X_OK) == 0)
			return;
	}
	out[0] = '\0';
}

static bool same_file(const char *first, const char *second)
{
	struct stat a, b;

	return str_eq(first, second) || (stat(first, &a) == 0 && stat(second, &b) == 0 &&
					 a.st_dev == b.st_dev && a.st_ino == b.st_ino);
}

static int note_one(struct box_plan *p, const char *name, const char *mine, const char *inside,
		    struct err *e)
{
	const char *slash = strrchr(mine, '/');
	const char *there = *inside ? arena_printf(p->arena, "is '%s'", inside) : "is not there";
	const char *how = plan_is_toolchain(mine) ? "--toolchains shows those below HOME"
						  : arena_printf(p->arena, "--read %.*s shows it",
								 (int)(slash - mine), mine);
	const char *text = there && how
				   ? arena_printf(p->arena, "%s inside %s, and not your '%s' (%s)",
						  name, there, mine, how)
				   : NULL;

	if (!text)
		return err_nomem(e);
	plan_note(p, text);
	return 0;
}

/* Does the command run it? At a terminal anything may be. */
static bool is_used(const struct spec *s, const char *tool)
{
	static const struct {
		const char *command, *tool;
	} more[] = { { "python", "python3" }, { "pip", "python3" }, { "pip3", "python3" },
		     { "npm", "node" },       { "npx", "node" },    { "rustc", "cargo" } };
	const char *program = s->command.argv && s->command.argv[0] ? s->command.argv[0] : "";
	const char *slash = strrchr(program, '/');
	const char *name = slash ? slash + 1 : program;

	for (size_t i = 0; i < ARRAY_LEN(more); i++)
		if (str_eq(name, more[i].command))
			name = more[i].tool;
	return s->command.tty || str_eq(name, tool);
}

int plan_other_tools(struct box_plan *p, const char *mine, struct err *e)
{
	static const char *const names[] = { "python3", "node", "cargo" };
	char here[PATH_MAX], inside[PATH_MAX];

	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		here[0] = '\0';
		if (is_used(p->spec, names[i]))
			first_along(mine, names[i], here, sizeof(here));
		if (!*here)
			continue;
		first_along(p->path_value, names[i], inside, sizeof(inside));
		if (!(*inside && same_file(here, inside)) &&
		    note_one(p, names[i], here, inside, e) < 0)
			return -e->code;
	}
	return 0;
}
