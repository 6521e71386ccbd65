/* SPDX-License-Identifier: Apache-2.0 */
/* unmapped.c - memory that the kernel holds for a guest and that is in no process's resident size.
 * Everything here is bounded by its arguments. */
#include <mqueue.h>
#include <net/if.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/msg.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <time.h>

#include "attack.h"

static char block[1 << 20];

/* ---- a MiB more; false: there is none to be had ---- */

static bool segment(int i)
{
	int id = shmget(IPC_PRIVATE, sizeof(block), IPC_CREAT | 0600);
	char *p = id < 0 ? MAP_FAILED : shmat(id, NULL, 0);

	(void)i;
	if (p == MAP_FAILED)
		return false;
	memcpy(p, block, sizeof(block));
	return shmdt(p) == 0;
}

static bool semaphores(int i) /* 64 bytes or so each */
{
	(void)i;
	return semget(IPC_PRIVATE, 16000, IPC_CREAT | 0600) >= 0;
}

static bool queues(int i)
{
	struct {
		long kind;
		char text[8192 - 64];
	} m = { .kind = 1 };

	(void)i;
	for (int n = 0; n < 64; n++) { /* 16 KiB each */
		int id = msgget(IPC_PRIVATE, IPC_CREAT | 0600);

		if (id < 0 || msgsnd(id, &m, sizeof(m.text), IPC_NOWAIT) < 0 ||
		    msgsnd(id, &m, sizeof(m.text), IPC_NOWAIT) < 0)
			return false;
	}
	return true;
}

static bool small_messages(int i) /* what the kernel keeps of each is more than its text */
{
	struct {
		long kind;
		char text[1];
	} m = { .kind = 1 };

	(void)i;
	for (int n = 0, id = -1; n < 16384; n++) { /* 64 bytes or so each */
		if (id < 0 || msgsnd(id, &m, 0, IPC_NOWAIT) < 0) {
			id = msgget(IPC_PRIVATE, IPC_CREAT | 0600);
			if (id < 0 || msgsnd(id, &m, 0, IPC_NOWAIT) < 0)
				return false;
		}
	}
	return true;
}

static bool fill_pair(int a, int b)
{
	int size = sizeof(block);
	size_t put = 0;
	ssize_t n;

	setsockopt(a, SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
	setsockopt(b, SOL_SOCKET, SO_RCVBUF, &size, sizeof(size));
	while (put < sizeof(block) && (n = send(a, block, 32768, MSG_DONTWAIT)) > 0)
		put += (size_t)n;
	return put >= sizeof(block) / 2;
}

static bool local_pair(int type)
{
	int p[2];

	return socketpair(AF_UNIX, type, 0, p) == 0 && fill_pair(p[0], p[1]) &&
	       fill_pair(p[1], p[0]);
}

static bool streams(int i)
{
	return local_pair(SOCK_STREAM) || !i;
}

static bool packets(int i)
{
	return local_pair(SOCK_SEQPACKET) || !i;
}

static bool datagrams(int i)
{
	return local_pair(SOCK_DGRAM) || !i;
}

/* In a namespace of one's own nobody else has done it. */
static void raise_loopback(void)
{
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	struct ifreq r = { .ifr_name = "lo", .ifr_flags = IFF_UP };

	(void)ioctl(fd, SIOCSIFFLAGS, &r);
	close(fd);
}

static bool tcp(int i)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(0x7f000001) };
	socklen_t n = sizeof(a);
	int l = socket(AF_INET, SOCK_STREAM, 0), c = socket(AF_INET, SOCK_STREAM, 0), s;

	(void)i;
	if (bind(l, (struct sockaddr *)&a, n) < 0 || listen(l, 1) < 0 ||
	    getsockname(l, (struct sockaddr *)&a, &n) < 0 ||
	    connect(c, (struct sockaddr *)&a, n) < 0 || (s = accept(l, NULL, NULL)) < 0)
		return false;
	close(l);
	return fill_pair(c, s);
}

static bool udp_of(int family)
{
	struct sockaddr_in6 a = { .sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT };
	struct sockaddr_in b = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(0x7f000001) };
	struct sockaddr *at = family == AF_INET ? (void *)&b : (void *)&a;
	socklen_t n = family == AF_INET ? sizeof(b) : sizeof(a);
	int s = socket(family, SOCK_DGRAM, 0), size = sizeof(block);
	uint32_t has[16] = { 0 };
	socklen_t m = sizeof(has);

	if (bind(s, at, n) < 0 || getsockname(s, at, &n) < 0)
		return false;
	setsockopt(s, SOL_SOCKET, SO_RCVBUF, &size, sizeof(size));
	for (int k = 0; k < 18; k++)
		if (sendto(s, block, 60000, MSG_DONTWAIT, at, n) < 0)
			return false;
	/* What does not fit is dropped in silence. */
	return getsockopt(s, SOL_SOCKET, SO_MEMINFO, has, &m) == 0 && has[0] > sizeof(block) / 2;
}

static bool udp(int i)
{
	(void)i;
	return udp_of(AF_INET);
}

static bool udp6(int i)
{
	(void)i;
	return udp_of(AF_INET6);
}

static bool memfd(int i)
{
	int fd = memfd_create("x", 0);

	(void)i;
	return write(fd, block, sizeof(block)) == (ssize_t)sizeof(block);
}

static bool one_memfd(int i)
{
	static int fd = -1;

	if (fd < 0)
		fd = memfd_create("x", 0);
	return pwrite(fd, block, sizeof(block), (off_t)i << 20) == (ssize_t)sizeof(block);
}

static bool other_memfd(int i) /* of a child that has nothing else */
{
	pid_t pid = fork();

	if (pid == 0) {
		(void)memfd(i);
		sleep(20);
		_exit(0);
	}
	return pid > 0;
}

static bool sealed(int i)
{
	int fd = memfd_create("x", MFD_ALLOW_SEALING);

	(void)i;
	return write(fd, block, sizeof(block)) == (ssize_t)sizeof(block) &&
	       fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_SEAL) == 0;
}

static bool reserved(int i) /* nothing is written */
{
	int fd = memfd_create("x", 0);

	(void)i;
	return fallocate(fd, FALLOC_FL_KEEP_SIZE, 0, sizeof(block)) == 0;
}

static bool tables(int i) /* each leads to the page of zeros */
{
	size_t n = (size_t)256 << 21;
	volatile char *p =
		mmap(NULL, n, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (p == MAP_FAILED)
		return false;
	madvise((void *)(uintptr_t)p, n, MADV_NOHUGEPAGE);
	for (size_t at = 0; at < n; at += 2 << 20)
		i += p[at];
	return i >= 0;
}

static const struct {
	const char *name;
	bool (*more)(int i);
} forms[] = { { "segments", segment },
	      { "semaphores", semaphores },
	      { "queues", queues },
	      { "small-messages", small_messages },
	      { "streams", streams },
	      { "packets", packets },
	      { "datagrams", datagrams },
	      { "tcp", tcp },
	      { "udp", udp },
	      { "udp6", udp6 },
	      { "memfds", memfd },
	      { "one-memfd", one_memfd },
	      { "children-memfds", other_memfd },
	      { "sealed-memfds", sealed },
	      { "reserved-memfds", reserved },
	      { "tables", tables } };

static void *hold_memory(void *arg)
{
	size_t n = (size_t) * (int *)arg << 20;
	char *p = malloc(n);

	usleep(50000);
	memset(p, 1, n);
	printf("= held %zu\n", (n >> 20) * (size_t)p[n - 1]);
	usleep(300000);
	exit(0);
}

/* hold HOW MIB [at-once]; headless: by a process whose first thread has ended. */
static void hold(int argc, char **argv)
{
	static int most;
	pthread_t t;
	int n = 0;

	most = argc > 1 ? atoi(argv[1]) : 1;
	memset(block, 1, sizeof(block));
	raise_loopback();
	setpgid(0, 0); /* whom the signal below is for */
	if (strcmp(argv[0], "headless") == 0) {
		pthread_create(&t, NULL, hold_memory, &most);
		pthread_exit(NULL);
	}
	for (size_t f = 0; f < sizeof(forms) / sizeof(forms[0]); f++)
		if (strcmp(argv[0], forms[f].name) == 0)
			while (n < most && forms[f].more(n))
				n++;
	printf("= held %d\n", n);
	fflush(stdout);
	usleep((argc > 2 ? 0 : 500) * 1000); /* who looks now and then must have looked */
	signal(SIGTERM, SIG_IGN);
	if (getpgrp() == getpid())
		kill(0, SIGTERM);
}

/* ---- what is bounded by the kernel, for all processes of the sandbox together ---- */

static int posix_queues(int most)
{
	struct mq_attr a = { .mq_maxmsg = 8, .mq_msgsize = 8192 };
	char name[64];
	int n = 0;

	for (; n < most; n++) {
		snprintf(name, sizeof(name), "/q-%d-%d", getpid(), n);
		if (mq_open(name, O_RDWR | O_CREAT, 0600, &a) < 0)
			break;
		mq_unlink(name);
	}
	return n;
}

static int signals(int most)
{
	sigset_t set;
	int n = 0;

	sigemptyset(&set);
	sigaddset(&set, SIGRTMIN + 3);
	sigprocmask(SIG_BLOCK, &set, NULL);
	while (n < most && sigqueue(getpid(), SIGRTMIN + 3, (union sigval){ 0 }) == 0)
		n++;
	return n;
}

static int timers(int most)
{
	struct sigevent e = { .sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1 };
	timer_t t;
	int n = 0;

	while (n < most && timer_create(CLOCK_MONOTONIC, &e, &t) == 0)
		n++;
	return n;
}

static int events(int most)
{
	int n = 0;

	while (n < most && eventfd(0, 0) >= 0)
		n++;
	return n;
}

static int flying(int most) /* descriptors on their way, none of them kept */
{
	int n = 0, p[2] = { -1, -1 };

	for (; n < most; n++) {
		union {
			struct cmsghdr head;
			char room[CMSG_SPACE(sizeof(int))];
		} c = { .head = { .cmsg_len = CMSG_LEN(sizeof(int)),
				  .cmsg_level = SOL_SOCKET,
				  .cmsg_type = SCM_RIGHTS } };
		struct iovec v = { block, 1 };
		struct msghdr m = { .msg_iov = &v,
				    .msg_iovlen = 1,
				    .msg_control = &c,
				    .msg_controllen = sizeof(c) };

		memcpy(CMSG_DATA(&c.head), &(int){ 1 }, sizeof(int));
		if (n % 64 == 0 && socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, p) < 0)
			break;
		if (sendmsg(p[0], &m, 0) < 0)
			break;
	}
	return n;
}

static int pipe_kib(int most) /* as large as each can be */
{
	int n = 0, p[2];

	for (int i = 0; i < most && pipe2(p, O_NONBLOCK) == 0; i++) {
		for (int size = 1 << 20; size > 4096 && fcntl(p[1], F_SETPIPE_SZ, size) < 0;)
			size >>= 1;
		while (write(p[1], block, 4096) == 4096)
			n += 4;
	}
	return n;
}

static int locked_kib(int most)
{
	int n = 0;

	for (; n < most; n += 64) {
		void *p = mmap(NULL, 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
			       0);

		if (p == MAP_FAILED || mlock(p, 65536) < 0)
			break;
	}
	return n;
}

static int areas(int most)
{
	int n = 0;

	while (n < most && mmap(NULL, 4096, n % 2 ? PROT_READ : PROT_NONE,
				MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED)
		n++;
	return n;
}

static const struct {
	const char *name;
	int (*take)(int most);
} objects[] = { { "posix-queues", posix_queues },
		{ "signals", signals },
		{ "timers", timers },
		{ "events", events },
		{ "flying", flying },
		{ "pipes", pipe_kib },
		{ "locked", locked_kib },
		{ "areas", areas } };

/* take WHAT MOST CHILDREN: the sum of what so many processes have at the same time. */
static void take(int argc, char **argv)
{
	int most = argc > 1 ? atoi(argv[1]) : 1, made = 0, sum = 0, n, up[2], hang[2];
	char c;

	memset(block, 1, sizeof(block));
	if (pipe(up) < 0 || pipe(hang) < 0)
		return;
	for (int i = 0; i < (argc > 2 ? atoi(argv[2]) : 1); i++) {
		pid_t pid = fork();

		if (pid == 0) {
			close(hang[1]);
			for (size_t k = 0; k < sizeof(objects) / sizeof(objects[0]); k++)
				if (strcmp(argv[0], objects[k].name) == 0)
					n = objects[k].take(most);
			(void)!write(up[1], &n, sizeof(n));
			(void)!read(hang[0], &c, 1); /* until all have */
			_exit(0);
		}
		made += pid > 0;
	}
	for (int i = 0; i < made && read(up[0], &n, sizeof(n)) == sizeof(n); i++)
		sum += n;
	printf("= processes %d\n= taken %d\n", made, sum);
	close(hang[1]);
	while (wait(NULL) > 0)
		;
}

int main(int argc, char **argv)
{
	static const struct subcommand all[] = {
		{ "hold", hold },
		{ "take", take },
		{ NULL, NULL },
	};

	return dispatch(all, argc, argv);
}
