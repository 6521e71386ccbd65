/* SPDX-License-Identifier: Apache-2.0 */
/* backend/kit/limits/systemd.c - see manager.h.
 *
 * What is spoken is the least of D-Bus: authentication by the kernel's word for our uid, one method
 * call at a time, its answer. The body of an answer is looked at only when it is an error, for the
 * text to show. */
#include "backend/kit/limits/systemd.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/files/fd.h"
#include "base/sys/clock.h"
#include "base/sys/wait.h"
#include "base/text/buf.h"

#define CALL_MAX 4096
#define ANSWER_MAX 16384
#define SKIPPED_MAX 64 /* messages before the answer; we subscribe to none */
#define WELCOME_MAX 256
#define TEXT_SHOWN 200

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "messages are written as memory is");

enum { METHOD_CALL = 1, METHOD_RETURN = 2, METHOD_ERROR = 3 };
enum {
	HEADER_PATH = 1,
	HEADER_INTERFACE = 2,
	HEADER_MEMBER = 3,
	HEADER_DESTINATION = 6,
	HEADER_SIGNATURE = 8
};

struct dbus_head {
	uint8_t endian, type, flags, version;
	uint32_t body, serial, fields;
};
_Static_assert(sizeof(struct dbus_head) == 16, "as on the wire");

/* ---- writing: every value is aligned to its size, counted from the start of the message ---- */

static void align(struct buf *b, size_t to)
{
	while (b->len % to && !b->failed)
		buf_putc(b, '\0');
}

static void put_u32(struct buf *b, uint32_t v)
{
	align(b, sizeof(v));
	buf_add(b, &v, sizeof(v));
}

static void systemd_put_text(struct buf *b, const char *s)
{
	put_u32(b, (uint32_t)strlen(s));
	buf_add(b, s, strlen(s) + 1);
}

static void put_type(struct buf *b, const char *s)
{
	buf_putc(b, (char)strlen(s));
	buf_add(b, s, strlen(s) + 1);
}

/* A length is known when what it counts has been written. */
static void set_u32(struct buf *b, size_t at, size_t v)
{
	uint32_t n = (uint32_t)v;

	if (!b->failed)
		memcpy(b->data + at, &n, sizeof(n));
}

/* Of structures; the padding in front of the first is not counted. */
struct list {
	size_t length_at, begin;
};

static struct list list_begin(struct buf *b)
{
	struct list l;

	put_u32(b, 0);
	l.length_at = b->len - sizeof(uint32_t);
	align(b, 8);
	l.begin = b->len;
	return l;
}

static void list_end(struct buf *b, struct list l)
{
	set_u32(b, l.length_at, b->len - l.begin);
}

static void put_field(struct buf *b, int code, const char *type, const char *value)
{
	align(b, 8);
	buf_putc(b, (char)code);
	put_type(b, type);
	if (code == HEADER_SIGNATURE)
		put_type(b, value);
	else
		systemd_put_text(b, value);
}

/* The name of a property and the type of its value, which comes next. */
static void put_property(struct buf *b, const char *name, const char *type)
{
	align(b, 8);
	systemd_put_text(b, name);
	put_type(b, type);
}

static void put_pid(struct buf *b, pid_t pid)
{
	put_u32(b, sizeof(uint32_t));
	put_u32(b, (uint32_t)pid);
}

static size_t call_begin(struct buf *b, uint32_t serial, const char *member, const char *signature)
{
	struct dbus_head h = { .endian = 'l', .type = METHOD_CALL, .version = 1, .serial = serial };
	struct list fields;

	buf_add(b, &h, offsetof(struct dbus_head, fields));
	fields = list_begin(b);
	put_field(b, HEADER_PATH, "o", "/org/freedesktop/systemd1");
	put_field(b, HEADER_DESTINATION, "s", "org.freedesktop.systemd1");
	put_field(b, HEADER_INTERFACE, "s", "org.freedesktop.systemd1.Manager");
	put_field(b, HEADER_MEMBER, "s", member);
	put_field(b, HEADER_SIGNATURE, "g", signature);
	list_end(b, fields);
	align(b, 8);
	return b->len;
}

static void call_end(struct buf *b, size_t body)
{
	set_u32(b, offsetof(struct dbus_head, body), b->len - body);
}

/* ---- the connection ---- */

static int no_answer(struct err *e)
{
	return err_set(e, ERR_UNAVAILABLE, ETIMEDOUT,
		       "the service manager of this user does not answer");
}

static int hung_up(struct err *e)
{
	return err_set(e, ERR_UNAVAILABLE, ECONNRESET,
		       "the service manager of this user ended the connection");
}

static int wait_ready(int fd, short events, uint64_t deadline, struct err *e)
{
	int r = clock_us() < deadline ? wait_fd(fd, events, deadline) : -ETIMEDOUT;

	return r == -ETIMEDOUT ? no_answer(e)
	       : r < 0         ? err_sys(e, "cannot wait for the manager")
			       : 0;
}

static int send_all(int fd, const struct buf *b, uint64_t deadline, struct err *e)
{
	size_t done = 0;

	if (b->failed)
		return err_nomem(e);
	while (done < b->len) {
		ssize_t n = send(fd, b->data + done, b->len - done, MSG_NOSIGNAL);

		if (n > 0)
			done += (size_t)n;
		else if (errno == EAGAIN && wait_ready(fd, POLLOUT, deadline, e) < 0)
			return -e->code;
		else if (errno != EAGAIN && errno != EINTR)
			return hung_up(e);
	}
	return 0;
}

static int receive(int fd, void *to, size_t n, uint64_t deadline, struct err *e)
{
	for (size_t have = 0; have < n;) {
		ssize_t got = recv(fd, (char *)to + have, n - have, 0);

		if (got > 0)
			have += (size_t)got;
		else if (got == 0)
			return hung_up(e);
		else if (errno == EAGAIN && wait_ready(fd, POLLIN, deadline, e) < 0)
			return -e->code;
		else if (errno != EAGAIN && errno != EINTR)
			return hung_up(e);
	}
	return 0;
}

/* Said along with the first call: whoever answers anything but OK has not listened to it. */
static void put_greeting(struct buf *b)
{
	char uid[16];

	(void)snprintf(uid, sizeof(uid), "%u", geteuid());
	buf_add(b, "\0AUTH EXTERNAL ", 15);
	for (const char *c = uid; *c; c++)
		buf_printf(b, "%02x", (unsigned)*c);
	buf_puts(b, "\r\nBEGIN\r\n");
}

static int hear_welcome(int fd, uint64_t deadline, struct err *e)
{
	char line[WELCOME_MAX];
	size_t n = 0;

	/* Byte by byte: what follows the line is the answer. */
	do
		if (receive(fd, line + n, 1, deadline, e) < 0)
			return -e->code;
	while (line[n++] != '\n' && n < sizeof(line));
	if (n < 3 || memcmp(line, "OK ", 3) != 0)
		return err_set(e, ERR_UNAVAILABLE, EPERM,
			       "the service manager of this user does not let us in");
	return 0;
}

/* An error's first word is its text. What a terminal would obey is not shown. */
static int systemd_refused(const char *body, size_t n, struct err *e)
{
	char text[TEXT_SHOWN + 1] = "";
	uint32_t length = 0;

	if (n > sizeof(length))
		memcpy(&length, body, sizeof(length));
	if (length > n - sizeof(length))
		length = 0;
	if (length > TEXT_SHOWN)
		length = TEXT_SHOWN;
	if (length)
		memcpy(text, body + sizeof(length), length);
	for (char *c = text; *c; c++)
		if ((unsigned char)*c < 0x20 || *c == 0x7f)
			*c = '?';
	return err_set(e, ERR_UNAVAILABLE, EPERM, "the service manager of this user refused: %s",
		       text[0] ? text : "it did not say why");
}

static int hear_answer(int fd, uint64_t deadline, struct err *e)
{
	char data[ANSWER_MAX];
	struct dbus_head h;

	for (int i = 0; i < SKIPPED_MAX; i++) {
		size_t fields;

		if (receive(fd, &h, sizeof(h), deadline, e) < 0)
			return -e->code;
		fields = ((size_t)h.fields + 7) & ~(size_t)7;
		if (h.endian != 'l' || fields > sizeof(data) || h.body > sizeof(data) - fields)
			break;
		if (receive(fd, data, fields + h.body, deadline, e) < 0)
			return -e->code;
		if (h.type == METHOD_RETURN)
			return 0;
		if (h.type == METHOD_ERROR)
			return systemd_refused(data + fields, h.body, e);
	}
	return err_set(e, ERR_UNAVAILABLE, EPROTO,
		       "the service manager of this user gave no answer that brig understands");
}

/* Nobody else may have a hand in it. */
static int systemd_open_folder(const char *path, struct err *e)
{
	CLEANUP(fd) int fd = open(path, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0)
		return -ENOENT;
	if (st.st_uid != geteuid() || st.st_mode & (S_IWGRP | S_IWOTH))
		return err_set(e, ERR_UNAVAILABLE, EPERM,
			       "'%s' is not this user's alone: its service manager is not asked",
			       path);
	return TAKE_FD(fd);
}

int manager_open(const char *folder, struct err *e)
{
	struct sockaddr_un at = { .sun_family = AF_UNIX };
	CLEANUP(fd) int dir = -1, fd = -1;
	struct ucred who;
	socklen_t n = sizeof(who);
	char own[32];

	(void)snprintf(own, sizeof(own), "/run/user/%u", geteuid());
	dir = systemd_open_folder(folder ? folder : own, e);
	if (dir < 0)
		return dir;
	(void)snprintf(at.sun_path, sizeof(at.sun_path), "/proc/self/fd/%d/systemd/private", dir);
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return err_sys(e, "cannot make a socket");
	if (connect(fd, (const struct sockaddr *)&at, sizeof(at)) < 0)
		return errno == EAGAIN ? no_answer(e) : -ENOENT;
	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &n) < 0 || who.uid != geteuid())
		return err_set(e, ERR_UNAVAILABLE, EPERM,
			       "another process listens in place of this user's service manager");
	return TAKE_FD(fd);
}

/* ---- the two calls ---- */

/* Delegated: what is below is ours alone. Killed rather than asked: the manager is not to wait, at
 * the end of a session, for processes that need not listen to it; brig itself is not in there. */
static void put_properties(struct buf *b, const char *unit, pid_t pid)
{
	struct list l = list_begin(b);

	put_property(b, "Description", "s");
	systemd_put_text(b, unit);
	put_property(b, "PIDs", "au");
	put_pid(b, pid);
	put_property(b, "Delegate", "b");
	put_u32(b, 1);
	put_property(b, "KillSignal", "i");
	put_u32(b, SIGKILL);
	put_property(b, "CollectMode", "s");
	systemd_put_text(b, "inactive-or-failed");
	list_end(b, l);
}

int manager_start_scope(int fd, const char *unit, pid_t pid, uint64_t deadline, struct err *e)
{
	CLEANUP(buf) struct buf b = BUF_INIT(CALL_MAX), greeting = BUF_INIT(WELCOME_MAX);
	size_t body = call_begin(&b, 1, "StartTransientUnit", "ssa(sv)a(sa(sv))");

	systemd_put_text(&b, unit);
	systemd_put_text(&b, "fail"); /* if there is one of that name */
	put_properties(&b, unit, pid);
	list_end(&b, list_begin(&b)); /* no other units */
	call_end(&b, body);
	put_greeting(&greeting);
	if (send_all(fd, &greeting, deadline, e) < 0 || send_all(fd, &b, deadline, e) < 0 ||
	    hear_welcome(fd, deadline, e) < 0)
		return -e->code;
	return hear_answer(fd, deadline, e);
}

int manager_attach(int fd, const char *unit, const char *sub, pid_t pid, uint64_t deadline,
		   struct err *e)
{
	CLEANUP(buf) struct buf b = BUF_INIT(CALL_MAX);
	size_t body = call_begin(&b, 2, "AttachProcessesToUnit", "ssau");

	systemd_put_text(&b, unit);
	systemd_put_text(&b, sub);
	put_pid(&b, pid);
	call_end(&b, body);
	if (send_all(fd, &b, deadline, e) < 0)
		return -e->code;
	return hear_answer(fd, deadline, e);
}
