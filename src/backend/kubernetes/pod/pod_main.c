/* SPDX-License-Identifier: Apache-2.0 */
/* backend/kubernetes/pod/pod_main.c - brig-pod: the one program of the helper's image.
 *
 *     brig-pod put PATH    an init container: copies itself there
 *     brig-pod close PATH  an init container with NET_ADMIN: takes the pod's network away as well
 *     brig-pod serve       the first process of the sandbox's container, which is somebody else's
 *     brig-pod door        that of the door's container, under network proxy
 *     brig-pod version
 *
 * Linked statically: it needs nothing of the image it runs in. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#include "backend/kubernetes/pod/pod_talk.h"
#include "base/files/fd.h"
#include "base/text/str.h"

static int pod_main_failed(const struct err *e)
{
	(void)fprintf(stderr, "brig-pod: %s\n", e->what);
	return POD_REFUSED;
}

static int pod_main_put(const char *path, struct err *e)
{
	CLEANUP(fd) int from = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	CLEANUP(fd)
	int to = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0555);
	struct stat st;

	if (from < 0 || to < 0 || fstat(from, &st) < 0)
		return err_sys(e, "cannot copy to '%s'", path);
	for (off_t left = st.st_size; left > 0;) {
		ssize_t n = sendfile(to, from, NULL, (size_t)left);

		if (n <= 0 && errno != EINTR)
			return err_sys(e, "cannot copy to '%s'", path);
		left -= n > 0 ? n : 0;
	}
	/* Whatever the umask was: the user inside executes it. */
	return fchmod(to, 0555) < 0 ? err_sys(e, "cannot finish '%s'", path) : 0;
}

int main(int argc, char **argv)
{
	struct err e = { 0 };

	if (argc == 2 && str_eq(argv[1], "serve"))
		pod_serve();
	if (argc == 2 && str_eq(argv[1], "door"))
		pod_door();
	if (argc == 3 && str_eq(argv[1], "close") && pod_close_network(&e) < 0)
		return pod_main_failed(&e);
	if (argc == 3 && (str_eq(argv[1], "close") || str_eq(argv[1], "put")))
		return pod_main_put(argv[2], &e) < 0 ? pod_main_failed(&e) : 0;
	if (argc == 2 && str_eq(argv[1], "version"))
		return fd_write_all(STDOUT_FILENO, POD_VERSION "\n", sizeof(POD_VERSION)) < 0;
	(void)err_set(&e, ERR_USAGE, EINVAL, "takes: put PATH, close PATH, serve, door or version");
	return pod_main_failed(&e);
}
