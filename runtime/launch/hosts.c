#include "launch/hosts.h"

#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "launch/ask.h"
#include "launch/command.h"
#include "launch/count_gpus.h"
#include "launch/slots.h"

static const char answer_begins[] = "launch counts: ";
static const double patience_seconds = 60;

/* ---- what each has ----------------------------------------------------------------------------------------------- */

ls_status lsi_hosts_count_here(char *const *command, int n)
{
    lsi_signals signals = {.fd = -1};
    lsi_config *config = NULL;
    int gpus = 0;

    LS_TRY(lsi_signals_open(&signals));
    ls_status status = lsi_ask_config(command, n, &signals, &config);
    if (status == LS_OK) {
        status = lsi_count_gpus(lsi_config_values(config), (int)lsi_config_lanes(lsi_config_values(config)), 0,
                                &signals, &gpus);
    }
    bool none = status == LS_ERR_DEVICE;
    if (none || status == LS_OK) {
        printf("%s%d %d %s\n", answer_begins, none ? -1 : gpus, lsi_slots_cores_allowed(), none ? ls_failure_message() : "");
        status = fflush(stdout) == 0 ? LS_OK : LS_FAIL(LS_ERR_OUTPUT, "cannot write to standard output");
    }
    lsi_config_destroy(&config);
    lsi_signals_close(&signals);
    return status;
}

/* On the cpu a host takes what it is written to have; without that, one rank as mpirun's --host, or one for each core
 * as its hostfile. */
static int without_gpus(const lsi_launch_options *options, const lsi_host *host, int cores)
{
    return host->slots + host->n_unsaid * (options->host != NULL ? 1 : cores);
}

static void take_answer(const lsi_launch_options *options, const char *answer, lsi_host *host)
{
    const char *line = strstr(answer, answer_begins);
    int gpus, cores, used = 0;

    host->answers = line != NULL && sscanf(line + sizeof answer_begins - 1, "%d %d %n", &gpus, &cores, &used) == 2;
    if (!host->answers) {
        return;
    }
    host->gpus = gpus > 0 ? gpus : 0;
    host->n = gpus < 0 ? 0 : gpus == 0 ? without_gpus(options, host, cores) : gpus;
    if (gpus > 0 && host->n_unsaid == 0 && host->slots < gpus) {
        host->n = host->slots;
    }
    if (gpus < 0) {
        const char *why = line + sizeof answer_begins - 1 + used;

        lsi_log_warn("no rank on %s: %.*s", host->name, (int)strcspn(why, "\n"), why);
    }
}

static ls_status ask(const lsi_launch_options *options, const ls_config *config, lsi_signals *signals, lsi_host *host)
{
    lsi_launch_command command;
    lsi_text answer = {0};
    int code = -1;

    LS_TRY(lsi_command_build_count(options, host->name, &command));
    ls_status status = lsi_ask_run(command.words.word, patience_seconds + config->device.wait, signals, &answer, &code);
    if (status == LS_OK && code == 0 && answer.data != NULL) {
        take_answer(options, answer.data, host);
    }
    lsi_text_free(&answer);
    lsi_command_destroy(&command);
    return status;
}

/* Ranks are on GPUs everywhere or nowhere. */
static void leave_out_without_gpus(lsi_hosts *hosts)
{
    bool any = false;

    for (int i = 0; i < hosts->n; i++) {
        any = any || hosts->host[i].gpus > 0;
    }
    for (int i = 0; any && i < hosts->n; i++) {
        lsi_host *host = &hosts->host[i];

        if (host->gpus == 0 && host->n > 0) {
            lsi_log_warn("no rank on %s: it has no GPU, and other hosts have", host->name);
            host->n = 0;
        }
    }
}

ls_status lsi_hosts_ask(const lsi_launch_options *options, const ls_config *config, lsi_signals *signals,
                        lsi_hosts *hosts)
{
    for (int i = 0; i < hosts->n && signals->n_requests == 0; i++) {
        LS_TRY(ask(options, config, signals, &hosts->host[i]));
    }
    leave_out_without_gpus(hosts);
    return LS_OK;
}
