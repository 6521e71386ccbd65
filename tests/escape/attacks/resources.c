/* SPDX-License-Identifier: Apache-2.0 */
/* resources.c - using up what there is. Everything here is bounded by its arguments. */
#include <ftw.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <time.h>

#include "attack.h"

/* At most MOST children that wait, at once. */
static void children(int argc, char **argv)
{
	int most = argc ? atoi(argv[0]) : 100, made = 0;

	setpgid(0, 0); /* whom the signal below is for */
	for (; made < most; made++) {
		pid_t pid = fork();

		if (pid == 0) {
			sleep(20);
			_exit(0);
		}
		if (pid < 0)
			break;
	}
	printf("= children %d\n", made);
	usleep(300000); /* who looks now and then must have looked */
	if (argc > 1)
		let_host_look(argv[1]);
	if (getpgrp() == getpid())
		kill(0, SIGTERM);
}

static void *idle(void *arg)
{
	sleep(20);
	return arg;
}

static void threads(int argc, char **argv)
{
	int most = argc ? atoi(argv[0]) : 100, made = 0;
	pthread_attr_t small;
	pthread_t t;

	pthread_attr_init(&small);
	pthread_attr_setstacksize(&small, 65536);
	while (made < most && pthread_create(&t, &small, idle, NULL) == 0)
		made++;
	printf("= threads %d\n", made);
	usleep(300000);
	if (argc > 1)
		let_host_look(argv[1]);
	_exit(0);
}

/* The real thing. Never outside a sandbox. */
static void bomb(int argc, char **argv)
{
	(void)argc, (void)argv;
	for (int s = 1; s < 65; s++)
		signal(s, SIG_IGN);
	for (;;)
		if (fork() == 0)
			setsid();
}

/* MEBIBYTES touched, then kept for a second. */
static void memory(int argc, char **argv)
{
	size_t n = (size_t)(argc ? atoi(argv[0]) : 256) << 20;
	char *p = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	for (size_t i = 0; p != MAP_FAILED && i < n; i += 4096)
		p[i] = 1;
	usleep(300000);
	yes("memory", "%zu", n);
}

/* The same in files that live in memory: PATH, or memfd. */
static void memory_files(int argc, char **argv)
{
	size_t n = (size_t)(argc ? atoi(argv[0]) : 256) << 20;
	int fd = argc > 1 ? open(argv[1], O_RDWR | O_CREAT, 0600) : memfd_create("x", 0);
	static char block[1 << 20];

	memset(block, 1, sizeof(block));
	for (size_t i = 0; i < n; i += sizeof(block))
		if (write(fd, block, sizeof(block)) < (ssize_t)sizeof(block)) {
			no("memory-files", errno);
			return;
		}
	if (argc < 2 &&
	    mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, 0) == MAP_FAILED)
		no("mmap", errno);
	usleep(300000);
	yes("memory-files", "%zu", n);
}

/* Fills FOLDER: MEBIBYTES at most, by WRITE or fallocate, in files of 4 MiB. */
static void fill(int argc, char **argv)
{
	const char *folder = argc ? argv[0] : "/tmp", *how = argc > 2 ? argv[2] : "write";
	int most = argc > 1 ? atoi(argv[1]) : 64, done = 0;
	static char block[1 << 20];

	memset(block, 7, sizeof(block));
	for (int i = 0; i * 4 < most; i++) {
		char path[4096];
		int fd;

		snprintf(path, sizeof(path), "%s/fill-%s-%d", folder, how, i);
		fd = open(path, O_WRONLY | O_CREAT, 0644);
		if (strcmp(how, "fallocate") == 0) {
			if (fd < 0 || fallocate(fd, 0, 0, 4 << 20) < 0) {
				printf("= stopped %s\n", strerrorname_np(errno));
				break;
			}
			done += 4;
		} else {
			for (int m = 0; m < 4 && fd >= 0; m++) {
				if (write(fd, block, sizeof(block)) != (ssize_t)sizeof(block)) {
					printf("= stopped %s\n", strerrorname_np(errno));
					fd = -1;
					break;
				}
				done++;
			}
		}
		if (fd < 0)
			break;
		close(fd);
		usleep(5000);
	}
	printf("= filled %d\n", done);
}

/* MOST empty files in FOLDER. */
static void files(int argc, char **argv)
{
	int most = argc > 1 ? atoi(argv[1]) : 100000, made = 0;

	if (chdir(argc ? argv[0] : "/tmp") < 0)
		return;
	for (; made < most; made++) {
		char name[256];
		int fd;

		snprintf(name, sizeof(name), "%0200d", made);
		fd = open(name, O_WRONLY | O_CREAT, 0644);
		if (fd < 0) {
			printf("= stopped %s\n", strerrorname_np(errno));
			break;
		}
		close(fd);
	}
	printf("= files %d\n", made);
}

static void deep(int argc, char **argv)
{
	int most = argc > 1 ? atoi(argv[1]) : 10000, made = 0;

	if (chdir(argc ? argv[0] : "/tmp") < 0)
		return;
	while (made < most && mkdir("d", 0755) == 0 && chdir("d") == 0)
		made++;
	printf("= folders %d\n", made);
}

/* Kernel objects until there are no more, or MOST; then the host looks. */
static void objects(int argc, char **argv)
{
	int most = argc > 1 ? atoi(argv[1]) : 5000, n;
	timer_t timer;
	pid_t pid;

	for (n = 0; n < most && inotify_init1(IN_CLOEXEC) >= 0; n++)
		;
	printf("= inotify %d\n", n);
	for (n = 0; n < most && posix_openpt(O_RDWR | O_NOCTTY) >= 0; n++)
		;
	printf("= ptys %d\n", n);
	for (n = 0; n < most && timer_create(CLOCK_MONOTONIC,
					     &(struct sigevent){ .sigev_notify = SIGEV_SIGNAL,
								 .sigev_signo = SIGUSR1 },
					     &timer) == 0;
	     n++)
		;
	printf("= timers %d\n", n);
	{
		sigset_t set;

		sigemptyset(&set);
		sigaddset(&set, SIGRTMIN + 3);
		sigprocmask(SIG_BLOCK, &set, NULL);
		for (n = 0; n < 20000 && sigqueue(getpid(), SIGRTMIN + 3, (union sigval){ 0 }) == 0;
		     n++)
			;
		printf("= signals %d\n", n);
	}
	pid = fork(); /* its own table of descriptors */
	if (pid == 0) {
		for (n = 0; n < 100000 && epoll_create1(0) >= 0; n++)
			;
		printf("= epolls %d\n", n);
		fflush(stdout);
		sleep(5);
		_exit(0);
	}
	if (argc)
		let_host_look(argv[0]);
	kill(pid, SIGKILL);
}

/* As many watches as there may be, on the folders below /usr, then the host looks. */
static int folders[4000], folder_count;

static int keep_folder(const char *path, const struct stat *st, int kind, struct FTW *at)
{
	(void)st, (void)at;
	if (kind == FTW_D && folder_count < 4000)
		folders[folder_count++] = open(path, O_PATH | O_DIRECTORY);
	return folder_count == 4000;
}

static int keep_file(const char *path, const struct stat *st, int kind, struct FTW *at)
{
	(void)st, (void)at;
	if (kind == FTW_F && folder_count < 4000)
		folders[folder_count++] = open(path, O_PATH | O_NOFOLLOW);
	return folder_count == 4000;
}

/* Instance after instance, a watch on each folder that was kept; how many it came to. */
static int add_watches(uint32_t mask, int most)
{
	int n = 0, fd;

	while ((fd = inotify_init1(IN_CLOEXEC)) >= 0)
		for (int i = 0; i < folder_count; i++) {
			char path[32];

			snprintf(path, sizeof(path), "/proc/self/fd/%d", folders[i]);
			if (inotify_add_watch(fd, path, mask) < 0)
				return n;
			if (++n == most)
				return n;
		}
	return n;
}

/* Each of a few processes as many as it can; they stay as long as the host looks. */
static int watches_of_children(uint32_t mask)
{
	int told[2], total = 0, n;

	if (pipe(told) < 0)
		return -1;
	for (int i = 0; i < 6; i++) {
		pid_t pid = fork();

		if (pid == 0) {
			n = add_watches(mask, 0);
			(void)!write(told[1], &n, sizeof(n));
			sleep(20);
			_exit(0);
		}
		if (pid > 0 && read(told[0], &n, sizeof(n)) == sizeof(n))
			total += n;
	}
	return total;
}

static void *watching_thread(void *arg)
{
	*(int *)arg = add_watches(IN_DELETE_SELF, 0);
	return arg;
}

/* FOLDER MOST WAY */
static void watches(int argc, char **argv)
{
	const struct rlimit many = { 8192, 8192 };
	const char *way = argc > 2 ? argv[2] : "plain";
	int n = 0, most = argc > 1 ? atoi(argv[1]) : 0;
	pthread_t t;

	(void)setrlimit(RLIMIT_NOFILE, &many);
	nftw(strcmp(way, "files") == 0 ? "/usr/lib" : "/usr",
	     strcmp(way, "files") == 0 ? keep_file : keep_folder, 20, FTW_PHYS);
	if (strcmp(way, "children") == 0) {
		n = watches_of_children(IN_DELETE_SELF);
	} else if (strcmp(way, "thread") == 0) {
		pthread_create(&t, NULL, watching_thread, &n);
		pthread_join(t, NULL);
	} else {
		n = add_watches(strcmp(way, "everything") == 0 ? IN_ALL_EVENTS | IN_EXCL_UNLINK
				: strcmp(way, "once") == 0     ? IN_OPEN | IN_ONESHOT
							       : IN_DELETE_SELF,
				most);
	}
	printf("= watches %d\n", n);
	if (argc)
		let_host_look(argv[0]);
}

static void *spin_thread(void *arg)
{
	for (;;)
		__asm__ volatile("");
	return arg;
}

static void spin(int argc, char **argv)
{
	pthread_t t;

	for (int i = 1; i < (argc ? atoi(argv[0]) : 4); i++)
		pthread_create(&t, NULL, spin_thread, NULL);
	alarm((unsigned)(argc > 1 ? atoi(argv[1]) : 1));
	spin_thread(NULL);
}

static void affinity(int argc, char **argv)
{
	cpu_set_t all;

	CPU_ZERO(&all);
	for (int i = 0; i < CPU_SETSIZE; i++)
		CPU_SET(i, &all);
	tried("sched_setaffinity", sched_setaffinity(0, sizeof(all), &all));
	if (argc)
		let_host_look(argv[0]);
}

/* MOST orphans, one after the other. */
static void orphans(int argc, char **argv)
{
	int most = argc ? atoi(argv[0]) : 1000, made = 0;

	for (; made < most; made++) {
		pid_t pid = fork();

		if (pid == 0) {
			if (fork() == 0)
				_exit(0);
			_exit(0);
		}
		if (pid < 0) {
			usleep(2000);
			made--;
			continue;
		}
		waitpid(pid, NULL, 0);
		usleep(200); /* init is to be tried, not outrun */
	}
	printf("= orphans %d\n", made);
}

static void write_mib(const char *folder, int number)
{
	static char data[1 << 20];
	char path[512];
	int fd;

	memset(data, 'x', sizeof(data));
	snprintf(path, sizeof(path), "%s/fill-stranger-%d", folder, number);
	fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
	if (fd >= 0 && write(fd, data, sizeof(data)) == (ssize_t)sizeof(data))
		(void)fsync(fd);
	_exit(0);
}

/* strangers FOLDER MIB: each MiB is written by an orphan that is gone a moment later. */
static void strangers(int argc, char **argv)
{
	int most = argc > 1 ? atoi(argv[1]) : 1;

	for (int i = 0; i < most; i++) {
		pid_t pid = fork();

		if (pid == 0) {
			if (fork() == 0)
				write_mib(argv[0], i);
			_exit(0);
		}
		waitpid(pid, NULL, 0);
		usleep(15000);
	}
	printf("= written %d\n", most);
}

struct writer {
	const char *folder, *how;
	int most;
};

static void mib(const char *folder, int i)
{
	static char block[1 << 20];
	char path[4096];
	int fd;

	snprintf(path, sizeof(path), "%s/fill-%d", folder, i);
	fd = open(path, O_WRONLY | O_CREAT, 0644);
	if (fd < 0 || write(fd, block, sizeof(block)) < 0)
		_exit(1);
	close(fd);
}

static void *write_one(void *arg)
{
	mib(*(const char **)arg, *(int *)((char **)arg + 1));
	usleep(60000);
	return NULL;
}

/* Threads that outlive the first one: one that writes, or many that come and go. */
static void *write_all(void *arg)
{
	struct writer *w = arg;

	usleep(100000);
	for (int i = 0; i < w->most; i++) {
		struct {
			const char *folder;
			int i;
		} one = { w->folder, i };
		pthread_t t;

		if (strcmp(w->how, "headless") == 0) {
			mib(w->folder, i);
		} else if (pthread_create(&t, NULL, write_one, &one) == 0) {
			pthread_join(t, NULL);
		}
		usleep(15000);
	}
	printf("= written %d\n", w->most);
	exit(0);
}

/* unwaited FOLDER MIB HOW: writers whose count nobody gets. */
static void unwaited(int argc, char **argv)
{
	static struct writer w; /* the threads outlive this stack */
	struct sigaction sa = { .sa_handler = SIG_IGN };
	pthread_t t;

	w = (struct writer){ argv[0], argc > 2 ? argv[2] : "ignore", argc > 1 ? atoi(argv[1]) : 1 };
	if (strcmp(w.how, "headless") == 0 || strcmp(w.how, "turnover") == 0) {
		pthread_create(&t, NULL, write_all, &w);
		pthread_exit(NULL);
	}
	if (strcmp(w.how, "nocldwait") == 0)
		sa = (struct sigaction){ .sa_handler = SIG_DFL, .sa_flags = SA_NOCLDWAIT };
	sigaction(SIGCHLD, &sa, NULL);
	for (int i = 0; i < w.most; i++) {
		if (fork() == 0) {
			mib(w.folder, i);
			usleep(strcmp(w.how, "slow") == 0 ? 60000 : 20000);
			_exit(0);
		}
		if (strcmp(w.how, "masked") == 0)
			mib(w.folder, 1000 + i);
		usleep(15000);
	}
	printf("= written %d\n", w.most);
}

/* Another process of the same user's: the kernel asks for no more. */
static void limit_init(int argc, char **argv)
{
	const struct rlimit none = { 0, 0 }, moment = { 1, 1 };

	(void)argc;
	(void)argv;
	tried("descriptors", syscall(SYS_prlimit64, 1, RLIMIT_NOFILE, &none, NULL));
	tried("seconds", syscall(SYS_prlimit64, 1, RLIMIT_CPU, &moment, NULL));
}

int main(int argc, char **argv)
{
	static const struct subcommand all[] = {
		{ "children", children },
		{ "threads", threads },
		{ "bomb", bomb },
		{ "memory", memory },
		{ "memory-files", memory_files },
		{ "fill", fill },
		{ "files", files },
		{ "deep", deep },
		{ "objects", objects },
		{ "watches", watches },
		{ "spin", spin },
		{ "affinity", affinity },
		{ "orphans", orphans },
		{ "strangers", strangers },
		{ "unwaited", unwaited },
		{ "limit-init", limit_init },
		{ NULL, NULL },
	};

	return dispatch(all, argc, argv);
}
