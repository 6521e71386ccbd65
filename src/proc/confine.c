/* SPDX-License-Identifier: Apache-2.0 */
/* proc/confine.c - see confine.h.
 *
 * A role is a row of `roles`. Landlock says which files and ports, where the kernel has it; the
 * filter says which system calls, by name (`calls`) and by argument (`bounds`), so that a kernel
 * without Landlock leaves a role little more than one with it. */
#include "proc/confine.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/audit.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/landlock.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/sys/sanitized.h"
#include "base/text/cleanup.h"

#define NOBODY 65534
#define DNS_PORT 53

#if defined(__aarch64__)
#define OWN_ARCH AUDIT_ARCH_AARCH64
#elif defined(__x86_64__)
#define OWN_ARCH AUDIT_ARCH_X86_64
#else
#error "no system-call filter for this architecture"
#endif

/* ---- the table ---- */

/* System calls, by what they are for. */
enum {
	CALLS_BARE = 1 << 0,   /* reading and writing what is open */
	CALLS_MEMORY = 1 << 1, /* never executable */
	CALLS_MAKE = 1 << 2,   /* files and folders, by descriptor */
	CALLS_SERVE = 1 << 3,  /* sockets that are open, time, signals to itself */
	CALLS_LOOP = 1 << 4,   /* base/loop, with a listening socket */
	CALLS_PAIR = 1 << 5,
	CALLS_TCP = 1 << 6,    /* new connections ... */
	CALLS_INET = 1 << 7,   /* ... and sockets of UDP, instead */
	CALLS_WAIT = 1 << 8,   /* wire/client: poll and sleep */
	CALLS_READ = 1 << 9,   /* files */
	CALLS_NAMES = 1 << 10, /* libc's resolver */
	CALLS_MEMFD = 1 << 11, /* answers in memory files */
	CALLS_LOOK = 1 << 12,  /* trees of files and their marks; nothing that writes */
	CALLS_LAYER = 1 << 13  /* links, whiteouts, marks and times, beside CALLS_MAKE */
};

#define CALLS_DIAL (CALLS_TCP | CALLS_INET)
#define CALLS_WORK (CALLS_BARE | CALLS_MEMORY | CALLS_SERVE)
#define CALLS_CLIENT (CALLS_WORK | CALLS_WAIT | CALLS_READ)

/* Where Debian keeps roots; links of the first lead to the others. OpenSSL reads a hashed folder of
 * them one by one. */
#define ROOTS                                                                                      \
	"/etc/ssl/certs", "/usr/lib/ssl", "/usr/share/ca-certificates",                            \
		"/usr/local/share/ca-certificates"

static const char *const no_files[] = { NULL };
static const char *const roots[] = { ROOTS, NULL };
/* Files of the resolver are replaced by others of the same name: the folder is what stays. The one
 * that /etc leads to may lie anywhere. */
static const char *const names[] = { ROOTS,
				     "/etc",
				     "/etc/resolv.conf",
				     "/run/systemd/resolve",
				     "/run/resolvconf",
				     "/run/NetworkManager",
				     NULL };

enum confine_net { NET_ALL, NET_NO_BIND, NET_PORT };

struct confinement {
	const char *name;
	const char *const *reads; /* NULL: all of the sandbox's */
	unsigned calls;           /* 0: no filter, and nothing of what follows */
	enum confine_net net;     /* TCP */
	rlim_t files;
	bool nobody, dies; /* not root's any more; with its parent */
	bool kills;        /* a call that is not left ends it, else it fails with EPERM */
};

static const struct confinement roles[] = {
	[CONFINE_COMMAND] = { "the command", NULL, 0, NET_ALL, 0, false, false, false },
	[CONFINE_WORKER] = { "the door", no_files, CALLS_WORK | CALLS_LOOP | CALLS_INET,
			     NET_NO_BIND, CONFINE_FILES, true, true, false },
	[CONFINE_KEEPER] = { "brig-keeper", no_files, CALLS_WORK, NET_PORT, CONFINE_FILES, true,
			     true, false },
	[CONFINE_SIGNER] = { "the signer", no_files, CALLS_WORK | CALLS_LOOP, NET_PORT,
			     CONFINE_FILES, true, true, false },
	[CONFINE_TLS] = { "brig-tls", no_files, CALLS_WORK | CALLS_LOOP | CALLS_PAIR, NET_PORT,
			  CONFINE_FILES, true, true, false },
	/* It outlives the brig that started it. */
	[CONFINE_SENDER] = { "brig-send", roots, CALLS_CLIENT | CALLS_TCP, NET_PORT, 64, true,
			     false, false },
	[CONFINE_SPEAKER] = { "brig-speaker", names,
			      CALLS_CLIENT | CALLS_INET | CALLS_NAMES | CALLS_MEMFD, NET_PORT, 64,
			      true, true, false },
	/* Blobs and tokens are wherever the registry says. */
	[CONFINE_REGISTRY] = { "brig-registry", names, CALLS_CLIENT | CALLS_INET | CALLS_NAMES,
			       NET_NO_BIND, 64, true, true, false },
	[CONFINE_UNPACKER] = { "the process that unpacks", no_files, CALLS_BARE | CALLS_MAKE,
			       NET_PORT, 256, false, true, true },
	[CONFINE_BUNDLER] = { "brig-unpack", no_files, CALLS_BARE | CALLS_MEMORY | CALLS_MAKE,
			      NET_PORT, 256, false, true, true },
	[CONFINE_LAYERER] = { "brig-unpack", no_files,
			      CALLS_BARE | CALLS_MEMORY | CALLS_MAKE | CALLS_LAYER, NET_PORT, 1024,
			      false, true, true },
	[CONFINE_INSPECTOR] = { "brig-unpack", no_files, CALLS_BARE | CALLS_MEMORY, NET_PORT, 256,
				false, true, true },
	[CONFINE_WALKER] = { "brig-look", no_files, CALLS_BARE | CALLS_MEMORY | CALLS_LOOK,
			     NET_PORT, 1024, false, true, false },
};
static_assert(ARRAY_LEN(roles) == CONFINE_ROLES, "one row a role");

#define SET(which, ...)                                                                            \
	{                                                                                          \
		which, (const unsigned short[]){ __VA_ARGS__ },                                    \
			ARRAY_LEN(((const unsigned short[]){ __VA_ARGS__ }))                       \
	}

/* A call is left to a role that has one of its sets. */
static const struct confine_set {
	unsigned which;
	const unsigned short *numbers;
	size_t count;
} sets[] = {
	SET(CALLS_BARE, SYS_read, SYS_write, SYS_close, SYS_exit_group, SYS_rt_sigreturn),
	SET(CALLS_MEMORY, SYS_brk, SYS_mmap, SYS_munmap, SYS_mremap, SYS_madvise, SYS_mprotect,
	    SYS_futex, SYS_sigaltstack, SYS_sched_yield, SYS_getpid, SYS_gettid),
	SET(CALLS_MEMORY | CALLS_MAKE, SYS_getrandom),
	SET(CALLS_MAKE, SYS_mkdirat, SYS_unlinkat, SYS_renameat, SYS_renameat2, SYS_fchmod,
	    SYS_openat2),
	SET(CALLS_LAYER, SYS_symlinkat, SYS_linkat, SYS_mknodat, SYS_fsetxattr, SYS_utimensat),
	SET(CALLS_MAKE | CALLS_READ | CALLS_LOOK, SYS_openat, SYS_fstat, SYS_newfstatat, SYS_fcntl),
	SET(CALLS_READ | CALLS_LOOK, SYS_lseek, SYS_pread64),
	SET(CALLS_LOOK, SYS_getdents64, SYS_readlinkat, SYS_fgetxattr, SYS_statx),
	SET(CALLS_SERVE, SYS_readv, SYS_writev, SYS_recvfrom, SYS_sendto, SYS_recvmsg, SYS_sendmsg,
	    SYS_clock_gettime, SYS_clock_getres, SYS_gettimeofday, SYS_exit, SYS_rt_sigprocmask,
	    SYS_rt_sigaction, SYS_restart_syscall, SYS_tgkill),
	SET(CALLS_LOOP, SYS_epoll_ctl, SYS_epoll_pwait, SYS_accept4),
	SET(CALLS_PAIR, SYS_socketpair),
	SET(CALLS_PAIR | CALLS_DIAL, SYS_setsockopt, SYS_shutdown),
	SET(CALLS_DIAL, SYS_socket, SYS_connect, SYS_getsockname, SYS_getpeername, SYS_getsockopt),
	SET(CALLS_WAIT, SYS_ppoll, SYS_nanosleep, SYS_clock_nanosleep),
	SET(CALLS_MEMFD, SYS_memfd_create),
	SET(CALLS_NAMES, SYS_sendmmsg, SYS_ioctl, SYS_uname),
#if defined(__x86_64__)
	SET(CALLS_SERVE, SYS_time),
	SET(CALLS_LOOP, SYS_epoll_wait),
	SET(CALLS_WAIT, SYS_poll),
#endif
};

#define OWN_PID UINT32_MAX
#define OPEN_CHANGES (O_ACCMODE | O_CREAT | O_TRUNC | (O_TMPFILE & ~O_DIRECTORY))

/* ... and then `argument & mask` is one of `values`, for a role that has one of these sets. */
static const struct confine_bound {
	unsigned short number, sets;
	unsigned char argument, count;
	uint32_t mask, values[4];
} bounds[] = {
	{ SYS_mmap, CALLS_MEMORY, 2, 1, PROT_EXEC, { 0 } },
	{ SYS_mprotect, CALLS_MEMORY, 2, 1, PROT_EXEC, { 0 } },
	/* As abort() sends them: without Landlock's scopes (ABI 6) the door of an ordinary user
	 * could end every process of that user. */
	{ SYS_tgkill, CALLS_SERVE, 0, 1, UINT32_MAX, { OWN_PID } },
	/* Not F_SETOWN, which sends signals. */
	{ SYS_fcntl,
	  CALLS_MAKE | CALLS_READ | CALLS_LOOK,
	  1,
	  4,
	  UINT32_MAX,
	  { F_DUPFD_CLOEXEC, F_GETFD, F_GETFL, F_SETFL } },
	/* A whiteout, and no device of this machine. */
	{ SYS_mknodat, CALLS_LAYER, 2, 1, UINT32_MAX, { S_IFCHR } },
	{ SYS_mknodat, CALLS_LAYER, 3, 1, UINT32_MAX, { 0 } },
	{ SYS_openat, CALLS_READ | CALLS_LOOK, 2, 1, OPEN_CHANGES, { O_RDONLY } },
	{ SYS_ioctl, CALLS_NAMES, 1, 1, UINT32_MAX, { FIONREAD } },
	{ SYS_socketpair, CALLS_PAIR, 0, 1, UINT32_MAX, { AF_UNIX } },
	/* No raw, netlink, packet or Unix sockets; none of MPTCP, for which Landlock has no word.
	 */
	{ SYS_socket, CALLS_DIAL, 0, 2, UINT32_MAX, { AF_INET, AF_INET6 } },
	{ SYS_socket, CALLS_DIAL, 2, 3, UINT32_MAX, { 0, IPPROTO_TCP, IPPROTO_UDP } },
	{ SYS_socket, CALLS_TCP, 1, 1, 0xf, { SOCK_STREAM } },
	{ SYS_socket, CALLS_INET, 1, 2, 0xf, { SOCK_STREAM, SOCK_DGRAM } },
	/* A first byte that connects is no connect() to Landlock. */
	{ SYS_sendto, CALLS_DIAL, 3, 1, MSG_FASTOPEN, { 0 } },
	{ SYS_sendmsg, CALLS_DIAL, 2, 1, MSG_FASTOPEN, { 0 } },
	{ SYS_sendmmsg, CALLS_DIAL, 3, 1, MSG_FASTOPEN, { 0 } },
};

/* ---- the filter ---- */

#define DATA(field) offsetof(struct seccomp_data, field)

struct confine_filter {
	struct sock_filter code[320];
	unsigned short n;
};

static void confine_load(struct confine_filter *f, size_t at)
{
	f->code[f->n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (uint32_t)at);
}

static void confine_answer(struct confine_filter *f, uint32_t verdict)
{
	f->code[f->n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, verdict);
}

/* Equal: skips so many; not equal: so many others. */
static void confine_compare(struct confine_filter *f, uint32_t value, size_t equal, size_t other)
{
	f->code[f->n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value,
						       (uint8_t)equal, (uint8_t)other);
}

static void bound(struct confine_filter *f, const struct confine_bound *b, uint32_t refuse)
{
	confine_load(f, DATA(args) + b->argument * sizeof(uint64_t));
	f->code[f->n++] = (struct sock_filter)BPF_STMT(BPF_ALU | BPF_AND | BPF_K, b->mask);
	for (size_t i = 0; i < b->count; i++)
		confine_compare(f, b->values[i] == OWN_PID ? (uint32_t)getpid() : b->values[i],
				b->count - i, 0);
	confine_answer(f, refuse);
}

static void confine_leave(struct confine_filter *f, unsigned number, unsigned have, uint32_t refuse)
{
	unsigned short at = f->n;

	confine_compare(f, number, 0, 0);
	for (size_t i = 0; i < ARRAY_LEN(bounds); i++)
		if (bounds[i].number == number && bounds[i].sets & have)
			bound(f, &bounds[i], refuse);
	confine_answer(f, SECCOMP_RET_ALLOW);
	f->code[at].jf = (uint8_t)(f->n - at - 1);
}

static int filter(const struct confinement *r, struct err *e)
{
	/* The sanitizers ask for memory on the way to _exit. */
	const unsigned have = r->calls | (SANITIZED ? CALLS_MEMORY : 0);
	const uint32_t refuse = r->kills ? SECCOMP_RET_KILL_PROCESS : SECCOMP_RET_ERRNO | EPERM;
	struct confine_filter f = { .n = 0 };
	struct sock_fprog p;

	confine_load(&f, DATA(arch));
	confine_compare(&f, OWN_ARCH, 1, 0);
	confine_answer(&f, SECCOMP_RET_KILL_PROCESS);
	confine_load(&f, DATA(nr));
	for (size_t i = 0; i < ARRAY_LEN(sets); i++)
		for (size_t k = 0; sets[i].which & have && k < sets[i].count; k++)
			confine_leave(&f, sets[i].numbers[k], have, refuse);
	confine_answer(&f, refuse);
	p = (struct sock_fprog){ .len = f.n, .filter = f.code };
	return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &p) < 0
		       ? err_sys(e, "cannot load the system-call filter of %s", r->name)
		       : 0;
}

/* ---- Landlock ---- */

/* Newer than the headers of Debian 12 (ABI 2): rights by their bit, structs of our own. */
#define FS_TRUNCATE (1ULL << 14)  /* ABI 3 */
#define FS_IOCTL_DEV (1ULL << 15) /* ABI 5 */
#define NET_BIND_TCP (1ULL << 0)  /* ABI 4 */
#define NET_CONNECT_TCP (1ULL << 1)
#define RULE_NET_PORT 2
#define SCOPES 3ULL /* ABI 6: abstract sockets, signals */

#define FS_ABI_1 ((LANDLOCK_ACCESS_FS_MAKE_SYM << 1) - 1)
#define FS_READ (LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR)
#define FS_SEE (FS_READ | LANDLOCK_ACCESS_FS_EXECUTE)
#define FS_WRITE (LANDLOCK_ACCESS_FS_WRITE_FILE | FS_TRUNCATE)
#define FS_MAKE                                                                                    \
	(LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_REMOVE_FILE |                          \
	 LANDLOCK_ACCESS_FS_MAKE_DIR | LANDLOCK_ACCESS_FS_MAKE_REG)
#define FS_LAYER                                                                                   \
	(FS_MAKE | LANDLOCK_ACCESS_FS_READ_DIR | LANDLOCK_ACCESS_FS_MAKE_SYM |                     \
	 LANDLOCK_ACCESS_FS_MAKE_CHAR | LANDLOCK_ACCESS_FS_REFER)
#define FS_ON_FILES                                                                                \
	(LANDLOCK_ACCESS_FS_EXECUTE | FS_WRITE | LANDLOCK_ACCESS_FS_READ_FILE | FS_IOCTL_DEV)

struct confine_rules {
	uint64_t fs, net, scoped; /* as the kernel's struct landlock_ruleset_attr */
	int fd;
};

struct confine_port {
	uint64_t allowed, port; /* as its struct landlock_net_port_attr */
};

int landlock_abi(void)
{
	long abi = syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);

	return abi < 0 ? 0 : (int)abi;
}

static int open_rules(struct confine_rules *l, int abi, enum confine_net net)
{
	l->fs = FS_ABI_1 | (abi >= 2 ? LANDLOCK_ACCESS_FS_REFER : 0) |
		(abi >= 3 ? FS_TRUNCATE : 0) | (abi >= 5 ? FS_IOCTL_DEV : 0);
	l->net = abi < 4 || net == NET_ALL ? 0 : NET_BIND_TCP;
	l->net |= abi < 4 || net != NET_PORT ? 0 : NET_CONNECT_TCP;
	l->scoped = abi >= 6 ? SCOPES : 0;
	l->fd = (int)syscall(SYS_landlock_create_ruleset, l,
			     abi >= 6   ? offsetof(struct confine_rules, fd)
			     : abi >= 4 ? offsetof(struct confine_rules, scoped)
					: offsetof(struct confine_rules, net),
			     0);
	return l->fd;
}

static int allow_fd(const struct confine_rules *l, int fd, uint64_t rights)
{
	struct landlock_path_beneath_attr a = { .allowed_access = rights & l->fs, .parent_fd = fd };

	if (syscall(SYS_landlock_add_rule, l->fd, LANDLOCK_RULE_PATH_BENEATH, &a, 0) == 0)
		return 0;
	/* It is a file, seldom enough: the rights of a folder are not for it. */
	a.allowed_access &= FS_ON_FILES;
	return errno == EINVAL && syscall(SYS_landlock_add_rule, l->fd, LANDLOCK_RULE_PATH_BENEATH,
					  &a, 0) == 0
		       ? 0
		       : -1;
}

static int confine_allow(const struct confine_rules *l, const char *path, uint64_t rights,
			 struct err *e)
{
	CLEANUP(fd) int fd = open(path, O_PATH | O_CLOEXEC);

	/* What is only read, and is not there, gives nothing. */
	if (fd < 0 && rights == FS_READ)
		return 0;
	if (fd < 0)
		return err_sys(e, "cannot open '%s' for its Landlock rule", path);
	return allow_fd(l, fd, rights) < 0
		       ? err_sys(e, "cannot add the Landlock rule for '%s'", path)
		       : 0;
}

/* Everything that is visible may be read and executed; what may be changed is said by path. Devices
 * and /proc are decided by their mounts and modes. */
static int command_rules(const struct confine_rules *l, const struct confine_want *w, struct err *e)
{
	if (confine_allow(l, "/", FS_SEE, e) < 0 ||
	    confine_allow(l, "/dev", FS_SEE | FS_WRITE | FS_IOCTL_DEV, e) < 0 ||
	    confine_allow(l, "/proc", FS_SEE | FS_WRITE, e) < 0)
		return -e->code;
	if (w->procs >= 0 && allow_fd(l, w->procs, FS_SEE | FS_WRITE) < 0)
		return err_sys(e, "cannot add the Landlock rule of a procfs");
	for (size_t i = 0; i < w->writable_count; i++) {
		bool none = i < 64 ? w->no_sockets >> i & 1 : w->no_sockets != 0;

		if (confine_allow(l, w->writable[i],
				  none ? l->fs & ~(uint64_t)LANDLOCK_ACCESS_FS_MAKE_SOCK : l->fs,
				  e) < 0)
			return -e->code;
	}
	return 0;
}

static int port_rule(const struct confine_rules *l, uint16_t port, struct err *e)
{
	const struct confine_port p = { .allowed = NET_CONNECT_TCP, .port = port };

	return port && l->net & NET_CONNECT_TCP &&
			       syscall(SYS_landlock_add_rule, l->fd, RULE_NET_PORT, &p, 0) < 0
		       ? err_sys(e, "cannot add the Landlock rule for port %u", port)
		       : 0;
}

static int role_rules(const struct confine_rules *l, const struct confinement *r,
		      const struct confine_want *w, struct err *e)
{
	static const char *const variables[] = { "SSL_CERT_DIR", "SSL_CERT_FILE" };

	for (size_t i = 0; r->reads[i]; i++)
		if (confine_allow(l, r->reads[i], FS_READ, e) < 0)
			return -e->code;
	for (size_t i = 0; r->calls & CALLS_READ && i < ARRAY_LEN(variables); i++) {
		const char *named = getenv(variables[i]);

		if (named && confine_allow(l, named, FS_READ, e) < 0)
			return -e->code;
	}
	if (r->calls & CALLS_MAKE &&
	    allow_fd(l, w->folder, r->calls & CALLS_LAYER ? FS_LAYER : FS_MAKE) < 0)
		return err_sys(e, "cannot add the Landlock rule of a folder");
	for (size_t i = 0; r->calls & CALLS_LOOK && i < w->look_count; i++)
		if (allow_fd(l, w->looks[i], FS_READ) < 0)
			return err_sys(e, "cannot add the Landlock rule of a folder");
	if (r->calls & CALLS_NAMES && port_rule(l, DNS_PORT, e) < 0)
		return -e->code;
	return r->calls & CALLS_DIAL ? port_rule(l, w->port, e) : 0;
}

static int landlock(const struct confinement *r, const struct confine_want *w, struct err *e)
{
	CLEANUP(fd) int fd = -1;
	struct confine_rules l;
	int abi = landlock_abi();

	if (abi == 0)
		return 0;
	fd = open_rules(&l, abi, r->net);
	if (fd < 0)
		return err_sys(e, "cannot make the Landlock ruleset of %s", r->name);
	if ((r->reads ? role_rules(&l, r, w, e) : command_rules(&l, w, e)) < 0)
		return -e->code;
	if (syscall(SYS_landlock_restrict_self, fd, 0) < 0)
		return err_sys(e, "%s cannot enter its Landlock domain", r->name);
	return 0;
}

/* ---- limits and identity ---- */

static int limit(const struct confinement *r, uint64_t bytes, struct err *e)
{
	const struct {
		int what;
		rlim_t most;
	} all[] = { { RLIMIT_CORE, 0 },
		    { RLIMIT_NPROC, 0 },
		    { RLIMIT_NOFILE, r->files },
		    { RLIMIT_FSIZE, (rlim_t)bytes } };

	for (size_t i = 0; i < ARRAY_LEN(all); i++) {
		struct rlimit l;

		if (getrlimit((__rlimit_resource_t)all[i].what, &l) < 0)
			return err_sys(e, "cannot read a limit of %s", r->name);
		if (l.rlim_max > all[i].most)
			l.rlim_max = all[i].most;
		l.rlim_cur = l.rlim_max;
		if (setrlimit((__rlimit_resource_t)all[i].what, &l) < 0)
			return err_sys(e, "cannot set a limit of %s", r->name);
	}
	return 0;
}

/* Started by root it is nobody from here on. */
static int confine_drop(const struct confinement *r, struct err *e)
{
	struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct none[2] = { 0 };

	for (int cap = 0; geteuid() == 0 && cap < 64; cap++)
		if (prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) < 0)
			break;
	if (geteuid() == 0 && (setgroups(0, NULL) < 0 || setresgid(NOBODY, NOBODY, NOBODY) < 0 ||
			       setresuid(NOBODY, NOBODY, NOBODY) < 0))
		return err_sys(e, "%s cannot become nobody", r->name);
	return syscall(SYS_capset, &head, none) < 0
		       ? err_sys(e, "%s cannot give up its capabilities", r->name)
		       : 0;
}

int confine_early(struct err *e)
{
	if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0 || prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0)
		return err_sys(e, "a process cannot protect itself");
	return 0;
}

int confine(enum confine_role role, const struct confine_want *want, struct err *e)
{
	const struct confine_want nothing = { .procs = -1, .folder = -1 };
	const struct confinement *r = &roles[role];

	want = want ? want : &nothing;
	if (!r->calls)
		return landlock(r, want, e);
	if (limit(r, want->bytes, e) < 0 || (r->nobody && confine_drop(r, e) < 0))
		return -e->code;
	/* Changing ids cleared the first two. */
	if ((r->dies && prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0) ||
	    prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return err_sys(e, "%s cannot protect itself", r->name);
	return landlock(r, want, e) < 0 ? -e->code : filter(r, e);
}
