/* SPDX-License-Identifier: Apache-2.0 */
/* cli/apps/cmd_mcp.c - "mcp": tools for a model over the Model Context Protocol, on standard input
 * and output or over HTTP; and the entry for it in other programs' settings. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "apps/mcp/host_install.h"
#include "apps/mcp/mcp_http.h"
#include "apps/mcp/mcp_stdio.h"
#include "base/bytes/json.h"
#include "base/files/exposed.h"
#include "base/sys/program.h"
#include "base/sys/signals.h"
#include "base/text/str.h"
#include "cli/cli.h"
#include "cli/sandbox/sandbox_cli.h"

#define HTTP_ADDRESS "127.0.0.1:8723"
#define SPEC_MAX ((size_t)1 << 20)

/* How it is served; everything else is a setting of its sandboxes. */
struct mcp_way {
	const char *http, *token_file;
	bool daemon;
};

/* ---- how ---- */

/* Is it this option, and with which value? `next` is the word behind it. 0: no; 1: yes; 2: with the
 * next word. */
static int way_option(struct mcp_way *w, const char *word, const char *next, struct err *e)
{
	const bool address = next && next[0] != '-' && strchr(next, ':');

	if (str_eq(word, "--daemon")) {
		w->daemon = true;
		return 1;
	}
	if (str_eq(word, "--http")) {
		w->http = address ? next : HTTP_ADDRESS;
		return 1 + address;
	}
	if (str_starts(word, "--http=")) {
		w->http = word + strlen("--http=");
		return 1;
	}
	if (str_starts(word, "--token-file=")) {
		w->token_file = word + strlen("--token-file=");
		return 1;
	}
	if (!str_eq(word, "--token-file"))
		return 0;
	w->token_file = next;
	return next ? 2
		    : err_refuse(e, ERR_USAGE, EINVAL,
				 "brig daemon token add NAME --token-file FILE makes one",
				 "option '--token-file' needs a value");
}

/* Takes them out of argv; how many words are left. */
static int read_way(int argc, char **argv, struct mcp_way *w, struct err *e)
{
	int left = 1;

	for (int i = 1; i < argc;) {
		int r = way_option(w, argv[i], i + 1 < argc ? argv[i + 1] : NULL, e);

		if (r < 0)
			return r;
		if (r == 0)
			argv[left++] = argv[i++];
		else
			i += r;
	}
	argv[left] = NULL;
	if (w->token_file && !w->http)
		return err_refuse(e, ERR_USAGE, EINVAL, "brig mcp --http --token-file FILE",
				  "--token-file is for --http");
	return left;
}

/* 1: help was printed. */
static int cmd_mcp_prepare(const struct subcommand *c, struct spec *s, int argc, char **argv,
			   struct err *e)
{
	int rest = 0, r;

	r = options_parse(c, s, argc, argv, &rest, e);
	if (r > 0) {
		(r > 1 ? help_all : help_command)(c);
		return 1;
	}
	if (r < 0 || cli_load(s, e) < 0)
		return -e->code;
	if (rest < argc)
		return command_refuses(c, argv[rest], e);
	if (s->command.tty || s->cli.json)
		return err_refuse(e, ERR_USAGE, EINVAL, "leave it out", "mcp has no use for --%s",
				  s->command.tty ? "tty" : "json");
	for (size_t i = 0; i < s->notes.n && !s->cli.quiet; i++)
		message_print("brig: note", s->notes.v[i]);
	return 0;
}

/* ---- serving ---- */

static void says_where(const char *url, const char *token)
{
	(void)printf("listening on %s\n", url);
	if (*token)
		(void)printf("token: %s\n", token);
	(void)fflush(stdout);
}

/* Sandboxes of the daemon's, under a tenant of our own; the first call starts it if nobody runs. */
static int serve_far(struct spec *s, const struct mcp_way *w, int signals, struct err *e)
{
	const char *host = getenv("BRIG_HOST");
	CLEANUP(sandbox_secrets) struct sandbox_secrets secrets = { .n = 0 };
	CLEANUP(buf) struct buf text = BUF_INIT(SPEC_MAX);
	CLEANUP(spec) struct spec *own = spec_clone(s, e);
	struct tools_daemon d = { .secrets = secrets.fds };
	struct mcp_http_options o = { .listen = w->http,
				      .token_file = w->token_file,
				      .signals = signals,
				      .listens = s->cli.quiet ? NULL : says_where };
	char tenant[MCP_TENANT_SIZE];

	if (!own)
		return -e->code;
	if (host && *host && !str_starts(host, "unix://"))
		return err_refuse(e, ERR_USAGE, ENOTSUP,
				  "unset BRIG_HOST, or name a unix:// socket",
				  "brig mcp asks the daemon of its own user alone");
	if (sandbox_resolve(own, &text, &secrets, e) < 0)
		return -e->code;
	d.spec = buf_str(&text);
	d.spec_len = text.len;
	d.secret_count = secrets.n;
	o.daemon = d;
	if (w->http)
		return mcp_http(s, &o, e);
	mcp_tenant(&d, "", tenant);
	d.tenant = tenant;
	return mcp_stdio(s, &d, STDIN_FILENO, STDOUT_FILENO, signals, e);
}

static int cmd_mcp_serve(const struct subcommand *c, int argc, char **argv, struct err *e)
{
	CLEANUP(spec) struct spec *s = spec_new(e);
	CLEANUP(fd) int signals = -1;
	struct mcp_way w = { 0 };
	int r;

	if (!s)
		return -e->code;
	argc = read_way(argc, argv, &w, e);
	if (argc < 0)
		return argc;
	r = cmd_mcp_prepare(c, s, argc, argv, e);
	if (r != 0)
		return r < 0 ? r : 0;
	if (isatty(STDIN_FILENO) && !s->cli.quiet && !w.http)
		message_print("brig: note", "this is an MCP server: a host starts it and writes to "
					    "its input; Ctrl-D ends it");
	signals_ignore_pipe();
	signals = signals_open(SIGNALS_END);
	if (w.http || w.daemon)
		return serve_far(s, &w, signals, e);
	return mcp_stdio(s, NULL, STDIN_FILENO, STDOUT_FILENO, signals, e);
}

/* ---- install and uninstall ---- */

struct mcp_asked {
	const char *host;
	char **rest; /* what brig mcp is to be started with */
	bool dry, quiet, json, out;
};

static int unknown_host(const char *name, struct err *e)
{
	char list[200] = "one of:";
	size_t n = strlen(list);

	for (size_t i = 0; host_name(i) && n < sizeof(list); i++)
		n += (size_t)snprintf(list + n, sizeof(list) - n, " %s", host_name(i));
	return name ? err_refuse(e, ERR_USAGE, EINVAL, list, "there is no host '%.60s'", name)
		    : err_refuse(e, ERR_USAGE, EINVAL, list, "no host was named");
}

static int read_words(int argc, char **argv, struct mcp_asked *a, struct err *e)
{
	int i = 2;

	a->out = str_eq(argv[1], "uninstall");
	for (; i < argc && !str_eq(argv[i], "--"); i++) {
		if (str_eq(argv[i], "--dry-run"))
			a->dry = true;
		else if (str_eq(argv[i], "--quiet"))
			a->quiet = true;
		else if (str_eq(argv[i], "--json"))
			a->json = true;
		else if (argv[i][0] != '-' && !a->host)
			a->host = argv[i];
		else
			return err_refuse(e, ERR_USAGE, EINVAL,
					  "options of the server stand behind --: brig mcp install "
					  "HOST -- --policy readonly",
					  "%s does not accept '%.100s'", argv[1], argv[i]);
	}
	a->rest = i < argc ? argv + i + 1 : argv + argc;
	return a->out && *a->rest
		       ? err_set(e, ERR_USAGE, EINVAL, "uninstall takes no options of the server")
		       : 0;
}

/* What is written is refused by nobody later: the server's own options are read now. */
static int check_words(const struct subcommand *c, char **words, struct err *e)
{
	CLEANUP(spec) struct spec *s = spec_new(e);
	struct mcp_way w = { 0 };
	char *argv[130] = { (char[]){ "mcp" } };
	int n = 1, rest = 0, r;

	if (!s)
		return -e->code;
	for (; words[n - 1]; n++) {
		if (n >= 128)
			return err_set(e, ERR_USAGE, E2BIG, "there are too many options");
		argv[n] = words[n - 1];
	}
	n = read_way(n, argv, &w, e);
	if (n < 0)
		return n;
	if (w.http)
		return err_refuse(e, ERR_USAGE, EINVAL,
				  "leave it out: the host starts brig mcp itself, on stdio",
				  "a server over HTTP is started by hand, and no entry for it is "
				  "written");
	r = options_parse(c, s, n, argv, &rest, e);
	if (r < 0)
		return r;
	return r > 0 || rest < n ? err_set(e, ERR_USAGE, EINVAL, "behind -- stand options alone")
				 : 0;
}

/* Each line of it, indented. */
static void print_entry(const char *p)
{
	for (size_t n; *p; p += n + (p[n] == '\n')) {
		n = strcspn(p, "\n");
		(void)printf("  %.*s\n", (int)n, p);
	}
}

static void print_change(const struct mcp_asked *a, const struct host_change *h)
{
	CLEANUP(buf) struct buf text = BUF_INIT((size_t)1 << 20);
	struct json j;

	json_init(&j, &text, true);
	json_object(&j);
	json_kstr(&j, "file", h->path);
	json_kbool(&j, "changes", h->changes);
	json_kbool(&j, "written", h->changes && !a->dry);
	json_kstr(&j, "entry", a->out ? NULL : buf_str(&h->entry));
	json_kstr(&j, "backup",
		  h->changes && h->there && !h->restores && !h->removes ? h->backup : NULL);
	json_object_end(&j);
	(void)printf("%s\n", buf_str(&text));
}

static void say_change(const struct mcp_asked *a, const struct host_change *h)
{
	const char *what = a->out ? "entry 'brig' of" : "entry 'brig' in";

	if (a->json)
		print_change(a, h);
	if (a->quiet || a->json)
		return;
	if (!h->changes) {
		(void)printf("%s %s: nothing to do\n", what, h->path);
		return;
	}
	(void)printf("%s %s: %s%s\n", what, h->path, a->dry ? "would be " : "",
		     a->out ? "removed" : "written");
	if (!a->out)
		print_entry(buf_str(&h->entry));
	if (h->removes)
		(void)printf("  the file had nothing else: %s\n",
			     a->dry ? "it would go" : "it is gone");
	else if (h->restores)
		(void)printf("  the file is as it was before brig\n");
	else if (h->there)
		(void)printf("  %s %s\n",
			     a->dry ? "before, a copy of the file would be kept in"
				    : "the file as it was is in",
			     h->backup);
	if (!a->out && !a->dry)
		(void)printf("next: start %s anew, in a project; brig audit show last says what it "
			     "ran\n",
			     a->host);
}

/* What another program is to start: brig, in whichever of its programs this is. NULL: none is
 * found, or memory is short. */
static char *brig_path(void)
{
	struct err lost = { 0 };
	char path[PATH_MAX];

	return program_find("brig", path, sizeof(path), &lost) < 0 ? NULL : realpath(path, NULL);
}

static int install(const struct subcommand *c, int argc, char **argv, struct err *e)
{
	CLEANUP(arena) struct arena *arena = arena_new((size_t)1 << 20);
	struct mcp_asked a = { 0 };
	struct host_change done = { 0 };
	char cwd[PATH_MAX];
	const struct place here = { .cwd = cwd, .home = cli_home() };
	const char *config = getenv("XDG_CONFIG_HOME");
	CLEANUP(mem) char *self = brig_path();
	const struct mcp_host *h;
	int r;

	if (read_words(argc, argv, &a, e) < 0)
		return -e->code;
	h = a.host ? host_by_name(a.host) : NULL;
	if (!h)
		return unknown_host(a.host, e);
	/* Whoever starts it does so in the folder of another project. */
	if (!arena)
		return err_nomem(e);
	if (check_words(c, a.rest, e) < 0 || cli_here(cwd, e) < 0 ||
	    options_absolute(arena, &here, a.rest, e) < 0)
		return -e->code;
	if (!cli_home() || !self)
		return err_set(e, ERR_USAGE, ENOENT, self ? "HOME is not set" : "brig has no path");
	if (!a.out && exposed_check("the program", self, NULL, 0, e) < 0)
		return err_hint(e, "install brig where no sandbox may write: make install");
	r = host_install(h, cli_home(), config && config[0] == '/' ? config : NULL, self,
			 a.out ? NULL : a.rest, a.dry, &done, e);
	if (r == 0)
		say_change(&a, &done);
	buf_done(&done.entry);
	return r;
}

static bool is_verb(int argc, char **argv)
{
	return argc > 1 && (str_eq(argv[1], "install") || str_eq(argv[1], "uninstall"));
}

static int cmd_mcp_run(const struct subcommand *c, int argc, char **argv)
{
	struct err e = { 0 };
	int r;

	if (is_verb(argc, argv) && argc > 2 &&
	    (str_eq(argv[2], "--help") || str_eq(argv[2], "-h"))) {
		help_command(c);
		return 0;
	}
	r = is_verb(argc, argv) ? install(c, argc, argv, &e) : cmd_mcp_serve(c, argc, argv, &e);
	if (r == 0)
		return 0;
	error_print(&e);
	return EXIT_BRIG;
}

static const char *cmd_mcp_words(size_t i)
{
	static const char *const list[] = { "install", "uninstall" };

	return i < ARRAY_LEN(list) ? list[i] : NULL;
}

static const char *words_behind(const char *word, size_t i)
{
	return str_eq(word, "install") || str_eq(word, "uninstall") ? host_name(i) : NULL;
}

static const char *const useless[] = { "tty", "json", NULL };

const struct subcommand cmd_mcp = {
	.name = "mcp",
	.usage = "[--http [ADDR:PORT] [--token-file FILE] | --daemon] [OPTION...] | install HOST "
		 "[-- OPTION...] | uninstall HOST",
	.help = "serve tools to a model over MCP, on standard input or over HTTP",
	.about =
		"The options, and brig's configuration, are what the model's commands may do;\n"
		"nothing that the model says changes them.\n"
		"\n"
		"  --http [ADDR:PORT]   over HTTP (" HTTP_ADDRESS "/mcp), in sandboxes of the\n"
		"                       daemon's; a call shows the token printed at the start\n"
		"  --token-file FILE    instead one of brig daemon token add NAME --token-file\n"
		"                       FILE; each name has sandboxes of its own\n"
		"  --daemon             on standard input, in sandboxes of the daemon's that stay\n"
		"  --dry-run, --json    with (un)install: say what would change; as object\n"
		"  install HOST         put an entry for brig into the settings of claude-code,\n"
		"                       claude-desktop, codex, cursor, gemini, opencode, vscode\n"
		"                       or windsurf; a copy is kept. Server options: behind --\n"
		"  uninstall HOST       take it out again\n",
	.exits = "0 when the host has ended; 125 brig failed or refused",
	.fields = CMD_RUN,
	.useless = useless,
	.word = cmd_mcp_words,
	.word_behind = words_behind,
	.run = cmd_mcp_run,
};
