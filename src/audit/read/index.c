/* SPDX-License-Identifier: Apache-2.0 */
#include "audit/read/index.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>

#include "audit/read/index_internal.h"
#include "base/text/str.h"

enum { SCHEMA = 1, BUSY_MS = 60000, BUSY_PAUSE_MS = 20, BUSY_TRIES = 250 };

static const char schema[] =
	"CREATE TABLE records(seq INTEGER PRIMARY KEY, time INTEGER NOT NULL, type TEXT NOT NULL,"
	" run TEXT, outcome TEXT, host TEXT COLLATE NOCASE, principal TEXT, agent TEXT,"
	" segment INTEGER NOT NULL, at INTEGER NOT NULL, len INTEGER NOT NULL) STRICT;"
	"CREATE TABLE state(id INTEGER PRIMARY KEY CHECK(id = 1), first_segment INTEGER NOT NULL,"
	" segment INTEGER NOT NULL, at INTEGER NOT NULL, last_seq INTEGER NOT NULL,"
	" last_segment INTEGER NOT NULL, last_at INTEGER NOT NULL, last_len INTEGER NOT NULL,"
	" mac TEXT NOT NULL, ready INTEGER NOT NULL) STRICT;"
	"INSERT INTO state VALUES(1, 0, 0, 0, 0, 0, 0, 0, '', 0);"
	"CREATE VIEW runs AS SELECT run, min(time) AS began, max(time) AS ended,"
	" count(*) AS records, max(outcome) AS outcome FROM records WHERE run IS NOT NULL"
	" GROUP BY run;";

/* --- SQLite's errors as ours --- */

/* -EBADMSG: the file is damaged, or no index of ours: it is made anew. */
static int code_of(int rc)
{
	switch (rc & 0xff) {
	case SQLITE_OK:
	case SQLITE_ROW:
	case SQLITE_DONE:
		return 0;
	case SQLITE_CORRUPT:
	case SQLITE_NOTADB:
	case SQLITE_SCHEMA:
	case SQLITE_ERROR: /* a table that is not there */
	case SQLITE_MISMATCH:
	case SQLITE_CONSTRAINT:
	case SQLITE_FORMAT:
		return -EBADMSG;
	case SQLITE_BUSY:
	case SQLITE_LOCKED:
		return -EBUSY;
	case SQLITE_FULL:
		return -ENOSPC;
	case SQLITE_READONLY:
	case SQLITE_CANTOPEN:
	case SQLITE_PERM:
		return -EROFS;
	case SQLITE_NOMEM:
		return -ENOMEM;
	default:
		return -EIO;
	}
}

int index_fail(const struct index *ix, int rc, struct err *e)
{
	int code = code_of(rc);

	return err_set(e, ERR_INTERNAL, -code, "the index '%s/%s': %s", ix->dir, INDEX_NAME,
		       ix->db ? sqlite3_errmsg(ix->db) : sqlite3_errstr(rc));
}

int index_sql(struct index *ix, const char *sql, struct err *e)
{
	int rc = sqlite3_exec(ix->db, sql, NULL, NULL, NULL);

	return rc == SQLITE_OK ? 0 : index_fail(ix, rc, e);
}

int index_prepare(struct index *ix, const char *sql, sqlite3_stmt **ret, struct err *e)
{
	int rc = sqlite3_prepare_v2(ix->db, sql, -1, ret, NULL);

	return rc == SQLITE_OK ? 0 : index_fail(ix, rc, e);
}

/* --- the file --- */

static int user_version(struct index *ix, int *ret, struct err *e)
{
	CLEANUP(stmt) sqlite3_stmt *q = NULL;
	int rc;

	if (index_prepare(ix, "PRAGMA user_version", &q, e) < 0)
		return -e->code;
	rc = sqlite3_step(q);
	if (rc != SQLITE_ROW)
		return index_fail(ix, rc, e);
	*ret = sqlite3_column_int(q, 0);
	return 0;
}

/* Makes the tables in a new file; -EBADMSG when there are others. */
static int index_schema(struct index *ix, struct err *e)
{
	char set[48];
	int version = 0, r;

	if (user_version(ix, &version, e) < 0)
		return -e->code;
	if (version == SCHEMA)
		return 0;
	if (version != 0)
		return err_set(e, ERR_INTERNAL, EBADMSG, "the index has another form");
	(void)snprintf(set, sizeof(set), "PRAGMA user_version = %d", SCHEMA);
	if (index_sql(ix, "BEGIN IMMEDIATE", e) < 0)
		return -e->code;
	r = user_version(ix, &version, e);
	if (r == 0 && version == 0)
		r = index_sql(ix, schema, e) < 0 || index_sql(ix, set, e) < 0 ? -e->code : 0;
	if (r == 0)
		return index_sql(ix, "COMMIT", e);
	(void)sqlite3_exec(ix->db, "ROLLBACK", NULL, NULL, NULL);
	return r;
}

static int connect(struct index *ix, struct err *e)
{
	CLEANUP(mem) char *path = NULL;
	int rc;

	if (asprintf(&path, "%s/%s", ix->dir, INDEX_NAME) < 0) {
		path = NULL;
		return err_nomem(e);
	}
	rc = sqlite3_open_v2(path, &ix->db,
			     SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_NOFOLLOW,
			     NULL);
	if (rc != SQLITE_OK)
		return index_fail(ix, rc, e);
	(void)sqlite3_extended_result_codes(ix->db, 1);
	(void)sqlite3_busy_timeout(ix->db, BUSY_MS);
	(void)sqlite3_db_config(ix->db, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
	(void)sqlite3_db_config(ix->db, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
	if (index_sql(ix,
		      "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL;"
		      "PRAGMA cell_size_check = ON; PRAGMA cache_size = -32768;"
		      "PRAGMA journal_size_limit = 16777216",
		      e) < 0 ||
	    index_schema(ix, e) < 0)
		return -e->code;
	return index_prepare(
		ix, "INSERT OR REPLACE INTO records VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
		&ix->insert, e);
}

static void disconnect(struct index *ix)
{
	(void)sqlite3_finalize(ix->insert);
	(void)sqlite3_close(ix->db);
	ix->insert = NULL;
	ix->db = NULL;
}

/* SQLite would make the file for everybody to read; -wal and -shm take its mode. */
static int make_file(struct index *ix, struct err *e)
{
	CLEANUP(fd)
	int fd = openat(ix->dirfd, INDEX_NAME,
			O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK, 0600);
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0)
		return err_sys(e, "cannot open the index '%s/%s'", ix->dir, INDEX_NAME);
	if (!S_ISREG(st.st_mode))
		return err_set(e, ERR_INTERNAL, EBADMSG, "the index is not a file");
	ix->ino = st.st_ino;
	return 0;
}

/* Under the exclusive lock nobody is between making the file and using it. Who still has the old
 * one open goes on with that. */
static void index_discard(struct index *ix)
{
	static const char *const names[] = { INDEX_NAME "-wal", INDEX_NAME "-shm", INDEX_NAME };
	struct stat st;

	(void)flock(ix->dirfd, LOCK_EX);
	if (fstatat(ix->dirfd, INDEX_NAME, &st, AT_SYMLINK_NOFOLLOW) < 0 || st.st_ino != ix->ino)
		return; /* somebody else did it */
	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		(void)unlinkat(ix->dirfd, names[i], 0);
}

static int attempt_once(struct index *ix, struct err *e)
{
	if (make_file(ix, e) < 0 || connect(ix, e) < 0)
		return -e->code;
	return index_catch_up(ix, e);
}

/* SQLite waits for its own locks, except while another connection changes the journal mode: that it
 * reports at once. */
static int attempt(struct index *ix, struct err *e)
{
	const struct timespec pause = { .tv_nsec = BUSY_PAUSE_MS * 1000000L };
	int r;

	if (flock(ix->dirfd, LOCK_SH) < 0)
		return err_sys(e, "cannot lock '%s'", ix->dir);
	for (int i = 0; (r = attempt_once(ix, e)) == -EBUSY && i < BUSY_TRIES; i++) {
		disconnect(ix);
		err_clear(e);
		(void)nanosleep(&pause, NULL);
	}
	return r;
}

/* Another user's folder may hold anything, and what is made there would not be theirs. */
static int check_owner(const struct index *ix, struct err *e)
{
	struct stat st;

	if (fstat(ix->dirfd, &st) < 0)
		return err_sys(e, "cannot look at '%s'", ix->dir);
	return st.st_uid == geteuid() && !(st.st_mode & 022)
		       ? 0
		       : err_set(e, ERR_INTERNAL, EPERM, "'%s' is not a folder of one's own",
				 ix->dir);
}

int index_renew(struct index *ix, struct err *e)
{
	int r;

	disconnect(ix);
	index_discard(ix);
	err_clear(e);
	r = attempt(ix, e);
	(void)flock(ix->dirfd, LOCK_UN);
	return r;
}

int index_open(int dirfd, const char *dir, struct index **ret, struct err *e)
{
	CLEANUP(index) struct index *ix = calloc(1, sizeof(*ix));
	int r;

	if (!ix)
		return err_nomem(e);
	ix->dirfd = openat(dirfd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	ix->dir = strdup(dir);
	if (ix->dirfd < 0 || !ix->dir)
		return err_sys(e, "cannot open '%s'", dir);
	if (check_owner(ix, e) < 0)
		return -e->code;
	r = attempt(ix, e);
	(void)flock(ix->dirfd, LOCK_UN);
	if (r == -EBADMSG)
		r = index_renew(ix, e);
	if (r == -ENOSPC) {
		disconnect(ix);
		index_discard(ix);
	}
	if (r < 0)
		return r;
	*ret = TAKE_PTR(ix);
	return 0;
}

struct index *index_free(struct index *ix)
{
	if (ix) {
		disconnect(ix);
		(void)fd_close(ix->dirfd);
		free(ix->dir);
		free(ix);
	}
	return NULL;
}
