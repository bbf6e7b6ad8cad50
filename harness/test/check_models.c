#include "harness/models/load.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

static struct model *opened(const char *name)
{
    struct err e = {0};
    struct model *m = NULL;
    char folder[512];
    ck_assert_msg(model_find(name, ".", NULL, folder, sizeof folder, &e) == OK, "%s", e.text);
    ck_assert_msg(model_open(folder, &m, &e) == OK, "%s", e.text);
    return m;
}

START_TEST(shipped_models_open_with_their_numbers)
{
    static const struct {
        const char *name, *arch;
        int layers, experts, group;
        enum weight_format format;
        enum weight_packing packing;
    } want[] = {
        {"tiny-dense-nvfp4", "qwen3", 6, 0, 16, WF_NVFP4, PACK_BYTES},
        {"tiny-dense-mxfp4", "qwen3", 6, 0, 32, WF_MXFP4, PACK_BYTES},
        {"tiny-dense-int4g128", "qwen3", 6, 0, 128, WF_U4B8, PACK_WORDS},
        {"tiny-moe-nvfp4", "qwen3_moe", 4, 8, 16, WF_NVFP4, PACK_BYTES},
        {"tiny-moe-mxfp4", "qwen3_moe", 4, 8, 32, WF_MXFP4, PACK_BYTES},
        {"tiny-moe-int4g128", "qwen3_moe", 4, 8, 128, WF_U4B8, PACK_WORDS},
    };
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        struct model *m = opened(want[i].name);
        ck_assert_str_eq(m->name, want[i].name);
        ck_assert_str_eq(m->config.arch, want[i].arch);
        ck_assert_str_eq(m->quant, strrchr(want[i].name, '-') + 1);
        ck_assert_int_eq(m->config.layers, want[i].layers);
        ck_assert_int_eq(m->config.experts, want[i].experts);
        ck_assert_int_eq(m->config.eos_count, 1);
        ck_assert_int_eq(m->config.eos[0], 0);
        ck_assert(m->config.rope_theta == 10000 && m->config.tied && m->config.head_dim == 64);
        ck_assert_ptr_eq(m->head.weight.data, m->embed.data);
        for (int l = 0; l < want[i].layers; l++) {
            const struct linear *q = &m->layer[l].q;
            ck_assert(q->format == want[i].format && q->packing == want[i].packing && q->group == want[i].group);
            ck_assert(q->n == 256 && q->k == 256);
            ck_assert_int_eq(m->layer[l].experts != NULL, want[i].experts > 0);
            ck_assert_int_eq(m->layer[l].gate.n, want[i].experts ? 0 : 768);
        }
        ck_assert_int_eq(m->files, 5);
        ck_assert_str_eq(m->file[2].name, "model.safetensors");
        model_close(m);
    }
}
END_TEST

int main(void)
{
    Suite *s = suite_create("models");
    TCase *t = tcase_create("open");
    tcase_add_test(t, shipped_models_open_with_their_numbers);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
