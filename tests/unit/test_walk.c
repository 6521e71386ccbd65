/* SPDX-License-Identifier: Apache-2.0 */
/* unit/test_walk.c - the walk meets a git folder by whatever name its file system takes for .git.
 */
#include "unit.h"

#include <fcntl.h>
#include <stdarg.h>

#include "backend/kit/survey/gitdirs.h"
#include "backend/kit/survey/walk.h"
#include "base/text/str.h"

#define HIDDEN ".g\xe2\x80\x8cit" /* with a sign of no width, which ext4 and HFS+ leave out */
#define OBJECTS "object\xc5\xbf"  /* with a long s */

static char top[PATH_MAX];
static bool folds; /* whether the file system does */

int __real_fstatat64(int dir, const char *name, struct stat *st, int flags);
int __wrap_fstatat64(int dir, const char *name, struct stat *st, int flags);
int __real_openat64(int dir, const char *name, int flags, mode_t mode);
int __wrap_openat64(int dir, const char *name, int flags, ...);
int __real_fd_open_nolinks(int dir, const char *path, int flags, unsigned how);
int __wrap_fd_open_nolinks(int dir, const char *path, int flags, unsigned how);

static const char *folded(const char *name)
{
	return str_eq(name, ".git") ? HIDDEN : str_eq(name, "objects") ? OBJECTS : name;
}

int __wrap_fstatat64(int dir, const char *name, struct stat *st, int flags)
{
	int r = __real_fstatat64(dir, name, st, flags);

	return r < 0 && folds ? __real_fstatat64(dir, folded(name), st, flags) : r;
}

int __wrap_openat64(int dir, const char *name, int flags, ...)
{
	int r = __real_openat64(dir, name, flags, 0600);

	return r < 0 && folds ? __real_openat64(dir, folded(name), flags, 0600) : r;
}

int __wrap_fd_open_nolinks(int dir, const char *path, int flags, unsigned how)
{
	return __real_fd_open_nolinks(dir, folds && str_eq(path, "x/.git") ? "x/" HIDDEN : path,
				      flags, how);
}

static void on_git(struct git_walk *w, int fd UNUSED, const char *git, unsigned parts)
{
	if (parts & GIT_HEAD)
		buf_printf(w->ctx, "%s ", git);
}

static void on_thing(struct git_walk *w UNUSED, enum walk_what what UNUSED, const char *git UNUSED,
		     const char *path UNUSED, const struct stat *st UNUSED)
{
}

static void on_more(struct git_walk *w UNUSED, const char *git UNUSED)
{
}

static bool met(const char *git)
{
	CLEANUP(buf) struct buf found = BUF_INIT(4096);
	CLEANUP(fd) int tree = open(top, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	const struct known_list none = KNOWN_LIST_NONE;
	struct git_walk w = { .tree = tree,
			      .known = &none,
			      .outside = WALK_OUTSIDE,
			      .inside = WALK_INSIDE,
			      .on_git = on_git,
			      .on_thing = on_thing,
			      .on_more = on_more,
			      .ctx = &found,
			      .gits = WALK_GITS };

	walk_tree(&w);
	return strstr(buf_str(&found), git);
}

static void make(const char *folder)
{
	static const char *const names[] = { "HEAD", OBJECTS, "refs" };
	char path[PATH_MAX];

	must(mkdir(folder, 0700) == 0);
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		(void)snprintf(path, sizeof(path), "%s/%s", folder, names[i]);
		must(mkdir(path, 0700) == 0);
	}
}

static void a_name_that_the_file_system_takes_for_gits_is_gits(void **state UNUSED)
{
	enter_scratch(top);
	must(mkdir("x", 0700) == 0);
	make("x/" HIDDEN);
	make("bare");
	folds = false;
	assert_false(met("x/") || met("bare "));
	folds = true;
	assert_true(met("x/.git ") && met("bare "));
	folds = false;
	leave_scratch(top);
}

/* ---- parts whose path is longer than any ---- */

static void note_hooks(void *ctx, const struct git_part *part, const char *path,
		       const struct stat *st)
{
	size_t *length = ctx;

	assert_true(part->kind == GIT_PART_HOOKS && S_ISREG(st->st_mode));
	*length = strlen(path);
}

static void go_down(const char *name, char path[PATH_MAX])
{
	size_t n = strlen(path);

	assert_true(mkdir(name, 0700) == 0 && chdir(name) == 0);
	(void)snprintf(path + n, PATH_MAX - n, "%s%s", n ? "/" : "", name);
}

/* git stands in the working tree, and reaches its hooks by a few names. */
static void a_hook_whose_path_is_too_long_is_told_by_its_folder(void **state UNUSED)
{
	char name[200] = "", git[PATH_MAX] = "";
	CLEANUP(fd) int tree = -1, hook = -1;
	size_t found = 0;
	int depth = 1;

	enter_scratch(top);
	tree = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	memset(name, 'd', sizeof(name) - 1);
	for (; strlen(git) + sizeof(name) < PATH_MAX - 32; depth++)
		go_down(name, git);
	name[PATH_MAX - 16 - strlen(git)] = '\0';
	go_down(name, git);
	assert_return_code(mkdir("hooks", 0700), errno);
	hook = open("hooks/post-checkout", O_WRONLY | O_CREAT | O_CLOEXEC, 0700);
	assert_return_code(hook, errno);
	gitdir_parts(tree, git, note_hooks, &found);
	assert_int_equal(found, strlen(git) + strlen("/hooks"));
	assert_true(unlink("hooks/post-checkout") == 0 && rmdir("hooks") == 0);
	for (; depth; depth--, memset(name, 'd', sizeof(name) - 1))
		assert_true(chdir("..") == 0 && rmdir(name) == 0);
	leave_scratch(top);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(a_name_that_the_file_system_takes_for_gits_is_gits),
	cmocka_unit_test(a_hook_whose_path_is_too_long_is_told_by_its_folder),
};

int main(void)
{
	return cmocka_run_group_tests(tests, NULL, NULL);
}
