/* SPDX-License-Identifier: Apache-2.0 */
#include "base/files/kernelfs.h"

#include <stddef.h>

#include "base/text/cleanup.h"
#include "base/text/str.h"

static const char *const types[] = {
	/* processes, devices and settings of the machine */
	"proc",
	"sysfs",
	"devtmpfs",
	"devpts",
	"binfmt_misc",
	"configfs",
	"efivarfs",
	"openpromfs",
	"pstore",
	"ramoops",
	"resctrl",
	"s390_hypfs",
	"spufs",
	"xenfs",
	/* what the kernel tells those who look for its faults */
	"debugfs",
	"tracefs",
	"oprofilefs",
	/* who may do what */
	"securityfs",
	"selinuxfs",
	"smackfs",
	"apparmorfs",
	"cgroup",
	"cgroup2",
	"cpuset",
	"bpf",
	/* objects of the host's namespaces, and memory that no limit counts */
	"mqueue",
	"nsfs",
	"pidfs",
	"hugetlbfs",
	"binder",
	"fusectl",
	"rpc_pipefs",
	"nfsd",
	"functionfs",
	"gadgetfs",
	"usbfs",
	"usbdevfs",
	"ibmasmfs",
	"ipathfs",
	"qibfs",
	"dlmfs",
	"ocfs2_dlmfs",
};

bool kernelfs_is(const char *type)
{
	for (size_t i = 0; i < ARRAY_LEN(types); i++)
		if (str_eq(type, types[i]))
			return true;
	return false;
}
