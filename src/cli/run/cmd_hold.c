/* SPDX-License-Identifier: Apache-2.0 */
/* cli/run/cmd_hold.c - "_hold" and "_attach": what a brig on another host starts here over ssh, for
 * a sandbox that stays open (docs/design/ssh.md). Not for people: no help, and no options but those
 * of the sandbox. Both write their report to descriptor 3. */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/files/fd.h"
#include "base/text/buf.h"
#include "base/text/num.h"
#include "base/text/str.h"
#include "cli/cli.h"
#include "proc/order.h"
#include "remote/hold.h"
#include "sandbox/manager.h"
#include "sandbox/recorder.h"

#define REPORT_FD 3
#define REPORT_ROOM ((size_t)1 << 30)

static void report(const struct outcome *o)
{
	CLEANUP(buf) struct buf b = BUF_INIT(REPORT_ROOM);
	struct json j;

	json_init(&j, &b, false);
	outcome_json(o, &j);
	buf_putc(&b, '\n');
	if (!b.failed)
		(void)fd_write_all(REPORT_FD, b.data, b.len);
}

static int cmd_hold_refused(const struct err *e)
{
	struct outcome *o = outcome_new();

	if (!o)
		return EXIT_BRIG;
	o->kind = OUTCOME_REFUSED;
	o->error = *e;
	report(o);
	(void)outcome_free(o);
	return EXIT_BRIG;
}

/* A name of the other side's making, and no path. */
static bool is_name(const char *text)
{
	return text && *text && strlen(text) < HOLD_NAME_SIZE &&
	       !text[strspn(text, "0123456789abcdef")];
}

static int cmd_hold_run(const struct subcommand *c, int argc, char **argv)
{
	brig_manager *m = brig_manager_new();
	brig_request *q = m ? brig_request_new(m) : NULL;
	const char *name = getenv("BRIG_RUN");
	struct err e = { 0 }, unrecorded = { 0 };
	brig_result *r = NULL;
	struct brig_error be;
	int rest = 0, status = EXIT_BRIG;

	if (!q)
		(void)err_nomem(&e);
	else if (!is_name(name))
		(void)err_set(&e, ERR_USAGE, EINVAL, "'%s' is for another brig to start", c->name);
	else if (options_parse(c, request_spec(q), argc, argv, &rest, &e) < 0 ||
		 cli_load(request_spec(q), &e) < 0)
		(void)recorder_refused(request_spec(q), c->name, &e, &unrecorded);
	else if (hold_serve(q, name, &r, &be) < 0)
		error_import(&be, &e);
	if (r)
		report(result_outcome(r));
	else
		(void)cmd_hold_refused(&e);
	status = r && !e.code ? 0 : EXIT_BRIG;
	brig_result_free(r);
	brig_request_free(q);
	brig_manager_free(m);
	return status;
}

const struct subcommand cmd_hold = {
	.name = "_hold", .usage = "", .fields = CMD_RUN, .run = cmd_hold_run
};

/* NAME=VARIABLE, as --env-from has it. */
static int take_variables(char **argv, size_t n, struct arena *a, const char ***ret, struct err *e)
{
	const char **v = arena_alloc(a, (n + 1) * sizeof(*v));

	for (size_t i = 0; v && i < n; i++) {
		const char *equals = argv[i] ? strchr(argv[i], '=') : NULL,
			   *value = equals ? getenv(equals + 1) : NULL;

		if (!value)
			return err_set(e, ERR_USAGE, EINVAL, "a variable is missing");
		v[i] = arena_printf(a, "%.*s=%s", (int)(equals - argv[i]), argv[i], value);
		if (!v[i])
			return err_nomem(e);
	}
	*ret = v;
	return v ? 0 : err_nomem(e);
}

/* _attach NAME COMMAND exec TIMEOUT ROWS COLS FOLDER COUNT [NAME=VARIABLE...] WORD...
 * with COLS 0: no terminal. */
static int attach_exec(struct hold_ask *q, int argc, char **argv, struct err *e)
{
	CLEANUP(arena) struct arena *a = arena_new((size_t)64 << 20);
	uint64_t rows = 0, cols = 0, count = 0;
	const char **vars = NULL;
	struct order o = { .path = "" };

	if (argc < 10 || num_count(argv[4], &q->timeout) < 0 || num_count(argv[5], &rows) < 0 ||
	    num_count(argv[6], &cols) < 0 || num_count(argv[8], &count) < 0 ||
	    count > (uint64_t)argc - 10 || rows > UINT16_MAX || cols > UINT16_MAX)
		return err_set(e, ERR_USAGE, EINVAL, "the command could not be read");
	if (!a)
		return err_nomem(e);
	q->asks = HOLD_EXEC;
	q->rows = (uint16_t)rows;
	q->cols = (uint16_t)cols;
	q->tty = cols != 0;
	if (take_variables(argv + 9, count, a, &vars, e) < 0)
		return -e->code;
	o.cwd = argv[7];
	o.envp = vars;
	o.argv = (const char *const *)argv + 9 + count;
	return hold_exec(argv[1], q, &o, REPORT_FD, e);
}

/* _attach NAME COMMAND signal NUMBER, or: size ROWS COLS */
static int attach_tell(struct hold_ask *q, int argc, char **argv, struct err *e)
{
	uint64_t first = 0, second = 0;

	if (argc < 5 || num_count(argv[4], &first) < 0 || first > UINT16_MAX ||
	    (argc > 5 && num_count(argv[5], &second) < 0) || second > UINT16_MAX)
		return err_set(e, ERR_USAGE, EINVAL, "the words could not be read");
	q->asks = str_eq(argv[3], "size") ? HOLD_SIZE : HOLD_SIGNAL;
	q->value = (uint32_t)first;
	q->rows = (uint16_t)first;
	q->cols = (uint16_t)second;
	return hold_tell(argv[1], q, e);
}

static int cmd_hold_attach(const struct subcommand *c, int argc, char **argv)
{
	struct hold_ask q = { .version = HOLD_VERSION };
	uint64_t command = 0;
	struct err e = { 0 };

	if (argc < 4 || !is_name(argv[1]) || num_count(argv[2], &command) < 0 ||
	    command > UINT32_MAX)
		(void)err_set(&e, ERR_USAGE, EINVAL, "'%s' is for another brig to start", c->name);
	q.command = (uint32_t)command;
	if (!e.code && !str_eq(argv[3], "exec"))
		return attach_tell(&q, argc, argv, &e) < 0 ? EXIT_BRIG : 0;
	if (!e.code && attach_exec(&q, argc, argv, &e) == 0)
		return 0;
	return cmd_hold_refused(&e);
}

const struct subcommand cmd_attach = { .name = "_attach", .usage = "", .run = cmd_hold_attach };
