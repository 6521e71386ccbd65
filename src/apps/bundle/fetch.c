/* SPDX-License-Identifier: Apache-2.0 */
/* apps/bundle/fetch.c - see fetch.h.
 *
 *   parent: login read, memory files made -> fork -> ... waits -> hashes and compares
 *   brig-registry: roots read -> confined -> requests -> tells a struct err -> ends
 */
#include "apps/bundle/fetch.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "apps/bundle/archive.h"
#include "apps/bundle/ssh_sign.h"
#include "base/bytes/sha256.h"
#include "base/files/fd.h"
#include "base/sys/clock.h"
#include "base/sys/signals.h"
#include "base/text/str.h"
#include "image/registry.h"
#include "proc/forked.h"
#include "proc/confine.h"

#define STEP_US 100000

struct fetching {
	const struct fetch_want *want;
	struct login login;
	bool logged_in;
	struct oci_manifest *oci; /* of a push */
	int manifest, archive, signature;
	uint64_t shown; /* when progress was last */
};

/* ---- in brig-registry ---- */

/* Numbers alone: no word of the registry's gets on the terminal. */
static void fetch_show(void *arg, uint64_t done, uint64_t of)
{
	struct fetching *x = arg;
	uint64_t now = clock_us();
	char line[96];
	int n;

	if (done != of && now - x->shown < STEP_US)
		return;
	x->shown = now;
	n = snprintf(line, sizeof(line), "\r\033[K%llu of %llu KiB",
		     (unsigned long long)(done >> 10), (unsigned long long)(of >> 10));
	(void)fd_write_all(2, line, (size_t)n);
}

static int bounded(const struct oci_blob *b, uint64_t most, struct err *e)
{
	return b->size <= most ? 0
			       : err_set(e, ERR_POLICY, EFBIG,
					 "the registry's bundle is larger than %llu bytes",
					 (unsigned long long)most);
}

static int pull(struct fetching *x, struct registry *r, struct err *e)
{
	CLEANUP(buf) struct buf text = BUF_INIT(OCI_MANIFEST_MAX);
	CLEANUP(mem) struct oci_manifest *m = malloc(sizeof(*m));
	const struct oci_blob *b;

	if (!m)
		return err_nomem(e);
	if (registry_manifest(r, &text, e) < 0 || oci_read(buf_str(&text), text.len, m, e) < 0)
		return -e->code;
	if (fd_write_all(x->manifest, buf_str(&text), text.len) < 0)
		return err_nomem(e);
	b = oci_layer(m, BUNDLE_LAYER);
	if (!b)
		return err_refuse(e, ERR_POLICY, EBADMSG, "is it the reference of a bundle?",
				  "what the registry has there is no bundle");
	if (bounded(b, ARCHIVE_MAX, e) < 0 || registry_blob(r, b, x->archive, e) < 0)
		return -e->code;
	b = oci_layer(m, BUNDLE_SIGNATURE);
	if (!b)
		return 0;
	return bounded(b, SIGN_MAX, e) < 0 ? -e->code : registry_blob(r, b, x->signature, e);
}

static int push(struct fetching *x, struct registry *r, struct err *e)
{
	CLEANUP(buf) struct buf text = BUF_INIT(OCI_MANIFEST_MAX);
	const int from[] = { x->archive, x->signature };

	if (registry_put_blob(r, &x->oci->config, x->manifest, e) < 0)
		return -e->code;
	for (size_t i = 0; i < x->oci->n && i < ARRAY_LEN(from); i++)
		if (registry_put_blob(r, &x->oci->layers[i], from[i], e) < 0)
			return -e->code;
	oci_write(x->oci, &text);
	return registry_put_manifest(r, buf_str(&text), text.len, e);
}

static int registry_main(void *arg, int line)
{
	struct fetching *x = arg;
	const struct fetch_want *w = x->want;
	const int keep[] = { x->manifest, x->archive, x->signature, line };
	const struct registry_want want = { .ref = &w->ref,
					    .login = x->logged_in ? &x->login : NULL,
					    .plain = w->plain,
					    .deadline = clock_us() + w->timeout_ms * 1000,
					    .progress = w->progress ? fetch_show : NULL,
					    .arg = x };
	CLEANUP(registry) struct registry *r = NULL;
	const struct confine_want rest = { .bytes = ARCHIVE_MAX };
	struct err e = { 0 };

	signals_ignore_pipe();
	/* A little later than the deadline, which says more. */
	signals_kill_after(w->timeout_ms + 1000);
	if (fd_close_except(3, keep, ARRAY_LEN(keep)) < 0)
		(void)err_set(&e, ERR_INTERNAL, EIO, "cannot close descriptors");
	else if (registry_open(&want, &r, &e) == 0 && confine(CONFINE_REGISTRY, &rest, &e) == 0)
		(void)(x->oci ? push : pull)(x, r, &e);
	(void)forked_tell(line, &e);
	return 0;
}

/* ---- in the parent ---- */

static int slow(const struct fetch_want *w, struct err *e)
{
	return err_refuse(e, ERR_UNAVAILABLE, ETIMEDOUT, "--timeout DURATION waits longer",
			  "registry '%.150s' took too long", w->ref.host);
}

static int fetch_do(struct fetching *x, struct err *e)
{
	const struct forked_want w = { .name = "brig-registry",
				       .what = "the process that asks the registry",
				       .line = FORKED_BYTES,
				       .run = registry_main,
				       .arg = x };
	CLEANUP(fd) int line = -1;
	struct err said = { 0 };
	pid_t pid;
	int r = login_find(x->want->ref.host, true, &x->login, e);

	if (r < 0)
		return r;
	x->logged_in = r == 0;
	pid = forked_start(&w, &line, e);
	explicit_bzero(&x->login, sizeof(x->login));
	if (pid < 0)
		return (int)pid;
	r = forked_hear(line, &said);
	if (x->want->progress)
		(void)fd_write_all(2, "\r\033[K", 4);
	(void)forked_wait(pid);
	if (r == -EPROTO)
		return err_set(e, ERR_POLICY, EPROTO, "brig-registry makes no sense");
	if (r < 0 || said.code == ETIMEDOUT || said.code == EAGAIN)
		return slow(x->want, e);
	if (said.code)
		*e = said;
	return -said.code;
}

static int memory(struct err *e)
{
	int fd = memfd_create("brig-bundle", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	return fd < 0 ? err_sys(e, "no memory file") : fd;
}

static int seal(int fd, struct err *e)
{
	return fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK) < 0
		       ? err_sys(e, "cannot seal what was fetched")
		       : 0;
}

static int fetch_compare(int fd, const struct oci_blob *b, struct err *e)
{
	char digest[REF_DIGEST_MAX];
	uint64_t size;

	if (seal(fd, e) < 0 || sealed_digest(fd, digest, &size, e) < 0)
		return -e->code;
	return str_eq(digest, b->digest) && size == b->size
		       ? 0
		       : err_set(e, ERR_POLICY, EBADMSG,
				 "the registry sends other bytes than its manifest says");
}

static int check_manifest(const struct fetching *x, struct oci_manifest *m, struct sealed *c,
			  struct err *e)
{
	const struct ref *ref = &x->want->ref;
	CLEANUP(mem) char *text = malloc(OCI_MANIFEST_MAX + 1);
	uint64_t size;
	ssize_t n;

	if (!text)
		return err_nomem(e);
	if (seal(x->manifest, e) < 0 || sealed_digest(x->manifest, c->reference, &size, e) < 0)
		return -e->code;
	if (ref->digest[0] && !str_eq(ref->digest, c->reference))
		return err_set(e, ERR_POLICY, EBADMSG,
			       "the registry sends %.80s for the digest that was asked for",
			       c->reference);
	n = pread(x->manifest, text, OCI_MANIFEST_MAX, 0);
	if (n < 0)
		return err_sys(e, "cannot read the registry's manifest");
	return oci_read(text, (size_t)n, m, e);
}

static int check_all(struct fetching *x, struct sealed *c, struct err *e)
{
	CLEANUP(mem) struct oci_manifest *m = malloc(sizeof(*m));
	const struct oci_blob *archive, *signature;

	if (!m)
		return err_nomem(e);
	if (check_manifest(x, m, c, e) < 0)
		return -e->code;
	archive = oci_layer(m, BUNDLE_LAYER);
	signature = oci_layer(m, BUNDLE_SIGNATURE);
	if (!archive)
		return err_set(e, ERR_POLICY, EBADMSG, "what the registry has there is no bundle");
	if (fetch_compare(x->archive, archive, e) < 0 ||
	    (signature && fetch_compare(x->signature, signature, e) < 0))
		return -e->code;
	c->archive = TAKE_FD(x->archive);
	if (signature)
		c->signature = TAKE_FD(x->signature);
	return 0;
}

static void fetch_done(struct fetching *x)
{
	(void)fd_close(x->manifest);
	(void)fd_close(x->archive);
	(void)fd_close(x->signature);
}

int fetch_pull(const struct fetch_want *w, struct sealed *ret, struct err *e)
{
	struct fetching x = { .want = w, .manifest = memory(e), .archive = -1, .signature = -1 };
	int r = x.manifest < 0 || (x.archive = memory(e)) < 0 || (x.signature = memory(e)) < 0
			? -e->code
			: fetch_do(&x, e);

	if (r == 0)
		r = check_all(&x, ret, e);
	fetch_done(&x);
	return r;
}

static int fetch_describe(int fd, const char *type, struct oci_blob *b, struct err *e)
{
	(void)snprintf(b->type, sizeof(b->type), "%s", type);
	return sealed_digest(fd, b->digest, &b->size, e);
}

int fetch_push(const struct fetch_want *w, struct sealed *c, struct err *e)
{
	CLEANUP(mem) struct oci_manifest *m = calloc(1, sizeof(*m));
	CLEANUP(buf) struct buf text = BUF_INIT(OCI_MANIFEST_MAX);
	CLEANUP(fd) int empty = memory(e);
	struct fetching x = { .want = w,
			      .oci = m,
			      .manifest = empty,
			      .archive = c->archive,
			      .signature = c->signature };
	char hex[SHA256_HEX];

	if (!m || empty < 0 || fd_write_all(empty, OCI_EMPTY, strlen(OCI_EMPTY)) < 0)
		return err_nomem(e);
	(void)snprintf(m->artifact, sizeof(m->artifact), BUNDLE_ARTIFACT);
	if (fetch_describe(empty, OCI_EMPTY_TYPE, &m->config, e) < 0 ||
	    fetch_describe(c->archive, BUNDLE_LAYER, &m->layers[m->n++], e) < 0 ||
	    (c->signature >= 0 &&
	     fetch_describe(c->signature, BUNDLE_SIGNATURE, &m->layers[m->n++], e) < 0) ||
	    fetch_do(&x, e) < 0)
		return -e->code;
	oci_write(m, &text);
	sha256_of(buf_str(&text), text.len, hex);
	(void)snprintf(c->reference, sizeof(c->reference), "sha256:%s", hex);
	return 0;
}
