/* SPDX-License-Identifier: Apache-2.0 */
/* cli/sandbox/sandbox_exec.c - "sandbox exec": a command in a sandbox of the daemon, as if it ran
 * here.
 *
 * Two connections: one brings what the command writes, the other takes what it reads, signals, and
 * the size of the terminal. When a daemon is killed the command goes on, and so does this with the
 * next one, at the byte where it was cut off; unless input was on its way, which may or
 * may not have arrived. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/bytes/json.h"
#include "base/files/fd.h"
#include "base/sys/clock.h"
#include "base/sys/wait.h"
#include "base/text/str.h"
#include "cli/run/denials.h"
#include "cli/run/terminal.h"
#include "cli/sandbox/follow.h"
#include "cli/sandbox/sandbox_cli.h"
#include "daemon/shared/exec_result.h"
#include "model/outcome/outcome.h"

#define EVENT_MAX ((size_t)256 << 20)
#define INPUT_MAX 65536
#define UNSURE_TRIES 50
#define UNSURE_MS 20

struct session_exec {
	struct follow out;
	struct daemon_client *in; /* made when there is something to say */
	const char *ref;
	const struct sandbox_asked *asked;
	char exec[40];
	int signals;
	bool input_open, ended, input_lost;
	int status;
	struct exec_result result; /* with --json: what it wrote */
	struct terminal_writer to; /* ... without */
};

/* ---- what is said to it ---- */

/* Is it still open? The daemon never speaks first, so anything to read is its end. */
static bool is_open(const struct daemon_client *c)
{
	return !wait_look(daemon_client_fd(c), POLLIN);
}

/* *asked: it was sent, whether or not it arrived. *code: the daemon's own word, "" where it had
 * none. */
static int sandbox_exec_say(struct session_exec *x, const char *word, const char *body, size_t n,
			    bool raw, bool *asked, char code[32], struct err *e)
{
	char target[256], more[96];
	struct daemon_question q = {
		.method = "POST", .target = target, .body = body, .body_len = n, .raw = raw
	};

	(void)snprintf(more, sizeof(more), "/execs/%s/%s", x->exec, word);
	*asked = false;
	code[0] = '\0';
	if (!sandbox_target(target, sizeof(target), x->ref, more))
		return -EINVAL;
	if (x->in && !is_open(x->in))
		x->in = daemon_client_free(x->in);
	if (!x->in && follow_connect(&x->in, e) < 0)
		return -e->code;
	*asked = true;
	/* A daemon that has just begun may not know yet which commands run. */
	for (int tries = 0; daemon_client_ask(x->in, &q, NULL, code, e) < 0; tries++) {
		if (!*code)
			x->in = daemon_client_free(x->in);
		if (!str_eq(code, "sandbox-not-ready") || tries == UNSURE_TRIES)
			return -e->code;
		err_clear(e);
		code[0] = '\0';
		wait_moment(UNSURE_MS);
	}
	return 0;
}

/* Said once: it is no loss if it does not arrive. */
static void mention(struct session_exec *x, const char *word, const char *body, int n)
{
	struct err ignored = { 0 };
	char code[32];
	bool asked;

	(void)sandbox_exec_say(x, word, body, (size_t)n, false, &asked, code, &ignored);
}

static void send_signal(struct session_exec *x, int sig)
{
	char body[40];
	int n = snprintf(body, sizeof(body), "{\"signal\":\"%d\"}", sig);

	mention(x, "signal", body, n);
}

static void send_size(struct session_exec *x)
{
	struct winsize w;
	char body[64];
	int n;

	if (!x->asked->tty || ioctl(0, TIOCGWINSZ, &w) < 0)
		return;
	n = snprintf(body, sizeof(body), "{\"rows\":%u,\"cols\":%u}", w.ws_row, w.ws_col);
	mention(x, "resize", body, n);
}

static int lost_input(struct session_exec *x, size_t n, struct err *e)
{
	x->input_lost = true;
	(void)err_set(e, ERR_UNAVAILABLE, EPIPE,
		      "the daemon has ended with input under way: nobody knows whether %zu bytes "
		      "of it have reached the command",
		      n);
	return err_hint(e,
			"the command waits for more: brig sandbox cancel %.30s %s ends it, "
			"brig sandbox logs %.30s %s shows what it wrote",
			x->ref, x->exec, x->ref, x->exec);
}

/* A command that has ended takes no more: that is no error of the caller's. The end of input may be
 * said twice. */
static int send_input(struct session_exec *x, struct err *e)
{
	char data[INPUT_MAX], code[32];
	ssize_t n = read(0, data, sizeof(data));
	struct err why = { 0 };
	bool asked;
	int r;

	if (n < 0 && (errno == EINTR || errno == EAGAIN))
		return 0;
	if (n <= 0)
		x->input_open = false;
	r = sandbox_exec_say(x, n > 0 ? "stdin" : "stdin?close=true", data, n > 0 ? (size_t)n : 0,
			     true, &asked, code, &why);
	if (r < 0 && !*code && n <= 0)
		r = sandbox_exec_say(x, "stdin?close=true", data, 0, true, &asked, code, &why);
	if (r == 0)
		return 0;
	x->input_open = false;
	if (n > 0 && asked && !*code)
		return lost_input(x, (size_t)n, e);
	if (str_eq(code, "exec-ended") || str_eq(code, "conflict")) /* it reads no more */
		return 0;
	*e = why;
	return r;
}

static void on_signals(struct session_exec *x)
{
	struct signalfd_siginfo i;

	while (read(x->signals, &i, sizeof(i)) == sizeof(i)) {
		if (!*x->exec)
			continue;
		if (i.ssi_signo == SIGWINCH)
			send_size(x);
		else
			send_signal(x, (int)i.ssi_signo);
	}
}

/* ---- what it says ---- */

static int put_output(struct session_exec *x, const struct jread *v, int fd, struct err *e)
{
	CLEANUP(mem) char *data = NULL;
	const char *from = NULL;
	ssize_t len = follow_output(&x->out, v, &data, &from, e);

	if (len <= 0)
		return (int)len;
	if (x->asked->json)
		exec_result_add(&x->result, fd, from, (size_t)len);
	else if (terminal_write(&x->to, fd, from, (size_t)len) < 0 && errno != EPIPE)
		return err_sys(e, "the command's output cannot be written");
	return 0;
}

/* As brig run says it. Its hint names an option of the command line that made the sandbox. */
static void say_end(const struct sandbox_asked *asked, const struct jread *result)
{
	CLEANUP(outcome) struct outcome *o = outcome_new();
	struct err e = { 0 };

	if (!o || outcome_read(result, o, &e) < 0) {
		error_print(&e);
		return;
	}
	if (o->kind == OUTCOME_TIMEOUT)
		message_log(PRIORITY_WARNING, "brig", "Command timed out");
	if (o->error.code)
		error_print(&o->error);
	if (asked->quiet)
		return;
	denials_say(o, NULL);
	if (o->asked_count)
		message_print("hint",
			      "brig sandbox create --allow HOST makes one that reaches a host");
}

static void sandbox_exec_finish(struct session_exec *x, const struct jread *result)
{
	x->ended = true;
	x->status = (int)jread_int(result, "exit_code", EXIT_BRIG);
	if (x->asked->json) {
		CLEANUP(buf) struct buf b = BUF_INIT(EVENT_MAX);

		exec_result_write(&x->result, result, &b);
		(void)printf("%s\n", buf_str(&b));
	}
	say_end(x->asked, result);
}

static int sandbox_exec_on_event(struct session_exec *x, struct err *e)
{
	CLEANUP(jread) struct jread *v = NULL;
	const char *type = x->out.sse.type;

	if (jread_parse(buf_str(&x->out.sse.data), x->out.sse.data.len, &v, e) < 0)
		return -e->code;
	if (str_eq(type, "start"))
		(void)snprintf(x->exec, sizeof(x->exec), "%s",
			       jread_str(v, "exec") ? jread_str(v, "exec") : "");
	else if (str_eq(type, "stdout"))
		return put_output(x, v, 1, e);
	else if (str_eq(type, "stderr"))
		return put_output(x, v, 2, e);
	else if (str_eq(type, "end"))
		sandbox_exec_finish(x, v);
	return 0;
}

static int attach_again(struct session_exec *x, struct err *e)
{
	char target[256], more[96];

	if (!e->code)
		(void)err_refuse(e, ERR_UNAVAILABLE, EPIPE, "brig sandbox logs shows what it wrote",
				 "the daemon has ended the stream");
	if (!*x->exec) /* it may have begun or not: a second try could make it two */
		return err_hint(e, "brig sandbox execs %.30s says whether the command has begun",
				x->ref);
	(void)snprintf(more, sizeof(more), "/execs/%s/stream?from=%llu", x->exec,
		       (unsigned long long)x->out.next);
	if (!sandbox_target(target, sizeof(target), x->ref, more))
		return -e->code;
	return follow_again(&x->out, target, e);
}

/* Everything that is there already. */
static int take_events(struct session_exec *x, struct err *e)
{
	while (!x->ended) {
		int r = follow_event(&x->out, clock_us(), e);

		if (r == -EAGAIN) {
			err_clear(e);
			return 0;
		}
		if (r > 0)
			r = sandbox_exec_on_event(x, e);
		else if (follow_broken(&x->out, r))
			r = attach_again(x, e);
		else if (r == 0)
			r = err_set(e, ERR_INTERNAL, EPROTO, "the daemon's stream is malformed");
		if (r < 0)
			return -e->code;
	}
	return 0;
}

/* ---- together ---- */

static int sandbox_exec_turn(struct session_exec *x, struct err *e)
{
	struct pollfd p[] = {
		{ .fd = -1, .events = POLLIN },
		{ .fd = x->signals, .events = POLLIN },
		{ .fd = -1, .events = POLLIN },
	};

	if (take_events(x, e) < 0)
		return -e->code;
	if (x->ended)
		return 0;
	p[0].fd = daemon_client_fd(x->out.d);
	p[2].fd = x->input_open && *x->exec ? 0 : -1;
	if (wait_any(p, ARRAY_LEN(p), 0) < 0)
		return err_sys(e, "cannot wait for the command");
	if (p[1].revents)
		on_signals(x);
	return p[2].revents ? send_input(x, e) : 0;
}

static int sandbox_exec_open_signals(void)
{
	static const int taken[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGWINCH };
	const struct sigaction ignore = { .sa_handler = SIG_IGN };
	sigset_t set;

	(void)sigemptyset(&set);
	for (size_t i = 0; i < ARRAY_LEN(taken); i++)
		(void)sigaddset(&set, taken[i]);
	(void)sigprocmask(SIG_BLOCK, &set, NULL);
	(void)sigaction(SIGPIPE, &ignore, NULL);
	return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

/* Nothing comes from /dev/null: the command then has end of file at once. */
static bool has_input(void)
{
	struct stat st;

	return fstat(0, &st) == 0 &&
	       !(S_ISCHR(st.st_mode) && major(st.st_rdev) == 1 && minor(st.st_rdev) == 3);
}

/* A shell at a terminal: what starts one inside, as tmux does, is to start the same. */
static void put_shell(struct json *j, const struct sandbox_asked *a)
{
	static const char *const known[] = { "bash", "zsh", "fish", "ksh" };
	const char *word = a->rest[1], *slash = strrchr(word, '/');
	char path[32];

	for (size_t i = 0; i < a->env_count; i++)
		if (str_starts(a->env[i], "SHELL=") || str_eq(a->env[i], "SHELL"))
			return;
	for (size_t i = 0; i < ARRAY_LEN(known); i++) {
		if (!str_eq(slash ? slash + 1 : word, known[i]))
			continue;
		(void)snprintf(path, sizeof(path), "/bin/%s", known[i]);
		json_kstr(j, "SHELL", slash ? word : path);
	}
}

static void put_env(struct json *j, const struct sandbox_asked *a, struct arena *arena)
{
	json_kobject(j, "env");
	for (size_t i = 0; i < a->env_count; i++) {
		const char *equals = strchr(a->env[i], '=');
		const char *name =
			equals ? arena_strndup(arena, a->env[i], (size_t)(equals - a->env[i]))
			       : a->env[i];
		const char *value = equals ? equals + 1 : getenv(a->env[i]);

		if (name && value)
			json_kstr(j, name, value);
	}
	if (a->tty && getenv("TERM"))
		json_kstr(j, "TERM", getenv("TERM"));
	if (a->tty)
		put_shell(j, a);
	json_object_end(j);
}

static int put_body(struct buf *b, const struct session_exec *x, struct err *e)
{
	const struct sandbox_asked *a = x->asked;
	CLEANUP(arena) struct arena *arena = arena_new((size_t)4 << 20);
	struct winsize w;
	struct json j;

	if (!arena)
		return err_nomem(e);
	json_init(&j, b, false);
	json_object(&j);
	json_kstrs(&j, "argv", (const char *const *)a->rest + 1);
	put_env(&j, a, arena);
	if (a->cwd)
		json_kstr(&j, "cwd", a->cwd);
	if (a->timeout)
		json_kstr(&j, "timeout", a->timeout);
	json_kbool(&j, "stdin_open", x->input_open);
	json_kbool(&j, "tty", a->tty);
	json_kbool(&j, "detach", a->detach);
	if (a->tty && ioctl(0, TIOCGWINSZ, &w) == 0) {
		json_ku64(&j, "rows", w.ws_row);
		json_ku64(&j, "cols", w.ws_col);
	}
	json_object_end(&j);
	return b->failed ? err_set(e, ERR_USAGE, E2BIG, "the command is too long") : 0;
}

static int detached(struct session_exec *x, const struct daemon_question *q, struct err *e)
{
	CLEANUP(jread) struct jread *v = NULL;

	if (daemon_client_ask(x->out.d, q, &v, NULL, e) < 0)
		return -e->code;
	if (x->asked->json)
		(void)printf("{\"exec\":\"%s\"}\n", jread_str(v, "exec"));
	else
		(void)printf("%s\n", jread_str(v, "exec"));
	return 0;
}

static int sandbox_exec_follow(struct session_exec *x, const struct daemon_question *q,
			       struct err *e)
{
	struct terminal t = { 0 };
	int r = daemon_client_stream(x->out.d, q, e);

	if (r < 0)
		return r;
	x->signals = sandbox_exec_open_signals();
	terminal_writer_begin(&x->to, x->asked->tty);
	if (x->asked->tty)
		terminal_raw(&t);
	while (r == 0 && !x->ended)
		r = sandbox_exec_turn(x, e);
	if (r < 0 && *x->exec && !x->input_lost)
		(void)err_hint(e, "the command goes on: brig sandbox logs -f %.30s %s", x->ref,
			       x->exec);
	terminal_writer_end(&x->to);
	terminal_restore(&t);
	(void)fd_close(x->signals);
	return r;
}

int sandbox_exec(struct daemon_client *d, const char *ref, const struct sandbox_asked *a,
		 struct err *e)
{
	CLEANUP(buf) struct buf body = BUF_INIT((size_t)1 << 20);
	struct session_exec x = {
		.ref = ref, .asked = a, .signals = -1, .input_open = !a->detach && has_input()
	};
	struct daemon_question q = { .method = "POST" };
	char target[256];
	int r = put_body(&body, &x, e);

	follow_begin(&x.out, d, EVENT_MAX);
	exec_result_init(&x.result);
	if (!sandbox_target(target, sizeof(target), ref, "/exec"))
		r = err_set(e, ERR_USAGE, EINVAL, "'%.60s' is neither an id nor a name", ref);
	q.target = target;
	q.body = buf_str(&body);
	q.body_len = body.len;
	if (r == 0)
		r = a->detach ? detached(&x, &q, e) : sandbox_exec_follow(&x, &q, e);
	follow_done(&x.out);
	exec_result_done(&x.result);
	(void)daemon_client_free(x.in);
	if (r < 0)
		return EXIT_BRIG;
	return a->detach ? 0 : x.status;
}
