/* SPDX-License-Identifier: Apache-2.0 */
/* syscalls.c - the system-call surface: namespaces, odd interfaces, sockets, noise. */
#include <linux/bpf.h>
#include <linux/filter.h>
#include <linux/netlink.h>
#include <linux/perf_event.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>

#include "attack.h"

#ifndef CLONE_NEWTIME
#define CLONE_NEWTIME 0x80
#endif

static const struct {
	const char *name;
	unsigned long flag;
} spaces[] = { { "user", CLONE_NEWUSER },    { "mount", CLONE_NEWNS }, { "pid", CLONE_NEWPID },
	       { "net", CLONE_NEWNET },      { "ipc", CLONE_NEWIPC },  { "uts", CLONE_NEWUTS },
	       { "cgroup", CLONE_NEWCGROUP } };
#define SPACES (sizeof(spaces) / sizeof(spaces[0]))

static const char *labelled(const char *what, const char *name)
{
	static char text[128];

	snprintf(text, sizeof(text), "%s-%s", what, name);
	return text;
}

static void collect(long pid)
{
	if (pid == 0)
		_exit(0);
	if (pid > 0)
		waitpid((pid_t)pid, NULL, __WALL);
}

/* One child each, so that a success does not change the next attempt. */
static void namespaces(int argc, char **argv)
{
	(void)argc, (void)argv;
	for (size_t i = 0; i < SPACES; i++) {
		int status;
		pid_t pid = fork();

		if (pid == 0)
			_exit(unshare((int)spaces[i].flag) < 0 ? errno : 0);
		waitpid(pid, &status, 0);
		errno = WEXITSTATUS(status);
		tried(labelled("unshare", spaces[i].name), errno ? -1 : 0);
		pid = (pid_t)syscall(SYS_clone, spaces[i].flag | SIGCHLD, NULL, NULL, NULL, NULL);
		collect(pid);
		tried(labelled("clone", spaces[i].name), pid);
		pid = (pid_t)syscall(SYS_clone, 0xffffffff00000000UL | spaces[i].flag | SIGCHLD,
				     NULL, NULL, NULL, NULL);
		collect(pid);
		tried(labelled("clone-high", spaces[i].name), pid);
	}
	{
		pid_t pid = fork();
		int status;

		if (pid == 0)
			_exit(unshare(CLONE_NEWUSER | CLONE_NEWTIME) < 0 ? errno : 0);
		waitpid(pid, &status, 0);
		errno = WEXITSTATUS(status);
		tried("unshare-time", errno ? -1 : 0);
	}
}

/* The flags lie in memory, where no filter looks. */
static void clone3_spaces(int argc, char **argv)
{
	(void)argc, (void)argv;
	for (size_t i = 0; i < SPACES; i++) {
		uint64_t args[11] = { spaces[i].flag, 0, 0, 0, SIGCHLD };
		long pid = syscall(435, args, sizeof(args));

		collect(pid);
		tried(labelled("clone3", spaces[i].name), pid);
	}
	{
		uint64_t plain[11] = { 0, 0, 0, 0, SIGCHLD };
		long pid = syscall(435, plain, sizeof(plain));

		collect(pid);
		printf("= clone3-plain %s\n", pid < 0 ? strerrorname_np(errno) : "works");
	}
}

static void join(int argc, char **argv)
{
	static const char *const kinds[] = { "user",   "mnt",  "pid",
					     "net",    "ipc",  "uts",
					     "cgroup", "time", "pid_for_children" };
	int last = argc ? atoi(argv[0]) : 40;

	for (int pid = argc > 1 ? atoi(argv[1]) : 0; pid <= last; pid++)
		for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
			char path[64];
			int fd;

			snprintf(path, sizeof(path), "/proc/%d/ns/%s", pid ? pid : getpid(),
				 kinds[i]);
			fd = open(path, O_RDONLY);
			if (fd < 0)
				continue;
			tried(labelled("setns", kinds[i]), setns(fd, 0));
			close(fd);
		}
	tried("setns-pidfd", setns((int)syscall(SYS_pidfd_open, getppid(), 0), CLONE_NEWUTS));
}

static void interfaces(int argc, char **argv)
{
	char ring[120] = { 0 },
	     *text = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	union bpf_attr map = {
		.map_type = BPF_MAP_TYPE_ARRAY, .key_size = 4, .value_size = 4, .max_entries = 1
	};
	struct bpf_insn code[] = { { .code = 0xb7 }, { .code = 0x95 } };
	union bpf_attr load = { .prog_type = BPF_PROG_TYPE_SOCKET_FILTER,
				.insn_cnt = 2,
				.insns = (uintptr_t)code,
				.license = (uintptr_t) "GPL" };
	struct perf_event_attr perf = { .type = PERF_TYPE_SOFTWARE,
					.size = sizeof(perf),
					.config = PERF_COUNT_SW_CPU_CLOCK,
					.exclude_kernel = 1 };
	long key;

	(void)argc, (void)argv;
	reached("io_uring_setup", syscall(425, 8, ring));
	reached("io_uring_enter", syscall(426, -1, 0, 0, 0, NULL, 0));
	reached("io_uring_register", syscall(427, -1, 0, NULL, 0));
	reached("bpf-map", syscall(SYS_bpf, BPF_MAP_CREATE, &map, sizeof(map)));
	reached("bpf-load", syscall(SYS_bpf, BPF_PROG_LOAD, &load, sizeof(load)));
	key = syscall(SYS_add_key, "user", "brig-escape", "x", 1, -2 /* process keyring */);
	reached("add_key", key);
	reached("keyctl-join", syscall(SYS_keyctl, 1 /* JOIN_SESSION_KEYRING */, "brig-escape"));
	reached("keyctl-search", syscall(SYS_keyctl, 10, -4, "user", "brig-escape", 0));
	reached("keyctl-read", syscall(SYS_keyctl, 11, key, text, 4096));
	reached("keyctl-persistent", syscall(SYS_keyctl, 22, -1, -2));
	reached("request_key", syscall(SYS_request_key, "user", "none", NULL, 0));
	reached("perf_event_open", syscall(SYS_perf_event_open, &perf, 0, -1, -1, 0));
	reached("userfaultfd", syscall(SYS_userfaultfd, 1));
	reached("kexec_load", syscall(SYS_kexec_load, 0, 0, NULL, 0xffff0000UL));
#ifdef SYS_kexec_file_load
	reached("kexec_file_load", syscall(SYS_kexec_file_load, -1, -1, 0, NULL, 0xffffUL));
#endif
	reached("init_module", syscall(SYS_init_module, text, 0, ""));
	reached("finit_module", syscall(SYS_finit_module, -1, "", 0));
	reached("delete_module", syscall(SYS_delete_module, "no-such-module", O_NONBLOCK));
	reached("swapon", syscall(SYS_swapon, "/nonexistent", 0));
	reached("swapoff", syscall(SYS_swapoff, "/nonexistent"));
	reached("reboot", syscall(SYS_reboot, 0, 0, 0, NULL));
	reached("settimeofday", syscall(SYS_settimeofday, NULL, NULL));
	reached("clock_settime",
		syscall(SYS_clock_settime, CLOCK_MONOTONIC, &(struct timespec){ 0, 0 }));
	reached("adjtimex", syscall(SYS_adjtimex, text));
	reached("acct", syscall(SYS_acct, "/nonexistent"));
	reached("quotactl", syscall(SYS_quotactl, 0x800004 << 8, "/nonexistent", 0, text));
	reached("syslog", syscall(SYS_syslog, 10, NULL, 0));
	reached("kcmp", syscall(SYS_kcmp, getpid(), getpid(), 0, 0, 1));
	reached("sethostname", syscall(SYS_sethostname, text, -1));
	reached("setdomainname", syscall(SYS_setdomainname, text, -1));
	reached("fanotify_init", syscall(SYS_fanotify_init, 0x200 /* report fid */, 0));
	reached("lookup_dcookie", syscall(SYS_lookup_dcookie, 0UL, text, 4096));
	reached("vmsplice", syscall(SYS_vmsplice, -1, NULL, 0, 0));
	reached("memfd_secret", syscall(447, 0));
	reached("statmount", syscall(457, NULL, NULL, 0, 0));
	reached("listmount", syscall(458, NULL, NULL, 0, 0));
	reached("pidfd_getfd", syscall(438, syscall(SYS_pidfd_open, getpid(), 0), 0, 0));
	reached("move_pages", syscall(SYS_move_pages, 0, 0UL, NULL, NULL, NULL, 0));
	reached("mbind", syscall(SYS_mbind, text, 4096UL, 0, NULL, 0UL, 0));
#ifdef SYS_iopl
	reached("iopl", syscall(SYS_iopl, 0));
	reached("ioperm", syscall(SYS_ioperm, 0UL, 0UL, 0));
	reached("modify_ldt", syscall(SYS_modify_ldt, 0, text, 16UL));
#endif
	/* Numbers no kernel has, the x32 bit, the end of the table. */
	for (long nr = 480; nr < 1024; nr++)
		if (syscall(nr, 0, 0, 0, 0, 0, 0) >= 0 || errno != ENOSYS)
			yes("unknown", "%ld", nr);
	errno = 0;
	if (syscall(0x40000000L | 39) >= 0 || errno != ENOSYS)
		yes("x32", "%d", errno);
}

/* Prints family/type/protocol of every socket that can be made. */
static void sockets(int argc, char **argv)
{
	static const int types[] = { 1, 2, 3, 4, 5, 6, 10 },
			 protocols[] = { 0, 1, 2, 6, 17, 33, 58, 132, 136, 255, 262 };

	(void)argc, (void)argv;
	for (int family = 0; family < 64; family++)
		for (size_t t = 0; t < 7; t++)
			for (size_t p = 0; p < 11; p++) {
				int s = socket(family, types[t], protocols[p]);

				if (s >= 0) {
					printf("= socket:%d/%d/%d made\n", family, types[t],
					       protocols[p]);
					close(s);
				}
			}
	for (int p = 0; p < 32; p++)
		for (int type = SOCK_RAW; type >= SOCK_DGRAM; type--) {
			int s = socket(AF_NETLINK, type, p);

			if (s >= 0) {
				printf("= netlink:%d made\n", p);
				close(s);
			}
		}
	for (int family = 0; family < 64; family++) {
		int pair[2];

		if (syscall(SYS_socketpair, family, SOCK_STREAM, 0, pair) == 0)
			printf("= pair:%d made\n", family);
	}
	/* The high half of the register must not hide the family. */
	if (syscall(SYS_socket, 0x100000000L | AF_PACKET, SOCK_RAW, 0) >= 0)
		printf("= socket:17/3/0 made\n");
	no("sockets", 0);
}

/* FILE: by a handle of its own, and by the guess that the root of a file system is inode 2. */
static void handles(int argc, char **argv)
{
	struct {
		struct file_handle h;
		unsigned char bytes[128];
	} f = { .h = { .handle_bytes = 128 } };
	int mount_id, dir = open(argc ? argv[0] : "/workspace", O_RDONLY | O_DIRECTORY);
	uint32_t guess[2] = { 2, 0 };

	tried("name_to_handle_at",
	      name_to_handle_at(AT_FDCWD, argc ? argv[0] : "/workspace", &f.h, &mount_id, 0));
	if (worked)
		tried("own", open_by_handle_at(dir, &f.h, O_RDONLY));
	f.h.handle_bytes = 8;
	f.h.handle_type = 1;
	memcpy(f.h.f_handle, guess, 8);
	tried("guess", open_by_handle_at(dir, &f.h, O_RDONLY | O_DIRECTORY));
}

static void personalities(int argc, char **argv)
{
	static const struct {
		const char *name;
		unsigned long value;
	} all[] = { { "read-implies-exec", READ_IMPLIES_EXEC },
		    { "no-randomise", ADDR_NO_RANDOMIZE },
		    { "uname26", UNAME26 },
		    { "compat-layout", ADDR_COMPAT_LAYOUT },
		    { "mmap-page-zero", MMAP_PAGE_ZERO },
		    { "short-inode", SHORT_INODE },
		    { "sticky-timeouts", STICKY_TIMEOUTS },
		    { "limit-3gb", ADDR_LIMIT_3GB },
		    { "svr4", PER_SVR4 },
		    { "hpux", PER_HPUX },
		    { "high", 0x100000000UL | READ_IMPLIES_EXEC } };

	(void)argc, (void)argv;
	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		long old = syscall(SYS_personality, all[i].value);

		tried(all[i].name, old);
		if (old >= 0)
			syscall(SYS_personality, 0UL);
	}
}

static void listener(int argc, char **argv)
{
	struct sock_filter allow = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	struct sock_fprog f = { .len = 1, .filter = &allow };

	(void)argc, (void)argv;
	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	tried("new-listener",
	      syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER, &f));
	tried("new-listener-high", syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER,
					   0x100000000UL | SECCOMP_FILTER_FLAG_NEW_LISTENER, &f));
	printf("= own-filter %s\n", syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &f) < 0
					    ? strerrorname_np(errno)
					    : "works");
}

static void *in_thread(void *arg)
{
	(void)arg;
	tried("thread-unshare", unshare(CLONE_NEWUSER));
	tried("thread-io_uring", syscall(425, 8, (char[120]){ 0 }));
	return NULL;
}

static void threads(int argc, char **argv)
{
	pthread_t t;

	pthread_create(&t, NULL, in_thread, NULL);
	if (argc)
		let_host_look(argv[0]);
	pthread_join(t, NULL);
}

/* Everything a process may say about its own death, then waits for its launcher to die. */
static void undying(int argc, char **argv)
{
	prctl(PR_SET_PDEATHSIG, 0, 0, 0, 0);
	prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
	prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
	tried("set-mm", prctl(PR_SET_MM, PR_SET_MM_EXE_FILE, open("/bin/sh", O_RDONLY), 0, 0));
	for (int s = 1; s < 65; s++)
		signal(s, SIG_IGN);
	for (int i = 0; i < 5; i++)
		if (fork() == 0) {
			setsid();
			if (fork())
				_exit(0);
			pause();
		}
	if (argc)
		let_host_look(argv[0]);
	for (;;)
		pause();
}

/* COUNT random calls with random arguments from SEED, in children that may die as they like. */
static uint64_t next(uint64_t *s)
{
	*s ^= *s << 13;
	*s ^= *s >> 7;
	return *s ^= *s << 17;
}

static bool too_final(long nr)
{
	switch (nr) { /* they would only end or stop the noise itself */
	case SYS_exit:
	case SYS_exit_group:
	case SYS_kill:
	case SYS_tkill:
	case SYS_tgkill:
	case SYS_rt_sigqueueinfo:
	case SYS_rt_tgsigqueueinfo:
	case SYS_rt_sigreturn:
	case SYS_execve:
	case SYS_execveat:
	case 424: /* pidfd_send_signal */
#ifdef SYS_fork
	case SYS_fork:
	case SYS_vfork:
	case SYS_pause:
#endif
		return true;
	}
	return false;
}

static void noise_child(uint64_t seed, volatile long *count, long most)
{
	char *room =
		mmap(NULL, 1 << 16, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	pid_t me = getpid();

	for (int i = 0; i < 400 && *count < most; i++) {
		long arg[6], nr = (long)(next(&seed) % 470);

		if (too_final(nr))
			continue;
		for (int a = 0; a < 6; a++) {
			uint64_t r = next(&seed);

			switch (r % 6) {
			case 0:
				arg[a] = (long)(next(&seed) % 16);
				break;
			case 1:
				arg[a] = (long)(room + next(&seed) % 60000);
				break;
			case 2:
				arg[a] = (long)next(&seed);
				break;
			case 3:
				arg[a] = (long)(1UL << (next(&seed) % 64));
				break;
			case 4:
				arg[a] = -1 - (long)(next(&seed) % 200);
				break;
			default:
				arg[a] = 0;
			}
		}
		__sync_fetch_and_add(count, 1);
		syscall(nr, arg[0], arg[1], arg[2], arg[3], arg[4], arg[5]);
		if (getpid() != me)
			_exit(0); /* a clone of this one */
	}
	_exit(0);
}

/* A call may block, with every signal blocked: it gets 50 ms. */
static void collect_soon(pid_t pid)
{
	for (int i = 0; i < 250; i++) {
		if (waitpid(pid, NULL, WNOHANG | __WALL) != 0)
			return;
		usleep(200);
	}
	kill(pid, SIGKILL);
	waitpid(pid, NULL, __WALL);
}

static void noise(int argc, char **argv)
{
	long most = argc ? atol(argv[0]) : 100000;
	uint64_t seed = argc > 1 ? strtoull(argv[1], NULL, 0) : 0x9e3779b97f4a7c15;
	volatile long *count =
		mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	time_t end = time(NULL) + (argc > 2 ? atoi(argv[2]) : 20);

	while (*count < most && time(NULL) < end) {
		pid_t pid = fork();

		next(&seed);
		if (pid == 0) {
			setpgid(0, 0);
			close(0);
			dup2(open("/dev/null", O_RDWR), 1);
			dup2(1, 2);
			noise_child(seed, count, most);
		}
		if (pid < 0)
			usleep(1000);
		else
			collect_soon(pid);
		while (waitpid(-1, NULL, WNOHANG | __WALL) > 0)
			;
	}
	printf("= calls %ld\n", *count);
	no("noise", 0);
}

int main(int argc, char **argv)
{
	static const struct subcommand all[] = {
		{ "namespaces", namespaces },
		{ "clone3", clone3_spaces },
		{ "join", join },
		{ "interfaces", interfaces },
		{ "sockets", sockets },
		{ "handles", handles },
		{ "personalities", personalities },
		{ "listener", listener },
		{ "threads", threads },
		{ "undying", undying },
		{ "noise", noise },
		{ NULL, NULL },
	};

	return dispatch(all, argc, argv);
}
