/* SPDX-License-Identifier: Apache-2.0 */
/* ipc.c - meeting points: sockets, SysV, POSIX queues, shared memory, loopback. */
#include <mqueue.h>
#include <netinet/in.h>
#include <stddef.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/msg.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "attack.h"

static int unix_connect(const char *path, bool abstract, int type)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	int s = socket(AF_UNIX, type, 0);
	socklen_t n;

	strncpy(a.sun_path + abstract, path, sizeof(a.sun_path) - 2);
	n = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + abstract + strlen(path) +
			!abstract);
	if (connect(s, (struct sockaddr *)&a, n) < 0)
		return -1;
	(void)!send(s, "PWNED", 5, MSG_NOSIGNAL);
	return s;
}

/* Abstract names, with @, and paths. */
static void connect_to(int argc, char **argv)
{
	for (int i = 0; i < argc; i++) {
		bool abstract = argv[i][0] == '@';

		if (unix_connect(argv[i] + abstract, abstract, SOCK_STREAM) >= 0)
			yes(argv[i], "stream");
		else if (unix_connect(argv[i] + abstract, abstract, SOCK_DGRAM) >= 0)
			yes(argv[i], "datagram");
		else
			no(argv[i], errno);
	}
}

#define KEY 0x62726967
#define PORT 42421

/* Offers every meeting point there is, then waits. */
static void offer(int argc, char **argv)
{
	struct sockaddr_un u = { .sun_family = AF_UNIX, .sun_path = "\0brig-meeting" };
	struct sockaddr_in in = { .sin_family = AF_INET,
				  .sin_port = htons(PORT),
				  .sin_addr.s_addr = htonl(INADDR_ANY) };
	int s, shm;
	mqd_t q;

	printf("= shm %d\n", shmget(KEY, 4096, IPC_CREAT | 0666));
	printf("= sem %d\n", semget(KEY, 1, IPC_CREAT | 0666));
	printf("= msg %d\n", msgget(KEY, IPC_CREAT | 0666));
	q = mq_open("/brig-meeting", O_RDWR | O_CREAT, 0666, NULL);
	printf("= mq %d\n", q);
	shm = shm_open("/brig-meeting", O_RDWR | O_CREAT, 0666);
	printf("= posix-shm %d\n", shm);
	close(open("/tmp/brig-meeting", O_RDWR | O_CREAT, 0666));
	s = socket(AF_UNIX, SOCK_STREAM, 0);
	printf("= abstract %d\n",
	       bind(s, (struct sockaddr *)&u, offsetof(struct sockaddr_un, sun_path) + 13) == 0 &&
		       listen(s, 8) == 0);
	s = socket(AF_INET, SOCK_STREAM, 0);
	printf("= tcp %d\n", bind(s, (struct sockaddr *)&in, sizeof(in)) == 0 && listen(s, 8) == 0);
	if (argc)
		let_host_look(argv[0]);
	if (argc > 1) { /* tidy up: this is the host */
		shmctl(shmget(KEY, 0, 0), IPC_RMID, NULL);
		semctl(semget(KEY, 0, 0), 0, IPC_RMID);
		msgctl(msgget(KEY, 0), IPC_RMID, NULL);
		mq_unlink("/brig-meeting");
		shm_unlink("/brig-meeting");
		unlink("/tmp/brig-meeting");
	}
}

/* Looks for them. */
static void seek(int argc, char **argv)
{
	struct sockaddr_in in = { .sin_family = AF_INET,
				  .sin_port = htons(PORT),
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int s = socket(AF_INET, SOCK_STREAM, 0);

	(void)argc, (void)argv;
	tried("shm", shmget(KEY, 0, 0));
	tried("sem", semget(KEY, 0, 0));
	tried("msg", msgget(KEY, 0));
	tried("mq", mq_open("/brig-meeting", O_RDWR));
	tried("posix-shm", shm_open("/brig-meeting", O_RDWR, 0));
	tried("tmp", open("/tmp/brig-meeting", O_RDWR));
	tried("abstract", unix_connect("brig-meeting", true, SOCK_STREAM));
	tried("tcp", connect(s, (struct sockaddr *)&in, sizeof(in)));
}

int main(int argc, char **argv)
{
	static const struct subcommand all[] = {
		{ "connect", connect_to },
		{ "offer", offer },
		{ "seek", seek },
		{ NULL, NULL },
	};

	return dispatch(all, argc, argv);
}
