#include "train/products.h"

#include <string.h>

#include "base/failure.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/text.h"
#include "train/gemm_agree.h"
#include "train/gemm_list.h"
#include "train/gemm_time.h"

/* ---- advice ------------------------------------------------------------------------------------------------------ */

enum { UNIT = 8, MAX_NAMED = 4 };

static bool is_odd(const lsi_gemm_shape *s)
{
    return s->m % UNIT != 0 || s->n % UNIT != 0 || s->k % UNIT != 0;
}

static bool is_named_before(const lsi_gemm_list *list, int item)
{
    for (int i = 0; i < item; i++) {
        if (is_odd(&list->item[i].shape) && strcmp(list->item[i].layer, list->item[item].layer) == 0) {
            return true;
        }
    }
    return false;
}

/* Tensor cores take 16-bit and TF32 rows of whole 16 bytes; other sizes work, by other kernels. */
static ls_status warn_of_sizes(const lsi_gemm_list *list, const char *compute)
{
    lsi_text text = {0};
    int n_layers = 0;

    for (int i = 0; i < list->n; i++) {
        const lsi_gemm_item *item = &list->item[i];

        if (!is_odd(&item->shape) || is_named_before(list, i)) {
            continue;
        }
        if (n_layers++ < MAX_NAMED) {
            lsi_text_append(&text, "%s%s (%lld x %lld x %lld)", n_layers > 1 ? ", " : "", item->layer,
                            (long long)item->shape.m, (long long)item->shape.n, (long long)item->shape.k);
        }
    }
    if (n_layers > MAX_NAMED) {
        lsi_text_append(&text, " and %d more", n_layers - MAX_NAMED);
    }
    ls_status status = lsi_text_status(&text);
    if (status == LS_OK && n_layers > 0) {
        lsi_log_warn(
            "%s products of sizes that are no multiple of %d are slow on GPUs: %s; the sizes come from "
            "train.micro_batch, the data's columns, the model's widths and model.vocab (0: the data's classes), where "
            "a multiple of %d is worth setting",
            compute, UNIT, text.data, UNIT);
    }
    lsi_text_free(&text);
    return status;
}

static void warn_of_missing(const lsi_gemm_list *list, const ls_runtime *rt)
{
    const lsi_gemm_item *first = NULL;
    int n = 0;

    for (int i = 0; i < list->n; i++) {
        if (lsi_tuning_find(rt->tuning, &list->item[i].shape) == NULL) {
            first = first == NULL ? &list->item[i] : first;
            n++;
        }
    }
    if (n > 0) {
        lsi_log_warn("%s has %d of this model's %d products, not that of %s (layer %s): the library chooses for the "
                     "others; trainer --tune-gemm makes a plan for all",
                     rt->config->device.gemm_plan, list->n - n, list->n, lsi_gemm_shape_text(&first->shape).text,
                     first->layer);
    }
}

static ls_status advise(const lsi_gemm_list *list, const ls_runtime *rt)
{
    const char *compute = rt->config->precision.compute;

    if (rt->job->rank != 0) {
        return LS_OK;
    }
    if (rt->tuning != NULL) {
        warn_of_missing(list, rt);
    }
    return strcmp(compute, "f32") != 0 ? warn_of_sizes(list, compute) : LS_OK;
}

/* ---- speed ------------------------------------------------------------------------------------------------------- */

/* Of this process; 0: unknown. It is for people to look at, so memory that is not there for it is no failure. */
static ls_status measure_product(const lsi_gemm_list *list, ls_device *device, double *out)
{
    const lsi_gemm_item *largest = lsi_gemm_list_largest(list);
    lsi_gemm_timer *timer = NULL;
    double seconds = 0;

    *out = 0;
    if (largest == NULL) {
        return LS_OK;
    }
    ls_status status = lsi_gemm_timer_open(device, largest, 1, &timer);
    if (status == LS_OK) {
        status = lsi_gemm_timer_measure(timer, &largest->shape, &seconds);
    }
    lsi_gemm_timer_close(&timer);
    if (status == LS_ERR_MEMORY) {
        lsi_log_info("no mfu: %s", ls_failure_message());
        return LS_OK;
    }
    *out = status == LS_OK && seconds > 0 ? lsi_gemm_item_flops(largest) / seconds : 0;
    return status;
}

/* Collective. Unknown on one rank is unknown. */
static ls_status measure(const lsi_gemm_list *list, ls_runtime *rt, double *out)
{
    double mine, *all;
    int world = rt->job->world;

    LS_TRY(lsi_runtime_agree(rt, measure_product(list, rt->device, &mine)));
    LS_TRY(lsi_runtime_agree(rt, lsi_memory_alloc((size_t)world * sizeof *all, "speeds", (void **)&all)));
    ls_status status = lsi_job_all_gather(rt->job, &mine, sizeof mine, all);
    *out = 0;
    for (int r = 0; status == LS_OK && r < world; r++) {
        if (all[r] <= 0) {
            *out = 0;
            break;
        }
        *out += all[r];
    }
    lsi_memory_free(all);
    return lsi_runtime_agree(rt, status);
}

double lsi_work_utilization(const lsi_work *work, double step_seconds)
{
    return work->product_flops > 0 && step_seconds > 0 ? work->step_flops / step_seconds / work->product_flops : 0;
}

/* ---- all of it --------------------------------------------------------------------------------------------------- */

static ls_status count(const ls_runtime *rt, const ls_plan *train, const ls_plan *eval, lsi_gemm_list *list,
                       lsi_work *out)
{
    bool tf32 = strcmp(rt->config->precision.compute, "tf32") == 0;

    LS_TRY(lsi_plan_flops(train, &out->step_flops));
    out->step_flops *= (double)rt->geometry.n_slots;
    LS_TRY(lsi_gemm_list_add(list, train, tf32));
    return eval != NULL ? lsi_gemm_list_add(list, eval, tf32) : LS_OK;
}

/* Collective. */
static ls_status prepare(ls_runtime *rt, const lsi_gemm_list *list, lsi_work *out)
{
    LS_TRY(lsi_runtime_agree(rt, advise(list, rt)));
    ls_status status = lsi_gemm_agree(rt->job, rt->device, list, rt->tuning);
    if (status != LS_OK) {
        rt->agreed = true; /* it has been printed, once */
        return status;
    }
    return measure(list, rt, &out->product_flops);
}

ls_status lsi_products_prepare(ls_runtime *runtime, const ls_plan *train, const ls_plan *eval, lsi_work *out)
{
    lsi_gemm_list list = {0};

    *out = (lsi_work){0};
    ls_status status = lsi_runtime_agree(runtime, count(runtime, train, eval, &list, out));
    /* The cpu makes products in one way; and how fast it could be depends on what else runs on its cores, so that a
     * part of that says nothing. */
    if (status == LS_OK && lsi_gemm_choices_of(runtime->device) != NULL) {
        status = prepare(runtime, &list, out);
    }
    lsi_gemm_list_free(&list);
    return status;
}
