/* SPDX-License-Identifier: Apache-2.0 */
/* cli/apps/init_learn.c - "init --learn": the hosts that a command asked for, in place of those of
 * groups. What it says comes from the command, so nothing is trusted by it. */
#include "cli/apps/init_cli.h"
#include "cli/apps/learn_cli.h"
#include "model/settings/spec_lists.h"

static int add_learned(struct initiation *x, const struct learn_text *t, struct err *e)
{
	struct arena *a = x->spec->arena;
	struct strlist allow = { 0 };

	for (size_t i = 0; i < t->allow.n; i++) {
		CLEANUP(buf) struct buf why = BUF_INIT(256);

		learn_reason(&why, "request", &t->allow.v[i]);
		if (list_add_string(a, &allow, t->allow.v[i].text, e) < 0 ||
		    list_add_string(a, &x->answers.why, buf_str(&why), e) < 0)
			return -e->code;
	}
	for (size_t i = 0; i < x->answers.allow.n; i++) /* of --allow */
		if (list_add_string(a, &allow, x->answers.allow.v[i], e) < 0)
			return -e->code;
	for (size_t i = 0; i < t->fields.n; i++)
		if (list_add_string(a, &x->answers.fields, t->fields.v[i].text, e) < 0)
			return -e->code;
	x->answers.allow = allow;
	x->answers.network = allow.n ? SETUP_NETWORK_HOSTS : SETUP_NETWORK_NONE;
	return 0;
}

static int learn_from(struct initiation *x, struct learning *l, struct err *e)
{
	struct spec *s = request_spec(l->request);
	int n = 0;

	while (x->asked.command[n])
		n++;
	if ((x->asked.backend &&
	     spec_set(s, FIELD_BACKEND, x->asked.backend, ORIGIN_FLAG, e) < 0) ||
	    cli_load(s, e) < 0 || learning_open(l, e) < 0 ||
	    learning_run(l, n, x->asked.command, NULL, e) < 0)
		return -e->code;
	if (brig_result_exit_code(l->result))
		message_log(PRIORITY_NOTICE, "brig: note",
			    "the command failed: what it did not come to is not in the file");
	return add_learned(x, &l->text, e);
}

int init_learn(struct initiation *x, struct err *e)
{
	struct learning l = { 0 };
	int r = learning_new(&l, e);

	if (r == 0)
		r = learn_from(x, &l, e);
	learning_done(&l);
	x->asked.no_allow = true;
	return r;
}
