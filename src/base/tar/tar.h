/* SPDX-License-Identifier: Apache-2.0 */
/* base/tar/tar.h - archives of folders: written and read without trusting either side.
 *
 * Only folders, regular files and, where they are asked for, symbolic links pass; everything else
 * in a tree is left out, everything else in an archive ends its reading. Nothing is allocated:
 * safe between clone and exec. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum { TAR_BLOCK = 512, TAR_NAME_MAX = 4096, TAR_DEPTH_MAX = 64 };

enum tar_type {
	TAR_FILE,
	TAR_FOLDER,
	TAR_LINK,     /* symbolic */
	TAR_LONGNAME, /* of GNU: the data is the name of the next entry */
	TAR_LONGLINK, /* likewise, its target */
	TAR_PAX,      /* the data is about the next entry */
	TAR_GLOBAL,   /* ... about all that follow, which nobody needs */
	TAR_END,      /* a block of zeros */
	TAR_HARDLINK, /* target: the name of an entry before it */
	TAR_NODE,     /* devices and pipes */
	TAR_OTHER,    /* sparse files, and what nobody knows */
};

struct tar_entry {
	enum tar_type type;
	mode_t mode; /* permissions alone, no set-id bits */
	uint64_t size;
	int64_t mtime; /* seconds */
	char name[TAR_NAME_MAX], target[TAR_NAME_MAX];
};

/* One header. 0 or -EBADMSG. */
int tar_parse(const char block[TAR_BLOCK], struct tar_entry *ret);

/* The data of a TAR_PAX entry: what it says of name, target and size goes to *ret; *sized: size was
 * said. 0 or -EBADMSG. */
int tar_parse_pax(const char *p, size_t n, struct tar_entry *ret, bool *sized);

/* Is it a path of an entry that stays beneath? Leading "./" and a trailing "/" are taken off in
 * place; "" is the folder itself. */
bool tar_clean_name(char *name);

/* Both move n bytes, all of them: 0 or -errno. */
typedef int tar_put_fn(void *arg, const void *p, size_t n);
typedef int tar_get_fn(void *arg, void *p, size_t n);

/* Writes the headers of an entry. */
int tar_put_entry(tar_put_fn *put, void *arg, const struct tar_entry *t);

/* Asked of each name in a folder before it is opened: 0, take it; 1, leave it and all below it out;
 * -errno ends the packing. `path` is from the top. */
typedef int tar_look_fn(void *arg, int folder, const char *name, const char *path);

/* Told of each thing that is left out; `path` is from the top. */
typedef void tar_left_fn(void *arg, const char *path);

struct tar_limits {
	uint64_t bytes, entries; /* what is left of them */
	bool links;              /* take symbolic links, too */
	bool drops;              /* of unpacking: leave links out, and count them */
	mode_t mask;             /* of unpacking: permissions that no file gets */
	tar_look_fn *look;       /* of packing; NULL: everything is taken */
	tar_left_fn *left;       /* of packing; NULL: they are only counted */
	uint64_t left_out;       /* links, devices..., things that could not be read */
};

/* A folder open for reading and all below it, or one file under its name, to `put`; `copy` (may be
 * NULL) moves n bytes of a file's data: how many, less than n: the file was shorter. */
typedef int64_t tar_copy_fn(void *arg, int file, uint64_t n);
int tar_pack(int folder, struct tar_limits *l, tar_put_fn *put, tar_copy_fn *copy, void *arg);
int tar_pack_file(int file, const char *name, struct tar_limits *l, tar_put_fn *put,
		  tar_copy_fn *copy, void *arg);
int tar_pack_end(tar_put_fn *put, void *arg);

/* Makes what an archive says beneath the folder, replacing files that are there; no link is
 * followed. `save` (may be NULL) moves n bytes into a file. A file has its name once it is whole.
 * -EBADMSG: this is no such archive, or it wants to be elsewhere; -EFBIG: beyond the limits. */
typedef int tar_save_fn(void *arg, int file, uint64_t n);
int tar_unpack(int folder, struct tar_limits *l, tar_get_fn *get, tar_save_fn *save, void *arg);
