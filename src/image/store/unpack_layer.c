/* SPDX-License-Identifier: Apache-2.0 */
/* image/store/unpack_layer.c - see unpack_layer.h.
 *
 *   parent: reads, sums -> pipe -> brig-unpack: inflates, reads tar, makes files
 *           <- line: a struct err, then a struct answer <-
 */
#include "image/store/unpack_layer.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/files/fd.h"
#include "base/sys/signals.h"
#include "image/store/inflate.h"
#include "proc/confine.h"
#include "proc/forked.h"

#define PIPE_BYTES (1 << 20)

struct layer_job {
	int pipe[2], tree;
};

struct layer_answer {
	struct unpack_tally tally;
	char diff[SHA256_HEX];
};

/* ---- in brig-unpack ---- */

static ssize_t layer_from_pipe(void *arg, void *p, size_t n)
{
	const struct layer_job *j = arg;
	ssize_t got;

	do
		got = read(j->pipe[0], p, n);
	while (got < 0 && errno == EINTR);
	return got < 0 ? -errno : got;
}

static ssize_t layer_inflated(void *arg, void *p, size_t n)
{
	return inflate_read(arg, p, n);
}

/* What fills the archive up counts for its sum. */
static int layer_rest(struct inflate *z, struct err *e)
{
	char dust[65536];
	ssize_t n;

	while ((n = inflate_read(z, dust, sizeof(dust))) > 0)
		;
	return n < 0 ? err_set(e, ERR_POLICY, EBADMSG,
			       "the layer is refused: its compressed data is damaged, or something "
			       "is behind it")
		     : 0;
}

static int layer_job_run(void *arg, int line)
{
	static const struct layer_tar_limits limits = { .bytes = LAYER_TAR_BYTES,
							.names = LAYER_TAR_NAMES };
	struct layer_job *j = arg;
	const struct confine_want rest = { .folder = j->tree, .bytes = LAYER_TAR_BYTES };
	const int keep[] = { j->pipe[0], j->tree, line };
	struct layer_answer answer = { .diff = "" };
	struct inflate *z = inflate_new(layer_from_pipe, j, LAYER_TAR_BYTES * 2);
	struct err e = { 0 };

	(void)umask(0);
	if (!z)
		(void)err_nomem(&e);
	else if (fd_close_except(3, keep, ARRAY_LEN(keep)) < 0)
		(void)err_set(&e, ERR_INTERNAL, EIO, "cannot close descriptors");
	else if (confine(CONFINE_LAYERER, &rest, &e) == 0 &&
		 layer_tar_unpack(j->tree, &limits, layer_inflated, z, &answer.tally, &e) == 0 &&
		 layer_rest(z, &e) == 0)
		inflate_sum(z, answer.diff);
	if (forked_tell(line, &e) == 0 && !e.code)
		(void)fd_write_all(line, &answer, sizeof(answer));
	return 0;
}

/* ---- in the parent ---- */

/* 0, or an error of its own: that the other one reads no further is for it to explain. */
static int layer_feed(int blob, int to, uint64_t most, struct layer_unpacked *ret, struct err *e)
{
	unsigned char sum[SHA256_SIZE];
	char piece[65536], hex[SHA256_HEX];
	bool heard = true;
	struct sha256 h;
	off_t at = 0;
	ssize_t n;

	sha256_init(&h);
	while ((n = pread(blob, piece, sizeof(piece), at)) > 0) {
		at += n;
		if ((uint64_t)at > most)
			return err_set(e, ERR_POLICY, EFBIG,
				       "the layer is refused: more than %llu bytes are sent",
				       (unsigned long long)most);
		sha256_add(&h, piece, (size_t)n);
		heard = heard && fd_write_all(to, piece, (size_t)n) == 0;
	}
	if (n < 0)
		return err_sys(e, "cannot read the layer");
	sha256_end(&h, sum);
	sha256_hex(sum, hex);
	(void)snprintf(ret->sent, sizeof(ret->sent), "sha256:%s", hex);
	ret->sent_bytes = (uint64_t)at;
	return 0;
}

static int layer_hear(int line, struct layer_unpacked *ret, struct err *said)
{
	struct layer_answer a;
	int r = forked_hear(line, said);

	if (r < 0 || said->code)
		return r;
	r = fd_read_all(line, &a, sizeof(a));
	if (r < 0)
		return r;
	a.diff[sizeof(a.diff) - 1] = '\0';
	(void)snprintf(ret->diff, sizeof(ret->diff), "sha256:%.64s", a.diff);
	ret->tally = a.tally;
	return ref_is_digest(ret->diff) ? 0 : -EPROTO;
}

int layer_unpack(int blob, int tree, uint64_t most, struct layer_unpacked *ret, struct err *e)
{
	struct layer_job j = { .pipe = { -1, -1 }, .tree = tree };
	const struct forked_want w = { .name = "brig-unpack",
				       .what = "the process that unpacks",
				       .line = FORKED_BYTES,
				       .run = layer_job_run,
				       .arg = &j };
	CLEANUP(fd) int line = -1;
	struct layer_unpacked u = { .sent_bytes = 0 };
	struct err said = { 0 };
	int status, fed, r;
	pid_t pid;

	signals_ignore_pipe();
	if (pipe2(j.pipe, O_CLOEXEC) < 0)
		return err_sys(e, "cannot make a pipe");
	(void)fcntl(j.pipe[1], F_SETPIPE_SZ, PIPE_BYTES);
	pid = forked_start(&w, &line, e);
	(void)fd_close(j.pipe[0]);
	fed = pid < 0 ? (int)pid : layer_feed(blob, j.pipe[1], most, &u, e);
	(void)fd_close(j.pipe[1]);
	if (pid < 0)
		return fed;
	r = layer_hear(line, &u, &said);
	if (r < 0)
		(void)kill(pid, SIGKILL);
	status = forked_wait(pid);
	if (fed < 0)
		return fed;
	if (r < 0 || !WIFEXITED(status) || WEXITSTATUS(status))
		return err_set(e, ERR_POLICY, EPROTO,
			       "the layer is refused: it ended the process that read it");
	if (said.code) {
		*e = said;
		return -e->code;
	}
	*ret = u;
	return 0;
}
