/* SPDX-License-Identifier: Apache-2.0 */
/* backend/docker/engine/places.c - where an engine's socket may be. */
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "backend/docker/engine/engine.h"
#include "base/bytes/sha256.h"
#include "base/files/exposed.h"
#include "base/files/fd.h"
#include "base/text/str.h"

#define FILE_MAX 65536

static int places_add(struct arena *a, struct engine_places *at, const char *path, struct err *e)
{
	if (!path)
		return err_nomem(e);
	for (size_t i = 0; i < at->n; i++)
		if (str_eq(at->path[i], path))
			return 0;
	if (at->n < ENGINE_ADDRESSES_MAX)
		at->path[at->n++] = arena_strdup(a, path);
	return at->path[at->n - 1] ? 0 : err_nomem(e);
}

/* unix:///path or /path. An engine elsewhere is one on another machine's file system. */
static int add_address(struct arena *a, struct engine_places *at, const char *from,
		       const char *address, struct err *e)
{
	const char *path = str_starts(address, "unix://") ? address + 7 : address;

	if (path[0] != '/')
		return err_refuse(e, ERR_CONFIG, ENOTSUP,
				  "brig speaks to an engine on this machine: "
				  "unix:///var/run/docker.sock",
				  "%s: '%.100s' is not a Unix socket", from, address);
	at->named = true;
	return places_add(a, at, path, e);
}

static const char *config_folder(struct arena *a)
{
	const char *own = getenv("DOCKER_CONFIG"), *home = getenv("HOME");

	if (own && own[0] == '/')
		return own;
	return home && home[0] == '/' ? arena_printf(a, "%s/.docker", home) : NULL;
}

/* Each file by itself: one of them, or a folder on the way, may be a link of the user's to where
 * guests write. */
static int check_guests(const char *path, struct err *e)
{
	struct err why = { 0 };

	if (!path)
		return err_nomem(e);
	if (!exposed_path(path, NULL, EXPOSED_SHARED, &why))
		return 0;
	(void)err_set(e, ERR_POLICY, EPERM, "docker's context is not used: '%.120s': %.200s", path,
		      why.what);
	exposed_hint("set DOCKER_HOST", &why, e);
	return -e->code;
}

static struct jread *read_json(const char *path)
{
	struct jread *v = NULL;
	char text[FILE_MAX];
	ssize_t n = fd_read_file(AT_FDCWD, path, text, sizeof(text));
	struct err e;

	return n > 0 && jread_parse(text, (size_t)n, &v, &e) == 0 ? v : NULL;
}

/* The docker command keeps a context in a folder named by the hash of the context's name. */
static int context_host(struct arena *a, const char *folder, const char *name, const char **ret,
			struct err *e)
{
	CLEANUP(jread) struct jread *meta = NULL;
	char hex[SHA256_HEX];
	const char *path, *host;

	sha256_of(name, strlen(name), hex);
	path = arena_printf(a, "%s/contexts/meta/%s/meta.json", folder, hex);
	if (check_guests(path, e) < 0)
		return -e->code;
	meta = read_json(path);
	host = jread_str(jread_get(jread_get(meta, "Endpoints"), "docker"), "Host");
	if (!host)
		return err_refuse(e, ERR_CONFIG, ENOENT,
				  "docker context ls shows them; or set DOCKER_HOST",
				  "docker context '%.64s' is not known", name);
	*ret = arena_strdup(a, host);
	return *ret ? 0 : err_nomem(e);
}

static int add_context(struct arena *a, struct engine_places *at, struct err *e)
{
	const char *folder = config_folder(a), *name = getenv("DOCKER_CONTEXT"), *path = NULL;
	CLEANUP(jread) struct jread *config = NULL;
	const char *host = NULL;

	if (!folder)
		return 0;
	if (!name || !*name) {
		path = arena_printf(a, "%s/config.json", folder);
		config = path ? read_json(path) : NULL;
		name = jread_str(config, "currentContext");
	}
	if (!name || !*name || str_eq(name, "default"))
		return 0;
	if ((path && check_guests(path, e) < 0) || context_host(a, folder, name, &host, e) < 0)
		return -e->code;
	return add_address(a, at, "docker context", host, e);
}

static int add_usual(struct arena *a, struct engine_places *at, struct err *e)
{
	static const char *const in_home[] = { ".docker/run/docker.sock",
					       ".docker/desktop/docker.sock",
					       ".colima/default/docker.sock", ".rd/docker.sock" };
	static const char *const in_runtime[] = { "docker.sock", "podman/podman.sock" };
	const char *home = getenv("HOME"), *run = getenv("XDG_RUNTIME_DIR");
	const char *own = arena_printf(a, "/run/user/%u", geteuid());

	if (places_add(a, at, "/var/run/docker.sock", e) < 0)
		return -e->code;
	if (!run || run[0] != '/')
		run = own;
	for (size_t i = 0; i < ARRAY_LEN(in_runtime); i++)
		if (places_add(a, at, arena_printf(a, "%s/%s", run, in_runtime[i]), e) < 0 ||
		    places_add(a, at, arena_printf(a, "%s/%s", own, in_runtime[i]), e) < 0)
			return -e->code;
	for (size_t i = 0; home && home[0] == '/' && i < ARRAY_LEN(in_home); i++)
		if (places_add(a, at, arena_printf(a, "%s/%s", home, in_home[i]), e) < 0)
			return -e->code;
	return places_add(a, at, "/run/podman/podman.sock", e);
}

int engine_places(struct arena *a, struct engine_places *ret, struct err *e)
{
	static const char *const variables[] = { "DOCKER_HOST", "CONTAINER_HOST" };

	*ret = (struct engine_places){ 0 };
	for (size_t i = 0; i < ARRAY_LEN(variables); i++) {
		const char *value = getenv(variables[i]);

		if (value && *value)
			return add_address(a, ret, variables[i], value, e);
	}
	if (add_context(a, ret, e) < 0)
		return -e->code;
	return ret->named ? 0 : add_usual(a, ret, e);
}
