/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/api/tokens.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>

#include "base/bytes/base64.h"
#include "base/bytes/hex.h"
#include "base/bytes/random.h"
#include "base/bytes/sha256.h"
#include "base/files/draft.h"
#include "base/files/exposed.h"
#include "base/files/fd.h"
#include "base/text/buf.h"
#include "base/text/str.h"

#define SETTLED_S 1
#define FILE_MAX ((size_t)1 << 20)
#define TOKENS_MAX 4096
#define TOKEN_HEAD "brig_"

struct tokens {
	char *path;
	struct stamp seen;
	bool readable;
	struct token *v;
	size_t n;
};

/* ---- one line ---- */

bool tenant_name_ok(const char *name)
{
	size_t n = strlen(name);

	return n > 0 && n < TENANT_SIZE &&
	       strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789._-") == n && name[0] != '.' &&
	       name[0] != '_' && name[0] != '-';
}

int scopes_parse(const char *words, size_t n, unsigned *ret)
{
	static const struct {
		const char *word;
		unsigned scopes;
	} known[] = { { "read", SCOPE_READ },
		      { "run", SCOPE_READ | SCOPE_RUN },
		      { "admin", SCOPE_READ | SCOPE_RUN | SCOPE_ADMIN } };
	const char *end = words + n;

	*ret = 0;
	while (words < end) {
		const char *comma = memchr(words, ',', (size_t)(end - words));
		size_t len = (size_t)((comma ? comma : end) - words), i = 0;

		while (i < ARRAY_LEN(known) &&
		       (strlen(known[i].word) != len || memcmp(known[i].word, words, len) != 0))
			i++;
		if (i == ARRAY_LEN(known) || (comma && comma + 1 == end))
			return -EINVAL;
		*ret |= known[i].scopes;
		words += len + (comma != NULL);
	}
	return *ret ? 0 : -EINVAL;
}

static bool tokens_take_word(const char **p, const char *end, const char **word, size_t *n)
{
	while (*p < end && (**p == ' ' || **p == '\t'))
		(*p)++;
	*word = *p;
	while (*p < end && **p != ' ' && **p != '\t')
		(*p)++;
	*n = (size_t)(*p - *word);
	return *n > 0;
}

static bool starts(const char *word, size_t n, const char *key)
{
	return n > strlen(key) && memcmp(word, key, strlen(key)) == 0;
}

/* What may stand behind the sum, in any order and each once. */
static const char *read_more(const char *word, size_t n, struct token *t)
{
	static const char ceiling[] = "ceiling=/", sandboxes[] = "sandboxes=";
	size_t k = sizeof(sandboxes) - 1;

	if (starts(word, n, ceiling) && !t->ceiling) {
		t->ceiling = strndup(word + strlen("ceiling="), n - strlen("ceiling="));
		return t->ceiling ? NULL : "there is no memory for it";
	}
	if (!starts(word, n, sandboxes) || t->sandboxes)
		return "behind the SHA-256 only ceiling=/PATH and sandboxes=N may stand";
	for (; k < n && word[k] >= '0' && word[k] <= '9' && t->sandboxes <= SANDBOXES_MOST; k++)
		t->sandboxes = t->sandboxes * 10 + (unsigned)(word[k] - '0');
	return k < n || !t->sandboxes || t->sandboxes > SANDBOXES_MOST
		       ? "its sandboxes= is not a number from 1 to 256"
		       : NULL;
}

static const char *read_line(const char *p, const char *end, struct token *t)
{
	const char *word, *why = NULL;
	size_t n;

	if (!tokens_take_word(&p, end, &word, &n) || n >= sizeof(t->tenant))
		return "it has no NAME";
	memcpy(t->tenant, word, n);
	t->tenant[n] = '\0';
	if (!tenant_name_ok(t->tenant))
		return "its NAME is not of a-z, 0-9, '.', '_' and '-'";
	if (!tokens_take_word(&p, end, &word, &n) || scopes_parse(word, n, &t->scopes) < 0)
		return "its SCOPES are not of read, run and admin";
	if (!tokens_take_word(&p, end, &word, &n) || n != 2 * sizeof(t->digest) ||
	    hex_decode(word, t->digest, sizeof(t->digest)) < 0)
		return "it has no SHA-256 in 64 small digits";
	while (!why && tokens_take_word(&p, end, &word, &n))
		why = read_more(word, n, t);
	return why;
}

void tokens_drop(struct token *v, size_t n)
{
	for (size_t i = 0; i < n; i++)
		free(v[i].ceiling);
	free(v);
}

static bool tokens_is_blank(const char *p, const char *end)
{
	while (p < end && (*p == ' ' || *p == '\t'))
		p++;
	return p == end || *p == '#';
}

int tokens_parse(const char *text, size_t n, struct token **ret, size_t *count, struct err *e)
{
	struct token *v = calloc(TOKENS_MAX, sizeof(*v));
	const char *end = text + n, *why = NULL;
	size_t used = 0;
	unsigned line = 0;

	if (!v)
		return err_nomem(e);
	while (text < end && !why) {
		const char *lf = memchr(text, '\n', (size_t)(end - text));
		const char *stop = lf ? lf : end;

		line++;
		if (memchr(text, '\0', (size_t)(stop - text)))
			why = "it has a NUL in it";
		else if (!tokens_is_blank(text, stop))
			why = used == TOKENS_MAX ? "there are too many"
						 : read_line(text, stop, &v[used++]);
		text = lf ? lf + 1 : end;
	}
	if (why) {
		tokens_drop(v, used);
		return err_set(e, ERR_CONFIG, EINVAL, "line %u: %s", line, why);
	}
	*ret = v;
	*count = used;
	return 0;
}

/* ---- the file ---- */

static int check_file(const char *path, const struct stat *st, struct err *e)
{
	if (!S_ISREG(st->st_mode))
		return err_set(e, ERR_CONFIG, EINVAL, "'%.200s' is not a file", path);
	if (st->st_uid != geteuid() || st->st_mode & 077) {
		(void)err_set(e, ERR_POLICY, EPERM,
			      "'%.200s' must be yours and closed to everybody else", path);
		return err_hint(e, "chmod 600 '%.200s'", path);
	}
	return 0;
}

static int slurp(const char *path, struct buf *b, struct stamp *seen, struct err *e)
{
	CLEANUP(fd) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	char piece[4096];
	struct stat st;
	ssize_t n;

	if (fd < 0 || fstat(fd, &st) < 0)
		return err_sys(e, "cannot open '%.200s'", path);
	if (check_file(path, &st, e) < 0)
		return -e->code;
	while ((n = read(fd, piece, sizeof(piece))) > 0)
		buf_add(b, piece, (size_t)n);
	if (n < 0 || b->failed)
		return err_set(e, ERR_CONFIG, EFBIG, "cannot read '%.200s'", path);
	*seen = stamp_of(&st);
	return 0;
}

static int reload(struct tokens *t, struct err *e)
{
	CLEANUP(buf) struct buf b = BUF_INIT(FILE_MAX);
	struct token *v = NULL;
	size_t n = 0;

	t->readable = false;
	if (slurp(t->path, &b, &t->seen, e) < 0)
		return -e->code;
	if (tokens_parse(buf_str(&b), b.len, &v, &n, e) < 0)
		return err_wrap(e, "'%.200s'", t->path);
	tokens_drop(t->v, t->n);
	t->v = v;
	t->n = n;
	t->readable = true;
	return 0;
}

int tokens_open(const char *path, struct tokens **ret, struct err *e)
{
	CLEANUP(tokens) struct tokens *t = calloc(1, sizeof(*t));

	/* Whoever writes it decides who gets in. */
	if (exposed_check("the token file", path, NULL, EXPOSED_SHARED, e) < 0)
		return -e->code;
	if (!t || !(t->path = realpath(path, NULL)))
		return t ? err_sys(e, "cannot open '%.200s'", path) : err_nomem(e);
	if (reload(t, e) < 0)
		return -e->code;
	*ret = TAKE_PTR(t);
	return 0;
}

struct tokens *tokens_free(struct tokens *t)
{
	if (!t)
		return NULL;
	tokens_drop(t->v, t->n);
	free(t->path);
	free(t);
	return NULL;
}

/* ---- asking ---- */

static bool same_digest(const unsigned char *a, const unsigned char *b)
{
	unsigned char differ = 0;

	for (size_t i = 0; i < SHA256_SIZE; i++)
		differ |= (unsigned char)(a[i] ^ b[i]);
	return !differ;
}

/* Reads the file again if it has changed. false: it lets nobody in. */
static bool is_fresh(struct tokens *t)
{
	struct stamp now;
	struct stat st;
	struct err e;

	if (!t->path)
		return true;
	if (stat(t->path, &st) < 0)
		return false;
	now = stamp_of(&st);
	return (t->readable && stamp_same(&now, &t->seen)) || reload(t, &e) == 0;
}

bool tokens_holds(struct tokens *t, const unsigned char digest[32], const char *tenant,
		  unsigned scopes)
{
	bool holds = false;

	if (!is_fresh(t))
		return false;
	for (size_t i = 0; i < t->n; i++)
		holds |= same_digest(digest, t->v[i].digest) && str_eq(tenant, t->v[i].tenant) &&
			 (t->v[i].scopes & scopes) == scopes;
	return holds;
}

unsigned tokens_sandboxes(struct tokens *t, const char *tenant)
{
	unsigned least = SANDBOXES_MOST;

	for (size_t i = 0; t && is_fresh(t) && i < t->n; i++)
		if (str_eq(tenant, t->v[i].tenant) && t->v[i].sandboxes &&
		    t->v[i].sandboxes < least)
			least = t->v[i].sandboxes;
	return least;
}

const struct token *tokens_of(struct tokens *t, const char *tenant)
{
	for (size_t i = 0; is_fresh(t) && i < t->n; i++)
		if (str_eq(tenant, t->v[i].tenant))
			return &t->v[i];
	return NULL;
}

bool tokens_settled(struct tokens *t)
{
	struct timespec now, before;
	struct stat st;

	if (!t->path)
		return true;
	if (stat(t->path, &st) < 0 || clock_gettime(CLOCK_REALTIME, &now) < 0)
		return false;
	before = (struct timespec){ now.tv_sec - SETTLED_S, now.tv_nsec };
	return time_before(&st.st_mtim, &before) || time_before(&now, &st.st_mtim);
}

bool tokens_lacks(struct tokens *t, const char *tenant)
{
	if (!tokens_settled(t) || !is_fresh(t))
		return false;
	for (size_t i = 0; i < t->n; i++)
		if (str_eq(tenant, t->v[i].tenant))
			return false;
	return true;
}

const struct token *tokens_find(struct tokens *t, const char *token, size_t n)
{
	const struct token *found = NULL;
	unsigned char digest[SHA256_SIZE];
	struct sha256 h;

	if (!is_fresh(t))
		return NULL;
	sha256_init(&h);
	sha256_add(&h, token, n);
	sha256_end(&h, digest);
	for (size_t i = 0; i < t->n; i++)
		if (same_digest(digest, t->v[i].digest))
			found = &t->v[i];
	return found;
}

/* ---- changing ---- */

static int make_token(char token[TOKEN_SIZE], char hex[SHA256_HEX], struct err *e)
{
	CLEANUP(buf) struct buf b = BUF_INIT(64);
	unsigned char secret[32], digest[SHA256_SIZE];
	struct sha256 h;

	if (random_fill(secret, sizeof(secret), e) < 0)
		return -e->code;
	base64_url(&b, secret, sizeof(secret));
	(void)snprintf(token, TOKEN_SIZE, TOKEN_HEAD "%.43s", buf_str(&b));
	sha256_init(&h);
	sha256_add(&h, token, strlen(token));
	sha256_end(&h, digest);
	sha256_hex(digest, hex);
	return 0;
}

int tokens_lone(const char *name, char token[TOKEN_SIZE], struct tokens **ret, struct err *e)
{
	CLEANUP(tokens) struct tokens *t = calloc(1, sizeof(*t));
	char line[256], hex[SHA256_HEX];

	if (!t)
		return err_nomem(e);
	if (make_token(token, hex, e) < 0)
		return -e->code;
	(void)snprintf(line, sizeof(line), "%s run %s\n", name, hex);
	if (tokens_parse(line, strlen(line), &t->v, &t->n, e) < 0)
		return -e->code;
	*ret = TAKE_PTR(t);
	return 0;
}

/* The file of this name, locked. A rename puts another in its place: whoever waited for the lock of
 * the one before has nothing in hand. */
static int open_locked(const char *path, int flags, struct err *e)
{
	struct stat st, now;

	for (;;) {
		CLEANUP(fd)
		int fd = open(path, flags | O_CLOEXEC | O_NOCTTY | O_NOFOLLOW | O_NONBLOCK, 0600);

		if (fd < 0 || fstat(fd, &st) < 0)
			return err_sys(e, "cannot open '%.200s'", path);
		if (check_file(path, &st, e) < 0)
			return -e->code;
		if (flock(fd, LOCK_EX) < 0)
			return err_sys(e, "cannot lock '%.200s'", path);
		if (lstat(path, &now) == 0 && now.st_dev == st.st_dev && now.st_ino == st.st_ino)
			return TAKE_FD(fd);
	}
}

int tokens_add(const char *path, const char *name, const char *scopes, char token[TOKEN_SIZE],
	       struct err *e)
{
	CLEANUP(fd) int fd = -1;
	char line[256], hex[SHA256_HEX];
	unsigned mask;
	int n, r;

	if (!tenant_name_ok(name))
		return err_refuse(e, ERR_USAGE, EINVAL, "of a-z, 0-9, '.', '_' and '-'",
				  "'%.60s' is not a name for a token", name);
	if (scopes_parse(scopes, strlen(scopes), &mask) < 0)
		return err_refuse(e, ERR_USAGE, EINVAL, "one or more of read,run,admin",
				  "'%.60s' is not a scope", scopes);
	fd = open_locked(path, O_RDWR | O_APPEND | O_CREAT, e);
	if (fd < 0 || make_token(token, hex, e) < 0)
		return -e->code;
	n = snprintf(line, sizeof(line), "%s %s %s\n", name, scopes, hex);
	r = fd_write_all(fd, line, (size_t)n);
	return r < 0 ? err_errno(e, r, "cannot write to '%.200s'", path) : 0;
}

int tokens_list(const char *path, struct token **ret, size_t *count, struct err *e)
{
	CLEANUP(buf) struct buf b = BUF_INIT(FILE_MAX);
	struct stamp unused;

	if (slurp(path, &b, &unused, e) < 0)
		return -e->code;
	return tokens_parse(buf_str(&b), b.len, ret, count, e) < 0 ? err_wrap(e, "'%.200s'", path)
								   : 0;
}

/* All lines but those of that name, comments as well: how many were left out. */
static int keep_others(const char *text, size_t n, const char *name, struct buf *to)
{
	const char *end = text + n;
	int dropped = 0;

	while (text < end) {
		const char *lf = memchr(text, '\n', (size_t)(end - text)), *at = text, *word;
		const char *stop = lf ? lf + 1 : end;
		size_t len;
		bool other = tokens_is_blank(text, lf ? lf : end) ||
			     !tokens_take_word(&at, lf ? lf : end, &word, &len) ||
			     len != strlen(name) || memcmp(word, name, len) != 0;

		if (other)
			buf_add(to, text, (size_t)(stop - text));
		dropped += !other;
		text = stop;
	}
	return dropped;
}

/* In the folder of the file, beside it, and on the disk before it takes its name. */
static int tokens_replace(const char *path, const struct buf *b, struct err *e)
{
	const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
	CLEANUP(mem) char *above = slash ? strndup(path, (size_t)(slash - path) + 1) : strdup(".");
	CLEANUP(fd) int folder = above ? open(above, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
	int r;

	if (folder < 0)
		return err_sys(e, "cannot write beside '%.200s'", path);
	r = draft_write(folder, name, b, 0600, true);
	if (r == 0 && fsync(folder) < 0 && errno != EINVAL)
		r = -errno;
	return r < 0 ? err_errno(e, r, "cannot replace '%.200s'", path) : 0;
}

int tokens_remove(const char *path, const char *name, struct err *e)
{
	CLEANUP(buf) struct buf b = BUF_INIT(FILE_MAX), rest = BUF_INIT(FILE_MAX);
	CLEANUP(fd) int fd = open_locked(path, O_RDONLY, e);
	struct token *v = NULL;
	struct stamp unused;
	size_t n = 0;
	int dropped;

	if (fd < 0 || slurp(path, &b, &unused, e) < 0)
		return -e->code;
	if (tokens_parse(buf_str(&b), b.len, &v, &n, e) < 0)
		return err_wrap(e, "'%.200s'", path);
	tokens_drop(v, n);
	dropped = keep_others(buf_str(&b), b.len, name, &rest);
	if (!dropped)
		return err_refuse(e, ERR_USAGE, ENOENT,
				  "brig daemon token list shows those there are",
				  "there is no token '%.60s' in '%.200s'", name, path);
	if (rest.failed)
		return err_nomem(e);
	return tokens_replace(path, &rest, e) < 0 ? -e->code : dropped;
}
