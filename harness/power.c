#include "harness/power.h"

#include <math.h>

/* P(X <= k), X binomial(n, p), 0 < p < 1. */
static double cumulative(long n, long k, double p)
{
    double sum = 0;
    for (long i = 0; i <= k; i++)
        sum += exp(lgamma((double)n + 1) - lgamma((double)i + 1) - lgamma((double)(n - i) + 1) + (double)i * log(p) +
                   (double)(n - i) * log1p(-p));
    return sum;
}

double flip_rate_95(long tokens, long roots)
{
    if (tokens <= 0 || roots >= tokens)
        return 1;
    double low = 0, high = 1;
    for (int i = 0; i < 60; i++) {
        double p = (low + high) / 2;
        if (cumulative(tokens, roots, p) > 0.05)
            low = p;
        else
            high = p;
    }
    return high;
}
