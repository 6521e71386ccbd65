/* SPDX-License-Identifier: Apache-2.0 */
#include "git/git_reader.h"

#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/sendfile.h>
#include <sys/wait.h>

#include "base/sys/wait.h"
#include "git/gitsay.h"
#include "base/sys/clock.h"
#include "base/files/draft.h"
#include "base/bytes/sha256.h"
#include "base/files/state.h"
#include "base/text/str.h"
#include "model/settings/paths.h"
#include "proc/host_program.h"
#include "proc/host_find.h"

#define FOLDER "git"
#define SLOTS 1024 /* files of the cache, never more */
#define CONFIG_MAX ((size_t)1 << 20)

/* What a file can make git do is compute, so that CPU time is what is limited; the time by the
 * clock is for a git that waits for something. */
#define LIMITED "ulimit -t 2 && "
#define CLOCK_LIMIT "10s"

#define READ_CONFIG LIMITED "exec \"$1\" config --file - --no-includes --list -z"

/* Objects as they are, by their own names: nothing in the git folder may put others in their place
 * or make up who is whose parent. A work tree that is not shown here (that of a submodule, by
 * core.worktree) would be the end of git; none of these questions needs one. */
#define READ_REPOSITORY                                                                            \
	LIMITED                                                                                    \
	"export LC_ALL=C GIT_NO_REPLACE_OBJECTS=1 GIT_GRAFT_FILE=/dev/null; git=$1 at=$2; "        \
	"g() { \"$git\" -c core.commitGraph=false --git-dir=\"$at\" --work-tree=/tmp \"$@\"; }; "
#define READ_COMMITS                                                                               \
	READ_REPOSITORY                                                                            \
	"ids() { grep -aoE '^[0-9a-f]{40,64}' | sort -u; }; "                                      \
	"d=$(mktemp -d) || exit 1; " /* any fixed name may be the way to the user's project */     \
	"head -c \"$3\" > $d/old && ids < $d/old > $d/o; ids > $d/n; "                             \
	"comm -13 $d/o $d/n > $d/t || exit 1; "                                                    \
	"g cat-file --batch-check < $d/t > $d/c || exit 1; "                                       \
	"if grep -q ' missing$' $d/c; then printf '/missing\\0'; fi; "                             \
	"if [ -n \"$(g for-each-ref --count=1 refs/replace)\" ]; then printf '/replace\\0'; fi; "  \
	"{ sed 's/^/^/' $d/o; cat $d/t; } > $d/r; "                                                \
	"g rev-list --all --ignore-missing --stdin < $d/r > $d/c || exit 1; "                      \
	"g diff-tree --stdin -r -m --root --no-renames --name-only -z --diff-filter=d < $d/c"
#define READ_TREE                                                                                  \
	READ_REPOSITORY                                                                            \
	"c=$(g rev-parse -q --verify \"refs/heads/$3^{commit}\" || "                               \
	"g rev-parse -q --verify 'HEAD^{commit}') || exit 0; "                                     \
	"printf '%s\\0' \"$c\"; g ls-tree -r -z --full-tree \"$c\""

static const char *const scripts[] = {
	[READER_CONFIG] = READ_CONFIG,
	[READER_LIST] = READ_CONFIG,
	[READER_COMMITS] = READ_COMMITS,
	[READER_TREE] = READ_TREE,
};

/* ---- the cache ---- */

/* By its bytes: a command can give a file the stamp of another, wherever stamps are coarser than
 * two writes are apart or can be set. */
struct slot {
	char name[16];
	char key[SHA256_HEX + 16]; /* the first record: what question, of which file */
};

static struct slot slot_of(enum reader_kind kind, const struct buf *text)
{
	char sum[SHA256_HEX];
	struct slot s;

	sha256_of(buf_str(text), text->len, sum);
	(void)snprintf(s.name, sizeof(s.name), "%03x",
		       (unsigned)(mem_hash(0, sum, sizeof(sum)) % SLOTS));
	(void)snprintf(s.key, sizeof(s.key), "5 %d %s", (int)kind, sum);
	return s;
}

static bool reader_known(const struct slot *s, struct buf *ret)
{
	CLEANUP(buf) struct buf slot = BUF_INIT(READER_ANSWER_MAX + sizeof(s->key));
	CLEANUP(fd) int folder = state_find(FOLDER, NULL, 0);
	CLEANUP(fd)
	int fd = folder < 0 ? -1 : openat(folder, s->name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	size_t n = strlen(s->key) + 1;

	if (fd < 0 || buf_read_file(&slot, fd) < 0 || !slot.len || slot.data[slot.len - 1] ||
	    !str_eq(slot.data, s->key))
		return false;
	buf_add(ret, slot.data + n, slot.len - n);
	return !ret->failed;
}

static void git_reader_keep(const struct slot *s, const struct buf *answer)
{
	struct err e;
	CLEANUP(fd) int folder = state_open(FOLDER, NULL, 0, &e);
	struct draft d;

	if (folder < 0 || draft_open(folder, &d) < 0)
		return;
	if (fd_write_all(d.fd, s->key, strlen(s->key) + 1) < 0 ||
	    (answer->len && fd_write_all(d.fd, answer->data, answer->len) < 0))
		draft_drop(&d);
	else
		(void)draft_keep(&d, s->name, 0600);
}

/* ---- the question ---- */

struct git_question {
	enum reader_kind kind;
	const char *brig, *git;
	const char *at, *word; /* of a repository; NULL: the last words are left out */
	const char *backend;
	const char *shown; /* an option more */
	reader_record_fn *fn;
	void *arg;
	uint64_t until;
	int fd, out;
	uint64_t *spent; /* grows by the CPU time of whoever answered */
};

/* Where brig's folders are, and what a sanitizer is told; nothing that configures brig. */
static const char *const passed[] = {
	"HOME",           "USER",         "PATH",
	"XDG_STATE_HOME", "TMPDIR",       "XDG_RUNTIME_DIR",
	"XDG_CACHE_HOME", "ASAN_OPTIONS", "DBUS_SESSION_BUS_ADDRESS"
};

static void own_variables(const char *env[ARRAY_LEN(passed) + 2])
{
	size_t n = 0;

	for (char **v = environ; v && *v; v++)
		for (size_t i = 0; i < ARRAY_LEN(passed) && n < ARRAY_LEN(passed); i++)
			if (str_starts(*v, passed[i]) && (*v)[strlen(passed[i])] == '=')
				env[n++] = *v;
	env[n++] = "XDG_CONFIG_HOME=/nonexistent";
	env[n] = NULL;
}

/* brig alone, without the user's settings of it. */
static pid_t git_reader_ask(const struct git_question *q)
{
	const char *argv[] = { q->brig,          "run",      "--quiet",  "--backend",
			       q->backend,       "--policy", "readonly", "--network",
			       "none",           "--memory", "256m",     "--timeout",
			       CLOCK_LIMIT,      "--pids",   "16",       "--no-audit",
			       q->shown,         "--",       "/bin/sh",  "-c",
			       scripts[q->kind], "reader",   q->git,     q->at,
			       q->word,          NULL };
	const char *env[ARRAY_LEN(passed) + 2];
	const struct host_program h = { .program = q->brig,
					.argv = argv,
					.envp = env,
					.streams = (const int[]){ q->fd, q->out, -1 },
					.own = true };
	struct err unused;
	pid_t pid;

	own_variables(env);
	return host_start(&h, &pid, NULL, &unused) == 0 ? pid : -1;
}

struct reader_listener {
	const struct git_question *q;
	char record[4096 + 128]; /* the one that has begun */
	size_t have;
	bool hostile;    /* it is longer than any */
	struct buf text; /* of a configuration */
	struct buf *answer;
};

static void hear_records(struct reader_listener *l, const char *data, size_t n)
{
	for (size_t i = 0; i < n && !l->hostile; i++) {
		l->hostile = l->have == sizeof(l->record);
		if (l->hostile)
			return;
		l->record[l->have++] = data[i];
		if (data[i])
			continue;
		l->q->fn(l->q->arg, l->record);
		l->have = 0;
	}
}

/* false: it said too much or took too long, and is to be ended. */
static bool listen_to(struct reader_listener *l, int fd, uint64_t until)
{
	char data[16384];

	for (;;) {
		ssize_t n = wait_read(fd, data, sizeof(data), until);

		if (n == 0)
			return true;
		if (n < 0)
			return false;
		if (l->q->fn)
			hear_records(l, data, (size_t)n);
		else
			buf_add(&l->text, data, (size_t)n);
		if (l->hostile || l->text.failed)
			return false;
	}
}

static enum reader_said git_reader_judge(struct reader_listener *l, bool heard, int status)
{
	int code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;

	if (heard && code >= 125 && code <= 127) /* no sandbox, or no git in it */
		return READER_NOBODY;
	if (!heard || code != 0)
		return READER_HOSTILE;
	if (l->q->fn)
		return l->have ? READER_HOSTILE : READER_PLAIN;
	if (l->q->kind == READER_LIST) {
		buf_add(l->answer, l->text.data, l->text.len);
		return l->answer->failed ? READER_HOSTILE : READER_PLAIN;
	}
	return gitsay_config(&l->text, l->answer) ? READER_PLAIN : READER_HOSTILE;
}

/* Reaps it. false: somebody else did, and no answer can be had. */
static bool git_reader_reap(pid_t pid, int *status, uint64_t *spent)
{
	struct rusage used;

	while (wait4(pid, status, __WALL, &used) < 0)
		if (errno != EINTR)
			return false;
	*spent += (uint64_t)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) * 1000000U +
		  (uint64_t)(used.ru_utime.tv_usec + used.ru_stime.tv_usec);
	return true;
}

static enum reader_said converse(const struct git_question *asked, struct buf *ret)
{
	CLEANUP(mem) struct reader_listener *l = calloc(1, sizeof(*l));
	struct git_question q = *asked;
	int pipe[2], status = 0;
	enum reader_said said;
	bool heard;
	pid_t pid;

	if (!l || pipe2(pipe, O_CLOEXEC) < 0)
		return READER_NOBODY;
	*l = (struct reader_listener){ .q = asked, .text = BUF_INIT(CONFIG_MAX), .answer = ret };
	q.out = pipe[1];
	pid = git_reader_ask(&q);
	(void)fd_close(pipe[1]);
	heard = pid > 0 && listen_to(l, pipe[0], q.until);
	(void)fd_close(pipe[0]);
	if (pid > 0 && !heard)
		(void)kill(pid, SIGKILL);
	said = pid > 0 && git_reader_reap(pid, &status, q.spent)
		       ? git_reader_judge(l, heard, status)
		       : READER_NOBODY;
	buf_done(&l->text);
	return said;
}

/* ---- the copy ---- */

int reader_copy(int from, const struct stat *st)
{
	CLEANUP(fd) int fd = memfd_create("brig-copy", MFD_CLOEXEC);
	off_t at = 0;

	if (fd < 0 || !S_ISREG(st->st_mode) || st->st_size > (off_t)CONFIG_MAX)
		return -1;
	while (at < st->st_size)
		if (sendfile(fd, from, &at, (size_t)(st->st_size - at)) <= 0)
			return -1;
	return TAKE_FD(fd);
}

/* Under native, or where that is not to be had under bubblewrap. */
static enum reader_said ask_either(struct git_question *q, struct buf *ret)
{
	enum reader_said said;
	size_t before = ret->len;

	q->backend = "native";
	said = converse(q, ret);
	if (said != READER_NOBODY || lseek(q->fd, 0, SEEK_SET) < 0)
		return said;
	ret->len = before;
	q->backend = "bwrap";
	return converse(q, ret);
}

static bool too_late(const struct reader_asker *who)
{
	return clock_us() >= who->until || who->spent >= READER_BUDGET_US;
}

/* Blocks for as long as a run takes, at most for what is left of the budget. */
static enum reader_said ask_in_time(struct git_question *q, struct reader_asker *who,
				    struct buf *ret)
{
	char brig[PATH_MAX], found[PATH_MAX], git[PATH_MAX];
	const char *const avoid[] = { who->avoid, NULL };
	enum reader_said said;
	struct err e;

	if (!who->until)
		who->until = clock_us() + READER_CLOCK_US;
	if (too_late(who)) {
		who->unasked++;
		return READER_HOSTILE;
	}
	if (host_find_own("brig", brig, &e) < 0 || host_find("git", NULL, avoid, found, &e) < 0 ||
	    !realpath(found, git) || lseek(q->fd, 0, SEEK_SET) < 0)
		return READER_NOBODY;
	q->brig = brig;
	q->git = git;
	q->until = who->until;
	q->spent = &who->spent;
	said = ask_either(q, ret);
	who->unasked += said != READER_PLAIN && too_late(who);
	return said;
}

enum reader_said reader_repository(enum reader_kind kind, const char *git, const char *word,
				   int input, struct reader_asker *who, reader_record_fn *fn,
				   void *arg)
{
	char shown[PATH_MAX + 16];
	CLEANUP(buf) struct buf unused = BUF_INIT(1);
	struct git_question q = { .kind = kind,
				  .at = git,
				  .word = word,
				  .shown = shown,
				  .fn = fn,
				  .arg = arg,
				  .fd = input };

	if (snprintf(shown, sizeof(shown), "--workdir=%s", git) >= (int)sizeof(shown))
		return READER_NOBODY;
	return ask_in_time(&q, who, &unused);
}

enum reader_said reader_config(enum reader_kind kind, int fd, struct reader_asker *who,
			       struct buf *ret)
{
	struct git_question q = { .kind = kind, .shown = "--quiet" };
	CLEANUP(buf) struct buf text = BUF_INIT(CONFIG_MAX);
	CLEANUP(fd) int copy = -1;
	enum reader_said said;
	struct slot slot;
	struct stat st;

	copy = fstat(fd, &st) < 0 ? -1 : reader_copy(fd, &st);
	if (copy < 0 || buf_read_file(&text, copy) < 0)
		return READER_HOSTILE;
	slot = slot_of(kind, &text);
	if (reader_known(&slot, ret))
		return READER_PLAIN;
	q.fd = copy;
	said = ask_in_time(&q, who, ret);
	if (said == READER_PLAIN && kind != READER_LIST)
		git_reader_keep(&slot, ret);
	return said;
}

/* ---- configurations that name other files ---- */

static bool has_word(const struct buf *text, const char *word)
{
	size_t n = strlen(word);

	for (size_t i = 0; i + n <= text->len; i++)
		if (strncasecmp(text->data + i, word, n) == 0)
			return true;
	return false;
}

/* Section and key stand in one piece wherever git reads them: nothing in them can be escaped or
 * continued on the next line. */
static bool may_say(int fd, const char *word, const char *other)
{
	CLEANUP(buf) struct buf text = BUF_INIT(CONFIG_MAX + 1);

	return buf_read_file(&text, fd) < 0 || has_word(&text, word) ||
	       (other && has_word(&text, other));
}

/* Opening alone has effects of its own on a pipe or a device: only a file is opened. */
static int git_reader_open_file(const char *path)
{
	CLEANUP(fd) int at = open(path, O_PATH | O_CLOEXEC);
	char proc[32];
	struct stat st;
	int fd;

	if (at < 0)
		return -errno;
	if (fstat(at, &st) < 0 || !S_ISREG(st.st_mode))
		return -EINVAL;
	(void)snprintf(proc, sizeof(proc), "/proc/self/fd/%d", at);
	fd = open(proc, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

enum reader_said reader_facts(const char *file, enum reader_about about, struct reader_asker *who,
			      struct buf *facts)
{
	CLEANUP(fd) int fd = git_reader_open_file(file);
	bool trees = about == READER_TREES;

	if (fd < 0 || !may_say(fd, trees ? "worktree" : "hookspath", trees ? NULL : "include"))
		return READER_PLAIN;
	return reader_config(READER_CONFIG, fd, who, facts);
}
