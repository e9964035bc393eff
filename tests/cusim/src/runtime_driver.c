/* Functions of the driver, found by name as programs do that do not link with it: stream memory operations on words in
 * pinned memory, error texts, versions. CUresult and cudaError_t share their values. */
#include "runtime.h"

#include <cuda.h>
#include <string.h>

#undef cuStreamWriteValue32
#undef cuStreamWaitValue32

/* The device waits for host threads here, and host threads poll what it writes: someone must let streams go on. */
static CUresult queue_value(op_kind kind, CUstream stream, CUdeviceptr address, cuuint32_t value, unsigned flags)
{
    cusim_memory m;
    if (address % sizeof(uint32_t) != 0 || !cusim_memory_find((void *)(uintptr_t)address, sizeof(uint32_t), &m) ||
        m.freed) {
        cusim_note("a stream memory operation on a word that is neither device nor pinned memory");
        return CUDA_ERROR_INVALID_VALUE;
    }
    op *o = cusim_op_new(kind, kind == OP_WRITE_VALUE ? "write value" : "wait value", 1e-6);
    o->u.value.word = (uint32_t *)(uintptr_t)address;
    o->u.value.value = value;
    o->u.value.flags = flags;
    return (CUresult)cusim_queue(o, cusim_stream_resolve(stream));
}

static CUresult write_value(CUstream stream, CUdeviceptr address, cuuint32_t value, unsigned flags)
{
    cusim_need_progress();
    cudaError_t error = cusim_enter(CUSIM_FN_cuStreamWriteValue32, stream, "value=%u flags=%u", value, flags);
    if (error != cudaSuccess)
        return (CUresult)error;
    CUresult result = queue_value(OP_WRITE_VALUE, stream, address, value, flags);
    cusim_unlock();
    return result;
}

static CUresult wait_value(CUstream stream, CUdeviceptr address, cuuint32_t value, unsigned flags)
{
    cusim_need_progress();
    cudaError_t error = cusim_enter(CUSIM_FN_cuStreamWaitValue32, stream, "value=%u flags=%u", value, flags);
    if (error != cudaSuccess)
        return (CUresult)error;
    CUresult result = queue_value(OP_WAIT_VALUE, stream, address, value, flags);
    cusim_unlock();
    return result;
}

static CUresult error_string(CUresult code, const char **out)
{
    *out = cudaGetErrorString((cudaError_t)code);
    return CUDA_SUCCESS;
}

static CUresult error_name(CUresult code, const char **out)
{
    *out = cudaGetErrorName((cudaError_t)code);
    return CUDA_SUCCESS;
}

static CUresult driver_version(int *out)
{
    return (CUresult)cudaDriverGetVersion(out);
}

static CUresult device_attribute(int *out, CUdevice_attribute which, CUdevice device)
{
    int code =
        cusim_call(CUSIM_FN_cuDeviceGetAttribute, CUSIM_NO_STREAM, "attribute=%d device=%d", (int)which, (int)device);
    if (code != 0)
        return (CUresult)code;
    return cusim_device_attribute(device, (int)which, out) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static const struct {
    const char *name;
    void (*function)(void);
    unsigned since; /* CUDA version with this signature */
} entry_points[] = {
    {"cuStreamWriteValue32", (void (*)(void))write_value, 11070},
    {"cuStreamWaitValue32", (void (*)(void))wait_value, 11070},
    {"cuGetErrorString", (void (*)(void))error_string, 6000},
    {"cuGetErrorName", (void (*)(void))error_name, 6000},
    {"cuDriverGetVersion", (void (*)(void))driver_version, 2020},
    {"cuDeviceGetAttribute", (void (*)(void))device_attribute, 2000},
};

static cudaError_t entry_point(const char *name, void **out, unsigned version,
                               enum cudaDriverEntryPointQueryResult *out_status)
{
    enum cudaDriverEntryPointQueryResult status = cudaDriverEntryPointSymbolNotFound;
    *out = NULL;
    for (size_t i = 0; i < sizeof entry_points / sizeof *entry_points; i++) {
        if (strcmp(entry_points[i].name, name) != 0)
            continue;
        bool old = version < entry_points[i].since || (unsigned)cusim.machine.cuda_version < entry_points[i].since;
        status = old ? cudaDriverEntryPointVersionNotSufficent : cudaDriverEntryPointSuccess;
        if (!old)
            memcpy(out, &entry_points[i].function, sizeof *out);
    }
    if (out_status != NULL)
        *out_status = status;
    return status == cudaDriverEntryPointSuccess || out_status != NULL ? cudaSuccess : cudaErrorSymbolNotFound;
}

#if CUDART_VERSION >= 12050
cudaError_t cudaGetDriverEntryPointByVersion(const char *symbol, void **out, unsigned version, unsigned long long flags,
                                             enum cudaDriverEntryPointQueryResult *out_status)
{
    CUSIM_ENTER_STREAM(cudaGetDriverEntryPointByVersion, CUSIM_NO_STREAM, "symbol=%s version=%u flags=%llu", symbol,
                       version, flags);
    return cusim_leave(entry_point(symbol, out, version, out_status));
}
#endif

cudaError_t cudaGetDriverEntryPoint(const char *symbol, void **out, unsigned long long flags,
                                    enum cudaDriverEntryPointQueryResult *out_status)
{
    CUSIM_ENTER_STREAM(cudaGetDriverEntryPoint, CUSIM_NO_STREAM, "symbol=%s flags=%llu", symbol, flags);
    return cusim_leave(entry_point(symbol, out, CUDART_VERSION, out_status));
}
