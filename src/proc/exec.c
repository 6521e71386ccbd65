/* SPDX-License-Identifier: Apache-2.0 */
#include "proc/exec.h"

#include <errno.h>
#include <limits.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

/* errno as execve left it, or ENOENT for what is not there: a folder that may not be searched says
 * EACCES for any name. To look first is a third of what it takes to fail. */
static int exec_try(const char *path, char *const *argv, char *const *envp)
{
	if (access(path, F_OK) < 0)
		return ENOENT;
	(void)execve(path, argv, envp);
	return errno == ENOTDIR ? ENOENT : errno;
}

/* "FOLDER/NAME"; false: it is too long. */
static bool exec_join(char *full, size_t size, const char *folder, size_t n, const char *name)
{
	size_t length = strlen(name) + 1;

	if (n + 1 + length > size)
		return false;
	memcpy(full, folder, n);
	full[n] = '/';
	memcpy(full + n + (n > 0), name, length);
	return true;
}

int proc_exec(const char *const *argv_, const char *const *envp_, const char *path)
{
	char *const *argv = (char *const *)(uintptr_t)argv_, *const *envp =
								     (char *const *)(uintptr_t)
									     envp_;
	const char *name = argv[0];
	int result = ENOENT;

	if (!*name || strchr(name, '/')) {
		(void)execve(name, argv, envp);
		return errno;
	}
	for (bool more = true; more && (result == ENOENT || result == EACCES);) {
		char full[PATH_MAX];
		size_t n = strcspn(path, ":");
		int code = exec_join(full, sizeof(full), path, n, name) ? exec_try(full, argv, envp)
									: ENOENT;

		if (code != ENOENT)
			result = code;
		more = path[n] == ':';
		path += n + more;
	}
	return result;
}

void proc_exec_failed(const char *name, int code, bool inside, struct err *e)
{
	bool missing = code == ENOENT || code == ENOTDIR;

	/* ENOENT for a file that is there: its interpreter, or loader, is not. */
	if (missing && strchr(name, '/') && access(name, F_OK) == 0)
		(void)err_refuse(e, ERR_NOT_EXECUTABLE, code,
				 inside ? "see its first line, or its loader; what they name can "
					  "be shown with --read"
					: "see its first line, or its loader",
				 "'%s': its interpreter is not there%s", name,
				 inside ? " inside" : "");
	else if (missing)
		(void)err_refuse(e, ERR_NOT_FOUND, code,
				 inside ? "correct the name, or show what holds it: --read FOLDER"
					: "correct the name, or PATH",
				 "'%s': command not found", name);
	else
		(void)err_refuse(e, ERR_NOT_EXECUTABLE, code,
				 "it must be a file that may be executed: chmod +x, or name its "
				 "interpreter in front",
				 "'%s': %s", name, strerrordesc_np(code));
}
