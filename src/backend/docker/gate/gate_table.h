/* SPDX-License-Identifier: Apache-2.0 */
/* backend/docker/gate/gate_table.h - the kernel's table of mounts (proc(5), mountinfo), line by
 * line. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "backend/docker/gate/gate.h"

struct gate_entry {
	char point[GATE_PATH_MAX];
	char type[32];
	uint64_t dev; /* of the file system, as stat has it */
	bool whole;   /* the file system itself, not a part of it */
	bool nothing; /* the folder that crun shows wherever it hides one */
	bool read_only;
};

/* One line: "36 35 98:0 /root /point ro,... - type source ...". Moves on; false at the end, and
 * where a line makes no sense: then *bad is set. */
bool gate_table_next(const char **at, struct gate_entry *ret, bool *bad);
