/* SPDX-License-Identifier: Apache-2.0 */
/* files.c - changing what is read-only, by every call that changes anything. */
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/time.h>
#include <sys/xattr.h>
#include <utime.h>

#include "attack.h"

/* FILE, which exists with content. */
static void change(int argc, char **argv)
{
	const char *f = argc ? argv[0] : "/workspace/file";
	int fd = open(f, O_RDONLY), flags = FS_NODUMP_FL, out;
	char dir[4096], path[4200], proc[64];
	struct {
		uint64_t xflags;
		uint32_t a[6];
	} attr = { .xflags = 1 };
	void *map;

	snprintf(dir, sizeof(dir), "%s", f);
	*strrchr(dir, '/') = '\0';
	snprintf(proc, sizeof(proc), "/proc/self/fd/%d", fd);
	tried("write", open(f, O_WRONLY));
	tried("append", open(f, O_RDWR | O_APPEND));
	tried("reopen", open(proc, O_RDWR));
	tried("truncate", truncate(f, 0));
	tried("ftruncate", ftruncate(fd, 0));
	tried("open-truncate", open(f, O_RDONLY | O_TRUNC));
	tried("chmod", chmod(f, 0777));
	tried("fchmod", fchmod(fd, 0777));
	tried("chmod-proc", chmod(proc, 0777));
	tried("chown", chown(f, getuid(), getgid()));
	tried("utimes", utimensat(AT_FDCWD, f, (struct timespec[]){ { 1, 0 }, { 1, 0 } }, 0));
	tried("futimens", futimens(fd, (struct timespec[]){ { 1, 0 }, { 1, 0 } }));
	tried("setxattr", setxattr(f, "user.x", "y", 1, 0));
	tried("fsetxattr", fsetxattr(fd, "user.x", "y", 1, 0));
	tried("setxattr-proc", setxattr(proc, "user.x", "y", 1, 0));
	tried("punch", fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 1));
	tried("clone", ioctl(fd, FICLONE, fd));
	tried("flags", ioctl(fd, FS_IOC_SETFLAGS, &flags));
	tried("xflags", ioctl(fd, _IOW('X', 32, char[28]), &attr));
	tried("file_setattr", syscall(469, AT_FDCWD, f, &attr, sizeof(attr), 0));
	map = mmap(NULL, 1, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	tried("mmap", map == MAP_FAILED ? -1 : 0);
	map = mmap(NULL, 1, PROT_READ, MAP_SHARED, fd, 0);
	tried("mprotect", mprotect(map, 1, PROT_READ | PROT_WRITE));
	tried("unlink", unlink(f));
	snprintf(path, sizeof(path), "%s/renamed", dir);
	tried("rename", rename(f, path));
	tried("rename-tmp", rename(f, "/tmp/renamed"));
	tried("link", link(f, path));
	tried("link-tmp", link(f, "/tmp/linked"));
	tried("link-proc", linkat(AT_FDCWD, proc, AT_FDCWD, "/tmp/linked2", AT_SYMLINK_FOLLOW));
	snprintf(path, sizeof(path), "%s/new", dir);
	tried("create", open(path, O_WRONLY | O_CREAT, 0644));
	tried("mkdir", mkdir(path, 0755));
	tried("symlink", symlink("x", path));
	tried("mkfifo", mkfifo(path, 0600));
	tried("tmpfile", open(dir, O_TMPFILE | O_RDWR, 0600));
	tried("chmod-folder", chmod(dir, 0777));
	out = open("/tmp/copy", O_RDWR | O_CREAT, 0600);
	(void)!write(out, "PWNED", 5);
	tried("copy_file_range", copy_file_range(out, NULL, fd, NULL, 5, 0));
	tried("sendfile", sendfile(fd, out, NULL, 5));
}

int main(int argc, char **argv)
{
	static const struct subcommand all[] = { { "change", change }, { NULL, NULL } };

	return dispatch(all, argc, argv);
}
