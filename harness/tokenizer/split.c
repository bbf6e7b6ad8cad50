/* Cutting text into words, by PCRE2. */
#include "harness/tokenizer/private.h"

#include <stdlib.h>
#include <string.h>

/* What ByteLevel with use_regex cuts by (GPT-2). */
static const char gpt2[] = "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";

static int add_pattern(struct tokenizer *t, const char *pattern, struct err *e)
{
    int code;
    PCRE2_SIZE at;
    char why[160];
    if (t->splits == MAX_STEPS)
        return FAIL(e, E_UNSUPPORTED, "%s: more than %d pre-tokenizers", t->name, MAX_STEPS);
    char *own;
    if (tokenizer_pattern(pattern, t->name, &own, e))
        return e->code;
    /* multi-line as Ruby's syntax is */
    pcre2_code *p = pcre2_compile((PCRE2_SPTR)own, PCRE2_ZERO_TERMINATED, PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE,
                                  &code, &at, NULL);
    free(own);
    if (!p) {
        pcre2_get_error_message(code, (PCRE2_UCHAR *)why, sizeof why);
        return FAIL(e, E_INPUT, "%s: pre_tokenizer pattern does not compile at %zu: %s", t->name, (size_t)at, why);
    }
    t->split[t->splits++].pattern = p;
    return OK;
}

static int read_split(struct tokenizer *t, const json_t *o, struct err *e)
{
    const json_t *pattern = json_object_get(o, "pattern");
    const char *regex = json_string_value(json_object_get(pattern, "Regex"));
    const char *behavior = json_string_value(json_object_get(o, "behavior"));
    if (!regex || !behavior || strcmp(behavior, "Isolated") || json_is_true(json_object_get(o, "invert")))
        return FAIL(e, E_UNSUPPORTED, "%s: a Split pre-tokenizer must have a Regex, behavior Isolated and no invert",
                    t->name);
    return add_pattern(t, regex, e);
}

static int read_splits(struct tokenizer *t, const json_t *pre, struct err *e)
{
    const char *type = json_string_value(json_object_get(pre, "type"));
    if (t->byte_level)
        return FAIL(e, E_UNSUPPORTED, "%s: a pre_tokenizer behind ByteLevel", t->name);
    if (!type)
        return FAIL(e, E_UNSUPPORTED, "%s: no pre_tokenizer; a byte-level one is expected", t->name);
    if (!strcmp(type, "ByteLevel")) {
        const json_t *use = json_object_get(pre, "use_regex");
        if (json_is_true(json_object_get(pre, "add_prefix_space")))
            return FAIL(e, E_UNSUPPORTED, "%s: ByteLevel with add_prefix_space", t->name);
        t->byte_level = 1;
        return use && !json_is_true(use) ? OK : add_pattern(t, gpt2, e);
    }
    if (!strcmp(type, "Digits"))
        return add_pattern(t, json_is_true(json_object_get(pre, "individual_digits")) ? "\\p{N}" : "\\p{N}+", e);
    if (!strcmp(type, "Split"))
        return read_split(t, pre, e);
    if (strcmp(type, "Sequence"))
        return FAIL(e, E_UNSUPPORTED, "%s: pre_tokenizer %.40s; ByteLevel, Split, Digits and Sequence are understood",
                    t->name, type);
    size_t i;
    json_t *one;
    json_array_foreach(json_object_get(pre, "pretokenizers"), i, one)
    {
        if (read_splits(t, one, e))
            return e->code;
    }
    return OK;
}

int tokenizer_read_splits(struct tokenizer *t, const json_t *pre, struct err *e)
{
    if (read_splits(t, pre, e))
        return e->code;
    return t->byte_level ? OK : FAIL(e, E_UNSUPPORTED, "%s: no ByteLevel pre_tokenizer", t->name);
}

static int no_match(struct tokenizer *t, int code, struct err *e)
{
    char why[160];
    pcre2_get_error_message(code, (PCRE2_UCHAR *)why, sizeof why);
    return FAIL(e, E_INPUT, "%s: the pre_tokenizer pattern gives up on this text: %s", t->name, why);
}

int tokenizer_words(struct tokenizer *t, int step, const char *text, size_t bytes, word_fn *word, void *arg,
                    struct err *e)
{
    size_t done = 0, at = 0;
    if (!bytes)
        return OK;
    if (step == t->splits)
        return word(arg, text, bytes, e);
    while (at < bytes) {
        /* match data is shared by the steps: what is needed of it is copied before going deeper */
        int code = pcre2_match(t->split[step].pattern, (PCRE2_SPTR)text, bytes, at, PCRE2_NO_UTF_CHECK, t->match_data,
                               t->match);
        if (code == PCRE2_ERROR_NOMATCH)
            break;
        if (code < 0)
            return no_match(t, code, e);
        PCRE2_SIZE *v = pcre2_get_ovector_pointer(t->match_data), from = v[0], to = v[1];
        if (to == from) { /* an empty match cuts nothing */
            at++;
            while (at < bytes && (text[at] & 0xc0) == 0x80)
                at++;
            continue;
        }
        if (tokenizer_words(t, step + 1, text + done, from - done, word, arg, e) ||
            tokenizer_words(t, step + 1, text + from, to - from, word, arg, e))
            return e->code;
        done = at = to;
    }
    return tokenizer_words(t, step + 1, text + done, bytes - done, word, arg, e);
}
