/* Where the CUDA part lies: beside the program, or under the installation's lib. */
#include "kernels/cuda/cuda.h"
#include "tools/command.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

int tool_cuda(const struct cuda_part **part, struct cuda_device *d, struct err *e)
{
    char self[512] = "", path[700];
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    char *slash = n > 0 ? strrchr(self, '/') : NULL;
    if (slash)
        *slash = 0;
    snprintf(path, sizeof path, "%s/" CUDA_PART_NAME, self);
    if (access(path, R_OK)) {
        char installed[700];
        snprintf(installed, sizeof installed, "%s/../lib/assay/" CUDA_PART_NAME, self);
        if (!access(installed, R_OK))
            snprintf(path, sizeof path, "%s", installed);
    }
    if (cuda_load(path, part, e))
        return e->code;
    return (*part)->device(0, d, e);
}
