/* SPDX-License-Identifier: Apache-2.0 */
/* unit/test_setup.c - what init finds, writes and copies, without the program around it. */
#include "unit.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "apps/setup/examples.h"
#include "apps/setup/setup_project.h"
#include "apps/setup/setup_text.h"
#include "apps/setup/setup_write.h"
#include "base/files/draft.h"
#include "base/files/fd.h"
#include "base/text/str.h"
#include "model/files/config.h"

struct scratch_folder {
	char path[32];
	int fd;
};

static int make_folder(void **state)
{
	static struct scratch_folder f;

	(void)snprintf(f.path, sizeof(f.path), "/tmp/brig-setup.XXXXXX");
	if (!mkdtemp(f.path))
		return -1;
	f.fd = open(f.path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	*state = &f;
	return f.fd < 0;
}

static int remove_folder(void **state)
{
	static const char *const names[] = { "package.json", "go.mod",         ".claude", "a", "b",
					     "Cargo.toml",   "copy/README.md", "copy",    NULL };
	struct scratch_folder *f = *state;

	for (const char *const *n = names; *n; n++)
		if (unlinkat(f->fd, *n, 0) < 0)
			(void)unlinkat(f->fd, *n, AT_REMOVEDIR);
	(void)close(f->fd);
	return rmdir(f->path);
}

static void put(int folder, const char *name)
{
	(void)close(openat(folder, name, O_CREAT | O_WRONLY | O_CLOEXEC, 0644));
}

static void a_marker_is_what_its_name_says_and_nothing_else(void **state)
{
	struct scratch_folder *f = *state;
	const struct group *groups_found[GROUP_COUNT];
	struct project_found found;

	project_look(f->fd, &found);
	assert_int_equal(found.n, 0);
	assert_null(project_agent(&found));
	assert_null(project_first(&found, true));
	put(f->fd, "package.json");
	assert_int_equal(mkdirat(f->fd, "go.mod", 0755), 0);
	assert_int_equal(mkfifoat(f->fd, ".claude", 0644), 0);
	assert_int_equal(symlinkat("nowhere", f->fd, "Cargo.toml"), 0);
	project_look(f->fd, &found);
	assert_int_equal(found.n, 2);
	assert_int_equal(project_groups(&found, groups_found), 2);
	assert_string_equal(groups_found[0]->name, "npm");
	assert_string_equal(groups_found[1]->name, "crates");
	assert_null(project_agent(&found));
	assert_string_equal(project_first(&found, true), "npm install");
	assert_null(project_first(&found, false));
}

/* Whatever is answered and found: the reader of settings takes the text. */
static void every_text_reads_back(void **state)
{
	static const char *const rules[] = { "@git", "GET,HEAD api.example.org:8443/v1/" };
	struct scratch_folder *f = *state;
	struct project_found found;

	put(f->fd, "package.json");
	for (unsigned i = 0; i < 48; i++) {
		CLEANUP(spec) struct spec *s = NULL;
		CLEANUP(buf) struct buf text = BUF_INIT(65536);
		struct setup_answers a = { .backend = i & 1 ? "docker" : NULL,
					   .image = i & 2 ? "a/b:c" : NULL,
					   .network = i / 4 % 3,
					   .agent = i / 12 & 1 ? "claude" : NULL,
					   .allow = { .v = (const char **)rules,
						      .n = i / 4 % 3 == 2 || i / 24 ? 2 : 0 } };
		const struct source src = {
			.name = "x", .folder = "/", .trusted = true, .origin = ORIGIN_PROJECT
		};
		struct err e = { 0 };
		enum dialect was;

		if (a.network == SETUP_NETWORK_NONE)
			a.allow.n = 0;
		project_look(f->fd, &found);
		setup_text(&a, &found, &text);
		s = spec_new(&e);
		if (config_read_text(s, buf_str(&text), text.len, DIALECT_BRIG, &src, &was, &e) < 0)
			fail_msg("%s\n%s", e.what, buf_str(&text));
		assert_int_equal(s->egress.allow.n,
				 a.allow.n + (a.network == SETUP_NETWORK_PACKAGES ? 4 : 0));
		assert_int_equal(setup_loosens(&a), i % 4 || a.network);
		if (i & 2)
			assert_string_equal(s->image, "a/b:c");
	}
}

static void a_file_is_new_or_is_left_alone(void **state)
{
	struct scratch_folder *f = *state;
	struct err e = { 0 };
	struct draft d;
	char got[16];

	assert_int_equal(setup_write(f->fd, "a", "one", 3, false, &e), 0);
	assert_int_equal(setup_write(f->fd, "a", "two", 3, false, &e), -EEXIST);
	assert_int_equal(fd_read_file(f->fd, "a", got, sizeof(got)), 3);
	assert_string_equal(got, "one");
	assert_int_equal(setup_write(f->fd, "a", "two", 3, true, &e), 0);
	assert_int_equal(fd_read_file(f->fd, "a", got, sizeof(got)), 3);
	assert_string_equal(got, "two");
	/* Somebody is faster than the rename: with a file, with a link to it, with one to nowhere.
	 */
	for (int i = 0; i < 3; i++) {
		assert_int_equal(draft_open(f->fd, &d), 0);
		if (i)
			assert_int_equal(symlinkat(i == 1 ? "a" : "nowhere", f->fd, "b"), 0);
		assert_int_equal(draft_keep_new(&d, i ? "b" : "a", 0644), -EEXIST);
		(void)unlinkat(f->fd, "b", 0);
	}
	assert_int_equal(draft_open(f->fd, &d), 0);
	assert_int_equal(draft_keep_new(&d, "b", 0600), 0);
}

static const struct example_file small_files[] = { { "README.md", "# small: x\n", 11, 0666 } };
const struct example examples[] = { { "small", "x", small_files, 1 } };
const size_t example_count = 1;
const char worker_dockerfile[] = "";

static void an_example_is_copied_once(void **state)
{
	struct scratch_folder *f = *state;
	struct err e = { 0 };
	char path[64];

	(void)snprintf(path, sizeof(path), "%s/copy", f->path);
	assert_null(example_find("smal", &e));
	assert_string_equal(e.hint, "did you mean 'small'?");
	assert_int_equal(example_copy(example_find("small", &e), path, &e), 0);
	assert_int_equal(example_copy(example_find("small", &e), path, &e), -EEXIST);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test_setup_teardown(a_marker_is_what_its_name_says_and_nothing_else,
					make_folder, remove_folder),
	cmocka_unit_test_setup_teardown(every_text_reads_back, make_folder, remove_folder),
	cmocka_unit_test_setup_teardown(a_file_is_new_or_is_left_alone, make_folder, remove_folder),
	cmocka_unit_test_setup_teardown(an_example_is_copied_once, make_folder, remove_folder),
};

int main(void)
{
	return cmocka_run_group_tests(tests, NULL, NULL);
}
