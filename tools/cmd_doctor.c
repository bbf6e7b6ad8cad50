#include "tools/command.h"

#include <stddef.h>

static int run(struct tool *t, int argc, char **argv)
{
    char *words[64];
    int status;
    if (tool_options(t, &(const struct command){.name = "doctor", .usage = ""}, argc, argv, NULL, words, &status) < 0)
        return status;
    return 0;
}
COMMAND(doctor) = {.name = "doctor",
                   .summary = "what this machine can do, what is missing and how to get it",
                   .usage = "",
                   .order = 1,
                   .run = run};
