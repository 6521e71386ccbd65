/* SPDX-License-Identifier: Apache-2.0 */
/* apps/bundle/sealed.c - archives and signatures in memory files that nobody can change any more.
 */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "apps/bundle/fetch.h"
#include "base/bytes/sha256.h"
#include "base/files/fd.h"

#define PIECE 65536
#define SEALS (F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL)

void sealed_done(struct sealed *c)
{
	c->archive = fd_close(c->archive);
	c->signature = fd_close(c->signature);
}

int sealed_make(int from, uint64_t most, const char *name, int *ret, struct err *e)
{
	CLEANUP(fd) int fd = memfd_create("brig-bundle", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	char piece[PIECE];
	uint64_t have = 0;
	ssize_t n;

	if (fd < 0)
		return err_sys(e, "no memory file for '%.150s'", name);
	while ((n = read(from, piece, sizeof(piece))) > 0 || (n < 0 && errno == EINTR)) {
		have += n > 0 ? (uint64_t)n : 0;
		if (have > most)
			return err_set(e, ERR_POLICY, EFBIG, "'%.150s' is larger than %llu bytes",
				       name, (unsigned long long)most);
		if (n > 0 && fd_write_all(fd, piece, (size_t)n) < 0)
			return err_set(e, ERR_INTERNAL, ENOMEM, "no memory for '%.150s'", name);
	}
	if (n < 0)
		return err_sys(e, "cannot read '%.150s'", name);
	if (fcntl(fd, F_ADD_SEALS, SEALS) < 0)
		return err_sys(e, "cannot seal '%.150s'", name);
	*ret = TAKE_FD(fd);
	return 0;
}

int sealed_digest(int fd, char out[REF_DIGEST_MAX], uint64_t *size, struct err *e)
{
	unsigned char sum[SHA256_SIZE];
	char piece[PIECE], hex[SHA256_HEX];
	struct sha256 h;
	off_t at = 0;
	ssize_t n;

	sha256_init(&h);
	while ((n = pread(fd, piece, sizeof(piece), at)) > 0) {
		sha256_add(&h, piece, (size_t)n);
		at += n;
	}
	if (n < 0)
		return err_sys(e, "cannot read the bundle");
	sha256_end(&h, sum);
	sha256_hex(sum, hex);
	(void)snprintf(out, REF_DIGEST_MAX, "sha256:%s", hex);
	*size = (uint64_t)at;
	return 0;
}
