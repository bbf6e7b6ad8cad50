/* device - on what an arm or an oracle computes, so that a golden of another device never passes silently */
#ifndef ASSAY_DEVICE_H
#define ASSAY_DEVICE_H

#include <jansson.h>
#include <stddef.h>

/* Of an engine's description (engine.build, a summary's "engine"): the GPU, the profile that is computed as, or what a
 * record says about its oracle. "" when it does not say. */
void device_of_engine(const json_t *build, char *out, size_t size);
/* Of a golden's header: "NVIDIA H200" of oracle.gpu "NVIDIA H200, 580.159.04". "" when it does not say. */
void device_of_golden(const json_t *header, char *out, size_t size);
/* 1 when both are known and one's name is part of the other's, letters and digits only: h200, NVIDIA H200. */
int device_same(const char *a, const char *b);

#endif
