#include "train/gemm_agree.h"

#include <string.h>

#include "base/hash.h"
#include "base/memory.h"

/* What rank 0 proposes for one product. */
typedef struct offer {
    uint64_t list; /* hash of the product's shape: ranks must speak of the same one */
    int32_t n, reserved;
    lsi_gemm_algorithm algorithm[LSI_GEMM_MAX_PROPOSALS];
} offer;

typedef struct agreement {
    lsi_job *job;
    ls_device *device;
    const lsi_gemm_choices *choices;
    const lsi_gemm_list *list;
    const lsi_tuning *tuning;
    offer *offer;         /* of every product */
    uint32_t *accepts;    /* of every product: bit i, proposal i runs on this rank */
    uint32_t *all_accept; /* the same of every rank */
} agreement;

_Static_assert(LSI_GEMM_MAX_PROPOSALS <= 32, "one bit a proposal");

static bool is_open(const agreement *a, int product)
{
    return a->tuning == NULL || lsi_tuning_find(a->tuning, &a->list->item[product].shape) == NULL;
}

static ls_status propose(agreement *a)
{
    for (int i = 0; i < a->list->n; i++) {
        const lsi_gemm_shape *shape = &a->list->item[i].shape;
        int n = 0;

        a->offer[i].list = lsi_hash64(shape, sizeof *shape);
        if (is_open(a, i)) {
            LS_TRY(a->choices->propose(a->device, shape, a->offer[i].algorithm, &n));
        }
        a->offer[i].n = n;
    }
    return LS_OK;
}

static ls_status answer(agreement *a)
{
    for (int i = 0; i < a->list->n; i++) {
        const lsi_gemm_shape *shape = &a->list->item[i].shape;

        LS_REQUIRE(a->offer[i].list == lsi_hash64(shape, sizeof *shape), LS_ERR_CONFIG,
                   "product %d of this rank's model is %s, and another one on rank 0: the models differ", i,
                   lsi_gemm_shape_text(shape).text);
        for (int p = 0; p < a->offer[i].n; p++) {
            bool runs = true; /* on rank 0, whose library proposed it */

            if (a->job->rank != 0) {
                LS_TRY(a->choices->accepts(a->device, shape, &a->offer[i].algorithm[p], &runs));
            }
            a->accepts[i] |= (uint32_t)runs << p;
        }
    }
    return LS_OK;
}

/* Proposals of a product that ranks 0 .. last accept. */
static uint32_t common(const agreement *a, int product, int last)
{
    uint32_t bits = ~0u;

    for (int r = 0; r <= last; r++) {
        bits &= a->all_accept[r * a->list->n + product];
    }
    return bits;
}

static ls_status refuse(const agreement *a, int product)
{
    const lsi_gemm_item *item = &a->list->item[product];
    int second = 0, first = 0;

    while (common(a, product, second) != 0) {
        second++;
    }
    /* The rank before it with which it has nothing in common; with more than two kinds of GPUs it may take several. */
    while (first < second &&
           (a->all_accept[first * a->list->n + product] & a->all_accept[second * a->list->n + product]) != 0) {
        first++;
    }
    first = first < second ? first : 0;
    return LS_FAIL(
        LS_ERR_DEVICE,
        "no algorithm for the product of %s (layer %s) runs on the GPUs of both rank %d on %s and rank %d on "
        "%s; give the job GPUs of one kind (CUDA_VISIBLE_DEVICES), or take precision.compute = f32",
        lsi_gemm_shape_text(&item->shape).text, item->layer, first, a->job->hosts[first], second,
        a->job->hosts[second]);
}

/* The same on every rank, as all have the same numbers. */
static ls_status install(const agreement *a)
{
    for (int i = 0; i < a->list->n; i++) {
        if (!is_open(a, i)) {
            continue;
        }
        uint32_t bits = common(a, i, a->job->world - 1);

        if (bits == 0) {
            return refuse(a, i);
        }
        LS_TRY(a->choices->install(a->device, &a->list->item[i].shape, &a->offer[i].algorithm[__builtin_ctz(bits)]));
    }
    return LS_OK;
}

static ls_status agree(agreement *a)
{
    size_t n = (size_t)a->list->n;

    LS_TRY(lsi_job_agree(a->job, a->job->rank == 0 ? propose(a) : LS_OK));
    LS_TRY(lsi_job_broadcast(a->job, a->offer, n * sizeof *a->offer, 0));
    LS_TRY(lsi_job_agree(a->job, answer(a)));
    LS_TRY(lsi_job_all_gather(a->job, a->accepts, n * sizeof *a->accepts, a->all_accept));
    return lsi_job_agree(a->job, install(a));
}

static ls_status allocate(agreement *a)
{
    size_t n = (size_t)a->list->n + 1, world = (size_t)a->job->world;

    LS_TRY(lsi_memory_alloc(n * sizeof *a->offer, "proposals for matrix products", (void **)&a->offer));
    LS_TRY(
        lsi_memory_alloc(n * (world + 1) * sizeof *a->accepts, "answers about matrix products", (void **)&a->accepts));
    a->all_accept = a->accepts + n;
    return LS_OK;
}

ls_status lsi_gemm_agree(lsi_job *job, ls_device *device, const lsi_gemm_list *list, const lsi_tuning *tuning)
{
    agreement a = {.job = job, .device = device, .list = list, .tuning = tuning};
    int n = list->n;

    a.choices = lsi_gemm_choices_of(device);
    if (a.choices == NULL) {
        return LS_OK;
    }
    ls_status status = lsi_job_broadcast(job, &n, sizeof n, 0);
    if (status == LS_OK && n != list->n) {
        status =
            LS_FAIL(LS_ERR_CONFIG, "this rank's model has %d products, rank 0's %d: the models differ", list->n, n);
    }
    status = lsi_job_agree(job, status);
    if (status == LS_OK) {
        status = lsi_job_agree(job, allocate(&a));
    }
    if (status == LS_OK) {
        status = agree(&a);
    }
    lsi_memory_free(a.offer);
    lsi_memory_free(a.accepts);
    return status;
}
