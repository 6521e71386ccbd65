/* SPDX-License-Identifier: Apache-2.0 */
/* unit/test_places.c - where the state is, what is a home, what a path is on its file system. */
#include "unit.h"

#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/unix_diag.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "base/files/home.h"
#include "base/files/mounts.h"
#include "base/files/state.h"
#include "base/sys/sockets.h"
#include "base/text/arena.h"
#include "base/text/str.h"

static char top[PATH_MAX];

static int enter(void **state UNUSED)
{
	enter_scratch(top);
	set_below("XDG_STATE_HOME", top, "state");
	set_below("XDG_RUNTIME_DIR", top, "run");
	return 0;
}

static int leave(void **state UNUSED)
{
	leave_scratch(top);
	return 0;
}

/* --- state --- */

/* Not even root makes a folder below a device. */
static void no_first_place(void)
{
	assert_int_equal(setenv("XDG_STATE_HOME", "/dev/null/state", 1), 0);
}

static void without_a_place_there_is_no_state(void **state UNUSED)
{
	char path[PATH_MAX];
	struct err e;

	no_first_place();
	assert_true(state_open("x", path, sizeof(path), &e) < 0);
	assert_true(state_find("x", path, sizeof(path)) < 0);
	assert_false(state_displaced(path, sizeof(path)));
	/* Others may enter it, so it is not what the session gave this user. */
	assert_int_equal(mkdir("run", 0755), 0);
	assert_true(state_open("x", path, sizeof(path), &e) < 0);
	assert_int_equal(access("run/brig", F_OK), -1);
}

static void the_second_place_is_found_and_told(void **state UNUSED)
{
	CLEANUP(fd) int made = -1;
	CLEANUP(fd) int found = -1;
	char path[PATH_MAX];
	struct err e;

	no_first_place();
	assert_int_equal(mkdir("run", 0700), 0);
	made = state_open("x", path, sizeof(path), &e);
	assert_true(made >= 0);
	assert_non_null(strstr(path, "/run/brig/x"));
	found = state_find("x", path, sizeof(path));
	assert_true(found >= 0);
	assert_true(state_displaced(path, sizeof(path)));
	assert_non_null(strstr(path, "/run/brig"));
}

static void the_first_place_is_not_told(void **state UNUSED)
{
	CLEANUP(fd) int fd = -1;
	char path[PATH_MAX];
	struct err e;

	fd = state_open("x", path, sizeof(path), &e);
	assert_true(fd >= 0);
	assert_non_null(strstr(path, "/state/brig/x"));
	assert_false(state_displaced(path, sizeof(path)));
}

static void every_place_is_named_to_the_guards(void **state UNUSED)
{
	char path[PATH_MAX], in_home[PATH_MAX + 16], want[8][PATH_MAX + 32];
	size_t n = 0;

	assert_int_equal(setenv("HOME", top, 1), 0);
	(void)snprintf(in_home, sizeof(in_home), "%s/.cache", top);
	(void)snprintf(want[n], sizeof(want[0]), "%s/cache", top);
	assert_int_equal(setenv("XDG_CACHE_HOME", want[n], 1), 0);
	(void)snprintf(want[n++], sizeof(want[0]), "%s/state/brig", top);
	(void)snprintf(want[n++], sizeof(want[0]), "%s/run/brig", top);
	(void)snprintf(want[n++], sizeof(want[0]), "/run/user/%u/brig", geteuid());
	if (geteuid())
		(void)snprintf(want[n++], sizeof(want[0]), "%s/.local/state/brig", top);
	else
		(void)snprintf(want[n++], sizeof(want[0]), "/var/lib/brig");
	(void)snprintf(want[n++], sizeof(want[0]), "/listed/.local/state/brig");
	(void)snprintf(want[n++], sizeof(want[0]), "/listed/.cache/brig");
	(void)snprintf(want[n++], sizeof(want[0]), "%s/cache/brig", top);
	(void)snprintf(want[n++], sizeof(want[0]), "%s/brig", geteuid() ? in_home : "/var/cache");
	for (size_t i = 0; i < n; i++) {
		bool found = false;

		for (int k = 0; k < STATE_PLACES; k++)
			found = found || (state_place(k, "/listed", path, sizeof(path)) == 0 &&
					  str_eq(path, want[i]));
		if (!found)
			fail_msg("%s is not among the places", want[i]);
	}
}

/* --- homes --- */

static void a_home_is_read_from_the_password_file(void **state UNUSED)
{
	static const char text[] = "root:x:0:0:root:/root:/bin/sh\n"
				   "# a comment\n\n:::\nshort:x:7\n"
				   "bad:x:07x:7::/bad:/bin/sh\n"
				   "rel:x:8:8::relative:/bin/sh\n"
				   "a:x:1000:1000:A, B:/home/a:/bin/sh\n"
				   "later:x:1000:1000::/later:/bin/sh\n"
				   "none:x:9:9:::/bin/sh\n"
				   "last:x:10:10::/last";
	char path[16];

	assert_int_equal(home_find(text, 1000, path, sizeof(path)), 0);
	assert_string_equal(path, "/home/a");
	assert_int_equal(home_find(text, 0, path, sizeof(path)), 0);
	assert_string_equal(path, "/root");
	assert_int_equal(home_find(text, 10, path, sizeof(path)), 0);
	assert_string_equal(path, "/last");
	for (uid_t uid = 7; uid <= 9; uid++)
		assert_int_equal(home_find(text, uid, path, sizeof(path)), -ENOENT);
	assert_int_equal(home_find(text, 1000, path, 7), -ENOENT);
	assert_int_equal(home_find("", 0, path, sizeof(path)), -ENOENT);
}

static void a_home_is_known_by_every_name(void **state UNUSED)
{
	char home[PATH_MAX + 16], path[PATH_MAX + 64];
	static const struct {
		const char *path;
		enum home_kind kind;
	} tries[] = { { "real/u", HOME_ITSELF },      { "u", HOME_ITSELF },
		      { "real/../u/.", HOME_ITSELF }, { "real", HOME_CONTAINS },
		      { "alias", HOME_CONTAINS },     { ".", HOME_CONTAINS },
		      { "/", HOME_CONTAINS },         { "real/u/project", HOME_APART },
		      { "real/other", HOME_APART },   { "real/gone", HOME_APART } };

	assert_int_equal(mkdir("real", 0755) | mkdir("real/u", 0755) |
				 mkdir("real/u/project", 0755) | mkdir("real/other", 0755),
			 0);
	assert_int_equal(symlink("real/u", "u") | symlink("real", "alias"), 0);
	for (int linked = 0; linked < 2; linked++) {
		(void)snprintf(home, sizeof(home), "%s/%s", top, linked ? "u" : "real/u");
		for (size_t i = 0; i < ARRAY_LEN(tries); i++) {
			(void)snprintf(path, sizeof(path), "%s%s%s",
				       tries[i].path[0] == '/' ? "" : top,
				       tries[i].path[0] == '/' ? "" : "/", tries[i].path);
			if (home_kind(path, home) != tries[i].kind)
				fail_msg("%s with HOME %s", path, home);
		}
	}
}

static void the_password_entry_counts_beside_the_variable(void **state UNUSED)
{
	char home[PATH_MAX];

	if (home_listed(geteuid(), home, sizeof(home)) < 0 || access(home, F_OK) < 0)
		return;
	assert_int_equal(home_kind(home, top), HOME_ITSELF);
	assert_int_equal(home_kind(home, NULL), HOME_ITSELF);
}

/* --- mounts --- */

static void a_list_of_mounts_is_read(void **state UNUSED)
{
	CLEANUP(arena) struct arena *a = arena_new(1 << 20);
	char text[] =
		"21 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw\n"
		"22 21 0:5 / /a\\040b\\134c rw - proc proc rw\n"
		"23 21 8:1 /home/u /mnt/alias ro,noexec shared:1 master:2 - ext4 /dev/sda1 rw\n";
	struct mounts m;
	struct where w;

	assert_int_equal(mounts_parse(a, text, &m), 0);
	assert_int_equal(m.n, 3);
	assert_string_equal(m.v[1].point, "/a b\\c");
	assert_string_equal(m.v[1].type, "proc");
	assert_true(m.v[1].kernel && !m.v[0].kernel);
	assert_true(m.v[2].read_only && !m.v[0].read_only);
	assert_int_equal(mounts_where_text(&m, a, "/mnt/alias/x", &w), 0);
	assert_string_equal(w.path, "/home/u/x");
	assert_true(w.dev == m.v[0].dev);
	assert_int_equal(mounts_where_text(&m, a, "/mnt/aliases", &w), 0);
	assert_string_equal(w.path, "/mnt/aliases");
	assert_int_equal(mounts_where_text(&m, a, "/mnt/alias", &w), 0);
	assert_string_equal(w.path, "/home/u");
	assert_int_equal(mounts_where_text(&m, a, "/", &w), 0);
	assert_string_equal(w.path, "/");
}

static void a_list_that_is_none_is_refused(void **state UNUSED)
{
	static const char *const bad[] = { "x",
					   "1 2 3:4 / /",
					   "1 2 3:4 / / rw",
					   "1 2 3:4 / / rw -",
					   "1 2 34 / / rw - ext4 x rw",
					   "1 2 3:y / / rw - ext4 x rw",
					   "z 2 3:4 / / rw - ext4 x rw",
					   "1 2 3:4 / relative rw - ext4 x rw",
					   "1 2 3:4 / / rw shared:1 ext4 x rw" };

	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		CLEANUP(arena) struct arena *a = arena_new(1 << 16);
		CLEANUP(mem) char *text = strdup(bad[i]);
		struct mounts m;

		if (mounts_parse(a, text, &m) != -EINVAL)
			fail_msg("taken: %s", bad[i]);
	}
}

static void links_and_missing_ends_are_resolved(void **state UNUSED)
{
	CLEANUP(arena) struct arena *a = arena_new(1 << 20);
	char path[PATH_MAX + 64];
	struct where direct, linked, missing;
	struct mounts m;
	struct err e;

	assert_int_equal(mkdir("real", 0755) | mkdir("real/b", 0755) | symlink("real", "alias"), 0);
	assert_int_equal(mounts_read(a, &m, &e), 0);
	(void)snprintf(path, sizeof(path), "%s/real/b", top);
	assert_int_equal(mounts_find(&m, a, path, &direct), 0);
	(void)snprintf(path, sizeof(path), "%s/alias/b", top);
	assert_int_equal(mounts_find(&m, a, path, &linked), 0);
	assert_true(direct.dev == linked.dev);
	assert_string_equal(direct.path, linked.path);
	assert_string_equal(direct.real, linked.real);
	(void)snprintf(path, sizeof(path), "%s/alias/b/c/d", top);
	assert_int_equal(mounts_find(&m, a, path, &missing), 0);
	assert_true(str_starts(missing.path, direct.path));
	assert_string_equal(missing.path + strlen(direct.path), "/c/d");
}

/* --- sockets --- */

struct seen {
	const struct stat *file; /* which is looked for */
	unsigned all, met;
	char name[128];
};

static int count(void *ctx, const struct bound_socket *b, struct err *e UNUSED)
{
	struct seen *s = ctx;

	s->all++;
	(void)snprintf(s->name, sizeof(s->name), "%s", b->name);
	s->met += b->known && s->file && (uint32_t)s->file->st_ino == b->ino;
	return 0;
}

static int stop(void *ctx UNUSED, const struct bound_socket *b UNUSED, struct err *e)
{
	return err_set(e, ERR_INTERNAL, EXDEV, "enough");
}

static void sockets_are_known_by_their_file_whatever_it_is_called(void **state UNUSED)
{
	struct sockaddr_un at = { .sun_family = AF_UNIX, .sun_path = "bound" };
	CLEANUP(fd) int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	struct seen s = { 0 };
	struct stat st;
	struct err e;
	bool known;

	assert_int_equal(bind(fd, (struct sockaddr *)&at, sizeof(at)), 0);
	assert_int_equal(rename("bound", "renamed"), 0);
	assert_int_equal(lstat("renamed", &st), 0);
	s.file = &st;
	assert_int_equal(sockets_list(count, &s, &known, &e), 0);
	assert_true(known && s.met >= 1);
	assert_true(sockets_list(stop, NULL, &known, &e) == -EXDEV && known);
}

enum { CROWD = 300 };

struct crowd {
	uint32_t inos[CROWD];
	bool met[CROWD];
	unsigned calls;
};

static int find_in_crowd(void *ctx, const struct bound_socket *b, struct err *e UNUSED)
{
	struct crowd *c = ctx;

	if (++c->calls % 32 == 0)
		usleep(500); /* so that others end between two parts of the list */
	for (size_t i = 0; i < CROWD; i++)
		c->met[i] |= b->known && b->ino == c->inos[i];
	return 0;
}

/* Sockets that end, one after the other, wherever they are in the kernel's list. */
static _Noreturn void come_and_go(void)
{
	int pairs[CROWD][2];

	must(prctl(PR_SET_PDEATHSIG, SIGKILL) == 0);
	for (size_t i = 0; i < CROWD; i++)
		must(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pairs[i]) == 0);
	for (size_t i = 0;; i = (i + 7) % CROWD) {
		close(pairs[i][0]);
		close(pairs[i][1]);
		must(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pairs[i]) == 0);
	}
}

static void a_crowd_is_listed_whole_while_others_come_and_go(void **state UNUSED)
{
	struct crowd c = { 0 };
	pid_t others = fork();
	struct err e;

	if (others == 0)
		come_and_go();
	for (size_t i = 0; i < CROWD; i++) {
		struct sockaddr_un at = { .sun_family = AF_UNIX };
		int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
		struct stat st;

		(void)snprintf(at.sun_path, sizeof(at.sun_path), "crowd-%zu-%060d", i, 0);
		assert_true(bind(fd, (struct sockaddr *)&at, sizeof(at)) == 0 &&
			    lstat(at.sun_path, &st) == 0);
		c.inos[i] = (uint32_t)st.st_ino;
	}
	for (int list = 0; list < 100; list++) {
		bool known;

		memset(c.met, 0, sizeof(c.met));
		assert_int_equal(sockets_list(find_in_crowd, &c, &known, &e), 0);
		for (size_t i = 0; i < CROWD; i++)
			if (!c.met[i])
				fail_msg("list %d passes over socket %zu", list, i);
	}
	must(kill(others, SIGKILL) == 0 && waitpid(others, NULL, 0) == others);
}

/* What the kernel would say of a socket; returns how many bytes. */
static void a_socket_has_its_path_for_a_name_where_that_fits(void **state UNUSED)
{
	char path[PATH_MAX], deep[120];
	struct sockaddr_un at;

	memset(deep, 'd', sizeof(deep) - 1);
	deep[sizeof(deep) - 1] = '\0';
	assert_return_code(mkdir(deep, 0700), errno);
	assert_non_null(getcwd(path, sizeof(path)));
	for (int i = 0; i < 2; i++) {
		CLEANUP(fd) int folder = open(i ? deep : ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
		CLEANUP(fd) int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

		assert_true(folder >= 0 && fd >= 0);
		socket_address(folder, "here", &at);
		assert_int_equal(
			strncmp(at.sun_path, i ? "/proc/self/fd/" : path, i ? 14 : strlen(path)),
			0);
		assert_return_code(bind(fd, (const struct sockaddr *)&at, sizeof(at)), errno);
		assert_return_code(unlinkat(folder, "here", 0), errno);
	}
	assert_return_code(rmdir(deep), errno);
}

static size_t answer(char *to)
{
	struct unix_diag_vfs file = { .udiag_vfs_ino = 7, .udiag_vfs_dev = 3U << 20 | 5 };
	struct nlmsghdr *h = (void *)to;
	struct rtattr *a = (void *)((char *)NLMSG_DATA(h) + sizeof(struct unix_diag_msg));
	static const char name[] = "/a/name";

	*a = (struct rtattr){ .rta_type = UNIX_DIAG_NAME, .rta_len = RTA_LENGTH(sizeof(name)) };
	memcpy(RTA_DATA(a), name, sizeof(name));
	a = (void *)((char *)a + RTA_SPACE(sizeof(name)));
	*a = (struct rtattr){ .rta_type = UNIX_DIAG_VFS, .rta_len = RTA_LENGTH(sizeof(file)) };
	memcpy(RTA_DATA(a), &file, sizeof(file));
	*h = (struct nlmsghdr){ .nlmsg_type = 20,
				.nlmsg_len = (unsigned)((char *)a + a->rta_len - to) };
	return h->nlmsg_len;
}

static void answers_about_sockets_are_read_within_their_bounds(void **state UNUSED)
{
	_Alignas(struct nlmsghdr) char data[256] = { 0 };
	struct nlmsghdr *h = (void *)data;
	size_t n = answer(data);
	struct seen s = { 0 };
	bool end = false;
	struct err e;

	assert_int_equal(sockets_answer(data, n, count, &s, &end, &e), 0);
	assert_true(s.all == 1 && str_eq(s.name, "/a/name") && !end);
	for (size_t cut = 0; cut < n; cut++) {
		char *exact = malloc(n);

		must(exact != NULL);
		memcpy(exact, data, n);
		assert_int_equal(sockets_answer(exact, cut, count, &s, &end, &e), 0);
		((struct nlmsghdr *)(void *)exact)->nlmsg_len = (unsigned)cut;
		assert_int_equal(sockets_answer(exact, n, count, &s, &end, &e), 0);
		free(exact);
	}
	assert_int_equal(s.all, 1);
	h->nlmsg_type = NLMSG_ERROR;
	assert_int_equal(sockets_answer(data, n, count, &s, &end, &e), -EOPNOTSUPP);
	h->nlmsg_type = NLMSG_DONE;
	assert_true(sockets_answer(data, n, count, &s, &end, &e) == 0 && end);
}

int main(void)
{
#define ONE(name) cmocka_unit_test_setup_teardown(name, enter, leave)
	const struct CMUnitTest tests[] = {
		ONE(without_a_place_there_is_no_state),
		ONE(the_second_place_is_found_and_told),
		ONE(the_first_place_is_not_told),
		ONE(every_place_is_named_to_the_guards),
		ONE(a_home_is_read_from_the_password_file),
		ONE(a_home_is_known_by_every_name),
		ONE(the_password_entry_counts_beside_the_variable),
		ONE(a_list_of_mounts_is_read),
		ONE(a_list_that_is_none_is_refused),
		ONE(links_and_missing_ends_are_resolved),
		ONE(sockets_are_known_by_their_file_whatever_it_is_called),
		ONE(a_crowd_is_listed_whole_while_others_come_and_go),
		ONE(a_socket_has_its_path_for_a_name_where_that_fits),
		ONE(answers_about_sockets_are_read_within_their_bounds),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
