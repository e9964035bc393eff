/* Starting up, and what every call of the API does first and last. */
#include "runtime.h"
#include "cusim.h"
#include "exec.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

cusim_core cusim;
_Thread_local int cusim_device;
_Thread_local bool cusim_in_host_function;
static _Thread_local cudaError_t last_error;

static long setting(const char *name, long otherwise)
{
    const char *text = getenv(name);
    return text != NULL && *text != '\0' ? strtol(text, NULL, 10) : otherwise;
}

static void find_devices(void)
{
    char error[256];
    if (cusim_machine_load(&cusim.machine, error, sizeof error) != 0)
        cusim_die("%s", error);
    cusim_visible visible[CUSIM_MAX_GPUS];
    int n = cusim_machine_visible(&cusim.machine, getenv("CUDA_VISIBLE_DEVICES"), getenv("CUDA_DEVICE_ORDER"), visible);
    cusim.no_device = cudaErrorNoDevice;
    /* A newer minor version of the runtime is fine, a newer major one is not. */
    if (!cusim.machine.has_driver || cusim.machine.cuda_version / 1000 < CUDART_VERSION / 1000) {
        cusim.no_device = cudaErrorInsufficientDriver;
        n = 0;
    }
    for (int i = 0; i < n; i++) {
        cusim.devices[i].visible = visible[i];
        cusim.devices[i].gpu = cusim_machine_device(&cusim.machine, visible[i]);
        cusim.devices[i].used = cusim.devices[i].gpu.memory_used;
    }
    cusim.n_devices = n;
}

/* CUSIM_LEAKS=1: what the program has not given back is an error. */
static void report_leaks(void)
{
    if (cusim_bytes_alive() == 0 && cusim_streams_alive() == 0 && cusim.n_events == 0)
        return;
    fprintf(stderr, "cusim: left at exit: %zu bytes of memory, %d streams, %d events\n", cusim_bytes_alive(),
            cusim_streams_alive(), cusim.n_events);
    fflush(NULL);
    _exit(23);
}

static void initialize(void)
{
    cusim.seed = (uint64_t)setting("CUSIM_SEED", 0);
    cusim.policy = cusim.seed == 0 ? POLICY_EAGER : (policy)(1 + cusim.seed % 5);
    cusim.policy = (policy)setting("CUSIM_POLICY", (long)cusim.policy);
    if (cusim.policy > POLICY_RANDOM)
        cusim_die("CUSIM_POLICY is %d, must be 0 to %d", (int)cusim.policy, POLICY_RANDOM);
    cusim_set_order((int)setting("CUSIM_ORDER", (long)(cusim.seed / 5 % 3)), cusim.seed);
    cusim.protect = setting("CUSIM_PROTECT", 0) != 0;
    cusim.quiet = setting("CUSIM_QUIET", 0) != 0;
    const char *clock = getenv("CUSIM_CLOCK"), *fault = getenv("CUSIM_FAULT");
    cusim.real_clock = clock != NULL && strcmp(clock, "real") == 0;
    cusim_exec_sticky_faults = fault != NULL && strcmp(fault, "sticky") == 0;
    if (setting("CUSIM_LEAKS", 0) != 0)
        atexit(report_leaks);
    find_devices();
}

static void ensure_initialized(void)
{
    static bool done;
    if (!done) {
        done = true;
        initialize();
    }
}

/* ---- errors --------------------------------------------------------------------------------- */

cudaError_t cusim_set_error(cudaError_t error)
{
    if (error != cudaSuccess && error != cudaErrorNotReady)
        last_error = error;
    return error;
}

cudaError_t cusim_leave(cudaError_t error)
{
    cusim_unlock();
    return cusim_set_error(error);
}

bool cusim_error_sticks(int code)
{
    switch (code) {
    case cudaErrorECCUncorrectable:
    case cudaErrorIllegalAddress:
    case cudaErrorLaunchFailure:
    case cudaErrorLaunchTimeout:
    case cudaErrorAssert:
    case cudaErrorHardwareStackError:
    case cudaErrorIllegalInstruction:
    case cudaErrorMisalignedAddress:
    case cudaErrorInvalidAddressSpace:
    case cudaErrorInvalidPc:
    case cudaErrorNvlinkUncorrectable:
    case cudaErrorUnknown:
        return true;
    default:
        return false;
    }
}

void cusim_device_fails(int device, cudaError_t error)
{
    if (cusim.devices[device].error == cudaSuccess)
        cusim.devices[device].error = error;
}

cudaError_t cusim_device_error(int device)
{
    return cusim.devices[device].error;
}

cudaError_t cudaGetLastError(void)
{
    cusim_lock();
    int code = cusim_count_call(CUSIM_FN_cudaGetLastError, -1, "");
    cusim_unlock();
    cusim_set_error((cudaError_t)code);
    cudaError_t error = last_error;
    if (!cusim_error_sticks((int)error))
        last_error = cudaSuccess;
    return error;
}

cudaError_t cudaPeekAtLastError(void)
{
    cusim_lock();
    int code = cusim_count_call(CUSIM_FN_cudaPeekAtLastError, -1, "");
    cusim_unlock();
    cusim_set_error((cudaError_t)code);
    return last_error;
}

/* ---- calls ---------------------------------------------------------------------------------- */

/* A context comes into being with the first call that needs one, as cudaSetDevice does since CUDA 12. */
static cudaError_t need_context(void)
{
    cusim_device_state *device = &cusim.devices[cusim_device];
    if (device->has_context)
        return cudaSuccess;
    if (cusim_machine_refuses(&cusim.machine, device->visible.gpu))
        return cudaErrorDevicesUnavailable;
    device->has_context = true;
    cusim_record("context device=%d", cusim_device);
    return cudaSuccess;
}

static bool needs_context(cusim_function function)
{
    return cusim_function_flags(function) != 0 || function == CUSIM_FN_cudaSetDevice ||
           function == CUSIM_FN_cudaMemGetInfo || function == CUSIM_FN_cudaFuncSetAttribute ||
           function == CUSIM_FN_cudaFuncGetAttributes;
}

static int stream_number(cudaStream_t stream)
{
    if (stream == CUSIM_NO_STREAM || cusim.n_devices == 0)
        return -1;
    return cusim_stream_resolve(stream)->id;
}

cudaError_t cusim_enter(cusim_function function, cudaStream_t stream, const char *details, ...)
{
    char text[256] = "";
    if (details != NULL) {
        va_list list;
        va_start(list, details);
        vsnprintf(text, sizeof text, details, list);
        va_end(list);
    }
    if (cusim_in_host_function)
        return cusim_set_error(cudaErrorNotPermitted);
    cusim_lock();
    ensure_initialized();
    cusim.n_calls++;
    cusim.host_seconds += 1e-6;
    if (cusim.n_devices == 0)
        return cusim_leave(cusim.no_device);
    cusim_run_some();
    int code = cusim_count_call(function, stream_number(stream), text);
    if (cusim_error_sticks(code))
        cusim_device_fails(cusim_device, (cudaError_t)code);
    if (code == 0)
        code = (int)cusim.devices[cusim_device].error;
    if (code == 0 && (cusim_function_flags(function) & CUSIM_UNSAFE) != 0)
        code = (int)cusim_capture_forbids();
    if (code == 0 && needs_context(function))
        code = (int)need_context();
    return code == 0 ? cudaSuccess : cusim_leave((cudaError_t)code);
}

int cusim_call(cusim_function function, cudaStream_t stream, const char *details, ...)
{
    char text[256] = "";
    if (details != NULL) {
        va_list list;
        va_start(list, details);
        vsnprintf(text, sizeof text, details, list);
        va_end(list);
    }
    cusim_lock();
    ensure_initialized();
    cusim.n_calls++;
    cusim.host_seconds += 1e-6;
    cusim_run_some();
    int code = cusim_count_call(function, stream_number(stream), text);
    cusim_unlock();
    return code;
}

int cusim_current_device(void)
{
    return cusim_device;
}

const struct cusim_gpu *cusim_device_gpu(int device)
{
    cusim_lock();
    ensure_initialized();
    cusim_unlock();
    return device >= 0 && device < cusim.n_devices ? &cusim.devices[device].gpu : NULL;
}

double cusim_virtual_seconds(void)
{
    return cusim.host_seconds;
}

uint64_t cusim_random(void)
{
    return cusim_exec_random();
}

uint64_t cusim_seed(void)
{
    return cusim.seed;
}

/* ---- what is said --------------------------------------------------------------------------- */

static void say(const char *format, va_list list)
{
    char line[1024];
    int n = snprintf(line, sizeof line, "cusim: ");
    vsnprintf(line + n, sizeof line - (size_t)n, format, list);
    fprintf(stderr, "%s\n", line);
}

void cusim_note(const char *format, ...)
{
    va_list list;
    va_start(list, format);
    if (!cusim.quiet)
        say(format, list);
    va_end(list);
}

void cusim_die(const char *format, ...)
{
    va_list list;
    va_start(list, format);
    say(format, list);
    va_end(list);
    abort();
}
