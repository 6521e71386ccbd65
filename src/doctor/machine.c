/* SPDX-License-Identifier: Apache-2.0 */
/* doctor/machine.c - what several checks need to know, each found out once. */
#include "doctor/machine.h"

#include <fcntl.h>
#include <limits.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "base/text/num.h"

bool under_filter(void)
{
	return prctl(PR_GET_SECCOMP, 0, 0, 0, 0) == SECCOMP_MODE_FILTER;
}

void machine_explain(struct err *e)
{
	(void)box_explain(e);
	if (e->hint[0])
		return;
	if (e->code == ENOSPC || e->code == EUSERS)
		(void)err_hint(e, "sudo sysctl -w user.max_user_namespaces=15000");
	else if (e->code == EINVAL)
		(void)err_hint(e, "start a kernel with CONFIG_USER_NS=y, or use --backend docker");
	else if ((e->code == EPERM || e->code == EACCES || e->code == ENOSYS) && under_filter()) {
		(void)err_wrap(e, "a system-call filter around brig forbids it");
		(void)err_hint(e, "start brig outside the sandbox or container it is in, or use "
				  "--backend docker");
	} else if (e->code == EPERM || e->code == EACCES) {
		(void)err_hint(e, "look for the refusal in: sudo dmesg | grep -i denied; or use "
				  "--backend docker");
	}
}

static int step_private(void)
{
	return mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL);
}

/* The kernel refuses this where parts of the /proc we see are covered, as in a container. */
static int step_proc(void)
{
	if (step_private() < 0)
		return -1;
	return mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL);
}

/* Runs one step in new user, mount and pid namespaces, which vanish with it: 0 or -errno. The step
 * matters: AppArmor lets the namespace be made and takes its capabilities away. */
static int in_namespaces(int (*step)(void))
{
	pid_t pid = (pid_t)syscall(SYS_clone, CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID, NULL,
				   NULL, NULL, NULL);
	siginfo_t info = { 0 };

	if (pid < 0)
		return -errno;
	if (pid == 0)
		_exit(step() < 0 ? errno : 0);
	while (waitid(P_PID, (id_t)pid, &info, WEXITED | __WALL) < 0)
		if (errno != EINTR)
			return -errno;
	return info.si_code == CLD_EXITED ? -info.si_status : -EIO;
}

int machine_userns(struct machine *m)
{
	if (!m->tried)
		m->userns = in_namespaces(step_private);
	m->tried = true;
	return m->userns;
}

/* The trial run has explained what it could; where it met the very refusal that a bare namespace
 * meets, the cause is the same. */
static void explain_probe(struct machine *m)
{
	struct err *e = &m->trouble;

	if (!e->hint[0] && machine_userns(m) == -e->code)
		machine_explain(e);
	if (!e->hint[0])
		(void)err_hint(e, "a check that failed below names the layer; if none did, report "
				  "what brig doctor --json says");
}

int machine_procfs(void)
{
	return in_namespaces(step_proc);
}

const struct backend *machine_backend(struct machine *m)
{
	CLEANUP(spec) struct spec *plain = NULL;

	if (!m->chosen) {
		plain = m->spec ? NULL : spec_new(&m->refusal);
		if (m->spec || plain)
			m->choice_result =
				backend_examine(m->spec ? m->spec : plain, &m->choice, &m->refusal);
		else
			m->choice_result = -ENOMEM;
		m->chosen = true;
	}
	return m->choice_result < 0 ? NULL : m->choice.backend;
}

bool machine_needs(struct machine *m, const struct backend *b)
{
	const struct backend *taken = machine_backend(m);

	if (m->spec && m->spec->backend == b->kind)
		return m->spec->policy != POLICY_FULL_ACCESS; /* that one needs no backend */
	/* Of auto's, the namespaces' own rows tell; an engine is only taken for want of them. */
	return taken == b && b->can & BACKEND_ENGINE;
}

/* Where every backend of auto's fails, the first one's reason is the one to mend. */
bool machine_works(struct machine *m)
{
	const struct backend *b = machine_backend(m);

	if (m->probed)
		return m->works;
	m->probed = true;
	if (!b) {
		m->trouble = m->refusal;
		explain_probe(m);
		return false;
	}
	m->works = b->probe(m->spec, &m->isolation, &m->trouble) == 0;
	if (m->works)
		return true;
	if (m->choice.passed_count)
		m->trouble = m->choice.passed[0].why;
	explain_probe(m);
	return false;
}

struct engine_health *machine_engine(struct machine *m)
{
	if (!m->asked)
		engine_health(HEALTH_MS, &m->engine);
	m->asked = true;
	return &m->engine;
}

long long setting(const char *path)
{
	char text[32];
	uint64_t v;

	if (fd_read_file(AT_FDCWD, path, text, sizeof(text)) < 1)
		return -1;
	text[strcspn(text, "\n")] = '\0';
	return num_count(text, &v) < 0 || v > LLONG_MAX ? -1 : (long long)v;
}

static int checked_here(const struct spec *given, struct spec **ret, struct err *e)
{
	CLEANUP(spec) struct spec *s = spec_clone(given, e);
	char cwd[PATH_MAX];
	struct place at = { .cwd = cwd, .home = getenv("HOME") };

	if (!s)
		return -e->code;
	if (!getcwd(cwd, sizeof(cwd)))
		return err_sys(e, "the current folder is gone");
	if (spec_check(s, &at, e) < 0)
		return -e->code;
	*ret = TAKE_PTR(s);
	return 0;
}

struct spec *machine_checked(const struct spec *s)
{
	struct spec *ret = NULL;
	struct err unused = { 0 };

	return s && checked_here(s, &ret, &unused) == 0 ? ret : NULL;
}

int machine_spec_fits(const struct machine *m, const struct backend *b, struct err *e)
{
	CLEANUP(spec) struct spec *s = NULL;

	if (!m->spec)
		return 0;
	if (checked_here(m->spec, &s, e) < 0)
		return -e->code;
	/* What a program or an engine lacks has rows of its own. */
	return b && backend_would_take(s, b, e) < 0 && e->kind != ERR_UNAVAILABLE ? -e->code : 0;
}
