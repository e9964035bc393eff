/* RUN: np=1,2,3 cuda */
/* Ranks on GPUs of several kinds agree on one algorithm for each product, one of rank 0's that all of them run;
 * where there is none, they all end, and rank 0 names the product and two ranks. The same work on the cpu, which has
 * no choice, is nothing. */
#include "support/backend_case.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "train/gemm_agree.h"

/* Of the simulator; absent where a GPU executes. */
__attribute__((weak)) void cusim_set_order(int order, uint64_t seed);

static lsi_job *job;

static ls_device *open_gpu(int ordinal)
{
    ls_device_options options = {.struct_size = sizeof options, .n_threads = 1, .ordinal = ordinal};
    ls_device *device;

    CHECK_OK(test_backend()->open(&options, &device));
    return device;
}

static lsi_gemm_item item_of(int64_t m, int64_t n, int64_t k, ls_dtype factors, int epilogue)
{
    lsi_gemm_item item = {.shape = {.m = m, .n = n, .k = k, .factors = (int32_t)factors, .c = (int32_t)factors}};

    item.shape.epilogue = epilogue;
    item.shape.aligned = 1;
    snprintf(item.layer, sizeof item.layer, "layer of %lld", (long long)m);
    return item;
}

/* Otherwise the agreement could not have ended well. */
static void expect_common(ls_device *device, const lsi_gemm_list *list, const lsi_gemm_algorithm *rank0, int n)
{
    const lsi_gemm_choices *choices = lsi_gemm_choices_of(device);
    const lsi_gemm_shape *shape = &list->item[0].shape;
    uint32_t mine = 0, *all = calloc((size_t)job->world, sizeof *all), common = ~0u;

    for (int p = 0; p < n; p++) {
        bool runs;

        CHECK_OK(choices->accepts(device, shape, &rank0[p], &runs));
        mine |= (uint32_t)runs << p;
    }
    CHECK_OK(lsi_job_all_gather(job, &mine, sizeof mine, all));
    for (int r = 0; r < job->world; r++) {
        common &= all[r];
    }
    assert_true(common != 0);
    free(all);
}

/* Rank 0's proposals, on every rank. */
static int share_proposals(ls_device *device, const lsi_gemm_shape *shape, lsi_gemm_algorithm *out)
{
    int n = 0;

    if (job->rank == 0) {
        CHECK_OK(lsi_gemm_choices_of(device)->propose(device, shape, out, &n));
    }
    CHECK_OK(lsi_job_broadcast(job, &n, sizeof n, 0));
    CHECK_OK(lsi_job_broadcast(job, out, (size_t)n * sizeof *out, 0));
    return n;
}

/* A product by the algorithm that is installed: it runs here. */
static void launch(ls_device *device, const lsi_gemm_shape *shape)
{
    _Alignas(16) unsigned char arguments[LS_OP_MAX_ARGUMENTS] = {0};
    const ls_op *op = lsi_gemm_shape_op(shape, arguments);
    ls_view *view = (void *)arguments;
    int n = op->n_in + op->n_out + op->n_acc;
    ls_stream *stream = test_stream(device, "products");

    for (int i = 0; i < n; i++) {
        size_t bytes = (size_t)view[i].count * ls_dtype_bytes(view[i].dtype);

        if (bytes > 0) {
            CHECK_OK(device->backend->alloc(device, LS_MEM_DEVICE, bytes, &view[i].data));
            CHECK_OK(device->backend->fill(stream, view[i].data, 0, bytes));
        }
    }
    CHECK_OK(ls_op_launch(stream, op, arguments));
    CHECK_OK(device->backend->stream_sync(stream));
    for (int i = 0; i < n; i++) {
        if (view[i].data != NULL) {
            device->backend->release(device, LS_MEM_DEVICE, (size_t)view[i].count * ls_dtype_bytes(view[i].dtype),
                                     view[i].data);
        }
    }
    device->backend->stream_destroy(stream);
}

/* GPUs of the machine: 0 a GTX 1650 (7.5), 1 an A100 (8.0), 2 a V100 (7.0). */
static const int ordinals[] = {1, 2, 0};

static void unlike_gpus_agree(void **unused)
{
    lsi_gemm_item items[] = {item_of(64, 128, 96, LS_F16, LSI_GEMM_PLAIN), item_of(64, 128, 96, LS_F16, LSI_GEMM_GELU),
                             item_of(64, 128, 96, LS_F32, LSI_GEMM_PLAIN)};
    lsi_gemm_algorithm proposal[LSI_GEMM_MAX_PROPOSALS];

    (void)unused;
    ls_device *device = open_gpu(ordinals[job->rank % 3]);
    for (size_t i = 0; i < sizeof items / sizeof *items; i++) {
        lsi_gemm_list list = {.item = &items[i], .n = 1};
        int n = share_proposals(device, &items[i].shape, proposal);

        /* Otherwise this test would show nothing: a rank does not run what rank 0 would take. */
        if (job->world > 1 && job->rank == 1 && i == 0) {
            bool runs;

            CHECK_OK(lsi_gemm_choices_of(device)->accepts(device, &items[i].shape, &proposal[0], &runs));
            assert_false(runs);
        }
        CHECK_OK(lsi_gemm_agree(job, device, &list, NULL));
        expect_common(device, &list, proposal, n);
        launch(device, &items[i].shape);
    }
    test_backend()->close(device);
}

/* bf16 needs 8.0. */
static void no_common_algorithm_names_both_ranks(void **unused)
{
    lsi_gemm_item items[] = {item_of(64, 128, 96, LS_F32, LSI_GEMM_PLAIN),
                             item_of(32, 128, 96, LS_BF16, LSI_GEMM_PLAIN)};
    lsi_gemm_list list = {.item = items, .n = 2};

    (void)unused;
    ls_device *device = open_gpu(ordinals[job->rank % 3]);
    if (job->world == 1) {
        CHECK_OK(lsi_gemm_agree(job, device, &list, NULL));
    } else {
        ls_status status = lsi_gemm_agree(job, device, &list, NULL);

        /* One of them says it; the others say who. */
        CHECK_FAILS(status, LS_ERR_DEVICE, job->rank > 0 ? "rank 0 failed" : "m 32, n 128, k 96, bf16");
        CHECK_FAILS(status, LS_ERR_DEVICE, job->rank > 0 ? "" : "layer of 32");
        CHECK_FAILS(status, LS_ERR_DEVICE, job->rank > 0 ? "" : "both rank 0 on ");
        CHECK_FAILS(status, LS_ERR_DEVICE, job->rank > 0 ? "" : "and rank 1 on ");
    }
    test_backend()->close(device);
}

static void a_plan_is_not_argued_with(void **unused)
{
    lsi_gemm_item items[] = {item_of(32, 128, 96, LS_BF16, LSI_GEMM_PLAIN)};
    lsi_gemm_list list = {.item = items, .n = 1};
    lsi_tuned tuned = {.shape = items[0].shape};
    lsi_tuning tuning = {.entry = &tuned, .n = 1};

    (void)unused;
    ls_device *device = open_gpu(ordinals[job->rank % 3]);
    CHECK_OK(lsi_gemm_agree(job, device, &list, &tuning)); /* bf16, which not all of them run: nobody asks */
    test_backend()->close(device);
}

static void different_models_are_told(void **unused)
{
    lsi_gemm_item items[] = {item_of(job->rank == 1 ? 8 : 16, 128, 96, LS_F32, LSI_GEMM_PLAIN)};
    lsi_gemm_list list = {.item = items, .n = 1};

    (void)unused;
    ls_device *device = open_gpu(0);
    if (job->world > 1) {
        CHECK_FAILS(lsi_gemm_agree(job, device, &list, NULL), LS_ERR_CONFIG, job->rank == 1 ? "models differ" : "");
    }
    list.n = job->rank == 1 ? 0 : 1;
    if (job->world > 1) {
        CHECK_FAILS(lsi_gemm_agree(job, device, &list, NULL), LS_ERR_CONFIG, job->rank == 1 ? "models differ" : "");
    }
    test_backend()->close(device);
}

static void the_cpu_has_nothing_to_agree_on(void **unused)
{
    lsi_gemm_item items[] = {item_of(64, 128, 96, LS_F32, LSI_GEMM_PLAIN)};
    lsi_gemm_list list = {.item = items, .n = 1};
    ls_device *device = test_device_open(1);

    (void)unused;
    CHECK_OK(lsi_gemm_agree(job, device, &list, NULL));
    test_device_close(device);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest gpu_tests[] = {
        cmocka_unit_test(unlike_gpus_agree),
        cmocka_unit_test(no_common_algorithm_names_both_ranks),
        cmocka_unit_test(a_plan_is_not_argued_with),
        cmocka_unit_test(different_models_are_told),
    };
    const struct CMUnitTest cpu_tests[] = {cmocka_unit_test(the_cpu_has_nothing_to_agree_on)};
    char machine[4096];
    const char *backend = getenv("LOCKSTEP_TEST_BACKEND");
    bool gpu = backend != NULL && strcmp(backend, "cuda") == 0;

    if (gpu && cusim_set_order == NULL) {
        printf("skipped: needs GPUs of several kinds, which are simulated (LOCKSTEP_CUDA=SIM)\n");
        return 0;
    }
    snprintf(machine, sizeof machine, "%.*s/../cusim/machines/mixed.txt", (int)(strrchr(__FILE__, '/') - __FILE__),
             __FILE__);
    setenv("CUSIM_MACHINE", machine, 1);
    /* In the order of the file; and beside a GPU in MIG mode CUDA shows no other by itself. */
    setenv("CUDA_DEVICE_ORDER", "PCI_BUS_ID", 1);
    setenv("CUDA_VISIBLE_DEVICES", "0,1,2", 1);
    if (lsi_job_open("test", &argc, &argv, &job) != LS_OK) {
        return 1;
    }
    int failed = gpu ? cmocka_run_group_tests(gpu_tests, NULL, NULL) : cmocka_run_group_tests(cpu_tests, NULL, NULL);
    lsi_job_close(&job);
    return failed;
}
