/* SPDX-License-Identifier: Apache-2.0 */
/* backend/kit/survey/record_devices.h - by which numbers devices are known in the records.
 *
 * A record is named by device and inode, and many devices have another number when they are mounted
 * again. Who looks for the record of a tree that has none by its name would have to list all: so
 * each number that there is a record of has an empty file in STATE/records/devices, made before the
 * first such record. They are few. */
#pragma once

#include "base/files/fd.h"
#include "base/files/folder.h"

/* Before a record of that device is made; 0 or -errno. */
int record_device_note(int records, dev_t dev);
/* Shows fn the names of the records of that inode, by whatever device. */
void record_same_inode(int records, ino_t ino, folder_look *fn, void *arg);
