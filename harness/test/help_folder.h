/* help_folder - a scratch folder a test, and small models in it */
#ifndef ASSAY_TEST_HELP_FOLDER_H
#define ASSAY_TEST_HELP_FOLDER_H

#include "harness/models/safetensors.h"
#include "harness/models/tensor_list.h"

#include <check.h>

/* Checked fixture of a test case: an empty folder, removed afterwards. */
void scratch_setup(void);
void scratch_teardown(void);
/* Path of NAME in it; eight answers stay valid. */
const char *scratch(const char *name);
void scratch_write(const char *name, const void *data, size_t bytes);
void scratch_text(const char *name, const char *text);

/* A small Qwen3 (hidden 32, one layer, vocabulary 16, MLP 64) of type d in folder NAME, its weights a function of their
 * place. */
void small_model(const char *name, enum dtype d);
/* Rewrites the weights of folder NAME through `change`, which may edit, add or rename the tensors of the list. */
void change_weights(const char *name, void (*change)(struct tensor_list *l));
/* The tensor of that name; fails the test when there is none. Its data may be written. */
struct tensor *listed(struct tensor_list *l, const char *name);

/* Opens folder NAME; the test fails unless it is refused with `code` and a message that holds each text. */
void refused(const char *name, int code, const char *text, const char *more);

#define CHECK_HOLDS(e, wanted) ck_assert_msg(strstr((e).text, wanted) != NULL, "\"%s\" lacks \"%s\"", (e).text, wanted)

#endif
