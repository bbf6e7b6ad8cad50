/* Route alignment, spec marlin-numerics 2.5. */
#include "kernels/vectors/vectors.h"

/* The r-th route in the order inside an expert: by (r mod lanes, r div lanes) while that order is the kernel's, which
 * is below 1024 routes and 64 experts; ascending else, where the kernel's order is not determined. */
static void put_expert(const int32_t *expert, int routes, int experts, int x, int32_t *sorted, int capacity, int *at)
{
    int lanes = routes < 1024 && experts <= 64 ? (experts > 32 ? experts : 32) : 1;
    for (int lane = 0; lane < lanes; lane++)
        for (int r = lane; r < routes; r += lanes)
            if (expert[r] == x) {
                if (*at < capacity)
                    sorted[*at] = r;
                ++*at;
            }
}

int align_routes(const int32_t *expert, int routes, int experts, int block_rows, int32_t *sorted, int capacity,
                 int32_t *block_experts)
{
    int at = 0, blocks = 0;
    for (int x = 0; x < experts; x++) {
        put_expert(expert, routes, experts, x, sorted, capacity, &at);
        for (; at % block_rows; at++)
            if (at < capacity)
                sorted[at] = routes;
        for (; blocks < at / block_rows; blocks++)
            if (blocks < capacity / block_rows)
                block_experts[blocks] = x;
    }
    return blocks;
}
