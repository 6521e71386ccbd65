/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/kit/process/landlock.h"

#include <fcntl.h>
#include <linux/landlock.h>
#include <stdint.h>
#include <sys/syscall.h>

#include "base/cleanup.h"

/* Newer than the headers of Debian 12 (ABI 2): rights by their bit, scopes by their struct. */
#define FS_TRUNCATE (1ULL << 14)        /* ABI 3 */
#define FS_IOCTL_DEV (1ULL << 15)       /* ABI 5 */
#define SCOPE_ABSTRACT_UNIX (1ULL << 0) /* ABI 6 */
#define SCOPE_SIGNAL (1ULL << 1)

#define FS_READ                                                                                    \
	(LANDLOCK_ACCESS_FS_EXECUTE | LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR)
#define FS_ABI_1 ((LANDLOCK_ACCESS_FS_MAKE_SYM << 1) - 1)
#define FS_ON_FILES                                                                                \
	(LANDLOCK_ACCESS_FS_EXECUTE | LANDLOCK_ACCESS_FS_WRITE_FILE |                              \
	 LANDLOCK_ACCESS_FS_READ_FILE | FS_TRUNCATE | FS_IOCTL_DEV)

struct landlock_ruleset {
	uint64_t fs, net, scoped;
};

int landlock_abi(void)
{
	long abi = syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);

	return abi < 0 ? 0 : (int)abi;
}

static uint64_t rights_of(int abi)
{
	uint64_t fs = FS_ABI_1;

	if (abi >= 2)
		fs |= LANDLOCK_ACCESS_FS_REFER;
	if (abi >= 3)
		fs |= FS_TRUNCATE;
	if (abi >= 5)
		fs |= FS_IOCTL_DEV;
	return fs;
}

static int allow(int ruleset, const char *path, uint64_t rights, struct err *e)
{
	CLEANUP(fd) int fd = open(path, O_PATH | O_CLOEXEC);
	struct landlock_path_beneath_attr a = { .allowed_access = rights, .parent_fd = fd };

	if (fd < 0)
		return err_sys(e, "cannot open '%s' for its Landlock rule", path);
	if (syscall(SYS_landlock_add_rule, ruleset, LANDLOCK_RULE_PATH_BENEATH, &a, 0) == 0)
		return 0;
	/* It is a file, seldom enough: the rights of a folder are not for it. */
	a.allowed_access &= FS_ON_FILES;
	if (errno != EINVAL ||
	    syscall(SYS_landlock_add_rule, ruleset, LANDLOCK_RULE_PATH_BENEATH, &a, 0) < 0)
		return err_sys(e, "cannot add the Landlock rule for '%s'", path);
	return 0;
}

int landlock_apply(const char *const *writable, size_t n, struct err *e)
{
	int abi = landlock_abi();
	uint64_t all = rights_of(abi);
	struct landlock_ruleset attr = { .fs = all,
					 .scoped = abi >= 6 ? SCOPE_ABSTRACT_UNIX | SCOPE_SIGNAL
							    : 0 };
	size_t size = abi >= 6 ? sizeof(attr) : sizeof(attr.fs);
	CLEANUP(fd) int ruleset = -1;

	if (abi == 0)
		return 0;
	ruleset = (int)syscall(SYS_landlock_create_ruleset, &attr, size, 0);
	if (ruleset < 0)
		return err_sys(e, "cannot make a Landlock ruleset");
	if (allow(ruleset, "/", FS_READ, e) < 0)
		return -e->code;
	/* Devices and /proc are decided by their mounts and modes; a thread names its siblings
	 * there. */
	if (allow(ruleset, "/dev",
		  FS_READ | LANDLOCK_ACCESS_FS_WRITE_FILE | (all & FS_TRUNCATE) |
			  (all & FS_IOCTL_DEV),
		  e) < 0 ||
	    allow(ruleset, "/proc", FS_READ | LANDLOCK_ACCESS_FS_WRITE_FILE | (all & FS_TRUNCATE),
		  e) < 0)
		return -e->code;
	for (size_t i = 0; i < n; i++)
		if (allow(ruleset, writable[i], all, e) < 0)
			return -e->code;
	if (syscall(SYS_landlock_restrict_self, ruleset, 0) < 0)
		return err_sys(e, "cannot enter the Landlock domain");
	return abi;
}
