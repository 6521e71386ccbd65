/* SPDX-License-Identifier: Apache-2.0 */
/* brig.h - run a command in a sandbox, from C.
 *
 *	brig_manager *m = brig_manager_new();
 *	brig_result *r = NULL;
 *	struct brig_error e;
 *
 *	brig_manager_set(m, "policy", "workspace_write", &e);
 *	if (brig_execute_command(m, "make test", "/home/me/project", NULL, &r, &e) < 0)
 *		fprintf(stderr, "%s\n", e.what);
 *	else
 *		printf("%d\n%s", brig_result_exit_code(r), brig_result_output(r, NULL));
 *	brig_result_free(r);
 *	brig_manager_free(m);
 *
 * Functions that can fail return 0 or a negative errno and fill *e, which must not be NULL. An
 * output pointer is always set, to NULL when there is nothing to return. A string argument must not
 * be NULL unless its function says otherwise. A manager and its requests may be used by one thread
 * at a time; different managers are independent. Nothing here prints, exits, or touches signal
 * handlers of the calling program. */
#ifndef BRIG_H
#define BRIG_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define BRIG_API __attribute__((visibility("default")))

typedef struct brig_manager brig_manager; /* defaults shared by many requests */
typedef struct brig_request
	brig_request; /* one command: argv, workdir, env, policy, limits, timeout */
typedef struct brig_result brig_result; /* how the run ended */

struct brig_error {
	int errnum;     /* positive errno value */
	char code[24];  /* "usage", "config", "policy", "unavailable" (SandboxUnavailableError),
			 * "permission", "not_found", "not_executable", "internal" */
	char what[384]; /* what failed and why */
	char hint[256]; /* what to do about it; may be empty */
};

enum brig_policy { BRIG_READONLY, BRIG_WORKSPACE_WRITE, BRIG_FULL_ACCESS };

/* A member that is 0 keeps the value of the manager or the default. */
struct brig_limits {
	uint64_t memory_bytes;
	uint64_t cpu_shares;
	uint64_t timeout_ms;
	uint64_t max_output_bytes; /* kept of each stream */
	uint64_t pids;
	uint64_t cpu_milli; /* thousandths of a CPU */
	uint64_t disk_bytes;
};

BRIG_API const char *brig_version(void);

/* --- manager --- */

BRIG_API brig_manager *brig_manager_new(void);    /* NULL when out of memory */
BRIG_API void brig_manager_free(brig_manager *m); /* accepts NULL */

/* Sets any setting, by its name in brig.yaml ("limits.memory") and its value as text ("256m"). Each
 * call adds one value to a list setting. */
BRIG_API int brig_manager_set(brig_manager *m, const char *key, const char *value,
			      struct brig_error *e);

/* Can sandboxes be created here? Creates one to find out, with the layout of a real run. */
BRIG_API int brig_manager_ready(brig_manager *m, struct brig_error *e);

/* Is this backend ("native", "bwrap", "docker"...) ready? Answers within the time limit (0: 2.5 s).
 * Returns 0 or a negative errno; detail gets one line that describes the backend or says why it is
 * not ready. */
BRIG_API int brig_backend_health(brig_manager *m, const char *backend, uint64_t timeout_ms,
				 char *detail, size_t n);

/* --- request --- */

BRIG_API brig_request *brig_request_new(brig_manager *m); /* starts with the manager's settings */
BRIG_API void brig_request_free(brig_request *q);
BRIG_API int brig_request_set(brig_request *q, const char *key, const char *value,
			      struct brig_error *e);
BRIG_API int brig_request_argv(brig_request *q, const char *const *argv, struct brig_error *e);
BRIG_API int brig_request_shell(brig_request *q, const char *line,
				struct brig_error *e); /* sh -c */
/* Python code, in place of an argument vector: it appears inside as a read-only file, and its
 * standard input is the request's input. Copied; at most 8 MiB. The second form reads a file on the
 * host; under RLM Code a file in the working folder is run in place. */
BRIG_API int brig_request_python(brig_request *q, const void *code, size_t n, struct brig_error *e);
BRIG_API int brig_request_python_file(brig_request *q, const char *path, struct brig_error *e);
BRIG_API int brig_request_arg(brig_request *q, const char *arg,
			      struct brig_error *e); /* adds one argument to its sys.argv */

/* A script: the interpreter (NULL: /bin/sh) reads the body as its input. A parameter becomes an
 * environment variable with its name in upper case. */
BRIG_API int brig_request_script(brig_request *q, const char *interpreter, const void *body,
				 size_t n, struct brig_error *e);
BRIG_API int brig_request_script_file(brig_request *q, const char *interpreter, const char *path,
				      struct brig_error *e);
BRIG_API int brig_request_param(brig_request *q, const char *name, const char *value,
				struct brig_error *e);

BRIG_API int brig_request_workdir(brig_request *q, const char *path, struct brig_error *e);
BRIG_API int brig_request_env(brig_request *q, const char *name, const char *value,
			      struct brig_error *e);
BRIG_API int brig_request_policy(brig_request *q, enum brig_policy policy, struct brig_error *e);
BRIG_API int brig_request_limits(brig_request *q, const struct brig_limits *l,
				 struct brig_error *e);

/* The command's standard input; copied. Without it the command reads end of file. */
BRIG_API int brig_request_input(brig_request *q, const void *data, size_t n, struct brig_error *e);

/* Uses the caller's descriptors instead: output then passes through and is not kept. -1 leaves a
 * stream as it was. A caller whose reader may close its end should ignore SIGPIPE. */
BRIG_API void brig_request_stdio(brig_request *q, int in, int out, int err);

/* Called with kept output as it arrives, in whole characters. stream is 1 or 2. */
typedef void brig_output_fn(void *arg, int stream, const char *data, size_t n);
BRIG_API void brig_request_on_output(brig_request *q, brig_output_fn *fn, void *arg);

/* Called with what the user should know, e.g. that the command runs outside a sandbox or, after the
 * run, that its metrics could not be written. */
typedef void brig_note_fn(void *arg, const char *text);
BRIG_API void brig_request_on_note(brig_request *q, brig_note_fn *fn, void *arg);

/* Ends the running command and everything it started. May be called from another thread or from a
 * signal handler. */
BRIG_API void brig_request_cancel(brig_request *q);

/* Returns the plan as JSON and runs nothing; free() it. */
BRIG_API int brig_request_plan(brig_request *q, char **json, struct brig_error *e);

/* --- execution --- */

/* Blocks until nothing of the run is left. A command that fails, is killed or times out is a
 * result; only a run that was refused or could not be started is an error. It still has a result,
 * so that its JSON can be shown, unless memory ran out. */
BRIG_API int brig_execute(brig_request *q, brig_result **ret, struct brig_error *e);

/* The same for a program with an event loop of its own. brig_start returns when the command runs,
 * which takes milliseconds (longer where an image is pulled or a remote host is contacted). From
 * then on the program waits until brig_run_fd is readable and calls brig_run_dispatch, which does
 * not block: it returns 1 while the run goes on and 0 when it is over. brig_run_finish waits for
 * the end if it has not come yet, returns the result as brig_execute does, and frees the run. A
 * refused run is over at once, and brig_run_finish says why. Until brig_run_finish has returned,
 * the request must not be changed, freed or started again. */
typedef struct brig_run brig_run;
BRIG_API int brig_start(brig_request *q, brig_run **ret, struct brig_error *e);
/* -errno on failure. Call it before each wait; or once, if all runs that are waited for are in one
 * epoll set until they are over. Such a set can hold any number of runs, also of one sandbox: a
 * sandbox wakes only the command whose descriptor was asked for last, and dispatching that one
 * makes the others' readable as needed. Take the descriptor out of the set before brig_run_finish,
 * which closes it. The set itself must not be in another one: the kernel bounds how deep they nest.
 */
BRIG_API int brig_run_fd(brig_run *r);
BRIG_API int brig_run_dispatch(brig_run *r);
BRIG_API int brig_run_finish(brig_run *r, brig_result **ret, struct brig_error *e);

/* --- a sandbox with several commands --- */

/* A sandbox that stays open until it is closed. A request without a command opens it, and each
 * command in it is a request of its own: all of them see the same files, processes and network, and
 * share the sandbox's limits. Every backend can keep one open; docker with a runtime that has a
 * kernel of its own refuses by name. Over plain ssh there are no limits to share, and what a
 * command leaves running ends with it; with remote "brig" both are as on that host.
 *
 *	brig_sandbox_open(q, &s, &e);
 *	c = brig_sandbox_command(s);
 *	brig_request_shell(c, "make", &e);
 *	brig_sandbox_exec(s, c, &run, &e);
 *	brig_run_finish(run, &r, &e);
 *	...
 *	brig_sandbox_close(s, NULL, &e);
 *
 * A sandbox and its commands may be used by one thread at a time, and the sandbox ends with the
 * thread that opened it. The request that opened it may be freed; while that request exists,
 * brig_request_cancel on it ends the sandbox. */
typedef struct brig_sandbox brig_sandbox;
BRIG_API int brig_sandbox_open(brig_request *q, brig_sandbox **ret, struct brig_error *e);

/* A request for a command in the sandbox. It takes an argument vector or a line, variables, input,
 * descriptors, output, cancel, limits.timeout and limits.output. Other settings belong to the
 * sandbox and are refused, as are code and scripts. NULL when out of memory. */
BRIG_API brig_request *brig_sandbox_command(brig_sandbox *s);
/* The folder inside in which the command starts; by default the workspace. Only for requests made
 * by brig_sandbox_command. */
BRIG_API int brig_request_folder(brig_request *q, const char *path, struct brig_error *e);

/* Starts the command as brig_start does; the run is waited for, or dispatched, in the same way.
 * Several commands can run at a time; brig reads a command's output only while its run is turned
 * (brig_run_dispatch, brig_run_finish). A cancel or a time limit ends the command with everything
 * it has started. A command that ends by itself may leave processes behind, which live until the
 * sandbox is closed; nobody reads what they write to the command's own output. At most 256 commands
 * can exist at a time, including those that ended and left processes behind. */
BRIG_API int brig_sandbox_exec(brig_sandbox *s, brig_request *q, brig_run **ret,
			       struct brig_error *e);

/* For a program with an event loop of its own, while it turns none of the sandbox's commands: the
 * limits that brig itself watches hold only while the sandbox or one of its commands is turned.
 * brig_sandbox_dispatch returns 1 while the sandbox exists and 0 when it has ended, for example by
 * a limit. */
BRIG_API int brig_sandbox_fd(brig_sandbox *s); /* call it before each wait; -errno on failure */
BRIG_API int brig_sandbox_dispatch(brig_sandbox *s);
BRIG_API const char *brig_sandbox_id(const brig_sandbox *s);

/* Ends everything that runs in the sandbox, waits for that, and frees it; accepts NULL. Commands
 * that were still running are "cancelled"; call brig_run_finish on their runs as usual. *ret (ret
 * may be NULL) reports isolation, denials and limits of the sandbox as a whole; free it. It is an
 * error if the sandbox had ended before for another reason than a limit. */
BRIG_API int brig_sandbox_close(brig_sandbox *s, brig_result **ret, struct brig_error *e);

/* Runs one line with sh -c in a folder. env is "NAME=VALUE"..., NULL-terminated, or NULL. An
 * argument that is not accepted is an error without a result. */
BRIG_API int brig_execute_command(brig_manager *m, const char *line, const char *workdir,
				  const char *const *env, brig_result **ret, struct brig_error *e);
BRIG_API int brig_execute_with_policy(brig_manager *m, const char *line, const char *workdir,
				      enum brig_policy policy, const char *const *env,
				      brig_result **ret, struct brig_error *e);
BRIG_API int brig_execute_with_limits(brig_manager *m, const char *line, const char *workdir,
				      const struct brig_limits *limits, brig_result **ret,
				      struct brig_error *e);

/* --- the door alone: a guarded proxy on loopback, for programs outside a sandbox --- */

typedef struct brig_proxy brig_proxy;

/* Starts with the manager's settings. May be used by one thread at a time; a thread of its own
 * serves clients. Every user of this machine can connect to the proxy on loopback and use its
 * credentials. */
BRIG_API brig_proxy *brig_proxy_new(brig_manager *m); /* NULL when out of memory */
BRIG_API void brig_proxy_free(brig_proxy *p);         /* stops it first; accepts NULL */

/* Only before the proxy is started. A rule is "[METHOD,... ]HOST[:PORT,...][/PREFIX]" or "@GROUP";
 * nothing is allowed by default. Port 0 means any free port. */
BRIG_API int brig_proxy_allow(brig_proxy *p, const char *rule, struct brig_error *e);
BRIG_API int brig_proxy_port(brig_proxy *p, uint16_t port, struct brig_error *e);
BRIG_API int brig_proxy_set(brig_proxy *p, const char *key, const char *value,
			    struct brig_error *e); /* any other setting, as in a manager */

/* A value that clients use as {NAME} and never see: it is sent as "Authorization: Bearer" to
 * exactly that HOST[:PORT]. With host NULL, a well-known name (GITHUB_TOKEN...) goes to its own
 * host. */
BRIG_API int brig_proxy_credential(brig_proxy *p, const char *name, const char *host,
				   struct brig_error *e);

/* Called for each value during brig_proxy_start, in the caller's thread, and never afterwards.
 * Writes at most `room` bytes and returns how many, -ENOENT when it has no value, or another
 * negative errno. Without a resolver, values come from the environment. */
typedef int brig_resolver_fn(void *arg, const char *name, char *value, size_t room);
BRIG_API void brig_proxy_resolver(brig_proxy *p, brig_resolver_fn *fn, void *arg);

/* Called with one line for each denial, in the proxy's own thread. */
BRIG_API void brig_proxy_on_denial(brig_proxy *p, brig_note_fn *fn, void *arg);

/* Returns when the proxy listens. A proxy can be started only once. */
BRIG_API int brig_proxy_start(brig_proxy *p, struct brig_error *e);
BRIG_API uint16_t brig_proxy_listens(const brig_proxy *p);      /* its port */
BRIG_API const char *brig_proxy_url(const brig_proxy *p);       /* "http://127.0.0.1:PORT" */
BRIG_API const char *brig_proxy_authority(const brig_proxy *p); /* what clients must trust, PEM */

/* Ends the proxy and everything it serves. It is an error if the proxy was lost before. *ret (ret
 * may be NULL) reports what it counted, as the result of a run does; free it. If the proxy was
 * never started, could not be started, or was stopped before, there is no result, and that is not
 * an error. */
BRIG_API int brig_proxy_stop(brig_proxy *p, brig_result **ret, struct brig_error *e);

/* --- result; it owns the texts it returns --- */

BRIG_API void brig_result_free(brig_result *r);
BRIG_API const char *brig_result_outcome(
	const brig_result *r);                            /* "exited", "timeout", "oom", ... */
BRIG_API int brig_result_exit_code(const brig_result *r); /* the exit status of `brig run` */
BRIG_API int brig_result_signal(const brig_result *r);    /* 0: none */
BRIG_API const char *brig_result_stdout(const brig_result *r, size_t *n); /* n may be NULL */
BRIG_API const char *brig_result_stderr(const brig_result *r, size_t *n);
BRIG_API const char *brig_result_output(const brig_result *r,
					size_t *n); /* both, as they arrived */
/* Status and both streams as one text for a model ("Exit code: 1", "STDOUT:", "STDERR:"), cut at
 * max characters with "[truncated]"; 0: not cut. free() it. */
BRIG_API char *brig_result_text(const brig_result *r, size_t max);
BRIG_API int brig_result_truncated(const brig_result *r);
/* The errno of a write that failed on a descriptor of brig_request_stdio, for example on a full
 * disk: part of what the command wrote is missing there. 0 if nothing failed; a reader that closed
 * its end is not a failure. */
BRIG_API int brig_result_lost(const brig_result *r);
BRIG_API uint64_t brig_result_duration_us(const brig_result *r);
BRIG_API const char *brig_result_id(const brig_result *r);
BRIG_API char *brig_result_json(const brig_result *r); /* the object of --json; free() it */

#ifdef __cplusplus
}
#endif
#endif
