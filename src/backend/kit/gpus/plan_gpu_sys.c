/* SPDX-License-Identifier: Apache-2.0 */
/* backend/kit/gpus/plan_gpu_sys.c - what programs ask /sys of a GPU.
 *
 * CUDA asks which node of memory a GPU is near, how large a block of memory is and whether the
 * driver's modules are loaded.
 *
 * libdrm, and through it Mesa and ROCm, learn from /sys/dev/char/MAJOR:MINOR/device whose GPU a
 * node is; hwloc asks /sys/bus/pci/devices which CPUs are near; ROCm asks the driver kfd for its
 * topology. The first two are small files, copied by name: a device's own folder also has its
 * registers, its firmware, its fans. The topology is a tree of the kernel's, and shown read-only.
 */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "backend/kit/gpus/gpu_driver.h"
#include "backend/kit/plan/plan_internal.h"
#include "base/text/str.h"

#define PCI_DEVICES "/sys/bus/pci/devices"
#define KFD "/sys/devices/virtual/kfd/kfd"
#define SLOT_KEY "PCI_SLOT_NAME="

enum { DEVICE_ROOM = 64, ATTRIBUTE_ROOM = 4096 };

static const char *const attributes[] = {
	"vendor", "device", "subsystem_vendor", "subsystem_device", "revision",
	"class",  "uevent", "numa_node",        "local_cpus",       "local_cpulist",
};

/* One that the kernel does not have is not there inside either. */
static int copy_attribute(struct box_plan *p, const char *device, const char *name, struct err *e)
{
	const char *path = arena_printf(p->arena, "%s/%s", device, name);
	char text[ATTRIBUTE_ROOM];
	ssize_t n;

	if (!path)
		return err_nomem(e);
	n = fd_read_file(AT_FDCWD, path, text, sizeof(text));
	return n < 0 ? 0 : plan_file(p, path, arena_strndup(p->arena, text, (size_t)n), e);
}

/* "pci", "platform": programs look at the end of a link alone. */
static int copy_bus(struct box_plan *p, const char *device, bool *pci, struct err *e)
{
	char path[DEVICE_ROOM + 16], to[256];
	const char *bus;
	ssize_t n;

	(void)snprintf(path, sizeof(path), "%s/subsystem", device);
	n = readlink(path, to, sizeof(to) - 1);
	if (n < 0)
		return 0;
	to[n] = '\0';
	bus = strrchr(to, '/');
	*pci = bus && str_eq(bus, "/pci");
	if (!bus)
		return 0;
	bus = arena_printf(p->arena, "../../../../bus%s", bus);
	return bus ? plan_link(p, path, bus, e) : err_nomem(e);
}

/* Its name on the bus, by what the kernel says of it. */
static int link_slot(struct box_plan *p, const char *device, struct err *e)
{
	char path[DEVICE_ROOM + 16], text[ATTRIBUTE_ROOM];
	const char *slot, *link, *to;
	size_t n;

	(void)snprintf(path, sizeof(path), "%s/uevent", device);
	if (fd_read_file(AT_FDCWD, path, text, sizeof(text)) < 0)
		return 0;
	slot = strstr(text, SLOT_KEY);
	if (!slot)
		return 0;
	slot += strlen(SLOT_KEY);
	n = strcspn(slot, "\n");
	if (!n || strspn(slot, "0123456789abcdef:.") != n)
		return 0;
	link = arena_printf(p->arena, PCI_DEVICES "/%.*s", (int)n, slot);
	to = arena_printf(p->arena, "../../..%s", device + strlen("/sys"));
	return link && to ? plan_link(p, link, to, e) : err_nomem(e);
}

int plan_gpu_render(struct box_plan *p, dev_t number, struct err *e)
{
	char device[DEVICE_ROOM];
	const char *node, *says;
	bool pci = false;

	(void)snprintf(device, sizeof(device), "/sys/dev/char/%u:%u/device", major(number),
		       minor(number));
	if (access(device, X_OK) < 0)
		return 0;
	for (size_t i = 0; i < ARRAY_LEN(attributes); i++)
		if (copy_attribute(p, device, attributes[i], e) < 0)
			return -e->code;
	node = arena_printf(p->arena, "%s/drm/renderD%u/dev", device, minor(number));
	says = arena_printf(p->arena, "%u:%u\n", major(number), minor(number));
	if (!node || !says)
		return err_nomem(e);
	if (plan_file(p, node, says, e) < 0 || copy_bus(p, device, &pci, e) < 0)
		return -e->code;
	return pci ? link_slot(p, device, e) : 0;
}

/* Small files of the kernel's that are the same for all of NVIDIA's GPUs. */
static const char *const of_nvidia[][2] = {
	{ "/sys/devices/system/memory", "block_size_bytes" },
	{ "/sys/module/nvidia", "initstate" },
	{ "/sys/module/nvidia_uvm", "initstate" },
};

static bool has_place(const struct box_plan *p, const char *path)
{
	for (size_t i = 0; i < p->op_count; i++)
		if (str_eq(p->ops[i].dst, path))
			return true;
	return false;
}

/* One that is computed with through its render node, too, has its place from there. */
static int show_near(void *arg, const char *slot, unsigned number, struct err *e)
{
	struct box_plan *p = arg;
	const char *place = arena_printf(p->arena, PCI_DEVICES "/%s", slot);

	if (!place)
		return err_nomem(e);
	if (number >= GPUS_MAX || !(p->gpus.nvidia >> number & 1) || has_place(p, place))
		return 0;
	return copy_attribute(p, place, "numa_node", e);
}

int plan_gpu_nvidia(struct box_plan *p, struct err *e)
{
	if (!p->gpus.nvidia)
		return 0;
	for (size_t i = 0; i < ARRAY_LEN(of_nvidia); i++)
		if (copy_attribute(p, of_nvidia[i][0], of_nvidia[i][1], e) < 0)
			return -e->code;
	return gpu_each_place(show_near, p, e);
}

int plan_gpu_topology(struct box_plan *p, struct err *e)
{
	struct stat st;

	if (lstat(KFD "/topology", &st) < 0 || !S_ISDIR(st.st_mode))
		return 0;
	return plan_bind_seen(p, KFD "/topology", KFD "/topology", false, false, &st, e) < 0
		       ? -e->code
		       : plan_link(p, "/sys/class/kfd/kfd", "../../devices/virtual/kfd/kfd", e);
}
