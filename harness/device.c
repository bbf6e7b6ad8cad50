#include "harness/device.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

static const char *str(const json_t *o, const char *key)
{
    const char *s = json_string_value(json_object_get(o, key));
    return s ? s : "";
}

void device_of_golden(const json_t *header, char *out, size_t size)
{
    const char *gpu = str(json_object_get(header, "oracle"), "gpu");
    snprintf(out, size, "%.*s", strcmp(gpu, "none") ? (int)strcspn(gpu, ",") : 0, gpu);
}

void device_of_engine(const json_t *build, char *out, size_t size)
{
    const json_t *gpu = json_object_get(build, "gpu"), *profile = json_object_get(build, "gpu_profile");
    const char *name = json_is_string(gpu) ? json_string_value(gpu) : str(gpu, "name");
    if (!*name)
        name = str(profile, "name");
    if (*name)
        snprintf(out, size, "%s", name);
    else
        device_of_golden(json_object_get(build, "recorded"), out, size);
}

/* Lower-case letters and digits; a profile's tail says how it was measured, not what it is. */
static void plain(const char *name, char out[128])
{
    size_t n = 0, end = strlen(name);
    if (end > 7 && !strcmp(name + end - 7, "-native"))
        end -= 7;
    for (size_t i = 0; i < end && n < 127; i++)
        if (isalnum((unsigned char)name[i]))
            out[n++] = (char)tolower((unsigned char)name[i]);
    out[n] = 0;
}

int device_same(const char *a, const char *b)
{
    char x[128], y[128];
    plain(a, x);
    plain(b, y);
    return *x && *y && (strstr(x, y) || strstr(y, x));
}
