/* SPDX-License-Identifier: Apache-2.0 */
/* model/files/config_file.c - one file of settings, whatever dialect it is in. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "base/sys/clock.h"
#include "base/sys/wait.h"
#include "model/dialect/initrunner/initrunner.h"
#include "model/files/config.h"

#define PIPE_MS 10000

/* Of a pipe: is there more to read, or its end? Somebody must write to it, who may never come. */
static int config_file_wait_for(int fd, const char *name, struct err *e)
{
	int r = wait_fd(fd, POLLIN, clock_after(PIPE_MS));

	if (r < 0 && r != -ETIMEDOUT)
		return err_sys(e, "cannot read '%.200s'", name);
	return r == 0 ? 0
		      : err_refuse(e, ERR_CONFIG, ETIMEDOUT,
				   "name a file, or write to the pipe at once",
				   "nothing was written to the pipe '%.200s' for %d seconds", name,
				   PIPE_MS / 1000);
}

/* The whole of a regular file, or where that may be of a pipe, at most one byte more than is ever
 * taken. */
static int slurp(int fd, const char *name, bool pipe, struct buf *ret, struct stat *st,
		 struct err *e)
{
	char chunk[16384];
	ssize_t n;

	if (fstat(fd, st) < 0)
		return err_sys(e, "cannot read '%.200s'", name);
	if (!S_ISREG(st->st_mode) && !(pipe && S_ISFIFO(st->st_mode)))
		return err_refuse(e, ERR_CONFIG, EINVAL,
				  "name a file of settings, such as brig.yaml",
				  "'%.200s' is not a file", name);
	do {
		if (S_ISFIFO(st->st_mode) && config_file_wait_for(fd, name, e) < 0)
			return -e->code;
		n = read(fd, chunk, sizeof(chunk));
		if (n > 0)
			buf_add(ret, chunk, (size_t)n);
	} while ((n > 0 || (n < 0 && (errno == EAGAIN || errno == EINTR))) && !ret->failed);
	if (n < 0)
		return err_sys(e, "cannot read '%.200s'", name);
	if (ret->failed)
		return err_set(e, ERR_CONFIG, EFBIG, "'%.200s' is larger than 1 MiB", name);
	return 0;
}

int config_slurp_fd(int fd, const char *name, struct buf *ret, struct stat *st, struct err *e)
{
	return slurp(fd, name, false, ret, st, e);
}

int config_slurp(const char *path, struct buf *ret, struct stat *st, struct err *e)
{
	CLEANUP(fd) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);

	if (fd < 0) {
		(void)err_sys(e, "cannot open '%.200s'", path);
		e->kind = ERR_CONFIG;
		return err_hint(e, "name a file that is there and that you can read");
	}
	return slurp(fd, path, true, ret, st, e);
}

static int read_tree(struct spec *s, const struct source *src, enum dialect d,
		     const struct node *root, struct err *e)
{
	struct role role;

	if (stray_check(d, src, root, e) < 0)
		return -e->code;
	switch (d) {
	case DIALECT_BRIG:
		return brig_read(s, src, root, e);
	case DIALECT_INITRUNNER:
		return initrunner_read_role(s, src, src->cwd, root, &role, e);
	case DIALECT_RLM:
		return rlm_read(s, src, root, e);
	case DIALECT_AGENTS:
		return agents_read(s, src, root, e);
	default:
		return node_error(src->name, root, e, "not an env file of KEY=value lines");
	}
}

static int read_env_lines(struct spec *s, const struct source *src, const char *data, size_t n,
			  struct err *e)
{
	struct env_line *lines = NULL;
	size_t count = 0;

	if (env_file_parse(s->arena, src, data, n, &lines, &count, e) < 0)
		return -e->code;
	return ironclaw_read(s, src, lines, count, e);
}

int config_read_text(struct spec *s, const char *data, size_t n, enum dialect named,
		     const struct source *src, enum dialect *was, struct err *e)
{
	struct node *root;

	if (named == DIALECT_IRONCLAW || (named == DIALECT_COUNT && dialect_is_env(data, n))) {
		*was = DIALECT_IRONCLAW;
		return read_env_lines(s, src, data, n, e);
	}
	if (yaml_parse(s->arena, src->name, data, n, &root, e) < 0)
		return -e->code;
	if (named == DIALECT_COUNT && dialect_of_tree(src, root, &named, e) < 0)
		return -e->code;
	*was = named;
	return read_tree(s, src, named, root, e);
}

int config_read_sent(struct spec *s, const char *data, size_t n, struct err *e)
{
	const char *home = getenv("HOME");
	const struct source src = { .name = "the spec",
				    .folder = "/",
				    .cwd = "/",
				    .home = home && home[0] == '/' ? home : NULL,
				    .origin = ORIGIN_API,
				    .trusted = true };
	enum dialect was;

	return config_read_text(s, data, n, DIALECT_BRIG, &src, &was, e);
}

int config_read_file(struct spec *s, const char *path, enum dialect named, const struct source *src,
		     enum dialect *was, struct err *e)
{
	CLEANUP(buf) struct buf data = BUF_INIT(CONFIG_FILE_MAX);
	struct stat st;

	if (config_slurp(path, &data, &st, e) < 0)
		return -e->code;
	return config_read_text(s, buf_str(&data), data.len, named, src, was, e);
}
