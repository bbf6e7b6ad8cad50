/* plan_view - a plan as text, JSON and drawing */
#ifndef ASSAY_TOOLS_PLAN_VIEW_H
#define ASSAY_TOOLS_PLAN_VIEW_H

#include "kernels/plan.h"
#include "tools/command.h"

#include <jansson.h>

enum { VIEW_SLICES_MAX = 1024 };

void plan_print(const struct tool *t, const struct gemm_plan *p, const struct gpu_profile *g);
json_t *plan_json(const struct gemm_plan *p, const struct gpu_profile *g); /* new reference */

/* Writes a drawing of launch `index`: columns are column tiles, downwards is k, a colour is a CTA. */
int plan_draw(const char *path, const struct gemm_plan *p, const struct gpu_profile *g, int index, struct err *e);

/* "grouped, m 8, n 1024, k 5120, nvfp4 group 16, bf16, reduce f32" */
void plan_title(const struct gemm_plan *p, char *out, size_t size);

/* Column tiles by number of slices: count[s] tiles have s of them. Returns the largest s. */
int plan_histogram(const struct gemm_launch *l, int count[VIEW_SLICES_MAX]);

#endif
