/* replay_file - a recorded arm: assay-golden/1, or plain JSON Lines {"prompt","ids"} */
#ifndef ASSAY_ENGINES_REPLAY_FILE_H
#define ASSAY_ENGINES_REPLAY_FILE_H

#include "harness/base/golden.h"

/* Reads FILE[.zst], a pipe, or standard input for "-". Plain lines may also hold "prompt_ids" and "finish"; their
 * prompts get `finish` -1 when it is not said and prompts = -1 when the fed ids are not said. sha256: of the text.
 * Caller frees with golden_free. */
int replay_read(const char *path, struct golden **g, char sha256[SHA256_HEX_SIZE], struct err *e);

#endif
