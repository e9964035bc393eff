/* gpus: which GPUs this host has, who uses them, and which ones a job would get; for people and for scripts:
 * CUDA_VISIBLE_DEVICES=$(gpus --count 2 --min-free 20G). Makes no context on any GPU. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "app/gpus_options.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"
#include "base/version.h"
#include "config/config.h"
#include "device/decide.h"
#include "device/inventory_text.h"
#include "device/visibility.h"

typedef struct session {
    gpus_options options;
    lsi_config *config;
    lsi_inventory *inventory;
    lsi_leases *leases; /* NULL: device.leases is empty, or cannot be opened and is not needed */
    char host[256];
    bool order_is_ours;
} session;

static ls_status print(const lsi_text *text)
{
    LS_TRY(lsi_text_status(text));
    LS_REQUIRE(fputs(text->data, stdout) >= 0 && fflush(stdout) == 0, LS_ERR_OUTPUT, "cannot write to standard output");
    return LS_OK;
}

/* ---- what a job would get
 * --------------------------------------------------------------------------------------------- */

/* What a process could see that is started with a value of CUDA_VISIBLE_DEVICES: where it is set, what it leaves;
 * otherwise every GPU, and a MIG instance where one is enough, because a process sees no second one. */
static uint64_t could_see(const lsi_inventory *inventory, int count)
{
    bool restricted = getenv("CUDA_VISIBLE_DEVICES") != NULL || inventory->n_visible == 0;
    uint64_t mask = 0;

    for (int i = 0; i < inventory->n; i++) {
        const lsi_gpu *gpu = &inventory->gpus[i];
        bool usable = !gpu->lost && !gpu->mig && (gpu->parent == LSI_GPU_UNKNOWN || count <= 1);

        mask |= (uint64_t)(gpu->ordinal != LSI_GPU_UNKNOWN || (usable && !restricted)) << i;
    }
    return mask;
}

static ls_status decide_once(session *s, int count, lsi_choice *choice)
{
    const ls_config *config = lsi_config_values(s->config);
    uint64_t sees[GPUS_COUNT_MAX];
    lsi_select_ranks ranks = {count, sees};
    lsi_decide_options options = {.rules = lsi_select_rules_of(config),
                                  .priority = lsi_lease_priority(config->device.priority),
                                  .leases = s->leases,
                                  .host = s->host};

    for (int i = 0; i < GPUS_COUNT_MAX; i++) {
        sees[i] = could_see(s->inventory, count);
    }
    if (s->leases != NULL) {
        LS_TRY(lsi_lease_lock(s->leases, LSI_DECIDE_LOCK_SECONDS));
    }
    ls_status status = lsi_decide(s->inventory, &options, &ranks, choice);
    if (s->leases != NULL) {
        lsi_lease_unlock(s->leases);
    }
    return status;
}

static ls_status decide(session *s, int count, lsi_choice *choice)
{
    const struct timespec pause = {.tv_nsec = 250000000};
    double end = lsi_clock_seconds() + lsi_config_values(s->config)->device.wait;

    lsi_inventory_sample(s->inventory, lsi_config_values(s->config)->device.sample);
    ls_status status = decide_once(s, count, choice);
    while (status != LS_OK && choice->may_pass && lsi_clock_seconds() < end) {
        nanosleep(&pause, NULL);
        status = decide_once(s, count, choice);
    }
    return status;
}

/* The value for CUDA_VISIBLE_DEVICES. Numbers are nvidia-smi's, and mean the same to CUDA under PCI order only. */
static ls_status print_value(session *s)
{
    lsi_choice choice;
    lsi_text text = {0};

    memset(&choice, 0, sizeof choice);
    LS_TRY(decide(s, s->options.count, &choice));
    for (int i = 0; i < s->options.count; i++) {
        const lsi_gpu *gpu = &s->inventory->gpus[choice.gpus[i % choice.n]];

        if (i >= choice.n) {
            break; /* shared: a GPU stands once in the list, or CUDA would show none */
        }
        if (s->options.index && gpu->parent == LSI_GPU_UNKNOWN && gpu->nvml_index != LSI_GPU_UNKNOWN) {
            lsi_text_append(&text, "%s%d", i > 0 ? "," : "", gpu->nvml_index);
        } else {
            lsi_text_append(&text, "%s%s", i > 0 ? "," : "", gpu->uuid);
        }
    }
    lsi_text_append(&text, "\n");
    ls_status status = print(&text);
    lsi_text_free(&text);
    return status;
}

/* ---- what there is
 * ------------------------------------------------------------------------------------------------------ */

static ls_status list(session *s)
{
    lsi_choice choice;
    lsi_text text = {0};

    memset(&choice, 0, sizeof choice);
    ls_status status = decide(s, 0, &choice);
    if (status == LS_OK) {
        if (s->options.json) {
            lsi_inventory_json(s->inventory, &choice, &text);
        } else {
            lsi_inventory_list(s->inventory, &choice, &text);
        }
        status = print(&text);
    }
    lsi_text_free(&text);
    if (status == LS_OK && s->inventory->n == 0) {
        status = LS_FAIL(LS_ERR_DEVICE, "host %s has no GPU", s->host);
    }
    return status;
}

static ls_status explain(session *s)
{
    lsi_text text = {0};

    lsi_visibility_explain(s->inventory, s->order_is_ours, &text);
    ls_status status = print(&text);
    lsi_text_free(&text);
    return status;
}

/* Until a signal, or the end of a pipe. */
static ls_status watch(session *s)
{
    double seconds = s->options.watch_seconds;
    const struct timespec pause = {.tv_sec = (time_t)seconds,
                                   .tv_nsec = (long)((seconds - (double)(time_t)seconds) * 1e9)};
    bool terminal = isatty(STDOUT_FILENO) == 1;
    ls_status status = LS_OK;

    while (status == LS_OK) {
        lsi_text text = {0};
        time_t now = time(NULL);
        struct tm local;
        char when[32] = "";

        if (localtime_r(&now, &local) != NULL) {
            strftime(when, sizeof when, "%H:%M:%S", &local);
        }
        lsi_text_append(&text, "%s%s  %s\n", terminal ? "\033[H\033[J" : "", s->host, when);
        lsi_inventory_table(s->inventory, &text);
        status = print(&text);
        lsi_text_free(&text);
        nanosleep(&pause, NULL);
        lsi_inventory_refresh(s->inventory);
    }
    return status;
}

/* ---- all of it
 * ------------------------------------------------------------------------------------------------------------- */

static ls_status answer(session *s)
{
    const ls_config *config;
    const char *const *sets = (const char *const *)s->options.sets;

    LS_TRY(lsi_config_load_program("gpus", "[train]\nsteps = 1\n", NULL, sets, s->options.n_sets, &s->config));
    config = lsi_config_values(s->config);
    LS_TRY(lsi_inventory_open(&s->inventory));
    if (config->device.leases[0] != '\0' && (s->options.count > 0 || s->inventory->n > 0)) {
        LS_TRY(lsi_lease_open(config->device.leases, "gpus", &s->leases));
    }
    switch (s->options.what) {
    case GPUS_COUNT:
        return print_value(s);
    case GPUS_WATCH:
        return watch(s);
    case GPUS_EXPLAIN:
        return explain(s);
    default:
        return list(s);
    }
}

int main(int argc, char **argv)
{
    session s = {.order_is_ours = lsi_visibility_fix_order()};
    lsi_text text = {0};

    lsi_log_open("gpus", 0, 1, "");
    if (gethostname(s.host, sizeof s.host - 1) != 0) {
        snprintf(s.host, sizeof s.host, "localhost");
    }
    ls_status status = gpus_options_parse(argc, argv, &s.options);
    if (status == LS_OK && s.options.what == GPUS_HELP) {
        gpus_options_help(&text);
        status = print(&text);
    } else if (status == LS_OK && s.options.what == GPUS_VERSION) {
        lsi_text_append(&text, "lockstep %s (%s), %s\n", lsi_version(), lsi_version_git(), lsi_version_compiler());
        status = print(&text);
    } else if (status == LS_OK) {
        status = answer(&s);
    }
    if (status != LS_OK) {
        lsi_log_error("%s", ls_failure_message());
    }
    lsi_text_free(&text);
    lsi_lease_close(&s.leases);
    lsi_inventory_close(&s.inventory);
    lsi_config_destroy(&s.config);
    gpus_options_free(&s.options);
    return ls_status_exit_code(status);
}
