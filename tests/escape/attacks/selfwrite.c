/* SPDX-License-Identifier: Apache-2.0 */
/* selfwrite.c - what a process may write in /proc: names of its threads, memory of its own and of
 * what it traces. And everything that lies beside them. */
#include "attack.h"

#include <pthread.h>
#include <signal.h>
#include <sys/ptrace.h>

static const volatile int fixed = 42; /* no page that may be written */

static void *idle(void *arg)
{
	while (!*(volatile bool *)arg)
		usleep(1000);
	return NULL;
}

static void poke(const char *name, const char *path, int flags, const volatile void *at)
{
	const int value = 43;
	int fd = open(path, flags);

	if (tried(name, fd < 0 ? -1 : pwrite(fd, &value, sizeof(value), (off_t)(uintptr_t)at)) < 0)
		return;
	close(fd);
}

static void named(const char *name, const char *path, int flags)
{
	int fd = open(path, flags);

	tried(name, fd < 0 ? -1 : write(fd, "other", 5));
	if (fd >= 0)
		close(fd);
}

/* What CUDA, a profiler or a debugger does. */
static void own(int argc, char **argv)
{
	bool over = false;
	pthread_t t;
	char path[64];
	int r;

	(void)argc, (void)argv;
	if (pthread_create(&t, NULL, idle, &over) != 0)
		return cannot("thread", "none could be made");
	r = errno = pthread_setname_np(t, "named");
	tried("pthread_setname_np", r ? -1 : 0);
	named("comm", "/proc/self/comm", O_WRONLY);
	named("thread-comm", "/proc/thread-self/comm", O_RDWR | O_CLOEXEC);
	snprintf(path, sizeof(path), "/proc/%d/task/%d/comm", getpid(), getpid());
	named("numbers-comm", path, O_WRONLY | O_CLOEXEC);
	poke("mem", "/proc/self/mem", O_RDWR, &fixed);
	printf("= fixed %d\n", fixed);
	over = true;
	pthread_join(t, NULL);
}

static pid_t sleeper(void)
{
	pid_t pid = fork();

	if (pid == 0) {
		pause();
		_exit(0);
	}
	return pid;
}

/* The memory of a child: first just so, then traced. What a tracer may do word by word it may do at
 * once; nobody else. */
static void child(int argc, char **argv)
{
	const bool trace = argc && strcmp(argv[0], "traced") == 0;
	pid_t pid = sleeper();
	char path[64];
	int status;

	if (trace && (ptrace(PTRACE_ATTACH, pid, NULL, NULL) < 0 || waitpid(pid, &status, 0) < 0))
		return cannot("trace", strerrorname_np(errno));
	snprintf(path, sizeof(path), "/proc/%d/mem", pid);
	poke("mem", path, O_RDWR | O_CLOEXEC, &fixed);
	snprintf(path, sizeof(path), "/proc/%d/task/%d/mem", pid, pid);
	poke("task-mem", path, O_RDWR, &fixed);
	if (trace)
		printf("= there %ld\n",
		       ptrace(PTRACE_PEEKDATA, pid, (void *)(uintptr_t)&fixed, NULL) & 0xffffffff);
	if (!trace) { /* its name is its own */
		snprintf(path, sizeof(path), "/proc/%d/comm", pid);
		tried("comm", open(path, O_RDWR));
	}
	kill(pid, SIGKILL);
	waitpid(pid, &status, 0);
}

/* Of those who are not ours: init, our parent, every number that there may be. */
static void strangers(int argc, char **argv)
{
	int most = argc ? atoi(argv[0]) : 64, mine = getpid();
	char path[64], name[32];

	for (int pid = 1; pid <= most; pid++)
		for (int i = 0; pid != mine && i < 2; i++) {
			snprintf(path, sizeof(path), "/proc/%d/%s", pid, i ? "comm" : "mem");
			snprintf(name, sizeof(name), "%d/%s", pid, i ? "comm" : "mem");
			tried(name, open(path, O_RDWR));
		}
	snprintf(path, sizeof(path), "/proc/%d/mem", getppid());
	tried("parent/mem", open(path, O_RDWR));
}

static char path_that_changes[64] = "/proc/self/comm";
static volatile bool stop;

static void *change(void *arg)
{
	(void)arg;
	for (unsigned i = 0; !stop; i++) {
		memcpy(path_that_changes,
		       i & 1 ? "/proc/self/oom_score_adj" : "/proc/self/comm\0        ", 25);
		for (volatile int k = 0; k < 300; k++)
			;
	}
	return NULL;
}

/* The path is read, found to be good, and is another by the time it is opened. */
static void swap(int argc, char **argv)
{
	int names = 0, scores = 0, tries = argc ? atoi(argv[0]) : 400;
	char at[32], where[64];
	pthread_t t;

	if (pthread_create(&t, NULL, change, NULL) != 0)
		return cannot("thread", "none could be made");
	for (int i = 0; i < tries && !(names && scores); i++) {
		int fd = open(path_that_changes, O_WRONLY);
		ssize_t n;

		if (fd < 0)
			continue;
		snprintf(at, sizeof(at), "/proc/self/fd/%d", fd);
		n = readlink(at, where, sizeof(where) - 1);
		where[n > 0 ? n : 0] = '\0';
		names += strstr(where, "/comm") != NULL;
		scores += strstr(where, "oom_score_adj") != NULL;
		close(fd);
	}
	stop = true;
	pthread_join(t, NULL);
	printf("= names %d\n", names);
	if (scores)
		yes("swap", "%d", scores);
	else
		no("swap", 0);
}

/* A signal whose handler asks for no restart, again and again. */
static void on_alarm(int sig)
{
	(void)sig;
}

static void *flood(void *arg)
{
	while (!*(volatile bool *)arg)
		close(open("/dev/null", O_RDWR));
	return NULL;
}

static void crowd(int argc, char **argv)
{
	struct sigaction sa = { .sa_handler = on_alarm };
	bool over = false;
	pthread_t t[8];
	int failed = 0;

	(void)argc, (void)argv;
	sigaction(SIGUSR1, &sa, NULL);
	for (int i = 0; i < 8; i++)
		pthread_create(&t[i], NULL, flood, &over);
	for (int i = 0; i < 200; i++) {
		failed += pthread_setname_np(t[i % 8], "crowd") != 0;
		pthread_kill(t[i % 8], SIGUSR1);
	}
	over = true;
	for (int i = 0; i < 8; i++)
		pthread_join(t[i], NULL);
	errno = EAGAIN;
	tried("crowd", failed ? -1 : 0);
}

int main(int argc, char **argv)
{
	static const struct subcommand all[] = {
		{ "own", own },   { "child", child }, { "strangers", strangers },
		{ "swap", swap }, { "crowd", crowd }, { NULL, NULL },
	};

	return dispatch(all, argc, argv);
}
