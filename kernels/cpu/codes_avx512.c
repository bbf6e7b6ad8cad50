#include "kernels/codes.h"
void code_chain_avx512(const struct code_chain *c)
{
    code_chain_avx2(c);
}
