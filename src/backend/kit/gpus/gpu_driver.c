/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/kit/gpus/gpu_driver.h"

#include <fcntl.h>
#include <stdio.h>

#include "base/files/folder.h"
#include "base/text/str.h"

#define GPUS "/proc/driver/nvidia/gpus"
#define CAPABILITIES "/proc/driver/nvidia/capabilities"

enum { FILE_ROOM = 4096 };

static bool gpu_driver_read_file(int folder, const char *path, char text[FILE_ROOM])
{
	return fd_read_file(folder, path, text, FILE_ROOM) >= 0;
}

/* The one of that id, among those that the driver has. */
static bool find_uuid(const char *uuid, unsigned *ret)
{
	CLEANUP(fd) int gpus = open(GPUS, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	char text[FILE_ROOM], path[300], is[GPU_UUID_ROOM];
	const struct fd_entry *entry;
	struct folder f;

	if (gpus < 0)
		return false;
	folder_begin(&f, gpus);
	while ((entry = folder_next(&f))) {
		(void)snprintf(path, sizeof(path), "%s/information", entry->name);
		if (gpu_driver_read_file(gpus, path, text) && gpu_information(text, is, ret) &&
		    str_eq(is, uuid))
			return true;
	}
	return false;
}

int gpu_find(const char *text, struct gpu_name *ret, struct err *e)
{
	if (!gpu_name(text, ret))
		return err_set(e, ERR_INTERNAL, EINVAL, "gpu '%.60s' was not checked", text);
	if (str_starts(ret->uuid, "MIG-"))
		return err_refuse(
			e, ERR_UNAVAILABLE, ENOTSUP,
			"by its GPU and its instances, such as 0/3/0: nvidia-smi mig -lci",
			"gpu '%.60s': the kernel does not tell which one that is", text);
	if (ret->uuid[0] && !find_uuid(ret->uuid, &ret->number))
		return err_refuse(e, ERR_UNAVAILABLE, ENODEV, "nvidia-smi -L lists them",
				  "gpu '%.60s' is not here", text);
	return 0;
}

static int show_right(int folder, const char *path, gpu_show *fn, void *arg, struct err *e)
{
	struct gpu_node n;
	char text[FILE_ROOM];

	if (!gpu_driver_read_file(folder, path, text) || !gpu_capability(text, &n))
		return err_refuse(e, ERR_UNAVAILABLE, ENODEV, "nvidia-smi mig -lci lists instances",
				  "gpu: there is no MIG device '%.100s'", path);
	return fn(arg, &n, e);
}

/* Of one that is being removed the file may be gone already. */
static int show_all(int folder, const char *prefix, gpu_show *fn, void *arg, struct err *e)
{
	const struct fd_entry *entry;
	struct folder f;
	char path[300];

	folder_begin(&f, folder);
	while ((entry = folder_next(&f))) {
		CLEANUP(fd) int below = -1;

		if (!str_starts(entry->name, prefix))
			continue;
		(void)snprintf(path, sizeof(path), "%s/access", entry->name);
		if (show_right(folder, path, fn, arg, e) < 0)
			return -e->code;
		below = openat(folder, entry->name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		if (below >= 0 && str_eq(prefix, "gi") && show_all(below, "ci", fn, arg, e) < 0)
			return -e->code;
	}
	return 0;
}

int gpu_each_place(gpu_place *fn, void *arg, struct err *e)
{
	CLEANUP(fd) int gpus = open(GPUS, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	char text[FILE_ROOM], path[300], uuid[GPU_UUID_ROOM];
	const struct fd_entry *entry;
	struct folder f;
	unsigned number;

	if (gpus < 0)
		return 0;
	folder_begin(&f, gpus);
	while ((entry = folder_next(&f))) {
		(void)snprintf(path, sizeof(path), "%s/information", entry->name);
		if (gpu_driver_read_file(gpus, path, text) &&
		    gpu_information(text, uuid, &number) && fn(arg, entry->name, number, e) < 0)
			return -e->code;
	}
	return 0;
}

int gpu_each_instance(unsigned number, gpu_show *fn, void *arg, struct err *e)
{
	CLEANUP(fd) int mig = -1;
	char path[80];

	(void)snprintf(path, sizeof(path), CAPABILITIES "/gpu%u/mig", number);
	mig = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return mig < 0 ? 0 : show_all(mig, "gi", fn, arg, e);
}

int gpu_instance(const struct gpu_name *name, gpu_show *fn, void *arg, struct err *e)
{
	char gi[80], ci[100];

	(void)snprintf(gi, sizeof(gi), CAPABILITIES "/gpu%u/mig/gi%u/access", name->number,
		       name->gi);
	(void)snprintf(ci, sizeof(ci), CAPABILITIES "/gpu%u/mig/gi%u/ci%u/access", name->number,
		       name->gi, name->ci);
	return show_right(AT_FDCWD, gi, fn, arg, e) < 0 ? -e->code
							: show_right(AT_FDCWD, ci, fn, arg, e);
}
