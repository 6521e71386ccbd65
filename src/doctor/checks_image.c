/* SPDX-License-Identifier: Apache-2.0 */
/* doctor/checks_image.c - the image of the configuration: is it there, is it old, and fetching it.
 */
#include <stdio.h>
#include <string.h>

#include "doctor/machine.h"
#include "sandbox/manager.h"

#define DAY ((int64_t)24 * 60 * 60)
#define OLD_DAYS 90

const char *machine_image(const struct machine *m)
{
	if (!m->spec)
		return NULL;
	return m->spec->image ? m->spec->image : m->spec->docker.image;
}

/* 1, 0 or -errno as engine_has_image; asked once. */
int machine_has_image(struct machine *m)
{
	const char *image = machine_image(m);

	if (!m->image_asked && image)
		m->image_there =
			engine_has_image(machine_engine(m), image, HEALTH_MS, &m->image_age);
	m->image_asked = true;
	return m->image_there;
}

void warn_if_old(struct machine *m, struct finding *f)
{
	size_t n = strlen(f->detail);

	if (machine_has_image(m) != 1 || m->image_age <= OLD_DAYS * DAY)
		return;
	if (f->status == CHECK_PASS)
		f->status = CHECK_WARN;
	(void)snprintf(f->detail + n, sizeof(f->detail) - n,
		       "%s It was made %lld days ago: fixes are missing",
		       n && f->detail[n - 1] == '.' ? "" : ".", (long long)(m->image_age / DAY));
	finding_hint(f, "brig image pull %s", machine_image(m));
}

void check_docker_image(struct machine *m, struct finding *f)
{
	const char *image = machine_image(m);
	int r = machine_has_image(m);

	if (!image) {
		finding_say(f, CHECK_SKIP, "no image is configured");
	} else if (r == 1) {
		finding_say(f, CHECK_PASS, "Image '%s' is available locally.", image);
		warn_if_old(m, f);
	} else if (r == 0) {
		finding_say(f, CHECK_WARN, "Image '%s' is not available locally.", image);
		finding_hint(f, "%sbrig image pull %s (or docker pull %s)",
			     m->spec->docker.auto_pull ? "the first run fetches it; now: " : "",
			     image, image);
	} else {
		finding_say(f, CHECK_SKIP, "not reached: %s", machine_engine(m)->detail);
	}
}

int doctor_fix_image(const struct spec *s, doctor_note_fn *note, char *done, size_t n,
		     struct err *e)
{
	struct machine m = { .spec = s };
	const char *image = machine_image(&m);
	int there = image ? machine_has_image(&m) : 1;

	done[0] = '\0';
	if (!image || !machine_needs(&m, backend_with(BACKEND_ENGINE)))
		return 0;
	if (there < 0) {
		(void)err_set(e, ERR_UNAVAILABLE, -there, "image '%s' is not looked for: %s", image,
			      machine_engine(&m)->detail);
		return err_hint(e, "%s", machine_engine(&m)->hint);
	}
	if (there == 1 && m.image_age <= OLD_DAYS * DAY) {
		(void)snprintf(done, n, "image '%s' is here", image);
		return 0;
	}
	if (sandbox_pull(NULL, image, note, NULL, e) < 0)
		return -e->code;
	(void)snprintf(done, n, "image '%s' was fetched", image);
	return 0;
}
