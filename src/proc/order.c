/* SPDX-License-Identifier: Apache-2.0 */
#include "proc/order.h"

#include <fcntl.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "base/bytes/parcel.h"
#include "base/files/fd.h"
#include "base/text/buf.h"

#define MARK "brig-order 2"
#define SEALS (F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL)

static void fields_of(struct parcel *p, struct order *o)
{
	parcel_text(p, &o->path);
	parcel_text(p, &o->cwd);
	o->argv = parcel_texts(p, o->argv, NULL);
	o->envp = parcel_texts(p, o->envp, NULL);
}

static size_t length(const char *const *v)
{
	size_t n = 0;

	while (v[n])
		n++;
	return n;
}

int order_write(const struct order *o, struct buf *b, struct err *e)
{
	struct parcel p = parcel_to(b, MARK);
	uint64_t words = length(o->argv) + length(o->envp) + 2;
	struct order copy = *o;

	parcel_number(&p, &words);
	fields_of(&p, &copy);
	return b->failed
		       ? err_set(e, ERR_USAGE, E2BIG, "the command and its variables are too long")
		       : 0;
}

int order_seal(const struct buf *b, int *ret, struct err *e)
{
	CLEANUP(fd) int fd = memfd_create("brig-order", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	int r = fd < 0 ? -errno : fd_write_all(fd, b->data, b->len);

	if (r == 0 && fcntl(fd, F_ADD_SEALS, SEALS) < 0)
		r = -errno;
	if (r < 0)
		return err_errno(e, r, "cannot write the command down");
	*ret = TAKE_FD(fd);
	return 0;
}

int order_make(const struct order *o, int *ret, struct err *e)
{
	CLEANUP(buf) struct buf b = BUF_INIT(ORDER_MAX);

	return order_write(o, &b, e) < 0 ? -e->code : order_seal(&b, ret, e);
}

static size_t open_order(const char *data, size_t n, struct parcel *p)
{
	uint64_t words = 0;

	*p = parcel_from(data, n, MARK);
	parcel_number(p, &words);
	/* Each text takes a byte at least. */
	return p->failed || words < 3 || words > n || n > ORDER_MAX ? 0 : (size_t)words;
}

size_t order_words(const char *data, size_t n)
{
	struct parcel p;

	return open_order(data, n, &p);
}

bool order_read(const char *data, size_t n, const char **words, struct order *ret)
{
	struct parcel p;
	size_t left = open_order(data, n, &p);

	if (!left)
		return false;
	p.room = (char *)words;
	p.left = left * sizeof(*words);
	fields_of(&p, ret);
	return parcel_whole(&p) && !p.left && ret->argv[0];
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
