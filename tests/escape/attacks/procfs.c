/* SPDX-License-Identifier: Apache-2.0 */
/* procfs.c - /proc, /sys, signals and reaching into processes. */
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/uio.h>
#include <sys/utsname.h>
#include <dirent.h>

#include "attack.h"

/* Opening is enough: nothing is written, so that the control harms nobody. */
static void open_write(int argc, char **argv)
{
	for (int i = 0; i < argc; i++) {
		int fd = open(argv[i], O_WRONLY);

		tried(argv[i], fd);
		if (fd >= 0)
			close(fd);
	}
}

/* Is there anything to read? */
static void readable(int argc, char **argv)
{
	for (int i = 0; i < argc; i++) {
		char text[64];
		int fd = open(argv[i], O_RDONLY | O_NONBLOCK | O_NOCTTY);
		ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text));

		if (fd >= 0 && n < 0 && errno == EISDIR) {
			DIR *d = fdopendir(fd);

			n = 0;
			for (struct dirent *e; d && (e = readdir(d));)
				n += e->d_name[0] != '.';
		}
		if (n > 0)
			yes(argv[i], "%zd", n);
		else
			no(argv[i], n < 0 ? errno : 0);
	}
}

static void crash(int argc, char **argv)
{
	struct rlimit all = { RLIM_INFINITY, RLIM_INFINITY };

	(void)argc, (void)argv;
	tried("setrlimit", setrlimit(RLIMIT_CORE, &all));
	fflush(stdout);
	abort();
}

/* Takes the cover off and makes read-only places writable. */
static void unmask(int argc, char **argv)
{
	for (int i = 0; i < argc; i++) {
		char name[256];

		snprintf(name, sizeof(name), "umount:%s", argv[i]);
		tried(name, umount2(argv[i], MNT_DETACH));
		snprintf(name, sizeof(name), "remount:%s", argv[i]);
		tried(name, mount(NULL, argv[i], NULL, MS_REMOUNT | MS_BIND, NULL));
	}
}

static void dump_file(const char *path)
{
	char text[65536];
	int fd = open(path, O_RDONLY);
	ssize_t n;

	while (fd >= 0 && (n = read(fd, text, sizeof(text))) > 0)
		fwrite(text, 1, (size_t)n, stdout);
	if (fd >= 0)
		close(fd);
}

/* Everything that processes tell about themselves. Pids are guessed: a hidden one is tried too. */
static void dump(int argc, char **argv)
{
	static const char *const files[] = { "environ",   "cmdline", "maps", "auxv",
					     "stat",      "status",  "comm", "cgroup",
					     "mountinfo", "smaps",   "io",   "stack",
					     "wchan",     "syscall", "mem",  "limits" };
	int last = argc ? atoi(argv[0]) : 300;

	for (int pid = argc > 1 ? atoi(argv[1]) : 1; pid <= last; pid++)
		for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
			char path[64];

			snprintf(path, sizeof(path), "/proc/%d/%s", pid, files[i]);
			if (strcmp(files[i], "mem") != 0)
				dump_file(path);
		}
}

/* PATH through every link of every process that leads somewhere. */
static void links(int argc, char **argv)
{
	static const char *const ways[] = { "root", "cwd", "task/%d/root", "task/%d/cwd" };
	bool found = false;

	for (int pid = 0; pid < 300 && argc; pid++)
		for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
			char way[64], path[4096], text[64] = "";
			int fd;

			snprintf(way, sizeof(way), ways[i], pid ? pid : getpid());
			if (pid)
				snprintf(path, sizeof(path), "/proc/%d/%s/%s", pid, way, argv[0]);
			else
				snprintf(path, sizeof(path), "/proc/self/%s/%s", way, argv[0]);
			fd = open(path, O_RDONLY);
			if (fd >= 0 && read(fd, text, sizeof(text) - 1) > 0) {
				yes("link", "%s %s", path, text);
				found = true;
			}
		}
	if (!found)
		no("link", ENOENT);
}

static void kill_everyone(int argc, char **argv)
{
	int last = argc ? atoi(argv[0]) : 4194304, hit = 0;

	for (int pid = 2; pid <= last; pid++)
		if (pid != getpid() && pid != getppid() && kill(pid, SIGKILL) == 0)
			hit++;
	printf("= one-by-one %d\n", hit);
	tried("kill-all", kill(-1, SIGKILL));
}

/* One process of the host, by its number there: PID [FD]. */
static void reach(int argc, char **argv)
{
	pid_t pid = argc ? atoi(argv[0]) : 1;
	char byte, path[64];
	struct iovec here = { &byte, 1 }, there = { (void *)0x400000, 1 };
	long pidfd = syscall(SYS_pidfd_open, pid, 0);
	cpu_set_t cpus;

	tried("pidfd_open", pidfd);
	if (pidfd >= 0) {
		tried("pidfd_getfd",
		      syscall(SYS_pidfd_getfd, pidfd, argc > 1 ? atoi(argv[1]) : 0, 0));
		tried("pidfd_send_signal", syscall(SYS_pidfd_send_signal, pidfd, 0, NULL, 0));
	}
	tried("kill", kill(pid, 0));
	tried("sched_getaffinity", sched_getaffinity(pid, sizeof(cpus), &cpus));
	if (tried("ptrace", ptrace(PTRACE_SEIZE, pid, NULL, NULL)) == 0)
		ptrace(PTRACE_DETACH, pid, NULL, NULL);
	errno = 0;
	if (process_vm_readv(pid, &here, 1, &there, 1, 0) == 1 || errno == EFAULT)
		yes("process_vm_readv", "reached");
	else
		no("process_vm_readv", errno);
	snprintf(path, sizeof(path), "/proc/%d/mem", pid);
	tried("mem", open(path, O_RDWR));
}

/* The first process of the sandbox is visible as a number only. */
static void reach_init(int argc, char **argv)
{
	long pidfd = syscall(SYS_pidfd_open, 1, 0);
	char byte;
	struct iovec here = { &byte, 1 }, there = { (void *)0x400000, 1 };

	(void)argc, (void)argv;
	for (int fd = 0; fd < 16; fd++)
		if (syscall(SYS_pidfd_getfd, pidfd, fd, 0) >= 0)
			yes("pidfd_getfd", "%d", fd);
	no("pidfd_getfd", errno);
	tried("ptrace", ptrace(PTRACE_SEIZE, 1, NULL, NULL));
	tried("ptrace-attach", ptrace(PTRACE_ATTACH, 1, NULL, NULL));
	tried("process_vm_readv", process_vm_readv(1, &here, 1, &there, 1, 0));
	tried("mem", open("/proc/1/mem", O_RDWR));
	tried("fd", open("/proc/1/fd", O_RDONLY));
	tried("environ", open("/proc/1/environ", O_RDONLY));
	tried("maps", open("/proc/1/maps", O_RDONLY));
	/* Signals init has no handler for do not arrive; it must still be there afterwards. */
	for (int s = 1; s < 65; s++)
		if (s != SIGCHLD)
			kill(1, s);
	usleep(50000);
	if (kill(1, 0) < 0)
		yes("init-died", "%d", errno);
}

static void fresh_proc(int argc, char **argv)
{
	int status;

	(void)argc, (void)argv;
	if (tried("unshare", unshare(CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNS)) < 0)
		return;
	if (fork() == 0) {
		mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL);
		_exit(mount("proc", "/proc", "proc", 0, NULL) < 0 ? errno : 0);
	}
	wait(&status);
	errno = WEXITSTATUS(status);
	tried("proc", errno ? -1 : 0);
}

static void facts(int argc, char **argv)
{
	struct utsname u;

	uname(&u);
	printf("= nodename %s\n", u.nodename);
	for (int i = 0; i < argc; i++) {
		printf("\n== %s\n", argv[i]);
		fflush(stdout);
		dump_file(argv[i]);
	}
}

static void priority(int argc, char **argv)
{
	struct sched_param rt = { .sched_priority = 10 };
	struct {
		uint32_t size, policy;
		uint64_t flags;
		int32_t nice;
		uint32_t priority;
		uint64_t runtime, deadline, period;
	} dl = { .size = 48,
		 .policy = 6,
		 .runtime = 1000000,
		 .deadline = 10000000,
		 .period = 10000000 };
	int fd = open("/proc/self/oom_score_adj", O_WRONLY);

	tried("oom", fd < 0 ? -1 : write(fd, "-500", 4));
	tried("nice", setpriority(PRIO_PROCESS, 0, -20));
	tried("fifo", sched_setscheduler(0, SCHED_FIFO, &rt));
	tried("deadline", syscall(SYS_sched_setattr, 0, &dl, 0));
	tried("ioprio", syscall(SYS_ioprio_set, 1, 0, 1 << 13));
	if (argc)
		let_host_look(argv[0]);
}

int main(int argc, char **argv)
{
	static const struct subcommand all[] = {
		{ "open-write", open_write },
		{ "readable", readable },
		{ "crash", crash },
		{ "unmask", unmask },
		{ "dump", dump },
		{ "links", links },
		{ "kill-everyone", kill_everyone },
		{ "reach", reach },
		{ "reach-init", reach_init },
		{ "fresh-proc", fresh_proc },
		{ "facts", facts },
		{ "priority", priority },
		{ NULL, NULL },
	};

	return dispatch(all, argc, argv);
}
