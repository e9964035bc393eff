/* The cases of tests/ops on the cuda kernels, by streams of the test's own: linked in place of op_run_cpu.c. Under the
 * simulator every case runs in its three orders of threads and blocks, which must give the same bits. */
#include "support/op_run.h"

#include <stdlib.h>
#include <string.h>

#include "backend/cuda/cuda.h"
#include "support/test.h"
#include <lockstep/step_state.h>

/* Forward, reverse, shuffled; absent where a GPU executes. */
__attribute__((weak)) void cusim_set_order(int order, uint64_t seed);

enum { N_ORDERS = 3, SHUFFLE_SEED = 7 };

typedef struct test_stream {
    ls_stream head;
    cudaStream_t cuda;
    void *workspace;
    lsi_cuda_fault *faults;
} test_stream;

static test_stream current;

#define CHECK_CUDA(call) assert_string_equal(cudaGetErrorName(call), cudaGetErrorName(cudaSuccess))

cudaStream_t lsi_cuda_stream(ls_stream *stream)
{
    return ((test_stream *)stream)->cuda;
}

void *lsi_cuda_workspace(ls_stream *stream)
{
    return ((test_stream *)stream)->workspace;
}

lsi_cuda_fault *lsi_cuda_faults(ls_stream *stream)
{
    return ((test_stream *)stream)->faults;
}

int op_run_levels(void)
{
    return 1;
}

const char *op_run_level_name(int level)
{
    (void)level;
    return "cuda";
}

int op_run_max_threads(void)
{
    return cusim_set_order == NULL ? 1 : N_ORDERS;
}

bool op_run_any_nan(void)
{
    return true;
}

void op_run_begin(int level, int n_threads)
{
    (void)level;
    CHECK_CUDA(cudaSetDevice(0));
    CHECK_CUDA(cudaStreamCreateWithFlags(&current.cuda, cudaStreamNonBlocking));
    CHECK_CUDA(cudaMalloc(&current.workspace, LSI_CUDA_WORKSPACE_BYTES));
    CHECK_CUDA(cudaHostAlloc((void **)&current.faults, sizeof *current.faults, cudaHostAllocDefault));
    if (cusim_set_order != NULL) {
        cusim_set_order(n_threads - 1, SHUFFLE_SEED);
    }
}

void op_run_end(void)
{
    CHECK_CUDA(cudaStreamDestroy(current.cuda));
    CHECK_CUDA(cudaFree(current.workspace));
    CHECK_CUDA(cudaFreeHost(current.faults));
}

static void *to_device(const void *data, size_t bytes)
{
    void *out;

    CHECK_CUDA(cudaMalloc(&out, bytes));
    CHECK_CUDA(cudaMemcpyAsync(out, data, bytes, cudaMemcpyHostToDevice, current.cuda));
    CHECK_CUDA(cudaStreamSynchronize(current.cuda));
    return out;
}

static void from_device(void *data, void *device, size_t bytes)
{
    CHECK_CUDA(cudaMemcpyAsync(data, device, bytes, cudaMemcpyDeviceToHost, current.cuda));
    CHECK_CUDA(cudaStreamSynchronize(current.cuda));
    CHECK_CUDA(cudaFree(device));
}

/* Points the view to where its memory is on the device. */
static void move_view(ls_view *view, const op_run_memory *memories, unsigned char *const *devices, int n)
{
    for (int i = 0; i < n; i++) {
        unsigned char *data = view->data;

        if (devices[i] != NULL && data >= memories[i].memory && data < memories[i].memory + memories[i].bytes) {
            view->data = devices[i] + (data - memories[i].memory);
            return;
        }
    }
    assert_null(view->data);
}

static ls_status launch_and_wait(const ls_op *op, const void *arguments)
{
    memset(current.faults, 0, sizeof *current.faults);
    LS_TRY(op->cuda(&current.head, arguments));
    CHECK_CUDA(cudaStreamSynchronize(current.cuda));
    return lsi_cuda_fault_take(current.faults);
}

ls_status op_run(const ls_op *op, const void *arguments, const op_run_memory *memories, int n_memories)
{
    _Alignas(64) unsigned char on_device[LS_OP_MAX_ARGUMENTS];
    unsigned char **devices = calloc((size_t)n_memories, sizeof *devices);
    ls_step_state *state = NULL, *device_state = NULL;

    assert_non_null(devices);
    assert_non_null(op->cuda);
    memcpy(on_device, arguments, op->arguments_bytes);
    for (int i = 0; i < n_memories; i++) {
        devices[i] = memories[i].memory == NULL ? NULL : to_device(memories[i].memory, memories[i].bytes);
    }
    for (int i = 0; i < op->n_in + op->n_out + op->n_acc; i++) {
        move_view((ls_view *)on_device + i, memories, devices, n_memories);
    }
    if (op->state_access != LS_STATE_NONE) {
        memcpy(&state, on_device + op->state_offset, sizeof state);
        device_state = to_device(state, sizeof *state);
        memcpy(on_device + op->state_offset, &device_state, sizeof device_state);
    }

    ls_status status = launch_and_wait(op, on_device);
    for (int i = 0; i < n_memories; i++) {
        if (devices[i] != NULL) {
            from_device(memories[i].memory, devices[i], memories[i].bytes);
        }
    }
    if (device_state != NULL) {
        from_device(state, device_state, sizeof *state);
    }
    free(devices);
    return status;
}
