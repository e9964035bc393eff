/* Memory: which allocation holds a pointer, and the calls that make and free it. New memory is full of NaNs. */
#include "runtime.h"
#include "cusim.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

typedef struct allocation {
    cusim_memory memory;
    bool registered; /* the program's own, by cudaHostRegister */
} allocation;

static allocation *table; /* by address */
static size_t n_allocations, room;

/* The first allocation that begins behind the pointer. */
static size_t position(const char *pointer)
{
    size_t low = 0, high = n_allocations;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (table[middle].memory.base <= pointer)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static allocation *find(const void *pointer, size_t bytes)
{
    const char *p = pointer;
    size_t i = position(p);
    if (i == 0)
        return NULL;
    const cusim_memory *m = &table[i - 1].memory;
    size_t offset = (size_t)(p - m->base);
    return offset < m->bytes && bytes <= m->bytes - offset ? &table[i - 1] : NULL;
}

static void insert(allocation a)
{
    if (n_allocations == room) {
        room = room > 0 ? 2 * room : 64;
        table = realloc(table, room * sizeof *table);
        if (table == NULL)
            cusim_die("out of host memory");
    }
    size_t i = position(a.memory.base);
    memmove(table + i + 1, table + i, (n_allocations - i) * sizeof *table);
    table[i] = a;
    n_allocations++;
}

static void erase(allocation *a)
{
    size_t i = (size_t)(a - table);
    memmove(table + i, table + i + 1, (n_allocations - i - 1) * sizeof *table);
    n_allocations--;
}

bool cusim_memory_find(const void *pointer, size_t bytes, cusim_memory *out)
{
    cusim_lock();
    const allocation *a = find(pointer, bytes);
    if (a != NULL)
        *out = a->memory;
    cusim_unlock();
    return a != NULL;
}

bool cusim_is_device_range(const void *pointer, size_t bytes, int device)
{
    cusim_memory m;
    return cusim_memory_find(pointer, bytes, &m) && !m.freed && m.kind == cudaMemoryTypeDevice &&
           (device < 0 || m.device == device);
}

size_t cusim_bytes_alive(void)
{
    size_t bytes = 0;
    cusim_lock();
    for (size_t i = 0; i < n_allocations; i++)
        bytes += table[i].memory.bytes;
    cusim_unlock();
    return bytes;
}

/* ---- CUSIM_PROTECT: a device's memory can be touched only while its own operations run ------ */

enum { PAGE = 4096, HUGE_PAGE = 2 << 20 };
static const size_t arena_bytes = (size_t)1 << 36;

static void set_arena(int device, bool open)
{
    cusim_device_state *d = &cusim.devices[device];
    if (!cusim.protect || d->arena == NULL || d->arena_open == open)
        return;
    d->arena_open = open;
    if (mprotect(d->arena, d->arena_used, open ? PROT_READ | PROT_WRITE : PROT_NONE) != 0)
        cusim_die("mprotect of device memory failed");
}

void cusim_memory_open(int device)
{
    for (int i = 0; i < cusim.n_devices; i++)
        if (device < 0 || device == i)
            set_arena(i, true);
}

void cusim_memory_close(void)
{
    for (int i = 0; i < cusim.n_devices; i++)
        set_arena(i, false);
}

/* From the device's arena, never used again: a stale pointer stays wrong. */
static void *arena_take(int device, size_t bytes)
{
    cusim_device_state *d = &cusim.devices[device];
    if (d->arena == NULL) {
        char *map = mmap(NULL, arena_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (map == MAP_FAILED)
            return NULL;
        d->arena = (char *)(((uintptr_t)map + HUGE_PAGE - 1) & ~(uintptr_t)(HUGE_PAGE - 1));
        madvise(d->arena, arena_bytes - HUGE_PAGE, MADV_HUGEPAGE); /* mprotect of small pages is slow */
    }
    size_t unit = bytes >= HUGE_PAGE ? HUGE_PAGE : PAGE;
    size_t take = (bytes + unit - 1) & ~(unit - 1);
    if (d->arena_used + take > arena_bytes - HUGE_PAGE)
        return NULL;
    set_arena(device, false);
    char *memory = d->arena + d->arena_used;
    d->arena_used += take;
    set_arena(device, true);
    return memory;
}

/* ---- making and freeing --------------------------------------------------------------------- */

static cudaError_t make(void **out, size_t bytes, enum cudaMemoryType kind, int device)
{
    if (out == NULL)
        return cudaErrorInvalidValue;
    *out = NULL;
    if (bytes == 0)
        return cudaSuccess;
    bool on_device = kind == cudaMemoryTypeDevice;
    if (on_device && bytes > cusim.devices[device].gpu.memory - cusim.devices[device].used)
        return cudaErrorMemoryAllocation;
    void *memory = NULL;
    if (on_device && cusim.protect)
        memory = arena_take(device, bytes);
    else if (posix_memalign(&memory, on_device ? 256 : PAGE, bytes) != 0)
        memory = NULL;
    if (memory == NULL)
        return cudaErrorMemoryAllocation;
    memset(memory, 0xff, bytes);
    set_arena(device, false);
    if (on_device)
        cusim.devices[device].used += bytes;
    insert((allocation){.memory = {memory, bytes, on_device ? device : -1, kind, false}});
    *out = memory;
    return cudaSuccess;
}

static void release(allocation *a)
{
    cusim_memory m = a->memory;
    bool registered = a->registered;
    erase(a);
    if (registered)
        return;
    if (m.kind == cudaMemoryTypeDevice) {
        cusim.devices[m.device].used -= m.bytes;
        set_arena(m.device, true);
        CUSIM_WRITES(m.base, m.bytes); /* a use that no order keeps before this is a race */
        memset(m.base, 0xfd, m.bytes);
        set_arena(m.device, cusim.running);
        if (cusim.protect)
            return;
    }
    free(m.base);
}

void cusim_memory_release(void *pointer)
{
    allocation *a = find(pointer, 0);
    if (a != NULL)
        release(a);
}

/* ---- the API -------------------------------------------------------------------------------- */

cudaError_t cudaMalloc(void **out, size_t bytes)
{
    CUSIM_ENTER_STREAM(cudaMalloc, CUSIM_NO_STREAM, "bytes=%zu", bytes);
    return cusim_leave(make(out, bytes, cudaMemoryTypeDevice, cusim_device));
}

/* Of the allocation that begins there: for the record. */
static size_t bytes_at(const void *pointer)
{
    cusim_memory m;
    return pointer != NULL && cusim_memory_find(pointer, 0, &m) && m.base == pointer ? m.bytes : 0;
}

cudaError_t cudaFree(void *pointer)
{
    CUSIM_ENTER_STREAM(cudaFree, CUSIM_NO_STREAM, "bytes=%zu", bytes_at(pointer));
    if (pointer == NULL)
        return cusim_leave(cudaSuccess);
    allocation *a = find(pointer, 0);
    if (a == NULL || a->memory.base != pointer || a->memory.kind != cudaMemoryTypeDevice || a->memory.freed)
        return cusim_leave(cudaErrorInvalidValue);
    cusim_drain_device(a->memory.device);
    cusim_memory_release(pointer);
    return cusim_leave(cudaSuccess);
}

cudaError_t cudaHostAlloc(void **out, size_t bytes, unsigned flags)
{
    CUSIM_ENTER_STREAM(cudaHostAlloc, CUSIM_NO_STREAM, "bytes=%zu flags=%u", bytes, flags);
    return cusim_leave(make(out, bytes, cudaMemoryTypeHost, cusim_device));
}

cudaError_t cudaMallocHost(void **out, size_t bytes)
{
    CUSIM_ENTER_STREAM(cudaMallocHost, CUSIM_NO_STREAM, "bytes=%zu", bytes);
    return cusim_leave(make(out, bytes, cudaMemoryTypeHost, cusim_device));
}

static cudaError_t free_host(void *pointer, bool registered)
{
    allocation *a = find(pointer, 0);
    if (a == NULL || a->memory.base != pointer || a->memory.kind != cudaMemoryTypeHost || a->registered != registered)
        return registered ? cudaErrorHostMemoryNotRegistered : cudaErrorInvalidValue;
    for (int i = 0; i < cusim.n_devices; i++)
        cusim_drain_device(i);
    cusim_memory_release(pointer);
    return cudaSuccess;
}

cudaError_t cudaFreeHost(void *pointer)
{
    CUSIM_ENTER_STREAM(cudaFreeHost, CUSIM_NO_STREAM, "bytes=%zu", bytes_at(pointer));
    return cusim_leave(pointer == NULL ? cudaSuccess : free_host(pointer, false));
}

cudaError_t cudaHostRegister(void *pointer, size_t bytes, unsigned flags)
{
    CUSIM_ENTER_STREAM(cudaHostRegister, CUSIM_NO_STREAM, "bytes=%zu flags=%u", bytes, flags);
    if (pointer == NULL || bytes == 0)
        return cusim_leave(cudaErrorInvalidValue);
    size_t next = position(pointer);
    bool overlaps =
        find(pointer, 0) != NULL || (next < n_allocations && table[next].memory.base < (char *)pointer + bytes);
    if (overlaps)
        return cusim_leave(cudaErrorHostMemoryAlreadyRegistered);
    insert((allocation){.memory = {pointer, bytes, -1, cudaMemoryTypeHost, false}, .registered = true});
    return cusim_leave(cudaSuccess);
}

cudaError_t cudaHostUnregister(void *pointer)
{
    CUSIM_ENTER(cudaHostUnregister);
    return cusim_leave(free_host(pointer, true));
}

/* Host memory has one address everywhere. */
cudaError_t cudaHostGetDevicePointer(void **out, void *pointer, unsigned flags)
{
    CUSIM_ENTER_STREAM(cudaHostGetDevicePointer, CUSIM_NO_STREAM, "flags=%u", flags);
    const allocation *a = find(pointer, 0);
    if (a == NULL || a->memory.kind != cudaMemoryTypeHost)
        return cusim_leave(cudaErrorInvalidValue);
    *out = pointer;
    return cusim_leave(cudaSuccess);
}

cudaError_t cudaMallocAsync(void **out, size_t bytes, cudaStream_t stream)
{
    CUSIM_ENTER_STREAM(cudaMallocAsync, stream, "bytes=%zu", bytes);
    cusim_stream *s = cusim_stream_resolve(stream);
    if (s->capture != NULL) {
        cusim_note("cudaMallocAsync is not simulated inside a capture");
        cusim_capture_invalidate(s);
        return cusim_leave(cudaErrorStreamCaptureUnsupported);
    }
    return cusim_leave(make(out, bytes, cudaMemoryTypeDevice, s->device));
}

cudaError_t cudaFreeAsync(void *pointer, cudaStream_t stream)
{
    CUSIM_ENTER_STREAM(cudaFreeAsync, stream, NULL);
    if (pointer == NULL)
        return cusim_leave(cudaSuccess);
    allocation *a = find(pointer, 0);
    if (a == NULL || a->memory.base != pointer || a->memory.kind != cudaMemoryTypeDevice || a->memory.freed)
        return cusim_leave(cudaErrorInvalidValue);
    a->memory.freed = true;
    op *o = cusim_op_new(OP_FREE, "free", 1e-6);
    o->u.freed = pointer;
    return cusim_leave(cusim_queue(o, cusim_stream_resolve(stream)));
}

cudaError_t cudaPointerGetAttributes(struct cudaPointerAttributes *out, const void *pointer)
{
    CUSIM_ENTER(cudaPointerGetAttributes);
    const allocation *a = find(pointer, 0);
    memset(out, 0, sizeof *out);
    out->type = a != NULL ? a->memory.kind : cudaMemoryTypeUnregistered;
    out->device = a == NULL ? -2 : a->memory.device >= 0 ? a->memory.device : 0;
    out->devicePointer = a != NULL ? (void *)(uintptr_t)pointer : NULL;
    out->hostPointer = a != NULL && a->memory.kind == cudaMemoryTypeDevice ? NULL : (void *)(uintptr_t)pointer;
    return cusim_leave(cudaSuccess);
}

cudaError_t cudaMemGetInfo(size_t *out_free, size_t *out_total)
{
    CUSIM_ENTER(cudaMemGetInfo);
    const cusim_device_state *d = &cusim.devices[cusim_device];
    *out_total = d->gpu.memory;
    *out_free = d->gpu.memory - d->used;
    return cusim_leave(cudaSuccess);
}

/* ---- what a copy may touch ------------------------------------------------------------------ */

cudaError_t cusim_memory_check_copy(const void *target, const void *source, size_t bytes, enum cudaMemcpyKind kind)
{
    const allocation *t = find(target, 0), *s = find(source, 0);
    if ((t != NULL && find(target, bytes) == NULL) || (s != NULL && find(source, bytes) == NULL)) {
        cusim_note("a copy of %zu bytes leaves its allocation", bytes);
        return cudaErrorInvalidValue;
    }
    if ((t != NULL && t->memory.freed) || (s != NULL && s->memory.freed)) {
        cusim_note("a copy uses memory that was given to cudaFreeAsync");
        return cudaErrorInvalidValue;
    }
    if (kind == cudaMemcpyDefault)
        return cudaSuccess;
    bool to_device = t != NULL && t->memory.kind == cudaMemoryTypeDevice;
    bool from_device = s != NULL && s->memory.kind == cudaMemoryTypeDevice;
    bool says_to = kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice;
    bool says_from = kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice;
    if (to_device != says_to || from_device != says_from) {
        cusim_note("a copy's direction does not fit its pointers");
        return cudaErrorInvalidValue;
    }
    return cudaSuccess;
}
