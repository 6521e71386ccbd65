/* SPDX-License-Identifier: Apache-2.0 */
/* run.c - brig from C: a request with streamed output, then one command with a policy of its own
 * and one with limits of its own.
 *
 *	cc examples/run.c $(pkg-config --cflags --libs brig) -o run
 *	./run FOLDER
 */
#include <brig.h>
#include <stdio.h>

static int failed(const struct brig_error *e)
{
	fprintf(stderr, "%s: %s\n", e->code, e->what);
	if (e->hint[0])
		fprintf(stderr, "hint: %s\n", e->hint);
	return 1;
}

/* Prints how a run went and frees it. A run that was refused has a result, too. */
static int report(const char *name, int status, brig_result *r, const struct brig_error *e)
{
	if (status < 0)
		(void)failed(e);
	else
		printf("%s: %s, exit %d\n", name, brig_result_outcome(r), brig_result_exit_code(r));
	brig_result_free(r);
	return status < 0;
}

/* Called while the command runs, with whole characters. */
static void on_output(void *arg, int stream, const char *data, size_t n)
{
	*(size_t *)arg += n;
	printf("stream %d: %.*s", stream, (int)n, data);
}

static int streamed(brig_manager *m, const char *folder)
{
	const char *const argv[] = { "sh", "-c", "tr a-z A-Z; echo \"$GREETING\" >&2", NULL };
	const struct brig_limits limits = { .memory_bytes = 256 << 20, .timeout_ms = 10000 };
	brig_request *q = brig_request_new(m);
	brig_result *r = NULL;
	struct brig_error e = { .errnum = 0 };
	size_t seen = 0;
	int status;

	if (!q)
		return 1;
	brig_request_on_output(q, on_output, &seen);
	if (brig_request_argv(q, argv, &e) < 0 || brig_request_workdir(q, folder, &e) < 0 ||
	    brig_request_env(q, "GREETING", "hello", &e) < 0 ||
	    brig_request_policy(q, BRIG_WORKSPACE_WRITE, &e) < 0 ||
	    brig_request_limits(q, &limits, &e) < 0 || brig_request_input(q, "text\n", 5, &e) < 0) {
		brig_request_free(q);
		return failed(&e);
	}
	status = brig_execute(q, &r, &e);
	brig_request_free(q);
	printf("%zu bytes\n", seen);
	return report("request", status, r, &e);
}

static int own_policy(brig_manager *m, const char *folder)
{
	brig_result *r = NULL;
	struct brig_error e = { .errnum = 0 };
	int status = brig_execute_with_policy(m, "touch file 2>/dev/null", folder, BRIG_READONLY,
					      NULL, &r, &e);

	return report("readonly", status, r, &e);
}

static int own_limits(brig_manager *m, const char *folder)
{
	const struct brig_limits limits = { .timeout_ms = 500 };
	brig_result *r = NULL;
	struct brig_error e = { .errnum = 0 };
	int status = brig_execute_with_limits(m, "sleep 60", folder, &limits, &r, &e);

	return report("half a second", status, r, &e);
}

int main(int argc, char **argv)
{
	const char *folder = argc > 1 ? argv[1] : ".";
	brig_manager *m = brig_manager_new();
	struct brig_error e = { .errnum = 0 };
	int bad;

	if (!m)
		return 1;
	if (brig_manager_set(m, "network", "none", &e) < 0 || brig_manager_ready(m, &e) < 0)
		bad = failed(&e);
	else
		bad = streamed(m, folder) || own_policy(m, folder) || own_limits(m, folder);
	brig_manager_free(m);
	return bad;
}
