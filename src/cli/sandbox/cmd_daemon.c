/* SPDX-License-Identifier: Apache-2.0 */
/* cli/sandbox/cmd_daemon.c - "daemon": serves long-lived sandboxes; and what is said to a running
 * one. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/bytes/json.h"
#include "base/files/fd.h"
#include "base/sys/wait.h"
#include "base/text/buf.h"
#include "base/text/clean.h"
#include "base/text/num.h"
#include "base/text/str.h"
#include "cli/cli.h"
#include "cli/own_options.h"
#include "daemon/api/tokens.h"
#include "daemon/client/daemon_client.h"
#include "daemon/daemon.h"

#define UNIX_SCHEME "unix://"

struct daemon_asked {
	const char *verb, *listen, *token_file, *tls_cert, *tls_key, *ceiling, *name, *scope,
		*ready_fd;
	bool all, json, quiet, help;
};

static const struct {
	const char *option;
	size_t at;
} with_value[] = {
	{ "--listen", offsetof(struct daemon_asked, listen) },
	{ "--token-file", offsetof(struct daemon_asked, token_file) },
	{ "--tls-cert", offsetof(struct daemon_asked, tls_cert) },
	{ "--tls-key", offsetof(struct daemon_asked, tls_key) },
	{ "--ceiling", offsetof(struct daemon_asked, ceiling) },
	{ "--scope", offsetof(struct daemon_asked, scope) },
	{ "--ready-fd", offsetof(struct daemon_asked, ready_fd) },
};

static int cmd_daemon_refuse(const char *word, struct err *e)
{
	return command_refuses(&cmd_daemon, word, e);
}

/* 1: it was an option with a value. */
static int valued(struct daemon_asked *a, int argc, char **argv, int *at, struct err *e)
{
	for (size_t i = 0; i < ARRAY_LEN(with_value); i++) {
		const struct own_option o = { .command = "daemon", .name = with_value[i].option };
		int r = own_option_value(&o, argc, argv, at,
					 (const char **)((char *)a + with_value[i].at), e);

		if (r)
			return r;
	}
	return 0;
}

static const struct token_row {
	const char *name, *full;
	bool named;
} token_rows[] = { { "add", "token add", true },
		   { "list", "token list", false },
		   { "remove", "token remove", true } };

static const struct token_row *token_verb(const char *text)
{
	for (size_t i = 0; i < ARRAY_LEN(token_rows); i++)
		if (str_eq(text, token_rows[i].name))
			return &token_rows[i];
	return NULL;
}

static bool takes_name(const char *verb)
{
	for (size_t i = 0; i < ARRAY_LEN(token_rows); i++)
		if (str_eq(verb, token_rows[i].full))
			return token_rows[i].named;
	return false;
}

static int cmd_daemon_word(struct daemon_asked *a, const char *text, struct err *e)
{
	if (!a->verb && (str_eq(text, "stop") || str_eq(text, "status") || str_eq(text, "token")))
		a->verb = text;
	else if (a->verb && str_eq(a->verb, "token") && token_verb(text))
		a->verb = token_verb(text)->full;
	else if (a->verb && takes_name(a->verb) && !a->name && text[0] != '-')
		a->name = text;
	else if (str_eq(text, "--json"))
		a->json = true;
	else if (str_eq(text, "--quiet"))
		a->quiet = true;
	else if (str_eq(text, "--all") && a->verb && str_eq(a->verb, "stop"))
		a->all = true;
	else if (str_eq(text, "--help") || str_eq(text, "-h"))
		a->help = true;
	else
		return cmd_daemon_refuse(text, e);
	return 0;
}

static int cmd_daemon_parse(int argc, char **argv, struct daemon_asked *a, struct err *e)
{
	for (int i = 1; i < argc; i++) {
		int r = valued(a, argc, argv, &i, e);

		if (r == 0)
			r = cmd_daemon_word(a, argv[i], e);
		if (r < 0)
			return r;
	}
	if (a->verb && str_eq(a->verb, "token"))
		return err_refuse(e, ERR_USAGE, EINVAL, "brig daemon token add NAME --scope run",
				  "token takes 'add', 'list' or 'remove'");
	return 0;
}

/* ---- serving ---- */

static void says_where(const char *where)
{
	message_log(PRIORITY_INFO, "brigd: listening on", where);
}

/* Nobody sees what a daemon without streams prints: whoever started it is told. */
static void tell_starter(int fd, const struct err *e)
{
	char text[700];
	int n = snprintf(text, sizeof(text), "%s %s%s%s", e->code == EBUSY ? "busy" : "no", e->what,
			 e->hint[0] ? "\n" : "", e->hint);

	if (n > 0)
		(void)fd_write_all(fd, text,
				   (size_t)n < sizeof(text) ? (size_t)n : sizeof(text) - 1);
}

static int cmd_daemon_serve(const struct daemon_asked *a, struct err *e)
{
	const char *host = getenv("BRIG_HOST");
	struct daemon_options o = { .listen = a->listen,
				    .token_file = a->token_file,
				    .tls_cert = a->tls_cert,
				    .tls_key = a->tls_key,
				    .ceiling = a->ceiling,
				    .ready_fd = -1,
				    .listens = a->quiet || a->ready_fd ? NULL : says_where };
	uint64_t fd;
	int r;

	if (host && str_starts(host, UNIX_SCHEME "/"))
		o.socket = host + strlen(UNIX_SCHEME);
	if (a->ready_fd && (num_count(a->ready_fd, &fd) < 0 || fd < 3 || fd > INT_MAX))
		return cmd_daemon_refuse(a->ready_fd, e);
	if (a->ready_fd)
		o.ready_fd = (int)fd;
	r = daemon_run(&o, e);
	if (r < 0 && a->ready_fd)
		tell_starter(o.ready_fd, e);
	return r;
}

/* ---- to a running one ---- */

static void print_value(const struct jread *v)
{
	CLEANUP(buf) struct buf b = BUF_INIT((size_t)1 << 20);

	jread_write(v, &b);
	(void)printf("%s\n", buf_str(&b));
}

static int status(const struct daemon_asked *a, struct err *e)
{
	CLEANUP(daemon_client) struct daemon_client *c = NULL;
	CLEANUP(jread) struct jread *v = NULL;
	const struct daemon_question q = { .method = "GET", .target = "/v1/info" };
	long long sandboxes, running;
	char up[32];

	if (daemon_client_open(false, &c, e) < 0 || daemon_client_ask(c, &q, &v, NULL, e) < 0)
		return -e->code;
	if (a->json) {
		print_value(v);
		return 0;
	}
	sandboxes = (long long)jread_int(v, "sandboxes", 0);
	running = (long long)jread_int(v, "execs_running", 0);
	num_duration_text((uint64_t)jread_int(v, "uptime_ms", 0) / 1000 * 1000, up, sizeof(up));
	(void)printf("brigd %s, pid %lld, up %s: %lld sandbox%s, %lld command%s running\n",
		     jread_str(v, "version"), (long long)jread_int(v, "pid", 0), up, sandboxes,
		     sandboxes == 1 ? "" : "es", running, running == 1 ? "" : "s");
	return 0;
}

/* The process itself, to wait for its end; it lives as long as it answers us. */
static int open_process(struct daemon_client *c, struct err *e)
{
	CLEANUP(jread) struct jread *v = NULL;
	const struct daemon_question q = { .method = "GET", .target = "/v1/info" };
	int64_t pid;

	if (daemon_client_ask(c, &q, &v, NULL, e) < 0)
		return -e->code;
	pid = jread_int(v, "pid", 0);
	return pid > 0 && pid <= INT_MAX ? (int)syscall(SYS_pidfd_open, (pid_t)pid, 0) : -1;
}

static int cmd_daemon_stop(const struct daemon_asked *a, struct err *e)
{
	CLEANUP(daemon_client) struct daemon_client *c = NULL;
	const char *body = a->all ? "{\"all\":true}" : "{}";
	const struct daemon_question q = {
		.method = "POST", .target = "/v1/stop", .body = body, .body_len = strlen(body)
	};
	CLEANUP(fd) int gone = -1;
	int r = daemon_client_open(false, &c, e);

	if (r == 0)
		gone = open_process(c, e);
	if (r == 0 && !e->code)
		r = daemon_client_ask(c, &q, NULL, NULL, e);
	if (r == 0 && !e->code && gone >= 0)
		(void)wait_fd(gone, POLLIN, 0);
	if (e->code)
		return -e->code;
	if (a->json)
		(void)printf("{\"stopped\":true}\n");
	return 0;
}

static int token_add(const struct daemon_asked *a, const char *file, struct err *e)
{
	char token[TOKEN_SIZE];

	if (tokens_add(file, a->name, a->scope ? a->scope : "run", token, e) < 0)
		return -e->code;
	if (a->json)
		(void)printf("{\"name\":\"%s\",\"token\":\"%s\"}\n", a->name, token);
	else
		(void)printf("%s\n", token);
	if (!a->json && !a->quiet)
		message_print("brig: note", "it is shown once, and kept nowhere");
	return 0;
}

static const char *scope_words(const struct token *t)
{
	return t->scopes & SCOPE_ADMIN ? "admin" : t->scopes & SCOPE_RUN ? "run" : "read";
}

static void list_as_json(const struct token *v, size_t n)
{
	CLEANUP(buf) struct buf b = BUF_INIT((size_t)16 << 20);
	struct json j;

	json_init(&j, &b, false);
	json_object(&j);
	json_karray(&j, "tokens");
	for (size_t i = 0; i < n; i++) {
		json_object(&j);
		json_kstr(&j, "name", v[i].tenant);
		json_kstr(&j, "scope", scope_words(&v[i]));
		json_kstr(&j, "ceiling", v[i].ceiling);
		json_object_end(&j);
	}
	json_array_end(&j);
	json_object_end(&j);
	(void)printf("%s\n", buf_str(&b));
}

static int token_list(const struct daemon_asked *a, const char *file, struct err *e)
{
	struct token *v = NULL;
	size_t n = 0;

	if (tokens_list(file, &v, &n, e) < 0)
		return e->code == ENOENT
			       ? err_hint(e, "brig daemon token add NAME --scope run makes it")
			       : -e->code;
	if (a->json) {
		list_as_json(v, n);
	} else {
		if (n)
			(void)printf("%-24s%-7s%s\n", "NAME", "SCOPE", "CEILING");
		for (size_t i = 0; i < n; i++) {
			CLEANUP(buf) struct buf b = BUF_INIT(8192);
			const char *ceiling = v[i].ceiling ? v[i].ceiling : "-";

			clean_put(&b, ceiling, strlen(ceiling));
			(void)printf("%-23s %-7s%s\n", v[i].tenant, scope_words(&v[i]),
				     buf_str(&b));
		}
		if (!n && !a->quiet)
			message_print("brig: note", "the file has no tokens");
	}
	tokens_drop(v, n);
	return 0;
}

static int token_remove(const struct daemon_asked *a, const char *file, struct err *e)
{
	int n = tokens_remove(file, a->name, e);

	if (n < 0)
		return n;
	if (a->json)
		(void)printf("{\"name\":\"%s\",\"removed\":%d}\n", a->name, n);
	else
		(void)printf("%s\n", a->name);
	if (!a->json && !a->quiet)
		message_print(
			"brig: note",
			"a daemon that runs takes it no more, and ends within a second what it "
			"was saying to it; its sandboxes stay, until they expire");
	return 0;
}

static int token(const struct daemon_asked *a, struct err *e)
{
	const char *file = a->token_file;
	char path[PATH_MAX];

	if (takes_name(a->verb) && !a->name)
		return err_refuse(e, ERR_USAGE, EINVAL,
				  str_eq(a->verb, "token add")
					  ? "brig daemon token add NAME --scope run"
					  : "brig daemon token remove NAME",
				  "a token has a name: the tenant that it stands for");
	if (!file && daemon_token_path(path, sizeof(path), e) < 0)
		return -e->code;
	file = file ? file : path;
	return str_eq(a->verb, "token add")    ? token_add(a, file, e)
	       : str_eq(a->verb, "token list") ? token_list(a, file, e)
					       : token_remove(a, file, e);
}

static int daemon_command(const struct subcommand *c, int argc, char **argv)
{
	struct daemon_asked a = { 0 };
	struct err e = { 0 };
	int r = cmd_daemon_parse(argc, argv, &a, &e);

	if (r == 0 && a.help) {
		help_command(c);
		return 0;
	}
	if (r == 0)
		r = !a.verb                    ? cmd_daemon_serve(&a, &e)
		    : str_eq(a.verb, "status") ? status(&a, &e)
		    : str_eq(a.verb, "stop")   ? cmd_daemon_stop(&a, &e)
					       : token(&a, &e);
	if (r == 0)
		return 0;
	error_print(&e);
	return EXIT_BRIG;
}

static const char *cmd_daemon_words(size_t i)
{
	static const char *const list[] = { "status", "stop", "token" };

	return i < ARRAY_LEN(list) ? list[i] : NULL;
}

const struct subcommand cmd_daemon = {
	.name = "daemon",
	.usage = "[--listen ADDR:PORT --token-file FILE [--tls-cert FILE --tls-key FILE] "
		 "[--ceiling FILE]] | status | stop [--all] | "
		 "token add|list|remove",
	.help = "serve long-lived sandboxes over HTTP; brig sandbox starts it",
	.about =
		"  --listen ADDR:PORT   also over TCP, for callers with a token: on loopback, or\n"
		"                       anywhere with TLS\n"
		"  --tls-cert FILE      its certificate and the chain, PEM\n"
		"  --tls-key FILE       its private key, in brig's state folder, closed to others\n"
		"  --token-file FILE    a line a token: NAME SCOPES SHA256\n"
		"  --ceiling FILE       a brig.yaml: what callers with a token may ask for; else\n"
		"                       daemon.ceiling of your settings, else brig's defaults\n"
		"  status [--json]      the running one\n"
		"  stop [--all]         end it; its sandboxes go on, with --all they stop first\n"
		"  token add NAME       make a token, print it once, add its line to the file:\n"
		"                       [--scope read|run|admin] [--token-file FILE]\n"
		"  token list           those of the file, by name\n"
		"  token remove NAME    take all of that name out of it\n",
	.word = cmd_daemon_words,
	.run = daemon_command,
};
