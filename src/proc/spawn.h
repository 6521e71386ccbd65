/* SPDX-License-Identifier: Apache-2.0 */
/* proc/spawn.h - new processes of brig's own, made inside of whatever program embeds it.
 *
 * No handler of that program runs in them, and its wait calls never see them: signals are blocked
 * around the call and stay blocked in the child, and there is no exit signal, so only __WALL or a
 * pidfd finds it. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* Returns as fork does. The kernel is asked without libc: the child must not allocate. flags are
 * namespaces; cgroup is a folder of the unified hierarchy to start in, or -1. *pidfd is set in the
 * parent; pidfd may be NULL. -1 with errno ENOSYS, E2BIG or EINVAL: this kernel cannot place it. */
pid_t proc_clone(uint64_t flags, int cgroup, int *pidfd);

/* ... an ordinary copy, which every kernel can make. */
pid_t proc_fork(int *pidfd);

/* A process without a parent to wait for it: 0 in it, 1 in the caller, -1 with errno. One that
 * allocates is made by libc, which leaves the locks of malloc in order. */
int proc_fork_away(bool allocates);

/* Calls fn in a child that shares our memory and our descriptors, and has a network of its own: the
 * unix sockets that fn makes work as others do and are on no list of ours. Where there can be no
 * such child fn is called here. Returns what fn did. For a caller with one thread; fn allocates
 * nothing. */
int proc_in_network(int (*fn)(void *arg), void *arg);

/* In the child: what the caller ignored or handled is at its default again. */
void proc_default_signals(void);
void proc_unblock_signals(void);

/* Likewise: the caller's variables came along in its memory, where what runs below reads them as
 * /proc/PID/environ. */
void proc_forget_environment(void);

/* 0, 1 and 2 lead to /dev/null. 0 or -errno. */
int proc_leave_streams(void);

/* 0, 1 and 2 are these, each of which may be -1 for /dev/null; none may be in the place of another.
 * 0 or -errno. */
int proc_place_streams(int in, int out, int err);

/* Closes a socket that strangers could send descriptors to. Those go with it, and a close may wait
 * for as long as they have set it to (SO_LINGER), except in a process that ends: so one does. Where
 * none can be had it stays open until the caller ends. -1. */
int proc_close_apart(int fd);

/* Waits for a child of proc_clone or proc_fork; its wait status, or -errno. */
int proc_wait(pid_t pid);
