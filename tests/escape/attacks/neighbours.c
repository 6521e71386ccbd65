/* SPDX-License-Identifier: Apache-2.0 */
/* attacks/neighbours.c - what one guest does to others on the machine, and to brig's own init, with
 * system calls that are granted as such: by their arguments. */
#include <linux/aio_abi.h>
#include <linux/btrfs.h>
#include <linux/filter.h>
#include <linux/fscrypt.h>
#include <linux/ioprio.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/shm.h>
#include <sys/socket.h>

#include "attack.h"

#ifndef F_SETDELEG
#define F_SETDELEG (1024 + 16)
#endif
#define HIGH 0x700000000L

/* Leases on files that can only be read, as far as this user owns them, and signals from folders.
 */
static void leases(int argc, char **argv)
{
	char path[64];
	int fd = open(argc > 0 ? argv[0] : "/workspace/file", O_RDONLY), again;
	int folder = open(argc > 1 ? argv[1] : "/workspace", O_RDONLY | O_DIRECTORY);

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	again = open(path, O_RDONLY);
	(void)close(fd);
	signal(SIGIO, SIG_IGN);
	tried("lease-write", fcntl(again, F_SETLEASE, F_WRLCK));
	tried("lease-read", fcntl(again, F_SETLEASE, F_RDLCK));
	tried("lease-high", syscall(SYS_fcntl, again, HIGH | F_SETLEASE, F_RDLCK));
	tried("lease-dup", fcntl(dup(again), F_SETLEASE, F_RDLCK));
	tried("notify", fcntl(folder, F_NOTIFY, 1 /* DN_ACCESS */));
	tried("notify-high", syscall(SYS_fcntl, folder, HIGH | F_NOTIFY, 1));
	if (fcntl(folder, F_SETDELEG, (char[16]){ 0 }) < 0)
		printf("= delegation %s\n", strerrorname_np(errno));
}

static void *queue_in_a_thread(void *arg)
{
	aio_context_t context = 0;

	tried("io_setup-thread", syscall(SYS_io_setup, 1, &context));
	return arg;
}

static void queue_in_a_child(const char *name, pid_t pid)
{
	aio_context_t context = 0;
	int status = 0;

	if (pid == 0)
		_exit(syscall(SYS_io_setup, 1, &context) < 0 ? errno : 0);
	if (pid < 0 || waitpid(pid, &status, 0) < 0)
		cannot(name, "fork");
	else if (WEXITSTATUS(status))
		no(name, WEXITSTATUS(status));
	else
		yes(name, "0");
}

/* Queues of the machine's one budget, and the calls that would use one of somebody else's. */
static void aio(int argc, char **argv)
{
	aio_context_t context = 0;
	struct iocb *none = NULL;
	struct io_event event;
	pthread_t t;

	tried("io_setup", syscall(SYS_io_setup, 1, &context));
	context = 0;
	tried("io_setup-high", syscall(SYS_io_setup, HIGH | 1, &context));
	context = 0;
	tried("io_setup-many", syscall(SYS_io_setup, 4096, &context));
	pthread_create(&t, NULL, queue_in_a_thread, NULL);
	pthread_join(t, NULL);
	queue_in_a_child("io_setup-child", fork());
	queue_in_a_child("io_setup-clone",
			 (pid_t)syscall(SYS_clone, (unsigned long)SIGCHLD, 0, 0, 0, 0));
	reached("io_submit", syscall(SYS_io_submit, 1, 1, &none));
	reached("io_getevents", syscall(SYS_io_getevents, 1, 0, 1, &event, NULL));
	reached("io_destroy", syscall(SYS_io_destroy, 1));
	if (argc)
		let_host_look(argv[0]);
}

/* Who opens what on the host: by every call that would tell. */
static void *watch_in_a_thread(void *arg)
{
	tried("inotify-thread", inotify_init1(0));
	return arg;
}

static void spy(int argc, char **argv)
{
	int folder = open("/usr/bin", O_RDONLY | O_DIRECTORY);
	pthread_t t;

	(void)argc, (void)argv;
	tried("inotify", inotify_init1(IN_CLOEXEC | IN_NONBLOCK));
	tried("inotify-high", syscall(SYS_inotify_init1, HIGH));
#ifdef SYS_inotify_init
	tried("inotify-old", syscall(SYS_inotify_init));
#endif
	pthread_create(&t, NULL, watch_in_a_thread, NULL);
	pthread_join(t, NULL);
	reached("watch-none", inotify_add_watch(-1, "/usr/bin", IN_OPEN));
	reached("unwatch-none", inotify_rm_watch(-1, 1));
	tried("fanotify", syscall(SYS_fanotify_init, 0x200 /* FAN_REPORT_FID */, 0));
	tried("fanotify-high", syscall(SYS_fanotify_init, HIGH | 0x200, 0));
	reached("mark-none", syscall(SYS_fanotify_mark, -1, 1, 0x20, AT_FDCWD, "/usr/bin"));
	tried("notify", fcntl(folder, F_NOTIFY, 1 /* DN_ACCESS */));
}

/* Without a reservation a mapping can be made though the machine's pool is empty. */
static void huge(int argc, char **argv)
{
	const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_HUGETLB;
	const size_t size = (size_t)32 << 20;

	(void)argc, (void)argv;
	tried("map", (long)(intptr_t)mmap(NULL, size, PROT_READ, flags, -1, 0));
	tried("map-2m", (long)(intptr_t)mmap(NULL, size, PROT_READ, flags | 21 << 26, -1, 0));
	tried("map-high", syscall(SYS_mmap, 0, size, PROT_READ, HIGH | flags, -1, 0));
	tried("memfd", memfd_create("x", MFD_HUGETLB));
	tried("memfd-2m", memfd_create("x", MFD_HUGETLB | MFD_CLOEXEC | 21U << 26));
	tried("memfd-high", syscall(SYS_memfd_create, "x", HIGH | MFD_HUGETLB));
	tried("segment", shmget(IPC_PRIVATE, size, IPC_CREAT | SHM_HUGETLB | SHM_NORESERVE | 0600));
}

static void whiteout(int argc, char **argv)
{
	(void)argc;
	if (chdir(argv[0]) < 0)
		return;
	for (int i = 0; i < 2; i++) {
		char from[16], to[16];

		snprintf(from, sizeof(from), "from%d", i);
		snprintf(to, sizeof(to), "to%d", i);
		(void)close(open(from, O_CREAT | O_WRONLY, 0644));
		tried(i ? "whiteout-high" : "whiteout",
		      syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, (i ? HIGH : 0) | 4));
	}
	(void)close(open("x", O_CREAT | O_WRONLY, 0644));
	tried("whiteout-noreplace", syscall(SYS_renameat2, AT_FDCWD, "x", AT_FDCWD, "y", 5));
	(void)mkdir("folder", 0755);
	tried("whiteout-folder", syscall(SYS_renameat2, AT_FDCWD, "folder", AT_FDCWD, "moved", 4));
	/* Made without a rename: the kernel asks for no capability for the device 0:0. */
	tried("whiteout-node", mknodat(AT_FDCWD, "node", S_IFCHR | 0600, 0));
	tried("whiteout-node-high",
	      syscall(SYS_mknodat, AT_FDCWD, "node2", HIGH | S_IFCHR | 0600, 0));
}

/* One program each, and never more: great numbers stop a machine. */
static void filters(int argc, char **argv)
{
	struct sock_filter all = BPF_STMT(BPF_RET | BPF_K, 0x7fffffff);
	struct sock_filter allow = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	struct sock_fprog f = { .len = 1, .filter = &all }, s = { .len = 1, .filter = &allow };
	int local = socket(AF_UNIX, SOCK_DGRAM, 0), udp = socket(AF_INET, SOCK_DGRAM, 0), on = 1;

	(void)argc, (void)argv;
	tried("socket-unix", setsockopt(local, SOL_SOCKET, SO_ATTACH_FILTER, &f, sizeof(f)));
	tried("socket-udp", setsockopt(udp, SOL_SOCKET, SO_ATTACH_FILTER, &f, sizeof(f)));
	tried("socket-high", syscall(SYS_setsockopt, udp, HIGH | SOL_SOCKET,
				     HIGH | SO_ATTACH_FILTER, &f, sizeof(f)));
	(void)setsockopt(udp, SOL_SOCKET, SO_REUSEPORT, &on, sizeof(on));
	tried("reuseport", setsockopt(udp, SOL_SOCKET, SO_ATTACH_REUSEPORT_CBPF, &f, sizeof(f)));
	(void)prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	tried("seccomp", syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &s));
	tried("seccomp-high", syscall(SYS_seccomp, HIGH | SECCOMP_SET_MODE_FILTER, 0, &s));
	tried("seccomp-tsync", syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 1, &s));
	tried("prctl", prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &s, 0, 0));
	tried("prctl-high", syscall(SYS_prctl, HIGH | PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &s));
}

static int leave(void *arg)
{
	(void)arg;
	(void)syscall(SYS_exit, 0);
	return 0;
}

static void *apart(void *arg)
{
	tried("close_range", syscall(SYS_close_range, 900, 901, 2));
	tried("close_range-high", syscall(SYS_close_range, 900, 901, HIGH | 2));
	tried("unshare", unshare(CLONE_FILES));
	tried("unshare-fs", unshare(CLONE_FILES | CLONE_FS));
	return arg;
}

/* Threads whose descriptors nobody sees who looks at their process. */
static void descriptors(int argc, char **argv)
{
	static char stack[65536] __attribute__((aligned(16)));
	const int thread = CLONE_VM | CLONE_SIGHAND | CLONE_THREAD;
	pthread_t t;

	(void)argc, (void)argv;
	pthread_create(&t, NULL, apart, NULL);
	pthread_join(t, NULL);
	tried("clone", clone(leave, stack + sizeof(stack), thread, NULL));
	usleep(100000);
	tried("clone-fs", clone(leave, stack + sizeof(stack), thread | CLONE_FS, NULL));
	usleep(100000);
}

/* Everything that could make init wait for its turn. Init is process 1 here. */
static void starve(int argc, char **argv)
{
	const struct sched_param none = { 0 };
	uint32_t attr[12] = { sizeof(attr), SCHED_IDLE }; /* struct sched_attr */
	const int idle = IOPRIO_PRIO_VALUE(IOPRIO_CLASS_IDLE, 0);
	cpu_set_t one;

	CPU_ZERO(&one);
	CPU_SET(0, &one);
	tried("nice", setpriority(PRIO_PROCESS, 1, 19));
	tried("nice-high", syscall(SYS_setpriority, HIGH | PRIO_PROCESS, HIGH | 1, 19));
	tried("nice-user", setpriority(PRIO_USER, getuid(), 19));
	tried("nice-user-0", setpriority(PRIO_USER, 0, 19));
	tried("nice-group", setpriority(PRIO_PGRP, 1, 19));
	tried("io", syscall(SYS_ioprio_set, IOPRIO_WHO_PROCESS, 1, idle));
	tried("io-user", syscall(SYS_ioprio_set, IOPRIO_WHO_USER, getuid(), idle));
	tried("io-group", syscall(SYS_ioprio_set, IOPRIO_WHO_PGRP, 1, idle));
	tried("affinity", sched_setaffinity(1, sizeof(one), &one));
	tried("param", sched_setparam(1, &none));
	tried("attr", syscall(SYS_sched_setattr, 1, attr, 0));
	tried("scheduler", sched_setscheduler(1, SCHED_IDLE, &none));
	printf("= own-thread %s\n", sched_setaffinity(gettid(), sizeof(one), &one) == 0 &&
						    setpriority(PRIO_PROCESS, 0, 19) == 0
					    ? "works"
					    : strerrorname_np(errno));
	if (argc)
		let_host_look(argv[0]);
}

/* A folder whose names nobody can read until its key is back, and what btrfs makes of a whole tree
 * past the mounts on it. On another file system btrfs' requests are unknown. */
static void views(int argc, char **argv)
{
	struct {
		struct fscrypt_add_key_arg a;
		unsigned char raw[64];
	} key = { .a = { .key_spec.type = FSCRYPT_KEY_SPEC_TYPE_IDENTIFIER, .raw_size = 64 } };
	struct fscrypt_policy_v2 policy = { .version = FSCRYPT_POLICY_V2,
					    .contents_encryption_mode = FSCRYPT_MODE_AES_256_XTS,
					    .filenames_encryption_mode = FSCRYPT_MODE_AES_256_CTS };
	struct fscrypt_remove_key_arg gone = { 0 };
	struct btrfs_ioctl_vol_args snapshot = { .name = "snapshot" };
	int fd, locked;

	(void)argc;
	if (chdir(argv[0]) < 0 || mkdir("locked", 0755) < 0)
		return;
	fd = open(".", O_RDONLY | O_DIRECTORY);
	locked = open("locked", O_RDONLY | O_DIRECTORY);
	snapshot.fd = fd;
	tried("key", ioctl(fd, FS_IOC_ADD_ENCRYPTION_KEY, &key));
	memcpy(policy.master_key_identifier, key.a.key_spec.u.identifier, 16);
	tried("policy", ioctl(locked, FS_IOC_SET_ENCRYPTION_POLICY, &policy));
	(void)!mkdir("locked/plain", 0755);
	(void)close(locked);
	gone.key_spec = key.a.key_spec;
	tried("remove", ioctl(fd, FS_IOC_REMOVE_ENCRYPTION_KEY, &gone));
	tried("snapshot", ioctl(fd, BTRFS_IOC_SNAP_CREATE, &snapshot));
	tried("snapshot-high", syscall(SYS_ioctl, fd, HIGH | BTRFS_IOC_SNAP_CREATE, &snapshot));
	tried("subvolume", ioctl(fd, BTRFS_IOC_SUBVOL_CREATE, &snapshot));
}

int main(int argc, char **argv)
{
	static const struct subcommand all[] = {
		{ "leases", leases },     { "aio", aio },         { "huge", huge },
		{ "whiteout", whiteout }, { "filters", filters }, { "descriptors", descriptors },
		{ "starve", starve },     { "spy", spy },         { "views", views },
		{ NULL, NULL },
	};

	return dispatch(all, argc, argv);
}
