/* The least a step can take on this machine, op by op: bench/floor.md says how it is made. */
#ifndef LS_BENCH_STEP_FLOOR_H
#define LS_BENCH_STEP_FLOOR_H

#include "step_clock.h"

typedef struct step_floor step_floor;

/* For the rows that the clock has by now. Scratch memory for their products comes from the device. */
LS_MUST_USE ls_status step_floor_open(ls_device *device, int n_threads, bool cpu_time, step_floor **out);
void step_floor_close(step_floor **floor);
/* Times every product once, as one call of the library and as our op. Between the steps, each of them. */
LS_MUST_USE ls_status step_floor_measure(step_floor *floor);
/* Seconds of one launch of the clock's row i, at `copy` bytes read and written per second. */
double step_floor_seconds(const step_floor *floor, int row, double copy);
/* The product in an op that is one, with a GELU or without; its memory is the op's. False: the row is no product. */
bool step_floor_as_product(const step_clock_row *row, lsi_gemm_args *out);
/* Medians of a product: the library's call, our op. False: the row is no product. */
bool step_floor_product(const step_floor *floor, int row, double *library, double *ours);

#endif
