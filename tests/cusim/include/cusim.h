/* What a test may ask the simulator, beyond calling CUDA. */
#ifndef CUSIM_H
#define CUSIM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The functions simulated, and how often each was called so far. */
int cusim_api_count(void);
const char *cusim_api_name(int i, const char **out_library, uint64_t *out_calls);

/* A line "mark TEXT" in the record (CUSIM_RECORD=file). */
void cusim_mark(const char *text);

/* Where the host stands in the virtual clock. */
double cusim_virtual_seconds(void);
/* Whether this process has made a context on a device. */
bool cusim_has_context(int device);
/* Memory that was not freed; streams and events that were not destroyed. */
size_t cusim_bytes_alive(void);
int cusim_streams_alive(void);

#ifdef __cplusplus
}
#endif
#endif
