/* A build without NVTX's header. */
#include "backend/ranges.h"

#include <stddef.h>

lsi_ranges *lsi_ranges_open(void)
{
    return NULL;
}

void lsi_ranges_close(lsi_ranges *ranges)
{
    (void)ranges;
}

void lsi_ranges_push(lsi_ranges *ranges, const char *format, ...)
{
    (void)ranges;
    (void)format;
}

void lsi_ranges_pop(lsi_ranges *ranges)
{
    (void)ranges;
}
