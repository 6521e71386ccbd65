/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz/replay.c - feeds every file of a folder to a fuzz target, so that a corpus is an ordinary
 * test.
 *
 * Each input is also tried without its end, at every length: a parser must stop where it is told.
 */
#include <dirent.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define INPUT_MAX ((size_t)1 << 20)
#define CUTS_MAX 512

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* In a block of exactly its size, so that a read past the end is seen by a sanitizer. */
static void feed(const uint8_t *data, size_t n)
{
	uint8_t *copy = malloc(n ? n : 1);

	if (!copy)
		abort();
	memcpy(copy, data, n);
	(void)LLVMFuzzerTestOneInput(copy, n);
	free(copy);
}

static int replay(int dir, const char *name, uint8_t *data)
{
	int fd = openat(dir, name, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, data, INPUT_MAX);

	if (fd >= 0)
		(void)close(fd);
	if (n < 0) {
		perror(name);
		return -1;
	}
	(void)fprintf(stderr, "%s\n", name);
	for (size_t cut = 0; cut < (size_t)n && cut < CUTS_MAX; cut++)
		feed(data, cut);
	feed(data, (size_t)n);
	return 0;
}

int main(int argc, char **argv)
{
	DIR *d = argc == 2 ? opendir(argv[1]) : NULL;
	uint8_t *data = malloc(INPUT_MAX);
	int done = 0, bad = 0;

	if (!d || !data) {
		(void)fprintf(stderr, "usage: replay FOLDER\n");
		return 1;
	}
	for (struct dirent *e; (e = readdir(d));)
		if (e->d_name[0] != '.') {
			bad += replay(dirfd(d), e->d_name, data) < 0;
			done++;
		}
	(void)closedir(d);
	free(data);
	(void)printf("%d inputs\n", done);
	return bad || !done;
}
