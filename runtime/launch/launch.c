#include "launch/launch.h"

#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "base/memory.h"
#include "launch/ask.h"
#include "launch/attempt.h"
#include "launch/command.h"
#include "launch/policy.h"
#include "launch/saves.h"

typedef struct job {
    const lsi_launch_options *options;
    lsi_signals signals;
    lsi_config *config;
    lsi_logs logs;
    lsi_saves before; /* checkpoints from before the first start */
    char *log_folder;
    int64_t n_restarts;
    int n_before;  /* ranks of the last start; 0: there was none */
    int64_t saved; /* newest checkpoint since; -1: none */
} job;

/* ---- what people read -------------------------------------------------------------------------------------------- */

/* The line about one failure. Longer texts are told line by line: a message is one line. */
static void say_lines(const char *text)
{
    while (*text != '\0') {
        size_t length = strcspn(text, "\n");

        lsi_log_warn("%.*s", (int)length, text);
        text += length + (text[length] == '\n' ? 1 : 0);
    }
}

static void report_failure(const job *j, const lsi_attempt_result *result)
{
    lsi_text how = {0}, last = {0};
    int others = result->n_failed - 1;

    lsi_launch_policy_describe(result->code, &how); /* of mpirun its own, not the one we end with */
    if (result->cause >= 0) {
        lsi_log_error("rank %d on %s failed first (%s, process %ld)%s; its output: %s/rank-%d.log", result->cause,
                      result->host, how.data, result->pid, others > 0 ? ", others after it" : "", j->logs.folder,
                      result->cause);
    } else if (result->n_ranks > 0) {
        lsi_log_error("mpirun ended (%s) and no rank has told of a failure; a host may be lost. mpirun's words: "
                      "%s/mpirun.log",
                      how.data, j->logs.folder);
    } else {
        lsi_log_error("mpirun has started no rank (%s); its words: %s/mpirun.log", how.data, j->logs.folder);
    }
    lsi_logs_last(lsi_logs_source(&j->logs, result->cause), "  | ", &last);
    if (last.length > 0) {
        say_lines(last.data);
    }
    lsi_text_free(&how);
    lsi_text_free(&last);
}

static void say_start(const job *j, const lsi_pick *pick)
{
    if (pick->n > 0) {
        lsi_log_info("launch: %d rank%s, %s; output of each: %s", pick->n, pick->n == 1 ? "" : "s", pick->why,
                     j->logs.folder);
    } else {
        lsi_log_info("launch: as many ranks as mpirun counts slots; output of each: %s", j->logs.folder);
    }
}

static void say_restart(const job *j)
{
    char where[64];

    snprintf(where, sizeof where, j->saved >= 0 ? "from step %lld" : "from where this job began", (long long)j->saved);
    lsi_log_warn("starts again %s (%lld of %lld) in %g s", where, (long long)j->n_restarts,
                 (long long)j->options->max_restarts, j->options->restart_delay);
}

/* Restarts that cannot help are better known before than after. */
static void warn_about_saves(const job *j)
{
    const ls_config *config = lsi_config_values(j->config);

    if (j->options->max_restarts > 0 && (!config->checkpoint.save || config->checkpoint.every == 0)) {
        lsi_log_warn("%s: a start again goes back to where this job began; set checkpoint.every",
                     config->checkpoint.save ? "checkpoint.every = 0" : "checkpoint.save = false");
    }
}

/* ---- one start --------------------------------------------------------------------------------------------------- */

static ls_status look_for_saves(job *j)
{
    lsi_saves now = {0};

    LS_TRY(lsi_saves_read(lsi_config_values(j->config)->checkpoint.dir, &now));
    j->saved = lsi_saves_newest(&j->before, &now);
    lsi_saves_free(&now);
    return LS_OK;
}

static ls_status write_heading(const job *j, const lsi_launch_command *command, lsi_text *out)
{
    char date[32];
    time_t now = time(NULL);
    struct tm parts;

    strftime(date, sizeof date, "%Y-%m-%d %H:%M:%S", localtime_r(&now, &parts));
    lsi_text_append(out, "%s, start %lld: ", date, (long long)j->n_restarts + 1);
    lsi_words_quote(command->words.word, command->words.n, out);
    return lsi_text_status(out);
}

static ls_status start_once(job *j, const lsi_pick *pick, const lsi_launch_command *command, lsi_attempt_result *result)
{
    lsi_text heading = {0};

    ls_status status = write_heading(j, command, &heading);
    if (status == LS_OK) {
        status = lsi_logs_begin(&j->logs, heading.data, pick->n != 1);
    }
    lsi_text_free(&heading);
    LS_TRY(status);
    say_start(j, pick);
    return lsi_attempt_run(command->words.word, pick->n, &j->signals, &j->logs, result);
}

/* Chooses, starts, waits. */
static ls_status attempt(job *j, lsi_attempt_result *result)
{
    lsi_launch_command command = {0};
    lsi_pick pick;

    LS_TRY(look_for_saves(j));
    LS_TRY(lsi_pick_ranks(j->options, j->config, j->n_before, &j->signals, &pick));
    if (j->signals.n_requests > 0) {
        lsi_pick_free(&pick);
        return LS_FAIL(LS_ERR_USAGE, "asked to stop before the ranks were started");
    }
    j->n_before = pick.n;
    ls_status status = lsi_command_build(j->options, &pick, j->n_restarts > 0 && j->saved >= 0, &command);
    if (status == LS_OK) {
        status = start_once(j, &pick, &command, result);
    }
    lsi_command_destroy(&command);
    lsi_pick_free(&pick);
    return status;
}

static bool is_over(const job *j, int code)
{
    return code == 0 || code == ls_status_exit_code(LS_STOPPED) || j->signals.n_requests > 0 ||
           j->n_restarts >= j->options->max_restarts || !lsi_launch_policy_restarts(code);
}

/* mpirun's codes where no rank has failed (1, 213, 255, ...) mean that it could not start or reach them. */
static int final_code(const lsi_attempt_result *result)
{
    bool good = result->code == 0 || result->code == ls_status_exit_code(LS_STOPPED);

    return result->cause < 0 && !good && !lsi_launch_policy_is_signal(result->code) ? ls_status_exit_code(LS_ERR_COMM)
                                                                                    : result->code;
}

static ls_status run_to_end(job *j, int *code)
{
    for (;;) {
        lsi_attempt_result result;

        LS_TRY(attempt(j, &result));
        *code = final_code(&result);
        if (*code != 0 && *code != ls_status_exit_code(LS_STOPPED)) {
            report_failure(j, &result);
        }
        if (is_over(j, *code)) {
            return LS_OK;
        }
        j->n_restarts++;
        LS_TRY(look_for_saves(j));
        say_restart(j);
        lsi_signals_wait(&j->signals, j->options->restart_delay);
        if (j->signals.n_requests > 0) {
            lsi_log_warn("asked to stop before that");
            return LS_OK;
        }
    }
}

/* ---- life -------------------------------------------------------------------------------------------------------- */

static ls_status show(job *j)
{
    lsi_launch_command command = {0};
    lsi_text text = {0};
    lsi_pick pick;

    LS_TRY(lsi_pick_ranks(j->options, j->config, 0, &j->signals, &pick));
    ls_status status = lsi_command_build(j->options, &pick, false, &command);
    if (status == LS_OK) {
        lsi_command_show(&command, j->options, &pick, j->log_folder, &text);
        status = lsi_text_status(&text);
    }
    if (status == LS_OK && (fputs(text.data, stdout) < 0 || fflush(stdout) != 0)) {
        status = LS_FAIL(LS_ERR_OUTPUT, "cannot write to standard output");
    }
    lsi_text_free(&text);
    lsi_command_destroy(&command);
    lsi_pick_free(&pick);
    return status;
}

static ls_status find_log_folder(job *j)
{
    if (j->options->log_dir != NULL) {
        return lsi_file_absolute(j->options->log_dir, &j->log_folder);
    }
    return lsi_file_join(lsi_config_values(j->config)->log.dir, "launch", &j->log_folder);
}

static ls_status run(job *j, int *code)
{
    LS_TRY(lsi_signals_open(&j->signals));
    LS_TRY(lsi_ask_config(j->options->command, j->options->n_command, &j->signals, &j->config));
    LS_TRY(find_log_folder(j));
    if (j->options->dry_run) {
        return show(j);
    }
    warn_about_saves(j);
    LS_TRY(lsi_saves_read(lsi_config_values(j->config)->checkpoint.dir, &j->before));
    LS_TRY(lsi_logs_open(j->log_folder, &j->logs));
    return run_to_end(j, code);
}

ls_status lsi_launch_run(const lsi_launch_options *options, int *code)
{
    job j = {.options = options, .signals.fd = -1, .saved = -1};

    *code = 0;
    ls_status status = run(&j, code);
    if (status != LS_OK && j.signals.n_requests > 0 && j.n_before == 0) {
        *code = 128 + j.signals.last; /* asked to stop before anything had begun */
        status = LS_OK;
    }
    lsi_logs_close(&j.logs);
    lsi_saves_free(&j.before);
    lsi_config_destroy(&j.config);
    lsi_memory_free(j.log_folder);
    lsi_signals_close(&j.signals);
    return status;
}
