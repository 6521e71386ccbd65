/* SPDX-License-Identifier: Apache-2.0 */
#include "bundle/ssh_sign.h"

#include <fcntl.h>
#include <limits.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "base/base64.h"
#include "base/fd.h"
#include "base/sha256.h"
#include "base/str.h"
#include "proc/exec.h"

#define KEY_MAX ((size_t)16 << 10)
#define WORDS " \t\r\n"

static int run_keygen(const char *const *argv, const char *const *env, int in, const int *keep,
		      size_t n, struct err *e)
{
	int status = 0;
	pid_t pid;

	if (!getpwuid(geteuid()))
		return err_refuse(
			e, ERR_UNAVAILABLE, ENOENT, "a line in /etc/passwd for it will do",
			"ssh-keygen works for no user without a name, and uid %u has none",
			(unsigned)geteuid());
	pid = fork();
	if (pid < 0)
		return err_sys(e, "cannot start ssh-keygen");
	if (pid == 0) {
		for (size_t i = 0; i < n; i++)
			(void)fcntl(keep[i], F_SETFD, 0);
		if (in >= 0) {
			int null = open("/dev/null", O_WRONLY | O_CLOEXEC);

			if (null < 0 || dup2(in, 0) < 0 || dup2(null, 1) < 0 || dup2(null, 2) < 0)
				_exit(127);
		} else if (dup2(2, 1) < 0) {
			_exit(127);
		}
		(void)proc_exec(argv, env, "/usr/bin:/bin:/usr/local/bin");
		_exit(127);
	}
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (WIFEXITED(status) && WEXITSTATUS(status) == 127)
		return err_refuse(e, ERR_UNAVAILABLE, ENOENT, "apt install openssh-client",
				  "ssh-keygen is not here");
	return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : 1;
}

int sign_make(const char *file, const char *key, struct err *e)
{
	const char *const argv[] = { "ssh-keygen", "-q", "-Y", "sign", "-n", SIGN_NAMESPACE,
				     "-f",         key,  "--", file,   NULL };
	char path[PATH_MAX];
	int r;

	if (snprintf(path, sizeof(path), "%s.sig", file) >= (int)sizeof(path))
		return err_set(e, ERR_USAGE, ENAMETOOLONG, "'%.100s...' is too long", file);
	if (unlink(path) < 0 && errno != ENOENT)
		return err_sys(e, "cannot replace '%.200s'", path);
	r = run_keygen(argv, (const char *const *)environ, -1, NULL, 0, e);
	return r > 0 ? err_refuse(e, ERR_CONFIG, EINVAL,
				  "KEY is the file of a private key, or of a public one whose "
				  "private half your agent has",
				  "ssh-keygen did not sign '%.200s' with '%.200s'", file, key)
		     : r;
}

/* ---- verifying ---- */

static int no_key(const char *file, struct err *e)
{
	return err_refuse(e, ERR_CONFIG, EINVAL, "the .pub file of the signer's key, one line",
			  "'%.200s' is not one public key", file);
}

/* "TYPE BASE64", and nothing that would mean more in a list of signers. */
static int read_key(const char *file, char type[64], char *blob, size_t room, struct err *e)
{
	static const char plain[] =
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789@.-+/=";
	CLEANUP(mem) char *text = malloc(KEY_MAX);
	ssize_t n = text ? fd_read_file(AT_FDCWD, file, text, KEY_MAX) : -ENOMEM;
	char *at, *word, *rest;

	if (n < 0)
		return err_errno(e, (int)n, "cannot read '%.200s'", file);
	at = text;
	word = strtok_r(at, WORDS, &rest);
	if (!word || strspn(word, plain) != strlen(word) || strlen(word) >= 64)
		return no_key(file, e);
	(void)snprintf(type, 64, "%s", word);
	word = strtok_r(NULL, WORDS, &rest);
	if (!word || !str_starts(word, "AAAA") || strspn(word, plain) != strlen(word) ||
	    snprintf(blob, room, "%s", word) >= (int)room)
		return no_key(file, e);
	/* A comment may follow; a second key may not. */
	while ((word = strtok_r(NULL, WORDS, &rest)))
		if (str_starts(word, "AAAA"))
			return no_key(file, e);
	return 0;
}

static void fingerprint(const char *blob, char *out, size_t n)
{
	CLEANUP(buf) struct buf text = BUF_INIT(128);
	unsigned char sum[SHA256_SIZE];
	char raw[KEY_MAX];
	struct sha256 h;
	ssize_t len = base64_read(blob, strlen(blob), raw, sizeof(raw));

	sha256_init(&h);
	sha256_add(&h, raw, len > 0 ? (size_t)len : 0);
	sha256_end(&h, sum);
	base64_put(&text, sum, sizeof(sum));
	(void)snprintf(out, n, "SHA256:%.43s", buf_str(&text));
}

static int list_of_signers(const char *type, const char *blob, struct err *e)
{
	CLEANUP(fd) int fd = memfd_create("brig-signers", MFD_CLOEXEC);
	CLEANUP(buf) struct buf line = BUF_INIT(KEY_MAX + 256);

	buf_printf(&line, "brig namespaces=\"" SIGN_NAMESPACE "\" %s %s\n", type, blob);
	if (fd < 0 || line.failed || fd_write_all(fd, line.data, line.len) < 0)
		return err_sys(e, "no memory for the signer's key");
	return TAKE_FD(fd);
}

int sign_verify(int archive, int signature, const char *key_file, char *signer, size_t n,
		struct err *e)
{
	static const char *const env[] = { "PATH=/usr/bin:/bin", "LC_ALL=C", NULL };
	char type[64], blob[KEY_MAX], keys[64], sig[64];
	const char *const argv[] = { "ssh-keygen", "-Y", "verify",       "-f", keys, "-I",
				     "brig",       "-n", SIGN_NAMESPACE, "-s", sig,  NULL };
	CLEANUP(fd) int list = -1;
	int keep[2], r;

	if (signature < 0)
		return err_refuse(e, ERR_POLICY, ENOENT,
				  "its packer signs it: brig bundle pack --sign KEY, or ssh-keygen "
				  "-Y sign -n " SIGN_NAMESPACE " -f KEY FILE",
				  "the bundle has no signature");
	if (read_key(key_file, type, blob, sizeof(blob), e) < 0)
		return -e->code;
	list = list_of_signers(type, blob, e);
	if (list < 0)
		return list;
	(void)snprintf(keys, sizeof(keys), "/proc/self/fd/%d", list);
	(void)snprintf(sig, sizeof(sig), "/proc/self/fd/%d", signature);
	keep[0] = list;
	keep[1] = signature;
	if (lseek(archive, 0, SEEK_SET) < 0)
		return err_sys(e, "cannot read the bundle");
	r = run_keygen(argv, env, archive, keep, ARRAY_LEN(keep), e);
	if (r > 0)
		return err_refuse(e, ERR_POLICY, EKEYREJECTED,
				  "somebody else signed it, or it was changed since",
				  "the bundle's signature is not one by the key in '%.150s'",
				  key_file);
	if (r == 0)
		fingerprint(blob, signer, n);
	return r;
}
