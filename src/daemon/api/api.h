/* SPDX-License-Identifier: Apache-2.0 */
/* daemon/api/api.h - the daemon's HTTP interface: who may call what, and the table of all routes.
 *
 * One row a route; from the same rows and the same tables of members come the dispatcher, the check
 * of bodies, and /openapi.json. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes/jread.h"
#include "base/sys/loop.h"
#include "daemon/api/ceiling.h"
#include "daemon/api/once.h"
#include "daemon/api/sessions.h"
#include "daemon/api/tokens.h"
#include "daemon/registry/sandboxes.h"
#include "daemon/shared/event_log.h"
#include "http/http.h"

enum {
	API_TENANT_EXECS = 1024,
	API_TENANT_INPUT = 32 << 20, /* bytes that wait for a tenant's commands to read them */
	API_PAGE = 100,
	API_PAGE_MAX = 500
};

/* Who listens to events, and when they are told: see route_events.c. */
struct event_fan {
	struct events_listener listener;
	struct loop_timer later;
	struct subscriber *first;
	size_t count;
	uint64_t told; /* when they were last */

	/* What the last of them was sent, which is what the next one wants. */
	struct buf text;
	struct events_cursor from, to;
	char tenant[HTTP_TENANT_SIZE], sandbox[SANDBOX_ID_SIZE];
	bool one;
};

#define PAGE_HOST "brig-%s.localhost:%u" /* with a name of sessions_name */

struct subprocess;
struct exec_input;

struct api {
	struct loop *loop;
	struct http_server *http;
	struct sandboxes *boxes;
	struct events *events;
	struct event_fan fan;
	struct once *once;
	struct tokens *tokens;           /* NULL: nobody but the owner */
	struct ceiling *ceiling;         /* of those who come with a token */
	struct sessions *sessions;       /* of the dashboard; NULL: nobody has asked for it yet */
	uint16_t page_port;              /* of the dashboard; 0: nothing listens yet */
	struct subprocess *subprocesses; /* that are under way */
	struct exec_input *inputs;       /* that commands have not read yet */
	struct loop_timer lapse;         /* looks for sessions that are over */
	uint64_t began;                  /* microseconds */
	bool ready;
	void (*stop)(void *arg); /* `brig daemon stop` */
	void *stop_arg;
};

void api_service(struct api *a, struct http_service *ret);
/* Ends what is still being said to those whose token was taken back. Now and then. */
void api_revoke(struct api *a);

/* ---- the table ---- */

enum api_type {
	API_STRING,
	API_INT,
	API_BOOL,
	API_TIME,    /* a string such as 10m, or seconds */
	API_SIZE,    /* a string such as 64k, or bytes */
	API_STRINGS, /* a list of strings */
	API_TEXTS,   /* an object whose values are strings */
	API_OBJECT,  /* any; `of` names its schema */
	API_LIST,    /* of `of` */
};

struct api_member {
	const char *name;
	enum api_type type;
	const char *of; /* a schema of ours, or NULL */
	const char *help;
	bool required;
};

struct api_schema {
	const char *name;
	const struct api_member *members; /* ends with a row without a name */
};

struct api_request; /* a body that was read, and its route */

struct api_route {
	const char *method, *path; /* {id} stands for one part of it */
	unsigned scope;            /* 0: anybody */
	void (*serve)(struct api *a, struct http_call *c, const struct jread *body);
	const char *name, *help;
	const struct api_member *query; /* or NULL */
	const char *asks;               /* a schema: the body is JSON; NULL: none is read */
	bool raw;                       /* the body is bytes */
	const char *takes; /* the body is bytes of this type, which are not held (http_take) */
	int status;
	const char *answers; /* a schema; NULL: nothing, or not JSON */
	const char *type;    /* of the answer; NULL: application/json */
	bool stream;         /* also, or only, as text/event-stream */
	unsigned page;       /* scope of a session that may ask for it; 0: none may */
	bool own_keys;       /* it sees to idempotency itself */
	bool browser;        /* there for browsers alone, over their own listener */
};

extern const struct api_route api_routes[];   /* ends with a row without a method */
extern const struct api_schema api_schemas[]; /* ends with a row without a name */

const struct api_schema *api_schema(const char *name);
/* Is the body what the schema says? Unknown members are refused, with the nearest known one. */
enum problem api_check(const struct api_schema *s, const struct jread *body, struct err *e);
/* The names of the parameters behind a path; `known` ends with a row without a name, or is NULL. */
enum problem api_check_query(const struct api_member *known, const char *query, struct err *e);
void api_openapi(struct json *j);

/* ---- for routes ---- */

/* What a tenant of a token gets is narrower than what the owner does. */
static inline bool api_redacted(const struct http_call *c)
{
	return !(c->caller->scopes & SCOPE_RUN);
}

/* Whose page is asked for, by its Host? false: nobody's. */
bool api_page_of(const struct api *a, const struct http_call *c, char tenant[TENANT_SIZE]);

/* Does the caller see all sandboxes, as the owner does? */
static inline bool api_is_owner(const struct http_call *c)
{
	return (c->caller->local || c->caller->session) && !c->caller->tenant[0];
}

/* A time or size of the body in milliseconds or bytes; `otherwise` when it is not there. */
enum problem api_time(const struct jread *body, const char *key, uint64_t otherwise, uint64_t *ret,
		      struct err *e);
enum problem api_size(const struct jread *body, const char *key, uint64_t otherwise, uint64_t *ret,
		      struct err *e);
void api_answer_json(struct http_call *c, int status, struct buf *b);
/* Answers {KEY: ...} with what `put` writes of the sandbox that the call names. */
typedef enum problem api_put_fn(struct sandboxes *s, const char *tenant, const char *ref,
				struct json *j, struct err *e);
void api_answer_of(struct api *a, struct http_call *c, const char *key, size_t max,
		   api_put_fn *put);
/* The key of this call was seen before, and the answer kept then is `answer`. */
enum once_found api_once(struct api *a, struct http_call *c, char id[ONCE_ID_SIZE],
			 struct buf *answer);
bool api_wants_events(const struct http_call *c); /* Accept: text/event-stream */

typedef void api_serve_fn(struct api *a, struct http_call *c, const struct jread *body);
api_serve_fn serve_health, serve_ready, serve_metrics, serve_openapi, serve_info, serve_stop;
api_serve_fn serve_create, serve_list, serve_show, serve_update, serve_delete, serve_pause,
	serve_resume, serve_halt, serve_delete_many, serve_logs;
api_serve_fn serve_questions, serve_question_answer;
api_serve_fn serve_exec, serve_execs, serve_exec_show, serve_exec_stream, serve_exec_signal,
	serve_exec_cancel, serve_exec_stdin, serve_exec_resize;
api_serve_fn serve_file_read, serve_file_write, serve_file_remove, serve_file_stat, serve_file_list,
	serve_file_mkdir, serve_file_move, serve_file_watch, serve_pack, serve_unpack;
api_serve_fn serve_events;
api_serve_fn serve_dashboard, serve_enter, serve_session, serve_leave, serve_asset;
api_serve_fn serve_audit, serve_audit_follow, serve_runs, serve_doctor, serve_use, serve_policy,
	serve_policy_apply, serve_changes, serve_changes_apply, serve_changes_discard;
api_serve_fn serve_run;

/* route_exec_input.c. Has its tenant room for so much more input that commands have not read? Then:
 * all the input that a command gets. false: no memory. */
enum problem exec_input_room(const struct api *a, const struct http_call *c, size_t n,
			     struct err *e);
bool exec_input_give(struct api *a, const struct http_call *c, const char *exec, const char *text);

/* route_sandboxes.c, route_execs.c: for serve_run. The sandbox that the body asks for; its command,
 * in c->parts[0]; the answer, after which the sandbox `discards` is deleted (NULL: none is). */
enum problem sandbox_begin(struct api *a, struct http_call *c, const struct jread *body,
			   char id[SANDBOX_ID_SIZE], struct err *e);
enum problem exec_begin(struct api *a, struct http_call *c, const struct jread *body,
			char id[EXEC_ID_SIZE], struct err *e);
void exec_attach(struct api *a, struct http_call *c, const char *exec, uint64_t from,
		 const char *discards);
