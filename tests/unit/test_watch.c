/* SPDX-License-Identifier: Apache-2.0 */
/* unit/test_watch.c - the watch on a made-up procfs, and on a real one with a tree of processes.
 *
 * The real one lives in a new user, pid and mount namespace whose init mounts /proc and a tmpfs and
 * passes both out, as the sandbox does. */
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "backend/kit/limits/memfds.h"
#include "backend/kit/limits/watch.h"
#include "base/files/fd.h"

#define MIB (1024L * 1024)

enum { LIMIT_SECONDS = 20 };

/* What the tree under test is made of; init's own threads and memory must not count. */
struct shape {
	int processes;    /* children of init, each with a copy of the memory untouched */
	int threads;      /* more threads in the first of them */
	long mib;         /* touched by init before it forks */
	long tmpfs_mib;   /* written to the tmpfs */
	const char *name; /* of every child */
};

struct guest {
	pid_t pid;
	int procfd, tmpfd;
};

static void *idle(void *arg)
{
	(void)arg;
	while (pause() < 0)
		continue;
	return NULL;
}

static void child(const struct shape *s, bool first, int ready)
{
	pthread_t t;

	(void)prctl(PR_SET_NAME, s->name ? s->name : "child");
	for (int i = 0; first && i < s->threads; i++)
		if (pthread_create(&t, NULL, idle, NULL) != 0)
			_exit(1);
	(void)!write(ready, "x", 1);
	(void)idle(NULL);
}

static int fill_tmpfs(int dir, long mib)
{
	int fd = openat(dir, "file", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	static char block[1024 * 1024];

	memset(block, 1, sizeof(block));
	for (long i = 0; i < mib; i++)
		if (write(fd, block, sizeof(block)) != (ssize_t)sizeof(block))
			return -1;
	return close(fd);
}

static void init(const struct shape *s, int sock)
{
	size_t bytes = (size_t)(s->mib * MIB);
	int fds[2], ready[2];
	char x;

	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	(void)alarm(LIMIT_SECONDS);
	if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
	    mount("proc", "/proc", "proc", 0, NULL) < 0 ||
	    mount("tmpfs", "/tmp", "tmpfs", 0, "size=64m,mode=0700") < 0 || pipe(ready) < 0)
		_exit(77);
	fds[0] = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	fds[1] = open("/tmp", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fill_tmpfs(fds[1], s->tmpfs_mib) < 0)
		_exit(78);
	if (bytes)
		memset(mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
			    0),
		       1, bytes);
	for (int i = 0; i < s->processes; i++)
		if (fork() == 0)
			child(s, i == 0, ready[1]);
	for (int i = 0; i < s->processes; i++)
		if (read(ready[0], &x, 1) != 1)
			_exit(79);
	(void)fd_send(sock, "x", 1, fds, 2);
	(void)idle(NULL);
}

static void write_of(pid_t pid, const char *file, const char *text)
{
	char path[48];

	(void)snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, file);
	(void)fd_write_file(AT_FDCWD, path, text);
}

/* We are root inside; without a group nothing could be created in the tmpfs. */
static void map_ids(pid_t pid)
{
	char text[32];

	(void)snprintf(text, sizeof(text), "0 %u 1", (unsigned)geteuid());
	write_of(pid, "uid_map", text);
	write_of(pid, "setgroups", "deny");
	(void)snprintf(text, sizeof(text), "0 %u 1", (unsigned)getegid());
	write_of(pid, "gid_map", text);
}

static void end(struct guest *g)
{
	if (g->pid <= 0)
		return;
	(void)kill(g->pid, SIGKILL);
	(void)waitpid(g->pid, NULL, 0);
	(void)close(g->procfd);
	(void)close(g->tmpfd);
}

/* false where this user or this place may have no such namespaces. */
static bool begin(const struct shape *s, struct guest *g)
{
	int sock[2], go[2], fds[2];
	size_t nfds = 2;
	char x;

	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sock), 0);
	assert_int_equal(pipe2(go, O_CLOEXEC), 0);
	g->pid = (pid_t)syscall(SYS_clone, CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNS | SIGCHLD, 0,
				0, 0, 0);
	if (g->pid < 0)
		return false;
	if (g->pid == 0) {
		(void)!read(go[0], &x, 1);
		init(s, sock[1]);
	}
	map_ids(g->pid);
	(void)close(sock[1]);
	(void)!write(go[1], "x", 1);
	(void)close(go[0]);
	(void)close(go[1]);
	/* fd_recv does not wait. */
	(void)recv(sock[0], &x, 1, MSG_PEEK);
	if (fd_recv(sock[0], &x, 1, fds, &nfds) != 1 || nfds != 2) {
		(void)close(sock[0]);
		(void)kill(g->pid, SIGKILL);
		(void)waitpid(g->pid, NULL, 0);
		return false;
	}
	(void)close(sock[0]);
	g->procfd = fds[0];
	g->tmpfd = fds[1];
	return true;
}

static void start(const struct shape *s, struct guest *g)
{
	if (begin(s, g))
		return;
	if (getenv("MUST_RUN"))
		fail_msg("no new user and pid namespace with its own /proc to be had");
	print_message("skipped: no new user and pid namespace with its own /proc\n");
	skip();
}

static void threads_and_processes_count_and_init_does_not(void **state)
{
	struct shape s = { .processes = 7, .threads = 5 };
	struct watch_usage u;
	struct guest g = { 0 };
	struct watch w;

	(void)state;
	start(&s, &g);
	w = (struct watch){ .procfd = g.procfd, .tasks_max = 12 };
	assert_int_equal(watch_look(&w, &u), WATCH_OK);
	assert_int_equal(u.tasks, 12);
	assert_int_equal(watch_look(&w, &u), WATCH_OK); /* again from the start */
	assert_int_equal(u.tasks, 12);
	w.tasks_max = 11;
	assert_int_equal(watch_look(&w, &u), WATCH_TASKS);
	end(&g);
	assert_int_equal(watch_look(&w, &u), WATCH_OK); /* nobody is left */
	assert_int_equal(u.tasks, 0);
}

static void memory_shared_by_fork_counts_once(void **state)
{
	struct shape s = { .processes = 5, .mib = 32 };
	struct watch_usage u;
	struct guest g = { 0 };
	struct watch w;

	(void)state;
	start(&s, &g);
	w = (struct watch){ .procfd = g.procfd };
	assert_int_equal(watch_look(&w, &u), WATCH_OK); /* no limit: the cheap upper bound */
	assert_true(u.memory >= (uint64_t)(5 * 32 * MIB));
	w.memory_max = (uint64_t)(100 * MIB); /* below the bound, above the truth */
	assert_int_equal(watch_look(&w, &u), WATCH_OK);
	assert_true(u.memory < (uint64_t)(60 * MIB) && u.memory > (uint64_t)(20 * MIB));
	assert_int_equal(u.tasks, 5);
	w.memory_max = (uint64_t)(16 * MIB);
	assert_int_equal(watch_look(&w, &u), WATCH_MEMORY);
	assert_true(u.memory > w.memory_max);
	end(&g);
}

static void files_in_the_tmpfs_are_memory(void **state)
{
	struct shape s = { .processes = 1, .tmpfs_mib = 24 };
	struct watch_usage u;
	struct guest g = { 0 };
	struct watch w;

	(void)state;
	start(&s, &g);
	w = (struct watch){ .procfd = g.procfd, .tmpfs = &g.tmpfd, .tmpfs_count = 1 };
	assert_int_equal(watch_look(&w, &u), WATCH_OK);
	assert_true(u.memory >= (uint64_t)(24 * MIB));
	w.memory_max = (uint64_t)(20 * MIB);
	assert_int_equal(watch_look(&w, &u), WATCH_MEMORY);
	w.tmpfs_count = 0;
	assert_int_equal(watch_look(&w, &u), WATCH_OK);
	end(&g);
}

static void a_hostile_process_name_changes_nothing(void **state)
{
	static const char *const names[] = { ") R 1 1 1 (", "\n2 (x) R", ")))))))))))))))", " ",
					     "a) S 0 0 0 0 0" };
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		struct shape s = { .processes = 3, .threads = 2, .name = names[i] };
		struct watch_usage u;
		struct guest g = { 0 };
		struct watch w;

		start(&s, &g);
		w = (struct watch){ .procfd = g.procfd, .tasks_max = 5 };
		assert_int_equal(watch_look(&w, &u), WATCH_OK);
		assert_int_equal(u.tasks, 5);
		end(&g);
	}
}

static void put(int root, const char *pid, const char *file, const char *text)
{
	char path[64];
	int fd;

	assert_true(mkdirat(root, pid, 0755) == 0 || errno == EEXIST);
	(void)snprintf(path, sizeof(path), "%s/%s", pid, file);
	fd = openat(root, path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), (int)strlen(text));
	(void)close(fd);
	(void)snprintf(path, sizeof(path), "%s/task", pid);
	assert_true(mkdirat(root, path, 0755) == 0 || errno == EEXIST);
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st;
	(void)type;
	(void)ftw;
	return remove(path);
}

/* A process, not a thread of ours: only children of the made-up /proc's are looked at. */
static void memfds_count_once_and_without_being_mapped(void **state)
{
	static const char block[MIB];
	char dir[] = "/tmp/brig-memfds-XXXXXX", self[32], path[64];
	int fd = memfd_create("x", MFD_CLOEXEC), proc;
	struct memfds m = { 0 };

	(void)state;
	assert_non_null(mkdtemp(dir));
	(void)snprintf(self, sizeof(self), "/proc/%d", (int)getpid());
	for (int pid = 1; pid < 4; pid++) {
		(void)snprintf(path, sizeof(path), "%s/%d", dir, pid);
		assert_int_equal(symlink(self, path), 0);
	}
	proc = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_true(memfds_step(&m, proc) < (uint64_t)MIB);
	for (int i = 0; i < 3; i++)
		assert_int_equal(write(fd, block, sizeof(block)), (int)sizeof(block));
	assert_int_equal(memfds_step(&m, proc), 3 * MIB + 1024);
	assert_int_equal(memfds_step(&m, proc), 3 * MIB + 1024);
	assert_int_equal(ftruncate(fd, MIB), 0);
	assert_int_equal(memfds_step(&m, proc), MIB + 1024);
	(void)close(fd);
	assert_int_equal(memfds_step(&m, proc), 0);
	(void)close(proc);
	assert_int_equal(nftw(dir, remove_one, 16, FTW_DEPTH | FTW_PHYS), 0);
}

static void odd_entries_and_numbers_do_no_harm(void **state)
{
	char dir[] = "/tmp/brig-watch-XXXXXX";
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
	struct watch_usage u;
	struct watch w = { 0 };

	(void)state;
	assert_non_null(mkdtemp(dir));
	w.procfd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	put(w.procfd, "1", "statm", "900 900 9\n");  /* init */
	put(w.procfd, "2x", "statm", "900 900 9\n"); /* not a process */
	put(w.procfd, "sys", "statm", "900 900 9\n");
	put(w.procfd, "2", "statm", "10 7 3 1 0 2 0\n");
	put(w.procfd, "3", "statm", "");
	put(w.procfd, "4", "statm", "5");
	put(w.procfd, "5", "statm", "-5 -6 x\n");
	put(w.procfd, "123456789012345", "statm", "5 5\n"); /* longer than any pid: not found */
	assert_int_equal(watch_look(&w, &u), WATCH_OK);
	/* With the most that page tables of 10 and of 5 pages can take. */
	assert_true(u.memory == 7 * page + page + 80 + page + 40);
	assert_int_equal(u.tasks, 4);
	w.memory_max = 2 * page;
	put(w.procfd, "2", "status", "Name:\tx VmPTE: 9\nVmPTE:\t       1 kB\nVmSwap: 9 kB\n");
	put(w.procfd, "4", "status", "Name:\tx\nVmPTE:\t       0 kB\n");
	put(w.procfd, "2", "smaps_rollup", "0-1 ---p 0 0 0 [rollup]\nRss: 9 kB\nPss:  3 kB\n");
	assert_int_equal(watch_look(&w, &u), WATCH_OK);
	assert_true(u.memory == (3 + 1) * 1024);
	w.held = 10 * page; /* of which what is mapped has been counted */
	put(w.procfd, "2", "smaps_rollup", "0-1\nPss:  3 kB\nPss_Shmem:   40000 kB\n");
	assert_int_equal(watch_look(&w, &u), WATCH_OK);
	put(w.procfd, "2", "smaps_rollup", "0-1\nPss:  3 kB\nPss_Shmem:   1 kB\n     ");
	assert_int_equal(watch_look(&w, &u), WATCH_MEMORY);
	assert_true(u.memory == (3 + 1) * 1024 + 10 * page - 1024);
	w.held = 0;
	put(w.procfd, "3", "smaps_rollup", "Pss_Dirty: 1 kB\n"); /* no such line: resident size */
	assert_int_equal(watch_look(&w, &u), WATCH_OK);
	put(w.procfd, "6", "statm", "1 99999999999999999999999999 1\n");
	assert_int_equal(watch_look(&w, &u), WATCH_MEMORY);
	assert_true(u.memory == UINT64_MAX);
	(void)close(w.procfd);
	assert_int_equal(nftw(dir, remove_one, 16, FTW_DEPTH | FTW_PHYS), 0);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(threads_and_processes_count_and_init_does_not),
		cmocka_unit_test(memory_shared_by_fork_counts_once),
		cmocka_unit_test(files_in_the_tmpfs_are_memory),
		cmocka_unit_test(a_hostile_process_name_changes_nothing),
		cmocka_unit_test(memfds_count_once_and_without_being_mapped),
		cmocka_unit_test(odd_entries_and_numbers_do_no_harm),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
