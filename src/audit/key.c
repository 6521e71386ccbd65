/* SPDX-License-Identifier: Apache-2.0 */
#include "audit/key.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/bytes/hex.h"
#include "base/text/cleanup.h"
#include "base/sys/clock.h"
#include "base/files/fd.h"
#include "base/bytes/random.h"

#define KEY_FILE "key"
#define KEY_VARIABLE "BRIG_AUDIT_KEY"

void key_init(struct audit_key *k, const unsigned char raw[KEY_SIZE])
{
	static const char what[] = "brig audit: name of the record";
	unsigned char digest[SHA256_SIZE];
	char hex[SHA256_HEX];

	hmac_key_init(&k->mac, raw, KEY_SIZE);
	hmac_sha256(&k->mac, what, sizeof(what) - 1, digest);
	sha256_hex(digest, hex);
	memcpy(k->id, hex, KEY_ID_SIZE - 1);
	k->id[KEY_ID_SIZE - 1] = '\0';
}

static int from_text(const char *text, size_t n, const char *where, struct audit_key *k,
		     struct err *e)
{
	unsigned char raw[KEY_SIZE];

	if (n != 2 * KEY_SIZE || hex_decode(text, raw, KEY_SIZE) < 0)
		return err_set(e, ERR_UNAVAILABLE, EINVAL,
			       "the key of the record in '%s' is not 64 hex digits", where);
	key_init(k, raw);
	explicit_bzero(raw, sizeof(raw));
	return 0;
}

static int from_file(int dirfd, struct audit_key *k, struct err *e)
{
	CLEANUP(fd) int fd = openat(dirfd, KEY_FILE, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY);
	char text[2 * KEY_SIZE + 2];
	struct stat st;
	ssize_t n;

	if (fd < 0) {
		(void)err_sys(e, "cannot open the key of the record");
		return -e->code;
	}
	if (fstat(fd, &st) < 0)
		return err_sys(e, "cannot look at the key of the record");
	if (!S_ISREG(st.st_mode) || (st.st_mode & 077))
		return err_refuse(e, ERR_UNAVAILABLE, EPERM,
				  "chmod 600 its file 'key', if nobody had the chance to read it",
				  "the key of the record can be read by others");
	n = read(fd, text, sizeof(text));
	if (n == 2 * KEY_SIZE + 1 && text[2 * KEY_SIZE] == '\n')
		n--;
	return from_text(text, n < 0 ? 0 : (size_t)n, KEY_FILE, k, e);
}

int key_load(int dirfd, struct audit_key *k, struct err *e)
{
	const char *text = getenv(KEY_VARIABLE);

	if (text)
		return from_text(text, strlen(text), KEY_VARIABLE, k, e);
	return from_file(dirfd, k, e);
}

/* Written whole under another name and linked: nobody ever sees half a key. */
static int make_file(int dirfd, struct err *e)
{
	unsigned char raw[KEY_SIZE];
	char text[2 * KEY_SIZE + 1], name[48];
	CLEANUP(fd) int fd = -1;
	int r;

	if (random_fill(raw, sizeof(raw), e) < 0)
		return -e->code;
	hex_encode(raw, KEY_SIZE, text);
	text[2 * KEY_SIZE] = '\n';
	(void)snprintf(name, sizeof(name), ".key-%d-%llx", (int)getpid(),
		       (unsigned long long)clock_us());
	fd = openat(dirfd, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	r = fd < 0 ? -errno : fd_write_all(fd, text, sizeof(text));
	if (r == 0 &&
	    (fsync(fd) < 0 || (linkat(dirfd, name, dirfd, KEY_FILE, 0) < 0 && errno != EEXIST)))
		r = -errno;
	if (fd >= 0)
		(void)unlinkat(dirfd, name, 0);
	explicit_bzero(raw, sizeof(raw));
	explicit_bzero(text, sizeof(text));
	return r < 0 ? err_errno(e, r, "cannot make the key of the record") : 0;
}

int key_make(int dirfd, struct audit_key *k, struct err *e)
{
	int r = key_load(dirfd, k, e);

	if (r != -ENOENT)
		return r;
	err_clear(e);
	return make_file(dirfd, e) < 0 ? -e->code : key_load(dirfd, k, e);
}

void key_fingerprint(const struct audit_key *k, const char *secret, size_t n,
		     char out[FINGERPRINT_SIZE])
{
	static const char what[] = "brig audit: fingerprint\n";
	unsigned char digest[SHA256_SIZE];
	char hex[SHA256_HEX];
	struct hmac h;

	hmac_begin(&h, &k->mac);
	hmac_add(&h, what, sizeof(what) - 1);
	hmac_add(&h, secret, n);
	hmac_end(&h, digest);
	sha256_hex(digest, hex);
	memcpy(out, hex, FINGERPRINT_SIZE - 1);
	out[FINGERPRINT_SIZE - 1] = '\0';
}
