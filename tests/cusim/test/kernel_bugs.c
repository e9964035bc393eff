/* kernel_bugs NAME good|bad: runs one planted kernel; exit code 0 right data, 1 wrong data. test_bugs.py runs them all.
 */
#include "planted.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N_DATA = 4 * PLANTED_THREADS, N_OVERRUN = 300 };

static void check(cudaError_t error, const char *what)
{
    if (error == cudaSuccess)
        return;
    printf("%s: %s\n", what, cudaGetErrorString(error));
    exit(3);
}
#define CHECK(call) check((call), #call)

static float expected(planted which, int i)
{
    switch (which) {
    case PLANTED_last_barrier:
        return PLANTED_THREADS;
    case PLANTED_second_barrier:
        return (float)(i / PLANTED_THREADS);
    case PLANTED_no_syncwarp:
        return (float)(i + (i ^ 1));
    case PLANTED_uninitialised:
        return 1;
    case PLANTED_no_fence:
        return 36;
    case PLANTED_no_atomic:
        return 8;
    case PLANTED_divergent_barrier:
        return (float)(PLANTED_THREADS - 1 - i);
    case PLANTED_early_return:
        return (float)(99 - i);
    case PLANTED_different_operations:
    case PLANTED_mask_without_caller:
    case PLANTED_mask_of_ended:
        return (float)(i ^ 1);
    case PLANTED_deadlock:
        return (float)((i + PLANTED_THREADS / 2) ^ 1);
    case PLANTED_copy_not_awaited:
        return 1;
    case PLANTED_misaligned:
        return (float)(i % 4 + 1);
    default:
        return (float)i;
    }
}

/* How many results there are, where they begin, and how far apart they are. */
static void results(planted which, int *count, int *first, int *stride)
{
    *count = which == PLANTED_second_barrier                           ? 2 * PLANTED_THREADS
             : which == PLANTED_no_syncwarp                            ? 32
             : which == PLANTED_no_fence || which == PLANTED_no_atomic ? 1
             : which == PLANTED_early_return                           ? 100
             : which == PLANTED_misaligned                             ? 32
             : which == PLANTED_deadlock                               ? PLANTED_THREADS / 2
             : which == PLANTED_global_overrun                         ? N_OVERRUN
                                                                       : PLANTED_THREADS - 1;
    *first = which == PLANTED_deadlock ? PLANTED_THREADS / 2 : 0;
    *stride = which == PLANTED_copy_not_awaited ? 4 : 1;
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        int blocks;
    } cases[] = {
#define PLANTED(name, blocks) {#name, blocks},
        PLANTED_LIST(PLANTED)
#undef PLANTED
    };
    int which = 0;
    while (argc == 3 && which < PLANTED_COUNT && strcmp(argv[1], cases[which].name) != 0)
        which++;
    if (argc != 3 || which == PLANTED_COUNT) {
        fprintf(stderr, "usage: kernel_bugs NAME good|bad\n");
        return 2;
    }
    int n = which == PLANTED_global_overrun ? N_OVERRUN : N_DATA, count, first, stride;
    float *data, *host = calloc(N_DATA, sizeof *host);
    unsigned *counter;
    CHECK(cudaMalloc((void **)&data, (size_t)n * sizeof *data));
    CHECK(cudaMalloc((void **)&counter, sizeof *counter));
    CHECK(cudaMemset(data, 0, (size_t)n * sizeof *data));
    CHECK(cudaMemset(counter, 0, sizeof *counter));
    CHECK(planted_launch((planted)which, strcmp(argv[2], "good") == 0, cases[which].blocks, data, n, counter, NULL));
    CHECK(cudaMemcpy(host, data, (size_t)n * sizeof *data, cudaMemcpyDeviceToHost));
    results((planted)which, &count, &first, &stride);
    int wrong = 0;
    for (int i = 0; i < count; i++)
        wrong += !(host[first + i * stride] == expected((planted)which, i));
    CHECK(cudaFree(data));
    CHECK(cudaFree(counter));
    free(host);
    printf("%d of %d wrong\n", wrong, count);
    return wrong > 0;
}
