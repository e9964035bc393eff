#include "backend/cpu/device.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/proc.h"

enum { SMALL_ALIGNMENT = 256, HUGE_PAGE = 2 * 1024 * 1024 };

ls_status lsi_cpu_memory_info(ls_device *device, size_t *free_bytes, size_t *total_bytes)
{
    (void)device;
    LS_REQUIRE(lsi_proc_memory(free_bytes, total_bytes), LS_ERR_DEVICE,
               "cannot read the size of the memory from /proc/meminfo");
    return LS_OK;
}

/* Memory of the process alone. Big blocks are made of huge pages where the system has them. */
static ls_status alloc_private(size_t bytes, void **out)
{
    int error = posix_memalign(out, bytes >= HUGE_PAGE ? HUGE_PAGE : SMALL_ALIGNMENT, bytes);

    LS_REQUIRE(error == 0, LS_ERR_MEMORY, "cannot allocate %zu bytes: %s", bytes, strerror(error));
    if (bytes >= HUGE_PAGE) {
        madvise(*out, bytes, MADV_HUGEPAGE);    /* a wish: nothing is lost when it is refused */
    }
    return LS_OK;
}

/* A mapping of a file without a name, that other processes of the node can map too. */
static ls_status alloc_shared(size_t bytes, void **out)
{
    int file = memfd_create("lockstep", MFD_CLOEXEC);
    void *mapped = MAP_FAILED;

    LS_REQUIRE(file >= 0, LS_ERR_MEMORY, "cannot make shared memory: %s", strerror(errno));
    if (ftruncate(file, (off_t)bytes) == 0) {
        mapped = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    }
    int error = errno;

    close(file);
    LS_REQUIRE(mapped != MAP_FAILED, LS_ERR_MEMORY, "cannot allocate %zu bytes of shared memory: %s", bytes,
               strerror(error));
    *out = mapped;
    return LS_OK;
}

ls_status lsi_cpu_memory_alloc(ls_device *device, ls_memory kind, size_t bytes, void **out)
{
    lsi_cpu_device *d = (lsi_cpu_device *)device;
    size_t room = bytes > 0 ? bytes : 1;
    void *pointer = NULL;

    if (room >= HUGE_PAGE) {
        size_t free_bytes, total_bytes;

        /* Linux hands out more than there is, and kills the process when it is used. */
        LS_TRY(lsi_cpu_memory_info(device, &free_bytes, &total_bytes));
        LS_REQUIRE(room <= free_bytes, LS_ERR_MEMORY, "cannot allocate %zu bytes: %zu are free", bytes, free_bytes);
    }
    LS_TRY(kind == LS_MEM_SHARED ? alloc_shared(room, &pointer) : alloc_private(room, &pointer));
    d->n_blocks++;
    d->n_bytes += bytes;
    *out = pointer;
    return LS_OK;
}

void lsi_cpu_memory_release(ls_device *device, ls_memory kind, size_t bytes, void *pointer)
{
    lsi_cpu_device *d = (lsi_cpu_device *)device;

    if (pointer == NULL) {
        return;
    }
    if (kind == LS_MEM_SHARED) {
        munmap(pointer, bytes > 0 ? bytes : 1);
    } else {
        free(pointer);
    }
    d->n_blocks--;
    d->n_bytes -= bytes;
}
