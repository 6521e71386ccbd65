/* SPDX-License-Identifier: Apache-2.0 */
#include "model/known/toolchains.h"

#include <assert.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/files/fd.h"
#include "base/files/home.h"
#include "base/text/str.h"
#include "model/settings/paths.h"

const struct toolchain_kind toolchain_kinds[] = {
	{ "CARGO_HOME", ".cargo", "/bin", false },
	{ "RUSTUP_HOME", ".rustup", "", true },
	{ "PYENV_ROOT", ".pyenv", "", true },
	{ "UV_PYTHON_INSTALL_DIR", ".local/share/uv/python", "", true },
	{ "NVM_DIR", ".nvm", "/versions", false },
	{ "VOLTA_HOME", ".volta", "", true },
	{ "FNM_DIR", ".local/share/fnm", "", true },
	{ "NODENV_ROOT", ".nodenv", "", true },
	{ "RBENV_ROOT", ".rbenv", "", true },
	{ "GOENV_ROOT", ".goenv", "", true },
	{ "SDKMAN_DIR", ".sdkman", "/candidates", false },
	{ "ASDF_DATA_DIR", ".asdf", "/installs", false },
	{ "MISE_DATA_DIR", ".local/share/mise", "/installs", false },
	{ "BUN_INSTALL", ".bun", "/bin", false },
	{ "DENO_INSTALL", ".deno", "/bin", false },
};

static_assert(ARRAY_LEN(toolchain_kinds) == TOOLCHAIN_KINDS, "as the header says");

/* Absolute, and each of its parts a name: text can be compared then. */
static bool is_plain(const char *path)
{
	for (size_t n; *path; path += n) {
		if (*path++ != '/')
			return false;
		n = strcspn(path, "/");
		if (!n || (n == 1 && path[0] == '.') || (n == 2 && !strncmp(path, "..", 2)))
			return false;
	}
	return true;
}

static void cut_slashes(char *path)
{
	for (size_t n = strlen(path); n && path[n - 1] == '/'; n--)
		path[n - 1] = '\0';
}

bool toolchain_root(size_t kind, char *out, size_t n)
{
	const char *said = getenv(toolchain_kinds[kind].variable), *own = getenv("HOME");
	char home[PATH_MAX];
	int len;

	if (!own || snprintf(home, sizeof(home), "%s", own) >= (int)sizeof(home))
		return false;
	cut_slashes(home);
	if (!*home || !is_plain(home))
		return false;
	len = said && *said ? snprintf(out, n, "%s", said)
			    : snprintf(out, n, "%s/%s", home, toolchain_kinds[kind].below);
	if (len <= 0 || (size_t)len >= n)
		return false;
	cut_slashes(out);
	return is_plain(out) && path_under(out, home) && !str_eq(out, home) &&
	       home_kind(out, home) == HOME_APART;
}

bool toolchains_any(void)
{
	char root[PATH_MAX], path[PATH_MAX + 16];

	for (size_t i = 0; i < TOOLCHAIN_KINDS; i++) {
		CLEANUP(fd) int fd = -1;

		if (!toolchain_root(i, root, sizeof(root)))
			continue;
		(void)snprintf(path, sizeof(path), "%s%s", root, toolchain_kinds[i].part);
		fd = fd_open_nolinks(AT_FDCWD, path, O_PATH | O_DIRECTORY, 0);
		if (fd >= 0)
			return true;
	}
	return false;
}
