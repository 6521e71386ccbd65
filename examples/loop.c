/* SPDX-License-Identifier: Apache-2.0 */
/* loop.c - several commands at once from one thread, on a loop of the program's own.
 *
 *	cc examples/loop.c $(pkg-config --cflags --libs brig) -o loop
 *	./loop FOLDER
 */
#include <brig.h>
#include <poll.h>
#include <stdio.h>

enum { COMMANDS = 3 };

static const char *const lines[COMMANDS] = { "sleep 0.3; echo third", "echo first",
					     "sleep 0.1; echo second" };

struct job {
	brig_request *request;
	brig_run *run; /* NULL: not started, or over */
};

static int failed(const struct brig_error *e)
{
	fprintf(stderr, "%s: %s\n", e->code, e->what);
	return 1;
}

static int begin(brig_manager *m, const char *folder, const char *line, struct job *j)
{
	struct brig_error e = { .errnum = 0 };

	j->request = brig_request_new(m);
	if (!j->request)
		return 1;
	if (brig_request_shell(j->request, line, &e) < 0 ||
	    brig_request_workdir(j->request, folder, &e) < 0 ||
	    brig_start(j->request, &j->run, &e) < 0)
		return failed(&e);
	return 0;
}

static int end(struct job *j)
{
	struct brig_error e = { .errnum = 0 };
	brig_result *r = NULL;
	int status = brig_run_finish(j->run, &r, &e);

	j->run = NULL;
	if (status < 0)
		(void)failed(&e);
	else
		printf("%s, exit %d: %s", brig_result_outcome(r), brig_result_exit_code(r),
		       brig_result_output(r, NULL));
	brig_result_free(r);
	return status < 0;
}

/* Until all of them are over. */
static int serve(struct job *jobs)
{
	int left = COMMANDS, bad = 0;

	while (left > 0) {
		struct pollfd p[COMMANDS];

		for (int i = 0; i < COMMANDS; i++) {
			p[i].fd = jobs[i].run ? brig_run_fd(jobs[i].run) : -1;
			p[i].events = POLLIN;
			p[i].revents = 0;
		}
		if (poll(p, COMMANDS, -1) < 0)
			return 1;
		for (int i = 0; i < COMMANDS; i++) {
			if (!p[i].revents || brig_run_dispatch(jobs[i].run))
				continue;
			bad |= end(&jobs[i]);
			left--;
		}
	}
	return bad;
}

int main(int argc, char **argv)
{
	const char *folder = argc > 1 ? argv[1] : ".";
	struct job jobs[COMMANDS] = { { NULL, NULL } };
	brig_manager *m = brig_manager_new();
	int bad = !m;

	for (int i = 0; i < COMMANDS && !bad; i++)
		bad = begin(m, folder, lines[i], &jobs[i]);
	if (!bad)
		bad = serve(jobs);
	for (int i = 0; i < COMMANDS; i++) {
		if (jobs[i].run)
			(void)end(&jobs[i]);
		brig_request_free(jobs[i].request);
	}
	brig_manager_free(m);
	return bad;
}
