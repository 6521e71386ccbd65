/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/tls_front.h"

#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "base/files/exposed.h"
#include "base/files/fd.h"
#include "base/sys/clock.h"
#include "base/sys/wait.h"
#include "model/settings/paths.h"
#include "proc/host_find.h"
#include "proc/host_program.h"

#define PROGRAM "brig-tls"

enum { FDS = TLS_FD_END - TLS_LISTENER };

/* ---- the files ---- */

/* Where an open file or folder is now. */
static int where(int fd, char *out, size_t n)
{
	char number[32];
	ssize_t len;

	(void)snprintf(number, sizeof(number), "/proc/self/fd/%d", fd);
	len = readlink(number, out, n - 1);
	if (len < 0)
		return -errno;
	out[len] = '\0';
	return 0;
}

/* No sandbox is shown brig's state, whatever it asks for; of any other place that cannot be said.
 * A second name of the file could be anywhere. */
static int key_hidden(const struct tls_front *f, int key, struct err *e)
{
	char path[PATH_MAX], folder[PATH_MAX], *slash;
	struct stat st;

	if (fstat(key, &st) < 0 || where(key, path, sizeof(path)) < 0 ||
	    where(f->state, folder, sizeof(folder)) < 0)
		return err_sys(e, "cannot look at '%.200s'", f->key);
	if (!S_ISREG(st.st_mode) || st.st_uid != geteuid() || (st.st_mode & 077)) {
		(void)err_set(e, ERR_POLICY, EPERM,
			      "the private key '%.200s' must be a file of yours that nobody else "
			      "may read",
			      f->key);
		return err_hint(e, "chmod 600 '%.200s'", f->key);
	}
	slash = strrchr(folder, '/');
	if (slash && slash != folder)
		*slash = '\0';
	if (path_under(path, folder) && st.st_nlink == 1)
		return 0;
	(void)err_set(e, ERR_POLICY, EPERM, "a sandbox could be shown the private key '%.200s'%s",
		      f->key, st.st_nlink > 1 ? ", which has a second name" : "");
	return err_hint(e, "install -D -m 600 '%.150s' '%.200s/tls/key.pem', and name that", f->key,
			folder);
}

static int open_files(const struct tls_front *f, int *cert, int *key, struct err *e)
{
	if (exposed_check("the certificate", f->cert, NULL, EXPOSED_SHARED, e) < 0 ||
	    exposed_check("the private key", f->key, NULL, 0, e) < 0)
		return -e->code;
	*cert = open(f->cert, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	if (*cert < 0)
		return err_sys(e, "cannot read the certificate '%.200s'", f->cert);
	*key = open(f->key, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	if (*key < 0)
		return err_sys(e, "cannot read the private key '%.200s'", f->key);
	return key_hidden(f, *key, e);
}

/* ---- the process ---- */

/* The kernel may still have something to do for one that was killed: nobody waits for that. */
static bool has_ended(struct tls_front *f)
{
	pid_t got = f->dead > 0 ? waitpid(f->dead, NULL, WNOHANG | __WALL) : -1;

	if (got == 0 || (got < 0 && f->dead > 0 && errno == EINTR))
		return false;
	f->dead = 0;
	return true;
}

static int launch(struct tls_front *f, const int *fds, struct err *e)
{
	static const char *const argv[] = { PROGRAM, NULL };
	char program[PATH_MAX];

	if (!has_ended(f))
		return err_set(e, ERR_UNAVAILABLE, EBUSY,
			       "the " PROGRAM " before this one was killed, and has not ended");
	if (host_find_own(PROGRAM, program, e) < 0)
		return -e->code;
	return host_start(&(struct host_program){ .program = program,
						  .argv = argv,
						  .fds = fds,
						  .fd_count = FDS,
						  .own = true },
			  &f->pid, NULL, e);
}

int tls_front_word(int channel, struct err *e)
{
	char text[256];
	size_t none = 0;
	ssize_t n = fd_recv(channel, text, sizeof(text) - 1, NULL, &none);

	if (n == 1 && text[0] == '\0')
		return 0;
	if (n <= 0)
		return err_set(e, ERR_UNAVAILABLE, EPIPE, PROGRAM " ended at once");
	text[n] = '\0';
	return err_set(e, ERR_CONFIG, EINVAL, "%s", text);
}

/* Its end of the channel is then its own alone. */
int tls_front_begin(struct tls_front *f, int *channel, struct err *e)
{
	CLEANUP(fd) int cert = -1, key = -1, here = -1, there = -1;
	int pair[2];

	if (open_files(f, &cert, &key, e) < 0)
		return -e->code;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) < 0)
		return err_sys(e, "cannot make a socket pair");
	here = pair[0];
	there = pair[1];
	if (launch(f, (const int[]){ f->listener, there, cert, key }, e) < 0)
		return -e->code;
	*channel = TAKE_FD(here);
	return 0;
}

int tls_front_late(struct err *e)
{
	return err_set(e, ERR_UNAVAILABLE, ETIMEDOUT, PROGRAM " does not begin");
}

int tls_front_start(struct tls_front *f, int *channel, struct err *e)
{
	CLEANUP(fd) int here = -1;
	int r;

	if (tls_front_begin(f, &here, e) < 0)
		return -e->code;
	r = wait_fd(here, POLLIN, clock_after(TLS_PATIENCE_MS)) < 0 ? tls_front_late(e)
								    : tls_front_word(here, e);
	if (r < 0) {
		tls_front_end(f);
		return r;
	}
	*channel = TAKE_FD(here);
	return 0;
}

void tls_front_end(struct tls_front *f)
{
	if (f->pid > 0) {
		(void)kill(f->pid, SIGKILL);
		f->dead = f->pid;
	}
	f->pid = 0;
	(void)has_ended(f);
}
