/* SPDX-License-Identifier: Apache-2.0 */
/* unit/test_confine.c - every role tries every right there is: it has those of its row, and no
 * other. Each try is a process of its own. What the same process can do without a role is tried
 * first, so that a refusal is the role's. */
#include "unit.h"

#include <arpa/inet.h>
#include <assert.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/un.h>

#include "base/sys/sanitized.h"
#include "base/text/cleanup.h"
#include "proc/confine.h"

#define MPTCP 262

/* What was there before the role. */
struct stage {
	char path[PATH_MAX]; /* of a folder, with `inside` and `outside` in it */
	int inside;
	uint16_t port, other;
	int listeners[3], pair[2], idle; /* idle: a socket that is not connected */
	pid_t parent;
	char abstract[64];
};

static struct sockaddr_in loopback(uint16_t port)
{
	return (struct sockaddr_in){ .sin_family = AF_INET,
				     .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
				     .sin_port = htons(port) };
}

static long result(long r)
{
	return r < 0 ? -errno : r;
}

/* ---- files ---- */

static long at(const struct stage *s, const char *name, int flags)
{
	char path[PATH_MAX + 32];

	(void)snprintf(path, sizeof(path), "%s/%s", s->path, name);
	return result(open(path, flags | O_CLOEXEC, 0600));
}

static long makes_below(const struct stage *s)
{
	return result(openat(s->inside, "new", O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
}

static long makes_a_folder_below(const struct stage *s)
{
	return result(mkdirat(s->inside, "folder", 0700));
}

static long makes_outside(const struct stage *s)
{
	return at(s, "outside/new", O_WRONLY | O_CREAT | O_EXCL);
}

static long makes_above(const struct stage *s)
{
	return result(openat(s->inside, "../outside/above", O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
}

static long writes_outside(const struct stage *s)
{
	return at(s, "outside/old", O_WRONLY);
}

static long truncates_outside(const struct stage *s)
{
	return at(s, "outside/old", O_RDONLY | O_TRUNC);
}

static long moves_out(const struct stage *s)
{
	char to[PATH_MAX + 32];

	(void)snprintf(to, sizeof(to), "%s/outside/moved", s->path);
	return result(renameat(s->inside, "old", AT_FDCWD, to));
}

static long removes_outside(const struct stage *s)
{
	char path[PATH_MAX + 32];

	(void)snprintf(path, sizeof(path), "%s/outside/old", s->path);
	return result(unlinkat(AT_FDCWD, path, 0));
}

static long links_below(const struct stage *s)
{
	return result(symlinkat("/etc/passwd", s->inside, "link"));
}

static long makes_a_whiteout_below(const struct stage *s)
{
	return result(mknodat(s->inside, "white", S_IFCHR, 0));
}

/* A plain one: what a device of the machine's would need besides is root's alone. */
static long makes_a_node_below(const struct stage *s)
{
	return result(mknodat(s->inside, "plain", S_IFREG | 0600, 0));
}

static long makes_a_pipe_below(const struct stage *s)
{
	return result(mknodat(s->inside, "pipe", S_IFIFO | 0600, 0));
}

static long reads_below(const struct stage *s)
{
	return result(openat(s->inside, "old", O_RDONLY | O_CLOEXEC));
}

static long reads_outside(const struct stage *s)
{
	return at(s, "outside/old", O_RDONLY);
}

static long reads_etc(const struct stage *s UNUSED)
{
	return result(open("/etc/passwd", O_RDONLY | O_CLOEXEC));
}

static long reads_roots(const struct stage *s UNUSED)
{
	return result(open("/etc/ssl/certs", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
}

static long reads_proc(const struct stage *s UNUSED)
{
	return result(open("/proc/self/maps", O_RDONLY | O_CLOEXEC));
}

static long makes_memory_files(const struct stage *s UNUSED)
{
	return result(memfd_create("x", MFD_CLOEXEC));
}

static long changes_modes(const struct stage *s)
{
	return result(fchmodat(s->inside, "old", 0600, 0));
}

/* ---- sockets ---- */

static long connects(uint16_t port, int protocol)
{
	struct sockaddr_in a = loopback(port);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, protocol);

	return result(fd < 0 ? -1 : connect(fd, (struct sockaddr *)&a, sizeof(a)));
}

static long connects_to_the_port(const struct stage *s)
{
	return connects(s->port, 0);
}

static long connects_elsewhere(const struct stage *s)
{
	return connects(s->other, 0);
}

static long connects_by_mptcp(const struct stage *s)
{
	return connects(s->other, MPTCP);
}

static long connects_by_the_first_byte(const struct stage *s)
{
	struct sockaddr_in a = loopback(s->other);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	return result(fd < 0 ? -1
			     : sendto(fd, "x", 1, MSG_FASTOPEN, (struct sockaddr *)&a, sizeof(a)));
}

static long connects_what_it_was_given(const struct stage *s)
{
	struct sockaddr_in a = loopback(s->other);

	return result(connect(s->idle, (struct sockaddr *)&a, sizeof(a)));
}

static long sends_datagrams(const struct stage *s)
{
	struct sockaddr_in a = loopback(s->port);
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	return result(fd < 0 ? -1 : sendto(fd, "x", 1, 0, (struct sockaddr *)&a, sizeof(a)));
}

static long binds(const struct stage *s)
{
	struct sockaddr_in a = loopback(0);

	return result(bind(s->idle, (struct sockaddr *)&a, sizeof(a)));
}

static long listens(const struct stage *s)
{
	return result(listen(s->idle, 1));
}

static long accepts(const struct stage *s)
{
	long r = result(accept4(s->listeners[2], NULL, NULL, SOCK_CLOEXEC));

	return r == -EAGAIN ? 0 : r; /* nobody waits */
}

static long makes_pairs(const struct stage *s UNUSED)
{
	int pair[2];

	return result(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair));
}

static long makes_unix_sockets(const struct stage *s UNUSED)
{
	return result(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
}

static long connects_to_abstract_names(const struct stage *s)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	size_t n = strlen(s->abstract);
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	memcpy(a.sun_path + 1, s->abstract, n);
	return result(
		fd < 0 ? -1
		       : connect(fd, (struct sockaddr *)&a,
				 (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + n)));
}

static long makes_netlink_sockets(const struct stage *s UNUSED)
{
	return result(socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, 0));
}

/* ---- processes ---- */

static long executes(const struct stage *s UNUSED)
{
	char *const argv[] = { (char[]){ "true" }, NULL };

	return result(execv("/bin/true", argv)); /* whose status is 0 */
}

static long forks(const struct stage *s UNUSED)
{
	pid_t pid = fork();

	if (pid == 0)
		_exit(0);
	return result(pid);
}

static long shares_memory(const struct stage *s UNUSED)
{
	return result(shmget(IPC_PRIVATE, 4096, 0600) < 0 ? -1 : 0);
}

static long signals_its_parent(const struct stage *s)
{
	return result(syscall(SYS_tgkill, s->parent, s->parent, 0));
}

static long kills_its_parent(const struct stage *s)
{
	return result(kill(s->parent, 0));
}

static long signals_itself(const struct stage *s UNUSED)
{
	return result(syscall(SYS_tgkill, getpid(), getpid(), 0));
}

static long owns_the_signals_of_a_socket(const struct stage *s)
{
	return result(fcntl(s->pair[0], F_SETOWN, s->parent));
}

static long opens_processes(const struct stage *s)
{
	return result(syscall(SYS_pidfd_open, s->parent, 0));
}

static long is_traced(const struct stage *s UNUSED)
{
	return result(ptrace(PTRACE_TRACEME, 0, NULL, NULL));
}

static long reads_memory_of_others(const struct stage *s)
{
	char c;
	struct iovec here = { &c, 1 }, there = { (void *)(uintptr_t)&s->port, 1 };

	return result(syscall(SYS_process_vm_readv, getpid(), &here, 1, &there, 1, 0));
}

static long unshares(const struct stage *s UNUSED)
{
	return result(unshare(CLONE_NEWUSER));
}

static long mounts(const struct stage *s UNUSED)
{
	return result(unshare(CLONE_NEWUSER | CLONE_NEWNS) < 0
			      ? -1
			      : (int)syscall(SYS_mount, "none", "/", NULL, 1 << 18, NULL));
}

/* ---- memory, and the kernel's further doors ---- */

static long executes_memory(const struct stage *s UNUSED)
{
	void *p = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	return result(p == MAP_FAILED ? -1 : 0);
}

static long makes_memory_executable(const struct stage *s UNUSED)
{
	void *p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	return result(p == MAP_FAILED ? -1 : mprotect(p, 4096, PROT_READ | PROT_EXEC));
}

static long takes_memory(const struct stage *s UNUSED)
{
	void *p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	return result(p == MAP_FAILED ? -1 : 0);
}

static long handles_faults(const struct stage *s UNUSED)
{
	return result(syscall(SYS_userfaultfd, O_CLOEXEC | 1 /* UFFD_USER_MODE_ONLY */));
}

static long uses_io_uring(const struct stage *s UNUSED)
{
	char params[128] = { 0 };

	return result(syscall(SYS_io_uring_setup, 1, params));
}

static long keeps_keys(const struct stage *s UNUSED)
{
	return result(syscall(SYS_keyctl, 0 /* GET_KEYRING_ID */, -3 /* session */, 1));
}

static long watches_files(const struct stage *s UNUSED)
{
	return result(syscall(SYS_inotify_init1, O_CLOEXEC));
}

static long changes_limits(const struct stage *s UNUSED)
{
	const struct rlimit l = { 10, 10 };

	return result(setrlimit(RLIMIT_MSGQUEUE, &l));
}

static long changes_its_personality(const struct stage *s UNUSED)
{
	return result(syscall(SYS_personality, 0xffffffff));
}

static long controls_devices(const struct stage *s)
{
	char byte = 0;

	return result(ioctl(s->pair[0], FIOASYNC, &byte));
}

static long sets_timers(const struct stage *s UNUSED)
{
	return result(timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC));
}

static long makes_loops(const struct stage *s UNUSED)
{
	return result(epoll_create1(EPOLL_CLOEXEC));
}

/* ---- the table ---- */

enum {
	COMMAND = 1 << CONFINE_COMMAND,
	WORKER = 1 << CONFINE_WORKER,
	KEEPER = 1 << CONFINE_KEEPER,
	SIGNER = 1 << CONFINE_SIGNER,
	TLS = 1 << CONFINE_TLS,
	SENDER = 1 << CONFINE_SENDER,
	SPEAKER = 1 << CONFINE_SPEAKER,
	REGISTRY = 1 << CONFINE_REGISTRY,
	UNPACKER = 1 << CONFINE_UNPACKER,
	BUNDLER = 1 << CONFINE_BUNDLER,
	LAYERER = 1 << CONFINE_LAYERER,
	INSPECTOR = 1 << CONFINE_INSPECTOR,
	WALKER = 1 << CONFINE_WALKER,

	NETWORK = WORKER | SENDER | SPEAKER | REGISTRY,
	SERVERS = NETWORK | KEEPER | SIGNER | TLS,
	UNPACKERS = UNPACKER | BUNDLER | LAYERER,
};

static const struct attempt {
	const char *name;
	long (*try)(const struct stage *);
	unsigned may;  /* who succeeds */
	int abi;       /* of Landlock; with less somebody else than these may succeed, too */
	bool optional; /* not every kernel and machine lets anybody */
} attempts[] = {
#define TRY(fn, ...)                                                                               \
	{                                                                                          \
#fn, fn, __VA_ARGS__                                                               \
	}
	TRY(makes_below, COMMAND | UNPACKERS),
	TRY(makes_a_folder_below, COMMAND | UNPACKERS),
	TRY(makes_outside, 0, 1),
	TRY(makes_above, 0, 1),
	TRY(writes_outside, 0, 1),
	TRY(truncates_outside, 0, 3),
	TRY(moves_out, 0, 1),
	TRY(removes_outside, 0, 1),
	TRY(links_below, COMMAND | LAYERER),
	TRY(makes_a_whiteout_below, COMMAND | LAYERER),
	TRY(makes_a_node_below, COMMAND),
	TRY(makes_a_pipe_below, COMMAND),
	TRY(reads_below, COMMAND | WALKER, 1),
	TRY(reads_outside, COMMAND, 1),
	TRY(reads_etc, COMMAND | SPEAKER | REGISTRY, 1),
	TRY(reads_roots, COMMAND | SENDER | SPEAKER | REGISTRY, 1, true),
	TRY(reads_proc, COMMAND, 1),
	TRY(makes_memory_files, COMMAND | SPEAKER),
	TRY(changes_modes, COMMAND),
	TRY(connects_to_the_port, COMMAND | NETWORK),
	TRY(connects_elsewhere, COMMAND | WORKER | REGISTRY, 4),
	TRY(connects_by_mptcp, COMMAND, 0, true),
	TRY(connects_by_the_first_byte, COMMAND, 0, true),
	TRY(connects_what_it_was_given, COMMAND | WORKER | REGISTRY, 4),
	TRY(sends_datagrams, COMMAND | WORKER | SPEAKER | REGISTRY),
	TRY(binds, COMMAND),
	TRY(listens, COMMAND),
	TRY(accepts, COMMAND | WORKER | SIGNER | TLS),
	TRY(makes_pairs, COMMAND | TLS),
	TRY(makes_unix_sockets, COMMAND),
	TRY(connects_to_abstract_names, 0, 6),
	TRY(makes_netlink_sockets, COMMAND),
	TRY(executes, COMMAND),
	TRY(forks, COMMAND),
	TRY(shares_memory, COMMAND),
	TRY(signals_its_parent, 0, 6),
	TRY(kills_its_parent, 0, 6),
	TRY(signals_itself, COMMAND | SERVERS),
	TRY(owns_the_signals_of_a_socket, COMMAND),
	TRY(opens_processes, COMMAND),
	TRY(is_traced, COMMAND, 0, true),
	TRY(reads_memory_of_others, COMMAND, 0, true),
	TRY(unshares, COMMAND, 0, true),
	TRY(mounts, 0, 1, true),
	TRY(executes_memory, COMMAND),
	TRY(makes_memory_executable, COMMAND),
	TRY(takes_memory, COMMAND | SERVERS | BUNDLER | LAYERER | INSPECTOR | WALKER |
				  (SANITIZED ? UNPACKER : 0)),
	TRY(handles_faults, COMMAND, 0, true),
	TRY(uses_io_uring, COMMAND, 0, true),
	TRY(keeps_keys, COMMAND, 0, true),
	TRY(watches_files, COMMAND),
	TRY(changes_limits, COMMAND),
	TRY(changes_its_personality, COMMAND),
	TRY(controls_devices, COMMAND),
	TRY(sets_timers, COMMAND),
	TRY(makes_loops, COMMAND),
#undef TRY
};

static const char *const names[] = { "command", "worker",    "keeper",   "signer",   "tls",
				     "sender",  "speaker",   "registry", "unpacker", "bundler",
				     "layerer", "inspector", "walker" };
static_assert(ARRAY_LEN(names) == CONFINE_ROLES, "one name a role");

/* ---- trying ---- */

static int listen_somewhere(uint16_t *port)
{
	struct sockaddr_in a = loopback(0);
	socklen_t n = sizeof(a);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	must(bind(fd, (struct sockaddr *)&a, n) == 0 && listen(fd, 256) == 0);
	must(getsockname(fd, (struct sockaddr *)&a, &n) == 0);
	*port = ntohs(a.sin_port);
	return fd;
}

static int listen_abstract(char name[64])
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	int n = snprintf(name, 64, "brig-test-confine-%d", (int)getpid());
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	memcpy(a.sun_path + 1, name, (size_t)n);
	must(bind(fd, (struct sockaddr *)&a,
		  (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n)) == 0 &&
	     listen(fd, 256) == 0);
	return fd;
}

/* Anybody may change what is there, so that a refusal is not that of the modes. */
static void set_files(struct stage *s)
{
	static const char *const folders[] = { "inside", "outside" };
	static const char *const old[] = { "inside/old", "outside/old" };

	for (size_t i = 0; i < ARRAY_LEN(folders); i++)
		remove_tree(folders[i]);
	for (size_t i = 0; i < ARRAY_LEN(folders); i++) {
		must(mkdir(folders[i], 0700) == 0 && chmod(folders[i], 0777) == 0);
		write_text(old[i], "old");
		must(chmod(old[i], 0666) == 0);
	}
	(void)fd_close(s->inside);
	s->inside = open("inside", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	must(s->inside >= 0);
}

static int set_up(void **state)
{
	struct stage *s = calloc(1, sizeof(*s));
	uint16_t unused;

	must(s != NULL);
	enter_scratch(s->path);
	must(chmod(s->path, 0755) == 0);
	s->inside = -1;
	s->listeners[0] = listen_somewhere(&s->port);
	s->listeners[1] = listen_somewhere(&s->other);
	s->listeners[2] = listen_somewhere(&unused);
	must(listen_abstract(s->abstract) >= 0);
	must(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, s->pair) == 0);
	s->parent = getpid();
	*state = s;
	return 0;
}

static int tear_down(void **state)
{
	struct stage *s = *state;

	leave_scratch(s->path);
	free(s);
	return 0;
}

static int take_on(const struct stage *s, int role, struct err *e)
{
	char inside[PATH_MAX + 32];
	const char *writable[] = { inside };
	const struct confine_want want = { .writable = writable,
					   .writable_count = 1,
					   .procs = -1,
					   .folder = s->inside,
					   .looks = &s->inside,
					   .look_count = 1,
					   .port = s->port,
					   .bytes = 4096 };

	(void)snprintf(inside, sizeof(inside), "%s/inside", s->path);
	/* A command's is its backend's to set. */
	must(role != CONFINE_COMMAND || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
	return confine((enum confine_role)role, &want, e);
}

enum { MAY, REFUSED, BROKEN };

static int try_it(const struct stage *s, int role, const struct attempt *a)
{
	int status;
	pid_t pid = fork();

	must(pid >= 0);
	if (pid == 0) {
		struct stage own = *s;
		struct err e = { 0 };

		(void)alarm(20);
		own.idle = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
		if (role >= 0 && take_on(s, role, &e) < 0) {
			(void)fprintf(stderr, "%s: %s\n", names[role], e.what);
			_exit(BROKEN);
		}
		_exit(a->try(&own) < 0 ? REFUSED : MAY);
	}
	must(waitpid(pid, &status, 0) == pid);
	if (WIFSIGNALED(status))
		return WTERMSIG(status) == SIGSYS ? REFUSED : BROKEN;
	return WEXITSTATUS(status);
}

static void a_role_has_its_rights_and_no_other(void **state)
{
	struct stage *s = *state;
	int abi = landlock_abi(), wrong = 0;

	for (size_t i = 0; i < ARRAY_LEN(attempts); i++) {
		const struct attempt *a = &attempts[i];
		int free_to;

		set_files(s);
		free_to = try_it(s, -1, a);
		if (free_to != MAY && !a->optional) {
			print_error("without a role nobody %s either\n", a->name);
			wrong++;
		}
		for (int role = 0; free_to == MAY && role < CONFINE_ROLES; role++) {
			int want = a->may & 1u << role ? MAY : REFUSED, got;

			set_files(s);
			got = try_it(s, role, a);
			if (got == want || (got == MAY && abi < a->abi))
				continue;
			print_error("the %s %s%s\n", names[role], got == MAY ? "" : "not ",
				    a->name);
			wrong++;
		}
	}
	assert_int_equal(wrong, 0);
}

static void it_can_still_abort(void **state UNUSED)
{
	int status = 0;
	struct err e;
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid == 0) {
		(void)signal(SIGABRT, SIG_DFL);
		must(confine(CONFINE_WORKER, NULL, &e) == 0);
		abort();
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
}

static void a_process_of_ours_leaves_nothing_behind(void *arg)
{
	const struct stage *s = arg;
	struct rlimit core;
	struct err e;

	/* Root's becomes nobody, an ordinary user's stays who it is. */
	must(take_on(s, CONFINE_SENDER, &e) == 0);
	must(syscall(SYS_prctl, PR_GET_DUMPABLE) == -1); /* the filter's word: nothing is asked */
	must(getrlimit(RLIMIT_CORE, &core) < 0);
}

static void even_its_own_state_is_not_its_to_ask(void **state)
{
	assert_true(in_child(a_process_of_ours_leaves_nothing_behind, *state, 20));
}

/* ---- a layer that fails ---- */

/* The call fails from here on. */
static void deny(unsigned number)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EIO),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	const struct sock_fprog p = { .len = ARRAY_LEN(code), .filter = code };

	must(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
	must(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &p) == 0);
}

struct failing {
	const struct stage *s;
	unsigned number;
	int role;
};

static void does_not_go_on(void *arg)
{
	const struct failing *f = arg;
	struct err e = { 0 };

	deny(f->number);
	must(take_on(f->s, f->role, &e) == -EIO && e.what[0]);
}

static void a_layer_that_cannot_be_put_on_is_an_error(void **state)
{
	static const struct {
		unsigned number, not_for;
		int abi;
	} all[] = {
		{ SYS_landlock_restrict_self, 0, 1 },
		{ SYS_landlock_add_rule, 0, 1 },
		{ SYS_seccomp, COMMAND, 0 },
		{ SYS_prlimit64, COMMAND, 0 },
		{ SYS_prctl, COMMAND, 0 },
		{ SYS_capset, COMMAND | UNPACKERS | INSPECTOR | WALKER, 0 },
	};
	/* Without a rule there is none to add. */
	const unsigned ruleless = WORKER | KEEPER | SIGNER | TLS | INSPECTOR;
	struct stage *s = *state;

	set_files(s);
	for (size_t i = 0; i < ARRAY_LEN(all); i++)
		for (int role = 0; role < CONFINE_ROLES; role++) {
			struct failing f = { .s = s, .number = all[i].number, .role = role };
			unsigned not_for = all[i].not_for;

			if (f.number == SYS_landlock_add_rule)
				not_for |= ruleless;
			if (!(not_for & 1u << role) && landlock_abi() >= all[i].abi)
				assert_true(in_child(does_not_go_on, &f, 20));
		}
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(a_role_has_its_rights_and_no_other),
	cmocka_unit_test(it_can_still_abort),
	cmocka_unit_test(even_its_own_state_is_not_its_to_ask),
	cmocka_unit_test(a_layer_that_cannot_be_put_on_is_an_error),
};

int main(void)
{
	return cmocka_run_group_tests(tests, set_up, tear_down);
}
