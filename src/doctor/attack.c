/* SPDX-License-Identifier: Apache-2.0 */
/* doctor/attack.c - lays out the baits, attacks each backend, tells what held. */
#include "doctor/attack.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/bytes/random.h"
#include "base/files/fd.h"
#include "base/sys/clock.h"
#include "base/text/num.h"
#include "base/text/str.h"
#include "doctor/doctor.h"
#include "proc/forked.h"
#include "sandbox/sandbox.h"

#define INSIDE "/attack" /* where brig stands inside */
#define NOBODY 65534
#define MEMORY_LIMIT "48m"
#define PIDS_LIMIT "16"
#define PIDS_LIMIT_N 16

/* A folder with a workspace and a secret beside it, a process, a socket. All go in the end. */
struct ground {
	char top[PATH_MAX / 2], ws[PATH_MAX], secret[PATH_MAX], name[64], token[33], pid[24];
	char brig[PATH_MAX];
	const struct spec *config; /* which image a container is made from */
	int listener;
	int leash; /* of the process: it ends when this does */
	struct bait bait;
};

/* ---- baits ---- */

static int attack_put(const char *top, const char *name, const char *text, struct err *e)
{
	char path[PATH_MAX];
	CLEANUP(fd) int fd = -1;

	(void)snprintf(path, sizeof(path), "%s/%s", top, name);
	fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
	if (fd < 0 || fd_write_all(fd, text, strlen(text)) < 0)
		return err_sys(e, "cannot write '%s'", path);
	return 0;
}

static int attack_folder(const char *top, const char *name, struct err *e)
{
	char path[PATH_MAX];

	(void)snprintf(path, sizeof(path), "%s/%s", top, name);
	return mkdir(path, 0755) < 0 ? err_sys(e, "cannot make '%s'", path) : 0;
}

static int give_away(const char *path, const struct stat *st UNUSED, int flag UNUSED,
		     struct FTW *at UNUSED)
{
	return lchown(path, NOBODY, NOBODY);
}

static int make_files(struct ground *g, struct err *e)
{
	static const char *const folders[] = { "ws", "ws/.git", "ws/.git/hooks", "ws/.git/objects",
					       "away" };
	const char *temp = getenv("TMPDIR");
	char path[PATH_MAX + 8];

	(void)snprintf(g->top, sizeof(g->top), "%.1024s/brig-attack.XXXXXX",
		       temp && temp[0] == '/' ? temp : "/tmp");
	if (!mkdtemp(g->top))
		return g->top[0] = '\0',
		       err_sys(e, "cannot make a folder in '%s'", temp ? temp : "/tmp");
	if (chmod(g->top, 0755) < 0)
		return err_sys(e, "cannot open '%s' up", g->top);
	for (size_t i = 0; i < ARRAY_LEN(folders); i++)
		if (attack_folder(g->top, folders[i], e) < 0)
			return -e->code;
	(void)snprintf(g->ws, sizeof(g->ws), "%s/ws", g->top);
	(void)snprintf(g->secret, sizeof(g->secret), "%s/secret", g->top);
	(void)snprintf(path, sizeof(path), "%s/out", g->ws);
	if (symlink("../away", path) < 0)
		return err_sys(e, "cannot make '%s'", path);
	if (attack_put(g->top, "secret", g->token, e) < 0 ||
	    attack_put(g->ws, ".git/config", "[core]\n", e) < 0)
		return -e->code;
	if (attack_put(g->ws, ".git/HEAD", "ref: refs/heads/main\n", e) < 0)
		return -e->code;
	/* Root's own trees need idmapped mounts, which not every kernel has: somebody else's then.
	 */
	if (geteuid() == 0 && nftw(g->ws, give_away, 16, FTW_PHYS) != 0)
		return err_sys(e, "cannot give '%s' away", g->ws);
	return 0;
}

static int listen_abstract(struct ground *g, struct err *e)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	size_t n = strlen(g->name);

	g->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	memcpy(a.sun_path + 1, g->name, n);
	if (g->listener < 0 ||
	    bind(g->listener, (struct sockaddr *)&a,
		 (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + n)) < 0 ||
	    listen(g->listener, 64) < 0)
		return err_sys(e, "cannot listen");
	return 0;
}

static int be_victim(void *arg UNUSED, int line)
{
	char none;

	(void)prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
	(void)prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
	while (read(line, &none, 1) < 0 && errno == EINTR)
		;
	return 0;
}

static int start_victim(struct ground *g, struct err *e)
{
	const struct forked_want w = { .what = "a process to attack",
				       .line = FORKED_BYTES,
				       .run = be_victim };
	pid_t pid = forked_start(&w, &g->leash, e);

	if (pid < 0)
		return -e->code;
	g->bait.victim = pid;
	return 0;
}

static int ground_open(struct ground *g, struct err *e)
{
	*g = (struct ground){ .listener = -1, .leash = -1 };
	if (random_hex(g->token, sizeof(g->token), e) < 0)
		return -e->code;
	(void)snprintf(g->name, sizeof(g->name), "brig-attack-%s", g->token);
	if (own_path(g->brig, sizeof(g->brig), e) < 0 || make_files(g, e) < 0 ||
	    listen_abstract(g, e) < 0 || start_victim(g, e) < 0)
		return -e->code;
	(void)snprintf(g->pid, sizeof(g->pid), "%d", g->bait.victim);
	g->bait.secret = g->secret;
	g->bait.name = g->name;
	g->bait.token = g->token;
	if (setenv("BRIG_ATTACK_SECRET", g->token, 1) < 0) /* allow setenv: taken back at the end */
		return err_nomem(e);
	return 0;
}

static int attack_remove_one(const char *path, const struct stat *st UNUSED, int flag UNUSED,
			     struct FTW *at UNUSED)
{
	return remove(path);
}

static void ground_close(struct ground *g)
{
	(void)unsetenv("BRIG_ATTACK_SECRET"); /* allow unsetenv: see above */
	(void)fd_close(g->listener);
	if (g->bait.victim > 0) {
		(void)kill(g->bait.victim, SIGKILL);
		(void)forked_wait(g->bait.victim);
	}
	(void)fd_close(g->leash);
	if (g->top[0])
		(void)nftw(g->top, attack_remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

/* ---- one run ---- */

static int set_all(struct spec *s, const char *const *pairs, struct err *e)
{
	for (; *pairs; pairs += 2)
		if (spec_set_key(s, pairs[0], pairs[1], ORIGIN_FLAG, e) < 0)
			return -e->code;
	return 0;
}

/* A container's own settings: its image, and somebody who may write to the workspace. */
static int set_container(const struct ground *g, const char *backend, struct spec *s, struct err *e)
{
	const struct spec *c = g->config;
	const char *image = c && c->image ? c->image : c ? c->docker.image : NULL;
	const char *runtime = c && c->runtime ? c->runtime : c ? c->docker.runtime : NULL;
	const struct backend *b = backend_by_name(backend);
	char user[32];

	if (!b || !(b->can & BACKEND_ENGINE))
		return 0;
	(void)snprintf(user, sizeof(user), "%d:%d", NOBODY, NOBODY);
	if ((image && spec_set(s, FIELD_IMAGE, image, ORIGIN_FLAG, e) < 0) ||
	    (runtime && spec_set(s, FIELD_RUNTIME, runtime, ORIGIN_FLAG, e) < 0) ||
	    (geteuid() == 0 && spec_set(s, FIELD_USER, user, ORIGIN_FLAG, e) < 0))
		return -e->code;
	return 0;
}

/* Runs brig inside with these words; *o is filled in every case. */
static int strike(const struct ground *g, const char *backend, const char *const *words,
		  const char *const *more, struct outcome *o, struct err *e)
{
	CLEANUP(spec) struct spec *s = spec_new(e);
	const struct run_io io = { .in = -1, .out = -1, .err = -1, .signals = -1, .cancel = -1 };
	struct place at = { .cwd = g->top };
	char mount[PATH_MAX + 16];
	char *argv[10];
	int n = 0;

	(void)snprintf(mount, sizeof(mount), "%s:" INSIDE, g->brig);
	const char *const base[] = { "backend",
				     backend,
				     "workspace.path",
				     g->ws,
				     "mounts",
				     mount,
				     "limits.timeout",
				     "10s",
				     "limits.memory",
				     "256m",
				     "limits.output",
				     "64k",
				     NULL };
	argv[n++] = (char[]){ INSIDE };
	argv[n++] = (char[]){ "_attack" };
	for (; *words; words++)
		argv[n++] = (char *)(uintptr_t)*words;
	argv[n] = NULL;
	if (!s || set_all(s, base, e) < 0 || set_all(s, more, e) < 0 ||
	    set_container(g, backend, s, e) < 0 || spec_set_argv(s, n, argv, e) < 0 ||
	    spec_check(s, &at, e) < 0)
		return -e->code;
	sandbox_run(s, &io, NULL, NULL, o);
	if (o->started)
		return 0;
	*e = o->error;
	return e->code ? -e->code : err_set(e, ERR_INTERNAL, EIO, "the run did not start");
}

/* ---- what it means ---- */

static struct assault *attack_note(struct siege *s, const char *name, const char *what)
{
	struct assault *a = &s->done[s->count++];

	*a = (struct assault){ .name = name, .what = what };
	return a;
}

/* The attacker's own word; one it did not get to say counts as a success of the attack. */
static void attack_judge(const char *said, const struct attack *t, struct assault *a)
{
	char key[64];
	const char *at;

	(void)snprintf(key, sizeof(key), "\n%s ", t->name);
	at = strstr(said, key);
	if (!at) {
		(void)snprintf(a->detail, sizeof(a->detail), "no answer came back");
		return;
	}
	at += strlen(key);
	a->held = str_starts(at, "held ");
	at += strcspn(at, " ") + 1;
	(void)snprintf(a->detail, sizeof(a->detail), "%.*s", (int)strcspn(at, "\n"), at);
}

static void prove(const struct attack *t, const struct bait *b, struct assault *a)
{
	char got[128] = "";
	int r = attack_control(t, b, got, sizeof(got));

	a->proven = r == 1;
	(void)snprintf(a->control, sizeof(a->control), "%s%s",
		       r == 1   ? "outside it works: "
		       : r == 0 ? "outside it is stopped too: "
				: "",
		       got);
}

/* The host, looked at before any control leaves its traces, has the last word. */
static void look_at_host(const struct ground *g, struct siege *s)
{
	static const char *const planted[] = { "ws/.git/hooks/post-checkout",
					       "ws/.vscode/tasks.json", "away/planted" };
	char path[PATH_MAX + 32];
	bool alive = kill(g->bait.victim, 0) == 0;

	for (size_t i = 0; i < ARRAY_LEN(planted); i++) {
		(void)snprintf(path, sizeof(path), "%s/%s", g->top, planted[i]);
		for (size_t k = 0; k < s->count && access(path, F_OK) == 0; k++)
			if (str_eq(s->done[k].name, i < 2 ? "protected_name" : "symlink_out"))
				s->done[k].held = false;
	}
	for (size_t k = 0; k < s->count && !alive; k++)
		if (str_eq(s->done[k].name, "signal"))
			s->done[k].held = false;
}

/* Some controls write where they stand: each from the workspace. */
static int prove_all(const struct ground *g, struct siege *s, struct err *e)
{
	CLEANUP(fd) int back = open(".", O_PATH | O_DIRECTORY | O_CLOEXEC);

	if (back < 0 || chdir(g->ws) < 0)
		return err_sys(e, "cannot enter '%s'", g->ws);
	for (size_t i = 0; i < attack_count; i++)
		prove(&attacks[i], &g->bait, &s->done[i]);
	return fchdir(back) < 0 ? err_sys(e, "cannot go back") : 0;
}

static int strike_each(const struct ground *g, struct siege *s, struct err *e)
{
	CLEANUP(outcome) struct outcome *o = outcome_new();
	CLEANUP(buf) struct buf said = BUF_INIT((size_t)1 << 17);
	const char *const words[] = { "each", g->secret, g->name, g->pid, g->token, NULL };
	const char *const more[] = { NULL };

	if (!o)
		return err_nomem(e);
	if (strike(g, s->backend, words, more, o, e) < 0)
		return -e->code;
	buf_putc(&said, '\n');
	buf_add(&said, buf_str(&o->out.data), o->out.data.len);
	for (size_t i = 0; i < attack_count; i++)
		attack_judge(buf_str(&said), &attacks[i],
			     attack_note(s, attacks[i].name, attacks[i].what));
	look_at_host(g, s);
	return prove_all(g, s, e);
}

static int strike_forks(const struct ground *g, struct siege *s, struct err *e)
{
	CLEANUP(outcome) struct outcome *o = outcome_new();
	struct assault *a = attack_note(s, "fork_bomb", "all processes of the machine");
	const char *const words[] = { "forks", NULL }, *const more[] = { "limits.pids", PIDS_LIMIT,
									 NULL };
	char digits[16];
	uint64_t n;

	if (!o)
		return err_nomem(e);
	if (strike(g, s->backend, words, more, o, e) < 0)
		return -e->code;
	(void)snprintf(digits, sizeof(digits), "%.*s", (int)strcspn(buf_str(&o->out.data), "\n"),
		       buf_str(&o->out.data));
	if (num_count(digits, &n) < 0)
		n = 0;
	a->held = o->kind == OUTCOME_LIMIT || (n > 0 && n <= PIDS_LIMIT_N);
	(void)snprintf(a->detail, sizeof(a->detail), "%u of %d processes", (unsigned)n, BOMB_FORKS);
	if (o->kind == OUTCOME_LIMIT)
		(void)snprintf(a->detail, sizeof(a->detail), "ended at its limit");
	a->proven = attack_control_forks() == 1;
	(void)snprintf(a->control, sizeof(a->control), "%s",
		       a->proven ? "in scratch namespaces it gets them all"
				 : "no place to show it here");
	return 0;
}

static int strike_memory(const struct ground *g, struct siege *s, struct err *e)
{
	CLEANUP(outcome) struct outcome *o = outcome_new();
	struct assault *a = attack_note(s, "memory_bomb", "all memory of the machine");
	const char *const words[] = { "memory", NULL }, *const more[] = { "limits.memory",
									  MEMORY_LIMIT, NULL };

	if (!o)
		return err_nomem(e);
	if (strike(g, s->backend, words, more, o, e) < 0)
		return -e->code;
	a->held = o->kind == OUTCOME_OOM;
	(void)snprintf(a->detail, sizeof(a->detail), "%s",
		       a->held ? "ended at " MEMORY_LIMIT : outcome_name(o->kind));
	a->proven = attack_control_memory() == 1;
	(void)snprintf(a->control, sizeof(a->control), "%s",
		       a->proven ? "in scratch namespaces it gets twice that"
				 : "no place to show it here");
	return 0;
}

static int strike_flood(const struct ground *g, struct siege *s, struct err *e)
{
	CLEANUP(outcome) struct outcome *o = outcome_new();
	struct assault *a =
		attack_note(s, "output_flood", "the memory of the reader of the output");
	const char *const words[] = { "flood", NULL }, *const more[] = { NULL };

	if (!o)
		return err_nomem(e);
	if (strike(g, s->backend, words, more, o, e) < 0)
		return -e->code;
	a->held = o->out.truncated && o->out.data.len <= 65536;
	(void)snprintf(a->detail, sizeof(a->detail), "%zu bytes kept", o->out.data.len);
	a->proven = o->out.bytes == (uint64_t)FLOOD_MIB << 20;
	(void)snprintf(a->control, sizeof(a->control), "%llu bytes were written",
		       (unsigned long long)o->out.bytes);
	return 0;
}

/* ---- all of it ---- */

static int besiege(const struct ground *g, struct siege *s, struct err *e)
{
	if (strike_each(g, s, e) < 0 || strike_forks(g, s, e) < 0 || strike_memory(g, s, e) < 0)
		return -e->code;
	return strike_flood(g, s, e);
}

/* Fresh baits for every backend: the controls spoil them. */
static int attack_one(const struct backend *b, const struct spec *config, struct siege *s,
		      struct err *e)
{
	uint64_t from = clock_us();
	struct isolation unused;
	struct err why = { 0 };
	struct ground g;
	int r;

	*s = (struct siege){ .backend = b->name };
	if (b->probe(config, &unused, &why) < 0) {
		(void)snprintf(s->why, sizeof(s->why), "%s", why.what);
		return 0;
	}
	s->usable = true;
	r = ground_open(&g, e);
	g.config = config;
	if (r == 0 && besiege(&g, s, &why) < 0) {
		s->usable = false;
		(void)snprintf(s->why, sizeof(s->why), "%s", why.what);
	}
	ground_close(&g);
	s->ms = (unsigned)((clock_us() - from) / 1000);
	return r;
}

int attack_all(const char *backend, const struct spec *config, struct report *ret, struct err *e)
{
	*ret = (struct report){ 0 };
	for (const struct backend *const *b = backend ? backends_all : backends_auto; *b; b++) {
		if (backend && !str_eq((*b)->name, backend))
			continue;
		if (ret->count < BESIEGED_MAX &&
		    attack_one(*b, config, &ret->sieges[ret->count++], e) < 0)
			return -e->code;
	}
	if (!ret->count)
		return err_refuse(e, ERR_USAGE, EINVAL, "one of: native, bwrap, docker",
				  "there is no backend '%.60s' to attack", backend);
	return 0;
}

size_t attack_broke(const struct report *r)
{
	size_t n = 0, usable = 0;

	for (size_t i = 0; i < r->count; i++) {
		usable += r->sieges[i].usable;
		for (size_t k = 0; k < r->sieges[i].count; k++)
			n += !r->sieges[i].done[k].held;
	}
	return n + (usable == 0);
}

static const char *attack_word(const struct assault *a)
{
	return !a->held ? "fail" : a->proven ? "pass" : "warn";
}

void attack_text(const struct report *r, struct buf *out)
{
	size_t broke = attack_broke(r), all = 0;

	for (size_t i = 0; i < r->count; i++) {
		const struct siege *s = &r->sieges[i];

		all += s->usable ? s->count : 0;
		if (!s->usable)
			buf_printf(out, "[skip] %s: %s\n", s->backend, s->why);
		for (size_t k = 0; k < s->count && s->usable; k++) {
			const struct assault *a = &s->done[k];

			buf_printf(out, "[%s] %s %s: %s (%s); %s\n", attack_word(a), s->backend,
				   a->name, a->held ? "held" : "BROKE OUT", a->detail, a->control);
		}
	}
	if (broke)
		buf_printf(out,
			   "not contained: %zu attack%s worked, or nothing could be attacked\n",
			   broke, broke == 1 ? "" : "s");
	else
		buf_printf(out, "contained: every attack was held (%zu)\n", all);
}

static void siege_json(const struct siege *s, struct json *j)
{
	json_object(j);
	json_kstr(j, "backend", s->backend);
	json_kbool(j, "usable", s->usable);
	json_kstr(j, "reason", s->usable ? NULL : s->why);
	json_ku64(j, "ms", s->ms);
	json_karray(j, "attacks");
	for (size_t k = 0; k < s->count && s->usable; k++) {
		const struct assault *a = &s->done[k];

		json_object(j);
		json_kstr(j, "name", a->name);
		json_kstr(j, "what", a->what);
		json_kbool(j, "held", a->held);
		json_kstr(j, "detail", a->detail);
		json_kbool(j, "proven", a->proven);
		json_kstr(j, "control", a->control);
		json_object_end(j);
	}
	json_array_end(j);
	json_object_end(j);
}

void attack_json(const struct report *r, struct json *j)
{
	json_object(j);
	json_ku64(j, "schema", 1);
	json_kbool(j, "contained", attack_broke(r) == 0);
	json_karray(j, "backends");
	for (size_t i = 0; i < r->count; i++)
		siege_json(&r->sieges[i], j);
	json_array_end(j);
	json_object_end(j);
}
