/* SPDX-License-Identifier: Apache-2.0 */
#include "egress/credential/client_pem.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/files/fd.h"
#include "base/text/cleanup.h"
#include "base/text/str.h"
#include "egress/credential/cred.h"
#include "egress/rules/addr.h"
#include "egress/rules/host.h"

#define BEGIN "-----BEGIN "
#define END "-----END "
#define DASHES "-----"

/* One block: what it is called, and all of it with its first and last line. */
struct pem_block {
	const char *label;
	size_t label_len;
	const char *p;
	size_t n;
};

static bool next_block(const char **at, const char *end, struct pem_block *ret)
{
	const char *p = memmem(*at, (size_t)(end - *at), BEGIN, sizeof(BEGIN) - 1), *stop, *q;
	struct pem_block b = { .p = p };

	if (!p)
		return false;
	b.label = p + sizeof(BEGIN) - 1;
	q = memmem(b.label, (size_t)(end - b.label), DASHES, sizeof(DASHES) - 1);
	b.label_len = q ? (size_t)(q - b.label) : 0;
	if (!q || b.label_len > 40 || memchr(b.label, '\n', b.label_len))
		return false;
	stop = memmem(q, (size_t)(end - q), END, sizeof(END) - 1);
	if (!stop || memmem(q, (size_t)(stop - q), BEGIN, sizeof(BEGIN) - 1))
		return false; /* one inside another */
	q = stop + sizeof(END) - 1;
	if ((size_t)(end - q) < b.label_len + sizeof(DASHES) - 1 ||
	    memcmp(q, b.label, b.label_len) != 0 ||
	    memcmp(q + b.label_len, DASHES, sizeof(DASHES) - 1) != 0)
		return false;
	*at = q + b.label_len + sizeof(DASHES) - 1;
	b.n = (size_t)(*at - p);
	*ret = b;
	return true;
}

static bool label_ends(const struct pem_block *b, const char *with)
{
	size_t n = strlen(with);

	return b->label_len >= n && memcmp(b->label + b->label_len - n, with, n) == 0;
}

int client_pem_split(const char *text, size_t n, struct buf *certs, size_t *key, size_t *key_len,
		     struct err *e)
{
	const char *at = text, *end = text + n;
	struct pem_block b;

	*key_len = 0;
	while (next_block(&at, end, &b)) {
		if (b.label_len == 11 && label_ends(&b, "CERTIFICATE")) {
			buf_add(certs, b.p, b.n);
			buf_putc(certs, '\n');
		}
		if (!label_ends(&b, "PRIVATE KEY"))
			continue;
		if (memmem(b.p, b.n, "ENCRYPTED", 9))
			return err_refuse(e, ERR_CONFIG, EINVAL,
					  "openssl pkey -in FILE -out FILE takes it off",
					  "its key has a password");
		if (*key_len)
			return err_set(e, ERR_CONFIG, EINVAL, "it has two keys");
		*key = (size_t)(b.p - text);
		*key_len = b.n;
	}
	if (certs->failed)
		return err_nomem(e);
	if (certs->len && *key_len)
		return 0;
	return err_refuse(e, ERR_CONFIG, EINVAL,
			  "PEM: the certificate, those that lead to its root, and the key",
			  "it has no %s", *key_len ? "certificate" : "private key");
}

static const char *client_host(struct arena *a, const char *text, size_t n)
{
	char address[48];
	struct addr as;
	struct host h;

	if (host_parse(egress_text(text, n), &h) == HOST_OK)
		return arena_strdup(a, h.name);
	if (addr_parse(text, n, &as) < 0)
		return NULL;
	addr_text(&as, address);
	return arena_strdup(a, address);
}

int client_pem_parse(struct arena *a, const char *text, const char *home, struct client_pem *ret,
		     struct err *e)
{
	size_t n = strcspn(text, " ");
	const char *path = text + n + strspn(text + n, " ");
	struct client_pem p = { .host = client_host(a, text, n) };

	if (str_starts(path, "~/") && home)
		p.path = arena_printf(a, "%s%s", home, path + 1);
	else if (*path == '/')
		p.path = arena_strdup(a, path);
	if (!p.host || !p.path)
		return err_refuse(e, ERR_CONFIG, EINVAL,
				  "'api.example.org /etc/corp/me.pem', or '~/.secrets/me.pem'",
				  "egress.client_certs: '%.100s' is not a host and the path of a "
				  "file",
				  text);
	*ret = p;
	return 0;
}

static ssize_t read_file(const char *path, char *out, struct err *e)
{
	CLEANUP(fd) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	struct stat st;
	size_t n = 0;
	ssize_t r;

	if (fd < 0 || fstat(fd, &st) < 0)
		return err_sys(e, "cannot open it");
	if (!S_ISREG(st.st_mode))
		return err_set(e, ERR_CONFIG, EINVAL, "it is not a file");
	if (st.st_mode & (S_IWGRP | S_IWOTH)) {
		(void)err_set(e, ERR_POLICY, EPERM, "it can be written by others");
		return err_hint(e, "chmod 600 %.200s", path);
	}
	while ((r = read(fd, out + n, CLIENT_PEM_MAX - n)) > 0)
		n += (size_t)r;
	if (r < 0)
		return err_sys(e, "cannot read it");
	return n < CLIENT_PEM_MAX ? (ssize_t)n
				  : err_set(e, ERR_CONFIG, E2BIG, "it is longer than %d bytes",
					    CLIENT_PEM_MAX);
}

int client_pem_read(struct arena *a, struct client_pem *p, struct err *e)
{
	CLEANUP(buf) struct buf certs = BUF_INIT(2 * CLIENT_PEM_MAX);
	char *text = malloc(CLIENT_PEM_MAX);
	size_t key = 0;
	ssize_t n;
	int r;

	if (!text)
		return err_nomem(e);
	n = read_file(p->path, text, e);
	r = n < 0 ? (int)n : client_pem_split(text, (size_t)n, &certs, &key, &p->key_len, e);
	if (r == 0)
		r = cred_value_new(text + key, p->key_len, &p->key, e);
	explicit_bzero(text, CLIENT_PEM_MAX);
	free(text);
	if (r < 0)
		return err_wrap(e, "egress.client_certs: '%.200s'", p->path);
	p->certs = arena_strdup(a, buf_str(&certs));
	return p->certs ? 0 : err_nomem(e);
}
