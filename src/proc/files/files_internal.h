/* SPDX-License-Identifier: Apache-2.0 */
/* proc/files/files_internal.h - what the files of brig-files share. */
#pragma once

#include <stddef.h>
#include <sys/stat.h>

#include "proc/files/files.h"

struct file_work {
	struct file_order o;
	int data, answers, word;
	uint64_t *written;        /* the supervisor's: bytes to disk */
	char left[FILE_LEFT_MAX]; /* names that were left out, each with its NUL */
	size_t left_len;
};

/* Each returns 0 or -errno, which is the end of it. */
typedef int file_verb_fn(struct file_work *w);
file_verb_fn file_stat, file_read, file_write, file_list, file_mkdir, file_move, file_remove,
	file_watch, file_pack, file_unpack;

/* The mode that is told: what brig shows where a missing name is held, a file of no name, is told
 * as the node that holds it. */
uint32_t file_mode(const struct stat *st);

/* The descriptor of what the path names, without following a link; -errno. */
int file_open(const char *path, int flags);
/* The folder that holds it, and its name there; -EINVAL for "/". */
int file_above(const char *path, int flags, const char **name);
/* A regular file that is one: no file of the kernel's. */
int file_is_plain(int fd, struct stat *ret);
void file_has(struct file_work *w, const struct stat *st);
void file_tell_left(const struct file_work *w);
