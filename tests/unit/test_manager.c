/* SPDX-License-Identifier: Apache-2.0 */
/* unit/test_manager.c - asking the service manager for a scope, with a made-up manager on a socket
 * and a made-up cgroup tree. The real one answers in tests/kernels/test_session.py. */
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "backend/kit/limits/cgroup.h"
#include "backend/kit/limits/cgroup_internal.h"
#include "backend/kit/limits/systemd.h"
#include "base/sys/clock.h"

#define ALL (CGROUP_HAS_MEMORY | CGROUP_HAS_CPUS | CGROUP_HAS_SHARES | CGROUP_HAS_PIDS)
#define OK_LINE "OK 0123456789abcdef0123456789abcdef\r\n"
#define SECOND 1000000

static const struct cgroup_limits limits = {
	.memory = 64 << 20, .cpus = 500, .cpu_shares = 2048, .pids = 100
};

struct tree {
	char root[64], mountinfo[96], self[96], proc[96], slice[64], scope[160];
	struct cgroup_host host;
	pid_t manager;
};

/* ---- a tree ---- */

static char *path_in(const struct tree *t, const char *rel)
{
	static char path[PATH_MAX]; /* used before the next call */

	(void)snprintf(path, sizeof(path), "%s/%s", t->root, rel);
	return path;
}

static void put(const struct tree *t, const char *rel, const char *text)
{
	char *path = path_in(t, rel);
	int fd;

	for (char *p = path + strlen(t->root) + 1; (p = strchr(p, '/')); p++) {
		*p = '\0';
		(void)mkdir(path, 0755);
		*p = '/';
	}
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), (int)strlen(text));
	(void)close(fd);
}

static const char *text_of(const struct tree *t, const char *dir, const char *name)
{
	static char text[512];
	char rel[256];
	int fd;
	ssize_t n;

	(void)snprintf(rel, sizeof(rel), "%s/%s", dir, name);
	fd = open(path_in(t, rel), O_RDONLY | O_CLOEXEC);
	assert_true(fd >= 0);
	n = read(fd, text, sizeof(text) - 1);
	(void)close(fd);
	text[n < 0 ? 0 : n] = '\0';
	return text;
}

/* What the kernel would put into the scope and the two groups below it. */
static void furnish(struct tree *t)
{
	static const char *const files[] = { "cgroup.procs", "cgroup.kill",      "memory.max",
					     "cpu.max",      "memory.events",    "memory.swap.max",
					     "pids.max",     "memory.oom.group", "cpu.weight" };
	static const char *const leaves[] = { "brig-x1", "brig-monitor-x1" };
	char rel[320];

	(void)snprintf(t->scope, sizeof(t->scope), "cg%s/user@%u.service/app.slice/brig-x1.scope",
		       t->slice, geteuid());
	for (size_t i = 0; i < ARRAY_LEN(leaves); i++)
		for (size_t k = 0; k < ARRAY_LEN(files); k++) {
			(void)snprintf(rel, sizeof(rel), "%s/%s/%s", t->scope, leaves[i], files[k]);
			put(t, rel, "");
		}
	(void)snprintf(rel, sizeof(rel), "%s/cgroup.controllers", t->scope);
	put(t, rel, "cpu memory pids\n");
	(void)snprintf(rel, sizeof(rel), "%s/cgroup.subtree_control", t->scope);
	put(t, rel, "");
}

static int make_tree(void **state)
{
	struct tree *t = calloc(1, sizeof(*t));
	char text[512];

	(void)snprintf(t->root, sizeof(t->root), "/tmp/brig-manager-XXXXXX");
	if (!mkdtemp(t->root) || mkdir(path_in(t, "run"), 0700) < 0 ||
	    mkdir(path_in(t, "run/systemd"), 0755) < 0)
		return -1;
	(void)snprintf(t->mountinfo, sizeof(t->mountinfo), "%s/mountinfo", t->root);
	(void)snprintf(t->self, sizeof(t->self), "%s/self", t->root);
	(void)snprintf(t->proc, sizeof(t->proc), "%s/proc", t->root);
	(void)snprintf(t->slice, sizeof(t->slice), "/user.slice/user-%u.slice", geteuid());
	t->host = (struct cgroup_host){ .mountinfo = t->mountinfo,
					.self_cgroup = t->self,
					.proc = t->proc,
					.runtime = strdup(path_in(t, "run")) };
	(void)snprintf(text, sizeof(text), "30 20 0:26 / %s/cg rw - cgroup2 cgroup2 rw\n", t->root);
	put(t, "mountinfo", text);
	(void)snprintf(text, sizeof(text), "0::%s/session-3.scope\n", t->slice);
	put(t, "self", text);
	furnish(t);
	*state = t;
	return 0;
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st;
	(void)type;
	(void)ftw;
	return remove(path);
}

static int remove_tree(void **state)
{
	struct tree *t = *state;
	int r = nftw(t->root, remove_one, 16, FTW_DEPTH | FTW_PHYS);

	if (t->manager > 0) {
		(void)kill(t->manager, SIGKILL);
		(void)waitpid(t->manager, NULL, 0);
	}
	free((char *)(uintptr_t)t->host.runtime);
	free(t);
	return r;
}

/* ---- a manager ---- */

/* Its side of one connection; the status it ends with is the test's to look at. */
typedef int manager_fn(const struct tree *t, int conn);

static void start_manager(struct tree *t, manager_fn *fn)
{
	struct sockaddr_un at = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	(void)snprintf(at.sun_path, sizeof(at.sun_path), "%s/run/systemd/private", t->root);
	assert_true(fd >= 0 && bind(fd, (struct sockaddr *)&at, sizeof(at)) == 0);
	assert_int_equal(listen(fd, 4), 0);
	t->manager = fork();
	assert_true(t->manager >= 0);
	if (t->manager == 0) {
		int conn = accept(fd, NULL, NULL);

		(void)close(fd);
		_exit(conn < 0 ? 90 : fn(t, conn));
	}
	(void)close(fd);
}

static int manager_status(struct tree *t)
{
	pid_t pid = t->manager;
	int status;

	t->manager = 0;
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 200;
}

static bool read_all(int fd, void *p, size_t n)
{
	for (size_t have = 0; have < n;) {
		ssize_t got = read(fd, (char *)p + have, n - have);

		if (got <= 0)
			return false;
		have += (size_t)got;
	}
	return true;
}

/* A D-Bus reader that knows nothing of brig's writer: it goes by the alignment rules. */
struct reader {
	unsigned char data[8192];
	size_t at, n;
	bool bad;
};

static void skip_to(struct reader *r, size_t align)
{
	while (r->at % align)
		r->bad |= r->at >= r->n || r->data[r->at++] != 0;
}

static uint32_t get_u32(struct reader *r)
{
	uint32_t v = 0;

	skip_to(r, 4);
	if (r->bad || r->n - r->at < 4)
		return r->bad = true, 0;
	memcpy(&v, r->data + r->at, 4);
	r->at += 4;
	return v;
}

static const char *get_bytes(struct reader *r, size_t n)
{
	const char *s = (const char *)r->data + r->at;

	if (r->bad || n >= r->n - r->at || s[n] != '\0' || strlen(s) != n)
		return r->bad = true, "";
	r->at += n + 1;
	return s;
}

static const char *get_text(struct reader *r)
{
	return get_bytes(r, get_u32(r));
}

static const char *get_type(struct reader *r)
{
	return r->at < r->n ? get_bytes(r, r->data[r->at++]) : (r->bad = true, "");
}

/* One whole message; at stands on its body. */
static bool read_message(int conn, struct reader *r)
{
	uint32_t body, fields;
	size_t rest;

	memset(r, 0, sizeof(*r));
	if (!read_all(conn, r->data, 16) || r->data[0] != 'l' || r->data[1] != 1 || r->data[3] != 1)
		return false;
	memcpy(&body, r->data + 4, 4);
	memcpy(&fields, r->data + 12, 4);
	rest = ((fields + 7) & ~7U) + body;
	if (rest > sizeof(r->data) - 16 || !read_all(conn, r->data + 16, rest))
		return false;
	r->n = 16 + rest;
	r->at = 16 + ((fields + 7) & ~7U);
	return true;
}

/* Is a header field of that code there, with that value? */
static bool has_field(const struct reader *from, int code, const char *value)
{
	struct reader r = *from;
	uint32_t fields;

	memcpy(&fields, r.data + 12, 4);
	for (r.at = 16; r.at < 16 + fields && !r.bad;) {
		const char *got;
		int found;

		skip_to(&r, 8);
		found = r.data[r.at++];
		got = strcmp(get_type(&r), "g") == 0 ? get_type(&r) : get_text(&r);
		if (found == code && strcmp(got, value) == 0)
			return true;
	}
	return false;
}

static bool greeted(int conn)
{
	char text[64], want[64] = "\0AUTH EXTERNAL ", uid[16];
	size_t n = 15;

	(void)snprintf(uid, sizeof(uid), "%u", geteuid());
	for (char *c = uid; *c; c++)
		n += (size_t)snprintf(want + n, sizeof(want) - n, "%02x", (unsigned)*c);
	n += (size_t)snprintf(want + n, sizeof(want) - n, "\r\nBEGIN\r\n");
	return read_all(conn, text, n) && memcmp(text, want, n) == 0;
}

/* Says it and stays: what was not read would be a hang-up, which takes the words back. */
static int say_and_stay(int conn, const void *p, size_t n)
{
	if (write(conn, p, n) == (ssize_t)n)
		(void)pause();
	return 1;
}

static bool say(int conn, const void *p, size_t n)
{
	return write(conn, p, n) == (ssize_t)n;
}

/* type 2: the answer, 3: an error with that text, 4: some signal. */
static bool answer(int conn, uint8_t type, const char *text)
{
	unsigned char m[512] = { 'l', type, 0, 1 };
	uint32_t length = (uint32_t)strlen(text), body = length + 5, serial = 7, fields = 8, to = 1;

	memcpy(m + 4, &body, 4);
	memcpy(m + 8, &serial, 4);
	memcpy(m + 12, &fields, 4);
	memcpy(m + 16, "\5\1u", 4);
	memcpy(m + 20, &to, 4);
	memcpy(m + 24, &length, 4);
	memcpy(m + 28, text, length + 1);
	return say(conn, m, 24 + body);
}

struct asked {
	const char *unit;
	pid_t pid;
	bool delegate, killed, collected;
};

static bool read_properties(struct reader *r, struct asked *a)
{
	size_t bytes = get_u32(r), end;

	skip_to(r, 8);
	end = r->at + bytes;
	while (r->at < end && !r->bad) {
		const char *name, *type;
		uint32_t first;

		skip_to(r, 8);
		name = get_text(r);
		type = get_type(r);
		if (strcmp(type, "s") == 0) {
			a->collected |= strcmp(name, "CollectMode") == 0 &&
					strcmp(get_text(r), "inactive-or-failed") == 0;
			if (strcmp(name, "Description") == 0)
				(void)get_text(r);
			continue;
		}
		first = get_u32(r);
		if (strcmp(name, "PIDs") == 0 && strcmp(type, "au") == 0 && first == 4)
			a->pid = (pid_t)get_u32(r);
		a->delegate |=
			strcmp(name, "Delegate") == 0 && strcmp(type, "b") == 0 && first == 1;
		a->killed |=
			strcmp(name, "KillSignal") == 0 && strcmp(type, "i") == 0 && first == 9;
	}
	return !r->bad && r->at == end;
}

/* The first call as systemd would read it. */
static bool read_start(int conn, struct asked *a)
{
	static struct reader r; /* the unit's name is borrowed from it */

	*a = (struct asked){ 0 };
	if (!greeted(conn) || !read_message(conn, &r) || !has_field(&r, 3, "StartTransientUnit") ||
	    !has_field(&r, 1, "/org/freedesktop/systemd1") ||
	    !has_field(&r, 2, "org.freedesktop.systemd1.Manager") ||
	    !has_field(&r, 8, "ssa(sv)a(sa(sv))"))
		return false;
	a->unit = get_text(&r);
	if (strcmp(get_text(&r), "fail") != 0 || !read_properties(&r, a))
		return false;
	return get_u32(&r) == 0 && (skip_to(&r, 8), !r.bad) && r.at == r.n;
}

static void move(const struct tree *t, pid_t pid)
{
	char rel[64], text[256];

	(void)snprintf(rel, sizeof(rel), "proc/%d/cgroup", (int)pid);
	(void)snprintf(text, sizeof(text), "0::%s\n", t->scope + 2);
	put(t, rel, text);
}

/* ---- managers of all kinds ---- */

/* Or a zombie of whoever adopted it. */
static bool gone(pid_t pid)
{
	for (int i = 0; i < 500; i++) {
		char path[64], text[256] = "";
		int fd;

		(void)snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
		fd = open(path, O_RDONLY | O_CLOEXEC);
		if (fd < 0)
			return true;
		(void)!read(fd, text, sizeof(text) - 1);
		(void)close(fd);
		if (strstr(text, ") Z"))
			return true;
		(void)usleep(10000);
	}
	return false;
}

static int a_good_one(const struct tree *t, int conn)
{
	struct asked a;
	struct reader r;
	char rel[256], pid[24];

	if (!read_start(conn, &a) || strcmp(a.unit, "brig-x1.scope") != 0)
		return 1;
	if (!a.delegate || !a.killed || !a.collected || kill(a.pid, 0) < 0)
		return 2;
	if (!say(conn, OK_LINE, strlen(OK_LINE)) || !answer(conn, 4, "news") ||
	    !answer(conn, 2, "/job/1"))
		return 3;
	move(t, a.pid);
	if (!read_message(conn, &r))
		return 0; /* nobody was to be attached */
	if (!has_field(&r, 3, "AttachProcessesToUnit") || !has_field(&r, 8, "ssau"))
		return 4;
	if (strcmp(get_text(&r), "brig-x1.scope") != 0 || strcmp(get_text(&r), "/brig-x1") != 0 ||
	    get_u32(&r) != 4)
		return 5;
	(void)snprintf(pid, sizeof(pid), "%u\n", get_u32(&r));
	if (r.bad || r.at != r.n)
		return 6;
	(void)snprintf(rel, sizeof(rel), "%s/brig-x1/cgroup.procs", t->scope);
	put(t, rel, pid);
	return answer(conn, 2, "") ? 0 : 7;
}

static int one_that_refuses(const struct tree *t, int conn)
{
	struct asked a;

	(void)t;
	if (!read_start(conn, &a) || !say(conn, OK_LINE, strlen(OK_LINE)) ||
	    !answer(conn, 3, "Access\x1b[31m denied"))
		return 1;
	return gone(a.pid) ? 0 : 2;
}

static int one_that_lets_nobody_in(const struct tree *t, int conn)
{
	(void)t;
	return say_and_stay(conn, "REJECTED EXTERNAL\r\n", 19);
}

static int one_that_hangs(const struct tree *t, int conn)
{
	(void)t;
	(void)conn;
	(void)pause();
	return 0;
}

static int one_that_hangs_up(const struct tree *t, int conn)
{
	(void)t;
	(void)conn;
	return 0;
}

static int one_that_only_promises(const struct tree *t, int conn)
{
	struct asked a;

	(void)t;
	if (!read_start(conn, &a) || !say(conn, OK_LINE, strlen(OK_LINE)) ||
	    !answer(conn, 2, "/job/1"))
		return 1;
	(void)pause();
	return 0;
}

/* The caller has given up by then. */
static int one_that_is_late(const struct tree *t, int conn)
{
	struct asked a;

	if (!read_start(conn, &a) || !say(conn, OK_LINE, strlen(OK_LINE)) ||
	    !answer(conn, 2, "/job/1"))
		return 1;
	(void)usleep(4 * SECOND);
	if (kill(a.pid, 0) < 0)
		return 2;
	move(t, a.pid);
	return gone(a.pid) ? 0 : 3;
}

static int one_that_talks_nonsense(const struct tree *t, int conn)
{
	static const unsigned char huge[16] = { 'l', 2, 0, 1, 0xff, 0xff, 0xff, 0xff,
						0,   0, 0, 0, 0xff, 0xff, 0xff, 0xff };

	(void)t;
	return say(conn, OK_LINE, strlen(OK_LINE)) ? say_and_stay(conn, huge, sizeof(huge)) : 1;
}

static int one_with_no_end_to_its_welcome(const struct tree *t, int conn)
{
	char text[1024];

	(void)t;
	memset(text, 'O', sizeof(text));
	return say_and_stay(conn, text, sizeof(text));
}

static int one_that_never_comes_to_the_point(const struct tree *t, int conn)
{
	bool heard = say(conn, OK_LINE, strlen(OK_LINE));

	(void)t;
	(void)signal(SIGPIPE, SIG_IGN);
	for (int i = 0; i < 1000 && heard; i++)
		heard = answer(conn, 4, "news");
	(void)pause();
	return 0;
}

static int one_whose_error_lies_about_its_length(const struct tree *t, int conn)
{
	static const unsigned char m[] = { 'l', 3, 0, 1, 8,    0,    0,    0,    1,   0,   0,   0,
					   0,   0, 0, 0, 0xff, 0xff, 0xff, 0x7f, 'a', 'b', 'c', 0 };

	(void)t;
	return say(conn, OK_LINE, strlen(OK_LINE)) ? say_and_stay(conn, m, sizeof(m)) : 1;
}

/* ---- tests ---- */

static int ask(const struct tree *t, struct cgroup **ret, struct err *e)
{
	*e = (struct err){ 0 };
	*ret = NULL;
	return cgroup_ask(&t->host, "x1", &limits, ret, e);
}

static void a_scope_is_asked_for_and_the_limits_are_put_below_it(void **state)
{
	struct tree *t = *state;
	char leaf[256], rest[256], pid[24];
	struct cgroup *c;
	pid_t holder;
	struct err e;

	(void)snprintf(leaf, sizeof(leaf), "%s/brig-x1", t->scope);
	(void)snprintf(rest, sizeof(rest), "%s/brig-monitor-x1", t->scope);
	start_manager(t, a_good_one);
	if (ask(t, &c, &e) < 0)
		fail_msg("%s", e.what);
	assert_non_null(c);
	assert_string_equal(cgroup_version(c), "v2");
	assert_int_equal(cgroup_enforces(c), ALL);
	assert_int_equal(cgroup_dirfd(c), -1); /* clone may not go there */
	assert_true(cgroup_is_asked_for(c));
	assert_string_equal(text_of(t, leaf, "memory.max"), "67108864");
	assert_string_equal(text_of(t, leaf, "pids.max"), "101");
	assert_string_equal(text_of(t, leaf, "cpu.max"), "50000 100000");
	assert_string_equal(text_of(t, leaf, "cpu.weight"), "200");
	assert_string_equal(text_of(t, t->scope, "cgroup.subtree_control"), "+memory+pids+cpu");
	holder = c->scope.holder;
	(void)snprintf(pid, sizeof(pid), "%d", (int)holder);
	assert_string_equal(text_of(t, rest, "cgroup.procs"), pid);
	assert_int_equal(kill(holder, 0), 0);
	assert_int_equal(cgroup_attach(c, 4321, &e), 0);
	assert_string_equal(text_of(t, leaf, "cgroup.procs"), "4321\n");
	(void)cgroup_free(c);
	assert_true(gone(holder));
	assert_int_equal(manager_status(t), 0);
}

static void a_process_that_was_not_moved_is_an_error(void **state)
{
	struct tree *t = *state;
	struct cgroup *c;
	struct err e;

	start_manager(t, a_good_one);
	assert_int_equal(ask(t, &c, &e), 0);
	assert_non_null(c);
	/* The manager goes away before it is asked. */
	(void)kill(t->manager, SIGKILL);
	(void)manager_status(t);
	assert_true(cgroup_attach(c, 4321, &e) < 0);
	assert_non_null(strstr(e.what, "service manager"));
	(void)cgroup_free(c);
}

/* The holder's copy of everything else is closed, and the pipe's other end is the caller's alone.
 */
static void the_holder_ends_with_its_caller(void **state)
{
	struct tree *t = *state;
	int pair[2];
	pid_t pid, holder = 0;
	char c;

	assert_int_equal(pipe2(pair, O_CLOEXEC), 0);
	start_manager(t, a_good_one);
	pid = fork();
	if (pid == 0) {
		struct cgroup *g;
		struct err e;

		if (ask(t, &g, &e) < 0 || !g)
			_exit(1);
		(void)!write(pair[1], &g->scope.holder, sizeof(g->scope.holder));
		(void)pause();
	}
	(void)close(pair[1]);
	assert_int_equal(read(pair[0], &holder, sizeof(holder)), (int)sizeof(holder));
	assert_int_equal(kill(holder, 0), 0);
	(void)kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	/* End of file: nobody has this pipe any more, the holder neither. */
	assert_int_equal(read(pair[0], &c, 1), 0);
	assert_true(gone(holder));
	(void)close(pair[0]);
}

static void nobody_to_ask_is_no_error(void **state)
{
	struct tree *t = *state;
	struct cgroup *c;
	struct err e;
	int fd;

	assert_int_equal(ask(t, &c, &e), 0); /* no socket */
	assert_null(c);
	put(t, "run/systemd/private", "");
	assert_int_equal(ask(t, &c, &e), 0); /* no socket either */
	assert_null(c);
	t->host.mountinfo = "/dev/null";
	assert_int_equal(ask(t, &c, &e), 0); /* no cgroups */
	assert_null(c);
	fd = manager_open(path_in(t, "nowhere"), &e);
	assert_int_equal(fd, -ENOENT);
}

static void only_a_login_session_asks(void **state)
{
	struct tree *t = *state;
	struct cgroup *c;
	struct err e;

	start_manager(t, one_that_hangs); /* and is not even connected to */
	put(t, "self", "0::/system.slice/cron.service\n");
	assert_int_equal(ask(t, &c, &e), 0);
	assert_null(c);
	put(t, "self", "0::/user.slice/user-4294967294.slice/session-3.scope\n");
	assert_int_equal(ask(t, &c, &e), 0);
	assert_null(c);
}

static void a_folder_that_others_may_write_to_is_not_believed(void **state)
{
	struct tree *t = *state;
	struct cgroup *c;
	struct err e;

	start_manager(t, one_that_hangs);
	assert_int_equal(chmod(path_in(t, "run"), 0770), 0);
	assert_int_equal(ask(t, &c, &e), -EPERM);
	assert_non_null(strstr(e.what, "not this user's alone"));
	assert_int_equal(chmod(path_in(t, "run"), 0700), 0);
	assert_int_equal(rename(path_in(t, "run"), t->proc), 0);
	assert_int_equal(symlink(t->proc, path_in(t, "run")), 0);
	assert_int_equal(ask(t, &c, &e), 0); /* a link leads nowhere */
	assert_null(c);
}

static void a_folder_of_somebody_else_is_not_believed(void **state)
{
	struct tree *t = *state;
	struct cgroup *c;
	struct err e;

	if (geteuid() != 0) { /* only root can give it away */
		assert_int_equal(manager_open("/proc/1", &e), -EPERM);
		return;
	}
	assert_int_equal(chown(path_in(t, "run"), 65534, 65534), 0);
	assert_int_equal(ask(t, &c, &e), -EPERM);
	assert_null(c);
}

static void fails_with(struct tree *t, manager_fn *fn, int code, const char *words)
{
	struct cgroup *c;
	struct err e;

	start_manager(t, fn);
	assert_int_equal(ask(t, &c, &e), -code);
	assert_null(c);
	assert_int_equal(e.kind, ERR_UNAVAILABLE);
	if (!strstr(e.what, words))
		fail_msg("'%s' is not in '%s'", words, e.what);
	(void)kill(t->manager, SIGKILL);
	(void)manager_status(t);
	assert_int_equal(unlink(path_in(t, "run/systemd/private")), 0);
}

static void a_refusal_leaves_no_holder(void **state)
{
	struct tree *t = *state;
	struct cgroup *c;
	struct err e;

	start_manager(t, one_that_refuses);
	assert_int_equal(ask(t, &c, &e), -EPERM);
	assert_int_equal(manager_status(t), 0);
}

static void what_goes_wrong_is_said(void **state)
{
	struct tree *t = *state;

	fails_with(t, one_that_refuses, EPERM, "refused: Access?[31m denied");
	fails_with(t, one_that_lets_nobody_in, EPERM, "does not let us in");
	fails_with(t, one_that_hangs_up, ECONNRESET, "ended the connection");
	fails_with(t, one_that_talks_nonsense, EPROTO, "no answer that brig understands");
	fails_with(t, one_with_no_end_to_its_welcome, EPERM, "does not let us in");
	fails_with(t, one_that_never_comes_to_the_point, EPROTO, "no answer");
	fails_with(t, one_whose_error_lies_about_its_length, EPERM, "it did not say why");
}

static void a_manager_that_hangs_is_given_up(void **state)
{
	struct tree *t = *state;
	uint64_t began = clock_us();

	fails_with(t, one_that_hangs, ETIMEDOUT, "does not answer");
	assert_in_range(clock_us() - began, 2 * SECOND, 20 * SECOND);
	fails_with(t, one_that_only_promises, ETIMEDOUT, "made no scope in time");
}

/* A scope that is made for a dead process is never removed. */
static void a_holder_waits_for_a_manager_that_is_late(void **state)
{
	struct tree *t = *state;
	struct cgroup *c;
	struct err e;

	start_manager(t, one_that_is_late);
	assert_int_equal(ask(t, &c, &e), -ETIMEDOUT);
	assert_int_equal(manager_status(t), 0);
}

static void a_deadline_that_is_over_is_kept(void **state)
{
	struct tree *t = *state;
	CLEANUP(fd) int fd = -1;
	struct err e = { 0 };

	start_manager(t, one_that_hangs);
	fd = manager_open(t->host.runtime, &e);
	assert_true(fd >= 0);
	assert_int_equal(manager_start_scope(fd, "brig-x1.scope", getpid(), 0, &e), -ETIMEDOUT);
}

static void without_controllers_there_is_no_scope(void **state)
{
	struct tree *t = *state;
	char rel[256];

	(void)snprintf(rel, sizeof(rel), "%s/cgroup.controllers", t->scope);
	put(t, rel, "io\n");
	fails_with(t, a_good_one, ENOTSUP, "no controllers");
}

#define ON_TREE(test) cmocka_unit_test_setup_teardown(test, make_tree, remove_tree)

int main(void)
{
	static const struct CMUnitTest tests[] = {
		ON_TREE(a_scope_is_asked_for_and_the_limits_are_put_below_it),
		ON_TREE(a_process_that_was_not_moved_is_an_error),
		ON_TREE(the_holder_ends_with_its_caller),
		ON_TREE(nobody_to_ask_is_no_error),
		ON_TREE(only_a_login_session_asks),
		ON_TREE(a_folder_that_others_may_write_to_is_not_believed),
		ON_TREE(a_folder_of_somebody_else_is_not_believed),
		ON_TREE(a_refusal_leaves_no_holder),
		ON_TREE(what_goes_wrong_is_said),
		ON_TREE(a_manager_that_hangs_is_given_up),
		ON_TREE(a_holder_waits_for_a_manager_that_is_late),
		ON_TREE(a_deadline_that_is_over_is_kept),
		ON_TREE(without_controllers_there_is_no_scope),
	};

	(void)signal(SIGPIPE, SIG_IGN);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
