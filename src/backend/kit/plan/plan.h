/* SPDX-License-Identifier: Apache-2.0 */
/* backend/kit/plan/plan.h - the world a command is shown, as plain data; native and bwrap share it.
 *
 * Computed in the trusted parent, where paths are resolved and each source's identity is noted.
 * native's child carries the operations out in order, resolving every source again in its own mount
 * namespace and comparing; bwrap gets them as arguments. Nothing in here is allocated or decided
 * after clone. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/types.h>
#include <sys/uio.h>

#include "backend/kit/survey/survey.h"
#include "base/bytes/json.h"
#include "base/files/fd.h"
#include "base/text/arena.h"
#include "base/text/buf.h"
#include "base/text/err.h"
#include "model/known/gpus.h"
#include "model/known/image_root.h"
#include "model/outcome/isolation.h"
#include "model/settings/door_spec.h"
#include "model/settings/spec.h"

enum op_kind {
	OP_DIR,     /* a folder in brig's own root */
	OP_FILE,    /* a small file with given text */
	OP_SYMLINK, /* data is where it points */
	OP_PRIVATE, /* a folder of the root's own tmpfs that stays writable */
	OP_BIND,    /* a host tree, compared with `ident` before use */
	OP_BIND_FD, /* a tree the parent has prepared (idmapped); `fd_slot` */
	OP_DEVICE,  /* a host device node, compared with its device number */
	OP_PROC,    /* a fresh procfs, read-only */
	OP_DEVPTS,  /* a fresh devpts */
	OP_OVERLAY, /* a private writable layer over a tree already there */
	OP_IMAGE, /* an image's layers, and what the plan puts into them; src: the store's folder */
	OP_LAYER, /* the workspace, which is there already, through what is at PLAN_UPPER */
	OP_MASK,  /* something harmless over a file or folder, if it exists */
	OP_COVER, /* a protected name: itself, read-only; must exist */
	OP_HIDE,  /* a socket in a shown tree: an empty file over it */
	OP_SHOW,  /* src, a file of brig's own root, over a file already there */
	OP_CODE,  /* a file of `size` bytes, mounted read-only over what is there */
	OP_KINDS
};

#define PLAN_LAYER "/.layer" /* in the new root until it is entered */
#define PLAN_UPPER "/.upper" /* likewise: the layer of an overlay workspace, while it is made */

enum op_look { LOOK_NOT, LOOK_MODES, LOOK_LOGINS };

#define LOOKED_TEXT_MAX 16384 /* of a file that was looked at, with the NUL behind it */

struct op {
	enum op_kind kind;
	const char *src, *dst;
	const char *data;   /* text of a file, goal of a link */
	size_t size;        /* of OP_CODE's data, and of a file's that is no text */
	struct ident ident; /* of src */
	dev_t rdev;         /* of a device */
	mode_t mode;
	bool writable, noexec;
	bool copy;   /* a small file of the system's that everybody may read: a copy will do */
	int fd_slot; /* index into prepared trees */
	bool fixed;  /* of every run's tree: the folders above are the plan's own, none is a link */
	bool kept;   /* brig's own folder: a kept HOME, or one of a long-lived sandbox's */
	bool imaged; /* its place is made in a layer above those of the image */
	bool stored; /* ... of the latter: brig makes mount points there */
	bool skip;   /* found to be needless at start, or made before it */
	bool awaits; /* its text ends with what the run's authority adds, which may come last */
	const char *at;      /* where it is made, for `dst` leads there; NULL: at dst */
	const char *package; /* of what packages ship: their names; NULL: it is not of these */
	enum op_look
		look; /* a folder to be looked through, or a text to be read, before it is shown */
};

struct id_map {
	uint32_t inside, outside, count;
};

enum { ID_MAPS_MAX = 4, PREPARED_MAX = 16, RLIMITS_MAX = 12 };

struct rlimit_want {
	int resource;
	struct rlimit value;
};

/* A tree that root must idmap before the child exists. */
struct prepared_tree {
	const char *src;
	struct ident ident;
	uint32_t disk_uid, disk_gid; /* owner on disk, shown as the user inside */
	bool kept;                   /* brig's own folder */
	bool as_it_is;               /* not idmapped: root's, and readable by everybody */
};

/* A name inside the writable workspace that the command must not change. */
struct protected_name {
	const char *path;    /* relative to tree */
	const char *tree;    /* host path of the tree it lies in */
	const char *inside;  /* path in the sandbox */
	bool existed;        /* before the run */
	bool covered;        /* by a mount; a link cannot be */
	bool file;           /* a place for a mounted file: never held by a folder */
	bool folder;         /* held by a folder while it is missing */
	size_t op;           /* index of the cover; meaningless unless covered */
	bool link;           /* to a place that the command could write to */
	const char *goal_at; /* of such a link: that place, if it is in the tree; protected too */
	struct stamp was;    /* of what was there */
	struct stamp goal;   /* of a link: what it led to; all zero: nothing */
};

/* A protected file with other names, by which it could be written: it becomes a file of its own. */
struct shared_file {
	const char *tree, *path;
	struct ident ident;
};

/* A git folder that the plan protects: its tree, its path there ("": the tree itself), and both. */
struct git_folder {
	const char *tree, *path, *host;
};

enum { SURVEYS_MAX = 32 };

/* A tree that the command may write to, and its git folders before the run. */
struct plan_survey {
	const char *tree;
	struct survey survey;
};

/* A file of git's configuration that is obeyed in a working tree. */
struct git_config {
	const char *file, *git; /* git: the git folder that obeys it */
	const char *root;       /* the working tree; NULL: the file says, or there is none */
	int depth;              /* 0, or by how many others it is included */
	bool nested;            /* where git does not say what is in it, that is noted */
	bool asked, trees;      /* trees: also where the working tree is */
	bool unsaid;            /* git did not say it */
	struct buf facts;       /* gitsay_config's, of the arena */
};

/* A folder of programs below the caller's home, shown read-only at its own path. */
struct toolchain {
	const char *path;
	const char *variable, *root; /* what it is told inside; NULL: nothing */
};

enum { WRITABLE_BITS = 64 };

struct box_plan {
	struct arena *arena;     /* keeps the texts of the spec as well */
	const char *backend;     /* its name, told inside as BRIG_SANDBOX */
	const struct spec *spec; /* while the plan is made; NULL once it is whole */

	/* Of the settings, what a start and an end go by. */
	enum policy policy;
	enum network network;
	enum profile profile;
	struct limits limits;
	unsigned wrote;           /* limits that were explicitly set: bits 1 << enum limit */
	uint64_t output, timeout; /* the command's own limits */
	const char *code;
	size_t code_size;
	bool shows_code;                   /* as a file, by an OP_CODE */
	bool signing;                      /* with the caller's ssh-agent */
	bool members;                      /* others are on a network with it */
	struct credentiallist credentials; /* that the door is to put in */
	const char *set_path;              /* PATH, where it is explicitly set; NULL: it is not */

	struct op *ops;
	size_t op_count;

	const char *const *argv;
	const char **envp;
	const char *cwd; /* inside */
	const char *home, *user_name, *hostname;
	const char *path_value; /* PATH inside, for finding the command */

	bool by_root;      /* started by root: the parent writes the maps */
	uint32_t uid, gid; /* inside */
	struct id_map uids[ID_MAPS_MAX], gids[ID_MAPS_MAX];
	size_t uid_count, gid_count;
	bool needs_range; /* the outside ids of the maps are relative to a range locked at start */

	struct prepared_tree prepared[PREPARED_MAX];
	size_t prepared_count;

	const struct image_root *image; /* the root is that; NULL: the host's programs are shown */

	struct gpu_set gpus; /* that are shown */
	dev_t *gpu_devices;  /* their numbers */
	size_t gpu_device_count;

	const char **writable; /* paths inside that Landlock lets be changed */
	size_t writable_count;
	uint64_t
		writable_host; /* a bit for each of the first WRITABLE_BITS: a tree of the host's */

	struct rlimit_want rlimits[RLIMITS_MAX];
	size_t rlimit_count;

	struct protected_name *protected;
	size_t protected_count;
	struct shared_file *shared;
	size_t shared_count;
	struct git_folder *gits;
	size_t git_count;
	struct plan_survey *surveys;
	size_t survey_count;
	struct git_config *configs;
	size_t config_count;
	bool looked, named, searched; /* box_plan_look, _names, _search are done */
	const struct sight *sight;    /* box_plan_guard is, and has seen this; of the arena */
	bool no_nodes;                /* as placeholders: somebody else mounts what is there */
	bool by_name;                 /* an engine mounts, and makes a place that is missing */
	bool mounts_alone;            /* no Landlock behind them */
	bool read_only_root;          /* what the run gets, whatever was asked for */
	const char *store;            /* some of it outlives a stop there; NULL: none */
	unsigned keeps;               /* bits 1 << enum store_place of what is there */
	bool stored_layer;            /* PLAN_LAYER is bound, for what is written to the root */
	const char *workspace;        /* host folder, NULL for a private one */
	bool layered;                 /* what is written to it goes to a layer */
	const char *layer;            /* the folder of that; NULL: it is not made yet */
	struct ident workspace_ident;
	struct toolchain *toolchains;
	size_t toolchain_count;
	const struct packages *packages; /* what they ship is shown; NULL: nothing is */
	bool links_etc; /* /etc is a folder of links that was made before the start, plan_links_etc
			 */
	const char *repository;  /* the working tree around it, shown read-only; NULL: none */
	const char *git_outside; /* what git keeps of the workspace elsewhere, and the command can
				  * change; NULL: nothing */

	const struct door_want *door; /* network proxy; NULL: no door */
	size_t roots_op;         /* with a door: the OP_FILE of the certificates trusted inside */
	size_t roots_room;       /* behind its text, for one more */
	struct java_store *java; /* what Java trusts, before the run's authority; NULL: no Java */
	size_t java_op;          /* its OP_FILE */
	size_t policy_op;        /* the OP_FILE of Chromium's policy; 0: no Chromium */

	const char *notes[12]; /* what the user should know, e.g. a private workspace */
	size_t note_count;
};

static inline bool plan_wrote(const struct box_plan *p, enum limit l)
{
	return p->wrote & 1U << l;
}

/* Refuses the tree where a name that is there now is known otherwise in its folder. */
int plan_letters_held(int folder, const char *name, const char *tree, struct err *e);
/* A place on the host that the command may write: its workspace, what is kept, or another. NULL:
 * all that it writes is in memory. */
const char *plan_on_disk(const struct box_plan *p);

/* `backend` is borrowed for as long as the plan lives. */
int box_plan_new(const struct spec *s, const char *backend, struct box_plan **ret, struct err *e);
/* The same without what can be found out while the new process is at work: the four below must
 * follow, in this order, before anything is run. What is done already they do not do again. */
int box_plan_begin(const struct spec *s, const char *backend, struct box_plan **ret, struct err *e);
/* Looks through folders and texts that may hold what is not for everybody: those that do get
 * `skip`. */
void box_plan_look(struct box_plan *p);
/* Protected names and the file of the code: refuses, or adds operations behind all the others. */
int box_plan_names(struct box_plan *p, struct err *e);
/* What no tree may show: refuses, or adds OP_MASK, and notes. */
int box_plan_guard(struct box_plan *p, struct err *e);
/* Sockets and pipes in what is shown: adds OP_HIDE, and notes. Now the plan is whole: it outlives
 * the spec. */
int box_plan_search(struct box_plan *p, struct err *e);
/* Bytes of what an OP_FILE, OP_CODE holds. */
size_t op_size(const struct op *o);
/* Puts the run's own authority behind the host's roots, in the files that programs inside read. */
int box_plan_trust(struct box_plan *p, const char *pem, struct err *e);
/* The same, where those files were made without it: what is to be written behind the text of each,
 * in the order of the operations that await it. */
enum { TRUST_FILES = 3 };
struct trust_ends {
	size_t n;
	struct iovec v[TRUST_FILES]; /* the plan's */
};
int box_plan_trust_ends(struct box_plan *p, const char *pem, struct trust_ends *ret, struct err *e);
/* Settings for git inside: the caller's name, e-mail and habits, so that the first commit succeeds.
 * "" when there are none; the plan, which may be whole, owns them. */
int box_plan_git(struct box_plan *p, const struct spec *s, const char **ret, struct err *e);
/* Files of OpenSSH's for inside: its settings, and the keys of the hosts that a run may reach by
 * SSH. NULL: there are none. A host whose key is not known is refused. */
struct plan_ssh {
	const char *config, *known;
};
int box_plan_ssh(struct box_plan *p, const struct spec *s, struct plan_ssh *ret, struct err *e);
/* Further variables for the inside; NULL-terminated, borrowed, may be NULL. */
int box_plan_variables(struct box_plan *p, const char *const *more, struct err *e);

/* Only the trees somebody asked to see, with their protected names and host sockets, and the
 * variables: for a root that is not brig's to make, such as an image. The ids inside are those
 * outside, and the caller's to choose: they are not set. */
int box_plan_trees(const struct spec *s, const char *backend, struct box_plan **ret, struct err *e);
/* For a command that works on a copy of the workspace elsewhere, which may come home: the protected
 * names alone, with the places that links and git's configuration lead to. Refuses a workspace that
 * holds what no command may see or write, brig's own state and settings. */
int box_plan_copied(const struct spec *s, const char *backend, struct box_plan **ret,
		    struct err *e);
/* The protected names alone, as a run that writes to the workspace itself would have them: for who
 * puts there what another has written (docs/design/apply.md). Wants a workspace, and changes
 * nothing. Where git does not say what one of many repositories names, its `configs` say so. */
int box_plan_obeyed(const struct spec *s, struct box_plan **ret, struct err *e);
/* Something the user should know; text is borrowed. */
void box_plan_note(struct box_plan *p, const char *text);
/* What no setting names and a command may write nevertheless is noted as exposed, before it
 * begins. */
int box_plan_expose(const struct box_plan *p, struct err *e);
void box_plan_json(const struct box_plan *p, struct json *j);    /* one object */
void box_plan_members(const struct box_plan *p, struct json *j); /* of an object begun already */
/* Would --toolchains show that program of the caller's? */
bool plan_is_toolchain(const char *path);
/* Is the name in the list of protected ones? */
bool plan_protects(const struct box_plan *p, const char *tree, const char *path);
struct box_plan *box_plan_free(struct box_plan *p);
DEFINE_CLEANUP(box_plan, struct box_plan *, box_plan_free)
