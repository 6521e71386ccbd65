/* SPDX-License-Identifier: Apache-2.0 */
#include "apps/bundle/ssh_sign.h"

#include <fcntl.h>
#include <limits.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "base/bytes/base64.h"
#include "base/bytes/random.h"
#include "base/bytes/sha256.h"
#include "base/files/exposed.h"
#include "base/files/fd.h"
#include "base/files/state.h"
#include "base/files/tree.h"
#include "base/text/str.h"
#include "proc/host_find.h"
#include "proc/host_program.h"
#include "proc/spawn.h"

#define KEY_MAX ((size_t)16 << 10)
#define WORDS " \t\r\n"
#define COPY "bundle" /* of what is to be signed */
#define VARIABLES_MAX ((size_t)4 << 20)

#define SEARCHED "/usr/bin:/bin:/usr/local/bin"

/* `fds` are 3, 4, ... there. 1: it says no. */
static int run_keygen(const char *const *argv, const char *const *env, const int *streams,
		      const int *fds, size_t n, struct err *e)
{
	char program[PATH_MAX];
	const struct host_program h = { .program = program,
					.argv = argv,
					.envp = env,
					.streams = streams,
					.fds = fds,
					.fd_count = n };
	int status, r;
	pid_t pid;

	if (!getpwuid(geteuid()))
		return err_refuse(
			e, ERR_UNAVAILABLE, ENOENT, "a line in /etc/passwd for it will do",
			"ssh-keygen works for no user without a name, and uid %u has none",
			(unsigned)geteuid());
	r = host_find("ssh-keygen", SEARCHED, NULL, program, e);
	if (r == -ENOENT)
		return err_refuse(e, ERR_UNAVAILABLE, ENOENT, "apt install openssh-client",
				  "ssh-keygen is not here");
	if (r < 0 || host_start(&h, &pid, NULL, e) < 0)
		return -e->code;
	status = proc_wait(pid);
	return status >= 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : 1;
}

/* What signs asks for a passphrase, or an agent that has the key. */
static const char *const signer_names[] = { "HOME",        "USER",
					    "LOGNAME",     "PATH",
					    "TERM",        "LANG",
					    "LC_*",        "SSH_AUTH_SOCK",
					    "SSH_ASKPASS", "SSH_ASKPASS_REQUIRE",
					    "DISPLAY",     "WAYLAND_DISPLAY",
					    "XAUTHORITY",  "XDG_RUNTIME_DIR",
					    NULL };

static int copy_archive(int archive, int folder, struct err *e)
{
	CLEANUP(fd)
	int to = openat(folder, COPY, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	char piece[65536];
	off_t at = 0;
	ssize_t n = 0;
	int r = to < 0 ? -errno : 0;

	while (r == 0 && (n = pread(archive, piece, sizeof(piece), at)) > 0) {
		r = fd_write_all(to, piece, (size_t)n);
		at += n;
	}
	return r < 0 || n < 0 ? err_errno(e, r < 0 ? r : -EIO, "cannot keep what is to be signed")
			      : 0;
}

static int keygen_sign(const char *folder, const char *key, struct err *e)
{
	CLEANUP(arena) struct arena *a = arena_new(VARIABLES_MAX);
	char copy[PATH_MAX + 64];
	const char *const argv[] = { "ssh-keygen", "-q", "-Y", "sign", "-n", SIGN_NAMESPACE,
				     "-f",         key,  "--", copy,   NULL };
	const char *const *env;
	int r;

	if (!a)
		return err_nomem(e);
	(void)snprintf(copy, sizeof(copy), "%s/" COPY, folder);
	if (host_environment(a, signer_names, environ, NULL, &env, e) < 0)
		return -e->code;
	r = run_keygen(argv, env, (const int[]){ 0, 2, 2 }, NULL, 0, e);
	return r > 0 ? err_refuse(e, ERR_CONFIG, EINVAL,
				  "KEY is the file of a private key, or of a public one whose "
				  "private half your agent has",
				  "ssh-keygen did not sign the bundle with '%.200s'", key)
		     : r;
}

static int take_signature(int folder, int *ret, struct err *e)
{
	CLEANUP(fd) int to = memfd_create("brig-signature", MFD_CLOEXEC);
	char text[SIGN_MAX];
	ssize_t n = fd_read_file(folder, COPY ".sig", text, sizeof(text));

	if (n < 0)
		return err_errno(e, (int)n, "cannot read what ssh-keygen has signed");
	if (to < 0 || fd_write_all(to, text, (size_t)n) < 0)
		return err_sys(e, "no memory for the signature");
	*ret = TAKE_FD(to);
	return 0;
}

int sign_make(int archive, const char *key, int *ret, struct err *e)
{
	CLEANUP(mem) char *real = realpath(key, NULL);
	char path[PATH_MAX], name[33], folder[PATH_MAX + sizeof(name)];
	CLEANUP(fd) int state = -1, own = -1;
	int r;

	if (!real)
		return err_sys(e, "cannot find '%.200s'", key);
	if (exposed_check("the key", key, NULL, EXPOSED_SHARED, e) < 0)
		return -e->code;
	state = state_open("bundles", path, sizeof(path), e);
	if (state < 0 || random_hex(name, sizeof(name), e) < 0)
		return -e->code;
	(void)snprintf(folder, sizeof(folder), "%s/%s", path, name);
	if (mkdirat(state, name, 0700) < 0)
		return err_sys(e, "cannot make '%.200s'", folder);
	own = openat(state, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	r = own < 0 ? err_sys(e, "cannot open '%.200s'", folder) : copy_archive(archive, own, e);
	if (r == 0)
		r = keygen_sign(folder, real, e);
	if (r == 0)
		r = take_signature(own, ret, e);
	(void)tree_remove(state, name);
	return r;
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
	char *at, *word, *rest;
	ssize_t n;

	if (exposed_check("the signer's key", file, NULL, EXPOSED_SHARED, e) < 0)
		return -e->code;
	n = text ? fd_read_file(AT_FDCWD, file, text, KEY_MAX) : -ENOMEM;
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
	char type[64], blob[KEY_MAX];
	const char *const argv[] = {
		"ssh-keygen", "-Y", "verify",       "-f", "/proc/self/fd/3", "-I",
		"brig",       "-n", SIGN_NAMESPACE, "-s", "/proc/self/fd/4", NULL
	};
	CLEANUP(fd) int list = -1;
	int r;

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
	if (lseek(archive, 0, SEEK_SET) < 0)
		return err_sys(e, "cannot read the bundle");
	r = run_keygen(argv, env, (const int[]){ archive, -1, -1 },
		       (const int[]){ list, signature }, 2, e);
	if (r > 0)
		return err_refuse(e, ERR_POLICY, EKEYREJECTED,
				  "somebody else signed it, or it was changed since",
				  "the bundle's signature is not one by the key in '%.150s'",
				  key_file);
	if (r == 0)
		fingerprint(blob, signer, n);
	return r;
}
