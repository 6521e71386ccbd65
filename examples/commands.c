/* SPDX-License-Identifier: Apache-2.0 */
/* commands.c - several commands in one sandbox: a server that stays, and one that asks it.
 *
 *	cc examples/commands.c $(pkg-config --cflags --libs brig) -o commands
 *	./commands FOLDER
 */
#include <brig.h>
#include <stdio.h>

static int failed(const struct brig_error *e)
{
	fprintf(stderr, "%s: %s\n", e->code, e->what);
	return 1;
}

static int begin(brig_sandbox *s, const char *line, brig_request **q, brig_run **run)
{
	struct brig_error e = { .errnum = 0 };

	*q = brig_sandbox_command(s);
	if (!*q)
		return 1;
	if (brig_request_shell(*q, line, &e) < 0 || brig_sandbox_exec(s, *q, run, &e) < 0)
		return failed(&e);
	return 0;
}

static int end(brig_run *run)
{
	struct brig_error e = { .errnum = 0 };
	brig_result *r = NULL;
	int status = brig_run_finish(run, &r, &e);

	if (status < 0)
		(void)failed(&e);
	else
		printf("%s: %s", brig_result_outcome(r), brig_result_output(r, NULL));
	brig_result_free(r);
	return status < 0;
}

static int work(brig_sandbox *s)
{
	brig_request *server = NULL, *client = NULL;
	brig_run *serves = NULL, *asks = NULL;
	int bad;

	bad = begin(s, "mkfifo /tmp/in; echo up; read x < /tmp/in; echo $x > /tmp/out; sleep 600",
		    &server, &serves) ||
	      begin(s,
		    "while [ ! -p /tmp/in ]; do sleep 0.01; done; echo hello > /tmp/in; "
		    "while [ ! -s /tmp/out ]; do sleep 0.01; done; cat /tmp/out",
		    &client, &asks);
	if (asks)
		bad |= end(asks);
	/* The server has all day; it and what it started end here. */
	if (server)
		brig_request_cancel(server);
	if (serves)
		bad |= end(serves);
	brig_request_free(client);
	brig_request_free(server);
	return bad;
}

int main(int argc, char **argv)
{
	struct brig_error e = { .errnum = 0 };
	brig_manager *m = brig_manager_new();
	brig_request *q = m ? brig_request_new(m) : NULL;
	brig_sandbox *s = NULL;
	int bad = !q;

	if (!bad && (brig_request_workdir(q, argc > 1 ? argv[1] : ".", &e) < 0 ||
		     brig_sandbox_open(q, &s, &e) < 0))
		bad = failed(&e);
	if (!bad)
		bad = work(s);
	if (brig_sandbox_close(s, NULL, &e) < 0)
		bad = failed(&e);
	brig_request_free(q);
	brig_manager_free(m);
	return bad;
}
