#include "backend/buffer.h"

#include <string.h>

#include "base/failure.h"

const char *lsi_memory_class_text(lsi_memory_class c)
{
    static const char *const texts[LSI_MEMORY_CLASS_COUNT] = {
#define ROW(name, text) [LSI_MEMORY_##name] = text,
        LSI_MEMORY_CLASSES(ROW)
#undef ROW
    };

    return texts[c];
}

void lsi_memory_account_add(lsi_memory_account *account, lsi_memory_class c, size_t bytes)
{
    account->live[c] += bytes;
    account->live_total += bytes;
    if (account->live[c] > account->peak[c]) {
        account->peak[c] = account->live[c];
    }
    if (account->live_total > account->peak_total) {
        account->peak_total = account->live_total;
    }
}

void lsi_memory_account_remove(lsi_memory_account *account, lsi_memory_class c, size_t bytes)
{
    account->live[c] -= bytes;
    account->live_total -= bytes;
}

ls_status lsi_buffer_stream_create(ls_device *device, lsi_memory_account *account, const char *name, int priority,
                                   ls_stream **out)
{
    ls_status status = device->backend->stream_create(device, name, priority, out);

    if (status == LS_ERR_MEMORY) {
        return lsi_buffer_refused(device, account, LSI_MEMORY_SCRATCH, device->backend->stream_bytes);
    }
    LS_TRY(status);
    lsi_memory_account_add(account, LSI_MEMORY_SCRATCH, device->backend->stream_bytes);
    return LS_OK;
}

void lsi_buffer_stream_destroy(lsi_memory_account *account, ls_stream *stream)
{
    if (stream != NULL) {
        const ls_backend *backend = stream->device->backend;

        backend->stream_destroy(stream);
        lsi_memory_account_remove(account, LSI_MEMORY_SCRATCH, backend->stream_bytes);
    }
}

/* Byte 0xff everywhere is a NaN in every float format and -1 in every integer one. Through a stream, because the host
 * cannot write the memory of every backend. */
static ls_status poison(ls_device *device, lsi_memory_account *account, void *data, size_t bytes)
{
    const ls_backend *backend = device->backend;
    ls_stream *stream = NULL;

    LS_TRY(lsi_buffer_stream_create(device, account, "poison", 0, &stream));
    ls_status status = backend->fill(stream, data, 0xff, bytes);
    if (status == LS_OK) {
        status = backend->stream_sync(stream);
    }
    lsi_buffer_stream_destroy(account, stream);
    return status;
}

ls_status lsi_buffer_refused(ls_device *device, const lsi_memory_account *account, lsi_memory_class c, size_t bytes)
{
    const double mib = 1024.0 * 1024.0;
    size_t free_bytes = 0, total_bytes = 0;
    lsi_failure cause;

    lsi_failure_take(&cause);
    if (device->backend->memory_info(device, &free_bytes, &total_bytes) != LS_OK) {
        return lsi_failure_adopt(&cause);
    }
    return LS_FAIL(LS_ERR_MEMORY, "no memory for %s: %.1f MiB more asked for, %.1f MiB held, %.1f of %.1f MiB free: %s",
                   lsi_memory_class_text(c), (double)bytes / mib, (double)account->live_total / mib,
                   (double)free_bytes / mib, (double)total_bytes / mib, cause.message);
}

ls_status lsi_buffer_alloc(ls_device *device, lsi_memory_account *account, ls_memory kind, lsi_memory_class c,
                           size_t bytes, lsi_buffer *out)
{
    const ls_backend *backend = device->backend;
    void *data = NULL;
    ls_status status = backend->alloc(device, kind, bytes, &data);

    if (status == LS_ERR_MEMORY) {
        return lsi_buffer_refused(device, account, c, bytes);
    }
    LS_TRY(status);
    if (account->poison) {
        status = poison(device, account, data, bytes);
        if (status != LS_OK) {
            backend->release(device, kind, bytes, data);
            return status;
        }
    }
    lsi_memory_account_add(account, c, bytes);
    *out = (lsi_buffer){.data = data, .bytes = bytes, .kind = kind, .c = c};
    return LS_OK;
}

void lsi_buffer_release(ls_device *device, lsi_memory_account *account, lsi_buffer *buffer)
{
    if (buffer->data == NULL) {
        return;
    }
    device->backend->release(device, buffer->kind, buffer->bytes, buffer->data);
    lsi_memory_account_remove(account, buffer->c, buffer->bytes);
    *buffer = (lsi_buffer){0};
}

ls_status lsi_buffer_grow(ls_device *device, lsi_memory_account *account, ls_memory kind, lsi_memory_class c,
                          size_t bytes, lsi_buffer *buffer)
{
    if (bytes <= buffer->bytes) {
        return LS_OK;
    }
    lsi_buffer_release(device, account, buffer);
    return lsi_buffer_alloc(device, account, kind, c, bytes, buffer);
}
