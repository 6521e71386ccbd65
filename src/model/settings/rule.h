/* SPDX-License-Identifier: Apache-2.0 */
/* model/settings/rule.h - one rule of the egress allowlist, as text.
 *
 *     [METHOD[,METHOD...] ]HOST[:PORT[,PORT...]][/PREFIX]   GET,HEAD api.example.org:443,8443/v1/
 *     fetch:HOST[:PORT[,PORT...]][/REPOSITORY]              fetch:git.example.org/team/tool
 *     push:HOST[:PORT[,PORT...]][/REPOSITORY]               push:git.example.org/team/
 *     ws:HOST[:PORT[,PORT...]][/PREFIX]                     ws:api.example.org/v1/realtime
 *     ssh:HOST[:PORT]                                       ssh:git.example.org
 *     @GROUP                                                @pypi
 *
 * A repository is meant with ".git" behind it and without; all below a path that ends in '/'.
 * The text is what a flag, a file, the audit record and a hint all show. Pure. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/text/arena.h"
#include "base/text/err.h"
#include "model/settings/spec.h"

#define RULE_PORTS_MAX 16
#define RULE_SSH_PORT 22

enum rule_git { RULE_ALL, RULE_FETCH, RULE_PUSH };

struct rule {
	const char *text;  /* as written */
	const char *group; /* of "@pypi"; nothing else is then set. NULL: a host */
	const char *host;  /* lower case, perhaps with "*." in front */
	uint16_t ports[RULE_PORTS_MAX];
	size_t n_ports;         /* 0: none written */
	struct strlist methods; /* none: any */
	const char *path;       /* prefix, without escapes; NULL: any */
	bool ws;                /* WebSockets alone, which no other rule lets through */
	bool ssh;          /* a tunnel for SSH, into which nobody looks; its port is in ports */
	enum rule_git git; /* git's fetch or push alone, of the repository that path is */
};

int rule_parse(struct arena *a, const char *text, struct rule *ret, struct err *e);
/* A name or a pattern of names, and nothing else that a rule may have; in the arena. */
int rule_host_alone(struct arena *a, const char *text, size_t n, const char **ret, struct err *e);
/* Refuses a wildcard below a name where anybody can have one ("*.co.uk", "*.github.io"), this
 * host's own loopback, and a group without its "@". */
int rule_check_allow(const struct rule *r, struct err *e);
/* Does it depend on the request, and not on host and port alone? Never where it is for SSH. */
bool rule_is_narrow(const struct rule *r);
/* Checks the text and appends it. */
int list_add_rule(struct arena *a, struct strlist *l, const char *text, struct err *e);

/* HOST[:PORT] of a credential; no wildcard. Without a port *port is 443. */
int rule_parse_host_port(struct arena *a, const char *text, const char **host, uint16_t *port,
			 struct err *e);

bool method_valid(const char *method); /* upper-case letters and hyphens, never TRACE or CONNECT */
int path_prefix_check(const char *path, struct err *e);

/* ADDR[:PORT], [ADDR6]:PORT. family is 4 or 6; *port is 0 when none is written. */
int pin_parse(const char *text, int *family, uint8_t addr[16], uint16_t *port, struct err *e);
/* HOST=ADDR[:PORT], checked and merged by name. */
int list_merge_pin(struct arena *a, struct envlist *l, const char *text, enum origin by,
		   struct err *e);
