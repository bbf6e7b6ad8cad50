#include "goldens/store.h"
#include "tools/command.h"

static void show(void *arg, int done, int total)
{
    tool_progress(arg, "reading shipped goldens", done, total);
}

int tool_store(const struct tool *t, struct store **s, struct err *e)
{
    int rc = store_open(t->store_path, s, e);
    if (rc == OK && (rc = store_import_shipped(*s, t->data_dir, show, (void *)t, e))) {
        store_close(*s);
        *s = NULL;
    }
    return rc;
}
