#include "harness/models/load.h"
#include "tools/command.h"

int tool_model(const struct tool *t, const char *name, struct model **m, struct err *e)
{
    char folder[1024];
    int rc = model_find(name, t->data_dir, t->cache_dir, folder, sizeof folder, e);
    return rc ? rc : model_open(folder, m, e);
}
