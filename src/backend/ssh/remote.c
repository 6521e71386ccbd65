/* SPDX-License-Identifier: Apache-2.0 */
/* backend/ssh/remote.c - what runs on the other side: plain sh, whatever the login shell is.
 *
 * The login shell sees one constant line without anything of the user's in it. That line starts
 * /bin/sh, which reads the rest from its input. The wrapper's own variables begin with _b, and
 * those of the command are set in the process that becomes it, so that it may have any it likes. */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "backend/ssh/ssh.h"
#include "base/text/str.h"

#define WATCH_SLACK_S 15

/* A line is read byte by byte, which costs no process; more than a little is read at once. */
void remote_reader(size_t n, bool one_line, char *out, size_t room)
{
	if (one_line)
		(void)snprintf(out, room, "exec /bin/sh -c 'IFS= read -r b && eval \"$b\"'");
	else
		(void)snprintf(out, room, "exec /bin/sh -c 'b=$(head -c %zu) && eval \"$b\"'", n);
}

/* Everything with the run's id among its variables, again until nothing is found: a fork may slip
 * through one look, not through twenty. */
static void remote_sweep(struct buf *b)
{
	buf_puts(b, "k(){ _bi=0;while [ $_bi -lt 20 ];do "
		    "_bl=$(grep -lasF BRIG_RUN=$_bn /proc/[0-9]*/environ);[ -n \"$_bl\" ]||break;"
		    "for _bx in $_bl;do _bx=${_bx#/proc/};kill -9 "
		    "${_bx%/environ};done;_bi=$((_bi+1));done;};");
}

/* "~" is the remote home. */
static void remote_folder(const char *path, struct buf *b)
{
	buf_puts(b, "unset CDPATH;cd -- ");
	if (str_eq(path, "~") || str_starts(path, "~/")) {
		buf_puts(b, "\"$HOME\"");
		path++;
	}
	if (*path)
		buf_put_quoted(b, path);
	buf_puts(b, "||{ m D;exit 0;};");
}

static void find_command(struct buf *b)
{
	buf_puts(b, "case $1 in */*)_bf=$1;;*)_bf=;set -f;IFS=:;for _bd in $_bk;do "
		    "if [ -f \"$_bd/$1\" ]&&[ -x \"$_bd/$1\" ];then _bf=$_bd/$1;break;fi;done;"
		    "unset IFS;set +f;;esac;"
		    "[ -e \"$_bf\" ]||{ m N;exit 0;};"
		    "{ [ -x \"$_bf\" ]&&[ ! -d \"$_bf\" ];}||{ m X;exit 0;};");
}

/* Ends the run when the connection does, and some time after its deadline in any case. sshd is the
 * wrapper's parent: when that goes, the kernel gives the wrapper another one. Without /proc the
 * parent is signalled instead; where neither works, only the deadline is left. */
static void watcher(const struct backend_plan *p, struct buf *b)
{
	uint64_t limit = p->timeout ? (p->timeout + p->kill_after) / 1000 : 0;

	buf_puts(
		b,
		"if [ -r /proc/$_bp/stat ];then a(){ read -r _b1 _b2 _b3 _b4 _b5 </proc/$_bp/stat&&"
		"[ \"$_b4\" = $PPID ];};"
		"elif kill -0 $PPID;then a(){ kill -0 $PPID;};else a(){ :;};fi;");
	buf_printf(b,
		   "(unset _bb _be;trap 'kill -9 $_bz;exit' USR1;trap : HUP INT QUIT TERM;"
		   "exec </dev/null >/dev/null 4>&- 5>&-;_bi=0;while a&&[ $_bi -lt %llu ];do "
		   "sleep 1&_bz=$!;wait $_bz;_bi=$((_bi+1));done;k;kill -9 -$_bp)&_bw=$!;",
		   (unsigned long long)(limit ? limit + WATCH_SLACK_S : 1000000000));
}

/* The same version there, or at least one that knows the same words. */
static void check_version(struct buf *b)
{
	const char *dot = strrchr(BRIG_VERSION, '.');

	buf_puts(b, "_bv=$(\"$_bf\" version);case $_bv in ");
	buf_printf(b, "'brig %.*s.'*);;*)m \"V $_bv\";exit 0;;esac;",
		   (int)(dot ? dot - BRIG_VERSION : 0), BRIG_VERSION);
}

/* For one process, which execs next: what the command is to have must not steer the wrapper's own
 * tools, and nothing at all the brig that it runs. */
static void export_variables(const struct backend_plan *p, struct buf *b)
{
	for (const char **v = p->vars; *v && !p->keeps; v++) {
		const char *equals = strchr(*v, '=');

		if (p->brig)
			buf_printf(b, "export " REMOTE_VAR "%d=", (int)(v - p->vars));
		else
			buf_printf(b, "export %.*s=", (int)(equals - *v), *v);
		buf_put_quoted(b, equals + 1);
		buf_putc(b, ';');
	}
	buf_puts(b, "export BRIG_RUN=\"$_bn\";unset _bb _be;");
}

/* The login's PATH for what has the login's rights, before any program is started: without relative
 * folders, and without those in the folder where commands write. */
static void clean_path(const struct backend_plan *p, struct buf *b)
{
	bool inside = p->cwd && !str_eq(p->cwd, "~") && !str_eq(p->cwd, "~/");

	buf_puts(b, "_bk=;_bc=$(pwd -P);set -f;IFS=:;for _bd in $PATH;do "
		    "case $_bd in /*);;*)continue;;esac;");
	if (inside)
		buf_puts(b, "_bx=$(cd -P -- \"$_bd\"&&pwd)||continue;"
			    "case $_bx/ in \"$_bc\"/*)continue;;esac;");
	buf_puts(b, "_bk=$_bk${_bk:+:}$_bd;done;unset IFS;set +f;"
		    "PATH=${_bk:-/usr/bin:/bin};export PATH;");
}

/* Where it is looked for: the command along its own PATH, a brig along the login's. */
static void search_path(const struct backend_plan *p, struct buf *b)
{
	if (p->brig) {
		clean_path(p, b);
		return;
	}
	buf_puts(b, "_bk=");
	for (const char **v = p->vars; *v; v++)
		if (str_starts(*v, "PATH=")) {
			buf_put_quoted(b, *v + strlen("PATH="));
			buf_putc(b, ';');
			return;
		}
	buf_puts(b, "$PATH;");
}

/* brig's report comes on a descriptor of its own; Python code is read from the input before the
 * sandbox reads it. */
static void run_brig(const struct backend_plan *p, struct buf *b)
{
	buf_puts(b, "_br=$(");
	if (p->code)
		buf_printf(b, "{ head -c %zu <&6|{ exec 7<&0 <&6 6<&-;", p->code_size);
	export_variables(p, b);
	buf_puts(b, "exec \"$@\" 3>&1 >&5 2>&4 4>&- 5>&-");
	if (p->code)
		buf_puts(b, ";};} 6<&0");
	buf_puts(b, ");kill -USR1 $_bw;k;n \"J $_br\"");
}

static void run_command(const struct backend_plan *p, struct buf *b)
{
	buf_putc(b, '(');
	export_variables(p, b);
	buf_puts(b, "exec \"$@\" 2>&4 4>&- 5>&-);_bs=$?;kill -USR1 $_bw;k;n \"E $_bs\"");
}

void remote_run(const struct backend_plan *p, const char *id, const struct nonces *n, struct buf *b)
{
	/* Unset first: a variable that came with the login would be handed on. b is this text. */
	buf_printf(b, "unset b _bb _be;_bb=%s;_be=%s;_bn=%s;_bp=$$;", n->begin, n->end, id);
	buf_puts(b, "exec 4>&2 5>&1 2>/dev/null;"
		    "m(){ printf '\\036%s %s\\n' $_bb \"$1\" >&4;};"
		    "n(){ printf '\\036%s %s\\n' $_be \"$1\" >&4;};");
	remote_sweep(b);
	if (p->cwd)
		remote_folder(p->cwd, b);
	search_path(p, b);
	buf_puts(b, "set --");
	for (const char **a = p->command; *a; a++) {
		buf_putc(b, ' ');
		buf_put_quoted(b, *a);
	}
	buf_putc(b, ';');
	find_command(b);
	if (p->brig)
		check_version(b);
	watcher(p, b);
	/* Signals are for the command; the wrapper stays to tell how it ended. */
	buf_puts(b, "trap : HUP INT QUIT TERM;printf '\\036%s\\n' $_bb;m \"S $_bp\";");
	if (p->brig && !p->keeps)
		run_brig(p, b);
	else
		run_command(p, b);
	buf_putc(b, '\n');
}

/* It removes its own traces, if it can still be told to. */
static void ask_to_end(const struct remote_goal *g, struct buf *b)
{
	buf_printf(b,
		   "kill -15 -%ld;_bj=0;while [ $_bj -lt 20 ]&&"
		   "grep -qasF BRIG_RUN=$_bn /proc/[0-9]*/environ;do "
		   "sleep 0.1||sleep 1;_bj=$((_bj+1));done;",
		   g->pid);
}

void remote_signal(const struct remote_goal *g, int sig, bool twice, struct buf *b)
{
	/* The system's tools first: PATH may lead to where commands write. */
	buf_printf(b, "_bn=%s;PATH=/usr/bin:/bin:$PATH;exec >/dev/null 2>&1;", g->id);
	if (sig != SIGKILL && g->pid > 1) {
		buf_printf(b, "kill -%d -%ld\n", sig, g->pid);
		return;
	}
	if (g->keeps && g->pid > 1)
		ask_to_end(g, b);
	remote_sweep(b);
	buf_puts(b, "k;");
	if (twice)
		buf_puts(b, "sleep 1;k;");
	if (g->pid > 1)
		buf_printf(b, "kill -9 -%ld;", g->pid);
	buf_puts(b, ":\n");
}
