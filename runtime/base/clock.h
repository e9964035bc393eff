/* Monotonic time. */
#ifndef LSI_BASE_CLOCK_H
#define LSI_BASE_CLOCK_H

#include <stdint.h>

uint64_t lsi_clock_nanoseconds(void);
double lsi_clock_seconds(void);

#endif
