/* SPDX-License-Identifier: Apache-2.0 */
/* backend/kit/limits/disk.h - how much a run has written to the host's disk.
 *
 * Each look adds what every process has written since the look before. The kernel hands a process's
 * count to whoever waits for it, in the end to init, whose own count is known to init alone, so
 * init tells. A process that is gone without anybody having got its count (nobody waits where
 * SIGCHLD is ignored) keeps counting with what it had at its last look; as far as those that are
 * left have grown meanwhile they are taken to have got it, so that at most half can be hidden. A
 * process whose first thread has ended is asked thread by thread. One that makes itself unreadable
 * and stays so cannot be held to a limit.
 *
 * What lives and dies between two looks is seen in the file system alone. Others write there as
 * well: what is missing from it beyond the count calls for the next look at once, and a file system
 * that is nearly full counts as written full. Only where the workspace is a file system of its own
 * does the loss itself count. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define DISK_SEEN 2048 /* processes remembered from look to look, and threads of headless ones */

struct disk_process {
	uint64_t bytes;
	int pid;
	uint64_t hidden; /* since then, in microseconds: alive, and not to be read; 0: it can be */
	bool headless;   /* its first thread has ended: bytes are what its threads were counted with
			  */
};

struct disk_list {
	struct disk_process v[DISK_SEEN]; /* by id, as the kernel lists them */
	size_t n;
};

struct disk_pass {
	struct disk_list processes, threads;
};

struct disk {
	int fd;            /* a folder on the workspace's file system */
	uint64_t reaped;   /* bytes, as init told last */
	bool with_init;    /* it is not ours and tells nothing, but its file can be read */
	bool asked;        /* init, and it has not answered yet */
	bool hurry;        /* look again at once */
	uint64_t total;    /* bytes, of all looks */
	uint64_t owed;     /* of the vanished, which nobody seen so far has got */
	uint64_t known;    /* of reaped, at the last look */
	uint64_t room;     /* free bytes at the first look */
	bool begun, alone; /* ... which has been; the workspace is a file system of its own */
	struct disk_pass
		*passes; /* two: this one and the one before, by turns; made by the first */
	unsigned turn;
};

enum disk_seen {
	DISK_OK,
	DISK_HIDDEN, /* not over as far as can be seen, but a living process does not let us look */
	DISK_CLOSED, /* ... for long: not one that is just leaving its memory */
	DISK_OVER,
};

/* Before the command may write: how much room there is, and whose. */
void disk_begin(struct disk *d);
/* A look at all processes of that /proc: has the run written more than it may? */
enum disk_seen disk_look(struct disk *d, int procfd, uint64_t limit);
void disk_done(struct disk *d);
