#include "loop/report.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/statvfs.h>

#include "base/log.h"
#include "base/memory.h"
#include "base/number.h"
#include "base/text.h"
#include "train/precision.h"

/* 124439808 -> "124,439,808" */
static void append_grouped(lsi_text *text, int64_t n)
{
    char digits[32];
    int length = snprintf(digits, sizeof digits, "%" PRId64, n);

    for (int i = 0; i < length; i++) {
        lsi_text_append(text, "%s%c", i > 0 && (length - i) % 3 == 0 && digits[i - 1] != '-' ? "," : "", digits[i]);
    }
}

/* One message per line. */
static void show(lsi_text *text)
{
    char *rest = text->data, *line;

    while ((line = strsep(&rest, "\n")) != NULL) {
        lsi_log_info("%s", line);
    }
}

static void append_data(lsi_text *text, const ls_dataset *train, const ls_dataset *val)
{
    lsi_text_append(text, "data       %s, ", train->description);
    append_grouped(text, train->n_samples);
    lsi_text_append(text, " samples");
    if (val != NULL) {
        lsi_text_append(text, "; validation ");
        append_grouped(text, val->n_samples);
    }
    lsi_text_append(text, "\n");
}

/* 1.25e12 -> "1.25 T" */
static void append_rate(lsi_text *text, double flops)
{
    static const char *const units[] = {"", "k", "M", "G", "T", "P", "E"};
    int unit = 0;

    while (flops >= 1000 && unit + 1 < (int)(sizeof units / sizeof *units)) {
        flops /= 1000;
        unit++;
    }
    lsi_text_append(text, "%.3g %s", flops, units[unit]);
}

static void append_work(lsi_text *text, const ls_trainer *trainer)
{
    const ls_runtime *rt = trainer->rt;
    const lsi_work *work = &trainer->work;

    lsi_text_append(text, "\nwork       ");
    append_rate(text, work->step_flops);
    lsi_text_append(text, "FLOP a step");
    if (work->product_flops > 0) {
        lsi_text_append(text, "; the largest product runs at ");
        append_rate(text, work->product_flops / rt->geometry.world);
        lsi_text_append(text, "FLOP/s on each of %d GPU%s, of which mfu is a part", rt->geometry.world,
                        rt->geometry.world == 1 ? "" : "s");
    }
    if (rt->tuning != NULL) {
        lsi_text_append(text, "; gemm plan %s", rt->tuning->hash);
    }
}

static void append_batch(lsi_text *text, const ls_runtime *rt, int64_t steps)
{
    const lsi_geometry *g = &rt->geometry;

    lsi_text_append(text, "batch      ");
    append_grouped(text, steps);
    lsi_text_append(text, " steps of %lld samples: %lld slots of %lld in %d lanes\n", (long long)g->global_batch,
                    (long long)g->n_slots, (long long)g->micro_batch, g->n_lanes);
}

void lsi_report_start(const ls_trainer *trainer, const char *model, const ls_dataset *train, const ls_dataset *val)
{
    const ls_runtime *rt = trainer->rt;
    lsi_text text = {0};
    char note[LSI_PRECISION_NOTE];

    lsi_precision_note(rt->config, rt->device, note);
    lsi_text_append(&text, "model      %s, ", model);
    append_grouped(&text, trainer->params->n_counted);
    lsi_text_append(&text, " parameters, %s%s\n", rt->config->precision.compute, note);
    append_data(&text, train, val);
    append_batch(&text, rt, trainer->end_step);
    lsi_text_append(&text, "processes  %d over %s, %d compute thread%s each, lanes per rank", rt->geometry.world,
                    rt->comm->transport->name, rt->affinity.threads, rt->affinity.threads == 1 ? "" : "s");
    for (int r = 0; r < rt->geometry.world && r < 16; r++) {
        lsi_text_append(&text, " %d", rt->geometry.share[r].hi - rt->geometry.share[r].lo);
    }
    lsi_text_append(&text, "%s\nmemory     ", rt->geometry.world > 16 ? " ..." : "");
    lsi_number_append_bytes_human(&text, (double)lsi_sizes_total(&trainer->sizes));
    lsi_text_append(&text, " on rank 0: %d gradient cop%s, %d bucket%s\n", trainer->sizes.gradient_copies,
                    trainer->sizes.gradient_copies == 1 ? "y" : "ies", trainer->sizes.n_buckets,
                    trainer->sizes.n_buckets == 1 ? "" : "s");
    lsi_text_append(&text, "device     %s", rt->backend->describe(rt->device));
    if (trainer->recorder.records) {
        lsi_text_append(&text, "\ngraphs     on: a step is recorded once and replayed");
    } else if (trainer->recorder.why != NULL) {
        lsi_text_append(&text, "\ngraphs     off: %s", trainer->recorder.why);
    }
    append_work(&text, trainer);
    if (lsi_text_status(&text) == LS_OK) {
        show(&text);
    }
    lsi_text_free(&text);
}

static void append_saving(lsi_text *text, const ls_config *config, int64_t bytes)
{
    lsi_text_append(text, "checkpoint ");
    lsi_number_append_bytes_human(text, (double)bytes);
    if (config->checkpoint.every > 0) {
        lsi_text_append(text, ", every %lld steps", (long long)config->checkpoint.every);
    } else {
        lsi_text_append(text, ", at the end");
    }
    lsi_text_append(text, " in %s", config->checkpoint.dir);
}

void lsi_report_checkpoints(const ls_trainer *trainer, const lsi_resume *from, const lsi_saver *saver)
{
    const ls_config *config = trainer->rt->config;
    lsi_text text = {0};
    struct statvfs disk;
    double bytes, room;

    if (from->found) {
        lsi_log_info("resumed    from %s", from->path);
    }
    if (saver == NULL || trainer->rt->job->rank != 0) {
        return;
    }
    bytes = (double)lsi_saver_bytes(saver);
    append_saving(&text, config, lsi_saver_bytes(saver));
    if (statvfs(config->checkpoint.dir, &disk) == 0) {
        room = (double)disk.f_bavail * (double)disk.f_frsize;
        lsi_text_append(&text, ", ");
        lsi_number_append_bytes_human(&text, room);
        lsi_text_append(&text, " free");
        if (room < 2 * bytes) { /* a new one is written before the old one goes */
            lsi_log_warn("%s: has room for %.1f checkpoints, two are needed at a time", config->checkpoint.dir,
                         room / bytes);
        }
    }
    if (lsi_text_status(&text) == LS_OK) {
        lsi_log_info("%s", text.data);
    }
    lsi_text_free(&text);
}

/* Bytes, one line per rank, one column per class; on GPUs another one for what of all that is the host's memory. */
static void append_memory(lsi_text *text, const ls_runtime *rt, const lsi_sizes *all)
{
    enum { WIDTH = 14 };

    lsi_text_append(text, "\nbytes\nrank  lanes  slots  gradient copies");
    for (int c = 0; c < LSI_MEMORY_CLASS_COUNT; c++) {
        lsi_text_append(text, "  %*s", WIDTH, lsi_memory_class_text((lsi_memory_class)c));
    }
    lsi_text_append(text, "  %*s%s\n", WIDTH, "total", rt->backend->host_memory ? "" : "  of it on the host");
    for (int r = 0; r < rt->geometry.world; r++) {
        const lsi_sizes *s = &all[r];

        lsi_text_append(text, "%4d  %5d  %5lld  %15d", r, rt->geometry.share[r].hi - rt->geometry.share[r].lo,
                        (long long)s->n_local, s->gradient_copies);
        for (int c = 0; c < LSI_MEMORY_CLASS_COUNT; c++) {
            int width = (int)strlen(lsi_memory_class_text((lsi_memory_class)c));

            lsi_text_append(text, "  %*zu", width > WIDTH ? width : WIDTH, s->bytes[c]);
        }
        lsi_text_append(text, "  %*zu", WIDTH, lsi_sizes_total(s));
        if (!rt->backend->host_memory) {
            lsi_text_append(text, "  %*zu", (int)strlen("of it on the host"), s->pool[LSI_MEMORY_SIDE_HOST] - s->ahead_bytes);
        }
        lsi_text_append(text, r + 1 < rt->geometry.world ? "\n" : "");
    }
}

ls_status lsi_report_dry_run(ls_runtime *runtime, const lsi_param_table *params, const ls_dataset *train,
                             const ls_dataset *val, const lsi_sizes *sizes)
{
    lsi_text text = {0};
    lsi_sizes *all;

    LS_TRY(lsi_memory_alloc((size_t)runtime->job->world * sizeof *all, "sizes of all ranks", (void **)&all));
    ls_status status = lsi_job_all_gather(runtime->job, sizes, sizeof *sizes, all);
    if (status == LS_OK) {
        lsi_text_append(&text, "model      %s, ", runtime->config->model.kind);
        append_grouped(&text, params->n_counted);
        lsi_text_append(&text, " parameters in %d tensors, %lld elements with alignment to %d\n", params->n,
                        (long long)params->n_elements, LSI_PARAM_ALIGN);
        append_data(&text, train, val);
        append_batch(&text, runtime, lsi_trainer_run_steps(runtime->config, train->n_samples));
        lsi_text_append(&text, "buckets    %d of at most %lld elements, reduced over %s\n", sizes->n_buckets,
                        (long long)sizes->largest_bucket, runtime->comm->transport->name);
        append_memory(&text, runtime, all);
        status = lsi_text_status(&text);
    }
    if (status == LS_OK) {
        show(&text);
    }
    lsi_text_free(&text);
    lsi_memory_free(all);
    return status;
}
