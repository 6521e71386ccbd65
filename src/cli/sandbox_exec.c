/* SPDX-License-Identifier: Apache-2.0 */
/* cli/sandbox_exec.c - "sandbox exec": a command in a sandbox of the daemon, as if it ran here.
 *
 * Two connections: one brings what the command writes, the other takes what it reads, signals, and
 * the size of the terminal. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/base64.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/str.h"
#include "cli/sandbox_cli.h"
#include "cli/terminal.h"
#include "daemon/exec_result.h"

#define EVENT_MAX ((size_t)256 << 20)
#define INPUT_MAX 65536
#define DENIALS_SAID 64 /* on stderr; the result has all */
#define NAMES_SAID 4

struct session_exec {
	struct daemon_client *out, *in; /* in: made when there is something to say */
	const char *ref;
	const struct sandbox_asked *asked;
	char exec[40];
	struct sse sse;
	int signals;
	bool input_open, ended;
	int status;
	struct exec_result result; /* with --json: what it wrote */
	struct terminal_writer to; /* ... without */
};

/* ---- what is said to it ---- */

static int say(struct session_exec *x, const char *word, const char *body, size_t n, bool raw,
	       struct err *e)
{
	char target[256], more[96];
	struct daemon_question q = {
		.method = "POST", .target = target, .body = body, .body_len = n, .raw = raw
	};

	(void)snprintf(more, sizeof(more), "/execs/%s/%s", x->exec, word);
	if (!sandbox_target(target, sizeof(target), x->ref, more))
		return -EINVAL;
	if (!x->in && daemon_client_open(false, &x->in, e) < 0)
		return -e->code;
	return daemon_client_ask(x->in, &q, NULL, NULL, e);
}

static void send_signal(struct session_exec *x, int sig)
{
	struct err ignored;
	char body[40];
	int n = snprintf(body, sizeof(body), "{\"signal\":\"%d\"}", sig);

	(void)say(x, "signal", body, (size_t)n, false, &ignored);
}

static void send_size(struct session_exec *x)
{
	struct winsize w;
	struct err ignored;
	char body[64];
	int n;

	if (!x->asked->tty || ioctl(0, TIOCGWINSZ, &w) < 0)
		return;
	n = snprintf(body, sizeof(body), "{\"rows\":%u,\"cols\":%u}", w.ws_row, w.ws_col);
	(void)say(x, "resize", body, (size_t)n, false, &ignored);
}

/* A command that has ended takes no more: that is no error of the caller's. */
static void send_input(struct session_exec *x)
{
	char data[INPUT_MAX];
	ssize_t n = read(0, data, sizeof(data));
	struct err ignored;

	if (n < 0 && (errno == EINTR || errno == EAGAIN))
		return;
	if (n <= 0)
		x->input_open = false;
	if (say(x, n > 0 ? "stdin" : "stdin?close=true", data, n > 0 ? (size_t)n : 0, true,
		&ignored) < 0)
		x->input_open = false;
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
	const char *text = jread_str(v, "data");
	size_t n = text ? strlen(text) : 0;
	CLEANUP(mem) char *data = malloc(n + 1);
	ssize_t len = data && text ? base64_read(text, n, data, n) : -ENOMEM;

	if (len < 0)
		return err_set(e, ERR_INTERNAL, EBADMSG, "the daemon's stream is malformed");
	if (x->asked->json)
		exec_result_add(&x->result, fd, data, (size_t)len);
	else if (terminal_write(&x->to, fd, data, (size_t)len) < 0 && errno != EPIPE)
		return err_sys(e, "the command's output cannot be written");
	return 0;
}

static void say_error(const struct jread *result)
{
	const struct jread *error = jread_get(result, "error");
	const char *what = jread_str(error, "what"), *hint = jread_str(error, "hint");

	if (!what)
		what = jread_str(error, "message");
	if (what)
		message_print("brig", what);
	else if (jread_text(error))
		message_print("brig", jread_text(error));
	if (hint && *hint)
		message_print("hint", hint);
}

/* As brig run says it; the result and the record have more. */
static void say_denials(const struct jread *list)
{
	size_t n = jread_count(list);

	for (size_t i = 0; i < n && i < DENIALS_SAID; i++) {
		const struct jread *d = jread_at(list, i);
		const char *kind = jread_str(d, "kind"), *target = jread_str(d, "target"),
			   *reason = jread_str(d, "reason");
		CLEANUP(buf) struct buf b = BUF_INIT(4096);

		buf_printf(&b, "%.60s '%.400s': %.500s", kind ? kind : "denied",
			   target ? target : "", reason ? reason : "");
		message_log(PRIORITY_WARNING, "brig", buf_str(&b));
	}
	if (n > DENIALS_SAID) {
		CLEANUP(buf) struct buf b = BUF_INIT(128);

		buf_printf(&b, "%zu more denials; brig audit security-events", n - DENIALS_SAID);
		message_log(PRIORITY_WARNING, "brig", buf_str(&b));
	}
}

static void say_asked(const struct jread *unresolved)
{
	const struct jread *names = jread_get(unresolved, "names");
	size_t n = jread_count(names);
	CLEANUP(buf) struct buf b = BUF_INIT(4096);

	if (!n)
		return;
	buf_puts(&b, "it has no network, and asked for ");
	for (size_t i = 0; i < n && i < NAMES_SAID; i++) {
		const char *name = jread_text(jread_at(names, i));

		buf_printf(&b, "%s'%.255s'", i ? ", " : "", name ? name : "");
	}
	buf_puts(&b, n > NAMES_SAID ? ", ..." : "");
	message_log(PRIORITY_NOTICE, "brig", buf_str(&b));
	message_print("hint", "brig sandbox create --allow HOST makes one that reaches a host");
}

static void finish(struct session_exec *x, const struct jread *result)
{
	const char *outcome = jread_str(result, "outcome");

	x->ended = true;
	x->status = (int)jread_int(result, "exit_code", EXIT_BRIG);
	if (x->asked->json) {
		CLEANUP(buf) struct buf b = BUF_INIT(EVENT_MAX);

		exec_result_write(&x->result, result, &b);
		(void)printf("%s\n", buf_str(&b));
	}
	if (outcome && str_eq(outcome, "timeout"))
		message_log(PRIORITY_WARNING, "brig", "Command timed out");
	say_error(result);
	if (!x->asked->quiet) {
		say_denials(jread_get(result, "denials"));
		say_asked(jread_get(result, "unresolved"));
	}
}

static int on_event(struct session_exec *x, struct err *e)
{
	CLEANUP(jread) struct jread *v = NULL;
	const char *type = x->sse.type;

	if (jread_parse(buf_str(&x->sse.data), x->sse.data.len, &v, e) < 0)
		return -e->code;
	if (str_eq(type, "start"))
		(void)snprintf(x->exec, sizeof(x->exec), "%s",
			       jread_str(v, "exec") ? jread_str(v, "exec") : "");
	else if (str_eq(type, "stdout"))
		return put_output(x, v, 1, e);
	else if (str_eq(type, "stderr"))
		return put_output(x, v, 2, e);
	else if (str_eq(type, "end"))
		finish(x, v);
	return 0;
}

/* Everything that is there already. */
static int take_events(struct session_exec *x, struct err *e)
{
	while (!x->ended) {
		int r = daemon_client_event(x->out, &x->sse, clock_us(), e);

		if (r == -EAGAIN) {
			err_clear(e);
			return 0;
		}
		if (r == 0)
			return err_refuse(e, ERR_UNAVAILABLE, EPIPE,
					  "brig sandbox logs shows what it wrote",
					  "the daemon has ended the stream");
		if (r < 0 || on_event(x, e) < 0)
			return -e->code;
	}
	return 0;
}

/* ---- together ---- */

static int turn(struct session_exec *x, struct err *e)
{
	struct pollfd p[] = {
		{ .fd = daemon_client_fd(x->out), .events = POLLIN },
		{ .fd = x->signals, .events = POLLIN },
		{ .fd = x->input_open && *x->exec ? 0 : -1, .events = POLLIN },
	};

	if (take_events(x, e) < 0)
		return -e->code;
	if (x->ended)
		return 0;
	p[2].fd = x->input_open && *x->exec ? 0 : -1;
	if (poll(p, ARRAY_LEN(p), -1) < 0 && errno != EINTR)
		return err_sys(e, "cannot wait for the command");
	if (p[1].revents)
		on_signals(x);
	if (p[2].revents)
		send_input(x);
	return 0;
}

static int open_signals(void)
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

static void put_env(struct json *j, const struct sandbox_asked *a, struct arena *arena)
{
	json_key(j, "env");
	json_object(j);
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

	if (daemon_client_ask(x->out, q, &v, NULL, e) < 0)
		return -e->code;
	if (x->asked->json)
		(void)printf("{\"exec\":\"%s\"}\n", jread_str(v, "exec"));
	else
		(void)printf("%s\n", jread_str(v, "exec"));
	return 0;
}

static int follow(struct session_exec *x, const struct daemon_question *q, struct err *e)
{
	struct terminal t = { 0 };
	int r = daemon_client_stream(x->out, q, e);

	if (r < 0)
		return r;
	x->signals = open_signals();
	terminal_writer_begin(&x->to, x->asked->tty);
	if (x->asked->tty)
		terminal_raw(&t);
	while (r == 0 && !x->ended)
		r = turn(x, e);
	if (r < 0 && *x->exec)
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
	struct session_exec x = { .out = d,
				  .ref = ref,
				  .asked = a,
				  .sse = SSE_INIT(EVENT_MAX),
				  .signals = -1,
				  .input_open = !a->detach && has_input() };
	struct daemon_question q = { .method = "POST" };
	char target[256];
	int r = put_body(&body, &x, e);

	exec_result_init(&x.result);
	if (!sandbox_target(target, sizeof(target), ref, "/exec"))
		r = err_set(e, ERR_USAGE, EINVAL, "'%.60s' is neither an id nor a name", ref);
	q.target = target;
	q.body = buf_str(&body);
	q.body_len = body.len;
	if (r == 0)
		r = a->detach ? detached(&x, &q, e) : follow(&x, &q, e);
	sse_done(&x.sse);
	exec_result_done(&x.result);
	(void)daemon_client_free(x.in);
	if (r < 0)
		return EXIT_BRIG;
	return a->detach ? 0 : x.status;
}
