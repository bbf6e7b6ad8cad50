#include "harness/models/load.h"

#include "harness/models/folder.h"
#include "harness/models/weights.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* The folder's real path, so that the name is right for "." and for links. */
static int find_folder(const char *folder, struct model *m, struct err *e)
{
    char real[PATH_MAX];
    struct stat st;
    if (!realpath(folder, real))
        return FAIL(e, errno == ENOENT ? E_MISSING : E_IO, "%s: %s", folder, strerror(errno));
    if (stat(real, &st) || !S_ISDIR(st.st_mode))
        return FAIL(e, E_INPUT, "%s: not a folder", folder);
    const char *slash = strrchr(real, '/');
    if (strlen(real) >= sizeof m->path || strlen(slash + 1) >= sizeof m->name)
        return FAIL(e, E_INPUT, "%s: the path is too long", folder);
    strcpy(m->path, real);
    strcpy(m->name, slash + 1);
    return OK;
}

int model_open(const char *folder, struct model **out, struct err *e)
{
    struct err local = {0};
    e = e ? e : &local;
    struct model *m = calloc(1, sizeof *m);
    struct owner *w = calloc(1, sizeof *w);
    int rc = OK;
    *out = NULL;
    if (!m || !w) {
        free(w);
        free(m);
        return FAIL(e, E_NOMEM, "%s: out of memory", folder);
    }
    m->owner = w;
    if ((rc = find_folder(folder, m, e)) || (rc = config_read(m->path, &w->config, e)))
        goto out;
    m->config = w->config.model;
    snprintf(m->quant, sizeof m->quant, "%s", w->config.scheme.label);
    if ((rc = checkpoint_open(m->path, &w->checkpoint, e)) || (rc = take_weights(w, m, e)) ||
        (rc = folder_hash(m->path, &m->file, &m->files, e)))
        goto out;
    *out = m, m = NULL;
out:
    model_close(m);
    return rc;
}

void model_close(struct model *m)
{
    if (!m)
        return;
    struct owner *w = m->owner;
    for (int i = 0; m->layer && i < m->config.layers; i++)
        free(m->layer[i].experts);
    free(m->layer);
    free(m->file);
    for (int i = 0; i < w->memories; i++)
        free(w->memory[i]);
    free(w->memory);
    checkpoint_close(&w->checkpoint);
    config_free(&w->config);
    free(w);
    free(m);
}

void model_identity(const struct model *m, char out[SHA256_HEX_SIZE])
{
    uint8_t hash[SHA256_BYTES] = {0};
    struct sha256 *s = sha256_new();
    for (int i = 0; s && i < m->files; i++) {
        sha256_add(s, m->file[i].name, strlen(m->file[i].name) + 1);
        sha256_add(s, m->file[i].sha256, strlen(m->file[i].sha256) + 1);
    }
    if (s)
        sha256_end(s, hash);
    sha256_hex(hash, out);
}
