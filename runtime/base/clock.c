#include "base/clock.h"

#include <time.h>

uint64_t lsi_clock_nanoseconds(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

double lsi_clock_seconds(void)
{
    return (double)lsi_clock_nanoseconds() * 1e-9;
}
