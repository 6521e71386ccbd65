/* SPDX-License-Identifier: Apache-2.0 */
/* cli/sandbox/sandbox_cli.h - what the files of `brig sandbox` share. */
#pragma once

#include "base/text/buf.h"
#include "cli/cli.h"
#include "daemon/client/daemon_client.h"

enum { SANDBOX_WORDS_MAX = 64 };

/* All options of all verbs; each verb says which it takes. */
struct sandbox_asked {
	const char *name, *ttl, *idle_ttl, *cleanup_ttl, *restart, *grace, *timeout, *cwd, *since,
		*state, *limit, *signal;
	const char *labels[SANDBOX_WORDS_MAX], *env[SANDBOX_WORDS_MAX];
	size_t label_count, env_count;
	bool json, no_wait, tty, detach, follow, dry_run, help, quiet, recursive, force;
	char **rest; /* what is not an option, NULL-terminated */
	int rest_count;
};

/* Values that the daemon cannot look up, each NAME=VALUE in a sealed file without a name. */
struct sandbox_secrets {
	int fds[16];
	size_t n;
};

void sandbox_secrets_done(struct sandbox_secrets *s);
static inline void cleanup_sandbox_secrets(struct sandbox_secrets *s)
{
	sandbox_secrets_done(s);
}

/* What settings say besides the spec, for the daemon's other words. */
struct sandbox_besides {
	bool agents; /* they come from an agents-sandbox file */
};

/* The settings that hold here, as the daemon's client sends them: over its own socket all of them,
 * resolved; to another one the options alone. Takes what it knows out of argv. */
int sandbox_spec(const struct subcommand *c, int argc, char **argv, bool local, struct buf *out,
		 struct sandbox_secrets *secrets, int *rest, struct sandbox_besides *besides,
		 struct err *e);

/* Of a spec that was loaded: whatever depends on where this process stands is settled, and *out is
 * what the daemon reads to have the same. */
int sandbox_resolve(struct spec *s, struct buf *out, struct sandbox_secrets *secrets,
		    struct err *e);

/* "exec": the command's own exit status, or EXIT_BRIG with *e. */
int sandbox_exec(struct daemon_client *d, const char *ref, const struct sandbox_asked *a,
		 struct err *e);

/* The path of a sandbox and what follows it, escaped. false: no id and no name looks like this. */
bool sandbox_target(char *out, size_t n, const char *ref, const char *more);

/* The same, where anything else is refused. */
int sandbox_target_of(char out[256], const char *ref, const char *more, struct err *e);
/* body may be NULL; ret as in daemon_client_ask. */
int sandbox_ask(struct daemon_client *d, const char *method, const char *target, struct buf *body,
		struct jread **ret, struct err *e);
/* All that the options select. */
typedef int sandbox_each_fn(void *arg, const struct jread *v, struct err *e);
int sandbox_each(struct daemon_client *d, const struct sandbox_asked *a, sandbox_each_fn *fn,
		 void *arg, struct err *e);
void sandbox_print_json(const struct jread *v);
void sandbox_put_cell(struct buf *b, const char *text, int width); /* NULL: a dash */
/* What brig has noted of a sandbox, without the line `said`, which is told otherwise (or NULL). */
void sandbox_tell_notes(struct daemon_client *d, const char *id, const char *said);

typedef int verb_fn(struct daemon_client *d, const struct sandbox_asked *a, struct err *e);
verb_fn verb_create, verb_list, verb_get, verb_logs, verb_events, verb_pause, verb_resume,
	verb_stop, verb_delete, verb_update, verb_prune, verb_cp, verb_files, verb_execs,
	verb_cancel;
