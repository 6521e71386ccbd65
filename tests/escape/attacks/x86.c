/* SPDX-License-Identifier: Apache-2.0 */
/* x86.c - what x86-64 alone has: calls by the numbers of i386 and x32, segments, ports, old calls.
 *
 * Every attempt is made in a child, which the filter may kill. Files are made in the current
 * folder. */
#include "attack.h"

#ifdef __x86_64__

#include <asm/ldt.h>
#include <asm/prctl.h>
#include <elf.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/io.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/time.h>
#include <time.h>
#include <utime.h>

#define X32 0x40000000L
#define HIGH 0x100000000L

/* The child's status is 0 if it worked, else errno. */
static void attempt(const char *name, long (*call)(const void *), const void *argument)
{
	pid_t pid = fork();
	int status;

	if (pid == 0) {
		errno = 0;
		_exit(call(argument) < 0 ? errno : 0);
	}
	waitpid(pid, &status, 0);
	if (WIFSIGNALED(status)) {
		printf("- %s %s\n", name, sigabbrev_np(WTERMSIG(status)));
		denied++;
		return;
	}
	errno = WEXITSTATUS(status);
	tried(name, errno ? -1 : 0);
}

struct call {
	const char *name;
	long nr, arg[5];
};

static long plainly(const void *argument)
{
	const struct call *c = argument;

	return syscall(c->nr, c->arg[0], c->arg[1], c->arg[2], c->arg[3], c->arg[4]);
}

/* Arguments are 32 bits wide, and so are addresses: those of a static program's data are. */
static long by_interrupt(const void *argument)
{
	const struct call *c = argument;
	long r;

	__asm__ volatile("int $0x80"
			 : "=a"(r)
			 : "a"(c->nr), "b"(c->arg[0]), "c"(c->arg[1]), "d"(c->arg[2])
			 : "memory", "r8", "r9", "r10", "r11");
	if ((int)r >= 0)
		return r;
	errno = -(int)r;
	return -1;
}

/* A program of 32 bits that ends with 42. */
static void write_i386_program(const char *path)
{
	static const unsigned char code[] = { 0xb8, 1, 0, 0, 0, 0xbb, 42, 0, 0, 0, 0xcd, 0x80 };
	const uint32_t base = 0x08048000, head = sizeof(Elf32_Ehdr) + sizeof(Elf32_Phdr);
	const Elf32_Ehdr e = { .e_ident = { 0x7f, 'E', 'L', 'F', ELFCLASS32, ELFDATA2LSB, 1 },
			       .e_type = ET_EXEC,
			       .e_machine = EM_386,
			       .e_version = 1,
			       .e_entry = base + head,
			       .e_phoff = sizeof(e),
			       .e_ehsize = sizeof(e),
			       .e_phentsize = sizeof(Elf32_Phdr),
			       .e_phnum = 1 };
	const Elf32_Phdr p = { .p_type = PT_LOAD,
			       .p_vaddr = base,
			       .p_filesz = head + sizeof(code),
			       .p_memsz = head + sizeof(code),
			       .p_flags = PF_R | PF_X,
			       .p_align = 0x1000 };
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0755);

	if (write(fd, &e, sizeof(e)) < 0 || write(fd, &p, sizeof(p)) < 0 ||
	    write(fd, code, sizeof(code)) < 0)
		cannot("program", "not written");
	close(fd);
}

static long run_i386_program(const void *argument)
{
	char *const argv[] = { (char *)argument, NULL };
	pid_t pid = fork();
	int status;

	if (pid == 0) {
		execv(argument, argv);
		_exit(127);
	}
	waitpid(pid, &status, 0);
	if (WIFSIGNALED(status))
		raise(WTERMSIG(status));
	errno = ENOEXEC;
	return WEXITSTATUS(status) == 42 ? 0 : -1;
}

static void i386(int argc, char **argv)
{
	static const char file[] = "set-id-by-interrupt";
	const struct call calls[] = {
		{ "int80-getpid", 20, { 0 } },
		{ "int80-unshare-user", 310, { CLONE_NEWUSER } },
		{ "int80-creat", 8, { (long)file, 0755 } },
		{ "int80-chmod", 15, { (long)file, 04755 } },
		{ "int80-personality", 136, { 0x0400000 } },
	};

	(void)argc, (void)argv;
	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++)
		attempt(calls[i].name, by_interrupt, &calls[i]);
	write_i386_program("./i386-program");
	attempt("program", run_i386_program, "./i386-program");
}

static void x32(int argc, char **argv)
{
	static const struct call calls[] = {
		{ "x32-getpid", X32 | SYS_getpid, { 0 } },
		{ "x32-unshare-user", X32 | SYS_unshare, { CLONE_NEWUSER } },
		{ "x32-chmod", X32 | SYS_chmod, { (long)"x32-file", 04755 } },
		{ "x32-personality", X32 | SYS_personality, { 0x0400000 } },
		{ "x32-getpid-high", HIGH | X32 | SYS_getpid, { 0 } },
	};

	(void)argc, (void)argv;
	close(open("x32-file", O_WRONLY | O_CREAT, 0755));
	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++)
		attempt(calls[i].name, plainly, &calls[i]);
	/* Its own range, with and without the bit: old kernels took both. */
	for (long nr = 512; nr < 548; nr++)
		if (syscall(nr, -1, 0, 0, 0, 0, 0) >= 0 || errno != ENOSYS)
			yes("x32-range", "%ld", nr);
	for (long nr = X32 | 512; nr < (X32 | 548); nr++)
		if (nr != (X32 | 513) /* rt_sigreturn */ &&
		    (syscall(nr, -1, 0, 0, 0, 0, 0) >= 0 || errno != ENOSYS))
			yes("x32-range-bit", "%ld", nr - X32);
}

static long read_port(const void *argument)
{
	(void)argument;
	(void)iopl(3);
	(void)ioperm(0x80, 1, 1);
	(void)inb(0x80);
	return 0;
}

static long open_device(const void *path)
{
	return open(path, O_RDWR);
}

static void machine(int argc, char **argv)
{
	static const struct user_desc segment = {
		.entry_number = 0, .limit = 0xfffff, .seg_32bit = 1, .limit_in_pages = 1
	};
	static char room[64];
	const struct call calls[] = {
		{ "modify_ldt-write", SYS_modify_ldt, { 1, (long)&segment, sizeof(segment) } },
		{ "modify_ldt-write-new",
		  SYS_modify_ldt,
		  { 0x11, (long)&segment, sizeof(segment) } },
		{ "modify_ldt-read", SYS_modify_ldt, { 0, (long)room, sizeof(room) } },
		{ "iopl", SYS_iopl, { 3 } },
		{ "iopl-high", SYS_iopl, { HIGH | 3 } },
		{ "ioperm", SYS_ioperm, { 0x80, 1, 1 } },
	};

	(void)argc, (void)argv;
	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++)
		attempt(calls[i].name, plainly, &calls[i]);
	attempt("port", read_port, NULL);
	attempt("dev-port", open_device, "/dev/port");
	attempt("dev-msr", open_device, "/dev/cpu/0/msr");
}

static void set_id(int argc, char **argv)
{
	static const struct call calls[] = {
		{ "chmod", SYS_chmod, { (long)"file", 04755 } },
		{ "chmod-high", SYS_chmod, { (long)"file", HIGH | 02755 } },
		{ "creat", SYS_creat, { (long)"by-creat", 04755 } },
		{ "creat-high", SYS_creat, { (long)"by-creat-high", HIGH | 02755 } },
		{ "open", SYS_open, { (long)"by-open", O_CREAT | O_WRONLY, 04755 } },
		{ "open-high",
		  SYS_open,
		  { (long)"by-open-high", HIGH | O_CREAT | O_WRONLY, HIGH | 02755 } },
		{ "mknod", SYS_mknod, { (long)"by-mknod", S_IFREG | 04755 } },
		{ "mknod-high", SYS_mknod, { (long)"by-mknod-high", HIGH | S_IFREG | 02755 } },
	};

	(void)argc, (void)argv;
	close(open("file", O_WRONLY | O_CREAT, 0755));
	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++)
		attempt(calls[i].name, plainly, &calls[i]);
}

/* Nobody needs them any more. */
static void dead(int argc, char **argv)
{
	static char room[256];

	(void)argc, (void)argv;
	reached("uselib", syscall(SYS_uselib, "/nonexistent"));
	reached("ustat", syscall(SYS_ustat, 0L, room));
	reached("sysfs", syscall(SYS_sysfs, 3));
	reached("_sysctl", syscall(SYS__sysctl, room));
	reached("create_module", syscall(SYS_create_module, "none", 0L));
	reached("query_module", syscall(SYS_query_module, NULL, 0, NULL, 0L, NULL));
	reached("get_kernel_syms", syscall(SYS_get_kernel_syms, NULL));
}

static void fact(const char *name, long result)
{
	printf("= %s %s\n", name, result < 0 ? strerrorname_np(errno) : "works");
}

static void old_calls_on_files(void)
{
	struct utimbuf when = { 1, 1 };
	struct timeval times[2] = { { 1, 0 }, { 1, 0 } };
	struct stat st;
	char text[4096];
	long dir;

	fact("mkdir", syscall(SYS_mkdir, "old", 0755));
	fact("creat", syscall(SYS_creat, "old/a", 0644));
	fact("open", syscall(SYS_open, "old/a", O_RDWR | O_CREAT, 0644));
	fact("access", syscall(SYS_access, "old/a", R_OK));
	fact("stat", syscall(SYS_stat, "old/a", &st));
	fact("lstat", syscall(SYS_lstat, "old/a", &st));
	fact("chmod", syscall(SYS_chmod, "old/a", 0755));
	fact("chown", syscall(SYS_chown, "old/a", -1, -1));
	fact("lchown", syscall(SYS_lchown, "old/a", -1, -1));
	fact("utime", syscall(SYS_utime, "old/a", &when));
	fact("utimes", syscall(SYS_utimes, "old/a", times));
	fact("futimesat", syscall(SYS_futimesat, AT_FDCWD, "old/a", times));
	fact("link", syscall(SYS_link, "old/a", "old/b"));
	fact("symlink", syscall(SYS_symlink, "a", "old/c"));
	fact("readlink", syscall(SYS_readlink, "old/c", text, sizeof(text)));
	fact("rename", syscall(SYS_rename, "old/b", "old/d"));
	fact("mknod", syscall(SYS_mknod, "old/e", S_IFIFO | 0644, 0));
	dir = syscall(SYS_open, "old", O_RDONLY | O_DIRECTORY, 0);
	fact("getdents", syscall(SYS_getdents, dir, text, sizeof(text)));
	for (const char *name = "acde"; *name; name++) {
		snprintf(text, sizeof(text), "old/%c", *name);
		fact("unlink", syscall(SYS_unlink, text));
	}
	fact("rmdir", syscall(SYS_rmdir, "old"));
}

static void old_calls_on_descriptors(void)
{
	struct timeval none = { 0, 0 };
	struct epoll_event event;
	sigset_t signals;
	int ends[2] = { -1, -1 };
	long epoll;

	sigemptyset(&signals);
	fact("pipe", syscall(SYS_pipe, ends));
	fact("dup2", syscall(SYS_dup2, ends[0], 77));
	fact("poll", syscall(SYS_poll, &(struct pollfd){ .fd = ends[1], .events = POLLOUT }, 1, 0));
	fact("select", syscall(SYS_select, 0, NULL, NULL, NULL, &none));
	epoll = syscall(SYS_epoll_create, 1);
	fact("epoll_create", epoll);
	fact("epoll_wait", syscall(SYS_epoll_wait, epoll, &event, 1, 0));
	fact("eventfd", syscall(SYS_eventfd, 0));
	fact("signalfd", syscall(SYS_signalfd, -1, &signals, 8L));
	fact("inotify_init", syscall(SYS_inotify_init));
}

static void heard(int number)
{
	(void)number;
}

static void old_calls_on_processes(void)
{
	struct rlimit limit;
	void *base = NULL;
	long pid;

	fact("getpgrp", syscall(SYS_getpgrp));
	fact("time", syscall(SYS_time, NULL));
	fact("getrlimit", syscall(SYS_getrlimit, RLIMIT_NOFILE, &limit));
	fact("setrlimit", syscall(SYS_setrlimit, RLIMIT_NOFILE, &limit));
	fact("arch_prctl", syscall(SYS_arch_prctl, ARCH_GET_FS, &base));
	signal(SIGALRM, heard);
	fact("alarm", syscall(SYS_alarm, 1));
	syscall(SYS_pause);
	fact("pause", errno == EINTR ? 0 : -1);
	pid = syscall(SYS_fork);
	if (pid == 0)
		_exit(0);
	fact("fork", pid);
	pid = vfork();
	if (pid == 0)
		_exit(0);
	fact("vfork", pid);
	while (wait(NULL) > 0)
		;
}

/* A page of the kernel's at a fixed address, which old programs call instead of the vDSO. */
static long through_vsyscall(const void *argument)
{
	time_t (*const now)(time_t *) = (time_t(*)(time_t *))0xffffffffff600400UL;

	(void)argument;
	return now(NULL) > 0 ? 0 : -1;
}

static void old_calls(int argc, char **argv)
{
	(void)argc, (void)argv;
	old_calls_on_files();
	old_calls_on_descriptors();
	old_calls_on_processes();
	attempt("vsyscall", through_vsyscall, NULL);
}

int main(int argc, char **argv)
{
	static const struct subcommand all[] = {
		{ "i386", i386 },     { "x32", x32 },   { "machine", machine },
		{ "set-id", set_id }, { "dead", dead }, { "old", old_calls },
		{ NULL, NULL },
	};

	umask(0);
	return dispatch(all, argc, argv);
}

#else

int main(void)
{
	cannot("x86", "another architecture");
	return verdict();
}

#endif
