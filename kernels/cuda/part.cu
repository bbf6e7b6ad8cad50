/* The table that C sees. */
#include "kernels/cuda/gemm_work.cuh"

#include <cuda_runtime.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int weight_load(const packed_weight *w, int experts, cuda_weight *out, err *e);
void weight_free(cuda_weight *w);
int weight_check(const packed_weight *w, const cuda_weight *d, long *differing, err *e);
int align_on_device(const int32_t *expert, int routes, int experts, int block_rows, int32_t *sorted, int capacity,
                    int32_t *block_experts, int32_t *blocks, err *e);

enum { STREAMS = 4 };

static cudaStream_t streams[STREAMS];
static int device_sm;

static int device(int index, cuda_device *d, err *e)
{
    cudaDeviceProp p;
    int count = 0, rc = cudaGetDeviceCount(&count);
    if (rc || index >= count)
        return FAIL(e, E_MISSING, "no GPU: %s", rc ? cudaGetErrorString((cudaError_t)rc) : "fewer than that are here");
    rc = cudaSetDevice(index);
    if (!rc)
        rc = cudaGetDeviceProperties(&p, index);
    for (int i = 0; i < STREAMS && !rc; i++)
        if (!streams[i])
            rc = cudaStreamCreateWithFlags(&streams[i], cudaStreamNonBlocking);
    if (rc)
        return FAIL(e, E_MISSING, "the GPU does not answer: %s", cudaGetErrorString((cudaError_t)rc));
    memset(d, 0, sizeof *d);
    snprintf(d->name, sizeof d->name, "%.127s", p.name);
    d->sm = device_sm = p.major * 10 + p.minor;
    d->sms = p.multiProcessorCount;
    d->smem_optin = (int)p.sharedMemPerBlockOptin;
    d->l2_bytes = p.l2CacheSize;
    d->memory = p.totalGlobalMem;
    cudaDriverGetVersion(&d->driver);
    cudaRuntimeGetVersion(&d->runtime);
    return OK;
}

static int alloc(size_t bytes, void **out, err *e)
{
    *out = NULL;
    return cuda_failed(cudaMalloc(out, bytes ? bytes : 1), "GPU memory", e);
}

static void release(void *p)
{
    cudaFree(p);
}

static int put(void *to, const void *from, size_t bytes, err *e)
{
    return cuda_failed(cudaMemcpy(to, from, bytes, cudaMemcpyHostToDevice), "copy to the GPU", e);
}

static int get(void *to, const void *from, size_t bytes, err *e)
{
    return cuda_failed(cudaMemcpy(to, from, bytes, cudaMemcpyDeviceToHost), "copy from the GPU", e);
}

static int fill(void *at, int byte, size_t bytes, err *e)
{
    int rc = cudaMemset(at, byte, bytes);
    return cuda_failed(rc ? rc : cudaDeviceSynchronize(), "fill", e);
}

static size_t scratch_bytes(const cuda_problem *p)
{
    size_t most = 0;
    for (int i = 0; i < p->plan->launches; i++) {
        size_t n = plan_scratch(p, i);
        most = n > most ? n : most;
    }
    return most;
}

static int launch(const cuda_problem *p, cudaStream_t s, cuda_launch_facts *f, err *e)
{
    if ((device_sm >= 90) != (p->plan->sm >= 90))
        return FAIL(e, E_UNSUPPORTED, "the plan's tensor cores are sm_%d's, this GPU is sm_%d", p->plan->sm, device_sm);
    return p->plan->shape.route == ROUTE_DENSE ? launch_dense(p, s, f, e) : launch_grouped(p, s, f, e);
}

static int gemm(const cuda_problem *p, int stream, err *e)
{
    return launch(p, streams[stream % STREAMS], NULL, e);
}

static int facts(const cuda_problem *p, cuda_launch_facts *f, err *e)
{
    return launch(p, streams[0], f, e);
}

static int sync(err *e)
{
    return cuda_failed(cudaDeviceSynchronize(), "GPU", e);
}

struct cuda_graph {
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    cudaEvent_t from, to;
};

static void graph_free(cuda_graph *g)
{
    if (!g)
        return;
    if (g->exec)
        cudaGraphExecDestroy(g->exec);
    if (g->graph)
        cudaGraphDestroy(g->graph);
    if (g->from)
        cudaEventDestroy(g->from);
    if (g->to)
        cudaEventDestroy(g->to);
    free(g);
}

static int graph_make(const cuda_problem *p, int count, cuda_graph **out, err *e)
{
    cuda_graph *g = (cuda_graph *)calloc(1, sizeof *g);
    if (!g)
        return FAIL(e, E_NOMEM, "graph: out of memory");
    int rc = cudaStreamBeginCapture(streams[0], cudaStreamCaptureModeThreadLocal);
    for (int i = 0; i < count && !rc && !e->code; i++)
        launch(&p[i], streams[0], NULL, e);
    if (!rc)
        rc = cudaStreamEndCapture(streams[0], &g->graph);
    if (!rc && !e->code)
        rc = cudaGraphInstantiate(&g->exec, g->graph, 0);
    if (!rc)
        rc = cudaEventCreate(&g->from);
    if (!rc)
        rc = cudaEventCreate(&g->to);
    if (rc || e->code) {
        graph_free(g);
        return e->code ? e->code : cuda_failed(rc, "graph", e);
    }
    *out = g;
    return OK;
}

static int graph_run(cuda_graph *g, int times, float *microseconds, err *e)
{
    int rc = cudaSuccess;
    for (int i = 0; i < times && !rc; i++) {
        float ms = 0;
        rc = cudaEventRecord(g->from, streams[0]);
        if (!rc)
            rc = cudaGraphLaunch(g->exec, streams[0]);
        if (!rc)
            rc = cudaEventRecord(g->to, streams[0]);
        if (!rc)
            rc = cudaEventSynchronize(g->to);
        if (!rc)
            rc = cudaEventElapsedTime(&ms, g->from, g->to);
        if (microseconds)
            microseconds[i] = ms * 1000;
    }
    return cuda_failed(rc, "graph", e);
}

static int copy_bandwidth(double *rate, err *e)
{
    const size_t bytes = (size_t)2 << 30;
    void *a = NULL, *b = NULL;
    cudaEvent_t from = NULL, to = NULL;
    float best = 1e30f;
    int rc = cudaMalloc(&a, bytes);
    rc = rc ? rc : cudaMalloc(&b, bytes);
    rc = rc ? rc : cudaEventCreate(&from);
    rc = rc ? rc : cudaEventCreate(&to);
    for (int i = 0; i < 10 && !rc; i++) {
        float ms = 0;
        cudaEventRecord(from, streams[0]);
        cudaMemcpyAsync(b, a, bytes, cudaMemcpyDeviceToDevice, streams[0]);
        cudaEventRecord(to, streams[0]);
        rc = cudaEventSynchronize(to);
        cudaEventElapsedTime(&ms, from, to);
        best = ms < best ? ms : best;
    }
    cudaFree(a);
    cudaFree(b);
    if (from)
        cudaEventDestroy(from);
    if (to)
        cudaEventDestroy(to);
    *rate = 2.0 * bytes / (best * 1e-3);
    return cuda_failed(rc, "copy bandwidth", e);
}

extern "C" __attribute__((visibility("default"))) const cuda_part *assay_cuda_part(void)
{
    static const cuda_part part = {CUDA_PART_ABI, device,      alloc,        release,         put,           get,  fill,
                                   weight_load,   weight_free, weight_check, align_on_device, scratch_bytes, gemm, sync,
                                   facts,         graph_make,  graph_run,    graph_free,      copy_bandwidth};
    return &part;
}
