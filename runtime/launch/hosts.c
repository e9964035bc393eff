#include "launch/hosts.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/log.h"
#include "base/memory.h"
#include "launch/ask.h"
#include "launch/command.h"
#include "launch/count_gpus.h"

static const char answer_begins[] = "launch counts: ";
static const double patience_seconds = 60;
static const size_t hostfile_most = 1 << 20;

/* ---- which there are --------------------------------------------------------------------------------------------- */

/* A host that stands there twice has the slots of both. */
static ls_status add(lsi_hosts *hosts, const char *name, size_t length, int slots)
{
    lsi_host *host = hosts->host;

    LS_REQUIRE(length < LSI_HOST_NAME, LS_ERR_USAGE, "the name of host '%.40s...' has more than %d characters", name,
               LSI_HOST_NAME - 1);
    while (host < hosts->host + hosts->n && (strncmp(host->name, name, length) != 0 || host->name[length] != '\0')) {
        host++;
    }
    if (host == hosts->host + hosts->n) {
        LS_REQUIRE(hosts->n < LSI_HOSTS_MAX, LS_ERR_USAGE, "more than %d hosts", LSI_HOSTS_MAX);
        hosts->n++;
        *host = (lsi_host){.slots = 0};
        memcpy(host->name, name, length);
    }
    host->slots += slots;
    return LS_OK;
}

static ls_status read_list(const char *list, lsi_hosts *out)
{
    while (*list != '\0') {
        size_t length = strcspn(list, ","), name = strcspn(list, ":,");
        int slots = name < length ? atoi(list + name + 1) : 0;

        if (length > 0) {
            LS_TRY(add(out, list, name, slots > 0 ? slots : 0));
        }
        list += length + (list[length] == ',' ? 1 : 0);
    }
    return LS_OK;
}

static ls_status read_line(char *line, lsi_hosts *out)
{
    line[strcspn(line, "#\r")] = '\0';
    char *rest = line, *name = strtok_r(line, " \t", &rest), *word;
    int slots = 0;

    if (name == NULL) {
        return LS_OK;
    }
    while ((word = strtok_r(NULL, " \t", &rest)) != NULL) {
        if (strncmp(word, "slots=", 6) == 0) {
            slots = atoi(word + 6);
        }
    }
    return add(out, name, strlen(name), slots > 0 ? slots : 0);
}

static ls_status read_file(const char *path, lsi_hosts *out)
{
    char *text, *rest, *line;
    size_t size;
    ls_status status = LS_OK;

    LS_TRY(lsi_file_read(path, hostfile_most, LS_ERR_USAGE, &text, &size));
    rest = text;
    while (status == LS_OK && (line = strsep(&rest, "\n")) != NULL) {
        status = read_line(line, out);
    }
    lsi_memory_free(text);
    return status;
}

ls_status lsi_hosts_read(const lsi_launch_options *options, lsi_hosts *out)
{
    out->n = 0;
    LS_TRY(options->host != NULL ? read_list(options->host, out) : read_file(options->hostfile, out));
    LS_REQUIRE(out->n > 0, LS_ERR_USAGE, "%s%.100s names no host", options->host != NULL ? "--host " : "",
               options->host != NULL ? options->host : options->hostfile);
    return LS_OK;
}

int lsi_hosts_text(const lsi_hosts *hosts, char out[LSI_HOSTS_TEXT])
{
    int total = 0, used = 0;

    out[0] = '\0';
    for (int i = 0; i < hosts->n; i++) {
        const lsi_host *host = &hosts->host[i];

        if (host->n > 0) {
            used += snprintf(out + used, LSI_HOSTS_TEXT - (size_t)used, "%s%s:%d", used > 0 ? "," : "", host->name,
                             host->n);
            total += host->n;
        }
    }
    return total;
}

/* ---- what each has ----------------------------------------------------------------------------------------------- */

static int cores_allowed(void)
{
    cpu_set_t mask;

    return sched_getaffinity(0, sizeof mask, &mask) == 0 ? CPU_COUNT(&mask) : 1;
}

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
        printf("%s%d %d %s\n", answer_begins, none ? -1 : gpus, cores_allowed(), none ? ls_failure_message() : "");
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
    return host->slots > 0 ? host->slots : options->host != NULL ? 1 : cores;
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
    if (gpus > 0 && host->slots > 0 && host->slots < gpus) {
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
