/* SPDX-License-Identifier: Apache-2.0 */
/* examples/python.c - Python code and a script as requests: a file of the working folder with 30
 * seconds, 256 MB and a variable; code from memory; a script with a parameter.
 *
 *	cc python.c $(pkg-config --cflags --libs brig) -o python && ./python FOLDER
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <brig.h>

static void print(const char *name, const brig_result *r)
{
	char *text = r ? brig_result_text(r, 200) : NULL;

	printf("--- %s\n%s\n", name, text ? text : "nothing");
	free(text);
}

/* Runs the request and frees it. */
static int run(const char *name, brig_request *q)
{
	struct brig_error e;
	brig_result *r = NULL;
	int failed = brig_execute(q, &r, &e) < 0;

	if (failed)
		fprintf(stderr, "%s: %s\n", name, e.what);
	print(name, r);
	brig_result_free(r);
	brig_request_free(q);
	return failed;
}

static int step(brig_manager *m, const char *folder, struct brig_error *e)
{
	struct brig_limits limits = { .memory_bytes = 256u << 20, .timeout_ms = 30000 };
	brig_request *q = brig_request_new(m);
	char path[4096];

	snprintf(path, sizeof(path), "%s/step.py", folder);
	if (brig_request_workdir(q, folder, e) < 0 || brig_request_python_file(q, path, e) < 0 ||
	    brig_request_env(q, "TASK_ID", "abc123", e) < 0 ||
	    brig_request_limits(q, &limits, e) < 0)
		return brig_request_free(q), -1;
	return run("step", q);
}

static int from_memory(brig_manager *m, const char *folder, struct brig_error *e)
{
	static const char code[] = "import sys\nprint(sys.argv[1], sys.stdin.read())\nsys.exit(3)\n";
	brig_request *q = brig_request_new(m);

	if (brig_request_workdir(q, folder, e) < 0 ||
	    brig_request_python(q, code, strlen(code), e) < 0 ||
	    brig_request_arg(q, "an argument", e) < 0 || brig_request_input(q, "input", 5, e) < 0)
		return brig_request_free(q), -1;
	return run("code", q);
}

static int script(brig_manager *m, const char *folder, struct brig_error *e)
{
	static const char body[] = "echo \"hello $NAME\"\necho warning >&2\n";
	brig_request *q = brig_request_new(m);

	if (brig_request_workdir(q, folder, e) < 0 ||
	    brig_request_script(q, NULL, body, strlen(body), e) < 0 ||
	    brig_request_param(q, "name", "world", e) < 0)
		return brig_request_free(q), -1;
	return run("script", q);
}

int main(int argc, char **argv)
{
	brig_manager *m = brig_manager_new();
	struct brig_error e = { .errnum = 0 };
	int failed = argc != 2 || !m;

	if (!failed)
		failed = step(m, argv[1], &e) || from_memory(m, argv[1], &e) || script(m, argv[1], &e);
	if (e.errnum)
		fprintf(stderr, "%s\n", e.what);
	brig_manager_free(m);
	return failed ? 1 : 0;
}
