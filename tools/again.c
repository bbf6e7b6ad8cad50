#include "tools/command.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --jobs N and --shard I/N say how a run was made, not what it says. Returns how many words they take. */
static int about_sharing(int argc, char **argv, int i)
{
    static const char *const name[] = {"--jobs", "--shard"};
    for (int k = 0; k < 2; k++) {
        size_t n = strlen(name[k]);
        if (!strncmp(argv[i], name[k], n) && (argv[i][n] == '=' || !argv[i][n]))
            return argv[i][n] || i + 1 >= argc ? 1 : 2;
    }
    return 0;
}

char *command_again(int argc, char **argv)
{
    char *text = NULL;
    size_t size = 0;
    FILE *f = open_memstream(&text, &size);
    if (!f)
        return NULL;
    fputs("assay", f);
    for (int i = 0, skip; i < argc; i++) {
        if ((skip = about_sharing(argc, argv, i))) {
            i += skip - 1;
            continue;
        }
        const char *plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=./:,@%";
        if (*argv[i] && strspn(argv[i], plain) == strlen(argv[i])) {
            fprintf(f, " %s", argv[i]);
            continue;
        }
        fputs(" '", f);
        for (const char *c = argv[i]; *c; c++)
            fprintf(f, *c == '\'' ? "'\\''" : "%c", *c);
        fputc('\'', f);
    }
    fclose(f);
    return text;
}
