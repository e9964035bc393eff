#include "backend/ranges.h"

#include <nvtx3/nvToolsExt.h>
#include <stdarg.h>
#include <stdio.h>

enum { NAME_BYTES = 128 };

/* A domain is NULL where no tool was attached when the program started. */
lsi_ranges *lsi_ranges_open(void)
{
    return (lsi_ranges *)(void *)nvtxDomainCreateA("lockstep");
}

static nvtxDomainHandle_t domain_of(lsi_ranges *ranges)
{
    return (nvtxDomainHandle_t)(void *)ranges;
}

void lsi_ranges_close(lsi_ranges *ranges)
{
    if (ranges != NULL) {
        nvtxDomainDestroy(domain_of(ranges));
    }
}

void lsi_ranges_push(lsi_ranges *ranges, const char *format, ...)
{
    char name[NAME_BYTES];
    va_list arguments;

    if (ranges == NULL) {
        return;
    }
    va_start(arguments, format);
    vsnprintf(name, sizeof name, format, arguments);
    va_end(arguments);
    nvtxEventAttributes_t attributes = {
        .version = NVTX_VERSION,
        .size = NVTX_EVENT_ATTRIB_STRUCT_SIZE,
        .messageType = NVTX_MESSAGE_TYPE_ASCII,
        .message.ascii = name,
    };
    (void)nvtxDomainRangePushEx(domain_of(ranges), &attributes);
}

void lsi_ranges_pop(lsi_ranges *ranges)
{
    if (ranges != NULL) {
        (void)nvtxDomainRangePop(domain_of(ranges));
    }
}
