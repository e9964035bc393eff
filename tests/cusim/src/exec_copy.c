/* cp.async. A copy lands when its thread waits for it, as late as the device may take; until then its target is
 * poisoned. */
#include "exec.h"
#include "internal.h"

#include <stdlib.h>
#include <string.h>

void cusim_copy_async(void *shared, const void *global, unsigned bytes, const char *file, int line)
{
    cusim_thread_record *self = cusim_exec_self();
    if ((uintptr_t)shared % bytes != 0 || (uintptr_t)global % bytes != 0)
        cusim_exec_fail(file, line, "cp.async of %u bytes with an address that is no multiple of that", bytes);
    if (self->copies == NULL && (self->copies = calloc(CUSIM_MAX_COPIES, sizeof *self->copies)) == NULL)
        abort();
    if (self->n_copies == CUSIM_MAX_COPIES)
        cusim_exec_fail(file, line, "more than %d copies of one thread under way", CUSIM_MAX_COPIES);
    CUSIM_WRITES(shared, bytes);
    memset(shared, 0xff, bytes);
    self->copies[self->n_copies++] = (pending_copy){shared, global, bytes, self->group};
}

void cusim_copy_commit(void)
{
    cusim_exec_self()->group++;
}

void cusim_copy_wait(unsigned groups_left)
{
    cusim_thread_record *self = cusim_exec_self();
    unsigned kept = 0;
    for (unsigned i = 0; i < self->n_copies; i++) {
        pending_copy *copy = &self->copies[i];
        if (self->group - copy->group <= groups_left) { /* of the newest groups, or not committed */
            self->copies[kept++] = *copy;
            continue;
        }
        CUSIM_READS(copy->source, copy->bytes);
        CUSIM_WRITES(copy->target, copy->bytes);
        memcpy(copy->target, copy->source, copy->bytes);
    }
    self->n_copies = kept;
}
