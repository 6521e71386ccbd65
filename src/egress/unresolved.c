/* SPDX-License-Identifier: Apache-2.0 */
#include "egress/unresolved.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/files/fd.h"
#include "egress/worker_start.h"

struct unresolved {
	int socket; /* -1 once the worker has it */
	int wake;   /* readable when there is a first name; -1: none yet, or told */
	pid_t pid;
	int pidfd;
	const struct unresolved_page *page; /* NULL: nobody asked yet */
	bool failed;                        /* to start, as `why` says */
	struct err why;
};

struct unresolved *unresolved_new(int socket)
{
	struct unresolved *a = calloc(1, sizeof(*a));

	if (!a) {
		(void)fd_close(socket);
		return NULL;
	}
	*a = (struct unresolved){ .socket = socket, .wake = -1, .pid = -1, .pidfd = -1 };
	return a;
}

struct unresolved *unresolved_free(struct unresolved *a)
{
	if (!a)
		return NULL;
	worker_stop(a->pid, a->pidfd);
	if (a->page)
		(void)munmap((void *)(uintptr_t)a->page, sizeof(*a->page));
	(void)fd_close(a->socket);
	(void)fd_close(a->wake);
	free(a);
	return NULL;
}

int unresolved_fd(const struct unresolved *a)
{
	return !a ? -1 : a->socket >= 0 ? a->socket : a->wake;
}

static const struct unresolved_page *make_page(int *ret)
{
	CLEANUP(fd) int fd = memfd_create("brig-names", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	void *page;

	/* It must not shrink under us. */
	if (fd < 0 || ftruncate(fd, sizeof(*(const struct unresolved_page *)0)) < 0 ||
	    fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0)
		return NULL;
	page = mmap(NULL, sizeof(struct unresolved_page), PROT_READ, MAP_SHARED, fd, 0);
	if (page == MAP_FAILED)
		return NULL;
	*ret = TAKE_FD(fd);
	return page;
}

static void start_worker(struct unresolved *a)
{
	int wake[2] = { -1, -1 }, page = -1;
	a->page = make_page(&page);
	if (a->page && pipe2(wake, O_CLOEXEC | O_NONBLOCK) == 0 &&
	    worker_start(UNRESOLVED_WORD, (const int[]){ a->socket, wake[1], page }, 3, &a->pid,
			 &a->pidfd, &a->why) == 0)
		a->wake = TAKE_FD(wake[0]);
	a->failed = a->wake < 0;
	(void)fd_close(wake[0]);
	(void)fd_close(wake[1]);
	(void)fd_close(page);
	a->socket = fd_close(a->socket);
}

bool unresolved_turn(struct unresolved *a)
{
	char word;
	bool told;

	if (a->socket >= 0) {
		start_worker(a);
		return false;
	}
	if (a->wake < 0)
		return false;
	told = read(a->wake, &word, 1) == 1;
	a->wake = fd_close(a->wake);
	return told;
}

const struct err *unresolved_failed(const struct unresolved *a)
{
	return a && a->failed ? &a->why : NULL;
}

uint64_t unresolved_questions(const struct unresolved *a)
{
	return a && a->page ? __atomic_load_n(&a->page->questions, __ATOMIC_ACQUIRE) : 0;
}

bool unresolved_since(const struct unresolved *a, size_t n, uint64_t questions)
{
	return a && a->page && n < UNRESOLVED_NAMES &&
	       __atomic_load_n(&a->page->last[n], __ATOMIC_ACQUIRE) > questions;
}

bool unresolved_nth(const struct unresolved *a, size_t n, struct host *ret)
{
	struct host said;

	if (!a || !a->page || n >= UNRESOLVED_NAMES ||
	    n >= __atomic_load_n(&a->page->names, __ATOMIC_ACQUIRE))
		return false;
	memcpy(&said, &a->page->name[n], sizeof(said));
	return host_parse(egress_text(said.name, strnlen(said.name, sizeof(said.name))), ret) ==
	       HOST_OK;
}
