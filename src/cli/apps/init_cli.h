/* SPDX-License-Identifier: Apache-2.0 */
/* cli/apps/init_cli.h - the parts of "init". */
#pragma once

#include "apps/setup/setup_text.h"
#include "base/text/buf.h"
#include "cli/cli.h"
#include "doctor/doctor.h"
#include "doctor/usable.h"

#define INIT_FILE ".brig.yaml"
#define INIT_IMAGE "brig-worker:latest"

struct init_asked {
	bool yes, dry, force, json, no_allow, apparmor, image, keep_home, help, learn;
	const char *image_ref; /* of --image=REF; NULL: it is built */
	const char *base;
	const char *backend, *network, *agent, *workspace; /* NULL: not said */
	const char *folder;                                /* NULL: where we are */
	char **command; /* of --learn, behind "--"; NULL-terminated */
};

struct initiation {
	struct init_asked asked;
	struct spec *spec; /* holds the rules of --allow, and memory */
	char path[PATH_MAX];
	struct project_found found;
	struct usable usable[USABLE_MAX];
	size_t usable_count;
	struct setup_answers answers;
	struct buf text; /* of the file */
	bool asks;       /* somebody answers */
	bool wrote, allowed, restricted /* by AppArmor */;
	const char *image_done; /* "built", "pulled", "there is"; NULL: no image was wanted */
	struct diagnosis diagnosis;
	bool examined;
};

int init_take_workspace(struct initiation *x, const char *word, struct err *e);
/* The name must be that of a backend a run may take by itself; NULL for auto. */
int init_take_backend(struct initiation *x, const char *word, struct err *e);
int init_take_network(struct initiation *x, const char *word, struct err *e);

/* init_learn.c: runs the command of --learn; what it asked for are the answers. */
int init_learn(struct initiation *x, struct err *e);

/* init_ask.c: the questions that no option has answered. -ECANCELED: nobody answers any more. */
int init_ask(struct initiation *x, struct err *e);
/* 1, 0, or -ECANCELED. */
int init_confirm(const char *question, bool by_default, struct err *e);

/* init_tell.c */
void init_tell_found(const struct initiation *x);
void init_tell_text(const struct initiation *x);
void init_tell_end(const struct initiation *x);
int init_tell_json(const struct initiation *x); /* the exit status */
