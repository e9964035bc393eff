/* The communication contract, for authors of transports, and the collectives a training step queues.
 *
 * Collectives are prepared once (memory, staging, plan) and launched on a stream at every step, by every rank in the
 * same order; a launch is stream work like any other and may be captured. Prepared objects belong to the comm. */
#ifndef LS_COMM_H
#define LS_COMM_H

#include <lockstep/backend.h>
#include <lockstep/status.h>
#include <lockstep/types.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ls_comm ls_comm;
typedef struct ls_collective ls_collective;

/* The sum of lanes [lo, hi) of the reduction tree: `data` holds the n elements of this rank's partial sum. */
typedef struct ls_partial {
    int lo, hi;
    float *data;
} ls_partial;

typedef struct ls_transport ls_transport;

/* Every function is mandatory. prepare_* calls and open/close are collective; all ranks pass the same n and order. */
struct ls_transport {
    size_t struct_size;
    const char *name;       /* the word used in comm.transport */
    /* Why recorded launches gain nothing, in a few words for messages: device.graphs = auto then leaves recording. NULL:
     * launches are work of the device alone. */
    const char *not_recorded;

    void (*close)(ls_comm *comm);

    /* Memory whose contents this transport moves without a copy. Not collective. The prepare_* calls take memory of the
     * comm's own alloc: shm refuses other memory, which the other ranks could not reach. */
    ls_status (*alloc)(ls_comm *comm, size_t bytes, void **out);
    void (*release)(ls_comm *comm, size_t bytes, void *pointer);

    /* total = the sum over all lanes by the fixed tree, of the partials of all ranks. Each rank ends up with the chunk
     * it owns at its place in `out` (n elements; other chunks undefined), or with all of it when `gather`.
     * `out` may be the data of the first partial. partials: in ascending order of lo; none on a rank without lanes.
     * Under a fast reduction each rank passes one partial (any span), and the library sums in its own order, in the
     * wire type the comm was opened with, pre-divided by the power of two >= world where that is a 16-bit type; in shared
     * memory there is no wire, and all is f32. With one process there is nothing to add: the ordered sum, of all lanes. */
    ls_status (*prepare_reduce)(ls_comm *comm, const ls_partial *partials, int n_partials, int64_t n, float *out,
                                bool gather, ls_collective **out_collective);
    /* Each rank's chunk of `data` (n elements of element_bytes; chunk() below) to all ranks, in place. Launched twice
     * in a row it changes nothing. */
    ls_status (*prepare_gather)(ls_comm *comm, void *data, int64_t n, size_t element_bytes, ls_collective **out);
    /* Every rank contributes `bytes` from `mine`; all receive world * bytes in rank order in `all`. */
    ls_status (*prepare_exchange)(ls_comm *comm, const void *mine, void *all, size_t bytes, ls_collective **out);
    /* `bytes` of rank `root` to every rank, in place. */
    ls_status (*prepare_broadcast)(ls_comm *comm, void *data, size_t bytes, int root, ls_collective **out);
    ls_status (*launch)(ls_collective *collective, ls_stream *stream);

    /* Chunk of `rank` of a reduction over n elements: [*start, *start + *count). Whole blocks (the last one of n may be
     * short), so that sums over blocks belong to one rank; empty where there are fewer blocks than ranks. */
    void (*chunk)(const ls_comm *comm, int64_t n, int rank, int64_t *start, int64_t *count);

    /* Any thread: no further traffic; launched collectives complete without data. */
    void (*abort)(ls_comm *comm);
};

struct ls_comm {
    const ls_transport *transport;
    ls_device *device;
    int rank, world, n_lanes;
};

#ifdef __cplusplus
}
#endif
#endif
