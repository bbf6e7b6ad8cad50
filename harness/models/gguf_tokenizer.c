#include "harness/models/gguf_tokenizer.h"

#include "harness/models/hf_json.h"

#include <stdlib.h>
#include <string.h>

#define TOKEN_CONTROL      3
#define TOKEN_USER_DEFINED 4

/* How each "pre" name splits text before BPE: a pattern, single digits, or GPT-2's own pattern. */
static const struct pre {
    const char *name, *pattern;
    int single_digits;
} pres[] = {
    {"default", NULL, 0},
    {"gpt-2", NULL, 0},
    {"smollm", NULL, 1},
    {"llama-bpe",
     "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| "
     "?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|"
     "\\s+(?!\\S)|\\s+",
     0},
    {"qwen2",
     "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| "
     "?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+"
     "(?!\\S)|\\s+",
     0},
};

static int is_text(const struct gguf *g, const char *key, const char *want)
{
    const char *text;
    size_t n;
    return gguf_string(g, key, &text, &n, NULL) == OK && n == strlen(want) && !memcmp(text, want, n);
}

static const struct pre *find_pre(const struct gguf *g)
{
    if (!is_text(g, "tokenizer.ggml.model", "gpt2"))
        return NULL;
    for (size_t i = 0; i < sizeof pres / sizeof *pres; i++)
        if (is_text(g, "tokenizer.ggml.pre", pres[i].name))
            return &pres[i];
    return NULL;
}

static json_t *byte_level(int use_regex)
{
    return json_pack("{s:s,s:b,s:b,s:b}", "type", "ByteLevel", "add_prefix_space", 0, "trim_offsets", 1, "use_regex",
                     use_regex);
}

static json_t *pre_tokenizer(const struct pre *p)
{
    if (p->single_digits)
        return json_pack("{s:s,s:[{s:s,s:b},o]}", "type", "Sequence", "pretokenizers", "type", "Digits",
                         "individual_digits", 1, byte_level(1));
    if (p->pattern)
        return json_pack("{s:s,s:[{s:s,s:{s:s},s:s,s:b},o]}", "type", "Sequence", "pretokenizers", "type", "Split",
                         "pattern", "Regex", p->pattern, "behavior", "Isolated", "invert", 0, byte_level(0));
    return byte_level(1);
}

static const struct gguf_key *strings(const struct gguf *g, const char *name, struct err *e)
{
    const struct gguf_key *k = gguf_key(g, name);
    if (k && k->type == GGUF_ARRAY && k->element == GGUF_STRING)
        return k;
    FAIL(e, E_INPUT, "%s: key \"%s\" is not a list of strings", g->path, name);
    return NULL;
}

/* vocab and the special tokens among it */
static int read_tokens(const struct gguf *g, json_t *vocab, json_t *added, struct err *e)
{
    const struct gguf_key *tokens = strings(g, "tokenizer.ggml.tokens", e);
    const struct gguf_key *types = gguf_key(g, "tokenizer.ggml.token_type");
    if (!tokens)
        return E_INPUT;
    if (types && (types->type != GGUF_ARRAY || types->element != GGUF_I32 || types->count != tokens->count))
        return FAIL(e, E_INPUT, "%s: key \"tokenizer.ggml.token_type\" does not fit the tokens", g->path);
    const uint8_t *at = tokens->data;
    for (uint64_t i = 0; i < tokens->count; i++) {
        const char *text;
        size_t n;
        gguf_next_string(&at, &text, &n);
        json_t *name = json_stringn(text, n);
        if (!name || memchr(text, 0, n))
            return FAIL(e, E_INPUT, "%s: token %llu is not UTF-8 text", g->path, (unsigned long long)i);
        if (json_object_get(vocab, json_string_value(name))) {
            json_decref(name);
            return FAIL(e, E_INPUT, "%s: token %llu is there twice", g->path, (unsigned long long)i);
        }
        json_object_set_new(vocab, json_string_value(name), json_integer((json_int_t)i));
        uint8_t type = types ? types->data[4 * i] : 0;
        if (type == TOKEN_CONTROL || type == TOKEN_USER_DEFINED)
            json_array_append_new(added, json_pack("{s:I,s:O,s:b,s:b,s:b,s:b,s:b}", "id", (json_int_t)i, "content",
                                                   name, "single_word", 0, "lstrip", 0, "rstrip", 0, "normalized", 0,
                                                   "special", type == TOKEN_CONTROL));
        json_decref(name);
    }
    return OK;
}

static int read_merges(const struct gguf *g, json_t *merges, struct err *e)
{
    const struct gguf_key *k = strings(g, "tokenizer.ggml.merges", e);
    if (!k)
        return E_INPUT;
    const uint8_t *at = k->data;
    for (uint64_t i = 0; i < k->count; i++) {
        const char *text;
        size_t n;
        gguf_next_string(&at, &text, &n);
        const char *space = memchr(text, ' ', n);
        json_t *left = space ? json_stringn(text, (size_t)(space - text)) : NULL;
        json_t *right = space ? json_stringn(space + 1, n - (size_t)(space - text) - 1) : NULL;
        if (!left || !right) {
            json_decref(left);
            json_decref(right);
            return FAIL(e, E_INPUT, "%s: merge %llu is not two pieces", g->path, (unsigned long long)i);
        }
        json_array_append_new(merges, json_pack("[o,o]", left, right));
    }
    return OK;
}

static int dump(const struct stage *s, const char *name, const json_t *o, struct err *e)
{
    char *text = json_dumps(o, JSON_INDENT(2));
    int rc = text ? stage_write(s, name, text, strlen(text), e) : FAIL(e, E_NOMEM, "%s: out of memory", name);
    free(text);
    return rc;
}

static int write_tokenizer(const struct gguf *g, const struct pre *p, const struct stage *s, struct err *e)
{
    json_t *vocab = json_object(), *added = json_array(), *merges = json_array(), *o = NULL;
    int rc = read_tokens(g, vocab, added, e);
    if (rc == OK && (rc = read_merges(g, merges, e)) == OK) {
        json_t *model = json_pack("{s:s,s:n,s:n,s:n,s:n,s:b,s:b,s:b,s:O,s:O}", "type", "BPE", "dropout", "unk_token",
                                  "continuing_subword_prefix", "end_of_word_suffix", "fuse_unk", 0, "byte_fallback", 0,
                                  "ignore_merges", !strcmp(p->name, "llama-bpe"), "vocab", vocab, "merges", merges);
        o = json_pack("{s:s,s:n,s:n,s:O,s:n,s:o,s:n,s:o,s:o}", "version", "1.0", "truncation", "padding",
                      "added_tokens", added, "normalizer", "pre_tokenizer", pre_tokenizer(p), "post_processor",
                      "decoder", byte_level(1), "model", model);
        rc = o ? dump(s, "tokenizer.json", o, e) : FAIL(e, E_NOMEM, "%s: out of memory", g->path);
    }
    json_decref(o);
    json_decref(merges);
    json_decref(added);
    json_decref(vocab);
    return rc;
}

static void set_token(const struct gguf *g, json_t *o, const char *key, const char *name)
{
    const struct gguf_key *tokens = strings(g, "tokenizer.ggml.tokens", NULL);
    int64_t id;
    if (!tokens || !tokens->count || gguf_int(g, key, 0, (int64_t)tokens->count - 1, &id, NULL))
        return;
    const uint8_t *at = tokens->data;
    const char *text = NULL;
    size_t n = 0;
    for (int64_t i = 0; i <= id; i++)
        gguf_next_string(&at, &text, &n);
    json_object_set_new(o, name, json_stringn(text, n));
}

int gguf_tokenizer_write(const struct gguf *g, const struct stage *s, int *written, struct err *e)
{
    const struct pre *p = find_pre(g);
    const char *text;
    size_t n;
    int rc;
    *written = p != NULL;
    if (!p)
        return OK;
    if ((rc = write_tokenizer(g, p, s, e)))
        return rc;
    json_t *o = json_pack("{s:s}", "tokenizer_class", "PreTrainedTokenizerFast");
    set_token(g, o, "tokenizer.ggml.bos_token_id", "bos_token");
    set_token(g, o, "tokenizer.ggml.eos_token_id", "eos_token");
    set_token(g, o, "tokenizer.ggml.unknown_token_id", "unk_token");
    rc = dump(s, "tokenizer_config.json", o, e);
    json_decref(o);
    if (rc == OK && gguf_string(g, "tokenizer.chat_template", &text, &n, NULL) == OK)
        rc = stage_write(s, "chat_template.jinja", text, n, e);
    return rc;
}
