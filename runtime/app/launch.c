/* launch [OPTION]... PROGRAM CONFIG [ARGUMENT]...: starts a training program in as many ranks as suit this machine, and
 * looks after them. The same program keeps each rank (launch/rank.h). */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "base/version.h"
#include "launch/hosts.h"
#include "launch/launch.h"
#include "launch/rank.h"

static ls_status answer(const lsi_launch_options *options)
{
    lsi_text text = {0};

    if (options->help) {
        lsi_launch_options_help(&text);
    } else {
        lsi_text_append(&text, "lockstep %s (%s), %s\n", lsi_version(), lsi_version_git(), lsi_version_compiler());
    }
    ls_status status = lsi_text_status(&text);
    if (status == LS_OK && (fputs(text.data, stdout) < 0 || fflush(stdout) != 0)) {
        status = LS_FAIL(LS_ERR_OUTPUT, "cannot write to standard output");
    }
    lsi_text_free(&text);
    return status;
}

static ls_status run(int argc, char **argv, int *code)
{
    lsi_launch_options options;

    if (argc > 2 && strcmp(argv[1], LSI_RANK_OPTION) == 0) {
        return lsi_rank_run(argv + 2, argc - 2, code);
    }
    if (argc > 2 && strcmp(argv[1], LSI_COUNT_OPTION) == 0) {
        return lsi_hosts_count_here(argv + 2, argc - 2);
    }
    LS_TRY(lsi_launch_options_parse(argc, argv, &options));
    ls_status status = options.help || options.version ? answer(&options) : lsi_launch_run(&options, code);
    lsi_launch_options_free(&options);
    return status;
}

int main(int argc, char **argv)
{
    char host[256] = "";
    int code = 0;

    gethostname(host, sizeof host - 1);
    lsi_file_hold_standard();
    lsi_file_outlive_limit();
    lsi_log_open("launch", 0, 1, host);
    ls_status status = run(argc, argv, &code);
    if (status != LS_OK) {
        lsi_log_error("%s", ls_failure_message());
        return ls_status_exit_code(status);
    }
    return code;
}
