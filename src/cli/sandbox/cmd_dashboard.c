/* SPDX-License-Identifier: Apache-2.0 */
/* cli/sandbox/cmd_dashboard.c - "dashboard": asks the daemon for an address, and opens a browser
 * there.
 *
 * The words of a process are everybody's to read, and the code in the address is good for whoever
 * comes first: the browser is given the path of a page of the user's own that leads there. */
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes/json.h"
#include "base/files/draft.h"
#include "base/files/fd.h"
#include "base/files/state.h"
#include "base/text/buf.h"
#include "base/text/num.h"
#include "base/text/str.h"
#include "cli/cli.h"
#include "daemon/client/daemon_client.h"
#include "proc/host_find.h"
#include "proc/host_program.h"

#define PAGE "dashboard.html"
#define OPENER "xdg-open"
#define VARIABLES_MAX ((size_t)4 << 20)

struct dashboard_asked {
	uint64_t port;
	bool no_open, admin, json, help;
};

static int bad_port(const char *text, struct err *e)
{
	return err_refuse(e, ERR_USAGE, EINVAL, "such as --port 8701", "'%.40s' is not a port",
			  text);
}

static int cmd_dashboard_parse(int argc, char **argv, struct dashboard_asked *a, struct err *e)
{
	for (int i = 1; i < argc; i++) {
		const char *port = NULL;

		if (str_starts(argv[i], "--port="))
			port = argv[i] + strlen("--port=");
		else if (str_eq(argv[i], "--port") && i + 1 < argc)
			port = argv[++i];
		if (port && (num_count(port, &a->port) < 0 || !a->port || a->port > UINT16_MAX))
			return bad_port(port, e);
		if (port)
			continue;
		if (str_eq(argv[i], "--no-open"))
			a->no_open = true;
		else if (str_eq(argv[i], "--admin"))
			a->admin = true;
		else if (str_eq(argv[i], "--json"))
			a->json = true;
		else if (str_eq(argv[i], "--help") || str_eq(argv[i], "-h"))
			a->help = true;
		else
			return command_refuses(&cmd_dashboard, argv[i], e);
	}
	return 0;
}

static int cmd_dashboard_ask(const struct dashboard_asked *a, struct jread **ret, struct err *e)
{
	CLEANUP(daemon_client) struct daemon_client *d = NULL;
	CLEANUP(buf) struct buf b = BUF_INIT(256);
	struct daemon_question q = { .method = "POST", .target = "/v1/dashboard" };
	struct json j;

	if (daemon_client_open(true, &d, e) < 0)
		return -e->code;
	json_init(&j, &b, false);
	json_object(&j);
	if (a->port)
		json_ku64(&j, "port", a->port);
	if (a->admin)
		json_kbool(&j, "admin", true);
	json_object_end(&j);
	q.body = buf_str(&b);
	q.body_len = b.len;
	return daemon_client_ask(d, &q, ret, NULL, e);
}

/* What a daemon elsewhere answers is nobody's to print and open unless it is such an address: plain
 * words, of a page on this machine. */
static bool is_page(const char *url)
{
	static const char plain[] =
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-.:/#=";

	return url && str_starts(url, "http://brig-") && strspn(url, plain) == strlen(url) &&
	       strstr(url, ".localhost:");
}

/* One line of HTML: the address has no character that means something there. */
static int write_page(const char *url, char path[PATH_MAX], struct err *e)
{
	CLEANUP(buf) struct buf b = BUF_INIT(4096);
	CLEANUP(fd) int folder = state_open("daemon", path, PATH_MAX, e);
	int r;

	if (folder < 0)
		return folder;
	if (strlen(path) + sizeof(PAGE) + 1 > PATH_MAX)
		return err_set(e, ERR_INTERNAL, EINVAL, "the address cannot be written down");
	(void)snprintf(path + strlen(path), PATH_MAX - strlen(path), "/" PAGE);
	buf_printf(&b,
		   "<!doctype html><meta charset=\"utf-8\"><meta http-equiv=\"refresh\" "
		   "content=\"0;url=%s\"><title>brig</title>\n",
		   url);
	r = draft_write(folder, PAGE, &b, 0600, false);
	return r < 0 ? err_errno(e, r, "cannot write '%.200s'", path) : 0;
}

/* What a browser and what opens one go by. */
static const char *const opener_names[] = { "HOME",
					    "USER",
					    "LOGNAME",
					    "PATH",
					    "LANG",
					    "LC_*",
					    "DISPLAY",
					    "WAYLAND_DISPLAY",
					    "XAUTHORITY",
					    "DBUS_SESSION_BUS_ADDRESS",
					    "DESKTOP_SESSION",
					    "BROWSER",
					    "GNOME_*",
					    "KDE_*",
					    "XDG_*",
					    NULL };

/* Nobody waits for it. */
static int open_page(char *path, struct err *e)
{
	CLEANUP(arena) struct arena *a = arena_new(VARIABLES_MAX);
	const char *const argv[] = { OPENER, path, NULL };
	char program[PATH_MAX];
	struct host_program h = { .program = program, .argv = argv, .session = true };
	pid_t pid;

	if (!a)
		return err_nomem(e);
	if (host_find(OPENER, NULL, NULL, program, e) < 0 ||
	    host_environment(a, opener_names, environ, NULL, &h.envp, e) < 0)
		return -e->code;
	return host_start(&h, &pid, NULL, e);
}

/* Without a screen there is nothing to open it on: the address is printed in any case. */
static void cmd_dashboard_show(const char *url)
{
	char path[PATH_MAX];
	struct err e = { 0 };

	if (!getenv("DISPLAY") && !getenv("WAYLAND_DISPLAY"))
		return;
	if (write_page(url, path, &e) < 0 || open_page(path, &e) < 0) {
		(void)err_hint(&e, "open the address above");
		error_print(&e);
	}
}

static int dashboard(const struct subcommand *c, int argc, char **argv)
{
	CLEANUP(jread) struct jread *answer = NULL;
	struct dashboard_asked a = { 0 };
	struct err e = { 0 };
	const char *url;

	if (cmd_dashboard_parse(argc, argv, &a, &e) == 0) {
		if (a.help) {
			help_command(c);
			return 0;
		}
		if (cmd_dashboard_ask(&a, &answer, &e) == 0) {
			url = jread_str(answer, "url");
			if (!is_page(url)) {
				(void)err_set(&e, ERR_UNAVAILABLE, EBADMSG,
					      "the daemon answered with another address than one "
					      "of its pages");
				error_print(&e);
				return EXIT_BRIG;
			}
			(void)printf(a.json ? "{\"url\":\"%s\",\"expires_s\":60}\n" : "%s\n", url);
			if (!a.json)
				message_log(PRIORITY_NOTICE, "brig: note",
					    "the address is good once, within a minute");
			if (!a.no_open)
				cmd_dashboard_show(url);
			return 0;
		}
	}
	error_print(&e);
	return EXIT_BRIG;
}

/* Its options, for completion. */
static const char *cmd_dashboard_word(size_t i)
{
	static const char *const words[] = { "--admin", "--json", "--no-open", "--port" };

	return i < ARRAY_LEN(words) ? words[i] : NULL;
}

const struct subcommand cmd_dashboard = {
	.name = "dashboard",
	.usage = "[--port N] [--no-open] [--admin] [--json]",
	.help = "watch sandboxes, the network and the record in a browser",
	.about = "  --port N          listen there on loopback; any free port if not given\n"
		 "  --no-open         only print the address\n"
		 "  --admin           a session that may also add a host to your own settings; it\n"
		 "                    ends after 15 minutes, others after 8 hours\n"
		 "  --json            one object with the address\n"
		 "\nThe address has a code in it that is good once, within a minute. Starts a "
		 "daemon\n"
		 "if there is none.\n",
	.word = cmd_dashboard_word,
	.run = dashboard,
};
