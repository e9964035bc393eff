#include "launch/command.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "launch/hosts.h"
#include "launch/rank.h"

/* Variables that ranks on other hosts need, too: mpirun hands on its own alone. What says which GPUs are visible is
 * each host's own. */
static const char *const shared_prefixes[] = {"LOCKSTEP_", "NCCL_",
                                              "CUDA_DEVICE_ORDER=", "LD_LIBRARY_PATH=", "OMP_NUM_THREADS="};

static bool mentions(const lsi_words *words, const char *option)
{
    for (int i = 0; i < words->n; i++) {
        const char *word = words->word[i];

        while (*word == '-') {
            word++;
        }
        if (strcmp(word, option) == 0) {
            return true;
        }
    }
    return false;
}

bool lsi_command_places(const lsi_launch_options *options)
{
    return mentions(&options->mpi, "rankfile") || mentions(&options->mpi, "rf");
}

static bool is_on(const char *variable)
{
    const char *value = getenv(variable);

    return value != NULL && strcmp(value, "1") == 0;
}

static ls_status add_pair(lsi_words *words, const char *option, const char *value)
{
    LS_TRY(lsi_words_add(words, option));
    return lsi_words_add(words, value);
}

static ls_status add_environment(lsi_words *words)
{
    for (char **variable = environ; variable != NULL && *variable != NULL; variable++) {
        for (size_t i = 0; i < sizeof shared_prefixes / sizeof shared_prefixes[0]; i++) {
            size_t name = strcspn(*variable, "=");
            char copy[128];

            if (strncmp(*variable, shared_prefixes[i], strlen(shared_prefixes[i])) == 0 && name < sizeof copy) {
                memcpy(copy, *variable, name);
                copy[name] = '\0';
                LS_TRY(add_pair(words, "-x", copy));
            }
        }
    }
    return LS_OK;
}

static ls_status add_mpirun(const lsi_launch_options *options, const lsi_pick *pick, lsi_words *words)
{
    const lsi_words *mpi = &options->mpi;
    char number[16];

    LS_TRY(lsi_words_add(words, "mpirun"));
    if (pick->n > 0) {
        snprintf(number, sizeof number, "%d", pick->n);
        LS_TRY(add_pair(words, "-n", number));
    }
    /* mpirun's own choice for two ranks is one core each, and loaders and communication threads share it. */
    if (!mentions(mpi, "bind-to") && !mentions(mpi, "cpu-set")) {
        LS_TRY(add_pair(words, "--bind-to", "none"));
    }
    if (!mentions(mpi, "map-by") && !mentions(mpi, "rankfile") && !mentions(mpi, "rf")) {
        LS_TRY(add_pair(words, "--map-by", "slot"));
    }
    if (pick->crowded && !mentions(mpi, "oversubscribe") && !is_on("OMPI_MCA_rmaps_base_oversubscribe")) {
        LS_TRY(lsi_words_add(words, "--oversubscribe"));
    }
    bool allowed = is_on("OMPI_ALLOW_RUN_AS_ROOT") && is_on("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM");
    if (geteuid() == 0 && !allowed && !mentions(mpi, "allow-run-as-root")) {
        LS_TRY(lsi_words_add(words, "--allow-run-as-root"));
    }
    if (pick->hosts != NULL) {
        LS_TRY(add_pair(words, "--host", pick->hosts));
    } else if (options->host != NULL) {
        LS_TRY(add_pair(words, "--host", options->host));
    } else if (options->hostfile != NULL) {
        LS_TRY(add_pair(words, "--hostfile", options->hostfile));
    }
    if (pick->where != LSI_PICK_HERE) {
        LS_TRY(add_environment(words));
    }
    return lsi_words_add_all(words, mpi->word, mpi->n);
}

/* This program, as other hosts find it, too. */
static ls_status own_path(char out[PATH_MAX])
{
    ssize_t n = readlink("/proc/self/exe", out, PATH_MAX - 1);

    LS_REQUIRE(n > 0, LS_ERR_INTERNAL, "cannot tell where launch itself lies (/proc/self/exe): %s", strerror(errno));
    out[n] = '\0';
    return LS_OK;
}

static ls_status append(const lsi_launch_options *options, const lsi_pick *pick, const char *role, bool resume,
                        lsi_launch_command *command)
{
    char self[PATH_MAX];

    LS_TRY(own_path(self));
#ifdef LOCKSTEP_HAVE_MPI
    LS_TRY(add_mpirun(options, pick, &command->words));
#else
    (void)add_mpirun;
    LS_REQUIRE(pick->n == 1, LS_ERR_CONFIG, "%d ranks: this build has no MPI, it runs one", pick->n);
#endif
    command->n_before = command->words.n;
    LS_TRY(add_pair(&command->words, self, role));
    LS_TRY(lsi_words_add_all(&command->words, options->command, options->n_command));
    return resume ? add_pair(&command->words, "--set", "checkpoint.resume=auto") : LS_OK;
}

/* role: what launch is there, in front of the program. */
static ls_status build(const lsi_launch_options *options, const lsi_pick *pick, const char *role, bool resume,
                       lsi_launch_command *out)
{
    lsi_launch_command command = {0};
    ls_status status = append(options, pick, role, resume, &command);

    if (status != LS_OK) {
        lsi_command_destroy(&command);
        return status;
    }
    *out = command;
    return LS_OK;
}

ls_status lsi_command_build(const lsi_launch_options *options, const lsi_pick *pick, bool resume,
                            lsi_launch_command *out)
{
    return build(options, pick, LSI_RANK_OPTION, resume, out);
}

ls_status lsi_command_build_count(const lsi_launch_options *options, const char *host, lsi_launch_command *out)
{
    char where[LSI_HOST_NAME + 8];
    const lsi_pick pick = {.where = LSI_PICK_HOSTS, .n = 1, .hosts = where};

    snprintf(where, sizeof where, "%s:1", host);
    return build(options, &pick, LSI_COUNT_OPTION, false, out);
}

void lsi_command_destroy(lsi_launch_command *command)
{
    lsi_words_free(&command->words);
    command->n_before = 0;
}

/* Variables whose values change how the ranks come to be. */
static void show_environment(lsi_text *out)
{
    static const char *const prefixes[] = {"LOCKSTEP_", "OMPI_",         "PRTE_MCA_",     "NCCL_",           "CUDA_",
                                           "NVIDIA_",   "SLURM_JOB_ID=", "SLURM_NTASKS=", "OMP_NUM_THREADS="};

    for (char **variable = environ; variable != NULL && *variable != NULL; variable++) {
        for (size_t i = 0; i < sizeof prefixes / sizeof prefixes[0]; i++) {
            if (strncmp(*variable, prefixes[i], strlen(prefixes[i])) == 0) {
                lsi_text_append(out, "# environment: ");
                lsi_words_quote(variable, 1, out);
                lsi_text_append(out, "\n");
            }
        }
    }
}

void lsi_command_show(const lsi_launch_command *command, const lsi_launch_options *options, const lsi_pick *pick,
                      const char *log_folder, lsi_text *out)
{
    if (pick->n > 0) {
        lsi_text_append(out, "# ranks: %d, %s\n", pick->n, pick->why);
    } else {
        lsi_text_append(out, "# ranks: as many as mpirun counts slots\n");
    }
    lsi_text_append(out, "# output of each rank: %s\n", log_folder);
    lsi_text_append(out, "# starts again: %lld times at most\n", (long long)options->max_restarts);
    show_environment(out);
    lsi_text_append(out, "# '%s' keeps a rank: it frames its output for launch and tells how it ended\n",
                    LSI_RANK_OPTION);
    lsi_words_quote(command->words.word, command->words.n, out);
    lsi_text_append(out, "\n");
}
