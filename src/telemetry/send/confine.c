/* SPDX-License-Identifier: Apache-2.0 */
#include "telemetry/send/confine.h"

#include <fcntl.h>
#include <linux/landlock.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include "base/cleanup.h"

/* Newer than the headers of Debian 12. */
#define FS_ABI_1 ((LANDLOCK_ACCESS_FS_MAKE_SYM << 1) - 1)
#define FS_TRUNCATE (1ULL << 14)  /* ABI 3 */
#define FS_IOCTL_DEV (1ULL << 15) /* ABI 5 */
#define NET_BIND_TCP (1ULL << 0)  /* ABI 4 */
#define NET_CONNECT_TCP (1ULL << 1)
#define RULE_NET_PORT 2

struct confine_ruleset {
	uint64_t fs, net;
};

struct net_port {
	uint64_t allowed, port;
};

/* Where Debian keeps roots; links of the first lead to the others. */
static const char *const roots[] = { "/etc/ssl/certs", "/usr/lib/ssl", "/usr/share/ca-certificates",
				     "/usr/local/share/ca-certificates" };

static void limit(int what, rlim_t most)
{
	const struct rlimit l = { most, most };

	(void)setrlimit(what, &l);
}

static void allow_reading(int ruleset, const char *path)
{
	CLEANUP(fd) int fd = path ? open(path, O_PATH | O_DIRECTORY | O_CLOEXEC) : -1;
	struct landlock_path_beneath_attr a = { .allowed_access = LANDLOCK_ACCESS_FS_READ_FILE |
								  LANDLOCK_ACCESS_FS_READ_DIR,
						.parent_fd = fd };

	if (fd >= 0)
		(void)syscall(SYS_landlock_add_rule, ruleset, LANDLOCK_RULE_PATH_BENEATH, &a, 0);
}

static void landlock(uint16_t port)
{
	long abi = syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
	struct net_port to = { .allowed = NET_CONNECT_TCP, .port = port };
	struct confine_ruleset want = { .fs = FS_ABI_1 };
	CLEANUP(fd) int fd = -1;

	if (abi < 1)
		return;
	want.fs |= abi >= 2 ? LANDLOCK_ACCESS_FS_REFER : 0;
	want.fs |= abi >= 3 ? FS_TRUNCATE : 0;
	want.fs |= abi >= 5 ? FS_IOCTL_DEV : 0;
	want.net = abi >= 4 ? NET_BIND_TCP | NET_CONNECT_TCP : 0;
	fd = (int)syscall(SYS_landlock_create_ruleset, &want,
			  abi >= 4 ? sizeof(want) : sizeof(want.fs), 0);
	if (fd < 0)
		return;
	for (size_t i = 0; i < ARRAY_LEN(roots); i++)
		allow_reading(fd, roots[i]);
	allow_reading(fd, getenv("SSL_CERT_DIR"));
	if (want.net)
		(void)syscall(SYS_landlock_add_rule, fd, RULE_NET_PORT, &to, 0);
	(void)syscall(SYS_landlock_restrict_self, fd, 0);
}

void confine(uint16_t port)
{
	(void)prctl(PR_SET_DUMPABLE, 0, 0, 0, 0); /* a header may be a secret */
	(void)prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	limit(RLIMIT_CORE, 0);
	limit(RLIMIT_FSIZE, 0); /* its place among the senders is a file to lock, not to fill */
	limit(RLIMIT_NPROC, 0);
	limit(RLIMIT_NOFILE, 64);
	landlock(port);
}
