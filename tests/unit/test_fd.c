/* SPDX-License-Identifier: Apache-2.0 */
/* unit/test_fd.c - descriptors: opening without links, closing ranges, passing over sockets.
 *
 * What has a second way for older kernels is tried twice: as it is, and in a process whose filter
 * answers ENOSYS to openat2 and close_range. */
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include "unit.h"

#include "base/files/folder.h"

#define CALL(nr) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (nr), 0, 1)
#define ANSWER(value) BPF_STMT(BPF_RET | BPF_K, (value))

static void deny_new_calls(void)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		CALL(SYS_openat2),
		ANSWER(SECCOMP_RET_ERRNO | ENOSYS),
		CALL(SYS_close_range),
		ANSWER(SECCOMP_RET_ERRNO | ENOSYS),
		ANSWER(SECCOMP_RET_ALLOW),
	};
	struct sock_fprog filter = { .len = ARRAY_LEN(code), .filter = code };

	must(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
	must(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0);
	must(syscall(SYS_openat2, 0, NULL, NULL, 0) < 0 && errno == ENOSYS);
}

struct twice {
	void (*fn)(void);
	bool denied;
};

static void once(void *arg)
{
	const struct twice *t = arg;

	if (t->denied)
		deny_new_calls();
	t->fn();
}

static void both_ways(void (*fn)(void))
{
	struct twice t = { .fn = fn };

	assert_true(in_child(once, &t, 20));
	t.denied = true;
	assert_true(in_child(once, &t, 20));
}

static int open_here(const char *path, int flags, unsigned how)
{
	CLEANUP(fd) int at = open(".", O_PATH | O_DIRECTORY | O_CLOEXEC);
	int fd = fd_open_nolinks(at, path, flags, how);

	if (fd >= 0)
		must(fcntl(fd, F_GETFD) == FD_CLOEXEC);
	return fd;
}

static void opens(const char *path, int flags, unsigned how)
{
	int fd = open_here(path, flags, how);

	if (fd < 0)
		(void)fprintf(stderr, "'%s' with %#x: %d\n", path, (unsigned)flags, fd);
	must(fd >= 0);
	(void)close(fd);
}

static void refuses(const char *path, int flags, unsigned how, int code)
{
	int fd = open_here(path, flags, how);

	if (fd != -code)
		(void)fprintf(stderr, "'%s' with %#x: %d instead of %d\n", path, (unsigned)flags,
			      fd, -code);
	must(fd == -code);
}

/* dir/file, dir/sub; link -> dir; dir/out -> /etc; dangling; dir/self -> . */
static int make_tree(void **state)
{
	char *path = malloc(PATH_MAX);

	enter_scratch(path);
	must(mkdir("dir", 0755) == 0 && mkdir("dir/sub", 0755) == 0);
	write_text("dir/file", "content");
	must(symlink("dir", "link") == 0 && symlink("/etc", "dir/out") == 0);
	must(symlink("nowhere", "dangling") == 0 && symlink(".", "dir/self") == 0);
	must(symlink("dir/file", "file-link") == 0);
	*state = path;
	return 0;
}

static int remove_it(void **state)
{
	leave_scratch(*state);
	free(*state);
	return 0;
}

static void plain_paths(void)
{
	opens("dir/file", O_RDONLY, 0);
	opens("dir//file", O_RDONLY, 0);
	opens("./dir/./file", O_RDONLY, FD_BENEATH);
	opens("dir", O_PATH | O_DIRECTORY, FD_BENEATH);
	opens("dir/", O_PATH, 0);
	opens(".", O_PATH, FD_BENEATH);
	opens("/", O_PATH, 0);
	opens("/dir/file", O_RDONLY, FD_IN_ROOT);
	opens("/", O_PATH, FD_IN_ROOT);
	opens("dir/file", O_WRONLY, FD_BENEATH);
	refuses("missing", O_PATH, 0, ENOENT);
	refuses("dir/missing/x", O_PATH, FD_BENEATH, ENOENT);
	refuses("dir/file/x", O_PATH, FD_BENEATH, ENOTDIR);
	refuses("dir/file", O_RDONLY | O_DIRECTORY, FD_BENEATH, ENOTDIR);
}

static void a_path_without_links_is_opened(void **state UNUSED)
{
	both_ways(plain_paths);
}

static void linked_paths(void)
{
	static const int flags[] = { O_PATH, O_RDONLY, O_RDONLY | O_NONBLOCK, O_WRONLY };

	for (size_t i = 0; i < ARRAY_LEN(flags); i++)
		for (unsigned how = 0; how <= FD_IN_ROOT; how++) {
			refuses("link", flags[i], how, ELOOP);
			refuses("link/file", flags[i], how, ELOOP);
			refuses("link/missing", flags[i], how, ELOOP);
			refuses("dir/out", flags[i], how, ELOOP);
			refuses("dir/out/passwd", flags[i], how, ELOOP);
			refuses("dangling", flags[i], how, ELOOP);
			refuses("dir/self/file", flags[i], how, ELOOP);
			refuses("file-link", flags[i], how, ELOOP);
		}
	refuses("/proc/self", O_PATH, 0, ELOOP);
	refuses("/proc/self/status", O_RDONLY, 0, ELOOP);
}

static void a_link_anywhere_in_the_path_is_refused(void **state UNUSED)
{
	both_ways(linked_paths);
}

/* The kernel's own answer to O_DIRECTORY and O_NOFOLLOW on a link is ENOTDIR; ours says link. */
static void linked_folders(void)
{
	refuses("link", O_PATH | O_DIRECTORY, FD_BENEATH, ELOOP);
	refuses("link", O_RDONLY | O_DIRECTORY, FD_BENEATH, ELOOP);
	refuses("link/sub", O_RDONLY | O_DIRECTORY, FD_BENEATH, ELOOP);
	refuses("file-link", O_RDONLY | O_DIRECTORY, FD_BENEATH, ELOOP);
	refuses("dangling", O_RDONLY | O_DIRECTORY, FD_BENEATH, ELOOP);
}

static void a_link_in_place_of_a_folder_is_told_as_a_link(void **state UNUSED)
{
	both_ways(linked_folders);
}

static void upward_paths(void)
{
	refuses("..", O_PATH, FD_BENEATH, EXDEV);
	refuses("../x", O_PATH, FD_BENEATH, EXDEV);
	refuses("dir/../../x", O_PATH, FD_BENEATH, EXDEV);
	refuses("/etc", O_PATH, FD_BENEATH, EXDEV);
	refuses("/", O_PATH, FD_BENEATH, EXDEV);
}

static void beneath_means_beneath(void **state UNUSED)
{
	both_ways(upward_paths);
}

static void odd_paths(void)
{
	char longer[600];

	memset(longer, 'n', 256);
	longer[256] = '\0';
	refuses(longer, O_PATH, FD_BENEATH, ENAMETOOLONG);
	memcpy(longer + 256, "/x", 3);
	refuses(longer, O_PATH, FD_BENEATH, ENAMETOOLONG);
	refuses("", O_PATH, 0, ENOENT);
	refuses("", O_RDONLY, FD_BENEATH, ENOENT);
	refuses("dir/file/", O_RDONLY, 0, ENOTDIR);
	refuses("dir/file//", O_PATH, FD_BENEATH, ENOTDIR);
}

static void empty_long_and_slash_ended_paths_get_the_kernels_answer(void **state UNUSED)
{
	both_ways(odd_paths);
}

static void no_descriptor_leaks(void)
{
	int before = dup(0), after;

	(void)close(before);
	for (int i = 0; i < 100; i++) {
		refuses("link/file", O_PATH, 0, ELOOP);
		refuses("dir/missing", O_PATH, FD_BENEATH, ENOENT);
		opens("dir/sub", O_PATH, FD_BENEATH);
		refuses("dir/..", O_PATH | O_DIRECTORY | O_CREAT, FD_BENEATH,
			syscall(SYS_openat2, 0, NULL, NULL, 0) < 0 && errno == ENOSYS ? EXDEV
										      : EINVAL);
	}
	after = dup(0);
	must(before == after);
}

static void opening_leaks_no_descriptor(void **state UNUSED)
{
	both_ways(no_descriptor_leaks);
}

static void range_closed(void)
{
	int top = 700;

	for (int fd = 40; fd < top; fd += 3)
		must(dup2(2, fd) == fd);
	must(dup2(2, 39) == 39);
	must(fd_close_range(40, 99) == 0);
	must(fcntl(39, F_GETFD) >= 0 && fcntl(100, F_GETFD) >= 0);
	for (int fd = 40; fd < 100; fd++)
		must(fcntl(fd, F_GETFD) < 0);
	must(fd_close_range(3, INT_MAX) == 0);
	for (int fd = 3; fd < top; fd++)
		must(fcntl(fd, F_GETFD) < 0);
	must(fcntl(0, F_GETFD) >= 0 && fcntl(1, F_GETFD) >= 0 && fcntl(2, F_GETFD) >= 0);
	must(fd_close_range(3, INT_MAX) == 0);
}

static void a_range_is_closed_and_no_more(void **state UNUSED)
{
	both_ways(range_closed);
}

static void rest_closed(void)
{
	const int keep[] = { 7, -1, 3, 90 };

	for (int fd = 3; fd < 100; fd++)
		must(dup2(2, fd) == fd);
	must(fd_close_except(3, keep, ARRAY_LEN(keep)) == 0);
	for (int fd = 0; fd < 100; fd++)
		must((fcntl(fd, F_GETFD) >= 0) == (fd <= 3 || fd == 7 || fd == 90));
	must(fd_close_except(3, NULL, 0) == 0);
	for (int fd = 3; fd < 100; fd++)
		must(fcntl(fd, F_GETFD) < 0);
}

static void all_but_the_kept_are_closed(void **state UNUSED)
{
	both_ways(rest_closed);
}

static void stdio_ensured(void *arg UNUSED)
{
	must(close(0) == 0 && close(1) == 0);
	must(fd_ensure_stdio() == 0);
	must(fcntl(0, F_GETFL) >= 0 && (fcntl(0, F_GETFL) & O_ACCMODE) == O_RDONLY);
	must((fcntl(1, F_GETFL) & O_ACCMODE) == O_WRONLY);
	(void)close(2);
	if (fd_ensure_stdio() < 0 || fcntl(2, F_GETFD) < 0)
		_exit(1);
}

static void missing_stdio_is_opened(void **state UNUSED)
{
	assert_true(in_child(stdio_ensured, NULL, 20));
}

static void a_file_is_read_up_to_its_room_and_ended(void **state UNUSED)
{
	char text[8];

	assert_int_equal(fd_read_file(AT_FDCWD, "dir/file", text, sizeof(text)), 7);
	assert_string_equal(text, "content");
	assert_int_equal(fd_read_file(AT_FDCWD, "dir/file", text, 4), 3);
	assert_string_equal(text, "con");
	assert_int_equal(fd_read_file(AT_FDCWD, "dir/file", text, 1), 0);
	assert_string_equal(text, "");
	assert_int_equal(fd_read_file(AT_FDCWD, "missing", text, sizeof(text)), -ENOENT);
	assert_int_equal(fd_read_file(AT_FDCWD, "dir", text, sizeof(text)), -EISDIR);
}

static void only_a_file_that_exists_is_written(void **state UNUSED)
{
	char text[16];

	assert_int_equal(fd_write_file(AT_FDCWD, "missing", "x"), -ENOENT);
	assert_int_equal(access("missing", F_OK), -1);
	assert_int_equal(fd_write_file(AT_FDCWD, "dir/file", "CON"), 0);
	assert_int_equal(fd_read_file(AT_FDCWD, "dir/file", text, sizeof(text)), 7);
	assert_string_equal(text, "CONtent");
	assert_int_equal(fd_write_file(AT_FDCWD, "/dev/full", "x"), -ENOSPC);
}

static void all_is_written_or_the_error_told(void **state UNUSED)
{
	char big[200000], back[4096];
	size_t got = 0;
	int ends[2];
	ssize_t n;
	pid_t pid;

	memset(big, 'b', sizeof(big));
	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		(void)close(ends[0]);
		_exit(fd_write_all(ends[1], big, sizeof(big)) == 0 ? 0 : 1);
	}
	(void)close(ends[1]);
	while ((n = read(ends[0], back, sizeof(back))) > 0)
		got += (size_t)n;
	assert_int_equal(got, sizeof(big));
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	(void)close(ends[0]);
	assert_int_equal(fd_write_all(-1, "x", 1), -EBADF);
	assert_int_equal(fd_write_all(-1, "x", 0), 0);
}

static void descriptors_cross_a_socket_and_the_surplus_is_closed(void **state UNUSED)
{
	int pair[2], fds[33], got[8], before, after;
	size_t room = 2;
	char byte;

	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
	for (size_t i = 0; i < ARRAY_LEN(fds); i++)
		fds[i] = 0;
	before = dup(0);
	(void)close(before);
	assert_int_equal(fd_send(pair[0], "x", 1, fds, 8), 0);
	assert_int_equal(fd_recv(pair[1], &byte, 1, got, &room), 1);
	assert_int_equal(room, 2);
	for (size_t i = 0; i < room; i++) {
		assert_int_equal(fcntl(got[i], F_GETFD), FD_CLOEXEC);
		(void)close(got[i]);
	}
	after = dup(0);
	(void)close(after);
	assert_int_equal(before, after);
	assert_int_equal(fd_send(pair[0], "x", 1, fds, ARRAY_LEN(fds)), -EINVAL);
	room = 8;
	assert_int_equal(fd_recv(pair[1], &byte, 1, got, &room), -EAGAIN);
	assert_int_equal(room, 0);
	(void)close(pair[1]);
	assert_int_equal(fd_send(pair[0], "x", 1, NULL, 0), -EPIPE);
	(void)close(pair[0]);
}

static void a_thing_replaced_by_another_is_noticed(void **state UNUSED)
{
	struct ident a, b, c;
	struct stat st;

	assert_int_equal(stat("dir", &st), 0);
	a = ident_of(&st);
	assert_int_equal(rename("dir", "moved"), 0);
	assert_int_equal(stat("moved", &st), 0);
	b = ident_of(&st);
	assert_int_equal(mkdir("dir", 0700), 0);
	assert_int_equal(stat("dir", &st), 0);
	c = ident_of(&st);
	assert_true(ident_same(&a, &b));
	assert_false(ident_same(&a, &c));
}

static void the_last_words_of_one_who_did_not_listen_arrive(void **state UNUSED)
{
	int pair[2];
	char byte = 0;
	size_t room = 0;

	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
	assert_int_equal(fd_send(pair[0], "?", 1, NULL, 0), 0);
	assert_int_equal(fd_send(pair[1], "!", 1, NULL, 0), 0);
	(void)close(pair[1]);
	assert_int_equal(fd_recv(pair[0], &byte, 1, NULL, &room), 1);
	assert_int_equal(byte, '!');
	assert_int_equal(fd_recv(pair[0], &byte, 1, NULL, &room), 0);
	(void)close(pair[0]);
}

/* More than the reader's room holds at a time. */
static void every_name_in_a_folder_is_read_once(void **state UNUSED)
{
	enum { MANY = 300 };
	bool seen[MANY] = { false };
	const struct fd_entry *e;
	struct folder d;
	char name[64];
	size_t n = 0;
	int fd;

	must(mkdir("many", 0755) == 0);
	for (int i = 0; i < MANY; i++) {
		(void)snprintf(name, sizeof(name), "many/%03d-a-name-that-takes-some-room", i);
		write_text(name, "");
	}
	fd = open("many", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_true(fd >= 0);
	folder_begin(&d, fd);
	for (; (e = folder_next(&d)); n++) {
		int i = atoi(e->name);

		assert_true(i >= 0 && i < MANY && !seen[i]);
		seen[i] = true;
	}
	assert_int_equal(d.error, 0);
	assert_int_equal(n, MANY);
	(void)close(fd);
	folder_begin(&d, fd);
	assert_null(folder_next(&d));
	assert_int_equal(d.error, EBADF);
}

#define IN_TREE(f) cmocka_unit_test_setup_teardown(f, make_tree, remove_it)
static const struct CMUnitTest tests[] = {
	IN_TREE(a_path_without_links_is_opened),
	IN_TREE(a_link_anywhere_in_the_path_is_refused),
	IN_TREE(a_link_in_place_of_a_folder_is_told_as_a_link),
	IN_TREE(beneath_means_beneath),
	IN_TREE(empty_long_and_slash_ended_paths_get_the_kernels_answer),
	IN_TREE(opening_leaks_no_descriptor),
	cmocka_unit_test(a_range_is_closed_and_no_more),
	cmocka_unit_test(all_but_the_kept_are_closed),
	cmocka_unit_test(missing_stdio_is_opened),
	IN_TREE(a_file_is_read_up_to_its_room_and_ended),
	IN_TREE(only_a_file_that_exists_is_written),
	cmocka_unit_test(all_is_written_or_the_error_told),
	cmocka_unit_test(descriptors_cross_a_socket_and_the_surplus_is_closed),
	cmocka_unit_test(the_last_words_of_one_who_did_not_listen_arrive),
	IN_TREE(a_thing_replaced_by_another_is_noticed),
	IN_TREE(every_name_in_a_folder_is_read_once),
};

int main(void)
{
	return cmocka_run_group_tests(tests, NULL, NULL);
}
