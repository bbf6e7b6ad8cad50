#include "tools/token_text.h"

#include "harness/models/load.h"
#include "harness/tokenizer/tokenizer.h"

#include <stdio.h>
#include <stdlib.h>

struct token_text {
    struct tokenizer *pieces;
};

struct token_text *token_text_open(const struct tool *t, const char *model)
{
    char folder[1024], path[1100];
    struct token_text *tok = calloc(1, sizeof *tok);
    if (!tok || model_find(model, t->data_dir, t->cache_dir, folder, sizeof folder, NULL))
        goto none;
    snprintf(path, sizeof path, "%s/tokenizer.json", folder);
    if (!tokenizer_open_pieces(path, &tok->pieces, NULL))
        return tok;
none:
    free(tok);
    return NULL;
}

void token_text_close(struct token_text *tok)
{
    if (!tok)
        return;
    tokenizer_close(tok->pieces);
    free(tok);
}

const char *token_text_quote(const struct token_text *tok, int32_t id, char *buf, size_t size)
{
    return tokenizer_piece(tok ? tok->pieces : NULL, id, buf, size);
}
