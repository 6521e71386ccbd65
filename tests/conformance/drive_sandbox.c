/* SPDX-License-Identifier: Apache-2.0 */
/* conformance/drive_sandbox.c - one open sandbox, as a test tells it over standard input.
 *
 *	drive-sandbox KEY=VALUE...
 *
 *	exec NUMBER LINE      a command through sh -c; set NUMBER KEY VALUE before it: its settings
 *	folder NUMBER PATH    where it begins
 *	input NUMBER TEXT     what it reads
 *	cancel NUMBER
 *	wait NUMBER           until it is over: its result
 *	turn MILLISECONDS     deals with what happens meanwhile
 *	close                 the sandbox's own result
 *
 * Each line is answered by one: "ok", "error CODE: WORDS", or the number of bytes of the JSON that
 * follows. */
#include <brig.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { COMMANDS = 320 };

struct driven {
	brig_request *request;
	brig_run *run;
};

struct drive {
	brig_sandbox *sandbox;
	struct driven all[COMMANDS];
};

static void answer_error(const struct brig_error *e)
{
	printf("error %s: %s; %s\n", e->code, e->what, e->hint);
}

static void answer(int r, const struct brig_error *e)
{
	if (r < 0)
		answer_error(e);
	else
		puts("ok");
}

static void answer_result(brig_result *r)
{
	char *json = brig_result_json(r);

	printf("%zu\n%s", strlen(json), json);
	free(json);
	brig_result_free(r);
}

static int turn(struct drive *d, int ms)
{
	struct pollfd p[COMMANDS + 1];
	int n;

	for (int i = 0; i < COMMANDS; i++)
		p[i] = (struct pollfd){ .fd = d->all[i].run ? brig_run_fd(d->all[i].run) : -1,
					.events = POLLIN };
	p[COMMANDS] = (struct pollfd){ .fd = d->sandbox ? brig_sandbox_fd(d->sandbox) : -1,
				       .events = POLLIN };
	n = poll(p, COMMANDS + 1, ms);
	if (p[COMMANDS].revents)
		(void)brig_sandbox_dispatch(d->sandbox);
	for (int i = 0; i < COMMANDS; i++)
		if (p[i].revents)
			(void)brig_run_dispatch(d->all[i].run);
	return n;
}

static void turn_for(struct drive *d, long ms)
{
	struct timespec now, until;

	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_sec += ms / 1000;
	for (;;) {
		long left;

		clock_gettime(CLOCK_MONOTONIC, &now);
		left = (until.tv_sec - now.tv_sec) * 1000 +
		       (until.tv_nsec - now.tv_nsec) / 1000000 + ms % 1000;
		if (left <= 0)
			break;
		turn(d, (int)left);
	}
	puts("ok");
}

/* All are turned, so that none has to wait for a reader. */
static void wait_for(struct drive *d, struct driven *c)
{
	struct brig_error e;
	brig_result *r;

	if (!c->run) {
		puts("error usage: no such command; ");
		return;
	}
	while (brig_run_dispatch(c->run) > 0)
		turn(d, 1000);
	(void)brig_run_finish(c->run, &r, &e);
	c->run = NULL;
	brig_request_free(c->request);
	c->request = NULL;
	answer_result(r);
}

static void do_command(struct drive *d, const char *verb, struct driven *c, char *rest)
{
	struct brig_error e;
	char *value;

	if (!c->request)
		c->request = brig_sandbox_command(d->sandbox);
	if (strcmp(verb, "exec") == 0) {
		answer(brig_request_shell(c->request, rest, &e) < 0 ||
				       brig_sandbox_exec(d->sandbox, c->request, &c->run, &e) < 0
			       ? -1
			       : 0,
		       &e);
	} else if (strcmp(verb, "set") == 0) {
		value = strchr(rest, ' ');
		*value++ = '\0';
		answer(brig_request_set(c->request, rest, value, &e), &e);
	} else if (strcmp(verb, "folder") == 0) {
		answer(brig_request_folder(c->request, rest, &e), &e);
	} else if (strcmp(verb, "input") == 0) {
		answer(brig_request_input(c->request, rest, strlen(rest), &e), &e);
	} else if (strcmp(verb, "cancel") == 0) {
		brig_request_cancel(c->request);
		puts("ok");
	} else {
		wait_for(d, c);
	}
}

static void do_line(struct drive *d, char *line)
{
	char *rest = strchr(line, ' ');
	struct brig_error e;
	brig_result *r;

	if (rest)
		*rest++ = '\0';
	if (strcmp(line, "close") == 0) {
		int status = brig_sandbox_close(d->sandbox, &r, &e);

		d->sandbox = NULL;
		if (r)
			answer_result(r);
		else
			answer(status, &e);
	} else if (rest) {
		char *end;
		unsigned long n = strtoul(rest, &end, 10);

		if (strcmp(line, "turn") == 0)
			turn_for(d, (long)n);
		else if (n < COMMANDS)
			do_command(d, line, &d->all[n], *end ? end + 1 : end);
	}
	fflush(stdout);
}

int main(int argc, char **argv)
{
	static struct drive d;
	static char line[65536];
	brig_manager *m = brig_manager_new();
	brig_request *q = brig_request_new(m);
	struct brig_error e;
	int r = 0;

	for (int i = 1; i < argc && r == 0; i++) {
		char *value = strchr(argv[i], '=');

		*value++ = '\0';
		r = brig_request_set(q, argv[i], value, &e);
	}
	if (r == 0)
		r = brig_sandbox_open(q, &d.sandbox, &e);
	answer(r, &e);
	fflush(stdout);
	brig_request_free(q);
	brig_manager_free(m);
	while (r == 0 && fgets(line, sizeof(line), stdin)) {
		line[strcspn(line, "\n")] = '\0';
		do_line(&d, line);
	}
	if (r == 0 && brig_sandbox_close(d.sandbox, NULL, &e) < 0)
		return 2;
	return r < 0;
}
