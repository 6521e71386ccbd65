/* SPDX-License-Identifier: Apache-2.0 */
/* doctor/doctor.h - is this machine ready, layer by layer, and what to do where it is not.
 *
 * A check looks and tries; what it tries it takes back before it returns. Only doctor_fix changes
 * anything for good. A check that finds something missing without which no sandbox can be made
 * fails; one that finds a weaker or slower way only warns. docs/design/doctor.md lists them. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/bytes/json.h"
#include "base/text/buf.h"
#include "base/text/err.h"
#include "model/settings/spec.h"

enum check_status {
	CHECK_PASS,
	CHECK_WARN, /* sandboxes can be made, with something less */
	CHECK_FAIL, /* no sandbox can be made, or none should be */
	CHECK_SKIP, /* does not apply, or could not be reached */
	CHECK_STATUSES
};

struct finding {
	enum check_status status;
	char detail[512]; /* one line */
	char hint[256];   /* empty: nothing to do */
};

struct machine; /* what the checks learn from one another; opaque */

struct check {
	const char *name, *protects;
	/* *ret is CHECK_SKIP with empty texts on entry. */
	void (*run)(struct machine *m, struct finding *ret);
	bool spared; /* a failure is only a warning where a trial run works all the same */
};

enum { DOCTOR_CHECKS_MAX = 32 };

/* The checks for a configuration, in the words of its dialect; NULL: for the machine as it is. */
const struct check *doctor_checks(const struct spec *s, size_t *n);

struct diagnosis {
	const struct check *checks; /* borrowed */
	size_t count;
	struct finding findings[DOCTOR_CHECKS_MAX];
	bool on_host; /* what is ready is no sandbox */
};

/* Runs each check once, in order; a second or so on a slow machine. n is at most the maximum. */
void doctor_examine(const struct check *checks, size_t n, const struct spec *s,
		    struct diagnosis *ret);
/* A configuration that cannot be read is the only row. */
void doctor_refusal(const struct err *e, struct diagnosis *ret);
size_t doctor_failed(const struct diagnosis *d); /* how many; 0: ready */
/* `brief`: what passed or does not apply is counted. */
void doctor_text(const struct diagnosis *d, bool brief, struct buf *out);
void doctor_json(const struct diagnosis *d, struct json *j);

/* Texts of a finding: one line each, whatever bytes a path holds. */
void finding_say(struct finding *f, enum check_status status, const char *fmt, ...)
	ERR_PRINTF(3, 4);
void finding_hint(struct finding *f, const char *fmt, ...) ERR_PRINTF(2, 3);

/* Installs what can be installed: an AppArmor profile that lets brig, and brig alone, make user
 * namespaces. Says in `done` what was done or that there is nothing to do; an error when it ought
 * to be done and was not. */
int doctor_fix(char *done, size_t n, struct err *e);

/* Fetches the image of a configuration that runs on docker, if it is not here or has grown old;
 * `done` as above, "" when there is no such image. */
typedef void doctor_note_fn(void *arg, const char *text);
int doctor_fix_image(const struct spec *s, doctor_note_fn *note, char *done, size_t n,
		     struct err *e);

/* ---- apparmor.c: its steps, apart so that they can be tried on a made-up tree ---- */

enum apparmor {
	APPARMOR_OFF,     /* not built in, or switched off */
	APPARMOR_UNAWARE, /* on, but knows nothing of user namespaces */
	APPARMOR_LENIENT, /* could restrict them and does not now */
	APPARMOR_RESTRICTS,
};
enum apparmor apparmor_state(const char *root);

/* The profile for the program at path: 0, -ENOMEM, or -EINVAL for a path that is not absolute and
 * plain or holds a character that AppArmor would take for more than itself. Pure. */
int apparmor_profile(const char *path, struct buf *out);

/* Puts the text into etc/apparmor.d/brig below root: whole or not at all, no link followed, a file
 * that brig did not write left alone. */
int apparmor_write(const char *root, const char *text, struct err *e);

/* Writes the profile and hands it to the kernel with the parser, an absolute path; a profile that
 * the parser refuses is removed again. */
int apparmor_install(const char *root, const char *program, const char *parser, struct err *e);

/* Can nobody else replace what is at the absolute path? The file and every folder above it belong
 * to root (or, unless strict, to the caller) and nobody else may write to them. Unless strict, a
 * sticky folder and the caller's own group pass. 0 or -errno, the culprit in *e. */
int path_guarded(const char *path, bool strict, struct err *e);

/* Where the running program lies. -ESTALE: the file there is another one by now. */
int own_path(char *path, size_t n, struct err *e);
