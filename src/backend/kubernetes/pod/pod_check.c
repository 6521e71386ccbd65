/* SPDX-License-Identifier: Apache-2.0 */
/* backend/kubernetes/pod/pod_check.c - is this container what was asked for? Seen from inside, by
 * the kernel's word alone: what a cluster's admission, its kubelet and its runtime have made of it.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "backend/kubernetes/pod/pod_talk.h"
#include "base/files/fd.h"

#define STATUS_ROOM 8192
#define TOKENS "/var/run/secrets/kubernetes.io/serviceaccount"

static int differs(struct err *e, const char *what)
{
	return err_refuse(e, ERR_UNAVAILABLE, EPERM,
			  "the cluster changes pods as it takes them in, or its runtime does not "
			  "do as it is told",
			  "the pod was made otherwise than asked for: %s", what);
}

/* A line of /proc/self/status: "Name:\tvalue". */
static uint64_t pod_check_number(const char *status, const char *name, int base)
{
	const char *at = strstr(status, name);

	return at ? strtoull(at + strlen(name), NULL, base) : UINT64_MAX;
}

static int check_rights(const struct pod_want *w, struct pod_answer *a)
{
	char status[STATUS_ROOM];
	uint64_t seccomp;

	if (fd_read_file(AT_FDCWD, "/proc/self/status", status, sizeof(status)) <= 0)
		return err_sys(&a->err, "cannot read /proc/self/status");
	if (pod_check_number(status, "\nCapEff:\t", 16) ||
	    pod_check_number(status, "\nCapPrm:\t", 16) ||
	    pod_check_number(status, "\nCapBnd:\t", 16) ||
	    pod_check_number(status, "\nCapAmb:\t", 16))
		return differs(&a->err, "it has capabilities");
	if (pod_check_number(status, "\nNoNewPrivs:\t", 10) != 1)
		return differs(&a->err, "it may gain privileges");
	if (geteuid() != w->uid || getuid() != w->uid || getegid() != w->gid || getgid() != w->gid)
		return differs(&a->err, "it runs as another user");
	seccomp = pod_check_number(status, "\nSeccomp:\t", 10);
	a->seccomp = seccomp == 2;
	return 0;
}

static int check_root(const struct pod_want *w, struct pod_answer *a)
{
	struct statvfs root;
	struct stat st;

	if (statvfs("/", &root) < 0)
		return err_sys(&a->err, "cannot look at the root");
	if (w->read_only_root && !(root.f_flag & ST_RDONLY))
		return differs(&a->err, "its root can be written to");
	a->sized = statvfs("/tmp", &root) == 0 && (uint64_t)root.f_blocks * root.f_frsize <= w->tmp;
	if (stat(TOKENS, &st) == 0)
		return differs(&a->err, "it has a service account's token");
	return 0;
}

/* "inside outside count"; the first namespace has one line, and all ids in it. */
static bool has_user_ns(void)
{
	char map[256], *at = map;
	unsigned long n[3] = { 0 };

	if (fd_read_file(AT_FDCWD, "/proc/self/uid_map", map, sizeof(map)) <= 0)
		return false;
	for (size_t i = 0; i < ARRAY_LEN(n); i++)
		n[i] = strtoul(at, &at, 10);
	return !(n[0] == n[1] && n[2] == UINT32_MAX);
}

int pod_check(const struct pod_want *w, struct pod_answer *a)
{
	bool node = false;

	if (getpid() != 1)
		return differs(&a->err, "it shares the processes of another container");
	if (check_rights(w, a) < 0 || check_root(w, a) < 0)
		return -a->err.code;
	a->user_ns = has_user_ns();
	if (w->closed && pod_try_network(w, &node, &a->err) < 0)
		return -a->err.code;
	a->node = node;
	if (w->door && pod_try_door(w, &a->err) < 0)
		return -a->err.code;
	return 0;
}
