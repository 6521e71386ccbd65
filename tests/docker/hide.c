/* SPDX-License-Identifier: Apache-2.0 */
/* docker/hide.c - hides its /proc files from the caller's other processes, then waits or ends. */
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0)
		return 1;
	if (argc > 2 && strcmp(argv[1], "sleep") == 0)
		(void)sleep((unsigned)atoi(argv[2]));
	return 0;
}
