/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/confine_net.h"

#include <fcntl.h>
#include <grp.h>
#include <linux/landlock.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"

#define NOBODY 65534
#define FS_ABI_1 ((LANDLOCK_ACCESS_FS_MAKE_SYM << 1) - 1)
#define FS_TRUNCATE (1ULL << 14) /* ABI 3 */

/* Of the resolver and its modules, and of TLS. */
static const char *const readable[] = { "/etc",
					"/usr",
					"/lib",
					"/lib64",
					"/run/systemd/resolve",
					"/run/resolvconf",
					"/run/NetworkManager" };

static void allow_reading(int ruleset, const char *path)
{
	CLEANUP(fd) int fd = path ? open(path, O_PATH | O_DIRECTORY | O_CLOEXEC) : -1;
	struct landlock_path_beneath_attr a = { .allowed_access = LANDLOCK_ACCESS_FS_READ_FILE |
								  LANDLOCK_ACCESS_FS_READ_DIR,
						.parent_fd = fd };

	if (fd >= 0)
		(void)syscall(SYS_landlock_add_rule, ruleset, LANDLOCK_RULE_PATH_BENEATH, &a, 0);
}

static int landlock(const char *who, struct err *e)
{
	long abi = syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
	uint64_t want = FS_ABI_1;
	CLEANUP(fd) int fd = -1;

	if (abi < 1)
		return 0;
	want |= abi >= 2 ? LANDLOCK_ACCESS_FS_REFER : 0;
	want |= abi >= 3 ? FS_TRUNCATE : 0;
	fd = (int)syscall(SYS_landlock_create_ruleset, &want, sizeof(want), 0);
	if (fd < 0)
		return err_sys(e, "cannot confine %s", who);
	for (size_t i = 0; i < ARRAY_LEN(readable); i++)
		allow_reading(fd, readable[i]);
	allow_reading(fd, getenv("SSL_CERT_DIR"));
	return syscall(SYS_landlock_restrict_self, fd, 0) < 0 ? err_sys(e, "cannot confine %s", who)
							      : 0;
}

static int limit(int what, rlim_t most)
{
	const struct rlimit l = { most, most };

	return setrlimit((__rlimit_resource_t)what, &l);
}

int confine_net(const char *who, uint64_t most, struct err *e)
{
	if (geteuid() == 0 && (setgroups(0, NULL) < 0 || setresgid(NOBODY, NOBODY, NOBODY) < 0 ||
			       setresuid(NOBODY, NOBODY, NOBODY) < 0))
		return err_sys(e, "%s cannot become nobody", who);
	/* Changing ids cleared the first two. */
	if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0 ||
	    prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
	    limit(RLIMIT_CORE, 0) < 0 || limit(RLIMIT_NPROC, 0) < 0 ||
	    limit(RLIMIT_NOFILE, 64) < 0 || limit(RLIMIT_FSIZE, (rlim_t)most) < 0)
		return err_sys(e, "cannot confine %s", who);
	return landlock(who, e);
}
