/* Anchors in force as text files beside the store, and what is wrong with either. */
#include "goldens/exchange.h"
#include "goldens/owed.h"
#include "goldens/seal.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* The last word on every key: key, anchor ('' when none is in force), seq, golden's status, its battery's hash now. */
static const char last_words[] =
    "SELECT json_extract(l.what, '$.anchor_key'), json_extract(l.what, '$.anchor'), l.seq,"
    " json_extract(l.what, '$.golden'), (SELECT status_now FROM golden_now WHERE sha256 ="
    " json_extract(l.what, '$.golden')) FROM ledger AS l WHERE l.seq IN (SELECT max(seq) FROM ledger WHERE kind IN"
    " ('ratify', 'unratify') AND json_valid(what) GROUP BY json_extract(what, '$.anchor_key')) ORDER BY 1";

/* "" when it counts. */
static int why_stale(struct store *s, const struct anchor *a, char why[300], struct err *e)
{
    char status[16];
    struct err none = {0};
    why[0] = 0;
    if (store_golden_status_of(s, a->golden_sha256, status, &none)) {
        snprintf(why, 300, "its golden %.12s is not in the store", a->golden_sha256);
        return OK;
    }
    if (strcmp(status, "active")) {
        snprintf(why, 300, "its golden %.12s is %s", a->golden_sha256, status);
        return OK;
    }
    sqlite3_stmt *q =
        db_query(s, e, "SELECT sha256 FROM battery WHERE name = ? ORDER BY id DESC LIMIT 1", "t", a->battery);
    int row = db_step(s, q, e);
    if (row == 1 && strcmp(db_text(q, 0), a->battery_sha256))
        snprintf(why, 300, "battery %s is another one now (%.12s, ratified with %.12s)", a->battery, db_text(q, 0),
                 a->battery_sha256);
    sqlite3_finalize(q);
    return row < 0 ? e->code : OK;
}

static int open_anchor(struct store *s, const char *sha256, struct anchor **a, char **text, size_t *bytes,
                       struct err *e)
{
    char found[SHA256_HEX_SIZE];
    int rc = store_record_get(s, "anchor", sha256, text, bytes, found, e);
    if (rc)
        return rc;
    if ((rc = anchor_parse(*text, *bytes, sha256, a, e)))
        free(*text);
    return rc;
}

int store_anchor_list(struct store *s, json_t **list, struct err *e)
{
    sqlite3_stmt *q = db_query(s, e, last_words, "");
    json_t *all = json_array();
    int row, rc = OK;
    while (!rc && (row = db_step(s, q, e)) == 1) {
        struct anchor *a;
        char *text, why[300];
        size_t bytes;
        if (!*db_text(q, 1) || (rc = open_anchor(s, db_text(q, 1), &a, &text, &bytes, e)))
            continue;
        rc = why_stale(s, a, why, e);
        json_array_append_new(all, json_pack("{s:s,s:s,s:I,s:s,s:s,s:s,s:s,s:o}", "key", db_text(q, 0), "anchor",
                                             db_text(q, 1), "seq", (json_int_t)sqlite3_column_int64(q, 2), "golden",
                                             a->golden_sha256, "arm", a->arm, "device", a->device, "by", a->by, "stale",
                                             *why ? json_string(why) : json_null()));
        anchor_free(a);
        free(text);
    }
    sqlite3_finalize(q);
    if (rc || e->code) {
        json_decref(all);
        return rc ? rc : e->code;
    }
    *list = all;
    return OK;
}

/* A key as a file name: what is no letter, digit, dot or hyphen becomes a hyphen; a piece of its hash keeps it alone.
 */
static void file_of(const struct store *s, const char *folder, const char *key, char *out, size_t size)
{
    char name[160];
    uint8_t hash[SHA256_BYTES];
    size_t n = 0;
    for (const char *c = key; *c && n < sizeof name - 1; c++) {
        int plain = isalnum((unsigned char)*c) || *c == '.';
        if (plain || (n && name[n - 1] != '-'))
            name[n++] = plain ? *c : '-';
    }
    name[n] = 0;
    sha256_of(key, strlen(key), hash);
    snprintf(out, size, "%.1023s%s/%s.%02x%02x.txt", folder ? folder : s->path, folder ? "" : "-ratified", name,
             hash[0], hash[1]);
}

static int same_file(const char *path, const char *sha256)
{
    struct err none = {0};
    char own[SHA256_HEX_SIZE];
    return !sha256_file(path, own, &none) && !strcmp(own, sha256);
}

static int mirror_one(struct store *s, const char *path, const char *sha256, struct err *e)
{
    char *text, found[SHA256_HEX_SIZE];
    size_t bytes;
    int rc;
    if (!*sha256) {
        if (unlink(path) && errno != ENOENT)
            return FAIL(e, E_IO, "%s: cannot remove: %s", path, strerror(errno));
        return OK;
    }
    if (same_file(path, sha256))
        return OK;
    if ((rc = store_record_get(s, "anchor", sha256, &text, &bytes, found, e)))
        return rc;
    rc = packed_write(path, text, bytes, e);
    free(text);
    return rc;
}

int store_mirror_write(struct store *s, const char *folder, int *files, struct err *e)
{
    char path[1400];
    int row, rc = OK;
    *files = 0;
    file_of(s, folder, "", path, sizeof path);
    *strrchr(path, '/') = 0;
    if (mkdir(path, 0755) && errno != EEXIST)
        return FAIL(e, E_IO, "%s: cannot make the folder: %s", path, strerror(errno));
    sqlite3_stmt *q = db_query(s, e, last_words, "");
    while (!rc && (row = db_step(s, q, e)) == 1) {
        file_of(s, folder, db_text(q, 0), path, sizeof path);
        rc = mirror_one(s, path, db_text(q, 1), e);
        *files += *db_text(q, 1) != 0;
    }
    sqlite3_finalize(q);
    return rc ? rc : e->code;
}

int store_mirror(struct store *s, const char *folder, int *files, struct err *e)
{
    int fd, rc = owed_note(s, folder, &fd, e);
    return rc ? rc : owed_pay(s, folder, fd, files, e);
}

static int check_one(struct store *s, const char *key, const char *sha256, json_t *bad, struct err *e)
{
    char path[1400], line[2200], why[300];
    struct anchor *a;
    struct err own = {0};
    char *text;
    size_t bytes;
    if (open_anchor(s, sha256, &a, &text, &bytes, &own)) {
        snprintf(line, sizeof line, "anchor of %s: %s", key, own.text);
        db_complain(bad, line);
        return OK;
    }
    int rc = why_stale(s, a, why, e);
    if (*why) {
        snprintf(line, sizeof line, "stale: the anchor of %s: %s", key, why);
        db_complain(bad, line);
    }
    file_of(s, NULL, key, path, sizeof path);
    if (!same_file(path, sha256)) {
        snprintf(line, sizeof line, "mirror %s %s; `assay store mirror` writes it again", path,
                 access(path, F_OK) ? "is not there" : "was edited");
        db_complain(bad, line);
    }
    free(text);
    anchor_free(a);
    return rc;
}

/* A text that nobody has in force looks like a golden to who reads it. */
static void check_orphans(const struct store *s, const json_t *expected, json_t *bad)
{
    char path[1200], line[1600];
    snprintf(path, sizeof path, "%s-ratified", s->path);
    DIR *d = opendir(path);
    struct dirent *f;
    while (d && (f = readdir(d))) {
        if (*f->d_name == '.' || json_object_get(expected, f->d_name))
            continue;
        snprintf(line, sizeof line, "mirror %s/%s is of no anchor in force; `assay store mirror` removes what was one",
                 path, f->d_name);
        db_complain(bad, line);
    }
    if (d)
        closedir(d);
}

int anchor_check_all(struct store *s, json_t *bad, struct err *e)
{
    sqlite3_stmt *q = db_query(s, e, last_words, "");
    json_t *expected = json_object();
    int row, rc = OK;
    while (!rc && (row = db_step(s, q, e)) == 1) {
        char path[1400];
        if (!*db_text(q, 1))
            continue;
        file_of(s, NULL, db_text(q, 0), path, sizeof path);
        json_object_set_new(expected, strrchr(path, '/') + 1, json_true());
        rc = check_one(s, db_text(q, 0), db_text(q, 1), bad, e);
    }
    sqlite3_finalize(q);
    if (!rc && !e->code)
        check_orphans(s, expected, bad);
    json_decref(expected);
    return rc ? rc : e->code;
}
