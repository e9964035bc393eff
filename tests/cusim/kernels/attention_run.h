/* Runs of the attention ops on a simulated GPU, or on the cpu, for tests: data on the host, made and compared here. */
#ifndef LS_TESTS_CUSIM_ATTENTION_RUN_H
#define LS_TESTS_CUSIM_ATTENTION_RUN_H

#include <stdbool.h>

#include "support/attention_reference.h"
#include "support/op_case.h"
#include "support/op_case_parts.h"

/* One problem: */
typedef struct attention_data {
    attention_shape size;
    float dropout;
    ls_dtype dtype;
    void *qkv, *y, *dy, *dqkv;
    float *lse;
    bool backward;              /* y and lse are given, dqkv is made; else qkv is given, y and lse are made */
} attention_data;

/* Random numbers, and what the reference makes of them where the op is given it. The reference has its results for both
 * directions: free it with attention_reference_free. */
attention_data attention_data_make(attention_shape size, float dropout, ls_dtype dtype, bool backward,
                                   attention_reference *reference);
void attention_data_free(attention_data *data);
/* An array of doubles in the type; free() it. */
void *attention_round(const double *values, int64_t n, ls_dtype dtype);

/* A device of a backend and a stream. `variant`: the capability whose kernels are taken, "sm075". */
typedef struct attention_device {
    const ls_backend *backend;
    ls_device *device;
    ls_stream *stream;
} attention_device;
attention_device attention_device_open(const char *backend, const char *variant);
void attention_device_close(attention_device *device);

/* Executes the op and fills in its results; views begin `shift` bytes after a multiple of 256. The test fails where it
 * writes beyond its outputs. A failure comes from the launch or the wait. */
LS_MUST_USE ls_status attention_run(const attention_device *device, attention_data *data, size_t shift);

/* Of an array against the expected: the 2-norm of the difference in that of the expected one, the largest difference in
 * the largest expected one. */
typedef struct attention_error {
    double norm, max;
} attention_error;
attention_error attention_compare(const void *got, ls_dtype dtype, const double *expected, int64_t n);
/* What roundings of a type to be expected make of it. */
attention_error attention_tolerance(ls_dtype dtype);
/* Whether the results of the run are the reference's; says what is not. */
bool attention_is_right(const attention_data *data, const attention_reference *reference, const char *what);

#endif
