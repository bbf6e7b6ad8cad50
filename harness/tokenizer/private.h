/* Shared by the files of this folder. */
#ifndef ASSAY_TOKENIZER_PRIVATE_H
#define ASSAY_TOKENIZER_PRIVATE_H

#define PCRE2_CODE_UNIT_WIDTH 8

#include "harness/tokenizer/tokenizer.h"

#include <jansson.h>
#include <pcre2.h>

#define MAX_STEPS 8

struct merge {
    int32_t left, right, result, rank; /* rank -1: an empty cell */
};

struct added {
    char *text;
    size_t bytes;
    int32_t id;
};

/* One pre-tokenizer: cuts at the matches of a pattern, which are words of their own, as are the gaps between. */
struct split {
    pcre2_code *pattern;
};

struct tokenizer {
    char name[200];
    json_t *file; /* the whole of it; owns the strings */
    json_t *vocab;
    const char **piece; /* [vocab], NULL where there is none */
    int pieces;
    int32_t byte_id[256]; /* of the single-byte pieces, -1: none */
    struct merge *merge;  /* open addressing, size a power of two */
    uint32_t merge_mask;
    struct added *added; /* longest first */
    int addeds;
    struct split split[MAX_STEPS];
    int splits;
    pcre2_match_context *match;
    pcre2_match_data *match_data;
    int16_t byte_of[512]; /* code point of the byte alphabet -> byte, -1: none */
};

/* Cuts text[from,to) by steps [step, splits) and hands each word to `word`. */
typedef int word_fn(void *arg, const char *text, size_t bytes, struct err *e);
int tokenizer_words(struct tokenizer *t, int step, const char *text, size_t bytes, word_fn *word, void *arg,
                    struct err *e);
/* Reads pre_tokenizer. */
int tokenizer_read_splits(struct tokenizer *t, const json_t *pre, struct err *e);

#endif
