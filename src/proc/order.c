/* SPDX-License-Identifier: Apache-2.0 */
#include "proc/order.h"

#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/fd.h"

#define MAGIC "brig-or1"
#define SEALS (F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL)

struct order_head {
	char magic[8];
	uint32_t argc, envc;
};

static uint32_t put_all(struct buf *b, const char *const *v)
{
	uint32_t n = 0;

	for (; v[n]; n++)
		buf_add(b, v[n], strlen(v[n]) + 1);
	return n;
}

int order_make(const struct order *o, int *ret, struct err *e)
{
	CLEANUP(buf) struct buf b = BUF_INIT(ORDER_MAX);
	CLEANUP(fd) int fd = -1;
	struct order_head h = { .magic = MAGIC };
	int r;

	buf_add(&b, &h, sizeof(h));
	buf_add(&b, o->path, strlen(o->path) + 1);
	buf_add(&b, o->cwd, strlen(o->cwd) + 1);
	h.argc = put_all(&b, o->argv);
	h.envc = put_all(&b, o->envp);
	if (b.failed)
		return err_set(e, ERR_USAGE, E2BIG, "the command and its variables are too long");
	memcpy(b.data, &h, sizeof(h));
	fd = memfd_create("brig-order", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	r = fd < 0 ? -errno : fd_write_all(fd, b.data, b.len);
	if (r == 0 && fcntl(fd, F_ADD_SEALS, SEALS) < 0)
		r = -errno;
	if (r < 0)
		return err_errno(e, r, "cannot write the command down");
	*ret = TAKE_FD(fd);
	return 0;
}

static bool head_of(const char *data, size_t n, struct order_head *h)
{
	if (n < sizeof(*h) || n > ORDER_MAX)
		return false;
	memcpy(h, data, sizeof(*h));
	/* Each text takes a byte at least. */
	return memcmp(h->magic, MAGIC, sizeof(h->magic)) == 0 && h->argc > 0 && h->argc <= n &&
	       h->envc <= n;
}

size_t order_words(const char *data, size_t n)
{
	struct order_head h;

	return head_of(data, n, &h) ? (size_t)h.argc + h.envc + 2 : 0;
}

static const char *next(const char **at, const char *end)
{
	const char *s = *at, *nul = s < end ? memchr(s, '\0', (size_t)(end - s)) : NULL;

	if (nul)
		*at = nul + 1;
	return nul ? s : NULL;
}

static bool take_all(const char **at, const char *end, const char **v, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (!(v[i] = next(at, end)))
			return false;
	v[n] = NULL;
	return true;
}

bool order_read(const char *data, size_t n, const char **words, struct order *ret)
{
	const char *at = data + sizeof(struct order_head), *end = data + n;
	const char **envp;
	struct order_head h;

	if (!head_of(data, n, &h))
		return false;
	envp = words + h.argc + 1;
	if (!(ret->path = next(&at, end)) || !(ret->cwd = next(&at, end)) ||
	    !take_all(&at, end, words, h.argc) || !take_all(&at, end, envp, h.envc) || at != end)
		return false;
	ret->argv = words;
	ret->envp = envp;
	return true;
}

bool order_map(int fd, const char **data, size_t *n)
{
	struct stat st;
	void *p;

	if (fcntl(fd, F_GET_SEALS) != SEALS || fstat(fd, &st) < 0 || st.st_size <= 0 ||
	    st.st_size > ORDER_MAX)
		return false;
	p = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	if (p == MAP_FAILED)
		return false;
	*data = p;
	*n = (size_t)st.st_size;
	return true;
}
