/* SPDX-License-Identifier: Apache-2.0 */
/* contained.c - runs one line of sh in a sandbox around the current folder. */
#include <brig.h>
#include <stdio.h>

int main(int argc, char **argv)
{
	brig_manager *m = brig_manager_new();
	brig_result *r = NULL;
	struct brig_error e = { .errnum = 0 };
	int failed = !m || argc < 2 ||
		     brig_manager_set(m, "limits.memory", "256m", &e) < 0 ||
		     brig_execute_command(m, argv[1], ".", NULL, &r, &e) < 0;

	if (failed)
		fprintf(stderr, "%s\n", e.errnum ? e.what : "usage: contained LINE");
	else
		printf("%s%s, exit %d\n", brig_result_output(r, NULL), brig_result_outcome(r),
		       brig_result_exit_code(r));
	brig_result_free(r);
	brig_manager_free(m);
	return failed;
}
