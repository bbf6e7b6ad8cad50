/* Shared by the files of this folder. */
#ifndef ASSAY_TOKENIZER_PRIVATE_H
#define ASSAY_TOKENIZER_PRIVATE_H

#define PCRE2_CODE_UNIT_WIDTH 8

#include "harness/tokenizer/tokenizer.h"

#include <jansson.h>
#include <pcre2.h>

#define MAX_STEPS 8
#define MAX_TEXT  (256 << 20)

struct merge {
    int32_t left, right, result, rank; /* rank -1: an empty cell */
};

struct added {
    const char *text;
    size_t bytes;
    int32_t id;
    int late;   /* "normalized": searched in what the others left over */
    int strict; /* lstrip, rstrip or single_word: not understood, refused when it appears in a text */
};

/* One pre-tokenizer: cuts at the matches of a pattern, which are words of their own, as are the gaps between. */
struct split {
    pcre2_code *pattern;
};

struct scratch; /* of the merging of one word */

struct tokenizer {
    char name[200];
    json_t *file; /* the whole of it; owns the strings */
    json_t *vocab;
    const char **piece;     /* [vocabulary], NULL where there is none */
    int pieces, vocabulary; /* largest id + 1; that of the vocabulary alone, for which piece[] has room */
    int32_t byte_id[256];   /* of the single-byte pieces, -1: none */
    int16_t byte_of[512];   /* code point of the byte alphabet -> byte, -1: none */
    uint16_t code_point[256];
    struct merge *merge; /* open addressing, size a power of two */
    uint32_t merge_mask;
    struct scratch *scratch;
    int whole_words;     /* "ignore_merges": a word that is a piece stays whole */
    int nfc;             /* texts that NFC could change are refused */
    struct added *added; /* longest first */
    int addeds;
    int32_t *added_of;         /* [pieces], index of the added token with that id, -1: none */
    uint8_t added_starts[256]; /* first bytes of added tokens */
    struct split split[MAX_STEPS];
    int splits;
    int byte_level; /* a ByteLevel step was read; nothing may come behind it */
    pcre2_match_context *match;
    pcre2_match_data *match_data;
};

/* Cuts text by steps [step, splits) and hands each word to `word`. */
typedef int word_fn(void *arg, const char *text, size_t bytes, struct err *e);
int tokenizer_words(struct tokenizer *t, int step, const char *text, size_t bytes, word_fn *word, void *arg,
                    struct err *e);
/* Reads pre_tokenizer. */
int tokenizer_read_splits(struct tokenizer *t, const json_t *pre, struct err *e);

/* The pattern as PCRE2 must read it to mean what Oniguruma means by it; E_UNSUPPORTED names what has no equivalent.
 * Caller frees *out. */
int tokenizer_pattern(const char *pattern, const char *name, char **out, struct err *e);

/* Reads model.merges. */
int tokenizer_read_merges(struct tokenizer *t, const json_t *merges, struct err *e);
/* Merges id[0,*n) of one word in place. */
int tokenizer_merge(struct tokenizer *t, int32_t *id, int *n, struct err *e);
void tokenizer_scratch_free(struct scratch *s);

/* The added token of that id, NULL: none. */
const struct added *tokenizer_added(const struct tokenizer *t, int32_t id);

/* Index of the first byte that NFC might change or join with its neighbour; bytes when there is none. */
size_t tokenizer_nfc_risk(const char *text, size_t bytes);

#endif
