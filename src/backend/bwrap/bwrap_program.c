/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/bwrap/bwrap_program.h"

#include <assert.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "base/files/fd.h"
#include "proc/host_find.h"

#define PROGRAM_MAX ((off_t)64 << 20)

/* Defined by the command line's is_brig.c alone: is this process brig, or brig-more without a
 * library? */
extern const char brig_is_this_program[] __attribute__((weak));

/* What every run needs, of which the last to arrive came with 0.8.0; then what is used if there. */
static const char *const options[] = { "--size",           "--perms",   "--clearenv",  "--info-fd",
				       "--disable-userns", "--bind-fd", "--ro-bind-fd" };
enum { NEEDED = 0x1f, BIND_FD = 0x60 };
static_assert(ARRAY_LEN(options) == 7, "a bit of the masks above for each");

/* Which of them are there, in one pass: every run makes it. */
static unsigned find_options(const char *data, size_t n)
{
	const char *end = data + n;
	unsigned seen = 0;

	for (const char *at = data; (at = memchr(at, '-', (size_t)(end - at))); at++)
		for (size_t i = 0; at + 1 < end && at[1] == '-' && i < ARRAY_LEN(options); i++) {
			size_t length = strlen(options[i]);

			if ((size_t)(end - at) >= length && memcmp(at, options[i], length) == 0)
				seen |= 1U << i;
		}
	return seen;
}

int bwrap_read_features(const char *data, size_t n, struct bwrap_features *ret)
{
	unsigned seen = find_options(data, n);

	if ((seen & NEEDED) != NEEDED)
		return -ENOTSUP;
	ret->bind_fd = (seen & BIND_FD) == BIND_FD;
	return 0;
}

static int look_inside(const char *path, struct bwrap_features *ret, struct err *e)
{
	CLEANUP(fd) int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct stat st;
	void *data;
	int r;

	if (fd < 0 || fstat(fd, &st) < 0)
		return err_sys(e, "cannot read '%s'", path);
	if (!S_ISREG(st.st_mode) || st.st_size == 0 || st.st_size > PROGRAM_MAX)
		return err_set(e, ERR_UNAVAILABLE, ENOEXEC, "'%s' is not bubblewrap", path);
	/* Root's runs in a namespace where that bit means nothing. */
	if (st.st_mode & S_ISUID && geteuid() != 0) {
		(void)err_set(e, ERR_UNAVAILABLE, ENOTSUP,
			      "'%s' is setuid, and then limits no private folder", path);
		return err_hint(e, "sudo chmod u-s %s, or use --backend native", path);
	}
	data = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	if (data == MAP_FAILED)
		return err_sys(e, "cannot read '%s'", path);
	r = bwrap_read_features(data, (size_t)st.st_size, ret);
	(void)munmap(data, (size_t)st.st_size);
	if (r == 0)
		return 0;
	return err_refuse(e, ERR_UNAVAILABLE, ENOTSUP,
			  "upgrade it (sudo apt install bubblewrap), or use --backend native",
			  "'%s' is not bubblewrap 0.8 or newer, which brig needs", path);
}

int bwrap_find(struct arena *a, const char *const *places, struct bwrap_program *ret, struct err *e)
{
	char full[PATH_MAX];
	int r = host_find("bwrap", NULL, places, full, e);

	if (r == -ENOENT)
		return err_refuse(e, ERR_UNAVAILABLE, ENOENT,
				  "sudo apt install bubblewrap, or use --backend native",
				  "bubblewrap (bwrap) is not installed");
	if (r < 0)
		return r;
	ret->path = arena_strdup(a, full);
	if (!ret->path)
		return err_nomem(e);
	return look_inside(ret->path, &ret->has, e);
}

int brig_program(struct err *e)
{
	struct err not_ours = { 0 };
	char full[PATH_MAX];
	int fd, r;

	if (brig_is_this_program)
		(void)snprintf(full, sizeof(full), "/proc/self/exe");
	else if (host_find_own("brig", full, &not_ours) < 0) {
		r = host_find("brig", NULL, NULL, full, e);
		if (r == -ENOENT)
			return err_refuse(e, ERR_UNAVAILABLE, ENOENT,
					  "put brig on PATH, or use --backend native",
					  "the program brig, which backend 'bwrap' starts inside, "
					  "is not installed");
		if (r < 0)
			return r;
	}
	fd = open(full, O_PATH | O_CLOEXEC);
	return fd < 0 ? err_sys(e, "cannot open '%s'", full) : fd;
}
